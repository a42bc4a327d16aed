"""Resize by linear interpolation: against exact fractions from the text of ONNX, and against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.layers import Interpolate
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Model, Value
from hwflow.quantize import Quantized, quantize
from tests.quantize.models import Qdq, assert_agrees, kinds, session
from tests.quantize.net import Net

#: Scale and zero point of what is resized.
INPUT = 0.0617, -9
MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")


def place(mode: str, k: int, old: int, new: int, scale: Fraction) -> Fraction:
    """Where element k of the result lies: the formulas of Resize-19."""
    if mode == "align_corners":
        return Fraction(k * (old - 1), new - 1) if new > 1 else Fraction(0)
    if mode == "asymmetric":
        return k / scale
    if mode == "pytorch_half_pixel" and new == 1:
        return Fraction(0)
    found = (k + Fraction(1, 2)) / scale - Fraction(1, 2)
    if mode == "half_pixel_symmetric":
        found += Fraction(old, 2) * (1 - Fraction(new) / (scale * old))
    return found


def interpolated(x: list[Fraction], places: Sequence[Fraction]) -> list[Fraction]:
    """The numbers on the lines between those of `x`, whose ends go on."""
    found = []
    for k in places:
        k = min(max(k, Fraction(0)), Fraction(len(x) - 1))
        first = min(int(k), len(x) - 1)
        found.append(x[first] + (k - first) * (x[min(first + 1, len(x) - 1)] - x[first]))
    return found


def resized(x: IntArray, lines: Sequence[Sequence[Fraction]]) -> np.ndarray:
    """[h, w] at the places of `lines`, as fractions."""
    columns = [interpolated([Fraction(int(v)) for v in column], lines[0]) for column in x.T]
    return np.array([interpolated(list(row), lines[1]) for row in zip(*columns, strict=True)], object)


def model_of(mode: str, old: tuple[int, ...], new: Sequence[int] = (), scales: Sequence[float] = (), *,
             out: tuple[float, int] = INPUT, channels: int = 2, integers: bool = False) -> Model:  # fmt: skip
    """A Conv, the Resize of its image or signal, or of the integers of that, and a Conv."""
    rank = len(old)
    m = Qdq((1, 3, *old)).qdq(0.0313, 4).conv((channels, 3, *(1,) * rank)).quantize(*INPUT)
    m = m if integers else m.dequantize(*INPUT)
    sizes = ("", "", m.constant("sizes", np.array([1, channels, *new]))) if new else (
        "", m.constant("scales", np.array([1, 1, *scales], np.float32)))
    m.node("Resize", *sizes, mode="linear", coordinate_transformation_mode=mode)
    m = m.dequantize(*INPUT) if integers else m.qdq(*out)
    return onnx.infer(m.conv((4, channels, *(1,) * rank)).qdq(0.5, 0).model(19))


def layer_of(quantized: Quantized) -> Interpolate:
    (layer,) = (layer for layer in quantized.graph.layers if isinstance(layer, Interpolate))
    return layer


def check_exact(model: Model, mode: str, scales: Sequence[Fraction], out: tuple[float, int]) -> Interpolate:
    """The layer gives the exact means, rounded half to even.

    Only a power of two divides without an error, so of other ratios halves may go either way.
    """
    quantized = quantize(model)
    layer = layer_of(quantized)
    x, y = quantized.graph.tensors[layer.inputs[0]], quantized.graph.tensors[layer.output]
    shape = x.frame.height, x.frame.width
    frame = np.random.default_rng(5).integers(-128, 128, (1, *shape, x.frame.channels))
    lines = [[place(mode, k, old, new, scale) for k in range(new)] for old, new, scale in
             zip(shape, (y.frame.height, y.frame.width), scales, strict=True)]
    ratio = Fraction(np.float32(INPUT[0]).item()) / Fraction(np.float32(out[0]).item())
    made = layer.evaluate(quantized.graph, frame)[0]
    for c in range(x.frame.channels):
        expected = (resized(frame[0, :, :, c], lines) - INPUT[1]) * ratio
        rounded = np.clip([[round(v) + out[1] for v in row] for row in expected], -128, 127)
        divides = ratio.denominator & (ratio.denominator - 1) == 0 == layer.total & (layer.total - 1)
        is_half = np.array([[v.denominator == 2 and not divides for v in row] for row in expected])
        np.testing.assert_array_equal(made[:, :, c][~is_half], rounded[~is_half])
        assert (np.abs(made[:, :, c] - rounded) <= is_half).all()
    return layer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_sizes_up_and_down(mode: str, seed: int) -> None:
    rng = np.random.default_rng([seed, MODES.index(mode)])
    old, new = ((int(a), int(b)) for a, b in rng.integers(1, 15, (2, 2)))
    out = INPUT if seed % 2 else (0.0491, 7)
    scales = [Fraction(b, a) for a, b in zip(old, new, strict=True)]
    check_exact(model_of(mode, old, new, out=out), mode, scales, out)


@pytest.mark.parametrize("mode", MODES[:4])
@pytest.mark.parametrize(("rows", "columns"), [(Fraction(2), Fraction(4)), (Fraction(1, 2), Fraction(5, 3)),
                                               (Fraction(8, 3), Fraction(1))])
def test_scales(mode: str, rows: Fraction, columns: Fraction) -> None:
    """Those that are no floats of 32 bits mean the ratio that they are the nearest float of."""
    model = model_of(mode, (6, 9), scales=(float(rows), float(columns)))
    layer = check_exact(model, mode, (rows, columns), INPUT)
    assert layer.total <= 2 * 16 * 48


@pytest.mark.parametrize("mode", MODES[:4])
def test_integers(mode: str) -> None:
    """As onnxruntime's QOperator format has them; it rounds them down, ONNX does not say how."""
    check_exact(model_of(mode, (5, 7), (10, 9), integers=True), mode, (Fraction(2), Fraction(9, 7)), INPUT)


