"""Depthwise convolutions of unlike lengths over parts of a cache are one convolution: with the weights of all, and with
room for others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.hls.plan.graph_stages import stages_of
from hwflow.layers import Conv, Frame, LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.stages.kept_rows import KeptRows, kept_rows
from hwflow.stages.other_weights import with_room
from tests.strategies.layer_graphs import frames_for
from tests.strategies.shifting_states import mixed_network


def several(graph: LayerGraph, kept: KeptRows) -> bool:
    return sum(isinstance(graph.layers[k], Conv) for k in kept.layers) > 1


def results(graph: LayerGraph, kept: KeptRows, rows: IntArray) -> IntArray:
    """What the layers make of a state and new elements, and what the window makes of the rows of both."""
    names = {state.read: state for state in graph.states}
    assert kept.state.read in names
    count = kept.state.initial.size
    values = {kept.state.read: rows.reshape(len(rows), -1)[:, :count].reshape(len(rows), *kept.state.initial.shape),
              kept.x: rows.reshape(len(rows), -1)[:, count:].reshape(len(rows), *shape_of(graph.tensors[kept.x].frame))}
    for k in kept.layers:
        layer = graph.layers[k]
        values[layer.output] = layer.evaluate(graph, *(values[name] for name in layer.inputs))
    return values[kept.window.output]


def shape_of(frame: Frame) -> tuple[int, int, int]:
    return frame.height, frame.width, frame.channels


@pytest.mark.parametrize("seed", range(20))
def test_the_window_computes_what_its_layers_do(seed: int) -> None:
    graph, rng = mixed_network(seed), np.random.default_rng(seed)
    for kept in kept_rows(graph):
        format = graph.tensors[kept.x].format
        rows = frames_for(replace(graph, inputs=(kept.x,)), 5, seed)[kept.x]
        rows = rng.choice(rows.reshape(-1), (5, *shape_of(kept.frame)))
        assert format.contains(rows)
        whole = replace(graph.tensors[kept.x], frame=kept.frame)
        tensors = {**graph.tensors, kept.window.inputs[0]: whole}
        np.testing.assert_array_equal(kept.window.evaluate(replace(graph, tensors=tensors), rows),
                                      results(graph, kept, rows))


def test_room_for_other_weights() -> None:
    """The stages are the same, and each sum and constant of a part has room in the whole."""
    found = 0
    for seed in range(12):
        graph = mixed_network(seed)
        roomy = with_room(graph)
        assert [stage.layers for stage in stages_of(graph)] == [
            tuple(next(one for one in graph.layers if one.name == layer.name) for layer in stage.layers)
            for stage in stages_of(roomy)]
        for kept in kept_rows(roomy):
            parts = [layer for k in kept.layers if isinstance(layer := roomy.layers[k], Conv)]
            room = kept.window.requantize
            assert room.room.bits == max(each.requantize.room.bits for each in parts)  # type: ignore[union-attr]
            assert room.factor_bits >= max(each.requantize.factor_bits for each in parts)  # type: ignore[union-attr]
            assert all(room.base <= each.requantize.base  # type: ignore[union-attr]
                       and room.base + room.extra >= each.requantize.base + each.requantize.extra  # type: ignore[union-attr]
                       for each in parts)
            found += several(roomy, kept)
    assert found > 5


def test_what_is_joined() -> None:
    """Most of these caches are kept by one window; a table of who multiplies what decides, not the weights' values."""
    graphs = [mixed_network(seed) for seed in range(60)]
    joined = [(graph, kept) for graph in graphs for kept in kept_rows(graph) if several(graph, kept)]
    assert len(joined) > 40
    for graph, kept in joined[:10]:
        zeros = replace(graph, layers=tuple(replace(layer, weights=np.zeros_like(layer.weights))
                                            if isinstance(layer, Conv) and layer.weight_format.contains(np.zeros(1))
                                            else layer for layer in graph.layers))
        assert [each.layers for each in kept_rows(zeros)] == [each.layers for each in kept_rows(graph)], kept
