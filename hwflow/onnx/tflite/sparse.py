"""Sparse constants: elements other than zero, with where they are, as DENSIFY reads them.

The axes are traversed in an order of their own, some of them split into blocks; each is dense, or compressed as in a
CSR matrix: segments of a list of places for each of what came before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, DType
from hwflow.onnx.tflite.flatbuffer import Table

_AGAIN = "the file is damaged: copy or export it again"

#: The types of lists of places by their number in the schema.
_LISTS: dict[int, DType] = {1: np.dtype(np.int32), 2: np.dtype(np.uint16), 3: np.dtype(np.uint8)}


@dataclass(frozen=True)
class Axis:
    """One axis in the order of traversal: how many places it has, or, where it is compressed, its segments."""

    size: int
    segments: npt.NDArray[np.int64] | None = None
    places: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Sparsity:
    """Where the elements of a tensor are: the order of the axes (blocks behind them), the axes that have blocks."""

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    axes: tuple[Axis, ...]


def read_sparsity(table: Table, label: str) -> Sparsity:
    """What a file says of a tensor.  InvalidModel where it is of no known form."""
    axes = tuple(_axis(inner, label) for inner in table.tables(2, f"the sparsity of {label}, axis"))
    order, blocks = (tuple(table.numbers(k, np.dtype(np.int32)).tolist()) for k in (0, 1))
    if sorted(order) != list(range(len(axes))):
        raise InvalidModel(f"the sparsity of {label} must have an order of its {len(axes)} axes, not {order}", _AGAIN)
    return Sparsity(order, blocks, axes)


def _axis(table: Table, label: str) -> Axis:
    kind = int(table.number(0, "b"))
    if kind == 0:
        return Axis(int(table.number(1, "i")))
    if kind != 1:
        raise InvalidModel(f"axes of {label} must be dense or compressed, not of kind {kind}", _AGAIN)
    return Axis(0, *(_list(table, field, label) for field in (2, 4)))


def _list(table: Table, field: int, label: str) -> npt.NDArray[np.int64]:
    kind, inner = int(table.number(field, "B")), table.table(field + 1, f"a list of the sparsity of {label}")
    if kind not in _LISTS or inner is None:
        raise InvalidModel(f"{label} must have lists of int32, uint16 or uint8 of places, not of kind {kind}", _AGAIN)
    return np.asarray(inner.numbers(0, _LISTS[kind]), np.int64)


def dense(values: Array, shape: tuple[int, ...], sparsity: Sparsity, label: str, limits: Limits) -> Array:
    """The whole tensor of the elements `values` in the order of traversal."""
    if math.prod(max(size, 1) for size in shape) * values.itemsize > limits.tensor_bytes:
        raise LimitError(f"{label} must be at most {limits.tensor_bytes:,} bytes (tensor_bytes) with its zeros")
    rank = len(shape)
    if not rank <= len(sparsity.axes) == rank + len(sparsity.blocks) or any(not 0 <= k < rank for k in sparsity.blocks):
        raise InvalidModel(f"the sparsity of {label} must suit its shape {list(shape)}", _AGAIN)
    places = _places(sparsity, len(values), math.prod(shape), label)
    found = [places[sparsity.order.index(k)] for k in range(len(sparsity.axes))]
    for number, axis in enumerate(sparsity.blocks):
        size = sparsity.axes[sparsity.order.index(rank + number)].size
        found[axis] = found[axis] * size + found[rank + number]
    whole = np.zeros(shape, values.dtype)
    if any(np.any((place < 0) | (place >= size)) for place, size in zip(found, shape, strict=False)):
        raise InvalidModel(f"the places of {label} must lie within its shape {list(shape)}", _AGAIN)
    whole[tuple(found[:rank])] = values
    return whole


def _places(sparsity: Sparsity, count: int, most: int, label: str) -> list[npt.NDArray[np.int64]]:
    """For each axis in the order of traversal the place of each of the `count` elements, of `most` in the tensor."""
    found: list[npt.NDArray[np.int64]] = []
    rows = 1
    for axis in sparsity.axes:
        if axis.segments is None or axis.places is None:
            counts = np.full(rows, axis.size, np.int64)
            own = np.tile(np.arange(axis.size), rows) if 0 <= rows * axis.size <= most else np.zeros(0, np.int64)
        else:
            own = axis.places
            counts = np.diff(axis.segments)
        total = int(counts.sum()) if len(counts) else 0
        if len(counts) != rows or np.any(counts < 0) or total != len(own) or total > most:
            raise InvalidModel(f"the segments of {label} must be those of its {count} elements", _AGAIN)
        found = [np.repeat(places, counts) for places in found] + [own]
        rows = total
    if rows != count:
        raise InvalidModel(f"{label} must have the {rows} elements that its segments say, not {count}", _AGAIN)
    return found
