"""Forms of quantization and of products of integers: onnxruntime, or sums in Python's integers, equal everywhere."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.form import Case, case, draw, number, real, whole

#: Float types whose largest number is finite, and small integers.
SMALL_FLOATS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
                ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn)  # fmt: skip
SMALL_INTEGERS = (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
MANY, BLOCKS = real(0.5, 0.25, 1, 2), np.array([[0.5, 1], [2, 4], [1, 1]], np.float32)


def narrow(array: np.ndarray) -> np.ndarray:
    """Seven bits: products of uint8 and int8 saturate in onnxruntime's 16-bit pairs on some processors."""
    return array // 2


def scale(*values: float) -> np.ndarray:
    return np.array(values if len(values) > 1 else values[0], np.float32)


def quantized(x: np.ndarray, step: np.ndarray, zero: np.ndarray | int, dtype: type) -> np.ndarray:
    """Ties go to the even number; what is too large becomes the largest."""
    limits = np.iinfo(dtype)
    return np.clip(np.rint(x / step) + np.asarray(zero).astype(np.int64), limits.min, limits.max).astype(dtype)


def cases() -> Iterator[Case]:
    yield from _quantize()
    yield from _dequantize()
    yield from _small()
    yield from _ties()
    yield from _products()
    yield from _qlinear_products()
    yield from _convolutions()


def _quantize() -> Iterator[Case]:
    x, step = draw(3, 4) * 40, scale(0.5)
    for schema in versions_of("", "QuantizeLinear"):
        since = schema.since
        for kind in (np.uint8, np.int8):
            for constants in ((1, 2), ()):
                yield case("QuantizeLinear", since, x, step, number(3, kind), constants=constants,
                           expected=quantized(x, step, 3, kind))  # fmt: skip
            steps = draw(4, 5) * 50, scale(0.37), number(3, kind)
            yield case("QuantizeLinear", since, *steps, like=min(since, 21))
        yield case("QuantizeLinear", since, x, step, expected=quantized(x, step, 0, np.uint8))
        integers = np.array([0, 5, -5, 7, 100000, 2**31 - 1], np.int32)
        if since not in (19, 21):  # their scale has the type of the input
            answer = np.array([3, 5, 1, 7, 255, 255], np.uint8)
            yield case("QuantizeLinear", since, integers, scale(2), number(3, np.uint8), expected=answer)
        if since >= 13:
            zeros = np.array([0, 1, 2, 3], np.int8)
            yield case("QuantizeLinear", since, x, MANY, zeros, constants=(1, 2),
                       expected=quantized(x, MANY, zeros, np.int8))  # fmt: skip
            one = np.array([0.5], np.float32), np.array([3], np.int8)
            yield case("QuantizeLinear", since, x[:, :1], *one, constants=(1, 2),
                       expected=quantized(x[:, :1], step, 3, np.int8))  # fmt: skip
            yield case("QuantizeLinear", since, x, MANY[:3], axis=0,
                       expected=quantized(x, MANY[:3, None], 0, np.uint8))  # fmt: skip
        if since >= 21:
            yield case("QuantizeLinear", since, x, step, output_dtype=5, expected=quantized(x, step, 0, np.int16))
            for zeros in (np.zeros((3, 2), np.int8), np.arange(6, dtype=np.int8).reshape(3, 2)):
                answer = quantized(x, BLOCKS.repeat(2, 1), zeros.repeat(2, 1), np.int8)
                yield case("QuantizeLinear", since, x, BLOCKS, zeros, axis=1, block_size=2, expected=answer)
            for kind in (np.int16, np.uint16):
                far = draw(1000) * 30000
                yield case("QuantizeLinear", since, far, scale(0.37), number(5, kind), like=21)
    cube = draw(3, 3, 3)
    for axis in (0, 1, -1):
        yield case("QuantizeLinear", 17, cube, scale(0.1, 0.013, 0.2), np.array([1, -2, 3], np.int8), axis=axis)


