"""Elements in another order: resizing by repetition, crops, pads, shuffles, transposes.  Nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes
from hwflow.layers.sweep import Line, Sweep, identity

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.rearrange.shape import RearrangeShape
    from hwflow_rtl.vendor import Resources, Technology

#: Elements of an output frame: the golden model holds an index for each.
MOST_ELEMENTS = 1 << 24
#: Bits of all RAM blocks of an LFE5U-85F, the largest device that has a description here: 208 of 18 Kbit.
MOST_BITS = 208 * 18432
#: Sweeps of a shared stage for one layer.
MOST_SWEEPS = 64


class Offsets(NamedTuple):
    """The tables of a `Rearrange`, int64 each; the functions below make them."""

    rows: IntArray
    columns: IntArray
    channels: IntArray

    @property
    def frame(self) -> Frame:
        """Of the output."""
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
class Rearrange(HardwareLayer):
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
        made = self.offsets.frame
        if made.elements > MOST_ELEMENTS:
            raise ValueError(f"layer '{self.name}': the output must have at most {MOST_ELEMENTS} elements, not {made}")
        return made

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

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        folding = max(self.foldings(graph), key=lambda folding: folding.lanes)
        words = self._shape(graph, folding).ring_words
        bits = words * folding.lanes * self.input_format.bits
        if bits <= MOST_BITS:
            return None
        return (f"the elements that wait for their place in the output must fit {MOST_BITS} bits, the block RAM of the "
                f"largest device, not {bits} ({words * folding.lanes} elements)")

    def shared_problem(self, graph: LayerGraph) -> str | None:
        frame = graph.tensors[self.inputs[0]].frame
        reach = sum(places(np.maximum(table, 0), frame).max(axis=0) for table in self.offsets)
        if reach[1] >= frame.width or reach[2] >= frame.channels:
            return "a shared stage moves elements by rows, columns and channels, and these add up to other pixels here"
        count = math.prod(map(len, self._moves(frame)))
        if count > MOST_SWEEPS:
            return (f"elements must move in at most {MOST_SWEEPS} ways in a shared stage (rectangles of pixels "
                    f"that are equally far apart in the input), not in {count}")
        return None

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        """One for each rectangle of pixels that are equally far apart in the input; weights of 1 choose channels."""
        ways = self._moves(graph.tensors[self.inputs[0]].frame)
        return tuple(self._sweep(graph, rows, columns) for rows, columns in product(*ways))

    def _moves(self, frame: Frame) -> tuple[list[Move], list[Move]]:
        """Of rows and of columns from an input `frame`, made once."""
        if frame not in self._moves_of:
            self._moves_of[frame] = moves(self.rows, frame), moves(self.columns, frame)
        return self._moves_of[frame]

    @cached_property
    def _moves_of(self) -> dict[Frame, tuple[list[Move], list[Move]]]:
        """The results of `_moves`."""
        return {}

    def _sweep(self, graph: LayerGraph, rows: Move, columns: Move) -> Sweep:
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        count, padded = len(self.channels), (self.channels < 0) | rows.padding | columns.padding
        place = places(np.maximum(self.channels, 0), x.frame)
        used = place[~padded] if not padded.all() else np.zeros((1, 3), np.int64)
        corner = used[:, :2].min(axis=0)
        kernel = used[:, :2].max(axis=0) - corner + 1
        weights = np.zeros((count, *kernel.tolist(), 1), np.int64)
        (chosen,) = np.nonzero(~padded)
        weights[chosen, *(place[chosen, :2] - corner).T, 0] = 1
        start = rows.start + columns.start
        plain = identity(x.format, count)
        return Sweep(
            layer=self.name, inputs=(x,), output=y, rescale=replace(plain, bias=np.where(padded, self.padding, 0)),
            rows=rows.line, columns=columns.line, weights=weights, kernel=(int(kernel[0]), int(kernel[1])),
            channels=np.where(padded, used[0, 2], place[:, 2])[:, None] + start[2],
            origin=(int(start[0] + corner[0]), int(start[1] + corner[1])), row_step=rows.step, column_step=columns.step)

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """As many neighbours as always move together go through at once."""
        from hwflow_rtl.rearrange.shape import RearrangeShape

        channels = math.gcd(graph.tensors[self.inputs[0]].frame.channels, len(self.channels))
        return (Folding(1, lanes, lanes) for lanes in divisors(channels)
                if RearrangeShape.problem(*self.offsets, lanes) is None)

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        lanes = folding.lanes
        taken, given = (graph.tensors[name].frame.elements // lanes for name in (self.inputs[0], self.output))
        return Schedule(work=given, interval=max(taken, given), multipliers=0, lanes_in=(lanes,))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        from hwflow_rtl.rearrange.rearrange import RearrangeStage
        from hwflow_rtl.rearrange.selection import SelectionStage

        shape = self._shape(graph, folding)
        kind = SelectionStage if shape.in_order else RearrangeStage
        return kind.cost(shape=shape, width=folding.lanes * self.input_format.bits, technology=technology)

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.rearrange.rearrange import RearrangeStage
        from hwflow_rtl.rearrange.selection import SelectionStage

        from hwflow.layers.hardware import codes_of, shape_of

        shape, element = self._shape(graph, folding), shape_of(self.input_format)
        if shape.in_order:
            return SelectionStage(shape=shape, element=element, lanes=folding.lanes, technology=technology, name=name)
        return RearrangeStage(
            shape=shape, element=element, lanes=folding.lanes, technology=technology, name=name,
            padding=int(codes_of(np.array(self.padding), self.input_format)))

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        from hwflow_rtl.rearrange.rearrange import RearrangeStage
        from hwflow_rtl.rearrange.selection import SelectionStage

        shape = self._shape(graph, folding)
        if shape.in_order:
            return SelectionStage.times(arrivals[0], shape=shape, left=left)
        width = folding.lanes * self.input_format.bits
        return RearrangeStage.times(arrivals[0], shape=shape, width=width, technology=technology, left=left)

    def _shape(self, graph: LayerGraph, folding: Folding) -> RearrangeShape:
        from hwflow_rtl.rearrange.shape import RearrangeShape

        elements = graph.tensors[self.inputs[0]].frame.elements
        return RearrangeShape.of(*self.offsets, elements=elements, lanes=folding.lanes)


class Move(NamedTuple):
    """Rows or columns of the output that are `step` (rows, columns) apart in the input, from row, column and channel
    `start` on; or padding."""

    line: Line
    start: IntArray
    step: tuple[int, int]
    padding: bool


def places(table: IntArray, frame: Frame) -> IntArray:
    """Offsets as row, column and channel: int64[entries, 3]."""
    pixel, channel = np.divmod(table, frame.channels)
    return np.stack([*np.divmod(pixel, frame.width), channel], axis=1)


def moves(table: IntArray, frame: Frame) -> list[Move]:
    """The rows or the columns of an output in as few moves as found: every n-th one from some row on, for some n."""
    best = list(runs(table, frame, 0, 1))
    for period in range(2, min(len(table), 16) + 1):
        if len(best) <= period:  # each phase of a longer period has a move
            break
        found = [move for phase in range(period) for move in runs(table, frame, phase, period)]
        best = min(best, found, key=len)
    return best


def runs(table: IntArray, frame: Frame, phase: int, period: int) -> Iterator[Move]:
    """The entries `phase`, `phase + period`, ... in moves, the first one as long as it can be, and so on."""
    entries = table[phase::period]
    place, padding = places(np.maximum(entries, 0), frame), entries < 0
    place[padding] = 0
    change = np.diff(place, axis=0)
    first = 0
    while first < len(entries):
        end = first + 1
        while end < len(entries) and padding[end] == padding[first] and not change[end - 1, 2] and (
                change[end - 1] == change[first]).all():
            end += 1
        step = change[first].tolist() if end - first > 1 else (0, 0)
        yield Move(Line(phase + first * period, end - first, period), place[first], (step[0], step[1]),
                   bool(padding[first]))
        first = end