@pytest.mark.parametrize("mode", MODES[:4])
@pytest.mark.parametrize(("old", "new"), [((5, 8), (10, 16)), ((7, 6), (4, 11)), ((9, 1), (3, 5)), ((12,), (24,)),
                                          ((9,), (5,))])
def test_as_onnxruntime(mode: str, old: tuple[int, ...], new: tuple[int, ...]) -> None:
    """But for halves, which floats break."""
    model = model_of(mode, old, new)
    quantized = quantize(model)
    layer = layer_of(quantized)
    (resize,) = (node for node in model.graph.nodes if node.op_type == "Resize")
    names = [resize.inputs[0], resize.outputs[0]]
    outputs = tuple(Value(name, model.graph.tensor_type(name)) for name in names)
    shown = replace(model, graph=replace(model.graph, outputs=outputs))
    x, y = session(shown).run(names, {"input": np.random.default_rng(1).normal(0, 2, (1, 3, *old)).astype(np.float32)})
    frame = np.rint(x / np.float32(INPUT[0])).astype(np.int64) + INPUT[1]
    steps = y.astype(np.float64) / np.float32(INPUT[0])
    near_half = np.abs(steps - np.floor(steps) - 0.5) < 1e-3
    image = frame.reshape(2, -1, old[-1]).transpose(1, 2, 0)
    made = layer.evaluate(quantized.graph, image[None])
    made = made[0].transpose(2, 0, 1).reshape(y.shape)
    assert ((made == np.rint(steps) + INPUT[1]) | (near_half & (np.abs(made - INPUT[1] - steps) < 0.51))).all()


