"""Files that are quantized in part: what layers read and no quantizer made integers gets a quantizer here.

The rest of the file keeps its own.  A tensor gets 8 bits whose range comes from the calibration data; an input of small
integers, as 0 and 1 or -1 and +1 are, keeps them exactly, with scale 1.  Constants get 8 bits with a scale for each
output channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from hwflow.layers.formats import IntFormat
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import LAYOUT
from hwflow.quantize.calibrate import ranges as calibrate
from hwflow.quantize.calibrate.activations import ActivationForm, activation_form, choose_range
from hwflow.quantize.calibrate.insert import emit_quantizer
from hwflow.quantize.calibrate.ranges import Progress
from hwflow.quantize.calibrate.weights import emit_dequantized, weight_form
from hwflow.quantize.graphs import Additions, attribute, consumers, producers
from hwflow.quantize.settings import ActivationSettings, WeightSettings

#: Names in a note.
_SHOWN = 4


def trial_form() -> ActivationForm:
    """The form of a tensor whose range is not known yet."""
    return activation_form(-1.0, 1.0)


def rows_of(model: Model, calibration: Mapping[str, Array] | None) -> dict[str, Array]:
    """Rows of every input of `model`: `calibration`, or made-up ones.  HwflowError: data that does not fit."""
    return calibrate.synthetic(model) if calibration is None else calibrate.checked(model, calibration)


def complete(
    model: Model, lacking: tuple[str, ...], calibration: Mapping[str, Array] | None, notes: list[str],
    progress: Progress | None = None,
) -> Model:  # fmt: skip
    """The QDQ `model` with quantizers at the tensors `lacking`, and integers for the constants among them.

    `calibration` maps each input to rows [n, *its shape]; None stands for made-up data.  `notes` gets sentences on what
    is added.  HwflowError: calibration data that does not fit the model.
    """
    constants = [name for name in lacking if name in model.graph.initializers]
    tensors = [name for name in lacking if name not in model.graph.initializers]
    data = rows_of(model, calibration)
    seen = calibrate.measure(model, data, tensors, progress) if tensors else {}
    forms = {name: activation_form(*choose_range(seen[name], ActivationSettings())) for name in tensors}
    exact = _exact(model.graph, tensors, data) if calibration is not None else {}
    notes += _sentences(tensors, exact, constants, calibration is None)
    return with_quantizers(model, {**forms, **exact, **{name: trial_form() for name in constants}})


def with_quantizers(model: Model, forms: Mapping[str, ActivationForm]) -> Model:
    """`model` with a quantizer of the given form behind each tensor of `forms`, and integers for constants of it."""
    if not forms:
        return model
    graph, added = model.graph, Additions(model.graph)
    outputs, read = {value.name for value in graph.outputs}, consumers(graph)
    renamed = dict[str, str]()
    for name in forms:
        if name in graph.initializers:
            axis = _output_axis(read.get(name, []), graph.initializers[name].ndim)
            renamed[name] = _emit_constant(name, graph.initializers[name], axis, added)
    starts = [value.name for value in graph.inputs if value.name in forms]
    for name in starts:
        renamed[name] = emit_quantizer(name, name, "", forms[name], added)
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        quantized = [name for name in node.outputs if name in forms]
        raw = {name: added.new(f"{name}_unquantized") for name in quantized if name in outputs}
        added.nodes.append(replace(node, outputs=tuple(raw.get(name, name) for name in node.outputs)))
        for name in quantized:
            output = name if name in raw else ""
            renamed[name] = emit_quantizer(name, raw.get(name, name), output, forms[name], added)
    return added.into(model)


def _output_axis(readers: list[Node], rank: int) -> int | None:
    """The axis of output channels of weights; None where their readers are of different kinds."""
    axes = {0 if node.op_type == "Conv" or attribute(node, "transB", 0) else rank - 1
            for node in readers if node.op_type in ("Conv", "Gemm", "MatMul")}  # fmt: skip
    return axes.pop() if len(axes) == 1 and all(n.op_type in ("Conv", "Gemm", "MatMul") for n in readers) else None


def _emit_constant(name: str, value: Array, axis: int | None, added: Additions) -> str:
    """The reals of integers for a constant."""
    rows = np.moveaxis(value, axis, 0) if axis is not None else value.reshape(1, *value.shape)
    form = weight_form(rows, WeightSettings())
    integers = form.integers.astype(np.int8)
    integers = integers[0] if axis is None else np.ascontiguousarray(np.moveaxis(integers, 0, axis))
    scales = form.scales if axis is not None else form.scales.reshape(())
    return emit_dequantized(name, integers, scales, axis, added)


def _exact(graph: Graph, tensors: list[str], data: Mapping[str, Array]) -> dict[str, ActivationForm]:
    """Forms with scale 1 of those tensors that are inputs, whatever their layout, of integers of up to 8 bits."""
    makers, inputs = producers(graph), {value.name for value in graph.inputs}
    forms = {}
    for tensor in tensors:
        name = tensor
        while name in makers and makers[name].op_type in LAYOUT:
            name = makers[name].inputs[0]
        values = data.get(name) if name in inputs else None
        if values is None or values.dtype.kind != "f" or not np.array_equal(values, np.rint(values)):
            continue
        low, high = min(0, int(values.min())), max(0, int(values.max()))
        if high > low and (low >= -128 and high <= 127 if low < 0 else high <= 255):
            format = IntFormat.covering(low, high)
            forms[tensor] = ActivationForm(np.float32(1), 0, format, low, high)
    return forms


def _sentences(
    tensors: list[str], exact: Mapping[str, ActivationForm], constants: list[str], made_up: bool
) -> Iterator[str]:
    """Sentences for the user about what was made integer."""
    source = "made-up data, and the accuracy will suffer; give real inputs with --data" if made_up else "the data"
    plain = [name for name in tensors if name not in exact]
    whole = [f"{name} ({form.low} to {form.high})" for name, form in exact.items()]
    for names, what in (
        (plain, f"tensors without a quantizer got 8 bits, with ranges from {source}"),
        (whole, "inputs of small integers keep them exactly"), (constants, "constants of reals got 8 bits"),
    ):  # fmt: skip
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield f"the file is quantized in part: {what}: {', '.join(names[:_SHOWN])}{more}"
