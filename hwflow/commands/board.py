"""The command that runs a model on a board."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import locked

from .. import golden
from ..accuracy import compare, float_outputs, question
from ..command_line import command_line
from ..flow import Flow
from ..host.design import find_designs
from ..host.identity import DesignFacts
from ..host.open_board import OpenBoard, open_board
from ..host.pace import Patience
from ..host.ports.serial import ports_text
from ..host.stream import Throughput
from ..layers.formats import IntArray
from ..report.board import BoardRun, differences, show_run
from ..report.console import Console
from ..request import BOARD, HardwareOptions, RunRequest
from ..steps.folders import other_model
from ..steps.measurements import required_dataset
from ..steps.recording import keep_board
from ..synth import load_board
from .simulated import simulated_design

__all__ = ["designs_of", "run"]

#: How often it is looked whether a simulation still runs.
SECONDS_TO_LOOK = 1.0


def run(console: Console, request: RunRequest) -> Mapping[str, Any]:
    """All rows of the data on the board, against the golden model; exit code 1 where an integer differs."""
    flow = Flow(console, request.project, hardware=HardwareOptions(request.board or BOARD, request.transport))
    if request.terminal:
        return offered(flow, request)
    whole = required_dataset(flow, "run must have inputs to run on")
    require_place(request)
    dataset = whole if request.rows is None else whole.first(request.rows)
    asked = question(flow.model, dataset)  # labels that do not fit are refused before anything runs
    with contextlib.ExitStack() as stack:
        board = stack.enter_context(opened_for(flow, request, stack))
        quantized = board.design.quantized
        frames = golden.run_prologue(quantized, dataset.inputs)
        made, throughput = measured(console, board, frames, simulated=request.simulate)
        with console.rows("golden model") as progress:
            expected = golden.run(quantized, frames, keep=False, progress=progress)
        with console.rows("float model") as progress:
            reference = float_outputs(flow.model, dataset.inputs, progress)
        accuracy = flow.judged(compare(asked, dataset, reference, golden.run_epilogue(quantized, made)), quantized,
                               dataset)
        result = BoardRun(board.design.facts, board.link.port.name, board.transport, throughput, board.statistics,
                          differences(quantized.graph, expected, made), accuracy, board.filled, request.simulate)
    keep_board(flow, board.design, result, frames, made)
    show_run(console, result)
    if result.equal:
        console.next(command_line("report", flow.project, HardwareOptions(board.design.facts.board)))
    return {"exit_code": 0 if result.equal else 1, **result.facts(), "warnings": flow.warned.facts()}


def require_place(request: RunRequest) -> None:
    """HwflowError unless the request says where the board is."""
    if request.simulate:
        given = {"--port": request.port, "--baud": request.baud}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong:
            raise HwflowError(f"{wrong} must be left out with --simulate, which has a line of its own")
    elif request.transport is not None:
        raise HwflowError("--transport must be left out without --simulate: the name of the port says what the way to "
                          "the board is")
    elif request.port is None:
        raise HwflowError("the board's port must be named with --port, or simulated with --simulate", ports_text())


def offered(flow: Flow, request: RunRequest) -> NoReturn:
    """A simulated board behind a pseudo-terminal, until a signal; ToolFailed where the simulation ends by itself."""
    if not request.simulate:
        raise HwflowError("--terminal must be given with --simulate: it is for simulated boards")
    _, made = simulated_design(flow)
    with made.board() as board:
        flow.console.say(f"{flow.folder.name} on {flow.board.name}, simulated: {board.pty()} at {made.transport}")
        while True:
            board.join(SECONDS_TO_LOOK)


def opened_for(flow: Flow, request: RunRequest, stack: contextlib.ExitStack) -> OpenBoard:
    """The board of the request, real or simulated."""
    if request.simulate:
        _, made = simulated_design(flow)
        return made.open()
    assert request.port is not None
    stack.enter_context(locked(flow.folder, flow.console.progress))
    return opened(flow, request, request.port)


def opened(flow: Flow, request: RunRequest, port: str) -> OpenBoard:
    """The board, with the design of the model that it names; of that alone where the user named the board, too."""
    patience = Patience(silence=request.patience, stall=max(Patience().stall, 10 * request.patience))
    build, model = flow.project.build, flow.folder.name
    found = designs_of(flow, request.board)
    board = None if request.board is None else load_board(request.board).name
    design = found[0][0] if board is not None and len(found) == 1 else None
    with contextlib.ExitStack() as stack:
        weights = any(facts.weights is not None for _, facts in found)
        progress = stack.enter_context(flow.console.rows("weights of the board's memory")) if weights else None
        return open_board(port, design=design, build=build, model=model, board=board, baud=request.baud,
                          patience=patience, progress=progress)


def designs_of(flow: Flow, name: str | None) -> tuple[tuple[Path, DesignFacts], ...]:
    """The designs of the model, the newest first, or those for the board of that name.  HwflowError where there are
    none, or where they belong to another model of the same name."""
    build, model = flow.project.build, flow.folder.name
    board = None if name is None else load_board(name).name
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
    return found


def measured(console: Console, board: OpenBoard, frames: Mapping[str, IntArray], *, simulated: bool
             ) -> tuple[dict[str, IntArray], Throughput]:
    """What the board makes of the frames, and what the time went for."""
    count, at_once = len(next(iter(frames.values()))), max(1, board.link.room // board.design.facts.bytes_in)
    pieces = ({name: array[k:k + at_once] for name, array in frames.items()} for k in range(0, count, at_once))
    parts: list[dict[str, IntArray]] = []
    unit = "frames/s simulated" if simulated else "frames/s"
    with console.rows("run on the simulated board" if simulated else "run on the board", unit) as progress, (
            board.stream_integers(pieces)) as stream:
        for part in stream:
            parts.append(part)
            progress(stream.throughput.frames, count)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, stream.throughput
