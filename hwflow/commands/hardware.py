"""The commands on the way from integers to a bitstream, and what they need: boards and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_sim.doctor import simulation_tools
from hwflow_sim.tools import find_tools

from ..command_line import command_line
from ..export import export, require_room
from ..flow import Flow
from ..report import tables
from ..report.accuracy import say_accuracy
from ..report.axi_stream import port_facts, show_ports
from ..report.board import say_weights
from ..report.clock import CoreClock, clock_of
from ..report.console import Console
from ..report.numbers import counted, rate_text
from ..report.plan import plan_facts, show_plan, show_simulation, simulation_facts
from ..report.synthesis import show_synthesis, synthesis_facts, too_slow
from ..request import BuildRequest, ProgramRequest, SimRequest, SynthRequest
from ..steps.exporting import network_of
from ..steps.recording import keep_headline, keep_netlist, keep_simulation
from ..synth import list_boards, load_board, tool_status
from ..synth.outside import expected_mhz
from ..synth.program import programmer_status
from ..synth.toolchain import find_tool, tools_of_family

__all__ = ["boards", "build", "doctor", "sim", "synth"]

Result = Mapping[str, Any]

#: Frames of a simulation: of the RTL, and of a netlist, whose cells take longer.
FRAMES, NETLIST_FRAMES = 10, 3
#: Frames of a sequence, at most, where the user gives no number.
SEQUENCE = 100
#: Where exports go by default, in the folder of the board.
EXPORTS = "export"


def build(console: Console, request: BuildRequest) -> Result:
    """The plan and the Verilog below build/<model>/<board>, and the exports."""
    flow = Flow(console, request.project, request.quantization, request.hardware)
    exports = _exports(flow, request)
    flow.prepare(*(partial(require_room, place) for place in exports.values()))
    with flow.locked():
        folder = flow.generate()
        axi_stream = flow.generate(axi_stream=True) if request.axi_stream or exports else None
        if axi_stream is not None and exports:
            network = network_of(flow.graph, flow.plan, flow.board, axi_stream.parent, flow.frames(FRAMES),
                                 flow.folder.name)
            for kind, place in exports.items():
                export(network, kind, place)
    clock = core_clock(flow)
    show_plan(console, flow.plan, flow.board, clock)
    rate = request.hardware.frames_per_second
    if rate is not None:
        console.say(f"  planned for {rate_text(rate)} frames/s at {expected_mhz(flow.board):g} MHz, the clock that "
                    f"routed designs of {flow.board.family} reach at least")
    console.say(f"plan: {flow.board_folder / 'plan.yaml'}; Verilog and ROM contents: {folder}")
    facts = {"plan": str(flow.board_folder / "plan.yaml"), "rtl": str(folder), "warnings": flow.warned.facts(),
             **plan_facts(flow.plan, flow.board, clock=clock)}
    if axi_stream is not None:
        facts |= {"axi_stream": str(axi_stream), "ports": port_facts(flow.graph, flow.plan)}
        show_ports(console, facts["ports"])
        console.say(f"with AXI4-Stream ports: {axi_stream}")
        facts |= {"exports": {kind: str(place) for kind, place in exports.items()}}
        for kind, place in exports.items():
            console.say(f"as {kind}: {place}, which says in README.md how to use it")
    _say_next(console, flow, "sim")
    return facts


def _say_next(console: Console, flow: Flow, command: str) -> None:
    console.next(command_line(command, flow.project, flow.quantization, flow.hardware))


def _exports(flow: Flow, request: BuildRequest) -> dict[str, Path]:
    """The folder of each export."""
    if request.output is not None and not request.export:
        raise HwflowError("--output must be given together with --export, whose folders it holds")
    output = request.output or flow.board_folder / EXPORTS
    return {kind: output / kind for kind in request.export}


def sim(console: Console, request: SimRequest) -> Result:
    """Every stage of the RTL against the golden model, at full speed and stalled at random; exit code 1 if unequal.

    With --netlist the cells that go to place and route instead, from pin to pin.
    """
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
    clock = core_clock(flow)
    show_simulation(console, flow.plan, runs, flow.board, clock)
    say_accuracy(console, accuracy)
    for run in runs.values():
        if run.waves is not None:
            console.say(f"  waves: {run.waves}")
    equal = all(run.equal for run in runs.values())
    for name, run in runs.items():
        for line in tables.failure_lines(flow.graph, flow.plan, run):
            console.fail(f"{name}: {line}")
    if equal:
        stages = counted(len(flow.plan.stages), "stage")
        how = "frames of one sequence" if flow.graph.streaming else "frames"
        console.say(f"equal: {stages}, {count} {how}, {' and '.join(runs)}, bit for bit")
        _say_next(console, flow, "synth")
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


def core_clock(flow: Flow) -> CoreClock:
    """What the cycles of the plan are counted in."""
    return clock_of(flow.plan, flow.graph, flow.board, flow.synthesis)


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
        _say_next(console, flow, "synth")
    return {"exit_code": 0 if proof.equal else 1, "warnings": flow.warned.facts(), **proof.facts()}


def synth(console: Console, request: SynthRequest) -> Result:
    """The bitstream in build/<model>/<board>/synth."""
    flow = Flow(console, request.project, request.quantization, request.hardware)
    flow.prepare(lambda: tools_of_family(flow.board.family))
    with flow.locked():
        report = flow.synthesize(request.synthesis)
    show_synthesis(console, flow.plan, flow.board, report)
    say_weights(console, flow.synthesis)
    slow = too_slow(report, request.synthesis.clock)
    if slow:
        console.fail(slow)
    else:
        console.next(command_line("program", ProgramRequest(flow.project.model, flow.hardware.board,
                                                            build=flow.project.build)))
    return {"exit_code": 1 if slow else 0, "warnings": flow.warned.facts(),
            **synthesis_facts(flow.plan, flow.board, report),
            **plan_facts(flow.plan, flow.board, clock=core_clock(flow))}


def boards(console: Console) -> Result:
    """The boards that come with hwflow."""
    found = [load_board(name) for name in list_boards()]
    console.table("boards", ("board", "MHz", "LUT", "FF", "DSP", "RAM", "what it is"), [
        (b.name, f"{b.clock_mhz:g}", *map(str, (b.resources.lut, b.resources.ff, b.resources.dsp, b.resources.ram)),
         b.title) for b in found])
    console.say("SPRAM besides: " + ", ".join(f"{b.resources.spram} on {b.name}" for b in found if b.resources.spram))
    sizes: dict[str, list[str]] = {}
    for board in found:
        for memory in board.memories:
            sizes.setdefault(str(memory), []).append(board.name)
    console.say("memory beside the FPGA: " + "; ".join(f"{size} on {', '.join(on)}" for size, on in sizes.items()))
    ways: dict[str, list[str]] = {}
    for board in found:
        for kind in board.transports:
            ways.setdefault(kind, []).append(board.name)
    console.say("ways to the host: " + "; ".join(
        f"{kind} on {'all' if len(on) == len(found) else ', '.join(on)}" for kind, on in ways.items()))
    console.say("A board of your own: pass its YAML file as --board; see docs/add-a-board.md")
    return {"boards": [{"name": b.name, "title": b.title, "device": b.device, "clock_mhz": b.clock_mhz,
                        "resources": b.resources.counts(), "memories": [memory.facts() for memory in b.memories],
                        "transports": [transport.facts().facts() for transport in b.transports.values()]}
                       for b in found]}


def doctor(console: Console) -> Result:
    """What is installed and what is missing; exit code 1 where nothing can be simulated without it."""
    tools = (*simulation_tools(), *tool_status(), *programmer_status())
    tables.show_tools(console, tools)
    complete = all(tool.found or not tool.needed for tool in tools)
    return {"exit_code": 0 if complete else 1, "tools": [asdict(tool) for tool in tools]}
