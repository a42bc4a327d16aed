"""How much a server takes on before it says no."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MEBIBYTE", "ServeLimits"]

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class ServeLimits:
    """What is bounded, so that memory and waiting are.

    `queue`: frames that were accepted and wait for a board; more are refused with 503.  `max_batch`: frames that a
    board is given at once, at most.  `batch_wait`: seconds that a board without work waits for more than the first
    request.  `timeout`: seconds from a request to its answer; then it is 504.  `max_body`: bytes of the body of a
    request.  `memory`: bytes of the bodies of all requests that have no answer yet.  `attempts`: boards that a request
    may have lost before it is given up.  `retry`: seconds until a board that is gone is looked for again.
    """

    queue: int = 1024
    max_batch: int = 64
    batch_wait: float = 0.001
    timeout: float = 30.0
    max_body: int = 16 * MEBIBYTE
    memory: int = 256 * MEBIBYTE
    attempts: int = 3
    retry: float = 1.0
