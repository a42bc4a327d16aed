"""What to do with rows whose axes are not those of the model's input: the transpose or reshape that fits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

__all__ = ["remedy_for"]

#: Permutations of more axes than this are not tried; no picture, signal or sequence has more.
_MOST_AXES = 5
#: The orders of the axes of a row (without the axis of rows) that have names.
_NAMED = {(2, 0, 1): "NHWC into NCHW", (1, 2, 0): "NCHW into NHWC"}


def remedy_for(found: Sequence[int], wanted: Sequence[int | None], name: str = "x") -> str:
    """What turns an array of the shape `found` into rows of the shape `wanted`, as a sentence with a call of numpy.

    `found` is the whole shape with the axis of rows, `wanted` the shape of the model's input, None for an axis of any
    size.  A leading axis of 1 of `wanted` is the batch, which rows may leave out.  The answer is "" where no call fits.
    """
    batch = len(wanted) > 0 and wanted[0] == 1
    row = tuple(wanted[1:] if batch else wanted)
    targets = (row, (1, *row)) if batch else (row,)
    for target in targets:
        if call := _transpose(tuple(found), target, name):
            return f"give {call}"
    if None in row:
        return ""
    return _reshape(tuple(found), tuple(size for size in row if size is not None), name)


def _transpose(found: tuple[int, ...], target: tuple[int | None, ...], name: str) -> str:
    """The call that brings the axes of each row into the order of `target`.

    Several orders fit where two sizes are equal, as height and width often are: the call keeps as many pairs of axes in
    their order as it can.
    """
    row = found[1:]
    if len(row) != len(target) or not 1 < len(row) <= _MOST_AXES:
        return ""
    fitting = [order for order in itertools.permutations(range(len(row)))
               if all(want in (None, row[axis]) for axis, want in zip(order, target, strict=True))]
    if not fitting:
        return ""
    order = min(fitting, key=_turned)
    axes = ", ".join(str(axis + 1) for axis in order)
    named = f", which turns {_NAMED[order]}" if order in _NAMED else ""
    return f"{name}.transpose(0, {axes}){named}"


def _turned(order: Sequence[int]) -> int:
    """How many pairs of axes a permutation turns around."""
    return sum(a > b for a, b in itertools.combinations(order, 2))


def _reshape(found: tuple[int, ...], row: tuple[int, ...], name: str) -> str:
    """The call that makes rows of as many elements, where the order of the elements leaves no doubt or two choices."""
    size = math.prod(row)
    if not size:
        return ""
    sizes, wanted = ([n for n in shape if n != 1] for shape in (found[1:], row))
    if math.prod(found[1:]) != size:
        alone = math.prod(found) == size and len(found) <= max(len(row), 1)
        alone &= len(found) == 1 or [n for n in found if n != 1] == wanted
        return f"give {_call(row, name)}, which makes it a single row" if alone else ""
    if sizes == wanted or len(wanted) < 2:
        return f"give {_call(row, name)}"
    return f"give {_call(row, name)}{_or_channels_elsewhere(row, name)}" if len(sizes) < 2 else ""


def _call(row: Sequence[int], name: str) -> str:
    return f"{name}.reshape({', '.join(map(str, (-1, *row)))})"


def _or_channels_elsewhere(row: tuple[int, ...], name: str) -> str:
    """For flat rows of pictures with several channels: the call for the other place of the channels."""
    if len(row) != 3 or min(row[0], row[2]) == 1 or row[0] == row[2]:
        return ""
    if row[0] < row[2]:  # channels first: the flat rows may have them last
        return f", or {_call((*row[1:], row[0]), name)}.transpose(0, 3, 1, 2) if channels come last in each row"
    return f", or {_call((row[2], *row[:2]), name)}.transpose(0, 2, 3, 1) if channels come first in each row"
