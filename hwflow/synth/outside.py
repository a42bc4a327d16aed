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
    """The memory of `board` for weights, beside a core at `expected_mhz`; None where it has none."""
    return OutsideMemory(board.memories[0].part, expected_mhz(board)) if board.memories else None
