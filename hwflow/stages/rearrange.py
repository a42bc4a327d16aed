"""The stage of elements in another order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from hwflow_rtl.rearrange.rearrange import RearrangeStageShape
from hwflow_rtl.rearrange.selection import SelectionShape
from hwflow_rtl.rearrange.shape import RearrangeShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.rearrange import Rearrange
from hwflow.stages.codes import codes_of, shape_of
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Line, MovingWindow, Sweep, identity

#: Bits of all RAM blocks of an LFE5U-85F, the largest device that has a description here: 208 of 18 Kbit.
MOST_BITS = 208 * 18432
#: Sweeps of a shared stage for one layer.
MOST_SWEEPS = 64


class RearrangeStage(LayerStage[Rearrange]):
    """A ring of words that wait for their place, or a selection where all stay in order."""

    def hardware_problem(self) -> str | None:
        folding = max(self.foldings(), key=lambda folding: folding.lanes)
        words = self._order(folding).ring_words
        bits = words * folding.lanes * self.layer.input_format.bits
        if bits <= MOST_BITS:
            return None
        return (f"the elements that wait for their place in the output must fit {MOST_BITS} bits, the block RAM of the "
                f"largest device, not {bits} ({words * folding.lanes} elements)")

    def shared_problem(self) -> str | None:
        frame = self.x.frame
        reach = sum(places(np.maximum(table, 0), frame).max(axis=0) for table in self.layer.offsets)
        if reach[1] >= frame.width or reach[2] >= frame.channels:
            return "a shared stage moves elements by rows, columns and channels, and these add up to other pixels here"
        count = math.prod(map(len, self.moves))
        if count > MOST_SWEEPS:
            return (f"elements must move in at most {MOST_SWEEPS} ways in a shared stage (rectangles of pixels "
                    f"that are equally far apart in the input), not in {count}")
        return None

    def sweeps(self) -> tuple[Sweep, ...]:
        """One for each rectangle of pixels that are equally far apart in the input; weights of 1 choose channels."""
        return tuple(self._sweep(rows, columns) for rows, columns in product(*self.moves))

    def sources(self) -> IntArray | None:
        rows, columns, channels = self.layer.offsets
        if any((table < 0).any() for table in self.layer.offsets):
            return None
        return (rows[:, None, None] + columns[:, None] + channels).reshape(-1)

    @cached_property
    def moves(self) -> tuple[list[Move], list[Move]]:
        """The moves of rows and of columns."""
        return fewest_moves(self.layer.rows, self.x.frame), fewest_moves(self.layer.columns, self.x.frame)

    def _sweep(self, rows: Move, columns: Move) -> Sweep:
        layer, x = self.layer, self.x
        count, padded = len(layer.channels), (layer.channels < 0) | rows.padding | columns.padding
        place = places(np.maximum(layer.channels, 0), x.frame)
        used = place[~padded] if not padded.all() else np.zeros((1, 3), np.int64)
        corner = used[:, :2].min(axis=0)
        kernel = used[:, :2].max(axis=0) - corner + 1
        weights = np.zeros((count, *kernel.tolist(), 1), np.int64)
        (chosen,) = np.nonzero(~padded)
        weights[chosen, *(place[chosen, :2] - corner).T, 0] = 1
        start = rows.start + columns.start
        rescale = replace(identity(x.format, count), bias=np.where(padded, layer.padding, 0))
        return Sweep(
            layer=layer.name, inputs=(x,), output=self.y, rescale=rescale, rows=rows.line, columns=columns.line,
            weights=weights,
            channels=np.where(padded, used[0, 2], place[:, 2])[:, None] + start[2],
            window=MovingWindow(kernel=(int(kernel[0]), int(kernel[1])), row_step=rows.step, column_step=columns.step,
                                origin=(int(start[0] + corner[0]), int(start[1] + corner[1]))))

    def foldings(self) -> Iterator[Folding]:
        """Take as many neighbours as always move together go through at once."""
        channels = math.gcd(self.x.frame.channels, len(self.layer.channels))
        return (Folding(1, lanes, lanes) for lanes in divisors(channels)
                if RearrangeShape.problem(*self.layer.offsets, lanes) is None)

    def shape(self, folding: Folding, technology: Technology) -> SelectionShape | RearrangeStageShape:
        order, format = self._order(folding), self.layer.input_format
        if order.in_order:
            return SelectionShape(name=self.name, order=order, element=shape_of(format), lanes=folding.lanes)
        return RearrangeStageShape(name=self.name, order=order, element=shape_of(format), lanes=folding.lanes,
                                   padding=int(codes_of(np.array(self.layer.padding), format)))

    def _order(self, folding: Folding) -> RearrangeShape:
        return RearrangeShape.of(*self.layer.offsets, elements=self.x.frame.elements, lanes=folding.lanes)


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


def fewest_moves(table: IntArray, frame: Frame) -> list[Move]:
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
