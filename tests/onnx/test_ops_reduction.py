"""Reductions of every version, empty ones, and einsum: against onnxruntime, or numpy where it lacks the version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from tests.onnx.neural import Case, agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle

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


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


def reduction(op: str, opset: int, x: np.ndarray, axes: list[int] | None, **attributes: Any) -> Case:
    """The axes where this version has them."""
    if opset < AXES_INPUT[op]:
        return case(op, opset, x, attributes=attributes if axes is None else {"axes": axes, **attributes})
    return case(op, opset, *((x,) if axes is None else (x, np.array(axes, np.int64))), attributes=attributes)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [1], [0, 2], [-1]])
@pytest.mark.parametrize("opset", [1, 11, 12, 13, 18, 20])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduction(oracle, op, opset, axes, keepdims) -> None:
    x = 0.5 + np.abs(draw(2, 3, 4))
    if axes == [-1] and opset < 11:
        axes = [2]  # negative axes came with operator set 11
    agree(reduction(op, opset, x, axes, keepdims=keepdims), oracle)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int32, np.int64, np.uint32, ml_dtypes.bfloat16]
)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_types(op, dtype) -> None:
    x = np.array([[1, 2, 3], [4, 1, 2]]).astype(dtype)
    found = evaluated(reduction(op, 18, x, [1], keepdims=0))[0]
    wanted = REDUCTIONS[op](x.astype(np.float64), axis=1).astype(dtype)
    assert found.dtype == dtype
    tolerance = 1e-2 if found.itemsize < 4 else 1e-6
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=tolerance)


@pytest.mark.parametrize("op", REDUCTIONS)
def test_no_axes_and_no_operation(op) -> None:
    """The elements stay apart, but roots and logarithms are taken."""
    x = 0.5 + np.abs(draw(2, 3))
    found = evaluated(reduction(op, 18, x, [], noop_with_empty_axes=1))[0]
    np.testing.assert_allclose(found, REDUCTIONS[op](x, axis=()), rtol=1e-6)
    assert evaluated(reduction(op, 18, x, []))[0].shape == (1, 1)


@pytest.mark.parametrize(
    ("op", "wanted"),
    [("ReduceSum", 0), ("ReduceL1", 0), ("ReduceL2", 0), ("ReduceSumSquare", 0), ("ReduceProd", 1),
     ("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceLogSum", -np.inf), ("ReduceLogSumExp", -np.inf)],
)  # fmt: skip
def test_reduction_of_nothing(op, wanted) -> None:
    found = evaluated(reduction(op, 20, np.zeros((2, 0, 3), np.float32), [1], keepdims=0))[0]
    assert found.tolist() == [[wanted] * 3] * 2


@pytest.mark.parametrize(("op", "wanted"), [("ReduceMax", -128), ("ReduceMin", 127)])
def test_reduction_of_no_integers(op, wanted) -> None:
    assert evaluated(reduction(op, 20, np.zeros((0, 2), np.int8), [0], keepdims=0))[0].tolist() == [wanted] * 2


@pytest.mark.parametrize(("op", "wanted"), [("ReduceMax", [True, False]), ("ReduceMin", [False, False])])
def test_reduction_of_truth(op, wanted) -> None:
    x = np.array([[True, False], [False, False]])
    assert evaluated(reduction(op, 20, x, [1], keepdims=0))[0].tolist() == wanted


def test_sums_of_exponentials_do_not_overflow() -> None:
    x = np.array([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    found = evaluated(reduction("ReduceLogSumExp", 18, x, [1], keepdims=0))[0]
    np.testing.assert_allclose(found, np.float32([1000 + np.log(2), -1000 + np.log(2), -np.inf, np.inf]))


def test_small_floats_are_summed_in_float32() -> None:
    x = np.ones(4096, np.float16)
    assert evaluated(reduction("ReduceSum", 18, x, None))[0].tolist() == [4096]
    assert evaluated(reduction("ReduceMean", 18, x.astype(ml_dtypes.bfloat16), None))[0].astype(float).tolist() == [1]


@pytest.mark.parametrize("opset", [1, 13])
def test_axes_outside_are_refused(opset) -> None:
    wanted = reduction("ReduceSum", opset, draw(2, 3), [2])
    assert error_of(wanted).startswith("the axis must be -2 to 1, not 2")


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (1, 3, 3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ij->ji", (2, 3)),
    ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)), ("ij->", (2, 3)), ("a b , b c -> a c", (2, 3), (3, 4)),
    ("...i->...", (2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 5, 4)),
    ("Ab,b->A", (2, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), [(e, shapes) for e, *shapes in EQUATIONS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_einsum(oracle, equation, shapes, dtype) -> None:
    arrays = [(3 * draw(*shape, seed=i)).astype(dtype) for i, shape in enumerate(shapes)]
    agree(case("Einsum", 12, *arrays, equation=equation), oracle)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_einsum_of_small_floats(dtype) -> None:
    a, b = draw(2, 3).astype(dtype), draw(3, 4).astype(dtype)
    found = evaluated(case("Einsum", 28, a, b, equation="ij,jk->ik"))[0]
    assert found.dtype == dtype
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], "axis 'j' must have one size, not 3 and 4"),
        ("ij->ik", [(2, 3)], "the output must name axes of the inputs, each once, not 'ik'"),
        ("ij->ii", [(2, 3)], "the output must name axes of the inputs, each once, not 'ii'"),
        ("ij,jk->ik", [(2, 3)], "the equation must be 1 terms of letters and '...', not 'ij,jk->ik'"),
        ("i1->i", [(2, 3)], "the equation must be 1 terms of letters and '...', not 'i1->i'"),
        ("ijk->i", [(2, 3)], "term 'ijk' must name the axes of an input, not of one of shape [2, 3]"),
        ("i->i", [(2, 3)], "term 'i' must name the axes of an input, not of one of shape [2, 3]"),
        ("...i,...i->...", [(2, 3, 4), (5, 3, 4)], "the axes of '...' must fit together by broadcasting"),
    ],
)
def test_equations_that_do_not_fit(equation, shapes, message) -> None:
    assert error_of(case("Einsum", 12, *(draw(*shape) for shape in shapes), equation=equation)).startswith(message)


@pytest.mark.parametrize(
    ("wanted", "limit"),
    [
        (case("Einsum", 12, *(draw(100) for _ in range(5)), equation="a,b,c,d,e->"), "work"),
        (case("Einsum", 12, *(draw(100) for _ in range(5)), equation="a,b,c,d,e->abcde"), "tensor_bytes"),
        (case("MatMul", 13, draw(1000, 1), draw(1, 1000)), "tensor_bytes"),
        (case("MatMul", 13, draw(300, 300), draw(300, 300)), "work"),
        (case("Gemm", 13, draw(300, 300), draw(300, 300)), "work"),
        (case("Add", 14, draw(1000, 1), draw(1, 1000)), "tensor_bytes"),
        (case("Where", 16, np.zeros((1000, 1), np.bool_), draw(1000), draw(1)), "tensor_bytes"),
        (case("ReduceMax", 20, np.zeros((0, 1 << 30), np.float32), np.array([0])), "tensor_bytes"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)
def test_too_much_is_refused_before_it_is_done(wanted, limit) -> None:
    model, feeds = wanted.model()
    with pytest.raises(LimitError, match=rf"must be at most .*\({limit}\)"):
        hwflow.onnx.evaluate(model, feeds, limits=Limits(tensor_bytes=1 << 20, work=10**7))
