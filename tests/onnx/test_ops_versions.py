"""Every version of the elementwise operators: old broadcasting, the element types of the schemas, old attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hwflow.onnx.ops import find_operator
from hwflow.onnx.schemas import versions_of
from tests.onnx.neural import Case, agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle

TYPES = {
    "tensor(float16)": np.dtype(np.float16),
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
    "tensor(bfloat16)": np.dtype(ml_dtypes.bfloat16),
    "tensor(int8)": np.dtype(np.int8),
    "tensor(uint8)": np.dtype(np.uint8),
    "tensor(int16)": np.dtype(np.int16),
    "tensor(uint16)": np.dtype(np.uint16),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(uint32)": np.dtype(np.uint32),
    "tensor(int64)": np.dtype(np.int64),
    "tensor(uint64)": np.dtype(np.uint64),
    "tensor(bool)": np.dtype(np.bool_),
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
    "Equal": np.equal, "Less": np.less, "Greater": np.greater,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip

#: Shapes of both operands, the attribute axis, and the shape in which numpy broadcasts the second one.
OLD_SHAPES = [
    ((2, 3, 4, 5), (), None, ()),
    ((2, 3, 4, 5), (1, 1), None, (1, 1)),
    ((2, 3, 4, 5), (5,), None, (5,)),
    ((2, 3, 4, 5), (4, 5), None, (4, 5)),
    ((2, 3, 4, 5), (3, 4), 1, (3, 4, 1)),
    ((2, 3, 4, 5), (2,), 0, (2, 1, 1, 1)),
    ((2, 3, 4, 5), (3, 4), -3, (3, 4, 1)),
    ((2, 3), (2, 3), None, (2, 3)),
]


def operands(op: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Numbers that suit the operator: bool for logic, a few equal ones for Equal."""
    drawn = [1 + np.abs(draw(*shape, seed=i)) for i, shape in enumerate(shapes)]
    if op in ("And", "Or", "Xor"):
        return [a > 1.5 for a in drawn]
    return [a.astype(np.int32) for a in drawn] if op == "Equal" else drawn


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(("first", "second", "axis", "seen"), OLD_SHAPES)
@pytest.mark.parametrize("op", BINARY)
def test_old_broadcasting(op, first, second, axis, seen, opset) -> None:
    a, b = operands(op, first, second)
    wanted = BINARY[op](a, b.reshape(seen))
    found = evaluated(case(op, opset, a, b, broadcast=1, axis=axis) if axis is not None else
                      case(op, opset, a, b, broadcast=1))[0]  # fmt: skip
    assert found.dtype == (np.bool_ if wanted.dtype == np.bool_ else a.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("op", BINARY)
def test_old_operators_broadcast_only_when_told(op) -> None:
    message = error_of(case(op, 6, *operands(op, (2, 3), (3,))))
    assert message.startswith("the input shapes must be equal without attribute broadcast=1, not [2, 3] and [3]")


def test_old_broadcasting_refuses_other_shapes() -> None:
    message = error_of(case("Add", 6, *operands("Add", (2, 3, 4), (3,)), broadcast=1))
    assert message == "the shape of the second input must be a part of [2, 3, 4] from axis 2 on, not [3]"


@pytest.mark.parametrize("opset", [1, 6, 8, 12, 13])
@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
def test_any_number_of_operands(op, opset) -> None:
    arrays = [draw(2, 3, seed=i) for i in range(3)]
    function = {"Max": np.max, "Min": np.min, "Sum": np.sum, "Mean": np.mean}[op]
    np.testing.assert_allclose(evaluated(case(op, opset, *arrays))[0], function(arrays, axis=0), rtol=1e-5)


def test_any_number_of_operands_broadcast_from_8_on() -> None:
    shapes = draw(2, 3), draw(3)
    assert error_of(case("Max", 6, *shapes)) == (
        "the input shapes must be equal before operator set 8, not [2, 3] and [3]"
    )
    assert evaluated(case("Max", 8, *shapes))[0].shape == (2, 3)


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def error_function(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


#: Operator: its meaning in float64, and between which numbers the inputs lie.
UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "Abs": (np.abs, -5, 5),
    "Acos": (np.arccos, -1, 1),
    "Acosh": (np.arccosh, 1, 5),
    "Asin": (np.arcsin, -1, 1),
    "Asinh": (np.arcsinh, -5, 5),
    "Atan": (np.arctan, -5, 5),
    "Atanh": (np.arctanh, -0.9, 0.9),
    "Ceil": (np.ceil, -5, 5),
    "Celu": (lambda x: np.maximum(0, x) + np.minimum(0, np.exp(x) - 1), -5, 5),
    "Cos": (np.cos, -5, 5),
    "Cosh": (np.cosh, -5, 5),
    "Elu": (lambda x: np.where(x < 0, np.exp(x) - 1, x), -5, 5),
    "Erf": (error_function, -4, 4),
    "Exp": (np.exp, -5, 5),
    "Floor": (np.floor, -5, 5),
    "Gelu": (lambda x: x * (1 + error_function(x / np.sqrt(2))) / 2, -3, 5),
    "HardSigmoid": (lambda x: np.clip(np.float64(np.float32(0.2)) * x + 0.5, 0, 1), -5, 5),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -5, 5),
    "LeakyRelu": (lambda x: np.where(x < 0, np.float64(np.float32(0.01)) * x, x), -5, 5),
    "Log": (np.log, 0.1, 5),
    "Mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), -5, 5),
    "Neg": (np.negative, -5, 5),
    "Reciprocal": (lambda x: 1 / x, 0.5, 5),
    "Relu": (lambda x: np.maximum(x, 0), -5, 5),
    "Round": (np.rint, -5, 5),
    "Shrink": (lambda x: np.where(np.abs(x) > 0.5, x, 0), -5, 5),
    "Sigmoid": (logistic, -5, 5),
    "Sign": (np.sign, -5, 5),
    "Sin": (np.sin, -5, 5),
    "Sinh": (np.sinh, -5, 5),
    "Softplus": (lambda x: np.log1p(np.exp(x)), -5, 5),
    "Softsign": (lambda x: x / (1 + np.abs(x)), -5, 5),
    "Sqrt": (np.sqrt, 0, 5),
    "Swish": (lambda x: x * logistic(x), -5, 5),
    "Tan": (np.tan, -1, 1),
    "Tanh": (np.tanh, -5, 5),
    "ThresholdedRelu": (lambda x: np.where(x > 1, x, 0), -5, 5),
}


