"""QONNX: the tables of its documentation, and formulas written out for single numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.ops.custom.qonnx import DOMAINS
from tests.onnx.neural import Case, case, draw, error_of, evaluated


def qonnx(op: str, *inputs: Any, opset: int = 1, domain: str = DOMAINS[0], **others: Any) -> Case:
    arrays = [np.asarray(a, np.float32) for a in inputs]
    return case(op, opset, *arrays, domain=domain, **others)


NUMBERS = [5.5, 2.5, 1.6, 1.1, 1.0, -1.0, -1.1, -1.6, -2.5, -5.5]
ROUNDED = {
    "ROUND": [6, 2, 2, 1, 1, -1, -1, -2, -2, -6],
    "CEIL": [6, 3, 2, 2, 1, -1, -1, -1, -2, -5],
    "FLOOR": [5, 2, 1, 1, 1, -1, -2, -2, -3, -6],
    "UP": [6, 3, 2, 2, 1, -1, -2, -2, -3, -6],
    "DOWN": [5, 2, 1, 1, 1, -1, -1, -1, -2, -5],
    "HALF_UP": [6, 3, 2, 1, 1, -1, -1, -2, -3, -6],
    "HALF_DOWN": [5, 2, 2, 1, 1, -1, -1, -2, -2, -5],
}
ROUNDED |= {"HALF_EVEN": ROUNDED["ROUND"], "ROUND_TO_ZERO": ROUNDED["DOWN"]}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("op", ["Quant", "IntQuant"])
@pytest.mark.parametrize("mode", ROUNDED)
def test_rounding(domain, op, mode) -> None:
    """The table of the documentation, in both cases of the name."""
    for name in (mode, mode.lower()):
        found = evaluated(qonnx(op, NUMBERS, 1.0, 0.0, 8, domain=domain, rounding_mode=name))[0]
        np.testing.assert_array_equal(found, np.array(ROUNDED[mode], np.float32))


@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "low", "high"),
    [
        (8, 1, 0, -128, 127),
        (8, 1, 1, -127, 127),
        (8, 0, 0, 0, 255),
        (8, 0, 1, 0, 254),
        (2, 1, 1, -1, 1),
        (1, 0, 0, 0, 1),
    ],
)
def test_range(bits, signed, narrow, low, high) -> None:
    found = evaluated(qonnx("Quant", [-1e3, 1e3], 0.5, 0.0, bits, signed=signed, narrow=narrow))[0]
    np.testing.assert_array_equal(found, np.float32([low * 0.5, high * 0.5]))


def test_one_signed_bit() -> None:
    found = evaluated(qonnx("Quant", [-3.0, 0.0, 0.2], 0.5, 0.0, 1))[0]
    np.testing.assert_array_equal(found, np.float32([-0.5, 0.5, 0.5]))


def test_quant_by_the_formula() -> None:
    """Scales, zero points and widths of each channel."""
    x = draw(2, 3, 4) * 4
    step, zero, bits = (np.float32(a).reshape(3, 1) for a in ([0.5, 0.25, 0.1], [0, 1, -2], [3, 4, 8]))
    found = evaluated(qonnx("IntQuant", x, step, zero, bits))[0]
    whole = np.rint(np.clip(x / step + zero, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    np.testing.assert_array_equal(found, ((whole - zero) * step).astype(np.float32))


def test_bipolar() -> None:
    found = evaluated(qonnx("BipolarQuant", [-3.0, -0.0, 0.0, 0.2], 0.5))[0]
    np.testing.assert_array_equal(found, np.float32([-0.5, 0.5, 0.5, 0.5]))


@pytest.mark.parametrize(("mode", "expected"), [("FLOOR", [3, -4, 15]), ("ROUND", [3, -3, 16]), ("CEIL", [4, -3, 16])])
def test_trunc(mode, expected) -> None:
    """From 6 bits to 4: the integer goes down by a factor of 4, the scale stays."""
    x = np.float32([13, -13, 63]) * 0.5
    found = evaluated(qonnx("Trunc", x, 0.5, 0.0, 6, 4, rounding_mode=mode))[0]
    np.testing.assert_array_equal(found, np.float32(expected) * 0.5)


def test_trunc_to_another_scale() -> None:
    """Version 2: the result keeps its size, and is limited to the output's bits."""
    x = np.float32([13, -13, 63, -64]) * 0.5
    found = evaluated(qonnx("Trunc", x, 0.5, 0.0, 6, 2.0, 4, opset=2))[0]
    np.testing.assert_array_equal(found, np.float32([3, -4, 7, -8]) * 2)
    unsigned = evaluated(qonnx("Trunc", x, 0.5, 0.0, 6, 2.0, 4, opset=2, signed=0, rounding_mode="ROUND"))[0]
    np.testing.assert_array_equal(unsigned, np.float32([3, 0, 15, 0]) * 2)


