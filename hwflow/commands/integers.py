"""The commands that make integers of a model and measure them: `quantize` and `golden`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, require_plain_target, same_file

from .. import onnx
from ..command_line import command_line
from ..flow import Flow
from ..layers.base import Layer, LayerGraph
from ..layers.words import kind_of
from ..onnx.rewrite.passes import remove_unused
from ..report.accuracy import say_accuracy, show_accuracy, show_layers
from ..report.console import Console
from ..report.texts import NAME_WIDTH, shortened
from ..request import GoldenRequest, QuantizeRequest
from ..steps.measurements import required_dataset
from ..steps.recording import keep_accuracy, keep_headline
from .onnx_files import require_apart
from .widths import quantize_within

__all__ = ["golden", "quantize"]

Result = Mapping[str, Any]


def quantize(console: Console, request: QuantizeRequest) -> Result:
    """The integer graph below build/<model>/quantized, what it costs in accuracy, and on demand a QDQ model of it."""
    if request.export is not None:
        _require_export(request.export, request)
    search, options = None, request.quantization
    if request.accuracy_drop is not None:
        search, options = quantize_within(console, request)
    flow = Flow(console, request.project, options)
    with flow.locked():
        graph, accuracy, path = flow.graph, flow.accuracy(), flow.reproducing()
        keep_headline(flow, accuracy)
    layers = [_layer_facts(layer, graph) for layer in graph.layers]
    say_accuracy(console, accuracy)
    _show_layers(console, layers)
    if accuracy is None:
        console.say("  accuracy: not measured; give rows and their labels with --data (docs/data-files.md)")
    console.say(f"written to {flow.folder / 'quantized'}")
    if path is not None:
        console.say(f"every choice of this run: {path}; edit a copy of it and pass that with --settings")
    if request.export is not None:
        _export(console, flow, request.export)
    console.next(command_line("sim", flow.project, options))
    return {"accuracy": accuracy.facts() if accuracy else None, "folder": str(flow.folder / "quantized"),
            "layers": layers, "notes": list(flow.quantized.notes), "warnings": flow.warned.facts(),
            "settings": str(path) if path else None,
            "export": str(request.export) if request.export else None, "search": search}


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


def _export(console: Console, flow: Flow, target: Path) -> None:
    """Write the integers as a QDQ model."""
    onnx.save(remove_unused(flow.quantized.qdq), target)
    console.say(f"exported to {target}: standard ONNX with QuantizeLinear and DequantizeLinear, for any runtime "
                f"(onnxruntime.InferenceSession('{target}')), or for hwflow in place of the model")


def _layer_facts(layer: Layer, graph: LayerGraph) -> dict[str, Any]:
    weights, tensor = getattr(layer, "weight_format", None), graph.tensors[layer.output]
    return {"layer": layer.name, "kind": kind_of(graph, layer), "hardware": layer.kind,
            "weights": str(weights) if weights else None, "output": str(tensor.frame),
            "format": str(tensor.format), "scale": tensor.scale, "zero_point": tensor.zero_point}


def _show_layers(console: Console, layers: list[dict[str, Any]]) -> None:
    """A row for each layer; with --verbose also how its integers stand for real numbers."""
    if console.verbose:
        console.table("integer layers", ("layer", "kind", "weights", "output", "format", "scale", "zero point"), [
            (layer["layer"], layer["kind"], layer["weights"] or "", layer["output"], layer["format"],
             f"{layer['scale']:.6g}", str(layer["zero_point"])) for layer in layers])
        return
    console.table("integer layers", ("layer", "kind", "weights", "output", "format"), [
        (shortened(layer["layer"], NAME_WIDTH), layer["kind"], layer["weights"] or "", layer["output"],
         layer["format"]) for layer in layers])


def golden(console: Console, request: GoldenRequest) -> Result:
    """The integer model's outputs for every row of the data, what they are worth, and which layer costs most."""
    flow = Flow(console, request.project, request.quantization, layer_rows=request.layer_rows)
    required_dataset(flow, "golden must have inputs to run on")
    with flow.locked():
        accuracy = flow.accuracy()
        layers = flow.layer_noise()
        assert accuracy is not None, "there is data"
        rows = min(accuracy.rows, request.layer_rows)
        keep_accuracy(flow, accuracy, layers, rows)
    path = flow.folder / "golden" / "outputs.npz"
    show_accuracy(console, accuracy)
    if layers:
        show_layers(console, layers, rows)
    console.say(f"outputs written to {path}")
    console.next(command_line("sim", flow.project, flow.quantization))
    return {"accuracy": accuracy.facts(), "layers": [{**asdict(layer), "snr_db": layer.snr_db} for layer in layers],
            "layer_rows": rows, "warnings": flow.warned.facts(), "outputs": str(path)}