def typed(ops: Any) -> list[Any]:
    """Each operator in each version with each type that its schema allows."""
    rows = []
    for op in ops:
        for schema in versions_of("", op):
            allowed = schema.allowed(schema.inputs[0])
            rows += [(op, schema.since, TYPES[name]) for name in sorted(allowed & TYPES.keys())]
    return rows


@pytest.mark.parametrize(("op", "opset", "dtype"), typed(UNARY))
def test_unary(op, opset, dtype) -> None:
    """The result is the exact one, rounded once, up to two units in the last place."""
    function, low, high = UNARY[op]
    whole = dtype.kind in "iu"
    x = np.linspace(max(low, 0) if dtype.kind == "u" else low, high, 41).astype(dtype).reshape(1, 41)
    found = evaluated(case(op, opset, x))[0]
    assert found.dtype == dtype
    wanted = function(x.astype(np.float64))
    epsilon = 0 if whole else 2 * float(ml_dtypes.finfo(dtype).eps)
    found64 = found.astype(np.float64)
    np.testing.assert_allclose(found64, wanted.astype(dtype).astype(np.float64), rtol=epsilon, atol=epsilon)


@pytest.mark.parametrize("op", [op for op in UNARY if "consumed_inputs" in versions_of("", op)[0].attributes])
def test_consumed_inputs_mean_nothing(op) -> None:
    x = np.linspace(0.5, 0.9, 5, dtype=np.float32)
    found, plain = (evaluated(case(op, 1, x, attributes=a))[0] for a in ({"consumed_inputs": (0,)}, {}))
    assert found.tolist() == plain.tolist()


@pytest.mark.parametrize(("op", "opset", "dtype"), typed(["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"]))
def test_binary_types(op, opset, dtype) -> None:
    a, b = np.array([[7, 5, 0, 9]]).astype(dtype), np.array([[2, 5, 3, 4]]).astype(dtype)
    exact = {"Div": np.divide, "Max": np.maximum, "Min": np.minimum, "Mod": np.mod, **BINARY}[op]
    wanted = exact(a.astype(np.float64), b.astype(np.float64))
    if dtype.kind in "iu" and op in ("Div", "Sub"):  # unsigned differences wrap
        wanted = np.trunc(wanted) % (1 << 8 * dtype.itemsize) if dtype.kind == "u" else np.trunc(wanted)
    elif dtype.kind == "f" or dtype.name == "bfloat16":
        wanted = wanted.astype(dtype).astype(np.float64)
    found = evaluated(case(op, opset, a, b))[0]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


COMPARED = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]


