"""The command that runs a model on a board."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import locked

from .. import golden
from ..accuracy import compare, float_outputs, question
from ..flow import Flow
from ..host.design import find_designs
from ..host.open_board import OpenBoard, open_board
from ..host.pace import Patience
from ..host.ports.serial import ports_text
from ..layers.formats import IntArray
from ..report.board import BoardRun, differences, show_run
from ..report.console import Console
from ..request import RunRequest
from ..steps.folders import other_model
from ..steps.measurements import required_dataset
from ..synth import load_board

__all__ = ["run"]


def run(console: Console, request: RunRequest) -> Mapping[str, Any]:
    """All rows of the data on the board, against the golden model; exit code 1 where an integer differs."""
    flow = Flow(console, request.project)
    whole = required_dataset(flow, "run must have inputs to run on")
    if request.port is None:
        raise HwflowError("the board's serial port must be named with --port", ports_text())
    dataset = whole if request.rows is None else whole.first(request.rows)
    asked = question(flow.model, dataset)  # labels that do not fit are refused before anything runs
    with locked(flow.folder, console.progress), opened(flow, request, request.port) as board:
        frames = golden.run_prologue(board.design.quantized, dataset.inputs)
        made, seconds = measured(console, board, frames)
        with console.rows("golden model") as progress:
            expected = golden.run(board.design.quantized, frames, keep=False, progress=progress)
        with console.rows("float model") as progress:
            reference = float_outputs(flow.model, dataset.inputs, progress)
        accuracy = flow.judged(compare(asked, dataset, reference, golden.run_epilogue(board.design.quantized, made)),
                               board.design.quantized, dataset)
        found = differences(board.design.quantized.graph, expected, made)
        result = BoardRun(board.design.facts, request.port, board.transport, dataset.rows, seconds,
                          board.statistics, found, accuracy, board.filled)
    show_run(console, result)
    return {"exit_code": 0 if result.equal else 1, **result.facts(), "warnings": flow.warned.facts()}


def opened(flow: Flow, request: RunRequest, port: str) -> OpenBoard:
    """The board, with the design of the model that it names; of that alone where the user named the board, too."""
    patience = Patience(silence=request.patience, stall=max(Patience().stall, 10 * request.patience))
    build, model = flow.project.build, flow.folder.name
    board = None if request.board is None else load_board(request.board).name
    found = find_designs(build, model, board)
    if not found:
        what, which = (f" for {board}", board) if board else ("", "BOARD")
        raise HwflowError(
            f"there must be a design of '{flow.project.model}'{what} below '{build}', but there is none",
            f"make its bitstream with `hwflow synth {flow.project.model} --board {which}` first",
        )
    other = other_model(found[0][0].parent.parent, flow.project.model)
    if other is not None:
        raise HwflowError(
            f"'{found[0][0]}' must hold the design of '{flow.project.model}', but is the design of another model "
            f"of the same name, '{other}'",
            "run `hwflow synth` for this one first, or name the folder of its results with --build",
        )
    design = found[0][0] if board is not None and len(found) == 1 else None
    with contextlib.ExitStack() as stack:
        weights = any(facts.weights is not None for _, facts in found)
        progress = stack.enter_context(flow.console.rows("weights of the board's memory")) if weights else None
        return open_board(port, design=design, build=build, model=model, board=board, baud=request.baud,
                          patience=patience, progress=progress)


def measured(console: Console, board: OpenBoard, frames: Mapping[str, IntArray]) -> tuple[dict[str, IntArray], float]:
    """What the board makes of the frames, and how many seconds that takes, the line included."""
    with console.rows("run on the board") as progress:
        started = time.perf_counter()
        made = board.run_integers(frames, progress)
        return made, time.perf_counter() - started
