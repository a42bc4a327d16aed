"""Forms of products, sums and reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.elementwise import each
from tests.onnx.forms.form import Case, case, draw, ints, number, real

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(np.square(x), **how)),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
    "ReduceMax": np.max,
    "ReduceMean": np.mean,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": lambda x, **how: np.sum(np.square(x), **how),
}
AXES_INPUT = {op: 13 if op == "ReduceSum" else 18 for op in REDUCTIONS}

#: What a reduction of no elements gives.
EMPTY = {"ReduceSum": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0, "ReduceProd": 1, "ReduceMax": -np.inf,
         "ReduceMin": np.inf, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf}  # fmt: skip

EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (1, 3, 3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ij->ji", (2, 3)),
    ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)), ("ij->", (2, 3)), ("a b , b c -> a c", (2, 3), (3, 4)),
    ("...i->...", (2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 5, 4)),
    ("Ab,b->A", (2, 3), (3,)),
]  # fmt: skip


def reduction(op: str, opset: int, x: np.ndarray, axes: list[int] | None, **others: Any) -> Case:
    """The axes where this version has them."""
    if opset < AXES_INPUT[op]:
        return case(op, opset, x, **others, attributes={} if axes is None else {"axes": axes})
    return case(op, opset, *((x,) if axes is None else (x, np.array(axes, np.int64))), **others)


def cases() -> Iterator[Case]:
    yield from _reductions()
    yield from _special_reductions()
    yield from _gemm()
    yield from _products()


def _reductions() -> Iterator[Case]:
    x = 0.5 + np.abs(draw(2, 3, 4))
    for op, function in REDUCTIONS.items():
        for schema in versions_of("", op):
            since = schema.since
            for axes, keep in ((None, 1), (None, 0), ([1], 0), ([0, 2], 1), ([-1], 0), ([-1], 1)):
                axes = [2] if axes == [-1] and since < 11 else axes  # negative axes came with operator set 11
                answer = function(x, axis=None if axes is None else tuple(axes), keepdims=bool(keep))
                one = reduction(op, since, x, axes, keepdims=keep, expected=np.asarray(answer, np.float32))
                yield one
                if since >= AXES_INPUT[op] and axes is not None:
                    yield replace(one, constants=(1,))
            if since >= AXES_INPUT[op]:  # the elements stay apart, but roots and logarithms are taken
                no, noop = ints(), {"noop_with_empty_axes": 1}
                yield from (case(op, since, x, *given, attributes=noop, expected=function(x, axis=()))
                            for given in ((no,), ()))  # fmt: skip
                yield case(op, since, x, no, expected=np.asarray(function(x, keepdims=True), np.float32))
            for dtype in (np.float16, np.float64, np.int32, np.int64, np.uint32, ml_dtypes.bfloat16):
                name = f"tensor({'double' if dtype is np.float64 else np.dtype(dtype).name})"
                if name in schema.allowed(schema.inputs[0]):
                    numbers = np.array([[1, 2, 3], [4, 1, 2]])
                    answer = function(numbers.astype(np.float64), axis=1).astype(dtype)
                    yield reduction(op, since, numbers.astype(dtype), [1], keepdims=0, expected=answer)


def _special_reductions() -> Iterator[Case]:
    """Nothing, extremes of integers and truth values, sums that overflow on the way, sums of small floats."""
    nothing = np.zeros((2, 0, 3), np.float32)
    for op, empty in EMPTY.items():
        yield reduction(op, 20, nothing, [1], keepdims=0, expected=np.full((2, 3), empty, np.float32))
    for op, empty in (("ReduceMax", -128), ("ReduceMin", 127)):
        answer = np.full(2, empty, np.int8)
        yield reduction(op, 20, np.zeros((0, 2), np.int8), [0], keepdims=0, expected=answer)
    truth = np.array([[True, False], [False, False]])
    for op, result in (("ReduceMax", [True, False]), ("ReduceMin", [False, False])):
        yield reduction(op, 20, truth, [1], keepdims=0, expected=np.array(result))
    x = np.array([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    answer = real(1000 + np.log(2), -1000 + np.log(2), -np.inf, np.inf)
    yield reduction("ReduceLogSumExp", 18, x, [1], keepdims=0, expected=answer)
    yield case("ReduceLogSumExp", 18, np.array([[5, 6], [7, 7]]), expected=np.array([[7]]))
    ones = np.ones(4096, np.float16)
    yield reduction("ReduceSum", 18, ones, None, expected=np.array([4096], np.float16), ulps=1)
    ones = ones.astype(ml_dtypes.bfloat16)
    yield reduction("ReduceMean", 18, ones, None, expected=np.array([1], ml_dtypes.bfloat16), ulps=1)


def _gemm() -> Iterator[Case]:
    a, b, c = draw(3, 4), draw(4, 5), draw(5)
    for since in (1, 6):
        yield case("Gemm", since, a, b, c, broadcast=1, expected=a @ b + c)
        yield case("Gemm", since, a, b, draw(1), broadcast=1, expected=a @ b + draw(1))
        yield case("Gemm", since, a, b, draw(3, 5), alpha=0.5, beta=0.25, expected=a @ b / 2 + draw(3, 5) / 4)
        answer = draw(4, 3).T @ draw(5, 4).T * np.float32(0.5)
        yield case("Gemm", since, draw(4, 3), draw(5, 4), draw(3, 5), transA=1, transB=1, alpha=0.5, beta=0.0,
                   expected=answer)  # fmt: skip
    for how in ({}, {"alpha": 0.5, "beta": 2.0}):
        for c in (draw(5), draw(3, 1), draw(3, 5), number(2)):
            yield from each("Gemm", (7, 9, 11, 13), a, b, c, attributes=how)
        for turned in ({"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}):
            x, y = draw(4, 3) if "transA" in turned else a, draw(5, 4) if "transB" in turned else b
            yield from each("Gemm", (7, 13), x, y, draw(3, 5), attributes={**turned, **how})
            yield from each("Gemm", (11, 13), x, y, attributes={**turned, **how})
    yield from each("Gemm", (11, 13), a, b)
    yield case("Gemm", 9, np.array([[3]]), np.array([[5]]), np.array([[1]]), alpha=0.5, expected=np.array([[8]]))


def _products() -> Iterator[Case]:
    shapes = [((2, 3), (3, 4)), ((3,), (3,)), ((2, 2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)),
              ((2, 1, 3, 4), (5, 4, 2))]  # fmt: skip
    for since in (1, 9, 13):
        yield from (case("MatMul", since, draw(*a), draw(*b)) for a, b in shapes)
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        numbers = np.arange(6, dtype=dtype)
        yield from each("MatMul", (9, 13), numbers.reshape(2, 3), numbers.reshape(3, 2))
    for equation, *sizes in EQUATIONS:
        for dtype in (np.float32, np.float64, np.int64):
            arrays = [(3 * draw(*size, seed=i)).astype(dtype) for i, size in enumerate(sizes)]
            yield case("Einsum", 12, *arrays, equation=equation)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        a, b = draw(2, 3).astype(dtype), draw(3, 4).astype(dtype)
        answer = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
        yield case("Einsum", 28, a, b, equation="ij,jk->ik", expected=answer)
    yield case("Einsum", 28, draw(2, 3), draw(3, 4), equation="ij,jk->ki", expected=(draw(2, 3) @ draw(3, 4)).T)
    for dtype in (np.float32, np.int32, np.int64):
        x = (10 * draw(2, 3, 4)).astype(dtype)
        for axis, exclusive, reverse in ((0, 0, 0), (-1, 0, 1), (1, 1, 0), (-1, 1, 1)):
            yield from each("CumSum", (11, 14), x, np.array(axis), exclusive=exclusive, reverse=reverse)
    yield case("CumProd", 26, np.array([[1, 2, 3]], np.int32), np.array(1), expected=np.array([[1, 2, 6]], np.int32))
    yield case("CumProd", 26, np.array([1, 2, 3], np.int32), np.array(0), exclusive=1, reverse=1,
               expected=np.array([6, 3, 1], np.int32))  # fmt: skip
    yield from each("Det", (11, 22), draw(2, 3, 3), tolerance=1e-4)
