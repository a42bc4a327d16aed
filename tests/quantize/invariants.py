"""What must hold for every quantized model; each function raises AssertionError with the place that breaks it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx as official

from bench.quantization import runtime as onnxruntime_session
from hwflow import golden, onnx
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.quantize import QDQ_PASSES, Quantized, load_quantized, quantize, save_quantized
from hwflow.quantize.graphs import producers
from tests.networks.meaning import meaning
from tests.quantize.exact_resize import with_places

#: Steps from the place where rounding turns, within which float32 may fall to the other side; and the share of a whole
#: range that 18 bits of a multiplier leave, which matters above 8 bits.
TIE, SHARE = 0.004, 2.0**-17

#: Floats of another order, relative to the largest of a tensor.
CLOSE = 1e-4

#: How much more than the noise model says the error of 8 bits may be: weights are left out of the model.
FACTOR = 4


@dataclass
class Agreement:
    """Elements of each kind of layer, and how many of them are a step off; each of these is proven to be a tie."""

    elements: Counter[str] = field(default_factory=Counter)
    ties: Counter[str] = field(default_factory=Counter)

    def add(self, layer: str, apart: IntArray, distance: Array | None, levels: int, exact: bool) -> None:
        """`apart` in steps; `distance` of the real number from the nearest turn of the rounding, in steps, None where
        nothing was rounded; `levels` of the whole range."""
        worst, many = int(apart.max(initial=0)), int(np.count_nonzero(apart))
        kind = layer.split()[0]
        assert worst <= (not exact and distance is not None), f"{layer}: {many} of {apart.size} differ, by {worst}"
        if many and distance is not None:
            far = float(distance[apart > 0].max())
            assert far <= TIE + SHARE * levels, f"{layer}: differs {far:.3g} steps from where the rounding turns"
        self.elements[kind] += apart.size
        self.ties[kind] += many

    def __str__(self) -> str:
        return ", ".join(f"{kind}: {self.ties[kind]} ties of {count}" for kind, count in sorted(self.elements.items()))


def onnxruntime(
    model: Model, rows: Mapping[str, Array], names: list[str], *, open_shapes: bool = False
) -> dict[str, Array]:
    """onnxruntime without graph optimisation: tensors of a model by name, rows stacked.

    `open_shapes`: the shapes of the inputs are left open, so that onnxruntime infers none of the others.
    """
    model = with_places(model)
    if open_shapes:
        entries = [Value(v.name, v.tensor and replace(v.tensor, shape=None)) for v in model.graph.inputs]
        model = replace(model, graph=replace(model.graph, inputs=tuple(entries)))
    run, count = onnxruntime_session(model, names), len(next(iter(rows.values())))
    found = [run.run(None, {k: v[i] for k, v in rows.items()}) for i in range(count)]
    return {name: np.stack(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def check_layers(quantized: Quantized, rows: Mapping[str, Array], total: Agreement, exact: bool = False) -> None:
    """Each layer on what onnxruntime gives it: off by one where the real number is a tie, and where `exact` nowhere.

    Behind the last layers the host makes of onnxruntime's integers what onnxruntime makes of them.
    """
    model = quantized.qdq
    for step in QDQ_PASSES:
        model = step.run(model)
    model = onnx.infer(model)
    graph, entered = quantized.graph, golden.run_prologue(quantized, rows)
    known, made_by = {result for node in model.graph.nodes for result in node.outputs}, producers(model.graph)
    inner = {layer.output: layer.output.removesuffix(".frame") for layer in graph.layers}
    inner = {tensor: source for tensor, source in inner.items() if source in known}
    reals = {source: _real(source, made_by, graph.tensors[tensor].scale, model) for tensor, source in inner.items()}
    outputs = [value.name for value in model.graph.outputs]
    wanted = [*inner.values(), *(real[0] for real in reals.values() if real), *outputs]
    found = onnxruntime(model, rows, list(dict.fromkeys(wanted)))
    expected: dict[str, IntArray] = dict(entered)
    for layer in graph.layers:
        made, source = layer.evaluate(graph, *(expected[name] for name in layer.inputs)), inner.get(layer.output)
        if source is None:
            expected[layer.output] = made
            continue
        index, real = quantized.views[layer.output].index, reals[source]
        expected[layer.output] = frames(found[source], graph, layer.output, index)
        distance = None if real is None else raster(_distance(found[real[0]] / real[1]), made.shape, index)
        form = graph.tensors[layer.output].format
        apart = np.abs(made - expected[layer.output]) // form.step
        total.add(f"{layer.kind} '{layer.name}'", apart, distance, form.high - form.low, exact)
    behind = golden.run_epilogue(quantized, {name: expected[name] for name in graph.outputs}, rows)
    if all(name in inner for name in graph.outputs):
        close(behind, {name: found[name] for name in outputs})


def _real(source: str, made_by: Mapping[str, Node], scale: float, model: Model) -> tuple[str, float] | None:
    """The tensor whose rounding gives `source`, and its step; None where nothing is rounded."""
    units = f"{source.rsplit('.', 1)[0]}.units"  # what a QONNX quantizer rounds
    if units in made_by:
        return units, 1.0
    node = made_by[source]
    while node.op_type in ("Clip", "DequantizeLinear") and node.inputs[0] in made_by:
        node = made_by[node.inputs[0]]
    if node.op_type == "Where" and node.inputs[0] in made_by:
        return made_by[node.inputs[0]].inputs[0], scale
    if node.op_type != "QuantizeLinear":
        return None
    return node.inputs[0], float(model.graph.initializers[node.inputs[1]])


def _distance(steps: Array) -> Array:
    """From the nearest half or whole number: all roundings turn at one of them."""
    twice = 2 * steps.astype(np.float64)
    return np.abs(twice - np.rint(twice)) / 2


def close(made: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Floats computed in another order; integers are equal."""
    for name, want in expected.items():
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(made[name], want, err_msg=name)
            continue
        bound = CLOSE * max(float(np.abs(want).max()), 1e-3)
        np.testing.assert_allclose(made[name], want, rtol=0, atol=bound, err_msg=name)


