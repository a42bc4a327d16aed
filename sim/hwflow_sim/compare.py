"""Equality of what a boundary recorded and what it should have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .packing import unpack
from .results import Boundary, Difference, Values

__all__ = ["first_difference", "narrow_frames", "whole_frames"]


def first_difference(boundary: Boundary, beats: npt.NDArray[np.uint64],
                     expected: npt.NDArray[np.int64]) -> Difference | None:
    """The first element of uint64[beats, words] that is not that of int64[n, elements]; None if all that are due came
    and are equal.  Frame by frame, so that memory does not grow with the number of frames."""
    per_frame = boundary.beats_per_frame
    for frame, wanted in enumerate(expected):
        got = unpack(beats[frame * per_frame : (frame + 1) * per_frame], lanes=boundary.lanes, shape=boundary.shape)
        unequal = np.flatnonzero(got != wanted[: len(got)])
        if len(unequal):
            index = int(unequal[0])
            return Difference(frame, index, int(wanted[index]), int(got[index]))
        if len(got) < len(wanted):
            return Difference(frame, len(got), int(wanted[len(got)]), None)
    return None


def whole_frames(boundary: Boundary, beats: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.int64]:
    """The complete frames among the beats, `count` at most: int64[n, elements]."""
    frames = min(len(beats) // boundary.beats_per_frame, count)
    elements = unpack(beats[: frames * boundary.beats_per_frame], lanes=boundary.lanes, shape=boundary.shape)
    return elements.reshape(frames, boundary.elements_per_frame)


def narrow_frames(boundary: Boundary, beats: npt.NDArray[np.uint64], count: int) -> Values:
    """As `whole_frames`, in the narrowest type that holds the elements, and made frame by frame to save memory."""
    per_frame = boundary.beats_per_frame
    size = next(bits for bits in (8, 16, 32, 64) if boundary.shape.width <= bits)
    frames = np.empty((min(len(beats) // per_frame, count), boundary.elements_per_frame),
                      f"{'i' if boundary.shape.signed else 'u'}{size // 8}")
    for k, frame in enumerate(frames):
        frame[:] = unpack(beats[k * per_frame : (k + 1) * per_frame], lanes=boundary.lanes, shape=boundary.shape)
    return frames
