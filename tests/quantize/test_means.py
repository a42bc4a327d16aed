"""Means whose windows count fewer elements at the edges: integers against onnxruntime, and every pixel by fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest

from hwflow.layers import AveragePool
from hwflow.quantize import quantize
from hwflow.quantize.settings import LayerSettings, OutputStage, QuantizationSettings
from tests.quantize.models import Qdq, assert_agrees, kinds, rows, runtime
from tests.quantize.net import Net, data
from tests.quantize.test_refusals import refusal

#: Shape of the input, attributes, and how many classes of windows there are.
MEANS = {
    "padding does not count": ((1, 3, 6, 7), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}, 4),
    "stride 2": ((1, 3, 7, 8), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)}, 4),
    "asymmetric": ((1, 2, 6, 6), {"kernel_shape": (3, 2), "pads": (0, 1, 2, 0)}, 6),
    "ceil_mode": ((1, 2, 6, 7), {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}, 2),
    "ceil_mode and padding": (
        (1, 2, 9, 8), {"kernel_shape": (4, 3), "strides": (2, 2), "pads": (1, 1, 0, 0), "ceil_mode": 1}, 4),
    "ceil_mode, padding counts": (
        (1, 2, 9, 9),
        {"kernel_shape": (3, 3), "strides": (3, 3), "pads": (1, 1, 1, 1), "ceil_mode": 1, "count_include_pad": 1}, 9),
    "SAME_UPPER": ((1, 2, 6, 5), {"kernel_shape": (3, 2), "strides": (2, 1), "auto_pad": "SAME_UPPER"}, 4),
    "SAME_LOWER": ((1, 2, 6, 5), {"kernel_shape": (3, 2), "strides": (2, 1), "auto_pad": "SAME_LOWER"}, 4),
    "1-D": ((1, 3, 11), {"kernel_shape": (4,), "pads": (2, 1), "strides": (3,)}, 2),
    "1-D, ceil_mode": ((1, 3, 10), {"kernel_shape": (4,), "strides": (4,), "ceil_mode": 1}, 2),
    "1-D, SAME": ((1, 3, 9), {"kernel_shape": (5,), "auto_pad": "SAME_UPPER"}, 3),
    "one row": ((1, 2, 1, 6), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}, 2),
}  # fmt: skip


def mean_model(name: str, step: float):
    shape, attributes, _ = MEANS[name]
    return Qdq(shape).qdq(0.0313, 7).node("AveragePool", **attributes).qdq(step, -5).model()


@pytest.mark.parametrize("name", MEANS)
def test_windows_that_differ_at_the_edges(name: str) -> None:
    quantized = assert_agrees(mean_model(name, 0.02617), 0.02617)
    (layer,) = quantized.graph.layers
    assert isinstance(layer, AveragePool)
    assert layer.classes == MEANS[name][2]


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_its_fraction(name: str) -> None:
    """Padding counts where onnxruntime counts it: its mean of ones in a frame of ones gives elements / divisor."""
    shape, attributes, _ = MEANS[name]
    model = Qdq(shape).qdq(0.5, 7).node("AveragePool", **attributes).qdq(0.25, 3).model()
    (layer,) = (graph := quantize(model).graph).layers
    assert isinstance(layer, AveragePool)
    x = graph.tensors[layer.inputs[0]]
    h, w, c = x.frame.height, x.frame.width, x.frame.channels
    frames = np.random.default_rng(3).integers(-128, 128, (4, h, w, c))
    made = layer.evaluate(graph, frames)
    ones = Qdq(shape).node("AveragePool", **attributes).model()
    share = runtime(ones, {ones.graph.inputs[0].name: np.ones((1, *shape), np.float32)})
    share = np.moveaxis(share.reshape(1, c, *made.shape[1:3]), 1, 3)[0]
    window = layer.window
    for place in np.ndindex(made.shape):
        n, y, z, channel = place
        taps = [(y * window.strides[0] - window.pads[0] + i, z * window.strides[1] - window.pads[1] + j)
                for i in range(window.kernel[0]) for j in range(window.kernel[1])]  # fmt: skip
        inside = [int(frames[n, i, j, channel]) - 7 for i, j in taps if 0 <= i < h and 0 <= j < w]
        divisor = round(len(inside) / float(share[y, z, channel]))
        exact = Fraction(sum(inside), divisor) * 2
        # The ratio has 18 bits: a result whose fraction is that close to a half may go either way.
        nearest = {min(max(round(exact * (1 + bend)) + 3, -128), 127) for bend in (0, Fraction(1, 1 << 17))}
        assert int(made[place]) in nearest


@pytest.mark.parametrize("stage", list(OutputStage))
def test_every_output_stage(stage: OutputStage) -> None:
    m = Qdq((1, 2, 5, 6)).qdq(0.03, 7).node("AveragePool", kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    model = m.node("Relu").node("Clip", m.constant("low", np.float32(0)), m.constant("high", np.float32(0.3))).qdq(
        0.1, 0).model()  # fmt: skip
    settings = QuantizationSettings(default=LayerSettings(output_stage=stage))
    graph = quantize(model, settings=settings).graph
    expected = quantize(model).graph
    frames = np.random.default_rng(0).integers(-128, 128, (20, 5, 6, 2))
    made = graph.layers[0].evaluate(graph, frames)
    assert np.array_equal(made, expected.layers[0].evaluate(expected, frames))
    assert len(np.unique(made)) == 4


def test_a_function_behind_windows_that_differ() -> None:
    """Thresholds by bisection, for each class."""
    m = Qdq((1, 2, 6, 6)).qdq(0.03, 7).node("AveragePool", kernel_shape=(3, 3), pads=(1, 1, 1, 1)).node("Sigmoid")
    assert_agrees(m.qdq(0.004, -128).model(), 0.004, share=0.99)


def test_from_floats() -> None:
    n = Net((3, 9, 9))
    y = n.node("AveragePool", n.conv(n.x, 4, (3, 3)), kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 2))
    model = n.model(n.node("AveragePool", n.relu(y), kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1))
    quantized = quantize(model, data(model))
    means = [layer for layer in quantized.graph.layers if isinstance(layer, AveragePool)]
    assert [layer.classes for layer in means] == [4, 4]


def test_where_all_windows_count_the_same_nothing_changes() -> None:
    for attributes in ({}, {"pads": (1, 1, 1, 1), "count_include_pad": 1}, {"strides": (3, 3), "ceil_mode": 1}):
        model = Qdq((1, 2, 6, 6)).qdq(0.1, 5).node("AveragePool", kernel_shape=(3, 3), **attributes).qdq(0.1, 0).model()
        (layer,) = quantize(model).graph.layers
        assert isinstance(layer, AveragePool)
        assert (layer.row_classes, layer.column_classes, layer.requantize.bias.shape) == ((), (), (2,))


def test_a_window_in_the_padding_alone() -> None:
    m = Qdq((1, 2, 3, 3)).qdq(0.1, 0)
    m.node("AveragePool", kernel_shape=(1, 2), pads=(0, 0, 0, 1), strides=(1, 3), ceil_mode=1)
    rows(m.qdq(0.1, 0).model())  # the model itself is valid
    n = Qdq((1, 2, 3, 3)).qdq(0.1, 0).node("AveragePool", kernel_shape=(2, 2), pads=(2, 2, 0, 0)).qdq(0.1, 0)
    lines = refusal(n.model())
    assert lines[1].endswith("a window lies in the padding alone, and has no mean")
    assert lines[2] == "use smaller pads"


#: Every choice of axes of an image, and of a signal.
AXES = [(shape, axes) for shape in ((1, 3, 4, 5), (1, 6, 7))
        for axes in chain.from_iterable(combinations(range(len(shape)), k + 1) for k in range(len(shape)))]  # fmt: skip


@pytest.mark.quick(15)
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(("shape", "axes"), AXES, ids=str)
def test_a_mean_over_any_axes(shape: tuple[int, ...], axes: tuple[int, ...], keep: int) -> None:
    """A window over pixels, or where channels are among them a product with 1: no element moves."""
    m = Qdq(shape).qdq(0.0517, 3).node("ReduceMean", axes=axes, keepdims=keep)
    made = kinds(assert_agrees(m.qdq(0.0173, -3).model(), 0.0173, share=0.98))
    assert made == ["conv" if 1 in axes else "average_pool"]


def test_a_mean_of_pixels_that_were_channels() -> None:
    """Behind a pixel shuffle or a transposed convolution the frame is not yet the image."""
    m = Qdq((1, 8, 3, 4)).qdq(0.05, 3).node("DepthToSpace", blocksize=2)
    m.node("ReduceMean", axes=(2, 3), keepdims=0).qdq(0.0173, -3).matmul(2, 4)
    assert kinds(assert_agrees(m.qdq(0.01, 0).model(), 0.01, share=0.95)) == ["rearrange", "average_pool", "dense"]


def test_a_mean_over_no_axes_is_the_tensor() -> None:
    m = Qdq((1, 3, 4, 5)).qdq(0.05, 3)
    m.node("ReduceMean", m.constant("axes", np.zeros(0, np.int64)), noop_with_empty_axes=1)
    assert_agrees(m.qdq(0.0173, -3).model(opset=18), 0.0173, share=0.99)