def check_reals(model: Model, quantized: Quantized, rows: Mapping[str, Array]) -> None:
    """The model in reals that quantization made of the float `model` computes the same, in onnxruntime both; and the
    integers are no further off than half a step of 8 bits in every tensor of `model` explains."""
    model = onnx.infer(model)
    outputs = [value.name for value in model.graph.outputs]
    wanted = onnxruntime(model, rows, outputs)
    close(onnxruntime(quantized.twin, rows, outputs), wanted)
    # Of some ConvTransposes with output_shape it infers a wrong shape, and refuses the sum with the noise.
    made, usual = golden.predict(quantized, rows), onnxruntime(*noisy(model, rows), outputs, open_shapes=True)
    error, noise = (sum(float(np.sum((x[name] - wanted[name]) ** 2)) for name in outputs) for x in (made, usual))
    assert error <= FACTOR**2 * noise + 1e-12, f"the error is {np.sqrt(error / noise):.1f} times the noise of 8 bits"


def noisy(model: Model, rows: Mapping[str, Array]) -> tuple[Model, dict[str, Array]]:
    """`model` with a number added to each element that it computes, and rows for it: at random, in each row anew, up to
    half a step of 8 bits."""
    rng, graph = np.random.default_rng(0), model.graph
    inner = [node.outputs[0] for node in graph.nodes if _is_float(graph, node.outputs[0])]
    every = {**rows, **onnxruntime(model, rows, inner)}
    nodes, added, entries = list[Node](), dict[str, Array](), list(graph.inputs)

    def half_a_step(name: str) -> str:
        values = every[name]
        half = (max(values.max(), 0) - min(values.min(), 0)) / 255 / 2
        added[f"{name}.noise"] = rng.uniform(-half, half, values.shape).astype(np.float32)
        entries.append(Value(f"{name}.noise", TensorType(np.dtype(np.float32), values.shape[1:])))
        return f"{name}.noise"

    for value in graph.inputs:
        nodes.append(Node("Add", (value.name, half_a_step(value.name)), (f"{value.name}.noisy",)))
    entered = {value.name: f"{value.name}.noisy" for value in graph.inputs}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(entered.get(name, name) for name in node.inputs))
        name = node.outputs[0]
        if name not in every:
            nodes.append(node)
            continue
        nodes.append(replace(node, outputs=(f"{name}.exact", *node.outputs[1:])))
        nodes.append(Node("Add", (f"{name}.exact", half_a_step(name)), (name,)))
    return replace(model, graph=replace(graph, nodes=tuple(nodes), inputs=tuple(entries))), {**rows, **added}


def _is_float(graph: Graph, name: str) -> bool:
    kind = graph.tensor_type(name)
    return kind is not None and kind.dtype == np.float32


def frames(values: Array, graph: LayerGraph, name: str, index: IntArray) -> IntArray:
    """ONNX's tensor [n, *its shape] as integer frames; `index` gives each element's place."""
    tensor = graph.tensors[name]
    if values.dtype.kind == "f":  # integers that were dequantized already
        values = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
    frame = tensor.frame
    return raster(values.astype(np.int64), (len(values), frame.height, frame.width, frame.channels), index)


