"""The line of a simulated board that is as the transport of a board file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwflow_base.errors import HwflowError
from hwflow_sim.board import Line, UartLine

from ..synth import Board

__all__ = ["line_of"]


def uart(board: Board) -> UartLine:
    return UartLine(board.clock_mhz * 1e6 / board.transport.entry["baud"])


#: By the kind of the transport.
LINES: Mapping[str, Callable[[Board], Line]] = {"uart": uart}


def line_of(board: Board) -> Line:
    """At the rate of the board file.  HwflowError for a kind of transport that is not simulated."""
    kind = board.transport.kind.name
    if kind not in LINES:
        raise HwflowError(f"transport must be one that can be simulated, {', '.join(LINES)}, not {kind}",
                          "choose one with --transport")
    return LINES[kind](board)
