"""XNOR and population count against the plain sum of products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import Conv, Dense, Frame, IntFormat, LayerGraph, Tensor
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.matrix_layer import pack, xnor_popcount
from hwflow.layers.rescale import Thresholds


def product(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    return xnor_popcount(pack(weights.T, rest=1), pack(x, rest=0), len(x))


@pytest.mark.parametrize("n", range(1, 8))
def test_all_small_products(n: int) -> None:
    every = np.array([*itertools.product((-1, 1), repeat=n)])
    np.testing.assert_array_equal(product(every, every.T), every @ every.T)


@pytest.mark.parametrize("n", [8, 9, 63, 64, 65, 127, 128, 129, 1000, 4608])
def test_large_products(n: int) -> None:
    rng = np.random.default_rng(n)
    weights, x = rng.choice([-1, 1], (7, n)), rng.choice([-1, 1], (n, 11))
    weights[0], weights[1], x[:, 0], x[:, 1] = 1, -1, 1, -1
    np.testing.assert_array_equal(product(weights, x), weights @ x)


def test_bits_of_a_word() -> None:
    """The unused bits of the one are 1, those of the other 0."""
    values = np.array([[1], [-1], [1]])
    assert [bin(int(word)).count("1") for rest in (0, 1) for word in pack(values, rest=rest).ravel()] == [2, 63]


@pytest.mark.parametrize("kind", ["conv", "dense"])
def test_layers_with_bipolar_inputs_and_weights_count_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same layer with int2 instead multiplies, and gives the same."""
    rng = np.random.default_rng(1)
    weights = rng.choice([-1, 1], (6, 3, 3, 8))
    x = rng.choice([-1, 1], (5, 3, 3, 8))
    t = Thresholds(np.repeat(rng.integers(-9, 9, (6, 1)), 2, axis=1), -1)
    made, counted = [], []
    monkeypatch.setattr("hwflow.layers.matrix_layer.xnor_popcount",
                        lambda *args: counted.append(1) or xnor_popcount(*args))
    for format in (BIPOLAR, IntFormat(2, True)):
        layer = (
            Conv("c", ("x",), "y", weights, format, format, t)
            if kind == "conv"
            else Dense("d", ("x",), "y", weights.reshape(6, -1), format, format, t)
        )
        tensors = {"x": Tensor("x", Frame(3, 3, 8), format, 1.0, 0), "y": Tensor("y", Frame(1, 1, 6), BIPOLAR, 1.0, 0)}
        graph = LayerGraph("g", tensors, (layer,), ("x",), ("y",))
        graph.check()
        made.append(golden.run(graph, x)["y"])
    assert len(counted) == 1
    np.testing.assert_array_equal(*made)
    sums = x.reshape(5, -1) @ weights.reshape(6, -1).T
    np.testing.assert_array_equal(made[0].reshape(5, 6), np.where(sums >= t.values[:, 0], 1, -1))
