"""How a user wants a design placed and routed.  It imports no hardware, so a command line knows it at once."""

from __future__ import annotations

from dataclasses import dataclass

from .placer import AS_IT_IS, Placer

__all__ = ["ON_BOARD", "SynthesisOptions"]

#: The clock that is the board's oscillator, in place of MHz.
ON_BOARD = "board"


@dataclass(frozen=True)
class SynthesisOptions:
    """How a design is placed and routed; `synthesize` says what each means."""

    seed: int = 1
    seeds: int = 1
    jobs: int | None = None
    clock: float | str | None = None
    placer: Placer = AS_IT_IS