def test_float_quant() -> None:
    """Three bits of exponent with bias 3 and two of mantissa are the OCP type E3M2 without infinities: largest 28."""
    import ml_dtypes

    x = np.concatenate([np.linspace(-40, 40, 401), np.linspace(-0.6, 0.6, 101)]).astype(np.float32)
    found = evaluated(qonnx("FloatQuant", x, 1.0, 3, 2, 3, 28.0))[0]
    np.testing.assert_array_equal(found, np.clip(x, -28, 28).astype(ml_dtypes.float6_e3m2fn).astype(np.float32))
    scaled = evaluated(qonnx("FloatQuant", x, 2.0, 3, 2, 3, 10.0))[0]
    assert np.abs(scaled).max() == 20


@pytest.mark.parametrize(
    ("shape", "layout", "axis"),
    [((2, 3, 4, 5), "NCHW", 1), ((2, 4, 5, 3), "NHWC", 3), ((4, 3), "NCHW", 1), ((2, 4, 3), "NCHW", 2)],
)
@pytest.mark.parametrize("shared", [False, True])
def test_multi_threshold(shape, layout, axis, shared) -> None:
    x, thresholds = np.rint(draw(*shape) * 3), draw(1 if shared else 3, 7, seed=1) * 3
    thresholds = np.rint(thresholds)
    found = evaluated(
        qonnx("MultiThreshold", x, thresholds, data_layout=layout, out_dtype="INT4", out_scale=0.5, out_bias=-4.0)
    )[0]
    planes = np.moveaxis(x, axis, -1)
    counts = sum(planes >= thresholds[:, i] for i in range(7))
    np.testing.assert_array_equal(found, np.moveaxis(counts * np.float32(0.5) - 4, -1, axis))


def test_multi_threshold_of_nothing() -> None:
    """Not-a-number reaches no threshold."""
    found = evaluated(qonnx("MultiThreshold", [[np.nan, np.inf]], [[0.0, 1.0]], out_dtype="UINT2"))[0]
    np.testing.assert_array_equal(found, np.float32([[0, 2]]))


@pytest.mark.parametrize("domain", DOMAINS)
def test_without_an_import_version_1_is_meant(domain) -> None:
    b = Builder()
    x = b.input("x", np.float32, (3,))
    names = [b.constant(n, np.float32(v)) for n, v in (("s", 0.5), ("z", 0), ("i", 6), ("o", 4))]
    b.output(b.nodes("Trunc", x, *names, outputs=["y"], domain=domain)[0])
    found = hwflow.onnx.evaluate(b.model(opset=9), {"x": np.float32([13, -13, 63]) * np.float32(0.5)})
    np.testing.assert_array_equal(found["y"], np.float32([1.5, -2, 7.5]))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (qonnx("Quant", [1.0], 1.0, 0.0, 8, rounding_mode="TIE"),
         "'rounding_mode' must be one of ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, ROUND_TO_ZERO, HALF_UP, HALF_DOWN, "
         "not 'TIE'; export the model again"),
        (qonnx("Quant", [1.0], 1.0, 0.0, 2.5), "the bit width must be a whole number of 1 to 64, not 2.5"),
        (qonnx("Quant", [1.0], [1.0, 2.0], 0.0, 8), "the parameters must broadcast to the input [1], not make it [2]"),
        (qonnx("MultiThreshold", draw(2, 3), draw(2, 4), out_dtype="UINT2"),
         "the thresholds must be for 1 or 3 channels, not 2"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message
