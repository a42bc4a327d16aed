"""`hwflow sim`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section
from hwflow_base.printable import counted

from ..options import GoalOptions, HardwareOptions, Project, QuantizationOptions, Verbose
from ..synth.options import CLOCK

with later():
    from hwflow_sim.tools import find_tools

    from ..facts.plan import simulation_facts
    from ..pipeline.pipeline import Pipeline
    from ..pipeline.records import keep_headline, keep_netlist, keep_simulation
    from ..synth.toolchain import find_tool, tools_of_family
    from ..views.console.accuracy import say_accuracy
    from ..views.console.plan import show_simulation
    from ..views.console.runs import failure_lines
    from ..views.console.terminal import Console
    from .widths_search import for_goal

Result = Mapping[str, object]

#: Frames of a simulation: of the RTL, and of single cells, which take longer.
FRAMES, CELL_FRAMES = 10, 3
#: Frames of a sequence, at most, where the user gives no number.
SEQUENCE = 100


@dataclass(frozen=True)
class SimRequest:
    """The request of `hwflow sim`; `frames` is None for 10, 3 with cells, or with `streaming` all rows of the data,
    up to 100."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    goal: GoalOptions = field(default_factory=GoalOptions)
    frames: Annotated[int | None, Option(
        "Frames to simulate; 10, or 3 with --netlist or --bitstream.", Section.SIMULATION, parse=Range(2))] = None
    stalls: Annotated[float, Option(
        "Probability of a stall at each end in the second run.", Section.SIMULATION, parse=Range(0, 0.98),
        excludes=["netlist", "bitstream"])] = 0.4
    seed: Annotated[int, Option("Seed of the stalls.", Section.SIMULATION)] = 1
    waves: Annotated[bool, Option("Write an FST wave file of each run.", Section.SIMULATION,
                                  excludes=["netlist", "bitstream"])] = False
    netlist: Annotated[bool, Option(
        "Simulate the netlist from yosys instead, and compare the bytes at the board's pins.",
        Section.SIMULATION)] = False
    bitstream: Annotated[bool, Option(
        "The same with the bitstream: its bits, read back as the cells and wires that they configure "
        "(docs/bitstream.md). It is made first if there is none.", Section.SIMULATION, excludes=["netlist"])] = False
    streaming: Annotated[bool, Option(
        "Play all rows of the data, up to 100, as one sequence, of a model that keeps a state from frame to frame "
        "(docs/streaming.md).", Section.SIMULATION)] = False
    clock: Annotated[float | str | None, replace(CLOCK, needs="netlist")] = None
    verbose: Verbose = False

    @property
    def cells(self) -> str | None:
        """The option that asks for cells in place of the RTL."""
        return "--netlist" if self.netlist else "--bitstream" if self.bitstream else None


def sim(console: Console, request: SimRequest) -> Result:
    """Simulate the RTL of MODEL and compare every stage with the golden model, bit for bit."""
    pipeline = Pipeline(console, request.project, request.quantization, request.hardware)
    if request.cells:
        return _prove(console, for_goal(console, pipeline, request.goal), request)
    pipeline.prepare(find_tools)
    pipeline = for_goal(console, pipeline, request.goal)
    with pipeline.locked():
        count = _frames(pipeline, request, FRAMES)
        runs = pipeline.simulate(count, stalls=request.stalls, seed=request.seed, waves=request.waves)
        keep_simulation(pipeline, runs, stalls=request.stalls, seed=request.seed)
        accuracy = pipeline.accuracy()
        keep_headline(pipeline, accuracy)
    clock = pipeline.clock()
    show_simulation(console, pipeline.plan, runs, pipeline.board, clock)
    say_accuracy(console, accuracy)
    for run in runs.values():
        if run.waves is not None:
            console.say(f"  waves: {run.waves}")
    equal = all(run.equal for run in runs.values())
    for name, run in runs.items():
        for line in failure_lines(pipeline.graph, pipeline.plan, run):
            console.fail(f"{name}: {line}")
    if equal:
        stages = counted(len(pipeline.plan.stages), "stage")
        how = "frames of one sequence" if pipeline.graph.streaming else "frames"
        console.say(f"equal: {stages}, {count} {how}, {' and '.join(runs)}, bit for bit")
        pipeline.next("synth")
    return {"exit_code": 0 if equal else 1, "equal": equal, "streaming": pipeline.graph.streaming,
            "accuracy": accuracy.facts() if accuracy else None, "warnings": pipeline.warned.facts(),
            **simulation_facts(pipeline.plan, pipeline.board, runs, clock)}


def _frames(pipeline: Pipeline, request: SimRequest, usual: int) -> int:
    """How many frames to simulate.  HwflowError where --streaming has no state to keep."""
    if not request.streaming:
        return request.frames or usual
    if not pipeline.graph.streaming:
        raise HwflowError(
            "--streaming must be given for a model that keeps a state from frame to frame, and this one keeps none",
            "leave it out, or export the model with the state of its recurrent layer as an input and an output "
            "(docs/streaming.md)",
        )
    rows = pipeline.dataset.rows if pipeline.dataset is not None and not request.cells else usual
    return request.frames or max(2, min(rows, SEQUENCE))


def _prove(console: Console, pipeline: Pipeline, request: SimRequest) -> Result:
    pipeline.prepare(find_tools, lambda: find_tool("yosys") if request.netlist else tools_of_family(
        pipeline.board.family))
    with pipeline.locked():
        proof = pipeline.prove(_frames(pipeline, request, CELL_FRAMES), seed=request.seed, clock=request.clock,
                               bitstream=request.bitstream)
        keep_netlist(pipeline, proof, seed=request.seed)
    console.table("bitstream" if request.bitstream else "netlist", ("cell", "how many"),
                  [(kind, str(count)) for kind, count in proof.cells.items()])
    if proof.difference is not None:
        console.fail(proof.difference)
    console.say(str(proof))
    if proof.equal:
        pipeline.next("run" if request.bitstream else "synth")
    return {"exit_code": 0 if proof.equal else 1, "warnings": pipeline.warned.facts(), **proof.facts()}