@pytest.mark.parametrize(("op", "opset", "dtype"), typed(COMPARED))
def test_comparison_types(op, opset, dtype) -> None:
    a, b = np.array([[1, 0, 1]]).astype(dtype), np.array([[1, 1, 0]]).astype(dtype)
    wanted = {"Equal": "100", "Less": "010", "LessOrEqual": "110", "Greater": "001", "GreaterOrEqual": "101"}[op]
    found = evaluated(case(op, opset, a, b))[0]
    assert found.dtype == np.bool_
    assert "".join(str(int(v)) for v in found[0]) == wanted


ALL = sorted({*UNARY, *BINARY, *COMPARED, "Max", "Min", "Sum", "Mean", "Mod", "Where", "Not", "IsNaN", "IsInf", "Selu",
              "PRelu", "Clip", "SwiGLU", "Dropout", "Cast", "CastLike", "Gemm", "MatMul", "Det", "Einsum", "Range",
              "EyeLike", "Constant", "ConstantOfShape", "Multinomial", "Bernoulli", "RandomNormal", "RandomUniform",
              "RandomNormalLike", "RandomUniformLike", "Softmax", "LogSoftmax", "Hardmax", "CumSum", "CumProd",
              "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "NegativeLogLikelihoodLoss",
              "SoftmaxCrossEntropyLoss", "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch",
              "TfIdfVectorizer", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitCast",
              "Shape", "Size"})  # fmt: skip


@pytest.mark.parametrize("op", ALL)
def test_no_version_is_missing(op) -> None:
    for schema in versions_of("", op):
        assert (find_operator("", op, schema.since) is not None) != schema.deprecated, schema.identifier


