"""Why a request has no result: each error has the status that HTTP has for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hwflow_base.errors import HwflowError


class NotServed(HwflowError):
    """A request without a result.  `retry_after`: whether the same request may have one later."""

    status: ClassVar[int] = 500
    retry_after: ClassVar[bool] = False


class BadRequest(NotServed):
    """The request says something that the model has not."""

    status = 400


class UnknownCoding(NotServed):
    """The body is compressed in a way that nobody here knows."""

    status = 415


class QueueFull(NotServed):
    """The queue is full."""

    status = 503
    retry_after = True


class NoBoard(NotServed):
    """No board is there."""

    status = 503
    retry_after = True


class ServerStops(NotServed):
    """The server ends, and takes no more requests."""

    status = 503
    retry_after = True


class BoardsLost(NotServed):
    """Several boards were lost while they computed this request."""

    status = 502
    retry_after = True


class TimedOut(NotServed):
    """The result did not come in time."""

    status = 504


# How much a server takes on before it says no.


MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class ServeLimits:
    """Bounds, so that memory and waiting are.

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
