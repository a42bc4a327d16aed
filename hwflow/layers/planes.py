"""How the golden model holds frames while it computes: planes.

Planes are `[channels, height, width, frames]`, in the narrowest integer type that holds the tensor's format.  The
frames are innermost: whatever a layer does to one frame is then a run of numbers without gaps in every one of numpy's
loops, and the channels, which have constants of their own, are the rows of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray, IntFormat

Planes = npt.NDArray[Any]

_TYPES = tuple(np.dtype(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"))


def compact(format: IntFormat) -> np.dtype[Any]:
    """The narrowest integer type of numpy that holds `format`."""
    for dtype in _TYPES:
        if np.iinfo(dtype).min <= format.low and format.high <= np.iinfo(dtype).max:
            return dtype
    raise ValueError(f"{format} must fit 64 bits")


def to_planes(frames: IntArray, format: IntFormat) -> Planes:
    """Frames [n, h, w, c] as planes; the integers must be inside `format`."""
    narrow = frames.astype(compact(format))
    return np.ascontiguousarray(narrow.transpose(3, 1, 2, 0))


def to_frames(planes: Planes) -> IntArray:
    """Planes as frames [n, h, w, c]."""
    return planes.transpose(3, 1, 2, 0).astype(np.int64, order="C")