def draws() -> list[Case]:
    x = draw(2, 3, 4)
    many = [
        *(case(op, opset, x, attributes=axis) for op in ("Softmax", "LogSoftmax", "Hardmax")
          for opset in (1, 11, 12, 13) for axis in ({}, {"axis": 0}, {"axis": 1}, {"axis": 2})),
        *(case(op, opset, x, axis=-1) for op in ("Softmax", "LogSoftmax", "Hardmax") for opset in (11, 13)),
        *(case("Clip", 6, x, attributes=bounds) for bounds in ({}, {"min": -0.5}, {"max": 0.5})),
        *(case("Clip", opset, x, low, high) for opset in (11, 12, 13)
          for low in (None, np.array(-0.5, np.float32)) for high in (None, np.array(0.25, np.float32))),
        *(case("Clip", 12, np.arange(-4, 4).astype(d), np.array(-2, d), np.array(1, d)) for d in (np.int8, np.int64)),
        case("Clip", 13, x, np.array(1, np.float32), np.array(-1, np.float32)),
        *(case("Dropout", opset, x, outputs=1) for opset in (7, 10, 12, 13)),
        *(case("Dropout", opset, x, outputs=2) for opset in (12, 13)),
        case("Pow", 7, abs(x), np.array(2.5, np.float32)),
        *(case("Pow", opset, np.array([2, 3], a), np.array([3, 2], b)) for opset in (12, 13, 15)
          for a in (np.int32, np.int64, np.float32) for b in (np.float32, np.int32, np.int64, np.float64)),
        case("Pow", 13, np.array([5.3, 2.7], np.float32), np.array([2, 3.5], np.float16)),  # in the type of the base
        *(case("Mod", opset, np.array([7, -7, 7, -7], d), np.array([3, 3, -3, -3], d), fmod=f)
          for opset in (10, 13) for d in (np.int8, np.int64) for f in (0, 1)),
        case("Mod", 13, np.array([5.5, -5.5, 5.5], np.float32), np.array([2, 2, -2], np.float32), fmod=1),
        *(case("Selu", 6, x, attributes=a) for a in ({}, {"alpha": 2.0, "gamma": 3.0})),
        *(case("PRelu", opset, x, draw(3, 1)) for opset in (7, 9, 16)),
        *(case("Gemm", opset, draw(3, 4), draw(4, 5), c, attributes=a) for opset in (7, 9, 11, 13)
          for c in (draw(5), draw(3, 1), draw(3, 5)) for a in ({}, {"alpha": 0.5, "beta": 2.0})),
        *(case("Gemm", opset, draw(4, 3), draw(5, 4), transA=1, transB=1) for opset in (11, 13)),
        *(case("MatMul", opset, a, b) for opset in (1, 9, 13)
          for a, b in ((draw(2, 3), draw(3, 4)), (draw(3), draw(3)), (draw(2, 2, 3), draw(3)),
                       (draw(2, 1, 3, 4), draw(5, 4, 2)))),
        *(case("MatMul", opset, np.arange(6, dtype=d).reshape(2, 3), np.arange(6, dtype=d).reshape(3, 2))
          for opset in (9, 13) for d in (np.int32, np.uint32, np.int64, np.uint64)),
        *(case("CumSum", opset, (10 * x).astype(d), np.array(axis), exclusive=e, reverse=r) for opset in (11, 14)
          for d in (np.float32, np.int32, np.int64) for axis in (0, -1) for e in (0, 1) for r in (0, 1)),
        *(case("IsInf", 10, np.array([1, np.inf, -np.inf, np.nan], np.float32), attributes=a)
          for a in ({}, {"detect_negative": 0}, {"detect_positive": 0})),
        *(case("IsNaN", opset, np.array([1, np.inf, np.nan], np.float32)) for opset in (9, 13)),
        *(case("Where", opset, np.array([[True], [False]]), draw(3), draw(2, 3)) for opset in (9, 16)),
        case("Not", 1, np.array([True, False])),
        *(case("BitShift", 11, np.array([1, 200, 3], np.uint8), np.array([1, 3, 7], np.uint8), direction=d)
          for d in ("LEFT", "RIGHT")),
        *(case(op, 18, np.array([12, -3], np.int32), np.array([10, 7], np.int32))
          for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        case("BitwiseNot", 18, np.array([12, -3], np.int16)),
        case("Det", 11, draw(2, 3, 3), tolerance=1e-4),
        *(case("Gelu", 20, x, attributes=a) for a in ({}, {"approximate": "tanh"})),
        *(case("Celu", 12, x, alpha=a) for a in (0.5, 2.0)),
        *(case("Elu", 6, x, alpha=a) for a in (0.5, 2.0)),
        *(case("Shrink", 9, (3 * x).astype(d), bias=b, lambd=1.5) for b in (0.0, 1.5) for d in (np.float32, np.int32)),
        case("HardSigmoid", 6, x, alpha=0.4, beta=0.1),
        case("ThresholdedRelu", 10, x, alpha=0.3),
    ]  # fmt: skip
    return many


@pytest.mark.parametrize("wanted", draws(), ids=lambda c: c.label)
def test_against_onnxruntime(wanted, oracle) -> None:
    agree(wanted, oracle)


def without_oracle() -> list[Case]:
    """Versions that onnxruntime lacks, with the answer."""
    x, a, b, c = draw(2, 3, 4), draw(3, 4), draw(4, 5), draw(5)
    ones = np.ones(x.shape)
    signed = np.array([-8, -8, 5, 5, -1], np.int8)
    counts = np.array([1, 9, -1, 2, 7], np.int8)
    return [
        case("Clip", 1, x, expected=x),
        case("Clip", 1, x, min=-0.5, max=0.5, expected=np.clip(x, np.float32(-0.5), np.float32(0.5))),
        case("Clip", 6, np.array([np.inf, -np.inf], np.float32),
             expected=np.array([np.finfo(np.float32).max, np.finfo(np.float32).min])),
        *(case("Dropout", opset, x, is_test=1, expected=x) for opset in (1, 6)),
        case("Dropout", 7, x, outputs=2, expected=[x, ones.astype(np.float32)]),
        case("Dropout", 10, x, outputs=2, expected=[x, ones == 1]),  # all kept, none of it masked
        *(case("Dropout", opset, x, np.array(ratio, np.float32), np.array(training), outputs=2, expected=[x, ones == 1])
          for opset in (12, 22) for ratio, training in ((0, True), (0.3, False))),
        *(case("Gemm", o, a, b, c, broadcast=1, expected=a @ b + c) for o in (1, 6)),
        *(case("Gemm", o, a, b, draw(3, 5), alpha=0.5, beta=0.25, expected=a @ b / 2 + draw(3, 5) / 4) for o in (1, 6)),
        case("Gemm", 9, np.array([[3]]), np.array([[5]]), np.array([[1]]), alpha=0.5, expected=np.array([[8]])),
        *(case("PRelu", o, x, np.array([0.5], np.float32), expected=np.where(x < 0, x / 2, x)) for o in (1, 6)),
        *(case("PRelu", o, x, np.array([1, 2, 3], np.float32),
               expected=np.where(x < 0, x * np.array([[1], [2], [3]], np.float32), x)) for o in (1, 6)),
        *(case("PRelu", o, x[:, :0], np.zeros(0, np.float32), expected=x[:, :0]) for o in (1, 6)),
        case("Selu", 1, x, expected=(np.float32(1.0507) * np.where(x > 0, x, np.float32(1.6732) * (np.exp(x) - 1)))),
        case("CumProd", 26, np.array([[1, 2, 3]], np.int32), np.array(1), expected=np.array([[1, 2, 6]], np.int32)),
        case("CumProd", 26, np.array([1, 2, 3], np.int32), np.array(0), exclusive=1, reverse=1,
             expected=np.array([6, 3, 1], np.int32)),
        case("BitShift", 28, signed, counts, direction="RIGHT", expected=np.array([-4, -1, 0, 1, -1], np.int8)),
        case("BitShift", 28, signed, counts, direction="LEFT", expected=np.array([-16, 0, 0, 20, -128], np.int8)),
        case("SwiGLU", 28, x, a * np.ones((2, 1, 1), np.float32), alpha=2.0, expected=x * logistic(2 * x) * a),
        case("Add", 14, np.array([127], np.int8), np.array([1], np.int8), expected=np.array([-128], np.int8)),
        case("Div", 14, np.array([7, -7], np.int8), np.array([0, 2], np.int8), expected=np.array([0, -3], np.int8)),
        case("Pow", 15, np.array([3], np.int32), np.array([40]), expected=np.array([3**40]).astype(np.int32)),
        case("Mod", 28, np.array([0, np.inf, 5, -3], np.float32), np.array([-2, 1, 0, np.inf], np.float32),
             expected=np.array([-0.0, np.nan, np.nan, np.inf], np.float32)),
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", without_oracle(), ids=lambda c: c.label)
def test_what_onnxruntime_lacks(wanted, oracle) -> None:
    agree(wanted, oracle)


def test_texts_are_chosen_and_compared() -> None:
    a, b = np.array(["a", "b"], object), np.array(["a", "d"], object)
    assert evaluated(case("Where", 16, np.array([True, False]), a, b))[0].tolist() == ["a", "d"]
    assert evaluated(case("Equal", 19, a, b))[0].tolist() == [True, False]


@pytest.mark.parametrize(
    ("dtype", "to", "given", "wanted"),
    [
        (np.float32, 6, [1.0], [0x3F800000]),
        (np.int8, 2, [-1], [255]),
        (ml_dtypes.bfloat16, 10, [1.0], [1.875]),
        (ml_dtypes.int4, 21, [-1, 7], [15, 7]),
        (ml_dtypes.uint4, 22, [15, 7], [-1, 7]),
        (ml_dtypes.uint4, 23, [2, 15], [1.0, -6.0]),
        (ml_dtypes.int2, 25, [-1, 1], [3, 1]),
        (np.uint8, 9, [0, 1], [False, True]),
    ],
)
def test_bit_cast(dtype, to, given, wanted) -> None:
    found = evaluated(case("BitCast", 26, np.array(given, dtype), to=to))[0]
    assert found.astype(np.float64).tolist() == wanted


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("Add", 7, X, np.zeros(2, np.float32)), "the input shapes must fit together by broadcasting"),
        (case("Clip", 13, X, np.zeros(2, np.float32)), "input 'min' must be one number, not have the shape [2]"),
        (case("PRelu", 6, X, np.zeros(2, np.float32)), "the slope must have 1 or 3 elements (channels), not 2"),
        (case("PRelu", 16, X, np.zeros((2, 2, 3), np.float32)), "the slope must be broadcastable to [2, 3]"),
        (case("Gelu", 20, X, approximate="exact"), "attribute 'approximate' must be none or tanh, not 'exact'"),
        (case("SwiGLU", 28, X, X[:1]), "the input shapes must be equal, not [2, 3] and [1, 3]"),
        (case("BitShift", 11, X.astype(np.uint8), X.astype(np.uint8), direction="UP"),
         "attribute 'direction' must be LEFT or RIGHT, not 'UP'"),
        (case("BitCast", 26, X, to=7), "the bits of float32 must be read as a type of the same size, not as int64"),
        (case("BitCast", 26, X, to=8), "the bits of float32 must be read as a type of the same size, not as string"),
        (case("Softmax", 11, X, axis=2), "the axis must be -2 to 1, not 2"),
        (case("Det", 11, X), "the last two axes must be a square matrix, not those of [2, 3]"),
        (case("MatMul", 13, X, X), "the matrices must fit together, not be [2, 3] and [2, 3]"),
        (case("Gemm", 6, X, X.T, X[0, :2]), "C must have the shape [2, 2] without attribute broadcast=1"),
        (case("CumSum", 14, X, np.array(2)), "the axis must be -2 to 1, not 2"),
        (case("Dropout", 13, X, np.array(1, np.float32), np.array(True)), "the ratio must be 0 to below 1, not 1.0"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_what_does_not_fit(wanted, message) -> None:
    assert error_of(wanted).startswith(message)
