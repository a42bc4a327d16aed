"""`hwflow sim`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from hwflow_base.errors import HwflowError
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section
from hwflow_base.printable import counted

from ..options import HardwareOptions, Project, QuantizationOptions, Verbose
from ..synth.options import CLOCK
from .parser.command import usage_error, was_said

with later():
    from hwflow_sim.tools import find_tools

    from ..flow import Flow
    from ..steps.recording import keep_headline, keep_netlist, keep_simulation
    from ..synth.toolchain import find_tool
    from ..views.console.accuracy import say_accuracy
    from ..views.console.plan import show_simulation, simulation_facts
    from ..views.console.runs import failure_lines
    from ..views.console.terminal import Console

Result = Mapping[str, Any]

#: Frames of a simulation: of the RTL, and of a netlist, whose cells take longer.
FRAMES, NETLIST_FRAMES = 10, 3
#: Frames of a sequence, at most, where the user gives no number.
SEQUENCE = 100


@dataclass(frozen=True)
class SimRequest:
    """What `hwflow sim` is asked; `frames` is None for 10, 3 with `netlist`, or with `streaming` all rows of the data,
    up to 100."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    frames: Annotated[int | None, Option(
        "Frames to simulate; 10, or 3 with --netlist.", Section.SIMULATION, parse=Range(2))] = None
    stalls: Annotated[float, Option(
        "Probability of a stall at each end in the second run.", Section.SIMULATION, parse=Range(0, 0.98))] = 0.4
    seed: Annotated[int, Option("Seed of the stalls.", Section.SIMULATION)] = 1
    waves: Annotated[bool, Option("Write an FST wave file of each run.", Section.SIMULATION)] = False
    netlist: Annotated[bool, Option(
        "Simulate the netlist from yosys instead, and compare the bytes at the board's pins.",
        Section.SIMULATION)] = False
    streaming: Annotated[bool, Option(
        "Play all rows of the data, up to 100, as one sequence, of a model that keeps a state from frame to frame "
        "(docs/streaming.md).", Section.SIMULATION)] = False
    clock: Annotated[float | str | None, replace(CLOCK, needs="netlist")] = None
    verbose: Verbose = False


def sim(console: Console, request: SimRequest) -> Result:
    """Simulate the RTL of MODEL and compare every stage with the golden model, bit for bit."""
    if request.netlist and was_said("stalls"):
        raise usage_error("--stalls must not be given with --netlist, where only the serial line stalls")
    if request.clock is not None and not request.netlist:
        raise usage_error("--clock must be given together with --netlist: only the netlist has a PLL")
    flow = Flow(console, request.project, request.quantization, request.hardware)
    if request.netlist:
        return _prove(console, flow, request)
    flow.prepare(find_tools)
    with flow.locked():
        count = _frames(flow, request, FRAMES)
        runs = flow.simulate(count, stalls=request.stalls, seed=request.seed, waves=request.waves)
        keep_simulation(flow, runs, stalls=request.stalls, seed=request.seed)
        accuracy = flow.accuracy()
        keep_headline(flow, accuracy)
    clock = flow.clock()
    show_simulation(console, flow.plan, runs, flow.board, clock)
    say_accuracy(console, accuracy)
    for run in runs.values():
        if run.waves is not None:
            console.say(f"  waves: {run.waves}")
    equal = all(run.equal for run in runs.values())
    for name, run in runs.items():
        for line in failure_lines(flow.graph, flow.plan, run):
            console.fail(f"{name}: {line}")
    if equal:
        stages = counted(len(flow.plan.stages), "stage")
        how = "frames of one sequence" if flow.graph.streaming else "frames"
        console.say(f"equal: {stages}, {count} {how}, {' and '.join(runs)}, bit for bit")
        flow.next("synth")
    return {"exit_code": 0 if equal else 1, "equal": equal, "streaming": flow.graph.streaming,
            "accuracy": accuracy.facts() if accuracy else None, "warnings": flow.warned.facts(),
            **simulation_facts(flow.plan, flow.board, runs, clock)}


def _frames(flow: Flow, request: SimRequest, usual: int) -> int:
    """How many frames to simulate.  HwflowError where --streaming has no state to keep."""
    if not request.streaming:
        return request.frames or usual
    if not flow.graph.streaming:
        raise HwflowError(
            "--streaming must be given for a model that keeps a state from frame to frame, and this one keeps none",
            "leave it out, or export the model with the state of its recurrent layer as an input and an output "
            "(docs/streaming.md)",
        )
    rows = flow.dataset.rows if flow.dataset is not None and not request.netlist else usual
    return request.frames or max(2, min(rows, SEQUENCE))


def _prove(console: Console, flow: Flow, request: SimRequest) -> Result:
    if request.waves:
        raise HwflowError("--waves must not be given with --netlist, whose wires have no names")
    flow.prepare(find_tools, lambda: find_tool("yosys"))
    with flow.locked():
        proof = flow.prove(_frames(flow, request, NETLIST_FRAMES), seed=request.seed, clock=request.clock)
        keep_netlist(flow, proof, seed=request.seed)
    console.table("netlist", ("cell", "how many"), [(kind, str(count)) for kind, count in proof.cells.items()])
    if proof.difference is not None:
        console.fail(proof.difference)
    console.say(str(proof))
    if proof.equal:
        flow.next("synth")
    return {"exit_code": 0 if proof.equal else 1, "warnings": flow.warned.facts(), **proof.facts()}
