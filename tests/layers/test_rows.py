"""Softmax and normalization against the operators in float64: never farther from them than their bound says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.layers import Frame, IntFormat, LayerGraph, Normalize, Softmax, Tensor
from hwflow.layers.base import Layer
from hwflow.stages.other_weights import fitted
from tests.random_cases import seeds

INT8, UINT8 = IntFormat(8, True), IntFormat(8, False)


def graph_of(layer: Layer, x: Tensor, y: Tensor) -> LayerGraph:
    graph = LayerGraph("rows", {"x": x, "y": y}, (layer,), ("x",), ("y",))
    graph.check()
    return graph


def rows(rng: np.random.Generator, format: IntFormat, length: int) -> np.ndarray:
    """Rows of any spread and mean: all alike, two values, one far from all others."""
    reach = (format.high - format.low) / 2
    spread = reach * 2.0 ** -rng.uniform(0, format.bits, (300, 1))
    found = rng.normal(format.low + reach + rng.uniform(-reach, reach, (300, 1)), spread, (300, length))
    found[:20] = found[:20, :1]
    found[20:40, 1:] = found[20:40, 1:2]
    found[40:60] = np.where(rng.random((20, length)) < 0.5, format.low, format.high)
    return np.clip(np.rint(found), format.low, format.high).astype(np.int64)


def apart(graph: LayerGraph, x: np.ndarray, exact: np.ndarray) -> float:
    """Steps between the layer's integers and real results, at most; results are limited as integers are."""
    (layer,), y = graph.layers, graph.tensors["y"]
    made = layer.evaluate(graph, x[:, None, None])[:, 0, 0]
    steps = np.clip(exact / y.scale + y.zero_point, y.format.low, y.format.high)
    return float(np.abs(made - steps).max())


@seeds(quick=range(12), slow=range(12, 200))
def test_softmax_is_within_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, format = int(rng.integers(2, 300)), IntFormat(int(rng.integers(3, 13)), bool(rng.integers(2)))
    x = Tensor("x", Frame(1, 1, length), format, float(2.0 ** -rng.uniform(0, format.bits)), 0)
    y = Tensor("y", x.frame, UINT8 if seed % 3 else IntFormat(16, False), 1 / 256 if seed % 3 else 2.0**-16, 0)
    layer = Softmax.of("softmax", x, y)
    graph, integers = graph_of(layer, x, y), rows(rng, format, length)
    powers = np.exp(x.scale * (integers - integers.max(axis=1, keepdims=True)))
    assert apart(graph, integers, powers / powers.sum(axis=1, keepdims=True)) <= 0.5 + layer.error(graph)
    assert layer.deviation(graph) == 1 or not seed % 3


@seeds(quick=range(16), slow=range(16, 200))
def test_normalization_is_within_its_bound(seed: int) -> None:
    """With the mean and without, any epsilon, inputs of up to 16 bits, outputs of 8 and of 16."""
    rng = np.random.default_rng(seed)
    length, centred = int(rng.integers(2, 300)), bool(seed % 2)
    mean, epsilon = centred or bool(rng.integers(2)), float(rng.choice([0, 1e-6, 1e-3, 0.5]))
    x = Tensor("x", Frame(1, 1, length), IntFormat(int(rng.integers(4, 17)), True), float(2.0 ** -rng.uniform(0, 9)), 2)
    output = IntFormat(16, True) if seed % 5 == 0 else INT8
    y = Tensor("y", x.frame, output, 8 / (output.high + 1), -3)
    gamma, beta = rng.normal(1, 0.5, (1, length)), rng.normal(0, 1, (1, length))
    layer = Normalize.of(
        "norm", x, y, centred=centred, mean=mean, epsilon=epsilon, gamma=gamma, beta=beta)
    graph, integers = graph_of(layer, x, y), rows(rng, x.format, length)
    # Whole numbers as long as they can be: of equal elements float64 makes differences that are noise.
    whole = length * integers - integers.sum(axis=1, keepdims=True) if centred else length * (integers - x.zero_point)
    real = x.scale * whole / length
    power = (real * real).mean(axis=1, keepdims=True) if mean else (real * real).sum(axis=1, keepdims=True)
    root = np.sqrt(power + epsilon)
    exact = np.where(real == 0, 0, real / np.where(root == 0, 1, root)) * gamma[0] + beta[0]
    assert apart(graph, integers, exact) <= 0.5 + layer.error(graph)
    assert output is not INT8 or layer.deviation(graph) == 1


def made(**fields: object) -> Normalize:
    x, y = (Tensor(name, Frame(1, 2, 8), INT8, 0.1, 0) for name in "xy")
    layer = Normalize.of("norm", x, y, centred=True, mean=True, epsilon=1e-5, gamma=np.ones((1, 8)),
                         beta=np.zeros((1, 8)))
    return replace(layer, **fields)


@pytest.mark.parametrize("fields, message", [
    ({"elements": 3}, "rows must have a divisor of 16 elements, not 3"),
    ({"gamma": np.ones((3, 8), np.int64), "beta": np.ones((3, 8), np.int64)},
     r"gamma must be \[1 or 2, a divisor of 8\]"),
    ({"center": 5}, "the center must be inside int8, and 0 where the mean is subtracted, not 5"),
    ({"epsilon": 1 << 61}, "must stay below 2"),
    ({"shift": 7}, "the shift from 8 to 40"),
    ({"low": -129}, "low and high must be inside int8")])  # fmt: skip
def test_fields_that_contradict_each_other(fields: dict[str, object], message: str) -> None:
    x, y = (Tensor(name, Frame(1, 2, 8), INT8, 0.1, 0) for name in "xy")
    with pytest.raises(ValueError, match=message):
        graph_of(made(**fields), x, y)


def test_what_no_integers_are_near_to() -> None:
    wide, x = (Tensor("x", Frame(1, 1, 8), IntFormat(bits, True), 0.1, 0) for bits in (13, 8))
    with pytest.raises(ValueError, match="the input of a Softmax must have 2 to 12 bits, not int13"):
        Softmax.of("softmax", wide, x)
    with pytest.raises(ValueError, match="gamma must be smaller for an output of scale 1e-09"):
        Normalize.of("norm", x, replace(x, scale=1e-9), centred=True, mean=True, epsilon=0.0, gamma=np.ones((1, 8)),
                     beta=np.zeros((1, 8)))


def test_other_constants_are_named() -> None:
    """A routed design takes another gamma; another epsilon is refused by its name."""
    x, y = (Tensor(name, Frame(1, 2, 8), INT8, 0.1, 0) for name in "xy")
    base, other = made(), made(gamma=made().gamma - 5, epsilon=77)
    graph, problems = fitted(graph_of(other, x, y), graph_of(base, x, y))
    assert problems == [f"layer 'norm': epsilon must be {base.epsilon}, not 77"]
    assert np.array_equal(graph.layers[0].gamma, other.gamma)
