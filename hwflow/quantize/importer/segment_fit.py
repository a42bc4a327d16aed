"""Straight segments of any function of a wide integer: as few as keep it near, found by trying every input.

Cells are what a unit tells apart: every input, or with octaves the inputs whose magnitudes begin with the same bits.
Segments of each length are fitted to them all at once; a block then takes the longest ones that are near enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray, IntFormat, Tensor
from hwflow.layers.segments import Segments

Floats = npt.NDArray[np.float64]

#: Steps of the output, not rounded, that integers of the input become.
Steps = Callable[[IntArray], Floats]

#: Where no thresholds do it, tables are for inputs of up to so many bits; above there are segments.
MOST_TABLE_BITS = 14
#: The most segments; where they are not enough, those that there are keep less near.
MOST_SEGMENTS = 1024
#: Blocks with more segments than this have too many, however many are the same.
_MOST_UNSHARED = 4 * MOST_SEGMENTS
#: Inputs of more bits are told apart by their octaves alone; without, every input is tried.
MOST_UNIFORM = 16
#: Bits of a magnitude, below its highest one, that count with octaves.
_KEPT = 15
#: A slope, in parts of a step for a segment, fits so many bits: an operand of every multiplier block.
_SLOPE_BITS = 16
#: Octaves take logic, which segments of so many times as many bits are worth.
_WORTH = 2


@dataclass(frozen=True)
class Lines:
    """Segments of 2**length cells: base, slope and error [rows, segments], in 2**-fraction steps, errors in steps."""

    base: IntArray
    slope: IntArray
    error: Floats


@dataclass(frozen=True)
class Cells:
    """What a unit tells apart: for each row (an octave, or all inputs) 2**bits cells.

    `first` and `last` are the lowest and the highest input of a cell (the same where `there` is False).
    """

    first: IntArray
    last: IntArray
    there: npt.NDArray[np.bool_]

    @property
    def bits(self) -> int:
        return int(self.first.shape[1]).bit_length() - 1

    @staticmethod
    def uniform(format: IntFormat) -> Cells:
        """Every input is a cell."""
        inputs = np.arange(format.low, format.high + 1)[None]
        return Cells(inputs, inputs, np.ones(inputs.shape, bool))

    @staticmethod
    def octaves(format: IntFormat, origin: int) -> Cells:
        """A row for each number of bits of a magnitude, above the origin and then below it."""
        width = max(format.high - origin, origin - 1 - format.low, 1).bit_length()
        places, kept = width.bit_length(), min(_KEPT, width - 1)
        level = np.arange(1 << kept)
        rows = []
        for sign in range(1 + (format.low < origin)):
            for bits in range(1 << places):
                below = bits - 1 - kept
                whole = level + (1 << kept)
                first = whole << below if below >= 0 else whole >> -below
                exact = (whole >> -below << -below == whole) if below < 0 else np.ones(len(level), bool)
                there = exact if 0 < bits <= width else level == 0 if not bits else np.zeros(len(level), bool)
                first = first if 0 < bits <= width else np.zeros_like(level)
                ends = first, first + ((1 << below) - 1 if below > 0 and bits <= width else 0)
                a, b = (origin + end if not sign else origin - 1 - end for end in ends)
                there = there & (a >= format.low) & (a <= format.high)
                rows.append((np.clip(a, format.low, format.high), np.clip(b, format.low, format.high), there))
        return Cells(*(np.stack(parts) for parts in zip(*rows, strict=True)))


@dataclass(frozen=True)
class Fit:
    """Segments of the cells for a function; `low` and `high` are the ends of the result, `fraction` is that of bases.
    """

    cells: Cells
    steps: Steps
    low: int
    high: int
    fraction: int

    @cached_property
    def targets(self) -> tuple[Floats, Floats]:
        """The least and the largest step that the function has in each cell, as far as its ends and middle tell."""
        cells = self.cells
        found = [np.clip(self.steps(x), self.low, self.high)
                 for x in (cells.first, (cells.first + cells.last) // 2, cells.last)]
        return np.minimum.reduce(found), np.maximum.reduce(found)

    def lines(self, length: int) -> Lines:
        """The best segments of 2**length cells, each a line through its ends, moved to the middle of its errors."""
        there, one = self._split(self.cells.there, length), 1 << self.fraction
        least, most = (self._split(end * one, length) for end in self.targets)
        middle, place = (least + most) / 2, np.arange(1 << length) / (1 << length)
        left = there.argmax(axis=2)
        right = (1 << length) - 1 - there[:, :, ::-1].argmax(axis=2)
        ends = [np.take_along_axis(middle, at[:, :, None], 2)[:, :, 0] for at in (left, right)]
        run = (right - left) / (1 << length)
        rise = np.divide(ends[1] - ends[0], run, out=np.zeros_like(run), where=run > 0)
        some, reach = there.any(axis=2), (1 << _SLOPE_BITS - 1) - 1
        slope = np.where(some, np.rint(np.clip(rise, -reach, reach)), 0)[:, :, None]
        above = np.where(there, most - slope * place, -np.inf).max(axis=2)
        below = np.where(there, least - slope * place, np.inf).min(axis=2)
        base = np.where(some, np.rint((np.where(some, above, 0) + np.where(some, below, 0)) / 2 + one / 2), 0)
        far = np.maximum(above - (base - one / 2), base - one / 2 - below) / one
        corners = np.floor((base[:, :, None] + slope * np.array([0, 1 - 2.0**-length])) / one)
        inside = (corners >= self.low).all(axis=2) & (corners <= self.high).all(axis=2)
        error = np.where(some, np.where(inside, far, np.inf), 0.0)
        return Lines(base.astype(np.int64), slope[:, :, 0].astype(np.int64), error)

    def _split(self, array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
        return array.reshape(len(array), -1, 1 << length)

    @cached_property
    def every(self) -> tuple[Lines, ...]:
        """The lines of each length."""
        return tuple(self.lines(length) for length in range(self.cells.bits + 1))

    def plan(self, index_bits: int, near: float) -> Plan | None:
        """The blocks of all numbers of `index_bits` in each row, with errors up to `near` where cells allow it.

        None where they have too many segments.
        """
        every, fraction = self.every, self.cells.bits - index_bits
        blocks = len(self.cells.first) << index_bits
        errors = [self.every[k].error.reshape(blocks, -1).max(axis=1) for k in range(fraction + 1)]
        allowed = np.maximum(errors[0], near)
        fits = np.stack([error <= allowed for error in errors])  # [lengths, blocks]
        longest = fraction - fits[::-1].argmax(axis=0)
        if (1 << fraction - longest).sum() > _MOST_UNSHARED:
            return None
        return Plan(index_bits, fraction, fraction - longest,
                    tuple(self._of_block(every[k], blocks, b) for b, k in enumerate(longest.tolist())))

    @staticmethod
    def _of_block(lines: Lines, blocks: int, block: int) -> IntArray:
        count = lines.base.size // blocks
        part = slice(block * count, (block + 1) * count)
        return np.stack([lines.base.reshape(-1)[part], lines.slope.reshape(-1)[part]], axis=1)

    def plans(self, near: float) -> Iterator[Plan]:
        """Those that have few enough segments."""
        most = min(self.cells.bits, 10 if len(self.cells.first) == 1 else 5)
        for index_bits in range(max(0, self.cells.bits - 16), most + 1):
            plan = self.plan(index_bits, near)
            if plan is not None and plan.segments <= MOST_SEGMENTS:
                yield plan


@dataclass(frozen=True)
class Plan:
    """For each block its zoom, and the lines of its 2**zoom segments."""

    index_bits: int
    fraction_bits: int
    zooms: IntArray
    lines: tuple[IntArray, ...]

    @cached_property
    def tables(self) -> tuple[IntArray, IntArray]:
        """Blocks and lines of the layer; equal blocks share their lines.  Those of more segments come first."""
        order = np.argsort(-self.zooms, kind="stable")
        if not self.zooms.any():
            order = np.arange(len(order))
        starts, known, made, count = np.zeros(len(order), np.int64), dict[bytes, int](), list[IntArray](), 0
        for block in order.tolist():
            lines = self.lines[block]
            start = known.setdefault(lines.tobytes(), count)
            starts[block] = start
            if start == count:
                made.append(lines)
                count += len(lines)
        return np.stack([starts, self.zooms], axis=1), np.concatenate(made)

    @property
    def segments(self) -> int:
        return len(self.tables[1])

    @cached_property
    def price(self) -> int:
        """Bits of both tables; the one of blocks is there where they are not the segments."""
        blocks, lines = self.tables
        own = sum(int(end).bit_length() + 1 for end in np.abs(lines).max(axis=0))
        direct = np.array_equal(blocks[:, 0], np.arange(len(lines)))
        entry = int(blocks[:, 0].max()).bit_length() + int(self.zooms.max()).bit_length()
        return own * len(lines) + (0 if direct else entry * len(blocks))


def fitted(name: str, x: Tensor, y: Tensor, steps: Steps, ends: tuple[int, int], exact: bool = False) -> Segments:
    """The layer of the function `steps` of the integers of `x`, limited to the `ends` of those of `y`.

    Refusal where segments say nothing of it; with `exact`, where they are not the function itself.
    """
    format, bits = x.format, y.format.bits
    fraction, near = max(3, 13 - bits), 0.0 if exact else max(2.0**-4, min(0.5, 2.0 ** (bits - 13)))
    origin = min(max(x.zero_point, format.low), format.high)
    kinds = {} if format.bits > MOST_UNIFORM else {False: Fit(Cells.uniform(format), steps, *ends, fraction)}
    kinds[True] = Fit(Cells.octaves(format, origin), steps, *ends, fraction)
    while True:
        found: dict[bool, Plan] = {}
        for octaves, fit in kinds.items():
            if octaves and False in found and found[False].segments <= MOST_SEGMENTS // 2:
                continue
            plans = list(fit.plans(near))
            if plans:
                found[octaves] = min(plans, key=lambda plan: plan.price)
        if found:
            break
        near *= 2
        if exact or near > ends[1] - ends[0]:
            raise Refusal(f"its function of {format} jumps too often for {MOST_SEGMENTS} straight segments",
                          "quantize that input with 14 bits or less")
    octaves = min(found, key=lambda kind: found[kind].price * (_WORTH if kind else 1))
    plan = found[octaves]
    blocks, lines = plan.tables
    layer = Segments(
        name, (x.name,), y.name, format, octaves, origin if octaves else 0, plan.index_bits, plan.fraction_bits, blocks,
        lines, fraction, 0)
    return replace(layer, bound=bound(layer, kinds[octaves]))


def bound(layer: Segments, fit: Fit) -> int:
    """The largest difference of `layer` from the rounded function, in steps, over the ends and middles of all cells;
    without octaves, and where magnitudes have few bits, these are all inputs."""
    cells = fit.cells
    made = layer.values(cells.first)
    far = [np.maximum(np.abs(made - np.rint(end)), 0) for end in fit.targets]
    return int(np.maximum(*far)[cells.there].max())


def segment_notes(graph: LayerGraph) -> Iterator[str]:
    """What a user should know of the segments of `graph`: one line, or none."""
    layers = [layer for layer in graph.layers if isinstance(layer, Segments)]
    if not layers:
        return
    worst = max(layers, key=lambda layer: layer.bound)
    one = len(layers) == 1
    yield (f"{'a function' if one else f'{len(layers)} functions'} of more than {MOST_TABLE_BITS} bits "
           f"{'is' if one else 'are'} computed in straight segments, at most {worst.bound} "
           f"step{'s' * (worst.bound != 1)} of the result from the function"
           f"{'' if one else ' (the farthest)'}: layer '{worst.name}' ({len(worst.lines)} segments, "
           f"{graph.tensors[worst.output].format})")
