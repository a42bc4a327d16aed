"""Operators that move, select and resize elements, on random tensors: rules against kernels, and references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.onnx.single import evaluated, inferred

Draw = Callable[[st.SearchStrategy[Any]], Any]
#: Inputs, attributes, number of outputs.
Drawn = tuple[list[np.ndarray | None], dict[str, Any], int]

DTYPES = st.sampled_from(
    [np.dtype(t) for t in (np.float32, np.int8, np.bool_, np.object_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4)]
)


def filled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    numbers = np.arange(math.prod(shape)) % 7
    return (numbers.astype(str).astype(object) if dtype.kind == "O" else numbers.astype(dtype)).reshape(shape)


def shapes(low: int = 0, high: int = 4, smallest: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(smallest, 4), min_size=low, max_size=high).map(tuple)


@st.composite
def tensors(draw: Draw, low: int = 0, high: int = 4, smallest: int = 0) -> np.ndarray:
    return filled(draw(shapes(low, high, smallest)), draw(DTYPES))


def numbers(draw: Draw, low: int, high: int, count: int) -> np.ndarray:
    return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)


def some_axes(draw: Draw, rank: int) -> list[int]:
    chosen = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if rank else []
    return [axis - rank * draw(st.integers(0, 1)) for axis in chosen]


def an_axis(draw: Draw, rank: int) -> int:
    return int(draw(st.integers(-rank, rank - 1)))


@st.composite
def flatten(draw: Draw) -> Drawn:
    x = draw(tensors())
    return [x], {"axis": draw(st.integers(-x.ndim, x.ndim))}, 1


@st.composite
def reshape(draw: Draw) -> Drawn:
    x = draw(tensors(smallest=1))
    dims = draw(st.permutations(x.shape))
    if dims and draw(st.booleans()):
        dims = [*dims[:-1], -1]
    return [x, np.array(dims, np.int64)], {}, 1


@st.composite
def transpose(draw: Draw) -> Drawn:
    x = draw(tensors())
    return [x], {"perm": draw(st.permutations(range(x.ndim)))} if x.ndim else {}, 1


@st.composite
def squeeze(draw: Draw) -> Drawn:
    x = draw(tensors())
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    return [x, np.array(ones, np.int64) if draw(st.booleans()) else None], {}, 1


@st.composite
def unsqueeze(draw: Draw) -> Drawn:
    x = draw(tensors())
    count = draw(st.integers(0, 3))
    return [x, np.array(draw(st.permutations(range(x.ndim + count)))[:count], np.int64)], {}, 1


@st.composite
def blocks(draw: Draw) -> Drawn:
    size = draw(st.integers(1, 3))
    n, c, h, w = draw(st.tuples(*[st.integers(0, 3)] * 4))
    x = filled((n, c * size**2, h * size, w * size), draw(DTYPES))
    return [x], {"blocksize": size, "mode": draw(st.sampled_from(["DCR", "CRD"]))}, 1


@st.composite
def expand(draw: Draw) -> Drawn:
    x = draw(tensors())
    shape = [d if d != 1 else draw(st.integers(0, 3)) for d in x.shape]
    return [x, np.array([*draw(shapes(0, 2)), *shape], np.int64)], {}, 1


@st.composite
def concat(draw: Draw) -> Drawn:
    x = draw(tensors(low=1))
    axis = an_axis(draw, x.ndim)
    parts = [np.repeat(x, draw(st.integers(0, 2)), axis=axis) for _ in range(draw(st.integers(1, 3)))]
    return [*parts], {"axis": axis}, 1


@st.composite
def split(draw: Draw) -> Drawn:
    x = draw(tensors(low=1))
    axis = an_axis(draw, x.ndim)
    cuts = sorted(draw(st.lists(st.integers(0, x.shape[axis]), max_size=3)))
    sizes = np.diff([0, *cuts, x.shape[axis]])
    return [x, sizes.astype(np.int64)], {"axis": axis}, len(sizes)


@st.composite
def tile(draw: Draw) -> Drawn:
    x = draw(tensors())
    return [x, numbers(draw, 0, 3, x.ndim)], {}, 1


@st.composite
def cut(draw: Draw) -> Drawn:
    x = draw(tensors(low=1))
    axes = some_axes(draw, x.ndim)
    steps = numbers(draw, 1, 3, len(axes)) * numbers(draw, 0, 1, len(axes)).clip(0, 1).choose([-1, 1])
    ends = [numbers(draw, -9, 9, len(axes)) for _ in range(2)]
    return [x, *ends, np.array(axes, np.int64), steps], {}, 1


@st.composite
def pad(draw: Draw) -> Drawn:
    x = draw(tensors(smallest=1))
    axes = some_axes(draw, x.ndim)
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "wrap"]))
    pads = numbers(draw, 0 if mode != "constant" else -1, 5, 2 * len(axes))
    if any(x.shape[a] + b + e < 0 for a, b, e in zip(axes, pads, pads[len(axes) :], strict=False)):
        pads = np.abs(pads)
    return [x, pads, None, np.array(axes, np.int64)], {"mode": mode}, 1


@st.composite
def center(draw: Draw) -> Drawn:
    x = draw(tensors())
    axes = some_axes(draw, x.ndim)
    return [x, numbers(draw, 0, 7, len(axes))], {"axes": axes} if axes else {"axes": ()}, 1


@st.composite
def gather(draw: Draw) -> Drawn:
    x = draw(tensors(low=1, smallest=1))
    axis = an_axis(draw, x.ndim)
    shape = draw(shapes(0, 3))
    index = numbers(draw, -x.shape[axis], x.shape[axis] - 1, math.prod(shape)).reshape(shape)
    return [x, index], {"axis": axis}, 1


def elements_at(draw: Draw, x: np.ndarray, axis: int) -> np.ndarray:
    shape = [draw(st.integers(0, 4 if i == axis % x.ndim else d)) for i, d in enumerate(x.shape)]
    return numbers(draw, -x.shape[axis], x.shape[axis] - 1, math.prod(shape)).reshape(shape)


@st.composite
def gather_elements(draw: Draw) -> Drawn:
    x = draw(tensors(low=1, high=3, smallest=1))
    axis = an_axis(draw, x.ndim)
    return [x, elements_at(draw, x, axis)], {"axis": axis}, 1


@st.composite
def gather_nd(draw: Draw) -> Drawn:
    x = draw(tensors(low=1, high=4, smallest=1))
    batch = draw(st.integers(0, x.ndim - 1))
    depth = draw(st.integers(1, x.ndim - batch))
    shape = (*x.shape[:batch], *draw(shapes(0, 2)))
    columns = [numbers(draw, -d, d - 1, math.prod(shape)) for d in x.shape[batch : batch + depth]]
    return [x, np.stack(columns, axis=-1).reshape(*shape, depth)], {"batch_dims": batch}, 1


@st.composite
def compress(draw: Draw) -> Drawn:
    x = draw(tensors(low=1))
    condition = np.array(draw(st.lists(st.booleans(), max_size=5)), np.bool_)
    return [x, condition], {"axis": an_axis(draw, x.ndim)} if draw(st.booleans()) else {}, 1


@st.composite
def one_hot(draw: Draw) -> Drawn:
    shape = draw(shapes(0, 3))
    index = numbers(draw, -5, 5, math.prod(shape)).reshape(shape)
    axis = draw(st.integers(-len(shape) - 1, len(shape)))
    return [index, np.array(draw(st.integers(0, 4))), filled((2,), draw(DTYPES))], {"axis": axis}, 1


@st.composite
def reverse(draw: Draw) -> Drawn:
    x, batch = draw(tensors(low=2)), draw(st.integers(0, 1))
    return [x, numbers(draw, 0, x.shape[1 - batch], x.shape[batch])], {"batch_axis": batch, "time_axis": 1 - batch}, 1


@st.composite
def trilu(draw: Draw) -> Drawn:
    return [draw(tensors(low=2)), numbers(draw, -9, 9, 1).reshape(())], {"upper": draw(st.integers(0, 1))}, 1


@st.composite
def scatter_elements(draw: Draw) -> Drawn:
    x = draw(tensors(low=1, high=3, smallest=1))
    axis = an_axis(draw, x.ndim)
    index = elements_at(draw, x, axis)
    return [x, index, filled(index.shape, x.dtype)], {"axis": axis}, 1


@st.composite
def scatter_nd(draw: Draw) -> Drawn:
    x = draw(tensors(low=1, high=4, smallest=1))
    depth, count = draw(st.integers(1, x.ndim)), draw(st.integers(0, 3))
    index = np.stack([numbers(draw, -d, d - 1, count) for d in x.shape[:depth]], axis=-1)
    return [x, index, filled((count, *x.shape[depth:]), x.dtype)], {}, 1


@st.composite
def arg(draw: Draw) -> Drawn:
    x = filled(draw(shapes(1, 4, 1)), np.dtype(np.float32))
    how = {"axis": an_axis(draw, x.ndim), "keepdims": draw(st.integers(0, 1))}
    return [x], {**how, "select_last_index": draw(st.integers(0, 1))}, 1


@st.composite
def top_k(draw: Draw) -> Drawn:
    x = filled(draw(shapes(1, 4)), np.dtype(np.float16))
    axis = an_axis(draw, x.ndim)
    count = draw(st.integers(0, x.shape[axis]))
    return [x, np.array([count])], {"axis": axis, "largest": draw(st.integers(0, 1))}, 2


@st.composite
def unique(draw: Draw) -> Drawn:
    x = draw(tensors(low=1))
    how = {"axis": an_axis(draw, x.ndim)} if draw(st.booleans()) else {}
    return [x], {**how, "sorted": draw(st.integers(0, 1))}, 4


@st.composite
def resize(draw: Draw) -> Drawn:
    x = filled(draw(shapes(1, 3, 1)), np.dtype(np.float32))
    how = {
        "mode": draw(st.sampled_from(["nearest", "linear", "cubic"])),
        "antialias": draw(st.integers(0, 1)),
        "coordinate_transformation_mode": draw(st.sampled_from(["half_pixel", "align_corners", "pytorch_half_pixel"])),
    }
    if draw(st.booleans()):
        return [x, None, None, numbers(draw, 0, 6, x.ndim)], how, 1
    factors = draw(st.lists(st.floats(0.125, 3, width=32), min_size=x.ndim, max_size=x.ndim))
    return [x, None, np.array(factors, np.float32)], how, 1


@st.composite
def unpool(draw: Draw) -> Drawn:
    x = filled((1, 2, *draw(shapes(1, 2, 1))), np.dtype(np.float32))
    rank = x.ndim - 2
    how = {"kernel_shape": numbers(draw, 1, 3, rank).tolist(), "strides": numbers(draw, 1, 3, rank).tolist()}
    return [x, numbers(draw, 0, 1, x.size).reshape(x.shape)], how, 1


CASES: dict[str, Callable[[], st.SearchStrategy[Drawn]]] = {
    "Flatten": flatten, "Reshape": reshape, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
    "DepthToSpace": blocks, "SpaceToDepth": blocks, "Expand": expand, "Concat": concat, "Split": split, "Tile": tile,
    "Slice": cut, "Pad": pad, "CenterCropPad": center, "Gather": gather, "GatherElements": gather_elements,
    "GatherND": gather_nd, "Compress": compress, "OneHot": one_hot, "ReverseSequence": reverse, "Trilu": trilu,
    "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "ArgMax": arg, "ArgMin": arg, "TopK": top_k,
    "Unique": unique, "Resize": resize, "MaxUnpool": unpool,
}  # fmt: skip


@pytest.mark.parametrize("op", CASES)
@settings(max_examples=16, deadline=None)
@given(data=st.data())
def test_rules_and_kernels_agree(op: str, data: st.DataObject) -> None:
    """The shapes and types that are inferred are those that are computed."""
    inputs, attributes, outputs = data.draw(CASES[op]())
    results = evaluated(op, *inputs, outputs=outputs, **attributes)
    found = results if outputs > 1 else (results,)
    assert [(r.dtype, r.shape) for r in found] == inferred(op, *inputs, outputs=outputs, **attributes)


def places(index: np.ndarray) -> Any:
    return np.ndindex(*index.shape)


@settings(max_examples=30, deadline=None)
@given(drawn=gather_elements())
def test_gather_elements_one_by_one(drawn: Drawn) -> None:
    (x, index), how, _ = drawn
    found = evaluated("GatherElements", x, index, **how)
    axis = how["axis"] % x.ndim
    for place in places(index):
        assert found[place] == x[(*place[:axis], index[place], *place[axis + 1 :])]


@settings(max_examples=30, deadline=None)
@given(drawn=gather_nd())
def test_gather_nd_one_by_one(drawn: Drawn) -> None:
    (x, index), how, _ = drawn
    found = evaluated("GatherND", x, index, **how)
    for place in np.ndindex(*index.shape[:-1]):
        wanted = x[(*place[: how["batch_dims"]], *index[place])]
        assert np.array_equal(found[place], wanted)


@settings(max_examples=30, deadline=None)
@given(drawn=scatter_elements(), reduction=st.sampled_from(["none", "add", "mul", "max", "min"]))
def test_scatter_elements_one_by_one(drawn: Drawn, reduction: str) -> None:
    (like, index, _), how, _ = drawn
    x = np.arange(like.size).reshape(like.shape)
    updates = np.arange(index.size).reshape(index.shape) - 3
    wanted, axis = x.copy(), how["axis"] % x.ndim
    rules = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for place in places(index):
        target = (*place[:axis], index[place], *place[axis + 1 :])
        wanted[target] = rules[reduction](wanted[target], updates[place])
    assert np.array_equal(evaluated("ScatterElements", x, index, updates, reduction=reduction, **how), wanted)
