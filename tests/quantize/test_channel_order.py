"""Channels that change places between layers (shuffles): no layer of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow.layers import Conv
from hwflow.quantize.importer.channels import ordered_weights
from tests.quantize.models import Qdq, assert_agrees, kinds


def shuffled(groups: int = 3, channels: int = 6) -> Qdq:
    """A layer, and its channels as ShuffleNet mixes them: Reshape, Transpose, Reshape."""
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((channels, 3, 3, 3), pads=(1, 1, 1, 1)).qdq(0.0617, -100)
    m.node("Reshape", m.constant("split", np.array([1, groups, channels // groups, 6, 5])))
    m.node("Transpose", perm=(0, 2, 1, 3, 4))
    return m.node("Reshape", m.constant("join", np.array([1, channels, 6, 5])))


BEHIND: dict[str, tuple[Callable[[Qdq], Qdq], list[str]]] = {
    "conv": (lambda m: m.conv((4, 6, 3, 3)), ["conv"]),
    "depthwise": (lambda m: m.conv((6, 1, 3, 3), group=6), ["conv"]),
    "depthwise with two outputs each": (lambda m: m.conv((12, 1, 3, 3), group=6), ["conv"]),
    "groups": (lambda m: m.conv((8, 3, 3, 3), group=2), ["conv"]),
    "depthwise, then groups": (
        lambda m: m.conv((6, 1, 3, 3), group=6).node("Relu").qdq(0.4, -128).conv((4, 3, 1, 1), group=2),
        ["conv", "conv"],
    ),
    "function per channel": (
        lambda m: m.conv((6, 1, 3, 3), group=6).node("Mul", m.constant("f", np.arange(1, 7, dtype="f")[:, None, None])),
        ["conv"],
    ),
    "max pool, then conv": (
        lambda m: m.node("MaxPool", kernel_shape=(2, 2)).conv((4, 6, 3, 3)),
        ["max_pool", "conv"],
    ),
    "average": (lambda m: m.node("AveragePool", kernel_shape=(3, 2)), ["average_pool"]),
    "mean": (lambda m: m.node("GlobalAveragePool"), ["average_pool"]),
    "dense": (lambda m: m.node("Flatten").matmul(180, 5), ["dense"]),
}  # fmt: skip


@pytest.mark.parametrize("behind", BEHIND)
def test_behind_a_shuffle(behind: str) -> None:
    build, expected = BEHIND[behind]
    m = build(shuffled())
    scale = 0.02 if expected == ["average_pool"] else 0.5
    q = assert_agrees(m.qdq(scale, 0).model(), scale, share=0.98 if expected == ["average_pool"] else 0.995)
    assert kinds(q) == ["conv", *expected]


def test_a_gate_of_the_mean_behind_a_shuffle() -> None:
    m = shuffled()
    image = m.x
    m.node("GlobalAveragePool").qdq(0.05, -100).conv((6, 1, 1, 1), group=6).qdq(0.02, 0)
    m.x = m.b.node("Mul", image, m.x, name="gate")
    q = assert_agrees(m.qdq(0.05, -100).model(), 0.05)
    assert kinds(q) == ["conv", "average_pool", "conv", "multiply"]


def test_a_sum_of_channels_in_different_orders_puts_one_in_place() -> None:
    m = shuffled()
    image = m.x
    m.conv((6, 6, 1, 1)).qdq(0.5, 0)
    m.x = m.b.node("Add", image, m.x, name="sum")
    q = assert_agrees(m.qdq(0.5, 0).conv((4, 6, 1, 1)).qdq(0.5, 0).model(), 0.5, share=0.99)
    assert kinds(q) == ["conv", "conv", "rearrange", "add", "conv"]


def test_other_groups_become_one_with_zeros() -> None:
    q = assert_agrees(shuffled().conv((8, 3, 3, 3), group=2).qdq(0.5, 0).model(), 0.5, share=0.995)
    layer = q.graph.layers[-1]
    assert isinstance(layer, Conv)
    assert layer.groups == 1
    assert np.count_nonzero(layer.weights.any(axis=(1, 2))) == 8 * 3


def test_channels_in_their_order_keep_their_groups() -> None:
    weights = np.arange(8 * 3).reshape(8, 1, 1, 3)
    made, groups, places = ordered_weights(weights, 2, np.arange(6))
    assert groups == 2
    assert made is weights
    assert places.tolist() == list(range(8))
