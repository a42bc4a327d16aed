"""Forms of com.microsoft, against onnxruntime, and of QONNX, against the tables and formulas of its documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.ops.custom.qonnx import DOMAINS
from tests.onnx.forms.form import Case, case, draw, number, whole
from tests.onnx.forms.quantized import narrow, scale

U8, I8 = np.uint8, np.int8
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


def microsoft(op: str, *inputs: Any, **others: Any) -> Case:
    return case(op, 1, *inputs, domain="com.microsoft", **others)


def qonnx(op: str, *inputs: Any, opset: int = 1, domain: str = DOMAINS[0], **others: Any) -> Case:
    arrays = [np.asarray(a, np.float32) for a in inputs]
    return case(op, opset, *arrays, domain=domain, tolerance=0, **others)


def cases() -> Iterator[Case]:
    yield from _scales()
    yield from _elementwise()
    yield from _pools()
    yield from _products()
    yield from _floats()
    yield from _attention()
    yield from _quant()
    yield from _trunc()
    yield from _thresholds()


def _scales() -> Iterator[Case]:
    steps = scale(0.1, 0.2, 0.3, 0.4, 0.5)
    for dtype in (U8, I8, np.uint16, np.int16):
        one, each = (scale(0.37), number(7, dtype)), (steps, np.arange(5).astype(dtype))
        for how, parameters in (({}, one), ({"axis": 1}, each)):
            yield microsoft("QuantizeLinear", draw(4, 5) * 50, *parameters, attributes=how)
            yield microsoft("DequantizeLinear", whole(dtype, 4, 5), *parameters, attributes=how)


def _elementwise() -> Iterator[Case]:
    """A result half way between two integers may go either way: onnxruntime adds in another order."""
    for dtype in (U8, I8):
        limits = np.iinfo(dtype)
        second = number(-3 if dtype is I8 else 120, dtype)
        for op, step in (("QLinearAdd", 0.05), ("QLinearMul", 0.9)):
            for shapes in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1))):
                a, b = (whole(dtype, *shape) for shape in shapes)
                inputs = (a, scale(0.03), number(5, dtype), b, scale(0.04), second, scale(step), number(9, dtype))
                yield microsoft(op, *inputs, steps=1)
        x = np.arange(limits.min, limits.max + 1).astype(dtype)
        for op, step, how in (("QLinearSigmoid", 1 / 256, {}), ("QLinearLeakyRelu", 0.0613, {"alpha": 0.2})):
            inputs = (x, scale(0.05), number(20, dtype), scale(step), number(3, dtype))
            yield microsoft(op, *inputs, attributes=how, steps=1)
        inputs = (whole(dtype, 2, 3, 4), scale(0.05), number(limits.min + 120, dtype), scale(1 / 256),
                  number(limits.min, dtype))  # fmt: skip
        for opset, axis in ((13, -1), (13, 1), (12, 1), (12, 2)):  # onnxruntime takes exponentials from a table
            yield microsoft("QLinearSoftmax", *inputs, attributes={"axis": axis, "opset": opset}, steps=1)


def _pools() -> Iterator[Case]:
    for last in (0, 1):
        for dtype in (U8, I8):
            inputs = (whole(dtype, 2, 5, 4, 3), scale(0.05), number(12, dtype), scale(0.01), number(7, dtype))
            yield microsoft("QLinearGlobalAveragePool", *inputs, channels_last=last, steps=1)
        x = whole(U8, 1, 7, 8, 3) if last else whole(U8, 1, 3, 7, 8)
        inputs = (x, scale(0.05), number(12, U8), scale(0.04), number(7, U8))
        for how in ({}, {"pads": [1, 0, 1, 1], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER"}):
            for include in (0, 1):
                yield microsoft("QLinearAveragePool", *inputs, kernel_shape=[3, 2], count_include_pad=include,
                                channels_last=last, attributes=how, steps=1)  # fmt: skip
    for axis in (1, -1):
        parts = [(whole(U8, 2, 3, 4, seed=i), scale(0.02 * (i + 1)), number(10 * i, U8)) for i in range(3)]
        yield microsoft("QLinearConcat", scale(0.05), number(100, U8), *(a for part in parts for a in part), axis=axis)


def _products() -> Iterator[Case]:
    bias = np.array([100, -200, 300, 0], np.int32)
    for turned in ((0, 0), (1, 0), (0, 1), (1, 1)):
        a = whole(U8, *((7, 5) if turned[0] else (5, 7)))
        b = narrow(whole(I8, *((4, 7) if turned[1] else (7, 4))))
        for steps in (scale(0.01), scale(0.01, 0.02, 0.03, 0.04)):
            for c in (None, bias):
                given = [a, scale(0.05), number(128, U8), b, steps, np.zeros(steps.shape, I8)]
                how = {"transA": turned[0], "transB": turned[1], "alpha": 1.0}
                yield microsoft("QGemm", *given, *([] if c is None else [c]), attributes=how)
                yield microsoft("QGemm", *given, c, scale(0.7), number(100, U8), attributes=how)
    a, b, zeros = whole(U8, 2, 5, 7), narrow(whole(I8, 7, 4)), (number(100, U8), number(3, I8))
    for c in (draw(4), None):
        yield microsoft("MatMulIntegerToFloat", a, b, scale(0.02), scale(0.1, 0.2, 0.3, 0.4), *zeros, c)
        yield microsoft("DynamicQuantizeMatMul", draw(2, 5, 7), b, scale(0.1), number(3, I8), c)


def _floats() -> Iterator[Case]:
    for name, parameters in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.3]),
                             ("Clip", [-0.5, 0.8]), ("HardSigmoid", [0.3, 0.4])):  # fmt: skip
        how = {"activation": name} | ({} if parameters is None else {"activation_params": parameters})
        for added in ((), (draw(1, 4, 4, 4),)):
            yield microsoft("FusedConv", draw(1, 2, 6, 6), draw(4, 2, 3, 3), draw(4), *added, attributes=how)
    for a, b, how in (
        ((5, 7), (7, 4), {}),
        ((7, 5), (7, 4), {"transA": 1, "alpha": 0.5}),
        ((5, 7), (4, 7), {"transB": 1}),
        ((2, 3, 7, 5), (2, 3, 4, 7), {"transA": 1, "transB": 1}),
        ((5, 2, 3, 7), (2, 3, 7, 4), {"transBatchA": 1}),
        ((7, 2, 3, 5), (7, 2, 3, 4), {"transBatchA": 1, "transA": 1, "transBatchB": 1}),
    ):
        yield microsoft("FusedMatMul", draw(*a), draw(*b), attributes=how)
    for name, more in (("Relu", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.3})):
        yield microsoft("FusedGemm", draw(7, 5), draw(7, 4), draw(4), activation=name, alpha=0.5, beta=2.0, transA=1,
                        attributes=more)  # fmt: skip
    x = draw(3, 40) * 3
    yield microsoft("Gelu", x)
    yield microsoft("BiasGelu", x, draw(40))
    yield from (microsoft("FastGelu", x, *bias) for bias in ((), (draw(40),)))
    yield microsoft("QuickGelu", x, alpha=1.5)
    for given in (1, 2, 3):
        for skip in ((2, 3, 8), (1, 3, 8), (3, 8)):
            inputs = (draw(2, 3, 8), draw(*skip), *(draw(8, seed=i) for i in range(given)))
            yield microsoft("SkipLayerNormalization", *inputs, epsilon=1e-5)
            yield microsoft("SkipLayerNormalization", *inputs, outputs=(True, False, False, True))


def _attention() -> Iterator[Case]:
    q, k, v = draw(2, 5, 8), draw(2, 5, 8), draw(2, 5, 8)
    for how in ({}, {"scale": 0.3}, {"unidirectional": 1}):
        yield microsoft("MultiHeadAttention", q, k, v, num_heads=2, attributes=how)
        yield microsoft("MultiHeadAttention", q, k, v, draw(24), None, draw(1, 2, 5, 5), num_heads=2, attributes=how)
    for how in ({"num_heads": 2}, {"num_heads": 4, "unidirectional": 1}):
        yield microsoft("Attention", draw(2, 5, 6), draw(6, 24), draw(24), attributes=how)


def _quant() -> Iterator[Case]:
    """The table of roundings, in both cases of the name; ranges; scales, zero points and widths of each channel."""
    for domain in DOMAINS:
        for op in ("Quant", "IntQuant"):
            for mode, answer in ROUNDED.items():
                for name in (mode, mode.lower()):
                    yield qonnx(op, NUMBERS, 1.0, 0.0, 8, domain=domain, rounding_mode=name,
                                expected=np.float32(answer))  # fmt: skip
    for bits, signed, narrowed, low, high in ((8, 1, 0, -128, 127), (8, 1, 1, -127, 127), (8, 0, 0, 0, 255),
                                              (8, 0, 1, 0, 254), (2, 1, 1, -1, 1), (1, 0, 0, 0, 1)):  # fmt: skip
        yield qonnx("Quant", [-1e3, 1e3], 0.5, 0.0, bits, signed=signed, narrow=narrowed,
                    expected=np.float32([low * 0.5, high * 0.5]))  # fmt: skip
    yield qonnx("Quant", [-3.0, 0.0, 0.2], 0.5, 0.0, 1, expected=np.float32([-0.5, 0.5, 0.5]))
    x = draw(2, 3, 4) * 4
    step, zero, bits = (np.float32(a).reshape(3, 1) for a in ([0.5, 0.25, 0.1], [0, 1, -2], [3, 4, 8]))
    integers = np.rint(np.clip(x / step + zero, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    yield qonnx("IntQuant", x, step, zero, bits, expected=((integers - zero) * step).astype(np.float32))
    yield qonnx("BipolarQuant", [-3.0, -0.0, 0.0, 0.2], 0.5, expected=np.float32([-0.5, 0.5, 0.5, 0.5]))


def _trunc() -> Iterator[Case]:
    """From 6 bits to 4: the integer goes down by a factor of 4, the scale stays; in version 2 the size stays."""
    x = np.float32([13, -13, 63]) * np.float32(0.5)
    for mode, answer in (("FLOOR", [3, -4, 15]), ("ROUND", [3, -3, 16]), ("CEIL", [4, -3, 16])):
        yield qonnx("Trunc", x, 0.5, 0.0, 6, 4, rounding_mode=mode, expected=np.float32(answer) * np.float32(0.5))
    x = np.float32([13, -13, 63, -64]) * np.float32(0.5)
    yield qonnx("Trunc", x, 0.5, 0.0, 6, 2.0, 4, opset=2, expected=np.float32([6, -8, 14, -16]))
    yield qonnx("Trunc", x, 0.5, 0.0, 6, 2.0, 4, opset=2, signed=0, rounding_mode="ROUND",
                expected=np.float32([6, 0, 30, 0]))  # fmt: skip
    # Three bits of exponent with bias 3 and two of mantissa are the OCP type E3M2 without infinities: largest 28.
    x = np.concatenate([np.linspace(-40, 40, 401), np.linspace(-0.6, 0.6, 101)]).astype(np.float32)
    answer = np.clip(x, -28, 28).astype(ml_dtypes.float6_e3m2fn).astype(np.float32)
    yield qonnx("FloatQuant", x, 1.0, 3, 2, 3, 28.0, expected=answer)
    answer = 2 * np.clip(x / 2, -10, 10).astype(ml_dtypes.float6_e3m2fn).astype(np.float32)
    yield qonnx("FloatQuant", x, 2.0, 3, 2, 3, 10.0, expected=answer)


def _thresholds() -> Iterator[Case]:
    for shape, layout, axis in (((2, 3, 4, 5), "NCHW", 1), ((2, 4, 5, 3), "NHWC", 3), ((4, 3), "NCHW", 1),
                                ((2, 4, 3), "NCHW", 2)):  # fmt: skip
        for channels in (1, 3):
            x, thresholds = np.rint(draw(*shape) * 3), np.rint(draw(channels, 7, seed=1) * 3)
            counts = sum(np.moveaxis(x, axis, -1) >= thresholds[:, i] for i in range(7))
            answer = np.moveaxis(counts * np.float32(0.5) - np.float32(4), -1, axis).astype(np.float32)
            yield qonnx("MultiThreshold", x, thresholds, data_layout=layout, out_dtype="INT4", out_scale=0.5,
                        out_bias=-4.0, expected=answer)  # fmt: skip
    # Not-a-number reaches no threshold.
    yield qonnx("MultiThreshold", [[np.nan, np.inf]], [[0.0, 1.0]], out_dtype="UINT2", expected=np.float32([[0, 2]]))
