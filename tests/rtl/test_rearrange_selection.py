"""Words that pass in order, without a ring."""

import numpy as np
import pytest
from hwflow_rtl.rearrange.selection import SelectionShape, SelectionStage
from hwflow_rtl.rearrange.shape import RearrangeShape
from hwflow_rtl.vendor import ECP5, Generic

from hwflow.layers import Frame, IntFormat, LayerGraph, Rearrange, Tensor
from hwflow.layers.rearrange import picked
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.rtl.harness import simulate
from tests.rtl.test_rearrange import INT8, OPERATIONS, PADDING, arriving, frames_of, naive

IN_ORDER = ("crop", "every second", "channels in order", "one word", "as it is")


def selection_of(name: str) -> SelectionStage:
    frame, offsets, lanes = OPERATIONS[name]
    shape = RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes)
    return SelectionShape(name="select", order=shape, element=INT8, lanes=lanes).build(Generic(), "select")


@pytest.mark.parametrize("name", IN_ORDER)
def test_selection(name):
    """Words in order need no ring."""
    frame, offsets, lanes = OPERATIONS[name]
    frames = frames_of(frame, 3)
    expected = naive(frames, offsets, PADDING).reshape(-1, lanes)
    for stalls in ((0.3, 0.5), (0, 0.9), (0, 0)):
        stage = selection_of(name)
        traces = simulate(stage, sends={"i": frames.reshape(-1, lanes)}, receives={"o": len(expected)},
                          stall_in=stalls[0], stall_out=stalls[1])
        assert np.array_equal(traces["o"].beats, expected)
        assert np.array_equal(stage.model(frames), expected)
    assert traces["o"].cycles[-1] - traces["o"].cycles[-1 - len(expected) // 3] == stage.shape.cycles


@pytest.mark.parametrize("name", IN_ORDER)
def test_times_of_a_selection_are_exact(name):
    stage, frames = selection_of(name), frames_of(OPERATIONS[name][0], 2)
    arrivals = np.cumsum(np.random.default_rng(len(name)).choice([1, 2, 30], 2 * stage.shape.order.input_words))
    taken, given = arriving(stage, frames, arrivals)
    times = stage.shape.times(stage.technology, arrivals)
    assert np.array_equal(times.taken[0], taken)
    assert np.array_equal(times.departures, given)


def test_only_words_in_order_are_a_selection():
    found = {name for name, (frame, offsets, lanes) in OPERATIONS.items()
             if RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes).in_order}
    assert found == set(IN_ORDER)
    with pytest.raises(ValueError, match="words of selection 'select' must pass in order, each once"):
        selection_of("resize x2")


def test_a_crop_takes_no_memory():
    """The layer chooses the cheaper stage; its RAM is the description's alone."""
    frame = Frame(64, 64, 8)
    offsets = picked(frame, range(3, 60), range(1, 64, 3), range(4))
    layer = Rearrange("crop", ("x",), "y", IntFormat(8, True), *offsets, 0)
    frames = {"x": frame, "y": offsets.frame}
    tensors = {name: Tensor(name, made, IntFormat(8, True), 1.0, 0) for name, made in frames.items()}
    graph, folding = LayerGraph("one", tensors, (layer,), ("x",), ("y",)), Folding(1, 4, 4)
    graph.check()
    unit = stage_of(graph, layer).unit(folding, ECP5())
    assert isinstance(unit, SelectionStage)
    assert stage_of(graph, layer).cost(folding, ECP5()).ram == 0
    assert stage_of(graph, layer).schedule(folding, REFERENCE).interval == unit.shape.cycles == 64 * 64 * 2
    arrivals = np.arange(64 * 64 * 2)
    times = stage_of(graph, layer).times(folding, ECP5(), arrivals)
    assert np.array_equal(times.taken[0], arrivals)
    assert times.departures[0] == 3 * 64 * 2 + 2 + unit.shape.LATENCY
