"""Which states a window keeps: those that only shift in front of one convolution, however that is written; in all other
cases a state stays a queue, and the design means the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwflow import hls
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.layers import Concat, Conv, Frame, LayerGraph, Rearrange
from hwflow.layers.base import State
from hwflow.layers.formats import IntFormat, Tensor
from hwflow.layers.rearrange import picked
from hwflow.layers.rescale import Requantize
from hwflow.stages.kept_rows import kept_rows
from hwflow.stages.partition import Partition, SharedLayers
from hwflow.synth import load_board

INT8, SUM = IntFormat(8, True), IntFormat(24, True)
CHANNELS = 2


def conv(name: str, x: str, kernel: tuple[int, int], **fields: Any) -> Conv:
    ones = np.ones(CHANNELS, np.int64)
    rescale = Requantize(0 * ones, ones, 2 * ones, 0, INT8.low, INT8.high)
    weights = np.arange(CHANNELS * kernel[0] * kernel[1] * CHANNELS).reshape(CHANNELS, *kernel, CHANNELS) % 5 - 2
    return Conv(name, (x,), f"{name}.y", weights, INT8, INT8, rescale, **fields)


def flat(name: str, x: str, frame: Frame) -> Rearrange:
    return Rearrange(name, (x,), f"{name}.y", INT8, np.zeros(1, np.int64), np.zeros(1, np.int64),
                     np.arange(frame.elements), padding=0)


def network(taps: int = 3, kept: int = 2, new: int = 1, width: int = 1, *, turned: bool = False,
            first: int | None = None, initial: object = 0, zero_point: int = 0, **window: Any) -> LayerGraph:
    """Concat(state, x) along the rows, a convolution of it, and its rows from `first` on (the last ones) as the next
    state; `turned`: along the columns of frames of one row."""
    def frame(count: int) -> Frame:
        return Frame(1, count, CHANNELS) if turned else Frame(count, width, CHANNELS)

    both = frame(kept + new)
    unfolded = np.arange(both.height)[:, None, None] * both.width * CHANNELS
    window = {"pads": (0, 0, 0, 0), **window}
    shaped = Rearrange("both", ("joined",), "both.y", INT8, unfolded.reshape(-1), np.arange(both.width) * CHANNELS,
                       np.arange(CHANNELS), padding=0)
    first = new if first is None else first
    axis = {"columns" if turned else "rows": np.arange(first, first + kept)}
    last = Rearrange("last", ("both.y",), "last.y", INT8, *picked(both, **axis), padding=0)
    layers = (flat("old", "state", frame(kept)), flat("new", "x", frame(new)),
              Concat("join", ("old.y", "new.y"), "joined"), shaped, last,
              conv("conv", "both.y", (1, taps) if turned else (taps, 1), **window))
    shapes = {"state": frame(kept), "x": frame(new)}
    for layer in layers:
        shapes[layer.output] = layer.output_frame(*(shapes[name] for name in layer.inputs))
    tensors = {name: Tensor(name, each, INT8, 1.0, zero_point) for name, each in shapes.items()}
    values = np.broadcast_to(np.asarray(initial), (shapes["state"].height, shapes["state"].width, CHANNELS)).copy()
    graph = LayerGraph("net", tensors, layers, ("x",), ("conv.y",), (State("state", "last.y", values),))
    graph.check()
    return graph


@pytest.mark.parametrize(("fields", "count"), [
    ({}, 2),
    ({"taps": 5, "kept": 2, "new": 3, "strides": (3, 1)}, 2),
    ({"taps": 3, "kept": 6, "dilations": (3, 1)}, 6),
    ({"new": 4, "width": 3}, 2),
    ({"new": 2, "width": 3, "pads": (0, 1, 0, 1), "initial": 3, "zero_point": 3}, 2),
    ({"initial": -7, "zero_point": 3}, 2),
    ({"turned": True}, 2),
    ({"turned": True, "new": 4}, 2),
    ({"turned": True, "taps": 2, "kept": 4, "dilations": (1, 4), "new": 2}, 4),
])  # fmt: skip
def test_a_window_keeps_the_state(fields: dict[str, Any], count: int) -> None:
    graph = network(**fields)
    (found,) = kept_rows(graph)
    assert (found.rows, found.x, found.initial) == (count, "x", fields.get("initial", 0))
    (stage,) = stages_of(graph)
    assert (stage.name, stage.inputs, stage.outputs, stage.boundaries) == ("5_conv", ("x",), ("conv.y",), ("conv.y",))
    assert len(stage.layers) == len(graph.layers)


def with_layer(layer: Conv) -> LayerGraph:
    graph = network()
    shape = layer.output_frame(graph.tensors[layer.inputs[0]].frame)
    tensors = {**graph.tensors, layer.output: Tensor(layer.output, shape, INT8, 1.0, 0)}
    made = replace(graph, tensors=tensors, layers=(*graph.layers, layer), outputs=(*graph.outputs, layer.output))
    made.check()
    return made


@pytest.mark.parametrize("graph", [
    pytest.param(network(taps=2), id="the first window needs no new row"),
    pytest.param(network(initial=[[[1, 2]]]), id="several first values"),
    pytest.param(network(first=0), id="the first rows are kept"),
    pytest.param(network(pads=(0, 1, 0, 1), width=2, initial=1), id="padding is another value"),
    pytest.param(network(pads=(1, 0, 0, 0)), id="padding in front of the state"),
    pytest.param(with_layer(conv("other", "both.y", (3, 1))), id="two windows"),
    pytest.param(with_layer(conv("other", "state", (1, 1))), id="something else reads the state"),
    pytest.param(replace(network(), outputs=("conv.y", "joined")), id="an output has the rows"),
])
def test_a_queue_keeps_the_state(graph: LayerGraph) -> None:
    assert kept_rows(graph) == ()
    assert len(stages_of(graph)) == len(graph.layers)
    plan = hls.make_plan(graph, [next(iter(stage.foldings())) for stage in stages_of(graph)],
                         load_board("ulx3s_85f").technology())
    assert sum(link.sink.of_state for link in plan.links) == 1


def test_a_shared_stage_takes_layers_of_a_window() -> None:
    """Then the state stays in its frame memory, or is a queue; no window keeps it."""
    graph = network()
    shared = SharedLayers("shared0", (2, 3), single_port=False, buffer=16, interval=1, rom_rows=1)
    partition = Partition((shared,))
    assert partition.windows(graph) == ()
    assert [state.read for state in partition.states_outside(graph)] == ["state"]
    assert len(stages_of(graph, partition)) == len(graph.layers) - 1
    assert Partition().states_outside(graph) == ()