def _dequantize() -> Iterator[Case]:
    step = scale(0.5)
    for schema in versions_of("", "DequantizeLinear"):
        since = schema.since
        for kind in (np.uint8, np.int8):
            given = np.arange(12).reshape(3, 4).astype(kind)
            yield case("DequantizeLinear", since, given, step, number(3, kind), constants=(1, 2), tolerance=0,
                       expected=(given.astype(np.float32) - 3) * step)  # fmt: skip
            yield case("DequantizeLinear", since, whole(kind, 4, 5), scale(0.37), number(3, kind), like=min(since, 21),
                       tolerance=0)  # fmt: skip
        sums = np.array([0, 5, -7, 100000, 2**31 - 1, -(2**31)], np.int32)
        yield case("DequantizeLinear", since, sums, scale(0.01), like=min(since, 21), tolerance=0)
        if since >= 13:
            yield case("DequantizeLinear", since, given, MANY, expected=given.astype(np.float32) * MANY)
            yield case("DequantizeLinear", since, given, MANY[:3], axis=0, expected=given * MANY[:3, None])
        if since >= 21:
            four = np.array([-8, 7], ml_dtypes.int4)
            yield case("DequantizeLinear", since, four, step, expected=real(-4, 3.5))
            zeros = np.arange(6, dtype=np.int8).reshape(3, 2)
            answer = (given.astype(np.float32) - zeros.repeat(2, 1)) * BLOCKS.repeat(2, 1)
            yield case("DequantizeLinear", since, given, BLOCKS, zeros, axis=1, block_size=2, expected=answer)
            yield case("DequantizeLinear", since, given, BLOCKS, axis=1, block_size=2,
                       expected=given * BLOCKS.repeat(2, 1))  # fmt: skip
    for kind in (np.int8, np.uint8, np.int32, np.int16, np.uint16):
        limits = np.iinfo(kind)
        x, zero = np.array([limits.min, 0, 1, 100, limits.max // 2], kind), number(0 if kind is np.int32 else 7, kind)
        yield from (case("DequantizeLinear", 21, x, scale(0.017), *z, tolerance=0) for z in ((zero,), ()))
    cube = (draw(3, 3, 3) * 40).astype(np.int8)
    for axis in (0, 1, -1):
        yield case("DequantizeLinear", 17, cube, scale(0.1, 0.013, 0.2), np.array([1, -2, 3], np.int8), axis=axis,
                   tolerance=0)  # fmt: skip


def _small() -> Iterator[Case]:
    """Beyond the range: the largest value, or with 'saturate' 0 what the type's own rounding gives."""
    x, half = real(0.0, -0.4, 1.3, 70.0, 1e6, -1e6, np.inf, np.nan), np.float32(0.5)
    for dtype in SMALL_FLOATS:
        largest, zero = float(ml_dtypes.finfo(dtype).max), np.zeros((), dtype)
        for saturate in (0, 1):
            answer = (np.clip(x / half, -largest, largest) if saturate else x / half).astype(dtype)
            yield case("QuantizeLinear", 28, x, scale(0.5), zero, saturate=saturate, expected=answer)
            yield case("DequantizeLinear", 28, answer, scale(0.5), zero, expected=answer.astype(np.float32) * half)
    x = np.arange(-12, 12, 0.25).astype(np.float32)
    for dtype in SMALL_INTEGERS:
        low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
        answer = np.clip(np.rint(x / 0.5) + 1, low, high)
        yield case("QuantizeLinear", 25, x, scale(0.5), np.array(1, dtype), expected=answer.astype(dtype))
        yield case("DequantizeLinear", 25, answer.astype(dtype), scale(0.5), np.array(1, dtype),
                   expected=((answer - 1) * 0.5).astype(np.float32))  # fmt: skip


def _ties() -> Iterator[Case]:
    """Every tie (the scale is a power of two), saturation on both sides, infinities; the type of the division."""
    x = np.concatenate([np.arange(-70, 70, 0.125), [1e9, -1e9, np.inf, -np.inf]]).astype(np.float32)
    for dtype in (np.int8, np.uint8):
        for zero in (0, 3):
            for since in (10, 13, 19, 21, 23):
                yield case("QuantizeLinear", since, x, scale(0.25), number(zero, dtype), like=min(since, 21))
    for since in (10, 21):
        yield case("QuantizeLinear", since, x, scale(0.25))
    yield case("QuantizeLinear", 21, real(0.1, 900), scale(0.5), output_dtype=3)
    far = np.array([1000.4], np.float32), np.array(0.1, np.float16), np.zeros((), np.int16)
    short, long = np.float16(1000.4) / np.float16(0.1), np.float32(1000.4) / np.float32(np.float16(0.1))
    assert np.rint(short) != np.rint(long)
    yield case("QuantizeLinear", 23, *far, expected=np.rint([short]).astype(np.int16))
    yield case("QuantizeLinear", 23, *far, precision=1, expected=np.rint([long]).astype(np.int16))
    powers = np.array([0.5, 4.0], np.float32).astype(ml_dtypes.float8_e8m0fnu), np.zeros(2, np.int8)
    x, answer = np.array([[1.2, 20.0], [-3.0, -9.0]], np.float32), np.array([[2, 5], [-6, -2]], np.int8)
    yield case("QuantizeLinear", 24, x, *powers, axis=1, expected=answer)
    back = np.array([[1, 20], [-3, -8]], np.float16)
    yield case("DequantizeLinear", 24, answer, *powers, axis=1, output_dtype=10, expected=back)
    # The zero point is added to whole numbers: sums of large floats would round.
    x, answer = real(-3e38, 3e38, 0.5, 1.5), np.array([-32768, 32767, -32767, -32765], np.int16)
    yield case("QuantizeLinear", 21, x, scale(1), number(-32767, np.int16), expected=answer)
    # Which integer not-a-number becomes, the text does not say: the middle here, the lowest in onnxruntime.
    yield case("QuantizeLinear", 21, real(np.nan), scale(1), number(-32767, np.int16), own=True,
               expected=np.array([0], np.int16))  # fmt: skip
    for x in (draw(3, 4), draw(7, low=1.0), -draw(5, low=2.0), np.zeros(4, np.float32)):
        yield case("DynamicQuantizeLinear", 11, x, outputs=3)


def _products() -> Iterator[Case]:
    for shapes in (((5, 7), (7, 4)), ((2, 3, 5, 7), (7, 4)), ((2, 1, 5, 7), (3, 7, 4))):
        for types in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
            a, b = (whole(dtype, *shape) for dtype, shape in zip(types, shapes, strict=True))
            points = number(12, types[0]), number(9, types[1])
            yield from (case("MatMulInteger", 10, a, narrow(b), *points[:count]) for count in (0, 1, 2))
    a, b, zb = whole(np.uint8, 5, 7), whole(np.int8, 7, 4), whole(np.int8, 4)
    for shape in ((5, 1), (5,)):
        za = whole(np.uint8, *shape)
        answer = (a.astype(int) - za.astype(int).reshape(5, 1)) @ (b.astype(int) - zb.astype(int))
        yield case("MatMulInteger", 10, a, b, za, zb, expected=answer.astype(np.int32))
    # Products whose sum float32 cannot hold, and one beyond 32 bits, which wraps around.
    a, b = np.full((1, 70000), 255, np.uint8), np.full((70000, 1), 127, np.int8)
    a[0, 0] = 254
    total = 255 * 127 * 70000 - 127
    yield case("MatMulInteger", 10, a, b, own=True, expected=np.array([[(total + 2**31) % 2**32 - 2**31]], np.int32))


def _qlinear_products() -> Iterator[Case]:
    for shapes in (((5, 7), (7, 4)), ((2, 5, 7), (2, 7, 4))):
        for dtype in (np.uint8, np.int8):
            a, b = (whole(dtype, *shape) for shape in shapes)
            zeros = [number(z, dtype) for z in (3, 5, 7)]
            inputs = (a, scale(0.02), zeros[0], b, scale(0.03), zeros[1], scale(0.9), zeros[2])
            yield from (case("QLinearMatMul", since, *inputs, like=10) for since in (10, 21))
    a, b = whole(np.uint8, 5, 7), whole(np.int8, 7, 3)
    yield case("QLinearMatMul", 10, a, scale(0.02), number(3, np.uint8), b, scale(0.03, 0.01, 0.002),
               np.zeros(3, np.int8), scale(0.9), number(100, np.uint8))  # fmt: skip
    a, b, zero = whole(np.int8, 2, 3), whole(np.int8, 3, 2), np.zeros((), np.int8)
    steps = [scale(s).astype(np.float16) for s in (0.5, 0.25, 16.0)]
    answer = quantized(a.astype(int) @ b.astype(int) * 0.125, scale(16), 0, np.int8)
    yield case("QLinearMatMul", 21, a, steps[0], zero, b, steps[1], zero, steps[2], zero, expected=answer)
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(12, dtype=np.uint8).reshape(3, 4)
    one = number(1, np.uint8)
    sums = (a.astype(int) - 1) @ (b.astype(int) - 1)
    for since in (10, 21):
        yield case("QLinearMatMul", since, a, scale(0.5), one, b, scale(0.5), one, scale(2), one,
                   expected=quantized(sums * 0.25, scale(2), 1, np.uint8))  # fmt: skip


def _convolutions() -> Iterator[Case]:
    """Padding is the number 0, thus the zero point."""
    for groups in (1, 2, 4):
        x, points = whole(np.uint8, 2, 4, 7, 8), (number(120, np.uint8), number(11, np.uint8))
        w = whole(np.uint8, 4, 4 // groups, 3, 3)
        for how in ({}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER"}):
            yield case("ConvInteger", 10, x, w, *points, group=groups, attributes=how)
        signed = whole(np.int8, 4, 4 // groups, 3, 3)
        padded = np.pad(x.astype(int) - 120, [(0, 0), (0, 0), (1, 2), (0, 1)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2]
        windows = windows.reshape(2, groups, 4 // groups, *windows.shape[2:])
        kernels = (signed.astype(int) - 11).reshape(groups, 4 // groups, 4 // groups, 3, 3)
        answer = np.einsum("ngcijkl,gmckl->ngmij", windows, kernels)
        yield case("ConvInteger", 10, x, signed, points[0], number(11, np.int8), group=groups, pads=[1, 0, 2, 1],
                   strides=[2, 1], expected=answer.reshape(2, 4, *answer.shape[3:]).astype(np.int32))  # fmt: skip
    for groups in (1, 4):
        x, w = whole(np.uint8, 1, 4, 7, 8), narrow(whole(np.int8, 4, 4 // groups, 3, 3))
        for steps in (scale(0.01), scale(0.01, 0.02, 0.004, 0.03)):
            for bias in ((), (np.array([1000, -2000, 3000, 0], np.int32),)):
                zeros = np.zeros(steps.shape, np.int8)
                yield case("QLinearConv", 10, x, scale(0.05), number(120, np.uint8), w, steps, zeros, scale(0.4),
                           number(128, np.uint8), *bias, group=groups, pads=[1, 1, 1, 1])  # fmt: skip
