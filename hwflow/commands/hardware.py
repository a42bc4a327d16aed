"""The commands on the way from a model to a bitstream, and what they need: boards and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import create_folder, require_folder, require_plain_target, same_file, write_atomically
from hwflow_sim.doctor import simulation_tools
from hwflow_sim.tools import find_tools

from .. import onnx
from ..flow import Flow, Settings
from ..hls.buffers import ring_bytes
from ..layers.base import Layer
from ..layers.formats import Tensor
from ..onnx import Severity
from ..onnx.container.files import read
from ..onnx.errors import LimitError, ShapeLimitError
from ..onnx.rewrite.passes import remove_unused
from ..report import tables
from ..report.accuracy import say_accuracy, show_accuracy, show_layers
from ..report.axi_stream import port_facts, show_ports
from ..report.clock import CoreClock, clock_of
from ..report.console import Console
from ..report.hardware import hardware_facts, show_hardware, show_weights, weights_facts
from ..report.info import describe_model
from ..report.mapping import mapped
from ..report.model import show_model
from ..report.picture import svg
from ..report.places import without_hardware
from ..report.plan import plan_facts, show_plan, show_simulation, simulation_facts
from ..report.synthesis import show_synthesis, synthesis_facts, too_slow
from ..synth import list_boards, load_board, tool_status
from ..synth.program import programmer_status
from ..synth.toolchain import find_tool, tools_of_family
from .onnx_files import require_apart
from .widths import quantize_within

__all__ = ["boards", "build", "check", "doctor", "golden", "info", "quantize", "sim", "synth"]

Result = Mapping[str, Any]


def check(console: Console, settings: Settings) -> Result:
    """Findings about the file, then whether every node can become hardware.

    The exit code judges the file alone: 0 valid, 1 with errors, 2 where it points at what must not be read.
    """
    if settings.fits is not None and not settings.hardware:
        raise HwflowError("--board of check must stand with --hardware")
    findings = onnx.check(read(settings.model, limits=settings.limits), strict=settings.strict)
    groups = {kind: [f for f in findings if f.severity is kind] for kind in (Severity.ERROR, Severity.WARNING)}
    for kind, group in groups.items():
        if kind is Severity.ERROR or not settings.hardware:
            for finding in group:
                console.say(f"{kind.value}: {finding}")
    errors, warnings = groups.values()
    summary = f"{settings.model}: {counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}"
    facts = {
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in findings],
        "valid": not errors, "errors": len(errors), "warnings": len(warnings),
    }  # fmt: skip
    flow = Flow(console, settings)
    if settings.hardware:
        unsafe = any(finding.rule in ("EX-02", "EX-09") for finding in errors)
        return {**facts, **_check_hardware(console, flow, summary, bool(errors), unsafe)}
    if errors:
        console.say(summary)
        besides = _without_hardware(flow)
        if besides:
            console.say(besides)
        unsafe = any(finding.rule in ("EX-02", "EX-09") for finding in errors)
        return {"exit_code": 2 if unsafe else 1, **facts, "besides": besides}
    nodes = counted(len(flow.source.graph.nodes), "node")
    _ = flow.shapes  # data that contradict the file are no word about the file
    try:
        _, graph = flow.model, flow.trial().graph
    except ShapeLimitError as error:
        console.say(f"error: {error}")
        return {"exit_code": 1, **facts, "valid": False, "errors": 1, "problem": str(error)}
    except LimitError as error:
        console.say(f"warning: {error}")
        console.say(f"{summary}; a valid ONNX file, and beyond a limit of this run")
        return {"exit_code": 0, **facts, "layers": None, "golden": False, "problem": str(error)}
    except HwflowError as error:
        console.say(f"{summary}; a valid ONNX file, but no hardware for it: {error}")
        console.say("`hwflow check --hardware` says what becomes of every node")
        return {"exit_code": 0, **facts, "layers": None, "golden": False, "problem": str(error)}
    if problem := without_hardware(graph):
        console.say(f"{summary}; a valid ONNX file, and {problem}")
        console.say("`hwflow check --hardware` says what becomes of every node")
        return {"exit_code": 0, **facts, "layers": None, "golden": True, "problem": problem}
    _ = flow.dataset
    layers = counted(len(graph.layers), "layer")
    console.say(f"{summary}; {nodes}, all map to hardware: {layers}")
    return {"exit_code": 0, **facts, "layers": [layer.name for layer in graph.layers]}


def _check_hardware(console: Console, flow: Flow, summary: str, invalid: bool, unsafe: bool) -> Result:
    """What becomes of every node; the exit code says whether the model can become hardware."""
    board = load_board(flow.settings.fits) if flow.settings.fits is not None else None
    console.say(summary)
    if unsafe:
        return {"exit_code": 2}
    settings = flow.settings
    try:
        source = flow.source
    except HwflowError:
        if not invalid:
            raise
        return {"exit_code": 1}
    found = mapped(source, flow.shapes, settings.limits, flow.require_small_enough)
    show_hardware(console, str(settings.model), found)
    facts = hardware_facts(found)
    possible = found.possible and not invalid
    if possible:
        _ = flow.dataset
    if board is not None and found.graph is not None:
        facts["weights"] = weights_facts(found.graph, board)
        show_weights(console, facts["weights"])
        possible = possible and facts["weights"]["fits"]
    return {"exit_code": 0 if possible else 1, **facts}


def _without_hardware(flow: Flow) -> str:
    """Operators without hardware in a model with errors; nothing where the errors keep it from being read at all."""
    try:
        return flow.without_hardware().strip()
    except HwflowError:
        return ""


def info(console: Console, settings: Settings) -> Result:
    """What is in a model and where its nodes run, whatever becomes of it; with --svg also as a picture."""
    if settings.svg is not None:
        require_plain_target(settings.svg)
        require_folder(settings.svg, "--svg")
        if same_file(settings.svg, settings.model):
            raise HwflowError(f"{settings.svg}: must not be the model itself; choose another name with --svg")
    flow = Flow(console, settings)
    annotations = len(read(settings.model, limits=settings.limits).proto.graph.quantization_annotation)
    source, trial = flow.source, cache(flow.trial)
    facts, types, found = describe_model(source, lambda: flow.model, trial, annotations, flow.shapes)
    show_model(console, str(settings.model), facts)
    if settings.svg is not None:
        write_atomically(settings.svg, svg(source.graph, types.values, found.nodes, settings.model.name), "--svg")
        console.say(f"picture: {settings.svg}")
    facts["layers_in_hardware"] = None if found.problem else [layer.name for layer in trial().graph.layers]
    return {**facts, "svg": None if settings.svg is None else str(settings.svg)}


def quantize(console: Console, settings: Settings) -> Result:
    """The integer graph below build/<model>/quantized, what it costs in accuracy, and on demand a QDQ model of it."""
    if settings.export is not None:
        _require_export(settings.export, settings)
    search = None
    if settings.accuracy_drop is not None:
        search, settings = quantize_within(console, settings)
    flow = Flow(console, settings)
    with flow.locked():
        graph, accuracy, path = flow.graph, flow.accuracy(), flow.reproducing()
    layers = [_layer_facts(layer, graph.tensors[layer.output]) for layer in graph.layers]
    console.table("integer graph", ("layer", "kind", "weights", "output", "format", "scale", "zero point"), [
        (layer["layer"], layer["kind"], layer["weights"] or "", layer["output"], layer["format"],
         f"{layer['scale']:.6g}", str(layer["zero_point"])) for layer in layers])
    say_accuracy(console, accuracy)
    if accuracy is None:
        console.say("  accuracy: not measured; give rows and their labels with --data (docs/data-files.md)")
    console.say(f"written to {flow.folder / 'quantized'}")
    if path is not None:
        console.say(f"every choice of this run: {path}; edit a copy of it and pass that with --settings")
    if settings.export is not None:
        onnx.save(remove_unused(flow.quantized.qdq), settings.export)
        console.say(f"exported to {settings.export}: standard ONNX with QuantizeLinear and DequantizeLinear, for any "
                    f"runtime (onnxruntime.InferenceSession('{settings.export}')), or for hwflow in place of the model")
    return {"accuracy": accuracy.facts() if accuracy else None, "folder": str(flow.folder / "quantized"),
            "layers": layers, "notes": list(flow.quantized.notes), "warnings": flow.warned.facts(),
            "settings": str(path) if path else None,
            "export": str(settings.export) if settings.export else None, "search": search}


def _require_export(target: Path, settings: Settings) -> None:
    """Refuse at once what can never be written, or would destroy what is read."""
    require_plain_target(target)
    create_folder(target.parent, "--export")  # first: new/../model.onnx is the model only where there is such a folder
    sources = {"the model": settings.model, "the data": settings.data, "the settings": settings.settings,
               "the board": Path(settings.board)}
    for what, source in sources.items():
        if source is not None and same_file(target, source):
            raise HwflowError(f"{target}: must not be {what} itself; choose another name with --export")
    if target.exists():
        require_apart(settings.model, target, settings.limits)


def _layer_facts(layer: Layer, tensor: Tensor) -> dict[str, Any]:
    weights = getattr(layer, "weight_format", None)
    return {"layer": layer.name, "kind": layer.kind, "weights": str(weights) if weights else None,
            "output": str(tensor.frame), "format": str(tensor.format), "scale": tensor.scale,
            "zero_point": tensor.zero_point}


def golden(console: Console, settings: Settings) -> Result:
    """The integer model's outputs for every row of the data, what they are worth, and which layer costs most."""
    if settings.data is None:
        raise HwflowError("golden must have inputs to run on; give an NPZ file with --data (docs/data-files.md)")
    flow = Flow(console, settings)
    with flow.locked():
        accuracy = flow.accuracy()
        layers = flow.layer_noise()
    assert accuracy is not None, "there is data"
    path = flow.folder / "golden" / "outputs.npz"
    rows = min(accuracy.rows, settings.layer_rows)
    if layers:
        show_layers(console, layers, rows)
    show_accuracy(console, accuracy)
    console.say(f"outputs written to {path}")
    return {"accuracy": accuracy.facts(), "layers": [{**asdict(layer), "snr_db": layer.snr_db} for layer in layers],
            "layer_rows": rows, "warnings": flow.warned.facts(), "outputs": str(path)}


