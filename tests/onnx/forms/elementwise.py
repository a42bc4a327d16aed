"""Forms of operators that work element by element, and of products and reductions: all old signatures and types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx import test_ops_versions as known
from tests.onnx.neural import Case, case, draw
from tests.onnx.test_ops_cast import PLAIN
from tests.onnx.test_ops_reduction import AXES_INPUT, REDUCTIONS, reduction


def cases() -> Iterator[Case]:
    yield from _unary()
    yield from _binary()
    yield from _several()
    yield from known.draws()
    yield from known.without_oracle()
    yield from _attributes()
    yield from _reductions()
    yield from _casts()
    yield from _softmax()


def _unary() -> Iterator[Case]:
    """Each operator in each version, of every rank, and with the attribute of the first version that means nothing."""
    for op, (function, low, high) in known.UNARY.items():
        for number, schema in enumerate(versions_of("", op)):
            shape = ((4,), (2, 3), (2, 3, 2), (1, 2, 3, 2), ())[number % 5]
            x = np.linspace(low, high, int(np.prod(shape)) + 1, dtype=np.float32)[1:].reshape(shape)
            wanted = function(x.astype(np.float64)).astype(np.float32)
            legacy = {"consumed_inputs": [0]} if "consumed_inputs" in schema.attributes else {}
            yield case(op, schema.since, x, expected=wanted, attributes=legacy)
            for name in sorted(
                schema.allowed(schema.inputs[0]) & {"tensor(double)", "tensor(bfloat16)", "tensor(int32)"}
            ):
                dtype = known.TYPES[name]
                x = np.linspace(low, high, 6).astype(dtype)
                yield case(op, schema.since, x, expected=function(x.astype(np.float64)).astype(dtype))


def _binary() -> Iterator[Case]:
    """The old broadcasting with and without an axis; the second operand fed or constant."""
    for op, function in known.BINARY.items():
        for schema in versions_of("", op):
            since = schema.since
            if since < 7:
                for first, second, axis, seen in known.OLD_SHAPES:
                    a, b = known.operands(op, first, second)
                    how = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
                    if since == 1 and "consumed_inputs" in schema.attributes:
                        how["consumed_inputs"] = [0, 0]
                    made = case(op, since, a, b, expected=function(a, b.reshape(seen)), attributes=how)
                    yield from (made, replace(made, constants=(1,)))
                a, b = known.operands(op, (2, 3), (2, 3))
                yield case(op, since, a, b, expected=function(a, b))
            else:
                for shapes in (((2, 3), (2, 3)), ((2, 3, 4), (3, 1)), ((4,), (2, 1, 4)), ((), (3,))):
                    yield case(op, since, *known.operands(op, *shapes))
    for op, since, dtype in known.typed(["Add", "Sub", "Mul", "Div", "Max", "Min"]):
        if dtype.name in ("int32", "float64", "int8", "bfloat16"):
            a, b = np.array([[7, 5, 0, 9]]).astype(dtype), np.array([[2, 5, 3, 4]]).astype(dtype)
            function = {"Max": np.maximum, "Min": np.minimum, **known.BINARY}[op]
            wanted = np.trunc(function(a.astype(np.float64), b)) if dtype.kind == "i" else function(a, b)
            yield case(op, since, a, b, expected=wanted.astype(dtype))
    for op, since, dtype in known.typed(known.COMPARED):
        if dtype.name in ("bool", "int32", "float64", "float32", "int16"):
            a, b = np.array([[1, 0, 1]]).astype(dtype), np.array([[1, 1, 0]]).astype(dtype)
            bits = {"Equal": "100", "Less": "010", "LessOrEqual": "110", "Greater": "001", "GreaterOrEqual": "101"}[op]
            wanted = np.array([[bit == "1" for bit in bits]])
            how = {"broadcast": 1} if since < 7 else {}
            yield case(op, since, a, b, expected=wanted, attributes=how)
    texts = np.array(["a", "b"], object), np.array(["a", "d"], object)
    yield case("Equal", 19, *texts, expected=np.array([True, False]))
    yield case("Where", 16, np.array([True, False]), *texts, expected=np.array(["a", "d"], object))


def _several() -> Iterator[Case]:
    for op in ("Max", "Min", "Sum", "Mean"):
        function = {"Max": np.max, "Min": np.min, "Sum": np.sum, "Mean": np.mean}[op]
        for schema in versions_of("", op):
            for count, shape in ((1, (3,)), (2, (2, 3)), (3, (2, 1, 3))):
                arrays = [draw(*shape, seed=i) for i in range(count)]
                legacy = {"consumed_inputs": [0] * count} if "consumed_inputs" in schema.attributes else {}
                yield case(op, schema.since, *arrays, expected=function(arrays, axis=0), attributes=legacy)
            if schema.since >= 8:
                yield case(op, schema.since, draw(2, 3), draw(3), draw(2, 1))


def _attributes() -> Iterator[Case]:
    """Attributes with other values than the default, and inputs that replaced them, constant and fed."""
    x = draw(2, 3, 4)
    logistic = known.logistic
    for since in (1, 6, 16):
        yield case("LeakyRelu", since, x, alpha=0.3, expected=np.where(x < 0, np.float32(0.3) * x, x))
    for since in (1, 6, 22):
        wanted = np.clip(np.float32(0.4) * x + np.float32(0.1), 0, 1)
        yield case("HardSigmoid", since, x, alpha=0.4, beta=0.1, expected=wanted)
        yield case("Elu", since, x, alpha=2.0, expected=np.where(x < 0, 2 * (np.exp(x) - 1), x))
    for since in (1, 6, 22):
        wanted = np.float32(3) * np.where(x > 0, x, 2 * (np.exp(x) - 1))
        yield case("Selu", since, x, alpha=2.0, gamma=3.0, expected=wanted)
        if since > 1:
            alpha, gamma = np.float32(1.67326319217681884765625), np.float32(1.05070102214813232421875)
            yield case("Selu", since, x, expected=gamma * np.where(x > 0, x, alpha * (np.exp(x) - 1)))
    yield case("HardSwish", 22, x)
    yield case("Swish", 24, x, alpha=0.5, expected=x * logistic(x / 2))
    low, high = np.array(-0.5, np.float32), np.array(0.25, np.float32)
    for since in (11, 12, 13):
        yield replace(case("Clip", since, x, low, high), constants=(1, 2))
        yield replace(case("Clip", since, x, low), constants=(1,))
        yield replace(case("Clip", since, x, None, high), constants=(2,))
        yield case("Clip", since, x)
    ratio, off, on = np.array(0.4, np.float32), np.array(False), np.array(True)
    for since in (12, 13, 22):
        yield replace(case("Dropout", since, x, ratio, off, expected=x), constants=(1, 2))
        yield replace(case("Dropout", since, x, ratio, expected=x), constants=(1,))
        zero = np.array(0, np.float32)
        yield replace(case("Dropout", since, x, zero, on, outputs=2, expected=[x, x == x]), constants=(1, 2))
    for since in (1, 6):
        yield case("Dropout", since, x, ratio=0.0, expected=x)
        yield case("Dropout", since, x, ratio=0.7, is_test=1, expected=x)
        yield case("Dropout", since, x, ratio=0.0, outputs=2, expected=[x, np.ones_like(x)])
    for since in (7, 10):
        yield case("Dropout", since, x, ratio=0.7)
    for since in (7, 9, 16):
        for slope in ((4,), (1,), (3, 1), (1, 3, 4)):
            yield case("PRelu", since, x, draw(*slope))
    for since in (1, 6):
        slopes = np.array([1, 2, 3], np.float32)
        wanted = np.where(x < 0, x * slopes[:, None], x)
        yield replace(case("PRelu", since, x, slopes, expected=wanted), constants=(1,))
        flat = draw(2, 3)
        yield case("PRelu", since, flat, slopes, expected=np.where(flat < 0, flat * slopes, flat))
        image = draw(1, 3, 2, 2)
        yield case("PRelu", since, image, slopes, expected=np.where(image < 0, image * slopes[:, None, None], image))
    for since in (1, 6):
        a, b = draw(4, 3), draw(5, 4)
        wanted = a.T @ b.T * np.float32(0.5)
        yield case("Gemm", since, a, b, draw(3, 5), transA=1, transB=1, alpha=0.5, beta=0.0, expected=wanted)
        yield case("Gemm", since, a, b.T[:3], draw(1), broadcast=1, expected=a @ b.T[:3] + draw(1))
    yield from _numbers(x)


def _numbers(x: np.ndarray) -> Iterator[Case]:
    """Integers, infinities, products and what is made of numbers."""
    for since in (11, 13):
        yield case("Gemm", since, draw(2, 3), draw(3, 4))
        yield case("Gemm", since, draw(2, 3), draw(3, 4), np.array(2, np.float32))
    for kind in (np.float32, np.int8):
        for fmod in (0, 1) if kind is np.int8 else (1,):
            for since in (10, 13, 28):
                a, b = np.array([7, -7, 5]).astype(kind), np.array([3, 3, -2]).astype(kind)
                yield case("Mod", since, a, b, fmod=fmod, expected=(np.fmod if fmod else np.mod)(a, b))
    for since in (11, 28):
        a, b = np.array([1, 200, 3], np.uint8), np.array([1, 3, 7], np.uint8)
        yield case("BitShift", since, a, b, direction="RIGHT", expected=a >> b)
    for since in (12, 28):
        yield case("Celu", since, x, alpha=2.0)
        yield case("Einsum", since, draw(2, 3), draw(3, 4), equation="ij,jk->ki", expected=(draw(2, 3) @ draw(3, 4)).T)
    for since in (10, 20):
        yield case("IsInf", since, np.array([1, np.inf, -np.inf], np.float32), detect_negative=0)
    for since in (9, 13, 20):
        yield case("IsNaN", since, np.array([1, np.inf, np.nan], np.float32))
    for since in (11, 22):
        yield case("Det", since, draw(2, 3, 3), tolerance=1e-4)
    for since in (11, 27):
        yield case("Range", since, *(np.array(v, np.float32) for v in (1, 4, 0.5)))
        yield case("Range", since, *(np.array(v, np.int64) for v in (10, 0, -3)))
    for since in (9, 22):
        yield case("EyeLike", since, draw(3, 4), k=1, dtype=7)
        yield case("EyeLike", since, draw(3, 4).astype(np.float64))


def _reductions() -> Iterator[Case]:
    x = 0.5 + np.abs(draw(2, 3, 4))
    for op in REDUCTIONS:
        for schema in versions_of("", op):
            since = schema.since
            for axes, keep in ((None, 1), ([1], 0), ([0, 2], 1), ([-1], 0)):
                axes = [2] if axes == [-1] and since < 11 else axes
                wanted = REDUCTIONS[op](x, axis=None if axes is None else tuple(axes), keepdims=bool(keep))
                made = reduction(op, since, x, axes, keepdims=keep)
                made = replace(made, expected=np.asarray(wanted, np.float32))
                yield made
                if since >= AXES_INPUT[op] and axes is not None:
                    yield replace(made, constants=())
            if since >= AXES_INPUT[op]:
                no, noop = np.array([], np.int64), {"noop_with_empty_axes": 1}
                yield case(op, since, x, no, attributes=noop, expected=REDUCTIONS[op](x, axis=()))
                yield case(op, since, x, attributes=noop, expected=REDUCTIONS[op](x, axis=()))
                yield case(op, since, x, no, expected=np.asarray(REDUCTIONS[op](x, keepdims=True), np.float32))
            if op in ("ReduceLogSum", "ReduceLogSumExp") and since >= 28:
                continue  # no integers any more
            yield case(
                op,
                since,
                np.array([[1, 2], [4, 1]], np.int32),
                expected=np.asarray(REDUCTIONS[op](np.array([[1.0, 2], [4, 1]]), keepdims=True)).astype(np.int32),
            )


def _casts() -> Iterator[Case]:
    x = np.array([0, 1, 2, 77, 100])
    names = {1: "FLOAT", 6: "INT32", 7: "INT64", 9: "BOOL", 10: "FLOAT16", 11: "DOUBLE"}
    for schema in versions_of("", "Cast"):
        for source in (np.float32, np.int64, np.bool_):
            for to, name in names.items():
                given = x.astype(source)
                how: dict[str, Any] = {"to": name if schema.since == 1 else to}
                yield case("Cast", schema.since, given, attributes=how, expected=given.astype(PLAIN[to]))
        if schema.since >= 9:
            yield case("Cast", schema.since, np.array(["1.5", "-3"], object), to=1, expected=np.float32([1.5, -3]))
            yield case("Cast", schema.since, np.array([1, -3]), to=8, expected=np.array(["1", "-3"], object))
        if schema.since >= 19:
            eight = case("Cast", schema.since, np.float32([1, 1000, -3]), to=17, saturate=0)
            yield replace(eight, expected=np.array([1, np.nan, -3], ml_dtypes.float8_e4m3fn))
            yield replace(eight, attributes={"to": 17}, expected=np.array([1, 448, -3], ml_dtypes.float8_e4m3fn))
    for schema in versions_of("", "CastLike"):
        yield case("CastLike", schema.since, np.float32([1.5, -2.5]), np.array([1]), expected=np.array([1, -2]))
        yield case("CastLike", schema.since, np.array([1, 0]), np.array([1.0]), expected=np.array([1.0, 0]))


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
