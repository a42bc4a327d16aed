"""Synthesis, place and route: from a core and a board to a bitstream and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.later import lazy_names

if TYPE_CHECKING:
    from .bitstream import synthesize
    from .boards import Board, list_boards, load_board
    from .defects import defects_of
    from .report import SynthesisReport, Usage
    from .toolchain import database_status, tool_status
    from .top import board_top, ends_before_plan, ends_of

__all__ = [
    "Board", "SynthesisReport", "Usage", "board_top", "database_status", "defects_of", "ends_before_plan", "ends_of",
    "list_boards", "load_board", "synthesize", "tool_status",
]

__getattr__, __dir__ = lazy_names(__name__, {
    "bitstream": ("synthesize",), "boards": ("Board", "list_boards", "load_board"),
    "defects": ("defects_of",), "report": ("SynthesisReport", "Usage"), "toolchain": ("database_status", "tool_status"),
    "top": ("board_top", "ends_before_plan", "ends_of"),
})
