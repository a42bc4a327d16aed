"""Windows that slide, channel by channel: a block reads only the columns of its window that are new.

A word has as many elements as the array has columns, each of another channel.  If a depthwise convolution read all
words of each window, the array would multiply in its diagonal only.  But it keeps the last words, and its columns are
columns of the window then: a block reads a word for each row of the window and each column that it moves on.

A window slides along a row, or down a column: then rows and columns change places here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from hwflow_rtl.shared.shape import Sliding

from hwflow.stages.sweep import Sweep

from .layout import Layout


@dataclass(frozen=True)
class Way:
    """The way of a window: along `axis`, 1 for a row of the frame, `step` pixels for each of `count` results, once for
    each of `lines`.  The window has `width` pixels along it and `height` across."""

    axis: int
    width: int
    height: int
    step: int
    count: int
    lines: int

    @property
    def lead(self) -> int:
        """Blocks of a line that only read: all of the first window but its newest pixels is there after them."""
        return -(-(self.width - self.step) // self.step)

    @property
    def first(self) -> int:
        """The first pixel along the way that is read, counted from the first window."""
        return self.width - self.step - self.lead * self.step

    @property
    def saved(self) -> int:
        """Words of a tile that need not be read."""
        return self.lines * self.height * (self.count * self.width - (self.lead + self.count) * self.step)


def way_of(sliding: Sliding, sweep: Sweep, x: Layout, y: Layout) -> Way | None:
    """How the window of a sweep from layout `x` to layout `y` slides in an array with room for `sliding`; None where it
    does not."""
    possible = [way for way in ways(sweep, x, y) if way.height == sliding.slide and way.width <= sliding.taps]
    return max(possible, key=lambda way: way.saved, default=None)


def sliding_of(sweeps: Sequence[Sweep], layouts: Mapping[str, Layout], columns: int) -> Sliding:
    """The windows that save most words that are read."""
    words: defaultdict[int, int] = defaultdict(int)
    widest: defaultdict[int, int] = defaultdict(int)
    for sweep in sweeps:
        y = layouts[sweep.output.name]
        fitting = [way for way in ways(sweep, layouts[sweep.inputs[0].name], y) if way.width <= columns]
        for height in {way.height for way in fitting}:
            best = max((way for way in fitting if way.height == height), key=lambda way: way.saved)
            words[height] += best.saved * -(-len(sweep.rescale.bias) // columns)
            widest[height] = max(widest[height], best.width)
    if not words:
        return Sliding()
    slide = max(words, key=lambda height: (words[height], -height))
    return Sliding(widest[slide], slide)


def ways(sweep: Sweep, x: Layout, y: Layout) -> Iterator[Way]:
    """The ways that save words, of a sweep in which each lane has its own channel."""
    if not lane_by_lane(sweep, x, y):
        return
    window = sweep.window
    steps, lines = (window.row_step[0], window.column_step[1]), (sweep.rows.count, sweep.columns.count)
    for axis in (1, 0):
        other = 1 - axis
        if window.dilations[axis] == 1 and 1 <= steps[axis] < window.kernel[axis]:
            way = Way(axis, window.kernel[axis], window.kernel[other], steps[axis], lines[axis], lines[other])
            if way.saved > 0:
                yield way


def lane_by_lane(sweep: Sweep, x: Layout, y: Layout) -> bool:
    """Whether each word of the output is computed from one word of each pixel, each lane from the same lane."""
    if (sweep.weights is None or sweep.channels is None or sweep.weights.shape[3] > 1 or sweep.window.row_step[1]
            or sweep.window.column_step[0]):
        return False
    slots = y.slots[sweep.first_channel:sweep.first_channel + len(sweep.weights)]
    sources = x.slots[sweep.channels[:, 0]]
    words = np.unique(np.stack([slots, sources]) // y.columns, axis=1)[0]
    return bool((slots % y.columns == sources % y.columns).all()) and len(words) == len(np.unique(words))