def build(console: Console, settings: Settings) -> Result:
    """The plan and the Verilog below build/<model>/<board>."""
    flow = Flow(console, settings)
    flow.prepare()
    with flow.locked():
        folder = flow.generate()
        axi_stream = flow.generate(axi_stream=True) if settings.axi_stream else None
    rings = ring_bytes(flow.graph, flow.plan, flow.board.technology())
    clock = core_clock(flow)
    show_plan(console, flow.plan, flow.board, rings, clock)
    console.say(f"plan: {flow.board_folder / 'plan.yaml'}; Verilog and ROM contents: {folder}")
    facts = {"plan": str(flow.board_folder / "plan.yaml"), "rtl": str(folder), "warnings": flow.warned.facts(),
             **plan_facts(flow.plan, flow.board, rings, clock=clock)}
    if axi_stream is not None:
        facts |= {"axi_stream": str(axi_stream), "ports": port_facts(flow.graph, flow.plan)}
        show_ports(console, facts["ports"])
        console.say(f"with AXI4-Stream ports: {axi_stream}")
    return facts


def sim(console: Console, settings: Settings) -> Result:
    """Every stage of the RTL against the golden model, at full speed and stalled at random; exit code 1 if unequal.

    With --netlist the cells that go to place and route instead, from pin to pin.
    """
    flow = Flow(console, settings)
    if settings.netlist:
        return _prove(console, flow)
    flow.prepare(find_tools)
    with flow.locked():
        runs = flow.simulate()
        accuracy = flow.accuracy()
    clock = core_clock(flow)
    show_simulation(console, flow.plan, runs, clock)
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
        console.say(f"equal: {stages}, {settings.frames} frames, {' and '.join(runs)}, bit for bit")
    return {"exit_code": 0 if equal else 1, "equal": equal, "accuracy": accuracy.facts() if accuracy else None,
            "warnings": flow.warned.facts(),
            **simulation_facts(flow.plan, flow.board, runs, clock)}


