"""Elements in another order: resizing by repetition, crops, pads, shuffles, transposes.  Nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes


class Offsets(NamedTuple):
    """The tables of a `Rearrange`, int64 each; the functions below make them."""

    rows: IntArray
    columns: IntArray
    channels: IntArray

    @property
    def frame(self) -> Frame:
        """The frame of the output."""
        return Frame(len(self.rows), len(self.columns), len(self.channels))


def picked(frame: Frame, rows: npt.ArrayLike | None = None, columns: npt.ArrayLike | None = None,
           channels: npt.ArrayLike | None = None) -> Offsets:
    """The output that has these rows, columns and channels of the input `frame`, by index; None: all in order.

    -1 is padding.  These indices describe resizing by repetition, crops, slices with any steps, choices and
    permutations of channels, and constant, reflecting and repeating pads.  ValueError for an index outside of the
    frame.
    """
    found = []
    for axis, indices, size, stride in (("row", rows, frame.height, frame.width * frame.channels),
                                        ("column", columns, frame.width, frame.channels),
                                        ("channel", channels, frame.channels, 1)):
        index = np.arange(size) if indices is None else np.asarray(indices)
        if index.ndim != 1 or not index.size or index.dtype.kind not in "iu":
            raise ValueError(f"{axis} indices must be a list of integers with at least one entry, not {indices!r}")
        if index.min() < -1 or index.max() >= size:
            raise ValueError(f"{axis} indices must be from 0 to {size - 1}, or -1 for padding, not "
                             f"{index.min()} to {index.max()}")
        index = index.astype(np.int64)
        found.append(np.where(index < 0, -1, index * stride))
    return Offsets(*found)


def depth_to_space(frame: Frame, block: int, *, channels_first: bool = False) -> Offsets:
    """ONNX's DepthToSpace: blocks of `block` x `block` pixels from groups of channels.

    The channels of the input are counted as (row, column, channel of the output), mode DCR; with `channels_first` as
    (channel of the output, row, column), mode CRD.
    """
    depth = frame.channels // max(block, 1) ** 2
    if block < 1 or depth * block**2 != frame.channels:
        raise ValueError(f"channels must be a multiple of the block's {block} x {block} pixels, not {frame.channels}")
    inner = np.arange(block, dtype=np.int64)
    row, column, channel = (block, 1, block**2) if channels_first else (block * depth, depth, 1)
    pixel = frame.channels
    return Offsets(
        _sums(np.arange(frame.height) * frame.width * pixel, inner * row),
        _sums(np.arange(frame.width) * pixel, inner * column), np.arange(depth, dtype=np.int64) * channel)


def space_to_depth(frame: Frame, block: int) -> Offsets:
    """ONNX's SpaceToDepth: the channels of the output are counted as (row, column, channel of the input)."""
    if block < 1 or frame.height % block or frame.width % block:
        raise ValueError(f"height and width must be multiples of the block's {block}, not {frame.height} x "
                         f"{frame.width}")
    row, pixel, inner = frame.width * frame.channels, frame.channels, np.arange(block)
    return Offsets(
        np.arange(frame.height // block, dtype=np.int64) * block * row,
        np.arange(frame.width // block, dtype=np.int64) * block * pixel,
        _sums(_sums(inner * row, inner * pixel), np.arange(frame.channels)))


def transposed(frame: Frame, axes: tuple[int, int, int]) -> Offsets:
    """Axis k of the output is axis `axes[k]` of the input; 0 is the height, 1 the width, 2 the channels."""
    if sorted(axes) != [0, 1, 2]:
        raise ValueError(f"axes must be 0, 1 and 2 in any order, not {axes}")
    sizes = (frame.height, frame.width, frame.channels)
    strides = (frame.width * frame.channels, frame.channels, 1)
    return Offsets(*(np.arange(sizes[axis], dtype=np.int64) * strides[axis] for axis in axes))


def _sums(outer: npt.NDArray[np.int64], inner: npt.NDArray[np.int64]) -> IntArray:
    """Every sum of an entry of each, those of `inner` next to each other."""
    return (outer[:, None] + inner).reshape(-1)


@dataclass(frozen=True, eq=False)
class Rearrange(Layer):
    """y[r, c, k] = x.flat[rows[r] + columns[c] + channels[k]]; `padding` where any of the three entries is -1.

    x.flat is the raster, channels fastest.  Scale, zero point and format of the output are the input's.

    `rows`, `columns`, `channels` are int64[output height], [output width], [output channels].
    """

    kind: ClassVar[str] = "rearrange"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    rows: IntArray
    columns: IntArray
    channels: IntArray
    padding: int

    @property
    def offsets(self) -> Offsets:
        return Offsets(self.rows, self.columns, self.channels)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        highest = 0
        for axis, table in self.offsets._asdict().items():
            if table.ndim != 1 or table.dtype != np.int64 or not table.size:
                raise ValueError(f"layer '{self.name}': {axis} must be int64 with one axis and at least one entry, not "
                                 f"{table.dtype} of shape {table.shape}")
            if table.min() < -1:
                raise ValueError(f"layer '{self.name}': {axis} must be offsets, or -1 for padding, not {table.min()}")
            highest += max(int(table.max()), 0)
        if highest >= frame.elements:
            raise ValueError(f"layer '{self.name}': rows, columns and channels together must lead to one of the "
                             f"input's {frame.elements} elements, not to element {highest}")
        return self.limited(self.offsets.frame)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        if (x.format, x.scale, x.zero_point) != (y.format, y.scale, y.zero_point):
            raise ValueError(
                f"layer '{self.name}': output '{y.name}' must have the input's format, scale and zero point "
                f"({x.format}, {x.scale}, {x.zero_point}), not {y.format}, {y.scale}, {y.zero_point}")
        if not self.input_format.low <= self.padding <= self.input_format.high:
            raise ValueError(f"layer '{self.name}': padding must be inside {self.input_format}, not {self.padding}")
        require(f"layer '{self.name}': padding", np.array([self.padding]), self.input_format)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        channels, height, width, frames = x.shape
        rows, columns, depth = (np.maximum(table, 0) for table in self.offsets)
        raster = rows[:, None] + columns + depth[:, None, None]  # [output channel, row, column]
        pixel, channel = np.divmod(raster, channels)
        made: Planes = np.take(x.reshape(channels * height * width, frames), channel * (height * width) + pixel, axis=0)
        made[self.channels < 0] = self.padding
        made[:, self.rows < 0] = self.padding
        made[:, :, self.columns < 0] = self.padding
        return made

    @property
    def rises(self) -> bool:
        return True

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
