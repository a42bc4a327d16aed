"""The first step of synthesis alone: the netlist that goes to place and route, for those who only simulate it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwflow_rtl.io import Ends

from ..build import locked
from .boards import Board
from .clock import ON_BOARD, goal_pll
from .flow import GOALS, board_top, design_text, make_netlist
from .job import Job, Progress
from .toolchain import find_tool

__all__ = ["make_netlist_of"]


def make_netlist_of(core: Any, board: Board, folder: Path, *, ends: Ends | None, identity: bytes,
                    clock: float | str | None = None, progress: Progress = lambda text: None) -> Path:
    """The JSON file of the cells of `core` on `board`, in `folder`/netlist: the one that `synthesize` with the same
    arguments makes there, or has made.

    Raises MissingTool without yosys, ToolFailed with its message.
    """
    job = Job(board, folder.absolute(), {"yosys": find_tool("yosys")}, progress)
    pll = None if clock == ON_BOARD else goal_pll(board, GOALS[board.family])
    with locked(job.folder, progress):
        make_netlist(job, design_text(board_top(core, board, ends, identity=identity, pll=pll)))
    return job.folder / "netlist" / "netlist.json"
