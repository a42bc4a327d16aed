"""Rows whose axes are not those of the model's input: the transpose or reshape that fits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hwflow.onnx.model import Array

#: Permutations of more axes than this are not tried; no picture, signal or sequence has more.
_MOST_AXES = 5
#: The orders of the axes of a row (without the axis of rows) that have names.
_NAMED = {(2, 0, 1): "NHWC into NCHW", (1, 2, 0): "NCHW into NHWC"}


@dataclass(frozen=True)
class Change:
    """A reshape, then a transpose, of which at least one is there.  Both count the axis of rows as axis 0."""

    shape: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    #: What is to be said of it, after the call.
    note: str = ""

    def call(self) -> str:
        """The change as calls of numpy on the array `x`."""
        reshape = f".reshape({', '.join(map(str, self.shape))})" if self.shape else ""
        return f"x{reshape}" + (f".transpose({', '.join(map(str, self.order))})" if self.order else "")

    def apply(self, array: Array) -> Array:
        """The result of the call."""
        shaped = array.reshape(self.shape) if self.shape else array
        return shaped.transpose(self.order) if self.order else shaped


def remedy_for(shape: Sequence[int], expected: Sequence[int | None]) -> str:
    """A sentence with the calls of numpy that turn an array of the shape `shape` into rows of the shape `expected`.

    "" where no call fits; the arguments are those of `changes_for`.
    """
    calls = [f"{change.call()}{change.note}" for change in changes_for(shape, expected)]
    return f"give {', or '.join(calls)}" if calls else ""


def changes_for(shape: Sequence[int], expected: Sequence[int | None]) -> tuple[Change, ...]:
    """The calls that make rows of the shape `expected` of an array of the shape `shape`: none where that is not clear,
    and two where the order of the elements in flat rows of pictures is not known.

    `shape` is the whole shape with the axis of rows, `expected` the shape of the model's input, None for an axis of any
    size.  A leading axis of 1 of `expected` is the batch, which rows may leave out.
    """
    row = _row_of(expected)
    for target in (row, (1, *row)):
        if (change := _transpose(tuple(shape), target)) is not None:
            return (change,)
    sizes = tuple(size for size in row if size is not None)
    if len(sizes) < len(row) or (change := _reshape(tuple(shape), sizes)) is None:
        return ()
    other = _other_place_of_channels(sizes) if len(shape) <= 2 else None
    return (change,) if other is None else (change, other)


def _row_of(expected: Sequence[int | None]) -> tuple[int | None, ...]:
    """The shape of a row, without the batch."""
    return tuple(expected[1:] if len(expected) and expected[0] == 1 else expected)


def _transpose(shape: tuple[int, ...], target: tuple[int | None, ...]) -> Change | None:
    """Brings the axes of each row into the order of `target`.

    Several orders fit where two sizes are equal, as height and width often are: the first one keeps the most pairs of
    axes in their order.
    """
    row = shape[1:]
    if len(row) != len(target) or not 1 < len(row) <= _MOST_AXES:
        return None
    fitting = [order for order in itertools.permutations(range(len(row)))
               if all(want in (None, row[axis]) for axis, want in zip(order, target, strict=True))]
    if not fitting:
        return None
    order = min(fitting, key=_turned)
    named = f", which turns {_NAMED[order]}" if order in _NAMED else ""
    return Change(order=(0, *(axis + 1 for axis in order)), note=named)


def _turned(order: Sequence[int]) -> int:
    """How many pairs of axes a permutation turns around."""
    return sum(a > b for a, b in itertools.combinations(order, 2))


def _reshape(source: tuple[int, ...], row: tuple[int, ...]) -> Change | None:
    """Rows of as many elements, where the order of the elements is that of `source`, or one of both is flat."""
    size, shape = math.prod(row), (-1, *row)
    if not size:
        return None
    sizes, row_sizes = ([n for n in shape if n != 1] for shape in (source[1:], row))
    if math.prod(source[1:]) == size:
        return Change(shape) if sizes == row_sizes or min(len(sizes), len(row_sizes)) < 2 else None
    alone = math.prod(source) == size and len(source) <= max(len(row), 1)
    alone &= len(source) == 1 or [n for n in source if n != 1] == row_sizes
    return Change(shape, note=", which makes it a single row") if alone else None


def _other_place_of_channels(row: tuple[int, ...]) -> Change | None:
    """For flat rows of pictures with several channels: the order that the rows have otherwise."""
    if len(row) != 3 or min(row[0], row[2]) == 1 or row[0] == row[2]:
        return None
    first, middle, last = row
    if first < last:  # the input has channels first: the rows may have them last
        return Change((-1, middle, last, first), (0, 3, 1, 2), " if channels come last in each row")
    return Change((-1, last, first, middle), (0, 2, 3, 1), " if channels come first in each row")
