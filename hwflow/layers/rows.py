"""Layers that look at rows: runs of as many elements of the raster as are normalized together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.planes import Planes, compact

#: Numbers of 64 bits that are computed with at a time.
_BLOCK = 1 << 16


def rows_mapped(x: Planes, elements: int, output: IntFormat, made_of: Callable[[IntArray, int], IntArray]) -> Planes:
    """`made_of` of the rows of each frame, some rows of all frames at a time: int64 [rows, elements, frames].

    It is told the number of the first row.
    """
    channels, height, width, frames = x.shape
    raster = x.transpose(1, 2, 0, 3).reshape(channels * height * width // elements, elements, frames)
    made = np.empty(raster.shape, compact(output))
    step = max(1, _BLOCK // max(1, elements * frames))
    for start in range(0, len(raster), step):
        made[start:start + step] = made_of(raster[start:start + step].astype(np.int64), start)
    return np.ascontiguousarray(made.reshape(height, width, channels, frames).transpose(2, 0, 1, 3))
