"""Inputs of few channels: a word holds neighbouring pixels of a row instead of the channels of one pixel.

A row of pixels is then a pixel of many channels, in the same raster.  A window that moves along the row reads other
channels for each column of the output, so each column is a sweep with weights of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...layers.formats import Frame, Tensor
from ...layers.sweep import Line, Sweep

__all__ = ["with_packed_rows"]

#: Words of windows, of those without rows as pixels, that are few enough: each column takes cycles and weights.
SAVING = 0.75


def with_packed_rows(sweeps: Sequence[Sweep], inputs: Sequence[Tensor],
                     columns: int) -> tuple[list[Sweep], list[Tensor]]:
    """The same sweeps, with rows as pixels in those of `inputs` whose windows have fewer words of `columns` then."""
    made, tensors = list(sweeps), []
    for x in inputs:
        readers = [sweep for sweep in made if any(each.name == x.name for each in sweep.inputs)]
        packed = [list(by_column(sweep, x)) for sweep in readers if moves_along_rows(sweep)]
        if len(packed) < len(readers) or not saves(readers, packed, x, columns):
            tensors.append(x)
            continue
        tensors.append(row_tensor(x))
        parts = iter(packed)
        made = [part for sweep in made for part in (next(parts) if sweep in readers else [sweep])]
    return made, tensors


def row_tensor(x: Tensor) -> Tensor:
    """The tensor with a pixel for each row."""
    return replace(x, frame=Frame(x.frame.height, 1, x.frame.width * x.frame.channels))


def moves_along_rows(sweep: Sweep) -> bool:
    return sweep.weights is not None and sweep.row_step[1] == sweep.column_step[0] == 0


def by_column(sweep: Sweep, x: Tensor) -> Iterator[Sweep]:
    """A sweep for each column of the output; what the window has outside of a row is a constant of the sum."""
    assert sweep.weights is not None
    assert sweep.channels is not None
    width, channels, rescale = x.frame.width, x.frame.channels, sweep.rescale
    for k in range(sweep.columns.count):
        at = sweep.origin[1] + k * sweep.column_step[1] + np.arange(sweep.kernel[1]) * sweep.dilations[1]
        inside = (at >= 0) & (at < width)
        taps = sweep.weights[:, :, inside]
        outputs, height, count, depth = taps.shape
        outside = sweep.weights[:, :, ~inside].sum(axis=(1, 2, 3)) * sweep.pad
        yield replace(
            sweep, inputs=(row_tensor(x),), kernel=(height, 1), dilations=(sweep.dilations[0], 1),
            columns=Line(sweep.columns.first + k * sweep.columns.step, 1), origin=(sweep.origin[0], 0),
            column_step=(0, 0), weights=taps.reshape(outputs, height, 1, count * depth),
            channels=(at[inside, None] * channels + sweep.channels[:, None]).reshape(outputs, count * depth),
            rescale=replace(rescale, bias=rescale.bias + (outside << rescale.fraction)))


def saves(readers: Sequence[Sweep], packed: Sequence[Sequence[Sweep]], x: Tensor, columns: int) -> bool:
    """Whether the windows of the packed sweeps have fewer words, and none is empty."""
    before = after = 0
    for sweep, parts in zip(readers, packed, strict=True):
        words = -(-x.frame.channels // columns)
        before += sweep.kernel[0] * sweep.kernel[1] * words * sweep.columns.count
        for part in parts:
            assert part.channels is not None
            if not part.channels.shape[1]:
                return False
            after += part.kernel[0] * int((part.channels.max() // columns) - (part.channels.min() // columns) + 1)
    return 0 < after < before * SAVING

