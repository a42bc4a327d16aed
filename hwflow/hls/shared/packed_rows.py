"""Inputs of few channels: a word holds neighbouring pixels of a row instead of the channels of one pixel.

A row of pixels is then a row of words.  Where a window begins in a word depends on the column of the output, and so do
the weights that its lanes meet: columns with equal weights, whose windows are equally far apart, are one sweep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from hwflow.stages.sweep import Line, Sweep

from ...layers.formats import Frame, IntArray, Tensor

#: Words of windows, of those without packed rows, that are few enough: each sweep takes cycles and weights of its own.
SAVING = 0.75


@dataclass(frozen=True)
class Packed:
    """`sweeps` read `inputs`, some of which are rows of words; `loaded` says of these how many pixels of how many
    channels a `Load` takes: a row is a pixel."""

    sweeps: list[Sweep]
    inputs: list[Tensor]
    loaded: dict[str, tuple[int, int]]


def with_packed_rows(sweeps: Sequence[Sweep], inputs: Sequence[Tensor], fixed: Set[str], columns: int) -> Packed:
    """The same sweeps, with rows of words in those of `inputs` whose windows have fewer words of `columns` then, but
    for those that are `fixed`."""
    remaining, tensors, loaded = list(sweeps), [], {}
    for x in inputs:
        readers = [sweep for sweep in remaining if any(operand.name == x.name for operand in sweep.inputs)]
        packed = [list(in_rows(sweep, x, columns)) for sweep in readers if moves_along_rows(sweep)]
        if x.name in fixed or len(packed) < len(readers) or not saves(readers, packed, x, columns):
            tensors.append(x)
            continue
        tensors.append(row_tensor(x, columns))
        loaded[x.name] = x.frame.height, x.frame.width * x.frame.channels
        parts = iter(packed)
        remaining = [part for sweep in remaining for part in (next(parts) if sweep in readers else [sweep])]
    return Packed(remaining, tensors, loaded)


def row_tensor(x: Tensor, columns: int) -> Tensor:
    """The tensor with a pixel for each word of a row; the last one of a row may have lanes without an element."""
    words = -(-x.frame.width * x.frame.channels // columns)
    return replace(x, frame=Frame(x.frame.height, words, columns))


def moves_along_rows(sweep: Sweep) -> bool:
    return sweep.weights is not None and sweep.window.row_step[1] == sweep.window.column_step[0] == 0


@dataclass(frozen=True)
class Column:
    """A column of the output: the first word of its windows, their weights [channels, height, words, lanes], and by how
    much each sum grows by what is outside of a row."""

    number: int
    first: int
    weights: IntArray
    outside: IntArray


def columns_of(sweep: Sweep, x: Tensor, columns: int) -> Iterator[Column]:
    """The columns of a sweep, with words of `columns`; a column whose windows are all outside has no words."""
    assert sweep.weights is not None
    assert sweep.channels is not None
    window = sweep.window
    outputs, height = sweep.weights.shape[:2]
    for k in range(sweep.columns.count):
        at = window.origin[1] + k * window.column_step[1] + np.arange(window.kernel[1]) * window.dilations[1]
        inside = (at >= 0) & (at < x.frame.width)
        outside = sweep.weights[:, :, ~inside].sum(axis=(1, 2, 3)) * sweep.pad
        place = at[inside, None] * x.frame.channels + sweep.channels[:, None]  # [channels, taps, depth]
        first = int(place.min() // columns) if place.size else 0
        words = int(place.max() // columns) - first + 1 if place.size else 0
        weights = np.zeros((outputs, height, words * columns), np.int64)
        channel = np.arange(outputs)[:, None, None]
        weights[channel, :, place - first * columns] = sweep.weights[:, :, inside].transpose(0, 2, 3, 1)
        yield Column(k, first, weights.reshape(outputs, height, words, columns), outside)


def in_rows(sweep: Sweep, x: Tensor, columns: int) -> Iterator[Sweep]:
    """The sweeps that read rows of words instead of `sweep`."""
    alike: defaultdict[tuple[bytes, bytes, int], list[Column]] = defaultdict(list)
    for column in columns_of(sweep, x, columns):
        alike[column.weights.tobytes(), column.outside.tobytes(), column.weights.shape[2]].append(column)
    for group in alike.values():
        for run in runs(group):
            first, far = run[0], run[1].number - run[0].number if len(run) > 1 else 1
            step = run[1].first - first.first if len(run) > 1 else 0
            rescale = sweep.rescale
            yield replace(
                sweep, inputs=(row_tensor(x, columns),), window=replace(
                    sweep.window, kernel=first.weights.shape[1:3], dilations=(sweep.window.dilations[0], 1),
                    origin=(sweep.window.origin[0], first.first), column_step=(0, step)),
                columns=Line(sweep.columns.first + first.number * sweep.columns.step, len(run),
                             far * sweep.columns.step),
                weights=first.weights, channels=np.broadcast_to(np.arange(columns), (len(first.weights), columns)),
                rescale=replace(rescale, bias=rescale.bias + (first.outside << rescale.fraction)))


def runs(group: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """Columns that are equally far apart, and whose windows are, together."""
    begin = 0
    while begin < len(group):
        end = begin + 1
        while end < len(group) and steps(group, end) == steps(group, begin + 1):
            end += 1
        yield group[begin:end]
        begin = end


def steps(group: Sequence[Column], k: int) -> tuple[int, int]:
    return group[k].number - group[k - 1].number, group[k].first - group[k - 1].first


def saves(readers: Sequence[Sweep], packed: Sequence[Sequence[Sweep]], x: Tensor, columns: int) -> bool:
    """Whether the windows of the packed sweeps have fewer words, and none is empty."""
    words = -(-x.frame.channels // columns)
    before = sum(sweep.window.kernel[0] * sweep.window.kernel[1] * words * sweep.columns.count for sweep in readers)
    after = [part.window.kernel[0] * part.window.kernel[1] * part.columns.count for parts in packed for part in parts]
    return all(after) and sum(after) < before * SAVING