def network(n: Net, x: str) -> Quantized:
    """A convolution behind, and all of it near the float model."""
    model = onnx.infer(n.model(n.conv(x, 3, (1, 1))))
    rows = {"input": np.random.default_rng(3).normal(0, 1, (40, *model_shape(model))).astype(np.float32)}
    expected = np.stack([session(model).run(None, {"input": row})[0] for row in rows["input"]])
    quantized = quantize(model, rows)
    noise = golden.predict(quantized, rows)[model.graph.outputs[0].name] - expected
    assert 10 * np.log10(np.var(expected) / np.mean(noise**2)) > 30, "dB, 8 bits"
    return quantized


def model_shape(model: Model) -> tuple[int, ...]:
    kind = model.graph.inputs[0].tensor
    assert kind is not None
    assert kind.shape is not None
    return tuple(int(size) for size in kind.shape if isinstance(size, int))


def test_floats_behind_a_convolution() -> None:
    n = Net((3, 6, 5))
    x = n.node("Resize", n.unit(n.x, 4), "", n.constant((1, 1, 2, 1.6)), mode="linear")
    assert kinds(network(n, x)) == ["conv", "interpolate", "conv"]


def test_axes_of_the_file_that_are_no_image() -> None:
    """Height and width between Transposes, and one axis of an image alone."""
    n = Net((3, 6, 5))
    x = n.node("Transpose", n.unit(n.x, 4), perm=(0, 2, 3, 1))
    x = n.node("Resize", x, "", n.constant((1, 2, 0.6, 1)), mode="linear")
    x = n.node("Transpose", x, perm=(0, 3, 1, 2), channels=4)
    x = n.node("Resize", x, "", n.constant((1, 1, 1, 3)), mode="linear", coordinate_transformation_mode="align_corners")
    assert kinds(network(n, x)) == ["conv", "interpolate", "interpolate", "conv"]


def test_a_sum_of_two_sizes() -> None:
    """As the decoder of a feature pyramid has it; an activation behind a Resize is a part of it."""
    n = Net((3, 8, 8))
    large = n.unit(n.x, 4)
    small = n.unit(n.node("MaxPool", large, kernel_shape=(2, 2), strides=(2, 2)), 4)
    grown = n.relu(n.node("Resize", small, "", "", n.constant((1, 4, 8, 8), np.int64), mode="linear"))
    made = kinds(network(n, n.node("Add", large, grown)))
    assert sorted(made) == sorted(["conv", "max_pool", "conv", "interpolate", "add", "conv"])


@pytest.mark.parametrize(("opset", "op"), [(9, "Upsample"), (10, "Resize")])
def test_operator_sets_before_11(opset: int, op: str) -> None:
    n = Net((3, 6, 5), opset=opset)
    x = n.node(op, n.unit(n.x, 4), n.constant((1, 1, 2, 3)), mode="linear")
    assert kinds(network(n, x)) == ["conv", "interpolate", "conv"]


def test_as_the_runtime_all_the_way() -> None:
    """With another scale behind, so that there are no halves that floats break."""
    m = Qdq((1, 3, 5, 6)).qdq(0.0313, 4).conv((4, 3, 3, 3), pads=(1, 1, 1, 1)).qdq(*INPUT)
    m.node("Resize", "", m.constant("scales", np.array([1, 1, 2, 2], np.float32)), mode="linear").qdq(0.0491, 7)
    m.conv((5, 4, 3, 3)).qdq(0.25, 3)
    assert kinds(assert_agrees(m.model(19), 0.25, share=0.995)) == ["conv", "interpolate", "conv"]


REFUSED = {
    "antialias": ((0.5, 0.5), {"antialias": 1}, "must lie between two neighbours along each axis that it resizes"),
    "a ratio of large numbers": ((1.4043362, 1.0), {}, "fractions with a denominator of at most 4096"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    scales, attributes, why = REFUSED[name]
    n = Net((3, 80, 8), opset=19)
    x = n.node("Resize", n.conv(n.x, 4, (1, 1)), "", n.constant((1, 1, *scales)), mode="linear", **attributes)
    with pytest.raises(HwflowError, match=rf"\(Resize\): .*{why}"):
        quantize(onnx.infer(n.model(n.conv(x, 3, (1, 1)))))
