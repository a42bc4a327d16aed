"""Slice, Split, Gather and all other nodes that move elements: layers without a multiplier, or none at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.quantize import quantize
from tests.quantize.invariants import Agreement, check_all, check_export, check_reals
from tests.quantize.models import Qdq, assert_agrees, kinds, rows, runtime
from tests.quantize.net import Net, data


def numbers(n: Net, *values: int) -> str:
    return n.constant(values, np.int64)


def sliced(n: Net, x: str, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...], *steps: int) -> str:
    if n.opset < 10:
        return n.node("Slice", x, starts=starts, ends=ends, axes=axes)
    inputs = [numbers(n, *values) for values in (starts, ends, axes, steps or (1,) * len(axes))]
    return n.node("Slice", x, *inputs)


def halves(n: Net, x: str) -> str:
    """Split, and both parts joined the other way round."""
    a, b = n.split(x, 2, 6)
    return n.node("Concat", b, a, axis=1, channels=8)


def resize(n: Net, x: str, *scales: float, **attributes: str) -> str:
    return n.node("Resize", x, "", n.constant((1, 1, *scales)), mode="nearest", **attributes)


def pad(n: Net, x: str, pads: tuple[int, ...], **attributes: str) -> str:
    return n.node("Pad", x, numbers(n, *pads), **attributes)


def shuffled(n: Net, x: str) -> str:
    """Channels to pixels, as PyTorch writes it."""
    x = n.node("Reshape", x, numbers(n, 1, 2, 2, 2, 8, 8))
    x = n.node("Transpose", x, perm=(0, 1, 4, 2, 5, 3))
    return n.node("Reshape", x, numbers(n, 1, 2, 16, 16), channels=2)


def unet(n: Net, x: str) -> str:
    y = n.relu(n.conv(n.max_pool(x), 4, (3, 3)))
    return n.node("Concat", x, resize(n, y, 2, 2), axis=1, channels=12)


#: What stands between two Conv layers with 8 channels of 8x8 pixels, and the kinds of layers that it becomes.
MOVES: dict[str, tuple[Callable[[Net, str], str], list[str]]] = {
    "slice": (lambda n, x: n.node("Identity", sliced(n, x, (1,), (4,), (1,)), channels=3), ["rearrange"]),
    "backwards": (lambda n, x: sliced(n, x, (-1, 7), (-99, 0), (1, 3), -1, -2), ["rearrange"]),
    "crop": (lambda n, x: sliced(n, x, (1, 2), (7, 8), (2, 3)), ["rearrange"]),
    "every third row": (lambda n, x: sliced(n, x, (0,), (99,), (-2,), 3), ["rearrange"]),
    "split": (halves, ["rearrange", "rearrange", "concat"]),
    "gather": (lambda n, x: n.node("Gather", x, numbers(n, 5, 0, 0), axis=1, channels=3), ["rearrange"]),
    "resize": (lambda n, x: resize(n, x, 1.5, 2.5), ["rearrange"]),
    "sizes": (lambda n, x: n.node("Resize", x, "", "", numbers(n, 1, 8, 5, 11)), ["rearrange"]),
    "DCR": (lambda n, x: n.node("DepthToSpace", x, blocksize=2, channels=2), ["rearrange"]),
    "CRD": (lambda n, x: n.node("DepthToSpace", x, blocksize=2, mode="CRD", channels=2), ["rearrange"]),
    "SpaceToDepth": (lambda n, x: n.node("SpaceToDepth", x, blocksize=2, channels=32), ["rearrange"]),
    "pixel shuffle": (shuffled, ["rearrange"]),
    "transpose": (lambda n, x: n.node("Transpose", x, perm=(0, 1, 3, 2)), ["rearrange"]),
    "transpose there and back": (
        lambda n, x: n.node("Transpose", n.node("Transpose", x, perm=(0, 2, 3, 1)), perm=(0, 3, 1, 2)), []
    ),
    "pad 1.5": (lambda n, x: n.pad(x, (0, 0, 1, 2, 0, 0, 2, -1), 1.5), ["rearrange"]),
    "pad channels": (lambda n, x: n.node("Identity", n.pad(x, (0, 1, 1, 1, 0, 2, 1, 1)), channels=11), ["rearrange"]),
    "reflect": (lambda n, x: pad(n, x, (0, 0, 1, 2, 0, 0, 2, 1), mode="reflect"), ["rearrange"]),
    "edge": (lambda n, x: pad(n, x, (0, 0, 1, 2, 0, 0, 2, 1), mode="edge"), ["rearrange"]),
    "pad and shuffle": (
        lambda n, x: n.node("SpaceToDepth", n.pad(x, (0, 0, 1, 1, 0, 0, 1, 1), 0.5), blocksize=2, channels=32),
        ["rearrange", "rearrange"],
    ),
    "tile": (lambda n, x: n.node("Tile", x, numbers(n, 1, 2, 1, 3), channels=16), ["rearrange"]),
    "expand": (
        lambda n, x: n.node("Expand", n.node("GlobalAveragePool", x), numbers(n, 1, 8, 5, 5)),
        ["average_pool", "rearrange"],
    ),
    "concat of rows": (
        lambda n, x: n.node("Concat", x, n.max_pool(x, 2, 1, auto_pad="SAME_UPPER"), axis=2),
        ["max_pool", "concat", "rearrange"],
    ),
    "concat of other rows": (
        lambda n, x: n.node("Concat", x, sliced(n, x, (0,), (3,), (2,)), axis=2),
        ["rearrange", "rearrange", "rearrange", "concat", "rearrange"],
    ),
    "U-Net": (unet, ["max_pool", "conv", "rearrange", "concat"]),
    "normalised behind": (lambda n, x: n.relu(n.norm(resize(n, x, 2, 2))), ["rearrange"]),
}  # fmt: skip


def check(n: Net, y: str) -> list[str]:
    """As onnxruntime layer by layer, near the floats, and the same again; the kinds of its layers."""
    model = onnx.infer(n.model(y))
    rows = data(model, 16)
    q = quantize(model, rows)
    few, total = {name: values[:4] for name, values in rows.items()}, Agreement()
    check_export(q)
    check_all(model, q, few, total)
    check_reals(model, q, rows)  # the noise model measures ranges, as calibration did on all rows
    assert total.ties["rearrange"] == 0
    return kinds(q)


@pytest.mark.quick(10)
@pytest.mark.parametrize("case", MOVES)
def test_between_layers(case: str) -> None:
    n, (build, expected) = Net((3, 8, 8)), MOVES[case]
    x = build(n, n.conv(n.x, 8, (3, 3)))
    assert check(n, n.conv(x, 3, (3, 3))) == ["conv", *expected, "conv"]


MODES = [
    (mode, rounding)
    for mode in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
]


@pytest.mark.quick(8)
@pytest.mark.parametrize(("mode", "rounding"), MODES)
def test_resize_modes(mode: str, rounding: str) -> None:
    n = Net((3, 8, 8))
    x = resize(n, n.unit(n.x, 4), 1.5, 2.5, coordinate_transformation_mode=mode, nearest_mode=rounding)
    assert check(n, n.conv(x, 3, (3, 3))) == ["conv", "rearrange", "conv"]


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_older_operator_sets(opset: int) -> None:
    n = Net((3, 8, 8), opset=opset)
    x = n.unit(n.x, 6)
    scales = n.constant((1, 1, 2, 3))
    if opset < 11:
        x = n.node("Upsample" if opset < 10 else "Resize", x, scales)
    else:
        x = n.node("Resize", x, n.constant(()), scales)
    a, b = n.split(sliced(n, x, (1,), (5,), (1,)), 1, 3)
    x = n.node("Add", a, n.pad(sliced(n, b, (0,), (1,), (1,)), (0, 0, 1, 0, 0, 0, -1, 0)))
    n.channels[x] = 1
    assert "rearrange" in check(n, n.conv(x, 3, (3, 3)))


def test_shrinking_and_growing_in_operator_set_10() -> None:
    n = Net((3, 9, 8), opset=10)
    assert check(n, n.conv(n.node("Resize", n.unit(n.x, 4), n.constant((1, 1, 0.5, 2))), 3, (3, 3)))[1] == "rearrange"


def test_a_row() -> None:
    n = Net((9,))
    x = n.node("Gather", n.relu(n.gemm(n.x, 6)), numbers(n, 4, 1), axis=1, channels=2)
    assert check(n, n.gemm(x, 3)) == ["dense", "rearrange", "dense"]


def test_a_signal() -> None:
    n = Net((3, 12))
    x = resize(n, n.relu(n.conv(n.x, 4, (3,))), 3)
    assert check(n, n.conv(x, 3, (3,))) == ["conv", "rearrange", "conv"]


def test_cubic_interpolation_is_refused() -> None:
    n = Net((3, 8, 8))
    x = n.node("Resize", n.unit(n.x, 4), "", n.constant((1, 1, 2, 2)), mode="cubic")
    message = r"\(Resize\): between layers only the modes 'nearest' and 'linear' have hardware, not 'cubic'"
    with pytest.raises(HwflowError, match=message):
        quantize(onnx.infer(n.model(n.conv(x, 3, (1, 1)))))


def test_computed_indices_are_refused() -> None:
    n = Net((3, 8, 8))
    x = n.unit(n.x, 4)
    which = n.node("ArgMax", n.node("GlobalAveragePool", x), axis=1)
    x = n.node("Gather", x, n.node("Reshape", which, numbers(n, 1)), axis=1, channels=1)
    with pytest.raises(HwflowError, match=r"\(Gather\): all inputs but the first must be constants"):
        quantize(onnx.infer(n.model(n.conv(x, 3, (1, 1)))))


def start() -> Qdq:
    return Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((6, 3, 3, 3), pads=(1, 1, 1, 1)).qdq(0.0617, -100)


@pytest.mark.parametrize("quantized", [False, True])
def test_between_quantizers(quantized: bool) -> None:
    m = start()
    m.node("Gather", m.constant("which", np.array([5, 0, 2])), axis=1)
    if quantized:
        m.qdq(0.0617, -100)
    q = assert_agrees(m.conv((4, 3, 3, 3)).qdq(0.5, 0).model(), 0.5, share=0.995)
    assert kinds(q) == ["conv", "rearrange", "conv"]
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph


def test_of_integers() -> None:
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((6, 3, 3, 3), pads=(1, 1, 1, 1)).quantize(0.0617, -100)
    m.node("MaxPool", kernel_shape=(2, 2)).node("Gather", m.constant("which", np.array([5, 0, 2])), axis=1)
    q = assert_agrees(m.dequantize(0.0617, -100).conv((4, 3, 3, 3)).qdq(0.5, 0).model(), 0.5, share=0.995)
    assert kinds(q) == ["conv", "max_pool", "rearrange", "conv"]


def test_padding_that_no_integer_means() -> None:
    """The quantizer behind rounds it; without one there is nothing that could."""
    m = start()
    pads = m.constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1])), m.constant("value", np.float32(0.4))
    q = assert_agrees(m.node("Pad", *pads).qdq(0.0617, -100).conv((4, 6, 3, 3)).qdq(0.5, 0).model(), 0.5, share=0.99)
    assert kinds(q) == ["conv", "rearrange", "conv"]
    m = start()
    pads = m.constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1])), m.constant("value", np.float32(0.4))
    with pytest.raises(HwflowError, match=r"with 0\.4.*, which none of its integers means"):
        quantize(m.node("Pad", *pads).conv((4, 6, 3, 3)).qdq(0.5, 0).model())


TRANSPOSED: dict[str, dict[str, object]] = {
    "strides": {"strides": (2, 2)},
    "pads and output_padding": {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)},
    "dilations": {"strides": (3, 2), "dilations": (2, 1)},
    "asymmetric": {"strides": (2, 3), "pads": (0, 2, 1, 0)},
    "no stride": {"pads": (1, 0, 1, 2)},
    "SAME_UPPER": {"strides": (2, 2), "auto_pad": "SAME_UPPER"},
    "SAME_LOWER": {"strides": (2, 2), "auto_pad": "SAME_LOWER"},
    "output_shape": {"strides": (2, 3), "output_shape": (16, 25)},
    "stride above kernel": {"strides": (4, 5)},
    "groups": {"strides": (2, 2), "group": 2},
}


@pytest.mark.quick(5)
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: str) -> None:
    n = Net((3, 8, 8))
    x = n.relu(n.norm(n.transposed(n.unit(n.x, 4), 6, (3, 3), **TRANSPOSED[case])))
    layers = check(n, n.conv(x, 3, (3, 3)))
    assert layers == ["conv", "conv", *(["rearrange"] if case != "no stride" else []), "conv"]


def test_a_transposed_convolution_over_time() -> None:
    n = Net((3, 12))
    x = n.relu(n.transposed(n.relu(n.conv(n.x, 4, (3,))), 4, (5,), strides=(3,), pads=(2, 1)))
    assert check(n, n.conv(x, 3, (3,))) == ["conv", "conv", "rearrange", "conv"]


def test_the_last_one_leaves_the_order_to_the_host() -> None:
    n = Net((3, 8, 8))
    assert check(n, n.node("Sigmoid", n.transposed(n.unit(n.x, 4), 3, (2, 2), strides=(2, 2)))) == ["conv", "conv"]


@pytest.mark.parametrize("axis", [None, 1])
def test_transposed_convolutions_that_are_quantized(axis: int | None) -> None:
    m = start()
    w, scales = m.weights((6, 4, 3, 3), axis)
    bias_scale = np.float32(0.0617) * scales
    constants = m.constant("b", m.rng.integers(-999, 999, 4, dtype=np.int32)), m.constant("s", np.float32(bias_scale))
    bias = m.b.node("DequantizeLinear", *constants, name="bias", axis=0)
    m.node("ConvTranspose", w, bias, strides=(2, 2), pads=(1, 1, 0, 0)).node("Relu").qdq(0.2, -128)
    q = assert_agrees(m.conv((4, 4, 3, 3)).qdq(0.5, 0).model(), 0.5, share=0.99)
    assert kinds(q) == ["conv", "conv", "rearrange", "conv"]
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph


def test_weights_with_a_scale_per_input_are_refused() -> None:
    m = start()
    m.node("ConvTranspose", m.weights((6, 4, 3, 3), 0)[0], strides=(2, 2))
    with pytest.raises(HwflowError, match=r"\(ConvTranspose\): its weights must have one scale per tensor or per outp"):
        quantize(m.qdq(0.5, 0).model())


def test_a_function_of_what_then_moves_is_not_what_moved() -> None:
    """The integers are put in place first, and mean what they meant before the function."""
    m = Qdq((1, 4, 6, 6)).qdq(0.0517, 3)
    source = m.x
    turned = m.node("Neg").node("Transpose", perm=(0, 1, 3, 2)).x
    m.x = source
    ends = (m.constant(name, np.array([value])) for name, value in (("a", -1), ("b", -100), ("c", 2), ("d", -1)))
    model = m.node("Slice", *ends).node("Add", turned).qdq(0.0313, 0).model()
    assert kinds(assert_agrees(model, 0.0313, share=0.97)) == ["rearrange", "rearrange", "add"]


@pytest.mark.parametrize("function", [None, "Tanh"])
def test_constants_of_channels_that_are_in_place_first(function: str | None) -> None:
    """Each of the channels behind SpaceToDepth has its constant; in the frame in front they are in one channel."""
    m = Qdq((1, 3, 4, 4)).qdq(0.0517, 3)
    m = (m if function is None else m.node(function)).node("SpaceToDepth", blocksize=2)
    m.node("Mul", m.constant("c", np.linspace(0.25, 3, 12, dtype=np.float32).reshape(1, 12, 1, 1))).node("LeakyRelu")
    model = m.qdq(0.0713, 3).conv((2, 12, 1, 1)).qdq(0.1, 0).model()
    assert kinds(assert_agrees(model, 0.1, share=0.97)) == ["rearrange", "conv", "conv"]


def test_constants_of_channels_at_the_end_take_no_layer() -> None:
    """The host computes them."""
    m = Qdq((1, 4, 4, 4)).qdq(0.0517, 3).conv((3, 4, 1, 1)).qdq(0.1, 0).node("Elu").node("SpaceToDepth", blocksize=2)
    model = m.node("Add", m.constant("c", np.linspace(0, 3, 12, dtype=np.float32).reshape(1, 12, 1, 1))).model()
    quantized, feeds = quantize(model), rows(model, 20)
    assert kinds(quantized) == ["conv"]
    made = golden.predict(quantized, feeds)[model.graph.outputs[0].name]
    np.testing.assert_allclose(made, runtime(model, feeds), rtol=1e-6, atol=1e-6)