def raster(values: Array, shape: tuple[int, ...], index: IntArray) -> Array:
    """Elements at their places `index` in frames of `shape` [n, h, w, c]."""
    made = np.empty((len(values), index.size), values.dtype)
    made[:, index.ravel()] = values.reshape(len(values), -1)
    return made.reshape(shape)


def check_outputs(model: Model, quantized: Quantized, rows: Mapping[str, Array]) -> dict[str, Array]:
    """The whole gives outputs of the model's names, shapes and dtypes, and of many rows what it gives of each."""
    made = golden.predict(quantized, rows)
    count = len(next(iter(rows.values())))
    model = onnx.infer(model)
    assert list(made) == [value.name for value in model.graph.outputs]
    for value in model.graph.outputs:
        assert value.tensor is not None
        assert made[value.name].shape == (count, *value.tensor.shape), value.name
        assert made[value.name].dtype == value.tensor.dtype, value.name
        assert np.isfinite(made[value.name]).all(), value.name
    for k in range(min(count, 2)):
        single = golden.predict(quantized, {name: array[k : k + 1] for name, array in rows.items()})
        for name, value in single.items():
            np.testing.assert_array_equal(value[0], made[name][k], err_msg=name)
    return made


def check_export(quantized: Quantized) -> None:
    """The QDQ model is valid, is standard, and read again from its bytes it gives the same integers."""
    assert set(quantized.qdq.opsets) <= {"", "ai.onnx"}
    data = onnx.dumps(quantized.qdq)
    official.checker.check_model(official.load_from_string(data), full_check=True)
    again = quantize(onnx.loads(data))
    assert again.graph == quantized.graph, difference(again.graph, quantized.graph)


def difference(a: LayerGraph, b: LayerGraph) -> str:
    """The first layer or tensor that differs."""
    for one, other in zip(a.layers, b.layers, strict=False):
        if one != other:
            return f"{one}\n{other}"
    return f"{a.tensors}\n{b.tensors}"


def check_store(quantized: Quantized) -> None:
    """What is saved is what is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        save_quantized(quantized, Path(folder))
        loaded = load_quantized(Path(folder))
    for name in ("graph", "notes", "views", "settings"):
        assert getattr(loaded, name) == getattr(quantized, name), name
    for name in ("prologue", "epilogue", "qdq", "twin"):
        assert onnx.dumps(getattr(loaded, name)) == onnx.dumps(getattr(quantized, name)), name


def check_extremes(quantized: Quantized) -> None:
    """Inputs at the ends of their formats, alone and mixed, stay inside every format on their way through."""
    rng, graph = np.random.default_rng(0), quantized.graph
    inputs = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        shape = (tensor.frame.height, tensor.frame.width, tensor.frame.channels)
        ends = [tensor.format.low, tensor.format.high]
        rows = [np.full(shape, ends[0]), np.full(shape, ends[1])] + [rng.choice(ends, shape) for _ in range(6)]
        inputs[name] = np.stack(rows).astype(np.int64)
    made = golden.run(graph, inputs)
    for name, array in made.items():
        assert graph.tensors[name].format.contains(array), name


def check_meaning(quantized: Quantized, rows: Mapping[str, Array]) -> None:
    """Every layer gives what its kind means, exactly, in code that shares nothing with the layers."""
    graph = quantized.graph
    values = golden.run(graph, golden.run_prologue(quantized, rows))
    for layer in graph.layers:
        expected = meaning(graph, layer, *(values[name] for name in layer.inputs))
        np.testing.assert_array_equal(values[layer.output], expected, err_msg=f"{layer.kind} '{layer.name}'")


def check_views(quantized: Quantized, rows: Mapping[str, Array]) -> None:
    """Every view names a tensor of the twin with as many elements as the frame."""
    names = list(dict.fromkeys(view.source for view in quantized.views.values()))
    reals = onnx.evaluate(quantized.twin, {k: v[0] for k, v in rows.items()}, names)
    for tensor, view in quantized.views.items():
        frame = quantized.graph.tensors[tensor].frame
        assert reals[view.source].shape == view.index.shape, tensor
        assert sorted(view.index.ravel().tolist()) == list(range(frame.elements)), tensor


def check_all(
    model: Model, quantized: Quantized, rows: Mapping[str, Array], total: Agreement, *, exact: bool = False
) -> None:
    """What must hold of any quantized model."""
    check_outputs(model, quantized, rows)
    check_layers(quantized, rows, total, exact)
    check_extremes(quantized)
    check_views(quantized, rows)
    check_store(quantized)
