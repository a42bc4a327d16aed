"""Softmax and normalizations between layers: along any axes, in QDQ files, and as exporters spell them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.layers import Normalize, Softmax
from hwflow.onnx import evaluate
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from hwflow.quantize.passes.decomposed import decomposed_to_operators
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings
from tests.quantize.dialects.cases import Maker
from tests.quantize.models import rows, runtime

F = np.float32
RNG = np.random.default_rng(0)
GAMMA, BETA = RNG.normal(1, 0.3, 6).astype(F), RNG.normal(0, 0.3, 6).astype(F)


def some(names: Iterable[str], *quick: str) -> list[Any]:
    """Cases of the same code: all but a few are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def torch_before_17(m: Maker, x: str) -> str:
    c = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    root = m.node("Sqrt", m.node("Add", m.node("ReduceMean", m.node("Pow", c, F(2)), axes=[-1]), F(1e-5)))
    return m.node("Add", m.node("Mul", m.node("Div", c, root), GAMMA), BETA)


def squared_difference(m: Maker, x: str) -> str:
    """As tf2onnx writes Keras: the scale before the mean is subtracted."""
    mean = m.node("ReduceMean", x, axes=[3])
    d = m.node("Sub", x, mean)
    power = m.node("Add", m.node("ReduceMean", m.node("Mul", d, d), axes=[3]), F(1e-3))
    scale = m.node("Mul", m.node("Reciprocal", m.node("Sqrt", power)), GAMMA)
    return m.node("Add", m.node("Mul", x, scale), m.node("Sub", BETA, m.node("Mul", mean, scale)))


def mean_of_squares(m: Maker, x: str) -> str:
    """As jax2tf writes flax, over an axis in the middle, without keeping it."""
    sums = [m.node("Mul", m.node("ReduceSum", each, ints(2), keepdims=0), F(1 / 5))
            for each in (x, m.node("Mul", x, x))]
    power = m.node("Max", F(0), m.node("Sub", sums[1], m.node("Mul", sums[0], sums[0])))
    mean, power = (m.node("Expand", m.node("Unsqueeze", each, ints(2)), ints(1, 4, 1, 6)) for each in (sums[0], power))
    scale = m.node("Mul", m.node("Reciprocal", m.node("Sqrt", m.node("Add", power, F(1e-6)))), GAMMA[:5].reshape(5, 1))
    return m.node("Add", m.node("Mul", m.node("Sub", x, mean), scale), BETA[:5].reshape(5, 1))


def root_mean_square(m: Maker, x: str) -> str:
    power = m.node("Add", m.node("ReduceMean", m.node("Pow", x, F(2)), axes=[-1]), F(1e-6))
    return m.node("Mul", GAMMA, m.node("Mul", x, m.node("Pow", power, F(-0.5))))


def mean_in_another_shape(m: Maker, x: str) -> str:
    """As jax writes it: means get their axis back by a Reshape."""
    sums = [m.node("Mul", m.node("ReduceSum", each, ints(3), keepdims=0), F(1 / 6))
            for each in (x, m.node("Mul", x, x))]
    power = m.node("Max", F(0), m.node("Sub", sums[1], m.node("Mul", sums[0], sums[0])))
    root = m.node("Sqrt", m.node("Add", m.node("Reshape", power, ints(1, 4, 5, 1)), F(1e-6)))
    scale = m.node("Mul", m.node("Reciprocal", root), GAMMA)
    mean = m.node("Expand", m.node("Reshape", sums[0], ints(1, 4, 5, 1)), ints(1, 4, 5, 1))
    return m.node("Add", m.node("Mul", m.node("Sub", x, mean), scale), BETA)


def reciprocal_root(m: Maker, x: str) -> str:
    """RMSNorm of language models."""
    power = m.node("Add", m.node("ReduceMean", m.node("Pow", x, F(2)), axes=[-1]), F(1e-6))
    return m.node("Mul", GAMMA, m.node("Mul", x, m.node("Reciprocal", m.node("Sqrt", power))))


def length_by_squares(m: Maker, x: str) -> str:
    return m.node("Div", x, m.node("Sqrt", m.node("ReduceSum", m.node("Mul", x, x), ints(3))))


def length(m: Maker, x: str) -> str:
    """torch.nn.functional.normalize."""
    norm = m.node("Clip", m.node("ReduceL2", x, axes=[1], keepdims=1), F(1e-12))
    return m.node("Div", x, m.node("Expand", norm, ints(1, 4, 5, 6)))


def exponentials(m: Maker, x: str) -> str:
    powers = m.node("Exp", m.node("Sub", x, m.node("ReduceMax", x, axes=[-1])))
    return m.node("Div", powers, m.node("ReduceSum", powers, ints(-1)))


