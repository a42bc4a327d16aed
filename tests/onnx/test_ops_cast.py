"""Casts between all element types, constants, ranges and random numbers."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.errors import LimitError
from hwflow.onnx.model import SparseTensor
from hwflow.onnx.ops.special import erf, erf_inverse
from tests.onnx.neural import Case, agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle
from tests.onnx.single import inferred

FLOAT, UINT8, INT32, INT64, STRING, BOOL, HALF, DOUBLE, BFLOAT16 = 1, 2, 6, 7, 8, 9, 10, 11, 16
E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0 = 17, 18, 19, 20, 24
PLAIN = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


@pytest.mark.parametrize("source", PLAIN.values())
@pytest.mark.parametrize("to", PLAIN)
@pytest.mark.parametrize("opset", [6, 9, 13, 19])
def test_between_plain_types(oracle, source, to, opset) -> None:
    """0 to 100 fits into all of them, integers that do not fit lose their upper bits."""
    x = np.array([0, 1, 2, 77, 100]).astype(source)
    if source in (np.int16, np.int32, np.int64) and PLAIN[to] not in (np.float16, np.bool_):
        x = np.concatenate((x, np.array([-1, -200, 300, 32767], source)))
    agree(case("Cast", opset, x, to=to), oracle)


REAL = [entry for entry in ELEMENT_TYPES if entry.dtype.kind != "c"]


@pytest.mark.parametrize("to", REAL, ids=lambda entry: str(entry.dtype))
def test_from_all_types(to) -> None:
    """1 is in all of them, and text as well."""
    for source in REAL:
        x = np.array(["1"], object) if source.dtype.kind == "O" else np.array([1]).astype(source.dtype)
        found = evaluated(case("Cast", 28, x, to=to.code))[0]
        assert found.dtype == to.dtype
        assert found.tolist() == (["1"] if to.dtype.kind == "O" else np.array([1]).astype(to.dtype).tolist())


@pytest.mark.parametrize("to", [E4M3FN, E5M2])
@pytest.mark.parametrize("given", [70_000, -70_000])
def test_integers_saturate_too(to, given) -> None:
    found = evaluated(case("Cast", 19, np.array([given], np.int32), to=to))[0].astype(np.float64)
    assert found.tolist() == [np.copysign(LARGEST[to], given)]


@pytest.mark.parametrize(("name", "code"), [("INT32", 6), ("FLOAT16", 10), ("BOOL", 9), ("DOUBLE", 11)])
def test_version_1_names_the_type(name, code) -> None:
    found = evaluated(case("Cast", 1, np.array([0, 1.75, -2.5], np.float32), to=name))[0]
    assert found.dtype == PLAIN[code]
    assert found.tolist() == np.array([0, 1.75, -2.5], np.float32).astype(PLAIN[code]).tolist()


def test_floats_lose_their_fraction() -> None:
    x = np.array([1.75, -1.75, 0.5, -0.5], np.float32)
    assert evaluated(case("Cast", 13, x, to=INT32))[0].tolist() == [1, -1, 0, 0]
    assert evaluated(case("Cast", 13, x, to=BOOL))[0].tolist() == [True] * 4


SPECIAL = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e9, -1e9, 1.0625, -3], np.float32)
LARGEST = {E4M3FN: 448, E4M3FNUZ: 240, E5M2: 57344, E5M2FNUZ: 57344}


@pytest.mark.parametrize("source", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("to", LARGEST)
def test_float8_saturates(to, source) -> None:
    top = LARGEST[to]
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(source)
    found = evaluated(case("Cast", 19, x, to=to))[0].astype(np.float64)
    np.testing.assert_array_equal(found, [0, 0, np.nan, top, -top, top, -top, 1, -3])


@pytest.mark.parametrize("to", LARGEST)
def test_float8_without_saturation(to) -> None:
    found = evaluated(case("Cast", 19, SPECIAL, to=to, saturate=0))[0].astype(np.float64)
    top = np.inf if to == E5M2 else np.nan
    np.testing.assert_array_equal(found, [0, 0, np.nan, top, -top, top, -top, 1, -3])


@pytest.mark.parametrize("to", [E4M3FNUZ, E5M2FNUZ])
def test_unsigned_zero_has_no_negative(to) -> None:
    assert evaluated(case("Cast", 19, np.array([-0.0], np.float32), to=to))[0].view(np.uint8).tolist() == [0]


NAN = math.nan


@pytest.mark.parametrize(
    ("mode", "saturate", "wanted"),
    [
        ("up", 1, [2**-127, 1, 2, 2, 2, 4, 2.0**127, NAN, 2.0**127]),
        ("down", 1, [2**-127, 1, 1, 1, 1, 2, 2.0**127, NAN, 2.0**127]),
        ("nearest", 1, [2**-127, 1, 1, 2, 2, 4, 2.0**127, NAN, 2.0**127]),
        ("nearest", 0, [NAN, 1, 1, 2, 2, 4, NAN, NAN, NAN]),
    ],
)
def test_exponents(mode, saturate, wanted) -> None:
    x = np.array([0, 1, 1.25, 1.5, 1.75, 3, 3e38, np.nan, np.inf], np.float32)
    found = evaluated(case("Cast", 24, x, to=E8M0, round_mode=mode, saturate=saturate))[0].astype(np.float64)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("to", "given", "wanted"),
    [
        (21, [0, 15, 16, 200], [0, 15, 0, 8]), (22, [7, 8, -9, 200], [7, -8, 7, -8]),
        (25, [0, 3, 4, 7], [0, 3, 0, 3]), (26, [1, 2, 3, -3], [1, -2, -1, 1]),
    ],
)  # fmt: skip
def test_small_integers_keep_the_lower_bits(to, given, wanted) -> None:
    assert evaluated(case("Cast", 25, np.array(given, np.int32), to=to))[0].astype(np.int64).tolist() == wanted


@pytest.mark.parametrize("source", [np.float32, np.float64, np.int32, np.int64, np.bool_, np.float16])
def test_numbers_as_texts(oracle, source) -> None:
    x = np.array([0, 1, 2, 77, 100]).astype(source)
    model, feeds = case("Cast", 13, x, to=STRING).model()
    assert hwflow.onnx.evaluate(model, feeds)["y0"].tolist() == oracle.run(model, feeds)[0].tolist()


def test_texts_are_plain_numbers() -> None:
    """As the specification says, without exponent, and with the digits that give the same number again."""
    x = np.array([314.15926, -0.1, 1e-7, 1e20, np.nan, np.inf, -np.inf], np.float32)
    found = evaluated(case("Cast", 13, x, to=STRING))[0]
    assert found.tolist() == ["314.15927", "-0.1", "0.0000001", "100000000000000000000", "NaN", "INF", "-INF"]
    np.testing.assert_array_equal(evaluated(case("Cast", 13, found, to=FLOAT))[0], x)


@pytest.mark.parametrize(
    ("to", "texts", "wanted"),
    [
        (FLOAT, ["3.14", "1e-5", "1E8", "+INF", "inf", "-INF"], [3.14, 1e-5, 1e8, np.inf, np.inf, -np.inf]),
        (INT64, ["100.5", "-7", "1e3"], [100, -7, 1000]),
        (INT64, ["9007199254740993"], [9007199254740993]),
        (13, ["18446744073709551615"], [18446744073709551615]),
        (BOOL, ["0", "1", "2.5"], [False, True, True]),
        (BFLOAT16, ["1.5"], [1.5]),
    ],
)
def test_texts_as_numbers(to, texts, wanted) -> None:
    found = evaluated(case("Cast", 13, np.array(texts, object), to=to))[0]
    assert found.tolist() == np.array(wanted).astype(found.dtype).tolist()


def test_cast_like() -> None:
    x = np.array([1.75, -600], np.float32)
    assert evaluated(case("CastLike", 15, x, np.zeros(1, np.int32)))[0].tolist() == [1, -600]
    found = evaluated(case("CastLike", 19, x, np.zeros(1, ml_dtypes.float8_e4m3fn)))[0]
    assert found.astype(float).tolist() == [1.75, -448]


def test_constants() -> None:
    b = Builder()
    sparse = SparseTensor(np.array([5.0, 7.0], np.float32), np.array([[0, 1], [2, 0]]), (3, 2))
    flat = SparseTensor(np.array([5.0], np.float32), np.array([4]), (3, 2))
    for name, value in (("sparse_value", sparse), ("value_string", "a"), ("value_ints", (1, 2)), ("value_float", 0.5)):
        b.output(b.node("Constant", output=name, **{name: value}))
    b.output(b.node("Constant", output="flat", sparse_value=flat))
    found = {name: array.tolist() for name, array in hwflow.onnx.evaluate(b.model(), {}).items()}
    assert found == {
        "sparse_value": [[0, 5], [0, 0], [7, 0]], "value_string": "a", "value_ints": [1, 2], "value_float": 0.5,
        "flat": [[0, 0], [0, 0], [5, 0]],
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
@pytest.mark.parametrize(("start", "limit", "delta"), [(0, 10, 3), (10, 0, -2), (5, 5, 1), (0, -5, 2), (1, 2, 7)])
def test_range(oracle, dtype, start, limit, delta) -> None:
    agree(case("Range", 11, *(np.array(v, dtype) for v in (start, limit, delta))), oracle)


def test_the_rule_of_range_makes_no_numbers() -> None:
    """10^8 numbers take 800 MB; of 10^12 not even the shape is given, because no tensor may be that large."""
    tracemalloc.start()
    assert inferred("Range", np.array(0), np.array(10**8), np.array(1)) == [(np.int64, (10**8,))]
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with pytest.raises(LimitError, match="must be at most"):
        inferred("Range", np.array(0), np.array(10**12), np.array(1))


def test_range_of_large_integers_is_exact() -> None:
    big = 2**62
    found = evaluated(case("Range", 11, np.array(big), np.array(big + 3), np.array(2)))[0]
    assert found.tolist() == [big, big + 2]


def test_range_of_small_floats() -> None:
    found = evaluated(case("Range", 27, *(np.array(v, ml_dtypes.bfloat16) for v in (250, 260, 2))))[0]
    assert found.astype(float).tolist() == [250, 252, 254, 256, 258]


@pytest.mark.parametrize("k", [0, 1, -2, 9, -(2**63)])
@pytest.mark.parametrize("dtype", [None, INT64])
def test_eye_like(k, dtype) -> None:
    attributes = {"k": k} if dtype is None else {"k": k, "dtype": dtype}
    found = evaluated(case("EyeLike", 9, np.zeros((3, 4), np.float32), attributes=attributes))[0]
    assert found.dtype == (np.float32 if dtype is None else np.int64)
    assert found.tolist() == [[float(j - i == k) for j in range(4)] for i in range(3)]


def test_error_function() -> None:
    """To 1e-14 of the exact value, and so to the last bit of float32."""
    x = np.concatenate((np.linspace(-7, 7, 20001), np.logspace(-300, 1, 601), [0.46875, 6.0, -0.0]))
    exact = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), exact, rtol=1e-14)
    single = x.astype(np.float32)
    rounded = np.array([math.erf(v) for v in single]).astype(np.float32)
    np.testing.assert_array_max_ulp(erf(single).astype(np.float32), rounded, 1)
    np.testing.assert_array_equal(erf(np.array([np.inf, -np.inf, np.nan])), [1, -1, np.nan])


def test_inverse_error_function() -> None:
    y = np.linspace(-0.99999, 0.99999, 2001)
    np.testing.assert_allclose(erf(erf_inverse(y)), y, rtol=1e-12, atol=1e-15)


def random(op: str, opset: int, **attributes: Any) -> np.ndarray:
    return evaluated(case(op, opset, attributes=attributes))[0]


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("dtype", [FLOAT, HALF, DOUBLE])
def test_random_numbers(opset, dtype) -> None:
    normal = random("RandomNormal", opset, shape=(100, 200), mean=3.0, scale=2.0, dtype=dtype).astype(np.float64)
    assert abs(normal.mean() - 3) < 0.05
    assert abs(normal.std() - 2) < 0.05
    uniform = random("RandomUniform", opset, shape=(100, 200), low=-1.0, high=3.0, dtype=dtype).astype(np.float64)
    assert abs(uniform.mean() - 1) < 0.05
    assert -1 <= uniform.min() < -0.99 < 2.99 < uniform.max() <= 3


def test_random_numbers_are_the_same_every_time() -> None:
    first = random("RandomNormal", 1, shape=(5,), seed=7.0)
    assert first.tolist() == random("RandomNormal", 1, shape=(5,), seed=7.0).tolist()
    others = [random("RandomNormal", 1, shape=(5,), **seed) for seed in ({}, {"seed": 0.5}, {"seed": -1.0})]
    assert len({tuple(a) for a in (first, *others)}) == 4
    assert others[0].tolist() == random("RandomNormal", 1, shape=(5,), seed=0.0).tolist()


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike"])
def test_random_numbers_in_the_shape_of_others(op) -> None:
    x = np.zeros((2, 3), np.float64)
    assert evaluated(case(op, 1, x))[0].dtype == np.float64
    assert evaluated(case(op, 1, x, dtype=FLOAT))[0].dtype == np.float32


def test_bernoulli() -> None:
    p = np.full((100, 200), 0.3, np.float32)
    found = evaluated(case("Bernoulli", 15, p, dtype=INT32, seed=3.0))[0]
    assert found.dtype == np.int32
    assert set(found.ravel().tolist()) == {0, 1}
    assert abs(found.mean() - 0.3) < 0.01
    assert evaluated(case("Bernoulli", 15, np.array([0.0, 1.0])))[0].tolist() == [0, 1]


def test_multinomial() -> None:
    x = np.log(np.array([[0.2, 0.3, 0.5], [1e-30, 1, 1e-30]], np.float32))
    found = evaluated(case("Multinomial", 7, x, sample_size=10_000, dtype=INT64))[0]
    assert found.dtype == np.int64
    np.testing.assert_allclose(np.bincount(found[0]) / 10_000, [0.2, 0.3, 0.5], atol=0.02)
    assert set(found[1].tolist()) == {1}


@pytest.mark.parametrize("opset", [12, 13, 22])
def test_dropout_in_training(opset) -> None:
    x = np.ones((100, 200), np.float32)
    wanted = case("Dropout", opset, x, np.array(0.25, np.float32), np.array(True), outputs=2, seed=5)
    y, mask = evaluated(wanted)
    assert abs(mask.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)


@pytest.mark.parametrize("opset", [1, 6])
def test_old_dropout_drops_unless_it_is_a_test(opset) -> None:
    y, mask = evaluated(case("Dropout", opset, np.ones((100, 200), np.float32), ratio=0.25, outputs=2))
    assert mask.dtype == np.float32
    assert abs(mask.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)


ONE = np.array(1.0, np.float32)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("Cast", 13, np.array(["Hello"], object), to=FLOAT), "the texts must be numbers that float32 holds"),
        (case("Cast", 13, np.array(["inf"], object), to=INT32), "the texts must be numbers that int32 holds"),
        (case("Cast", 1, ONE, to="INT24"), "attribute 'to' must be one of BOOL, DOUBLE"),
        (case("Cast", 24, ONE, to=E8M0, round_mode="odd"), "attribute 'round_mode' must be one of up, down, nearest"),
        (case("Range", 11, ONE, ONE, 0 * ONE), "'start', 'limit' and 'delta' (not 0) must be finite, not 1.0, 1.0, "),
        (case("Range", 11, 0 * ONE, 3e38 * ONE, np.array(1e-40, np.float32)), "the number of elements must be finite"),
        (case("EyeLike", 9, draw(2, 3, 4)), "the input must be a matrix, not have the shape [2, 3, 4]"),
        (case("RandomNormal", 1, shape=(2,), scale=-1.0), "attribute 'scale' must be 0 or more, not -1.0"),
        (case("Multinomial", 7, draw(3)), "the input must be [rows, classes]"),
        (case("Constant", 13, value_int=1, value_float=2.0), "a constant must have exactly one value"),
        (case("Constant", 13, sparse_value=SparseTensor(np.ones(1, np.float32), np.array([6]), (3, 2))),
         "the sparse value must have one index below [6] for each of its 1 values"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_what_does_not_fit(wanted, message) -> None:
    assert error_of(wanted).startswith(message)
