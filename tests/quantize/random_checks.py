"""What must hold for every quantized model; each function raises AssertionError with the place that breaks it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx as official

from hwflow import golden, onnx
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array, Model
from hwflow.quantize import QDQ_PASSES, Quantized, load_quantized, quantize, save_quantized
from tests.bench.quantization import runtime as onnxruntime_session

__all__ = [
    "Agreement",
    "check_all",
    "check_export",
    "check_layers",
    "difference",
    "hwflow_runtime",
    "onnxruntime",
    "signal_to_noise",
]

#: Gives tensors of a model by name, rows stacked: what `Agreement` compares with.
Runtime = Callable[[Model, Mapping[str, Array], list[str]], dict[str, Array]]


#: Least shares of results that cannot agree as often.  Of more than 8 bits: 18 bits of a multiplier leave up to an
#: eighth of a step, a sixteenth in the mean.  Bipolar: where a sum is 0, float32 is above or below by its own error.
SHARES = {"wide": 15 / 16, "bipolar": 0.95}


class Agreement(Counter[str]):
    """Elements of each kind of layer, and (key "kind differs") how many of them differ, by one at most."""

    def add(self, kind: str, made: IntArray, expected: IntArray, step: int, exact: bool, where: str) -> None:
        apart = np.abs(made - expected) // step
        worst = int(apart.max(initial=0))
        assert worst <= (not exact), f"{where}: {np.count_nonzero(apart)} of {apart.size} differ, by {worst} at most"
        self[kind] += apart.size
        self[f"{kind} differs"] += int(np.count_nonzero(apart))

    def check(self, share: float = 0.999) -> None:
        """At least `share` of the elements of each kind are equal."""
        for kind in [kind for kind in self if not kind.endswith(" differs")]:
            differ = self[f"{kind} differs"]
            allowed = (1 - min(share, SHARES.get(kind, share))) * self[kind] + 1
            assert differ <= allowed, f"{kind}: {differ} of {self[kind]} elements differ"


def hwflow_runtime(model: Model, rows: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    """hwflow's own evaluation."""
    count = len(next(iter(rows.values())))
    found = [onnx.evaluate(model, {k: v[i] for k, v in rows.items()}, names) for i in range(count)]
    return {name: np.stack([row[name] for row in found]) for name in names}


def onnxruntime(model: Model, rows: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    """onnxruntime without graph optimisation."""
    run, count = onnxruntime_session(model, names), len(next(iter(rows.values())))
    found = [run.run(None, {k: v[i] for k, v in rows.items()}) for i in range(count)]
    return {name: np.stack(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def check_layers(
    quantized: Quantized, rows: Mapping[str, Array], runtime: Runtime, total: Agreement, exact: bool = False
) -> None:
    """Each layer on what the runtime gives it: never off by more than one, and where `exact` not at all."""
    model = quantized.qdq
    for step in QDQ_PASSES:
        model = step.run(model)
    model = onnx.infer(model)
    graph, entered = quantized.graph, golden.before(quantized, rows)
    known = {result for node in model.graph.nodes for result in node.outputs}
    inner = {layer.output: layer.output.removesuffix(".frame") for layer in graph.layers}
    inner = {tensor: source for tensor, source in inner.items() if source in known}
    found = runtime(model, rows, list(dict.fromkeys(inner.values()))) if inner else {}
    expected: dict[str, IntArray] = dict(entered)
    for tensor, source in inner.items():
        expected[tensor] = frames(found[source], graph, tensor, quantized.views[tensor].index)
    for layer in graph.layers:
        made = layer.evaluate(graph, *(expected[source] for source in layer.inputs))
        if layer.output in inner:
            format = graph.tensors[layer.output].format
            kind = "bipolar" if format.bipolar else "wide" if format.bits > 8 else layer.kind
            total.add(kind, made, expected[layer.output], format.step, exact, f"{layer.kind} '{layer.name}'")
        else:
            expected[layer.output] = made


def frames(values: Array, graph: LayerGraph, name: str, index: IntArray) -> IntArray:
    """ONNX's tensor [n, *its shape] as integer frames; `index` gives each element's place."""
    tensor = graph.tensors[name]
    if values.dtype.kind == "f":  # integers that were dequantized already
        values = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
    frame = tensor.frame
    raster = np.empty((len(values), frame.elements), np.int64)
    raster[:, index.ravel()] = values.reshape(len(values), -1).astype(np.int64)
    return raster.reshape(len(values), frame.height, frame.width, frame.channels)


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
    """The QDQ model is valid, is standard, and read again (also from bytes) it gives the same integers."""
    assert set(quantized.qdq.opsets) <= {"", "ai.onnx"}
    data = onnx.dumps(quantized.qdq)
    official.checker.check_model(official.load_from_string(data), full_check=True)
    again = quantize(quantized.qdq)
    assert again.graph == quantized.graph, difference(again.graph, quantized.graph)
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


def check_views(quantized: Quantized, rows: Mapping[str, Array]) -> None:
    """Every view names a tensor of the twin with as many elements as the frame."""
    names = list(dict.fromkeys(view.source for view in quantized.views.values()))
    reals = onnx.evaluate(quantized.twin, {k: v[0] for k, v in rows.items()}, names)
    for tensor, view in quantized.views.items():
        frame = quantized.graph.tensors[tensor].frame
        assert reals[view.source].shape == view.index.shape, tensor
        assert sorted(view.index.ravel().tolist()) == list(range(frame.elements)), tensor


def signal_to_noise(made: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """In decibels, of all outputs together."""
    a, b = (np.concatenate([v.ravel() for v in x.values()]).astype(np.float64) for x in (made, expected))
    noise = float(np.mean((a - b) ** 2))
    return float(10 * np.log10(np.mean(b**2) / noise)) if noise else np.inf


def check_all(
    model: Model, quantized: Quantized, rows: Mapping[str, Array], total: Agreement, *, exact: bool, ort: bool
) -> None:
    """All of the above; `ort`: the layers in onnxruntime, too."""
    check_outputs(model, quantized, rows)
    check_layers(quantized, rows, hwflow_runtime, total, exact)
    if ort:
        check_layers(quantized, rows, onnxruntime, total, False)
    check_extremes(quantized)
    check_views(quantized, rows)
    check_store(quantized)