FORMS: dict[str, tuple[Callable[[Maker, str], str], str]] = {
    "torch": (torch_before_17, "LayerNormalization"), "tf2onnx": (squared_difference, "LayerNormalization"),
    "jax2tf": (mean_of_squares, "LayerNormalization"), "jax": (mean_in_another_shape, "LayerNormalization"),
    "RMS": (root_mean_square, "RMSNormalization"), "RMS by a root": (reciprocal_root, "RMSNormalization"),
    "length": (length, "RMSNormalization"), "length by squares": (length_by_squares, "RMSNormalization"),
    "Softmax": (exponentials, "Softmax")}


def written_out(make: Callable[[Maker, str], str]) -> Model:
    """Between two layers, in operator set 13, and a sum with what comes in beside it."""
    m = Maker((1, 4, 5, 6))
    x = m.node("Conv", m.x, RNG.normal(0, 0.5, (4, 4, 1, 1)).astype(F), name="first")
    y = m.node("Add", make(m, x), x)
    return onnx.infer(m.model(m.node("Conv", y, RNG.normal(0, 0.5, (3, 4, 1, 1)).astype(F)), opset=13, domains={}))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_out_is_found(form: str) -> None:
    """As hwflow evaluates it, and onnxruntime what it has."""
    make, operator = FORMS[form]
    model = written_out(make)
    found = decomposed_to_operators(model)
    kinds = Counter(node.op_type for node in found.graph.nodes)
    assert set(kinds) - {"Transpose"} == {"Conv", operator, "Add"}
    assert kinds["Add"] == kinds[operator] == 1
    assert not any(name.endswith(".summands") for name in found.graph.initializers)
    x = {model.graph.inputs[0].name: np.random.default_rng(1).normal(0, 2, (3, 1, 4, 5, 6)).astype(F)}
    (ours,), (theirs,) = (list(evaluate(each, {name: row[0] for name, row in x.items()}).values())
                          for each in (found, model))
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)
    if operator != "RMSNormalization":  # which onnxruntime does not have yet
        np.testing.assert_allclose(runtime(found, x), runtime(model, x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("form", some(FORMS, "jax2tf", "length"))
def test_what_is_written_out_becomes_a_layer(form: str) -> None:
    make, operator = FORMS[form]
    made = quantize(written_out(make))
    assert {"normalize" if operator != "Softmax" else "softmax"} <= {layer.kind for layer in made.graph.layers}


def fourth_root(m: Maker, x: str) -> str:
    power = m.node("Add", m.node("ReduceMean", m.node("Mul", x, x), axes=[-1]), F(1))
    return m.node("Div", x, m.node("Pow", power, F(0.25)))


def exponential_of_another_sum(m: Maker, x: str) -> str:
    return m.node("Div", m.node("Exp", x), m.node("ReduceSum", m.node("Abs", x), ints(3)))


@pytest.mark.parametrize("make", [fourth_root, exponential_of_another_sum])
def test_what_looks_alike_stays(make: Callable[[Maker, str], str]) -> None:
    model = written_out(make)
    assert decomposed_to_operators(model) is model


def test_what_is_used_elsewhere_stays() -> None:
    """A deviation that something else reads, and a quotient that is no normalization of all of what is read."""
    m = Maker((1, 4, 5, 6))
    root = m.node("Sqrt", m.node("Add", m.node("ReduceMean", m.node("Mul", m.x, m.x), axes=[-1]), F(1e-3)))
    model = onnx.infer(m.model(m.node("Div", m.x, root), root, opset=13, domains={}))
    assert decomposed_to_operators(model) == model
    m = Maker((1, 4, 5, 6))
    root = m.node("Sqrt", m.node("Add", m.node("ReduceMean", m.node("Mul", m.x, m.x), axes=[-1]), F(1e-3)))
    model = onnx.infer(m.model(m.node("Div", m.node("Abs", m.x), root), opset=13, domains={}))
    assert decomposed_to_operators(model) == model


def network(make: Callable[[Maker, str], str], opset: int = 23) -> Model:
    m = Maker((1, 4, 5, 6))
    x = m.node("Conv", m.x, RNG.normal(0, 0.5, (4, 4, 1, 1)).astype(F), name="first")
    return onnx.infer(m.model(m.node("Conv", make(m, x), RNG.normal(0, 1, (3, 4, 1, 1)).astype(F)), opset=opset,
                              domains={}))


KINDS: dict[str, tuple[Callable[[Maker, str], str], int]] = {
    "Softmax of channels": (lambda m, x: m.node("Softmax", x, axis=1), 0),
    "Softmax of a row": (lambda m, x: m.node("Softmax", m.node("Mul", x, F(0.25))), 1),
    "LayerNormalization of channels": (lambda m, x: m.node("Transpose", m.node(
        "LayerNormalization", m.node("Transpose", x, perm=[0, 2, 3, 1]), GAMMA[:4], BETA[:4]), perm=[0, 3, 1, 2]), 0),
    "LayerNormalization of all": (lambda m, x: m.node(
        "LayerNormalization", x, RNG.normal(1, 0.2, (4, 5, 6)).astype(F), axis=1), 0),
    "InstanceNormalization": (lambda m, x: m.node("InstanceNormalization", x, GAMMA[:4], BETA[:4]), 1),
    "GroupNormalization": (lambda m, x: m.node("Relu", m.node(
        "GroupNormalization", x, GAMMA[:4], BETA[:4], num_groups=2)), 1),
    "one group": (lambda m, x: m.node("GroupNormalization", x, GAMMA[:4], BETA[:4], num_groups=1), 0),
    "RMSNormalization": (lambda m, x: m.node("Mul", m.node("RMSNormalization", x, GAMMA), F(-2)), 1),
}


@pytest.mark.parametrize("kind", some(KINDS, "Softmax of a row", "GroupNormalization", "LayerNormalization of all"))
def test_between_layers(kind: str) -> None:
    """`quantize` compares each layer with its operator, to within the layer's deviation; elements are put in place only
    where they are no run of the raster, and the integers are those of the quantized model in float arithmetic.
    """
    make, moves = KINDS[kind]
    data = np.random.default_rng(2).normal(0, 1, (40, 1, 4, 5, 6)).astype(F)
    made = quantize(network(make), {"x": data})
    layers = Counter(layer.kind for layer in made.graph.layers)
    assert layers["rearrange"] <= 2 * moves
    assert moves or not layers["rearrange"]
    (layer,) = (each for each in made.graph.layers if isinstance(each, (Softmax, Normalize)))
    assert layer.deviation(made.graph) == 1
    (name,) = (value.name for value in made.qdq.graph.outputs)
    ours = golden.predict(made, {"x": data})[name]
    theirs = np.concatenate([evaluate(made.qdq, {"x": row})[name] for row in data]).reshape(ours.shape)
    step = made.graph.tensors[made.graph.outputs[0]].scale
    assert np.abs(ours - theirs).max() < 8 * step
    # An integer that is one step off moves all sums that it is in.
    assert np.mean(np.abs(ours - theirs) > 0.5 * step) < 0.05


def quantized(m: Maker, x: str, scale: float, zero_point: int = 0) -> str:
    x = m.node("QuantizeLinear", x, F(scale), np.int8(zero_point))
    return m.node("DequantizeLinear", x, F(scale), np.int8(zero_point))


def test_a_quantized_file() -> None:
    """Scale and bias quantized too, one function behind the other; onnxruntime gives nearly the same integers."""
    def weights(*shape: int, mean: float = 0.0) -> str:
        values = RNG.normal(mean, 0.4, shape)
        scale = np.abs(values).max() / 127
        return m.node("DequantizeLinear", np.rint(values / scale).astype(np.int8), F(scale), np.int8(0))

    m = Maker((1, 4, 5, 6))
    x = quantized(m, m.node("Conv", quantized(m, m.x, 0.03, 3), weights(4, 4, 1, 1)), 0.03, -3)
    x = quantized(m, m.node("LayerNormalization", x, weights(6, mean=1.0), weights(6)), 0.03, 5)
    x = quantized(m, m.node("Softmax", x, axis=-1), 1 / 256, -128)
    x = quantized(m, m.node("Conv", x, weights(3, 4, 1, 1)), 1 / 256)
    model = onnx.infer(m.model(x, opset=17, domains={}))
    made, feeds = quantize(model), rows(model, 60)
    assert [layer.kind for layer in made.graph.layers] == [
        "conv", "rearrange", "normalize", "softmax", "rearrange", "conv"]
    (name,) = (value.name for value in model.graph.outputs)
    apart = 256 * np.abs(golden.predict(made, feeds)[name] - runtime(model, feeds))
    assert apart.max() < 4
    assert np.mean(apart > 0.5) < 0.05


def test_what_has_no_hardware_is_refused() -> None:
    """One message each, with the node's name."""
    def refused(make: Callable[[Maker, str], str], why: str) -> None:
        with pytest.raises(HwflowError, match=why):
            quantize(network(make))

    wide = QuantizationSettings(LayerSettings(output=ActivationSettings(bits=16)))
    narrowed = quantize(network(lambda m, x: m.node("Softmax", x)), settings=wide)
    assert any("Softmax" in note and "12" in note for note in narrowed.notes), narrowed.notes
    refused(lambda m, x: m.node("LpNormalization", x, axis=1, p=1), "p must be 2")
    refused(lambda m, x: m.node("LayerNormalization", x, m.node("GlobalMaxPool", x)), "is computed")
    refused(lambda m, x: m.node("Add", x, m.b.nodes(
        "LayerNormalization", x, m.constant(GAMMA), outputs=("y", "mean"))[1]), "further result 'mean' has no hardware")
