"""A row of an input as a picture, where its shape is that of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array

#: The longer side of a picture at most: a dozen of them are some 100 kB.
MOST_PIXELS = 64
#: A side with fewer elements than this makes a line, not a picture.
_LEAST_PIXELS = 4
#: Channels that are grey, and red, green and blue.
_CHANNELS = (1, 3)

Pixels = npt.NDArray[np.uint8]


def picture_of(row: Array) -> Pixels | None:
    """The picture of `row`, uint8[height, width, 1 or 3]; None where its shape is not that of an image.

    That is [1, c, h, w] or [1, h, w, c] with 1 or 3 channels, or [1, h, w].  Elements of 8 bits without a sign are
    shown as they are, others from black, the smallest one of the row, to white, the largest.  A picture with more than
    `MOST_PIXELS` pixels on a side is reduced: each pixel is the mean of a square.
    """
    image = _image(row)
    if image is None:
        return None
    values = image.astype(np.float64)
    if row.dtype != np.uint8:
        finite = values[np.isfinite(values)]
        low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
        span = high / 2 - low / 2  # halves: the span of the largest floats is no float
        values = (values / 2 - low / 2) / span * 255 if 0 < span < np.inf else np.full(values.shape, 127.0)
    return np.asarray(np.rint(np.clip(np.nan_to_num(_reduced(values), nan=0.0), 0, 255)), np.uint8)


def _image(row: Array) -> npt.NDArray[Any] | None:
    """`row` as [height, width, channels]."""
    if row.dtype.kind not in "biuf" or row.ndim not in (3, 4) or row.shape[0] != 1:
        return None
    if row.ndim == 3:
        image = row[0][:, :, None]
    elif row.shape[1] in _CHANNELS and min(row.shape[2:]) >= _LEAST_PIXELS:
        image = np.moveaxis(row[0], 0, -1)
    else:
        image = row[0]
    fits = image.shape[2] in _CHANNELS and min(image.shape[:2]) >= _LEAST_PIXELS
    return image if fits else None


def _reduced(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The means of squares whose size makes the longer side fit; those at the end are filled up with the last ones."""
    height, width, channels = values.shape
    size = -(-max(height, width) // MOST_PIXELS)
    if size == 1:
        return values
    rows, cols = -(-height // size), -(-width // size)
    padded = np.pad(values, ((0, rows * size - height), (0, cols * size - width), (0, 0)), mode="edge")
    return np.asarray(padded.reshape(rows, size, cols, size, channels).mean(axis=(1, 3)))
