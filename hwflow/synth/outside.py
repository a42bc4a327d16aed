"""The clock that a board's designs can count on, and the board's memory for weights beside a core at this clock."""

from __future__ import annotations

from ..hls import OutsideMemory
from .boards import Board
from .families import FAMILIES

__all__ = ["expected_mhz", "outside_of"]


def expected_mhz(board: Board) -> float:
    """The clock that a design on `board` reaches at least, by experience; the oscillator's where there is no PLL."""
    expected = FAMILIES[board.family].expected_mhz
    settings = board.technology().pll_settings(board.clock_mhz, expected)
    return board.clock_mhz if settings is None else float(settings.output_mhz)


def outside_of(board: Board) -> OutsideMemory | None:
    """The memory of `board` for weights; None where it has none.

    A core beside it runs at `expected_mhz`, but with weights in a flash no faster than this, because it has its clock.
    """
    if not board.memories:
        return None
    part, core_mhz = board.memories[0].part, expected_mhz(board)
    return OutsideMemory(part, core_mhz if part.writable else min(core_mhz, part.clock_mhz))
