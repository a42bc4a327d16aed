"""Tensors that take the words of one that is read for the last time: a frame memory then holds one of the two.

A result may be written as soon as no later block reads its word any more.  A depthwise convolution, computed from the
top, is a row and a pixel behind the window: its output begins so much before its input.  A product of all channels of a
pixel reads its input again for each tile of channels, so it is computed in *bands* of rows, from the bottom: its output
begins a band after its input.  The weights of a band arrive anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from hwflow_rtl.shared.shape import Sliding, Sums
from hwflow_rtl.shared.steps import Compute

from hwflow.stages.stage import Life
from hwflow.stages.sweep import Line, Sweep

from ...layers.formats import IntArray
from .frame_map import Over, busiest, chains_of
from .layout import LaidOut, Layout
from .lowering import Lowering

#: An output may begin this share of its input's words before or after it.
FARTHEST = 0.5
#: Where the other operand of a sum is, while only the words of the first matter.
ELSEWHERE = 1 << 24


@dataclass(frozen=True, eq=False)
class Lowerings:
    """Makes the steps of sweeps of `laid`, whose tensors have no place yet."""

    laid: LaidOut
    needs: Sums
    buffer: int
    windows: Sliding

    def steps(self, sweep: Sweep, x: str) -> Iterable[Compute]:
        """The steps of a sweep, with its output and `x` at word 0 and all other operands elsewhere."""
        inputs = tuple(self.laid.operand(read, lambda name: 0 if name == x else ELSEWHERE) for read in sweep.inputs)
        y = self.laid.operand(sweep.output, lambda name: 0)
        return (step for step, _ in Lowering(sweep, inputs, y, self.needs, self.buffer, self.windows).steps())


@dataclass(frozen=True, eq=False)
class InPlace:
    """Finds the places for the sweeps of `lowerings.laid`; `bands` are the most of one product.

    `untouched` are tensors whose words nothing takes.  `lives` gives the lives of the tensors for the order of sweeps.
    """

    lowerings: Lowerings
    untouched: frozenset[str]
    bands: int
    lives: Callable[[Sequence[Sweep]], list[Life]]

    def found(self) -> tuple[list[Sweep], dict[str, Over]]:
        """The sweeps, some of them in bands, and which tensors are over others.

        Products become bands one after another, where most words are needed, until that is another step.
        """
        sweeps = list(self.laid.sweeps)
        over = {name: place for name in dict.fromkeys(sweep.output.name for sweep in sweeps)
                if (place := self.over(sweeps, name)) is not None}
        while True:
            lives = self.lives(sweeps)
            step, _ = busiest(lives, chains_of(lives, over))
            if step >= len(sweeps) or sweeps[step].output.name in over or not self.can_be_in_bands(sweeps, step):
                return sweeps, over
            name = sweeps[step].output.name
            cut = [*sweeps[:step], *in_bands(sweeps[step], self.bands), *sweeps[step + 1:]]
            place = self.over(cut, name)
            if place is None:
                return sweeps, over
            sweeps, over[name] = cut, place

    def can_be_in_bands(self, sweeps: Sequence[Sweep], step: int) -> bool:
        """Whether a sweep multiplies by weights, has rows to cut, and makes its output alone."""
        sweep = sweeps[step]
        alone = sum(other.output.name == sweep.output.name for other in sweeps) == 1
        return alone and sweep.weights is not None and self.bands > 1 and sweep.rows.count > 1

    def over(self, sweeps: Sequence[Sweep], name: str) -> Over | None:
        """The tensor whose words the output `name` can take, and where: the nearest, and of these the first operand."""
        steps = [k for k, sweep in enumerate(sweeps) if sweep.output.name == name]
        making = sweeps[steps[0]:steps[-1] + 1]
        views = self.laid.views
        if name in views.fixed | self.laid.kept or any(sweep.output.name != name for sweep in making):
            return None
        inputs = dict.fromkeys(x.name for sweep in making for x in sweep.inputs)
        ended = [x for x in inputs if x not in self.untouched and x not in views.views and not any(
            x == operand.name for sweep in sweeps[steps[-1] + 1:] for operand in sweep.inputs)]
        places = [Over(x, offset) for x in ended if (offset := self.offset(making, x)) is not None]
        return min(places, key=lambda place: abs(place.offset), default=None)

    def offset(self, making: Sequence[Sweep], x: str) -> int | None:
        """How many words after tensor `x` the output of `making` may begin; None where that is far."""
        y = making[0].output.name
        size = {name: self.laid.words(self.laid.tensors[name]) for name in (x, y)}
        last, writes, order = self.uses([step for sweep in making for step in self.lowerings.steps(sweep, x)], size[x])
        pixel = int(np.gcd(self.layout(x).words, self.layout(y).words))

        def possible(step: int, count: int) -> bool:
            at = writes + step * count
            inside = (at >= 0) & (at < size[x])
            return bool((last[at[inside]] <= order[inside]).all())

        farthest = int(FARTHEST * size[x]) // pixel
        offsets = ((step, least(partial(possible, step), farthest)) for step in (-pixel, pixel))
        return min((step * count for step, count in offsets if count is not None), key=abs, default=None)

    @staticmethod
    def uses(steps: Iterable[Compute], words: int) -> tuple[IntArray, IntArray, IntArray]:
        """For each of the first `words` words the last block that reads it, -1 for none; the words that are written, in
        order, and the block that writes each."""
        last, writes, order, blocks = np.full(words, -1), [], [], 0
        for step in steps:
            reads, inside = step.reads
            readers = np.broadcast_to(blocks + step.readers[..., None], reads.shape)
            used = inside & (reads >= 0) & (reads < words)
            last[reads[used]] = readers[used]  # of equal words the last one counts, and blocks are in order
            writes.append(step.writes.reshape(-1))
            order.append(blocks + step.writers.reshape(-1))
            blocks += step.loops.blocks
        return last, np.concatenate(writes), np.concatenate(order)

    @property
    def laid(self) -> LaidOut:
        return self.lowerings.laid

    def layout(self, name: str) -> Layout:
        return self.laid.layouts[name]


def least(possible: Callable[[int], bool], most: int) -> int | None:
    """The least number up to `most` that is possible, if all greater ones are; else one that is, or None."""
    low, high = 0, most + 1
    while low < high:
        middle = (low + high) // 2
        if possible(middle):
            high = middle
        else:
            low = middle + 1
    return low if low <= most and possible(low) else None


def in_bands(sweep: Sweep, bands: int) -> list[Sweep]:
    """Sweeps for `bands` bands of rows, those at the bottom first."""
    rows = -(-sweep.rows.count // bands)
    parts = []
    for first in range(0, sweep.rows.count, rows):
        count = min(rows, sweep.rows.count - first)
        begin = sweep.rows.first + first * sweep.rows.step
        down, right = (origin + first * step
                       for origin, step in zip(sweep.window.origin, sweep.window.row_step, strict=True))
        parts.append(replace(sweep, rows=Line(begin, count, sweep.rows.step),
                             window=replace(sweep.window, origin=(down, right))))
    return parts[::-1]
