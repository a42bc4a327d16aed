"""From an ONNX model to integers: the layer graph for the hardware, and what the host computes around it.

A float model becomes a QDQ model first (calibration, int8 weights); a QDQ model is taken as it is.  Both then go
through the same importer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hwflow.errors import HwflowError
from hwflow.layers.base import LayerGraph
from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Model
from hwflow.quantize import operators
from hwflow.quantize.calibration import ranges as calibrate
from hwflow.quantize.calibration.ranges import Progress
from hwflow.quantize.importer import host
from hwflow.quantize.importer.importer import Importer
from hwflow.quantize.passes.affine import fold_affine
from hwflow.quantize.passes.insert import insert_quantizers, points
from hwflow.quantize.passes.normalise import layout_before_dequantize, matrix_to_gemm, max_pool_last, raise_opset
from hwflow.quantize.problems import raise_all
from hwflow.quantize.quantized import Quantized
from hwflow.quantize.store import load_quantized, save_quantized
from hwflow.quantize.support import unsupported

__all__ = ["FLOAT_PASSES", "QDQ_PASSES", "Pass", "Quantized", "load_quantized", "quantize", "save_quantized"]


@dataclass(frozen=True)
class Pass:
    """A named step from an ONNX model to an equivalent one."""

    name: str
    description: str
    run: Callable[[Model], Model]


#: What a float model goes through before its ranges are measured, in order.
FLOAT_PASSES: tuple[Pass, ...] = (
    Pass("raise-opset", "Write operators as operator set 13 does.", raise_opset),
    Pass("matrix-to-gemm", "Give products one form: Gemm with transB and bias, Conv with bias.", matrix_to_gemm),
    Pass("fold-affine", "Fold batch normalization, bias and scaling into the weights before them.", fold_affine),
    Pass("max-pool-last", "Move Relu and Clip in front of a MaxPool.", max_pool_last),
)

#: What a QDQ model goes through before it is imported, in order.
QDQ_PASSES: tuple[Pass, ...] = (
    Pass("raise-opset", "Write operators as operator set 13 does.", raise_opset),
    Pass("max-pool-last", "Move Relu, Clip and QuantizeLinear in front of a MaxPool.", max_pool_last),
    Pass("layout-before-dequantize", "Change the layout of integers, not of reals.", layout_before_dequantize),
)


def quantize(
    model: Model,
    calibration: Mapping[str, Array] | None = None,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    progress: Progress | None = None,
) -> Quantized:
    """Integers for `model`.

    `calibration` maps each input to rows [n, *its shape with batch 1]; only float models read it, and without it they
    are calibrated on made-up data, which `notes` says.  `input_shapes` fixes open input shapes as in
    `hwflow.onnx.infer`.  `progress` is called with (rows done, rows in all) while ranges are measured.

    HwflowError: everything in the model that cannot become hardware, in one message.
    """
    inferred = infer(model, input_shapes)
    notes = [note for note in inferred.notes if note not in model.notes]
    model = simplify(inferred)
    raise_all(unsupported(model))
    _require_values(model)
    if not _is_quantized(model):
        model = _to_qdq(model, calibration, notes, progress)
    qdq = twin = model
    for step in QDQ_PASSES:
        model = step.run(model)
    model = simplify(infer(model))
    graph, before, after = _import(model)
    notes.append(_host_note(before, after))
    return Quantized(graph, before, after, tuple(notes), qdq, twin)


def _require_values(model: Model) -> None:
    """Hardware has something to read, and every tensor has elements whose range can be measured."""
    graph = model.graph
    if not graph.inputs:
        raise HwflowError("the model must have an input, not none; what it gives is constant and needs no hardware")
    for value in graph.inputs:
        shape = list((value.tensor and value.tensor.shape) or ())
        if 0 in shape:
            raise HwflowError(f"input '{value.name}' must have elements, not the shape {shape}; export it with another")


def _is_quantized(model: Model) -> bool:
    return any(node.op_type in operators.QUANTIZERS for node in model.graph.nodes)


def _to_qdq(
    model: Model, calibration: Mapping[str, Array] | None, notes: list[str], progress: Progress | None
) -> Model:
    """Post-training quantization of a float model."""
    for step in FLOAT_PASSES:
        model = step.run(model)
    model = simplify(model)
    if calibration is None:
        calibration = calibrate.synthetic(model)
        notes.append(
            f"no calibration data: ranges come from {calibrate.SYNTHETIC_ROWS} rows of normally distributed noise, "
            "and the accuracy will suffer; give real inputs with --data"
        )
    names = points(model)
    return insert_quantizers(model, calibrate.ranges(model, calibration, names, progress))


def _import(model: Model) -> tuple[LayerGraph, Model, Model]:
    importer = Importer(model)
    importer.walk()
    after, outputs = host.epilogue(importer)
    graph = importer.layer_graph(outputs)
    raise_all(importer.problems)
    if not graph.layers:
        raise HwflowError("the model must have a layer that becomes hardware (Conv, Gemm, MatMul, pooling), not none")
    graph.check()
    return graph, host.prologue(importer), after


def _host_note(before: Model, after: Model) -> str:
    """Which operators of the user's model run on the host."""
    silent = {"Reshape", "Gather"}
    names = dict.fromkeys(n.op_type for m in (before, after) for n in m.graph.nodes if n.op_type not in silent)
    return f"on the host: {', '.join(names) or 'nothing but the order of elements'}"
