"""`hwflow run`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NoReturn

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import locked
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section, command_line

from ..host.session import Patience
from ..options import BOARD, HardwareOptions, Project, Verbose
from .generate import Asked, TextOptions

with later():
    import numpy as np

    from .. import golden
    from ..accuracy import compare, float_outputs, question
    from ..host.open_board import OpenBoard, open_board
    from ..host.ports.serial import ports_text
    from ..host.stream import Throughput
    from ..layers.formats import IntArray
    from ..pipeline.boards import designs_of, patience_of, simulated_design
    from ..pipeline.pipeline import Pipeline, required_dataset
    from ..pipeline.records import keep_board
    from ..quantize import Quantized
    from ..synth import load_board
    from ..views.console.runs import BoardRun, differences, show_run
    from ..views.console.terminal import Console
    from .generate import generated

#: How often it is looked whether a simulation still runs.
SECONDS_TO_LOOK = 1.0
#: The smallest --patience, in seconds; no board answers sooner.
SHORTEST = 0.01


def seconds(text: str) -> float:
    """A finite number of seconds, at least `SHORTEST`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not SHORTEST <= value < math.inf:
        raise ValueError(f"{text!r} must be seconds, at least {SHORTEST:g}")
    return value


@dataclass(frozen=True)
class BoardAccess:
    """How a command comes to a board and its design."""

    baud: Annotated[int | None, Option(
        "The bit rate, if it is not that of the design.", Section.BOARD, parse=Range(1), excludes=["simulate"],
        common=True)] = None
    board: Annotated[str | None, Option(
        f"Accept only the design for this board, or simulate this one; default: any design of MODEL, or {BOARD}.",
        Section.BOARD, common=True)] = None
    transport: Annotated[str | None, Option(
        "With --simulate: the way from the host to the board, one that its file has, as uart; default: the first.",
        Section.BOARD, "KIND", needs="simulate", common=True)] = None
    patience: Annotated[float, Option(
        "How long the board may be silent.", Section.BOARD, "SECONDS", parse=seconds)] = Patience().silence

    @property
    def hardware(self) -> HardwareOptions:
        """The options of a pipeline that makes the design of a simulated board."""
        return HardwareOptions(self.board or BOARD, self.transport)


@dataclass(frozen=True)
class RunRequest:
    """The request of `hwflow run`."""

    project: Project
    port: Annotated[str | None, Option(
        "The board's port, like /dev/ttyUSB0, or socket://HOST:PORT.  Without it, hwflow lists the ports of this "
        "machine.", Section.BOARD, "PORT", excludes=["simulate"], common=True)] = None
    access: BoardAccess = BoardAccess()
    rows: Annotated[int | None, Option("Run only the first rows of the data.", Section.MODEL, parse=Range(1))] = None
    simulate: Annotated[bool, Option(
        "Simulate the whole board and its line in place of a real one, with what is in the build folder.",
        Section.SIMULATION)] = False
    terminal: Annotated[bool, Option(
        "With --simulate: give the board a pseudo-terminal for other programs, until Ctrl-C; run no data.",
        Section.SIMULATION, needs="simulate")] = False
    text: TextOptions = field(default_factory=TextOptions)
    verbose: Verbose = False


def run(console: Console, request: RunRequest) -> Mapping[str, object]:
    """Run MODEL on a programmed or a simulated board: compare every row of the data with the golden model, bit for bit.

    The design is the one that `hwflow synth` left in the build folder.  Exit codes: 0 equal; 1 if a number differs; 2
    if no board answers, the board holds another design, or the link to it is lost.
    """
    pipeline = Pipeline(console, request.project, hardware=request.access.hardware)
    if request.terminal:
        return offered(console, pipeline, request)
    if (text := Asked.of(request.text)) is not None:
        require_place(request)
        with contextlib.ExitStack() as stack:
            board = stack.enter_context(opened_for(pipeline, request, stack, text.require))
            return generated(console, board, text, simulated=request.simulate)
    whole = required_dataset(pipeline, "run must have inputs to run on")
    require_place(request)
    dataset = whole if request.rows is None else whole.first(request.rows)
    asked = question(pipeline.model, dataset)  # labels that do not fit are refused before anything runs
    with contextlib.ExitStack() as stack:
        board = stack.enter_context(opened_for(pipeline, request, stack))
        quantized = board.design.quantized
        frames = golden.run_prologue(quantized, dataset.inputs)
        outputs, throughput = measured(console, board, frames, simulated=request.simulate)
        with console.rows("golden model") as progress:
            expected = golden.run(quantized, frames, keep=False, progress=progress)
        with console.rows("float model") as progress:
            reference = float_outputs(pipeline.model, dataset.inputs, progress)
        compared = compare(asked, dataset, reference, golden.run_epilogue(quantized, outputs, dataset.inputs))
        accuracy = pipeline.judged(compared, quantized, dataset)
        result = BoardRun(board.design.facts, board.link.port.name, board.transport, throughput, board.statistics,
                          differences(quantized.graph, expected, outputs), accuracy, board.filled, request.simulate)
    keep_board(pipeline, board.design, result, frames, outputs)
    show_run(console, result)
    if result.equal:
        console.next(command_line("report", pipeline.project, HardwareOptions(board.design.facts.board)))
    return {"exit_code": 0 if result.equal else 1, **result.facts(), "warnings": pipeline.warned.facts()}


def require_place(request: RunRequest) -> None:
    """HwflowError unless the request says where the board is."""
    if request.port is None and not request.simulate:
        raise HwflowError("the board's port must be named with --port, or simulated with --simulate", ports_text())


def offered(console: Console, pipeline: Pipeline, request: RunRequest) -> NoReturn:
    """A simulated board behind a pseudo-terminal, until a signal; ToolFailed where the simulation ends by itself."""
    _, simulated = simulated_design(pipeline)
    with simulated.board() as board:
        name = f"{pipeline.folder.name} on {pipeline.board.name}"
        console.say(f"{name}, simulated: {board.pty()} at {simulated.transport}")
        while True:
            board.join(SECONDS_TO_LOOK)


def opened_for(pipeline: Pipeline, request: RunRequest, stack: contextlib.ExitStack,
               require: Callable[[Quantized], None] = lambda quantized: None) -> OpenBoard:
    """The board of the request, real or simulated; `require` refuses a model before a simulation is compiled."""
    if request.simulate:
        _, simulated = simulated_design(pipeline, require)
        return simulated.open()
    assert request.port is not None
    stack.enter_context(locked(pipeline.folder, pipeline.console.progress))
    return opened(pipeline, request, request.port)


def opened(pipeline: Pipeline, request: RunRequest, port: str) -> OpenBoard:
    """The board, with the design of the model that it names; of that alone where the user named the board, too."""
    build, model = pipeline.project.build, pipeline.folder.name
    designs = designs_of(pipeline, request.access.board)
    board = None if request.access.board is None else load_board(request.access.board).name
    design = designs[0][0] if board is not None and len(designs) == 1 else None
    with contextlib.ExitStack() as stack:
        weights = any(facts.weights is not None for _, facts in designs)
        progress = stack.enter_context(pipeline.console.rows("weights of the board's memory")) if weights else None
        return open_board(port, design=design, build=build, model=model, board=board, baud=request.access.baud,
                          patience=patience_of(request.access.patience), progress=progress)


def measured(console: Console, board: OpenBoard, frames: Mapping[str, IntArray], *, simulated: bool
             ) -> tuple[dict[str, IntArray], Throughput]:
    """The results of the board for the frames, and what the time went for."""
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
