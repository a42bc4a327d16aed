"""The first step of synthesis alone: the netlist that goes to place and route, for those who only simulate it."""

from __future__ import annotations

from pathlib import Path

from hwflow_rtl.io import BoardTop

from ..build import locked
from .boards import Board
from .flow import design_text, make_netlist
from .job import Job, Progress
from .toolchain import find_tool

__all__ = ["make_netlist_of"]


def make_netlist_of(top: BoardTop, board: Board, folder: Path, progress: Progress = lambda text: None) -> Path:
    """The JSON file of the cells of `top`, in `folder`/netlist: the same that `synthesize` makes there, or has made.

    Raises MissingTool without yosys, ToolFailed with its message.
    """
    job = Job(board, folder.absolute(), {"yosys": find_tool("yosys")}, progress)
    with locked(job.folder, progress):
        make_netlist(job, design_text(top))
    return job.folder / "netlist" / "netlist.json"
