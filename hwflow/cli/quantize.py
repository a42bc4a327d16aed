"""`hwflow quantize`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import plain
from hwflow_base.files.target import require_folder, require_plain_target, same_file
from hwflow_base.later import later
from hwflow_base.options import Option, command_line
from hwflow_base.printable import NAME_WIDTH, shortened

from ..options import BOARD, BoardName, GoalOptions, HardwareOptions, Project, QuantizationOptions, Verbose

with later():
    from hwflow.layers.base import kind_of

    from .. import onnx
    from ..layers.base import Layer, LayerGraph
    from ..onnx.rewrite.passes import remove_unused
    from ..pipeline.pipeline import Pipeline
    from ..pipeline.records import keep_headline
    from ..views.console.accuracy import say_accuracy
    from ..views.console.terminal import Console
    from .goal_advice import advise_goal
    from .onnx.convert import require_apart
    from .widths_search import goal_of, quantize_for

Result = Mapping[str, object]


@dataclass(frozen=True)
class QuantizeRequest:
    """The request of `hwflow quantize`."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    export: Annotated[Path | None, Option(
        "Write the integers as an ONNX model with QuantizeLinear and DequantizeLinear.")] = None
    goal: GoalOptions = field(default_factory=GoalOptions)
    board: BoardName = BOARD
    verbose: Verbose = False


def quantize(console: Console, request: QuantizeRequest) -> Result:
    """Quantize MODEL to integers, calibrated on the data; with labels, report the accuracy before and after.

    Exit codes: 0 success; 1 if no widths reach --noise or --accuracy-drop; 2 if the model, the data or the settings
    are invalid.
    """
    if request.export is not None:
        _require_export(request.export, request)
    search, options, goal = None, request.quantization, goal_of(request.goal)
    if goal is not None:
        wide = Pipeline(console, request.project, options, HardwareOptions(request.board))
        search, options = quantize_for(console, wide, goal, request.goal.search_evaluations)
    pipeline = Pipeline(console, request.project, options, HardwareOptions(request.board))
    with pipeline.locked():
        graph, accuracy, path = pipeline.graph, pipeline.accuracy(), pipeline.reproducing()
        keep_headline(pipeline, accuracy)
    layers = [_layer_facts(layer, graph) for layer in graph.layers]
    say_accuracy(console, accuracy)
    _show_layers(console, layers)
    if accuracy is None:
        console.say("  accuracy: not measured; give rows and their labels with --data (docs/data-files.md)")
    advice = advise_goal(console, pipeline, accuracy)
    console.say(f"written to {pipeline.folder / 'quantized'}")
    if path is not None:
        console.say(f"every choice of this run: {path}; edit a copy of it and pass that with --settings")
    if request.export is not None:
        _export(console, pipeline, request.export)
    console.next(command_line("sim", pipeline.project, options, pipeline.hardware))
    return {"accuracy": accuracy.facts() if accuracy else None, "folder": str(pipeline.folder / "quantized"),
            "layers": layers, "notes": list(pipeline.quantized.notes), "warnings": pipeline.warned.facts(),
            "chosen": plain(pipeline.quantized.chosen), "settings": str(path) if path else None,
            "export": str(request.export) if request.export else None, "search": search, "advice": advice}


def _require_export(target: Path, request: QuantizeRequest) -> None:
    """Refuse at once what can never be written, or would destroy what is read."""
    require_plain_target(target)
    require_folder(target, "--export")
    project = request.project
    sources = {"the model": project.model, "the data": project.data, "the settings": request.quantization.settings,
               "the board": Path(request.board)}
    for what, source in sources.items():
        if source is not None and same_file(target, source):
            raise HwflowError(f"must not be {what} itself", "choose another name with --export", where=str(target))
    if target.exists():
        require_apart(project.model, target, project.limits)


def _export(console: Console, pipeline: Pipeline, target: Path) -> None:
    """Write the integers as a QDQ model."""
    onnx.save(remove_unused(pipeline.quantized.qdq), target)
    console.say(f"exported to {target}: standard ONNX with QuantizeLinear and DequantizeLinear, for any runtime "
                f"(onnxruntime.InferenceSession('{target}')), or for hwflow in place of the model")


def _layer_facts(layer: Layer, graph: LayerGraph) -> dict[str, object]:
    weights, tensor = getattr(layer, "weight_format", None), graph.tensors[layer.output]
    return {"layer": layer.name, "kind": kind_of(graph, layer), "hardware": layer.kind,
            "weights": str(weights) if weights else None, "output": str(tensor.frame),
            "format": str(tensor.format), "scale": tensor.scale, "zero_point": tensor.zero_point}


def _show_layers(console: Console, layers: list[dict[str, object]]) -> None:
    """A row for each layer; with --verbose also how its integers stand for real numbers."""
    names = ("layer", "kind", "weights", "output", "format", *(("scale", "zero_point") if console.verbose else ()))
    rows = [[_cell(name, layer[name], console.verbose) for name in names] for layer in layers]
    console.table("integer layers", [name.replace("_", " ") for name in names], rows)


def _cell(name: str, value: object, verbose: bool) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "" if value is None else str(value)
    return shortened(text, NAME_WIDTH) if name == "layer" and not verbose else text
