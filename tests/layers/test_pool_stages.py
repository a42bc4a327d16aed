"""Pools as ONNX writes them, down to their stages: beats of the unit and of its model against the golden integers."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_rtl.pool.fold_pool import FoldAveragePoolStage, FoldMaxPoolStage
from hwflow_rtl.pool.pool import AveragePoolStage, MaxPoolStage
from hwflow_rtl.vendor import ECP5, Generic

from hwflow.layers import AveragePool, LayerGraph, MaxPool, TopK
from hwflow.quantize import quantize
from hwflow.quantize.settings import QuantizationSettings
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.quantize.models import Qdq
from tests.rtl.harness import simulate

#: Shape of the input, attributes, and whether the windows need a ring.
POOLS = {
    "ceil_mode": ((1, 2, 6, 7), {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}, True),
    "ceil_mode and pads": (
        (1, 2, 9, 9), {"kernel_shape": (3, 3), "strides": (3, 3), "pads": (1, 1, 1, 1), "ceil_mode": 1}, True),
    "SAME_UPPER": ((1, 4, 6, 5), {"kernel_shape": (3, 2), "strides": (2, 1), "auto_pad": "SAME_UPPER"}, True),
    "SAME_LOWER": ((1, 2, 6, 5), {"kernel_shape": (2, 3), "strides": (1, 2), "auto_pad": "SAME_LOWER"}, True),
    "asymmetric": ((1, 2, 5, 6), {"kernel_shape": (3, 2), "pads": (0, 1, 2, 0)}, True),
    "1-D": ((1, 6, 11), {"kernel_shape": (4,), "pads": (2, 1), "strides": (3,)}, True),
    "1-D, ceil_mode": ((1, 4, 10), {"kernel_shape": (4,), "strides": (4,), "ceil_mode": 1}, True),
    "side by side": ((1, 6, 7, 8), {"kernel_shape": (2, 3), "strides": (2, 3)}, False),
    "1-D, side by side": ((1, 4, 13), {"kernel_shape": (4,), "strides": (4,)}, False),
    "the whole frame": ((1, 12, 5, 4), {}, False),
}  # fmt: skip
DILATED = ((1, 2, 8, 9), {"kernel_shape": (2, 3), "dilations": (3, 2), "pads": (1, 1, 0, 1), "strides": (1, 2)}, True)
QUICK = ("ceil_mode and pads", "side by side")
RING, FOLD = (MaxPoolStage, AveragePoolStage), (FoldMaxPoolStage, FoldAveragePoolStage)


def graph_of(op: str, shape: tuple[int, ...], attributes: dict, opset: int = 17) -> LayerGraph:
    """The graph of one pool of int8."""
    if not attributes:
        op = f"Global{op}"
    m = Qdq(shape).qdq(0.0313, 7).node(op, **attributes)
    return quantize((m if "Max" in op else m.qdq(0.0261, -5)).model(opset=opset)).graph


def prove(graph: LayerGraph, folding: Folding, ring: bool) -> None:
    (layer,) = graph.layers
    assert isinstance(layer, (AveragePool, MaxPool))
    x = graph.tensors[layer.inputs[0]]
    stage = stage_of(graph, layer).unit(folding, Generic())
    assert isinstance(stage, RING if ring else (*FOLD, AveragePoolStage))  # whose sums may leave too slowly
    frames = np.random.default_rng(1).integers(-128, 128, (3, x.frame.height, x.frame.width, x.frame.channels))
    frames[1] = -128
    expected = layer.evaluate(graph, frames).reshape(-1, folding.lanes)
    assert np.array_equal(stage.model(frames), expected)
    beats = frames.reshape(-1, folding.cols)
    for stall_in, stall_out in ((0.0, 0.0), (0.3, 0.5)):
        stage = stage_of(graph, layer).unit(folding, Generic())
        traces = simulate(stage, sends={"i": beats}, receives={"o": len(expected)}, stall_in=stall_in,
                          stall_out=stall_out)
        assert np.array_equal(traces["o"].beats, expected)
        if not stall_in:
            arrivals = np.arange(len(beats))
            times = stage_of(graph, layer).times(folding, Generic(), arrivals)
            assert np.array_equal(times.departures, traces["o"].cycles)
            gap = traces["o"].cycles[-1] - traces["o"].cycles[-1 - len(expected) // 3]
            assert gap == stage_of(graph, layer).schedule(folding, REFERENCE).interval
    assert stage_of(graph, layer).cost(folding, ECP5()).lut > 0


def foldings(graph: LayerGraph) -> list[Folding]:
    """The narrowest, and the widest in and out."""
    (layer,) = graph.layers
    found = sorted(stage_of(graph, layer).foldings(), key=lambda f: (f.cols, f.lanes))
    return [found[0], found[-1]]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("name", [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in POOLS])
def test_pools(name: str, op: str) -> None:
    shape, attributes, ring = POOLS[name]
    graph = graph_of(op, shape, attributes)
    for folding in foldings(graph):
        prove(graph, folding, ring)


@pytest.mark.parametrize("op", ["MaxPool", pytest.param("AveragePool", marks=pytest.mark.slow)])
def test_dilated_pools(op: str) -> None:
    shape, attributes, ring = DILATED
    graph = graph_of(op, shape, attributes, opset=19)
    prove(graph, foldings(graph)[0], ring)


def test_the_best_class_behind_a_layer() -> None:
    """The last stage of a network that ends in ArgMax."""
    model = Qdq((1, 12)).qdq(0.05, 3).matmul(12, 10).qdq(0.3, 0).node("Softmax", axis=1).node("ArgMax", axis=1).model()
    graph = quantize(model, settings=QuantizationSettings(hardware_argmax=True)).graph
    dense, layer = graph.layers
    assert isinstance(layer, TopK)
    frames = dense.evaluate(graph, np.random.default_rng(0).integers(-128, 128, (30, 1, 1, 12)))
    expected = layer.evaluate(graph, frames).reshape(-1, 1)
    assert np.array_equal(expected.ravel(), frames.reshape(30, 10).argmax(axis=1))
    for folding in stage_of(graph, layer).foldings():
        stage = stage_of(graph, layer).unit(folding, Generic())
        assert np.array_equal(stage.model(frames), expected)
        traces = simulate(stage, sends={"i": frames.reshape(-1, folding.cols)}, receives={"o": 30}, stall_out=0.3)
        assert np.array_equal(traces["o"].beats, expected)
        assert stage_of(graph, layer).schedule(folding, REFERENCE).interval == 10 // folding.cols
