"""Windows that slide along a row, channel by channel: a block reads only the columns of its window that are new.

A word has as many elements as the array has columns, each of another channel.  If a depthwise convolution read all
words of each window, the array would multiply in its diagonal only.  But it keeps the last words, and its columns are
columns of the window then: a block reads a word for each row of the window and each column that it moves on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...layers.sweep import Sweep
from .layout import Layout

__all__ = ["Sliding", "sliding_of"]


@dataclass(frozen=True)
class Sliding:
    """What the array has for such windows: `SharedShape.taps` and `slide`."""

    taps: int = 1
    slide: int = 0

    def takes(self, sweep: Sweep, x: Layout, y: Layout) -> bool:
        """Whether a sweep from layout `x` to layout `y` is computed so."""
        return (self.taps > 1 and sweep.kernel[0] == self.slide and sweep.kernel[1] <= self.taps
                and saved(sweep, x, y) > 0)

    @staticmethod
    def lead(sweep: Sweep) -> int:
        """Blocks of a row that only read: all columns of the first window are there after it."""
        step = sweep.column_step[1]
        return -(-(sweep.kernel[1] - step) // step)


def sliding_of(sweeps: Sequence[Sweep], layouts: Mapping[str, Layout], columns: int) -> Sliding:
    """What saves most words that are read."""
    words: defaultdict[int, int] = defaultdict(int)
    widest: defaultdict[int, int] = defaultdict(int)
    for sweep in sweeps:
        height, width = sweep.kernel
        if not sweep.lane_wise and width <= columns:
            less = saved(sweep, layouts[sweep.inputs[0].name], layouts[sweep.output.name])
            if less > 0:
                words[height] += less
                widest[height] = max(widest[height], width)
    if not words:
        return Sliding()
    slide = max(words, key=lambda height: (words[height], -height))
    return Sliding(widest[slide], slide)


def saved(sweep: Sweep, x: Layout, y: Layout) -> int:
    """Words that need not be read; 0 where the window does not slide, or lanes are mixed."""
    (down, right), (height, width) = sweep.column_step, sweep.kernel
    if (sweep.weights is None or sweep.channels is None or sweep.weights.shape[3] > 1 or down or sweep.row_step[1]
            or not 1 <= right < width or sweep.dilations[1] > 1):
        return 0
    slots = y.slots[sweep.first_channel:sweep.first_channel + len(sweep.weights)]
    sources = x.slots[sweep.channels[:, 0]]
    words = np.unique(np.stack([slots, sources]) // y.columns, axis=1)[0]
    if (slots % y.columns != sources % y.columns).any() or len(words) > len(np.unique(words)):
        return 0
    whole = sweep.columns.count * width
    new = (Sliding.lead(sweep) + sweep.columns.count) * right
    return len(words) * sweep.rows.count * height * (whole - new)
