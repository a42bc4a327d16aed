"""Channels that change places between layers (shuffles): no layer of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwflow.layers import Conv
from hwflow.quantize.importer.element_places import ordered_weights
from tests.quantize.models import Branch, Chain, Qdq, assert_agrees


def shuffled(groups: int = 3, channels: int = 6) -> Qdq:
    """A layer, and its channels as ShuffleNet mixes them: Reshape, Transpose, Reshape."""
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((channels, 3, 3, 3), pads=(1, 1, 1, 1)).qdq(0.0617, -100)
    m.node("Reshape", m.constant("split", np.array([1, groups, channels // groups, 6, 5])))
    m.node("Transpose", perm=(0, 2, 1, 3, 4))
    return m.node("Reshape", m.constant("join", np.array([1, channels, 6, 5])))


def behind(build: Branch, kinds: str, scale: float = 0.5, share: float = 0.995) -> Chain:
    return Chain(lambda: build(shuffled()).qdq(scale, 0 if scale > 0.05 else -100), f"conv {kinds}", share)


def mean(op: str, **attributes: Any) -> Chain:
    return Chain(lambda: shuffled().node(op, **attributes).qdq(0.02, 0), "conv average_pool", 0.98)


CHAINS = {
    "conv": behind(lambda m: m.conv((4, 6, 3, 3)), "conv"),
    "depthwise": behind(lambda m: m.conv((6, 1, 3, 3), group=6), "conv"),
    "depthwise with two outputs each": behind(lambda m: m.conv((12, 1, 3, 3), group=6), "conv"),
    "groups": behind(lambda m: m.conv((8, 3, 3, 3), group=2), "conv"),
    "depthwise, then groups": behind(
        lambda m: m.conv((6, 1, 3, 3), group=6).node("Relu").qdq(0.4, -128).conv((4, 3, 1, 1), group=2), "conv conv"),
    "function per channel": behind(
        lambda m: m.conv((6, 1, 3, 3), group=6).op("Mul", np.arange(1, 7, dtype="f")[:, None, None]), "conv"),
    "max pool, then conv": behind(
        lambda m: m.node("MaxPool", kernel_shape=(2, 2)).conv((4, 6, 3, 3)), "max_pool conv"),
    "average": mean("AveragePool", kernel_shape=(3, 2)),
    "mean": mean("GlobalAveragePool"),
    "dense": behind(lambda m: m.node("Flatten").matmul(180, 5), "dense"),
    "a gate of the mean": behind(
        lambda m: m.joined("Mul", lambda m: m, lambda m: m.node("GlobalAveragePool").qdq(0.05, -100).conv(
            (6, 1, 1, 1), group=6).qdq(0.02, 0)), "average_pool conv multiply", scale=0.05, share=0.999),
    # One of the operands is put in place.
    "a sum of channels in different orders": behind(
        lambda m: m.joined("Add", lambda m: m, lambda m: m.conv((6, 6, 1, 1)).qdq(0.5, 0)).qdq(0.5, 0).conv(
            (4, 6, 1, 1)), "conv rearrange add conv", share=0.99),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_behind_a_shuffle(name: str) -> None:
    CHAINS[name].check()


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
