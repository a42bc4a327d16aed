"""Forms of casts between element types, constants, ranges, and random numbers of one possible value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.model import SparseTensor
from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.elementwise import each
from tests.onnx.forms.form import Case, case, draw, ints, real, words

FLOAT, UINT8, INT32, INT64, STRING, BOOL, HALF, DOUBLE, BFLOAT16 = 1, 2, 6, 7, 8, 9, 10, 11, 16
E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0 = 17, 18, 19, 20, 24
PLAIN = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip
NAMES = {1: "FLOAT", 6: "INT32", 7: "INT64", 9: "BOOL", 10: "FLOAT16", 11: "DOUBLE"}
#: Element types, and their largest number.
FLOAT8 = {E4M3FN: (ml_dtypes.float8_e4m3fn, 448), E4M3FNUZ: (ml_dtypes.float8_e4m3fnuz, 240),
          E5M2: (ml_dtypes.float8_e5m2, 57344), E5M2FNUZ: (ml_dtypes.float8_e5m2fnuz, 57344)}  # fmt: skip
NAN = math.nan


def cases() -> Iterator[Case]:
    yield from _casts()
    yield from _small_casts()
    yield from _texts()
    yield from _constants()
    yield from _ranges()
    yield from _random()


def _casts() -> Iterator[Case]:
    """0 to 100 fits into all plain types, integers that do not fit lose their upper bits."""
    for schema in versions_of("", "Cast"):
        for k, (to, target) in enumerate(PLAIN.items()):
            for source in PLAIN.values() if schema.since == 13 else list(PLAIN.values())[k % 3 :: 3]:
                x = np.array([0, 1, 2, 77, 100]).astype(source)
                if source in (np.int16, np.int32, np.int64) and target not in (np.float16, np.bool_):
                    x = np.concatenate((x, np.array([-1, -200, 300, 32767], source)))
                if schema.since > 1 or to in NAMES:
                    how: dict[str, Any] = {"to": NAMES[to] if schema.since == 1 else to}
                    yield case("Cast", schema.since, x, attributes=how, expected=x.astype(target))
        if schema.since >= 9:
            yield case("Cast", schema.since, words("1.5", "-3"), to=1, expected=real(1.5, -3))
            yield case("Cast", schema.since, np.array([1, -3]), to=8, expected=words("1", "-3"))
    x = real(1.75, -1.75, 0.5, -0.5, 0)
    for to, answer in ((INT32, np.int32([1, -1, 0, 0, 0])), (BOOL, x != 0), (DOUBLE, x.astype(np.float64))):
        yield from each("Cast", (6, 13), x, to=to, expected=answer)
        yield case("Cast", 1, x, to=NAMES[to], expected=answer)
    for schema in versions_of("", "CastLike"):
        yield case("CastLike", schema.since, real(1.5, -2.5, -600), np.array([1]), expected=np.array([1, -2, -600]))
        yield case("CastLike", schema.since, np.array([1, 0]), np.array([1.0]), expected=np.array([1.0, 0]))
    like = np.zeros(1, ml_dtypes.float8_e4m3fn)
    yield case("CastLike", 19, real(1.75, -600), like, expected=real(1.75, -448).astype(like.dtype))


def _small_casts() -> Iterator[Case]:
    """Floats of 8 bits saturate or not, exponents round by `round_mode`, small integers keep the lower bits."""
    special = real(0, -0.0, np.nan, np.inf, -np.inf, 1e9, -1e9, 1.0625, -3)
    for to, (dtype, top) in FLOAT8.items():
        saturated = np.array([0, 0, NAN, top, -top, top, -top, 1, -3]).astype(dtype)
        for source in (np.float32, np.float16, np.float64, ml_dtypes.bfloat16):
            with np.errstate(over="ignore"):
                x = special.astype(source)
            yield from each("Cast", (19, 28) if source is np.float32 else (19,), x, to=to, expected=saturated)
        beyond = np.inf if to == E5M2 else NAN
        answer = np.array([0, 0, NAN, beyond, -beyond, beyond, -beyond, 1, -3]).astype(dtype)
        yield from each("Cast", (19, 28), special, to=to, saturate=0, expected=answer)
        answer = np.array([top, -top]).astype(dtype)
        yield case("Cast", 19, np.array([70_000, -70_000], np.int32), to=to, expected=answer)
    x = real(0, 1, 1.25, 1.5, 1.75, 3, 3e38, NAN, np.inf)
    for mode, saturate, exact in (
        ("up", 1, [2**-127, 1, 2, 2, 2, 4, 2.0**127, NAN, 2.0**127]),
        ("down", 1, [2**-127, 1, 1, 1, 1, 2, 2.0**127, NAN, 2.0**127]),
        ("nearest", 1, [2**-127, 1, 1, 2, 2, 4, 2.0**127, NAN, 2.0**127]),
        ("nearest", 0, [NAN, 1, 1, 2, 2, 4, NAN, NAN, NAN]),
    ):
        answer = np.array(exact).astype(ml_dtypes.float8_e8m0fnu)
        yield case("Cast", 24, x, to=E8M0, round_mode=mode, saturate=saturate, expected=answer)
    for to, dtype, given, kept in (
        (21, ml_dtypes.uint4, [0, 15, 16, 200], [0, 15, 0, 8]), (22, ml_dtypes.int4, [7, 8, -9, 200], [7, -8, 7, -8]),
        (25, ml_dtypes.uint2, [0, 3, 4, 7], [0, 3, 0, 3]), (26, ml_dtypes.int2, [1, 2, 3, -3], [1, -2, -1, 1]),
    ):  # fmt: skip
        yield case("Cast", 25, np.array(given, np.int32), to=to, expected=np.array(kept).astype(dtype))
    for dtype, to, given, kind, bits in (
        (np.float32, 6, [1.0], np.int32, [0x3F800000]), (np.int8, 2, [-1], np.uint8, [255]),
        (ml_dtypes.bfloat16, 10, [1.0], np.float16, [1.875]), (ml_dtypes.int4, 21, [-1, 7], ml_dtypes.uint4, [15, 7]),
        (ml_dtypes.uint4, 22, [15, 7], ml_dtypes.int4, [-1, 7]),
        (ml_dtypes.uint4, 23, [2, 15], ml_dtypes.float4_e2m1fn, [1.0, -6.0]),
        (ml_dtypes.int2, 25, [-1, 1], ml_dtypes.uint2, [3, 1]), (np.uint8, 9, [0, 1], np.bool_, [False, True]),
    ):  # fmt: skip
        yield case("BitCast", 26, np.array(given, dtype), to=to, expected=np.array(bits).astype(kind))


def _texts() -> Iterator[Case]:
    """Without exponent, and with the digits that give the same number again."""
    for source in (np.float32, np.float64, np.int32, np.int64, np.bool_, np.float16):
        yield case("Cast", 13, np.array([0, 1, 2, 77, 100]).astype(source), to=STRING)
    numbers = real(314.15926, -0.1, 1e-7, 1e20, np.nan, np.inf, -np.inf)
    texts = words("314.15927", "-0.1", "0.0000001", "100000000000000000000", "NaN", "INF", "-INF")
    yield case("Cast", 13, numbers, to=STRING, expected=texts)
    yield case("Cast", 13, texts, to=FLOAT, expected=numbers, tolerance=0)
    for to, dtype, given, answer in (
        (FLOAT, np.float32, ["3.14", "1e-5", "1E8", "+INF", "inf", "-INF"], [3.14, 1e-5, 1e8, np.inf, np.inf, -np.inf]),
        (INT64, np.int64, ["100.5", "-7", "1e3"], [100, -7, 1000]),
        (INT64, np.int64, ["9007199254740993"], [9007199254740993]),
        (13, np.uint64, ["18446744073709551615"], [18446744073709551615]),
        (BOOL, np.bool_, ["0", "1", "2.5"], [False, True, True]),
        (BFLOAT16, ml_dtypes.bfloat16, ["1.5"], [1.5]),
    ):
        yield case("Cast", 13, words(*given), to=to, expected=np.array(answer, dtype), tolerance=0)


def _constants() -> Iterator[Case]:
    two = np.array([[1, -2.5]], np.float32)
    sparse = SparseTensor(np.array([5.0, 7.0], np.float32), np.array([[0, 1], [2, 0]]), (3, 2))
    flat = SparseTensor(np.array([5.0], np.float32), np.array([4]), (3, 2))
    values: list[tuple[int, str, Any, Any]] = [
        (1, "value", two, two), (1, "value", np.array([[1, 2]], np.int8), np.array([[1, 2]], np.int8)),
        (11, "sparse_value", sparse, np.array([[0, 5], [0, 0], [7, 0]], np.float32)),
        (11, "sparse_value", flat, np.array([[0, 0], [0, 0], [5, 0]], np.float32)),
        (12, "value_float", 1.5, np.float32(1.5)), (12, "value_floats", [1.0, 2.5], real(1, 2.5)),
        (12, "value_int", 7, np.array(7)), (12, "value_ints", [3, 4], ints(3, 4)),
        (12, "value_string", "a", np.array("a", object)), (12, "value_strings", ["a"], words("a")),
    ]  # fmt: skip
    for schema in versions_of("", "Constant"):
        for since, name, value, answer in values:
            if since <= schema.since:
                yield case("Constant", schema.since, attributes={name: value}, expected=answer)
    for schema in versions_of("", "ConstantOfShape"):
        for shape in ((2, 3), (), (0, 4)):
            yield case("ConstantOfShape", schema.since, ints(*shape), expected=np.zeros(shape, np.float32))
            for value in (ints(7), real(0.5)):
                yield case("ConstantOfShape", schema.since, ints(*shape), value=value,
                           expected=np.full(shape, value[0], value.dtype))  # fmt: skip


def _ranges() -> Iterator[Case]:
    for dtype in (np.float32, np.float64, np.int16, np.int32, np.int64):
        for start, limit, delta in ((0, 10, 3), (10, 0, -2), (5, 5, 1), (0, -5, 2), (1, 2, 7)):
            yield from each("Range", (11, 27), *(np.array(v, dtype) for v in (start, limit, delta)), like=11)
    ends = [np.array(v, np.float32) for v in (1, 4, 0.5)]
    yield from each("Range", (11, 27), *ends, constants=(0, 1, 2), expected=np.arange(1, 4, 0.5, np.float32))
    yield case("Range", 11, *(np.array(v, np.float32) for v in (5, 0, -1.5)))
    big = 2**62
    yield case("Range", 11, np.array(big), np.array(big + 3), np.array(2), own=True, expected=ints(big, big + 2))
    small = [np.array(v, ml_dtypes.bfloat16) for v in (250, 260, 2)]
    yield case("Range", 27, *small, expected=np.array([250, 252, 254, 256, 258]).astype(ml_dtypes.bfloat16))
    for since in (9, 22):
        for k in (0, 1, -2, 9, -(2**63)):
            diagonal = np.array([[j - i == k for j in range(4)] for i in range(3)])
            yield case("EyeLike", since, draw(3, 4), k=k, expected=diagonal.astype(np.float32))
            yield case("EyeLike", since, draw(3, 4), k=k, dtype=INT64, expected=diagonal.astype(np.int64))
        yield case("EyeLike", since, draw(3, 4).astype(np.float64))


def _random() -> Iterator[Case]:
    three = np.full((2, 3), 3, np.float32)
    for since in (1, 22):
        yield case("RandomNormal", since, shape=[2, 3], mean=3.0, scale=0.0, expected=three)
        yield case("RandomUniform", since, shape=[2, 3], low=3.0, high=3.0, expected=three)
        for like in (draw(2, 3), draw(2, 3).astype(np.float64)):
            kept = three.astype(like.dtype)
            yield case("RandomNormalLike", since, like, mean=3.0, scale=0.0, expected=kept)
            yield case("RandomNormalLike", since, like, mean=3.0, scale=0.0, dtype=1, expected=three)
            yield case("RandomUniformLike", since, like, low=3.0, high=3.0, expected=kept)
            yield case("RandomUniformLike", since, like, low=3.0, high=3.0, dtype=1, expected=three)
    for since in (15, 22):
        yield case("Bernoulli", since, np.array([0.0, 1.0]), dtype=6, expected=np.array([0, 1], np.int32))
        yield case("Bernoulli", since, np.array([0.0, 1.0]), expected=np.array([0.0, 1.0]))
    certain = np.array([[-80, 0.0, -80]], np.float32)
    yield from each("Multinomial", (7, 22), certain, sample_size=3, expected=np.array([[1, 1, 1]], np.int32))
    yield case("Multinomial", 7, certain, sample_size=3, dtype=INT64, expected=np.array([[1, 1, 1]]))


