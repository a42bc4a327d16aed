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
from hwflow.quantize.calibrate.insert import quantizer_nodes
from hwflow.quantize.calibrate.ranges import Progress
from hwflow.quantize.calibrate.weights import weight_form
from hwflow.quantize.graphs import Additions, attribute, consumers, producers, with_graph
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
    renamed, front = dict[str, str](), list[Node]()
    for name in forms:
        if name in graph.initializers:
            axis = _output_axis(read.get(name, []), graph.initializers[name].ndim)
            front.append(_constant(name, graph.initializers[name], axis, added))
            renamed[name] = front[-1].outputs[0]
    starts = [value.name for value in graph.inputs if value.name in forms]
    nodes = front
    for name in starts:
        nodes += _behind(name, name, "", forms[name], added, renamed)
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        quantized = [name for name in node.outputs if name in forms]
        raw = {name: added.new(f"{name}_unquantized") for name in quantized if name in outputs}
        nodes.append(replace(node, outputs=tuple(raw.get(name, name) for name in node.outputs)))
        for name in quantized:
            nodes += _behind(name, raw.get(name, name), name if name in raw else "", forms[name], added, renamed)
    return with_graph(model, nodes, added.initializers)


def _behind(
    name: str, raw: str, output: str, form: ActivationForm, added: Additions, renamed: dict[str, str]
) -> list[Node]:
    """The quantizer of `raw`; where `output` is given it is what its result must be called."""
    nodes = quantizer_nodes(name, raw, output, form, added)
    renamed[name] = nodes[-1].outputs[0]
    return nodes


def _output_axis(readers: list[Node], rank: int) -> int | None:
    """The axis of output channels of weights; None where their readers are of different kinds."""
    axes = {0 if node.op_type == "Conv" or attribute(node, "transB", 0) else rank - 1
            for node in readers if node.op_type in ("Conv", "Gemm", "MatMul")}  # fmt: skip
    return axes.pop() if len(axes) == 1 and all(n.op_type in ("Conv", "Gemm", "MatMul") for n in readers) else None


def _constant(name: str, value: Array, axis: int | None, added: Additions) -> Node:
    """The DequantizeLinear of the integers of a constant."""
    rows = np.moveaxis(value, axis, 0) if axis is not None else value.reshape(1, *value.shape)
    form = weight_form(rows, WeightSettings())
    integers = form.integers.astype(np.int8)
    integers = integers[0] if axis is None else np.ascontiguousarray(np.moveaxis(integers, 0, axis))
    scales = form.scales if axis is not None else form.scales.reshape(())
    parameters = (
        added.constant(f"{name}_quantized", integers), added.float32(f"{name}_scale", scales),
        added.constant(f"{name}_zero_point", np.zeros(scales.shape, np.int8)),
    )  # fmt: skip
    result = added.new(f"{name}_dequantized")
    return Node("DequantizeLinear", parameters, (result,), {} if axis is None else {"axis": axis}, result)


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
