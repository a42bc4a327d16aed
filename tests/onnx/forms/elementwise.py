"""Forms of operators that work element by element: every version, element type and old signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.form import Case, case, draw, number, real, words

TYPES = {
    f"tensor({'float' if t is np.float32 else 'double' if t is np.float64 else np.dtype(t).name})": np.dtype(t)
    for t in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.uint16, np.int32,
              np.uint32, np.int64, np.uint64, np.bool_)
}  # fmt: skip

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


def typed(*ops: str) -> Iterator[tuple[str, int, np.dtype[Any]]]:
    """Each operator in each version with each type that its schema allows."""
    for op in ops:
        for schema in versions_of("", op):
            for name in sorted(schema.allowed(schema.inputs[0]) & TYPES.keys()):
                yield op, schema.since, TYPES[name]


def each(op: str, versions: Iterable[int], *inputs: Any, **others: Any) -> Iterator[Case]:
    """The same case in several versions."""
    for since in versions:
        yield case(op, since, *inputs, **others)


def cases() -> Iterator[Case]:
    yield from _unary()
    yield from _special_numbers()
    yield from _binary()
    yield from _types()
    yield from _several()
    yield from _activations(draw(2, 3, 4))
    yield from _clip(draw(2, 3, 4))
    yield from _dropout(draw(2, 3, 4))
    yield from _slopes(draw(2, 3, 4))
    yield from _numbers(draw(2, 3, 4))
    yield from _softmax()


def _unary() -> Iterator[Case]:
    """The exact result, rounded once, up to two units in the last place; `consumed_inputs` means nothing."""
    shapes = ((41,), (1, 41), (41, 1, 1), (1, 1, 41, 1))
    for number_, (op, since, dtype) in enumerate(typed(*UNARY)):
        function, low, high = UNARY[op]
        x = np.linspace(max(low, 0) if dtype.kind == "u" else low, high, 41).astype(dtype)
        x = x.reshape(shapes[number_ % len(shapes)])
        answer = function(x.astype(np.float64)).astype(dtype)
        consumed = since == 1 and "consumed_inputs" in versions_of("", op)[0].attributes
        legacy = {"consumed_inputs": [0]} if consumed else {}
        yield case(op, since, x, expected=answer, attributes=legacy, ulps=2)
        if legacy:
            yield case(op, since, x, expected=answer, ulps=2)
        if dtype == np.float32:
            point = np.array(high * 0.75, dtype)
            yield case(op, since, point, expected=np.asarray(function(point.astype(np.float64)), np.float32), ulps=2)


def _special_numbers() -> Iterator[Case]:
    """Halves, large and small numbers, infinities and not-a-number, as onnxruntime has them."""
    ops = ("Abs Ceil Elu Erf Exp Floor HardSigmoid HardSwish LeakyRelu LogSoftmax Neg Relu Round Sigmoid Sign Softmax "
           "Softplus Softsign Tanh Identity Reciprocal")
    x = np.concatenate([real(0.5, -0.5, 1.5, 2.5, -3.7, 90, -90, 1e-6), 3 * draw(56)]).reshape(2, 4, 8)
    yield from (case(op, 17, x) for op in ops.split())
    odd = real(-1, 0, 1, np.inf, np.nan)
    yield from (case(op, 17, odd) for op in ("Sqrt", "Log", "Reciprocal", "Exp", "Relu"))
    yield case("Div", 17, odd, np.zeros(5, np.float32))
    yield case("Relu", 17, np.array([-128, -3, 0, 100], np.int8))
    for a in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        yield from each("IsInf", (10, 20), real(1, np.inf, -np.inf, np.nan), attributes=a)
    yield from each("IsNaN", (9, 13, 20), real(1, np.inf, np.nan))


def _binary() -> Iterator[Case]:
    """The old broadcasting with and without an axis; the second operand fed or constant."""
    for op, function in BINARY.items():
        for schema in versions_of("", op):
            since = schema.since
            if since < 7:
                legacy = {"consumed_inputs": [0, 0]} if "consumed_inputs" in schema.attributes else {}
                for first, second, axis, seen in OLD_SHAPES:
                    a, b = operands(op, first, second)
                    how = {"broadcast": 1, **legacy} | ({} if axis is None else {"axis": axis})
                    one = case(op, since, a, b, expected=function(a, b.reshape(seen)), attributes=how)
                    yield from (one, replace(one, constants=(1,)))
                a, b = operands(op, (2, 3), (2, 3))
                yield case(op, since, a, b, expected=function(a, b))
            else:
                for shapes in (((2, 3), (2, 3)), ((2, 3, 4), (3, 1)), ((4,), (2, 1, 4)), ((), (3,))):
                    a, b = operands(op, *shapes)
                    yield case(op, since, a, b, expected=function(a, b))


def _types() -> Iterator[Case]:
    for op, since, dtype in typed("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"):
        a, b = np.array([[7, 5, 0, 9]]).astype(dtype), np.array([[2, 5, 3, 4]]).astype(dtype)
        function = {"Max": np.maximum, "Min": np.minimum, "Mod": np.mod, **BINARY}[op]
        answer = function(a.astype(np.float64), b.astype(np.float64))
        if dtype.kind in "iu":  # unsigned differences wrap
            answer = np.trunc(answer).astype(np.int64)
        yield case(op, since, a, b, expected=answer.astype(dtype), ulps=1)
    for op, bits in (("Equal", "100"), ("Less", "010"), ("LessOrEqual", "110"), ("Greater", "001"),
                     ("GreaterOrEqual", "101")):  # fmt: skip
        for _, since, dtype in typed(op):
            a, b = np.array([[1, 0, 1]]).astype(dtype), np.array([[1, 1, 0]]).astype(dtype)
            how = {"broadcast": 1} if since < 7 else {}
            yield case(op, since, a, b, expected=np.array([[bit == "1" for bit in bits]]), attributes=how)
    yield case("Equal", 19, words("a", "b"), words("a", "d"), expected=np.array([True, False]))
    yield case("Where", 16, np.array([True, False]), words("a", "b"), words("a", "d"), expected=words("a", "d"))
    for dtype in (np.int32, np.int64, np.float64):  # division goes towards zero
        a, b = np.array([7, -7, 7, -7, 0], dtype), np.array([2, 2, -2, -2, 5], dtype)
        for op in ("Add", "Sub", "Mul", "Div"):
            yield from each(op, (7, 13, 14), a, b, tolerance=0)
    yield case("Div", 14, np.array([7, 255], np.uint8), np.array([200, 2], np.uint8))
    yield case("Add", 14, np.array([127], np.int8), np.array([1], np.int8), expected=np.array([-128], np.int8))
    yield case("Div", 14, np.array([7, -7], np.int8), np.array([0, 2], np.int8), expected=np.array([0, -3], np.int8))


def _several() -> Iterator[Case]:
    functions: dict[str, Callable[..., Any]] = {"Max": np.max, "Min": np.min, "Sum": np.sum, "Mean": np.mean}
    for op, function in functions.items():
        for schema in versions_of("", op):
            for count, shape in ((1, (3,)), (2, (2, 3)), (3, (2, 1, 3)), (4, (2, 3))):
                arrays = [draw(*shape, seed=i) for i in range(count)]
                legacy = {"consumed_inputs": [0] * count} if "consumed_inputs" in schema.attributes else {}
                yield case(op, schema.since, *arrays, expected=function(arrays, axis=0), attributes=legacy)
            if schema.since >= 8:
                yield case(op, schema.since, draw(2, 3), draw(3), draw(2, 1))
                yield case(op, schema.since, draw(3, 1), draw(2, 1, 4))


def _activations(x: np.ndarray) -> Iterator[Case]:
    """Attributes with other values than the default."""
    for alpha in (0.3, 2.0):
        yield from each("LeakyRelu", (1, 6, 16), x, alpha=alpha, expected=np.where(x < 0, np.float32(alpha) * x, x))
        yield from each("Elu", (1, 6, 22), x, alpha=alpha,
                        expected=np.where(x < 0, np.float32(alpha) * (np.exp(x) - 1), x))  # fmt: skip
    answer = np.clip(np.float32(0.4) * x + np.float32(0.1), 0, 1)
    yield from each("HardSigmoid", (1, 6, 22), x, alpha=0.4, beta=0.1, expected=answer)
    answer = np.float32(3) * np.where(x > 0, x, 2 * (np.exp(x) - 1))
    yield from each("Selu", (1, 6, 22), x, alpha=2.0, gamma=3.0, expected=answer)
    alpha, gamma = np.float32(1.67326319217681884765625), np.float32(1.05070102214813232421875)
    yield from each("Selu", (6, 22), x, expected=gamma * np.where(x > 0, x, alpha * (np.exp(x) - 1)))
    yield case("Selu", 1, x, expected=np.float32(1.0507) * np.where(x > 0, x, np.float32(1.6732) * (np.exp(x) - 1)))
    yield case("HardSwish", 22, x)
    yield case("Swish", 24, x, alpha=0.5, expected=x * logistic(x / 2))
    yield from each("ThresholdedRelu", (10, 22), x, alpha=0.3, expected=np.where(x > np.float32(0.3), x, 0))
    for a in (0.5, 2.0):
        yield from each("Celu", (12, 28), x, alpha=a)
    for b in (0.0, 1.5):
        yield from (case("Shrink", 9, (3 * x).astype(d), bias=b, lambd=1.5) for d in (np.float32, np.int32))
    yield from (case("Gelu", 20, x, attributes=a) for a in ({}, {"approximate": "tanh"}))
    gate = draw(3, 4) * np.ones((2, 1, 1), np.float32)
    yield case("SwiGLU", 28, x, gate, alpha=2.0, expected=x * logistic(2 * x) * gate)


def _clip(x: np.ndarray) -> Iterator[Case]:
    """By attributes, and by inputs that replaced them, constant and fed."""
    low, high, end = number(-0.5), number(0.25), np.finfo(np.float32).max
    bounded = np.clip(x, np.float32(-0.5), np.float32(0.5))
    for since in (1, 6):
        yield case("Clip", since, x, expected=x)
        yield case("Clip", since, x, min=-0.5, max=0.5, expected=bounded)
        yield case("Clip", since, x, min=-0.5, expected=np.maximum(x, np.float32(-0.5)))
        yield case("Clip", since, x, max=0.5, expected=np.minimum(x, np.float32(0.5)))
    big = real(-np.inf, -2, 0.5, np.inf)
    yield case("Clip", 1, big, expected=big)
    yield case("Clip", 1, big, min=0.0, expected=real(0, 0, 0.5, np.inf))
    yield case("Clip", 6, big, expected=real(-end, -2, 0.5, end))
    yield case("Clip", 6, big, max=0.25, expected=real(-end, -2, 0.25, 0.25))
    yield case("Clip", 6, big.astype(np.float64), min=-1.5, max=0.25, expected=np.array([-1.5, -1.5, 0.25, 0.25]))
    for since in (11, 12, 13):
        for bounds in ((low, high), (low,), (None, high), ()):
            one = case("Clip", since, x, *bounds)
            yield from (one, replace(one, constants=tuple(i for i, b in enumerate(bounds, 1) if b is not None)))
    no_float32 = (number(-0.1, np.float64), number(0.7, np.float64))
    wide = replace(case("Clip", 13, x.astype(np.float64), *no_float32), constants=(1, 2))
    yield from (wide, replace(wide, inputs=(*wide.inputs[:2], None)))
    for dtype in (np.int8, np.int64):
        yield case("Clip", 12, np.arange(-4, 4).astype(dtype), number(-2, dtype), number(1, dtype))
    yield case("Clip", 13, x, number(1), number(-1))  # low above high


def _dropout(x: np.ndarray) -> Iterator[Case]:
    ratio, off, on, ones = number(0.4), np.array(False), np.array(True), np.ones_like(x)
    for since in (12, 13, 22):
        yield replace(case("Dropout", since, x, ratio, off, expected=x), constants=(1, 2))
        yield replace(case("Dropout", since, x, ratio, expected=x), constants=(1,))
        yield replace(case("Dropout", since, x, number(0), on, outputs=2, expected=[x, x == x]), constants=(1, 2))
        yield from (case("Dropout", since, x, outputs=n, expected=[x, ones == 1][:n]) for n in (1, 2))
        yield case("Dropout", since, x, number(0), on, outputs=2, expected=[x, ones == 1])
        yield case("Dropout", since, x, number(0.3), off, outputs=2, expected=[x, ones == 1])
    for since in (1, 6):
        yield case("Dropout", since, x, ratio=0.0, expected=x)
        yield from (case("Dropout", since, x, is_test=1, expected=x, attributes=a) for a in ({}, {"ratio": 0.7}))
        yield case("Dropout", since, x, ratio=0.0, outputs=2, expected=[x, ones])
    yield case("Dropout", 1, x, is_test=1, consumed_inputs=[0], expected=x)
    for since, mask in ((7, ones), (10, ones == 1)):  # all kept, none of it masked
        yield case("Dropout", since, x, ratio=0.7)
        yield case("Dropout", since, x, outputs=2, ratio=0.25, expected=[x, mask])


def _slopes(x: np.ndarray) -> Iterator[Case]:
    for slope in ((4,), (1,), (3, 1), (1, 3, 4), (2, 3, 4)):
        yield from each("PRelu", (7, 9, 16), x, draw(*slope))
    slopes = real(1, 2, 3)
    for since in (1, 6):
        for array in (x, draw(2, 3), draw(1, 3, 2, 2)):
            answer = np.where(array < 0, array * slopes.reshape(3, *(1,) * (array.ndim - 2)), array)
            yield from (case("PRelu", since, array, slopes, expected=answer, constants=c) for c in ((), (1,)))
        yield case("PRelu", since, x, real(0.5), expected=np.where(x < 0, x / 2, x))
        yield case("PRelu", since, x[:, :0], real(), expected=x[:, :0])
    yield case("PRelu", 1, x, real(0.5), expected=np.where(x < 0, x / 2, x), consumed_inputs=[0])


def _numbers(x: np.ndarray) -> Iterator[Case]:
    """Powers, remainders, bits and choices."""
    yield case("Pow", 7, abs(x), number(2.5))
    for a in (np.int32, np.int64, np.float32):
        for b in (np.float32, np.int32, np.int64, np.float64):
            yield from each("Pow", (12, 13, 15), np.array([2, 3], a), np.array([3, 2], b))
    yield case("Pow", 13, real(5.3, 2.7), np.array([2, 3.5], np.float16))  # in the type of the base
    yield case("Pow", 15, np.array([3], np.int32), np.array([40]), expected=np.array([3**40]).astype(np.int32))
    for kind in (np.float32, np.int8, np.int64):
        for fmod in (1,) if kind is np.float32 else (0, 1):
            a, b = np.array([7, -7, 7, -7, 5]).astype(kind), np.array([3, 3, -3, -3, -2]).astype(kind)
            yield from each("Mod", (10, 13, 28), a, b, fmod=fmod, expected=(np.fmod if fmod else np.mod)(a, b))
    yield case("Mod", 13, real(5.5, -5.5, 5.5), real(2, 2, -2), fmod=1)
    yield case("Mod", 28, real(0, np.inf, 5, -3), real(-2, 1, 0, np.inf), expected=real(-0.0, np.nan, np.nan, np.inf))
    a, b = np.array([1, 200, 3], np.uint8), np.array([1, 3, 7], np.uint8)
    yield from each("BitShift", (11, 28), a, b, direction="RIGHT", expected=a >> b)
    yield from each("BitShift", (11, 28), a, b, direction="LEFT", expected=a << b)
    signed, counts = np.array([-8, -8, 5, 5, -1], np.int8), np.array([1, 9, -1, 2, 7], np.int8)
    for direction, answer in (("RIGHT", [-4, -1, 0, 1, -1]), ("LEFT", [-16, 0, 0, 20, -128])):
        yield case("BitShift", 28, signed, counts, direction=direction, expected=np.array(answer, np.int8))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield case(op, 18, np.array([12, -3], np.int32), np.array([10, 7], np.int32))
    yield case("BitwiseNot", 18, np.array([12, -3], np.int16))
    yield case("Not", 1, np.array([True, False]))
    yield from each("Where", (9, 16), np.array([[True], [False]]), draw(3), draw(2, 3))
    yield from each("Where", (9, 16), x > 0, x, draw(4))
    yield case("Erf", 9, np.int32([-3, 0, 3]), expected=np.int32([0, 0, 0]))


def _softmax() -> Iterator[Case]:
    """From 13 on along one axis; before, the axes from `axis` on were one."""
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for since in (1, 11, 13):
            for shape in ((3,), (2, 3), (2, 3, 4), (2, 1, 3, 2), (1, 2, 1, 3, 2)):
                axes: list[int | None] = [None, *range(len(shape))]
                if since >= 11:
                    axes += [-1, -len(shape)]
                for axis in axes:
                    if axis is None and since < 13 and len(shape) == 1:
                        continue  # the default axis 1 of one axis: nothing is left to normalize
                    yield case(op, since, draw(*shape), attributes={} if axis is None else {"axis": axis})