def core_clock(flow: Flow) -> CoreClock:
    """What the cycles of the plan are counted in."""
    return clock_of(flow.plan, flow.graph, flow.board, flow.synthesis)


def _prove(console: Console, flow: Flow) -> Result:
    if flow.settings.waves:
        raise HwflowError("--waves must not stand with --netlist, whose wires have no names")
    flow.prepare(find_tools, lambda: find_tool("yosys"))
    with flow.locked():
        proof = flow.prove()
    console.table("netlist", ("cell", "how many"), [(kind, str(count)) for kind, count in proof.cells.items()])
    if proof.difference is not None:
        console.fail(proof.difference)
    console.say(str(proof))
    return {"exit_code": 0 if proof.equal else 1, "warnings": flow.warned.facts(), **proof.facts()}


def synth(console: Console, settings: Settings) -> Result:
    """The bitstream in build/<model>/<board>/synth."""
    flow = Flow(console, settings)
    flow.prepare(lambda: tools_of_family(flow.board.family))
    with flow.locked():
        report = flow.synthesize()
    show_synthesis(console, flow.plan, flow.board, report)
    slow = too_slow(report, settings.clock)
    if slow:
        console.fail(slow)
    return {"exit_code": 1 if slow else 0, "warnings": flow.warned.facts(),
            **synthesis_facts(flow.plan, flow.board, report),
            **plan_facts(flow.plan, flow.board, clock=core_clock(flow))}


def boards(console: Console, settings: Settings) -> Result:
    """The boards that come with hwflow."""
    found = [load_board(name) for name in list_boards()]
    console.table("boards", ("board", "MHz", "LUT", "FF", "DSP", "RAM", "what it is"), [
        (b.name, f"{b.clock_mhz:g}", *map(str, (b.resources.lut, b.resources.ff, b.resources.dsp, b.resources.ram)),
         b.title) for b in found])
    console.say("SPRAM besides: " + ", ".join(f"{b.resources.spram} on {b.name}" for b in found if b.resources.spram))
    console.say("A board of your own: pass its YAML file as --board; see docs/add-a-board.md")
    return {"boards": [{"name": b.name, "title": b.title, "device": b.device, "clock_mhz": b.clock_mhz,
                        "resources": asdict(b.resources)} for b in found]}


def doctor(console: Console, settings: Settings) -> Result:
    """What is installed and what is missing; exit code 1 where nothing can be simulated without it."""
    tools = (*simulation_tools(), *tool_status(), *programmer_status())
    tables.show_tools(console, tools)
    complete = all(tool.found or not tool.needed for tool in tools)
    return {"exit_code": 0 if complete else 1, "tools": [asdict(tool) for tool in tools]}


def counted(count: int, thing: str) -> str:
    """"1 layer", "2 layers", "no layer"."""
    return f"{count or 'no'} {thing}{'s' if count > 1 else ''}"
