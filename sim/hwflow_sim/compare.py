"""Equality of what a boundary recorded and what it should have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .packing import unpack
from .results import Boundary, Difference, Values


def first_difference(boundary: Boundary, beats: npt.NDArray[np.uint64],
                     expected: npt.NDArray[np.int64]) -> Difference | None:
    """The first element of uint64[beats, words] that is not that of int64[n, elements]; None if all that are due came
    and are equal.  Frame by frame, so that memory does not grow with the number of frames."""
    per_frame = boundary.beats_per_frame
    for frame, wanted in enumerate(expected):
        got, places = elements_of(boundary, beats[frame * per_frame : (frame + 1) * per_frame])
        came = places[: len(got)]
        unequal = np.flatnonzero(got != wanted[came])
        if len(unequal):
            index = int(came[unequal[0]])
            return Difference(frame, index, int(wanted[index]), int(got[unequal[0]]))
        if len(got) < len(places):
            index = int(places[len(got)])
            return Difference(frame, index, int(wanted[index]), None)
    return None


def elements_of(boundary: Boundary, beats: npt.NDArray[np.uint64]
                ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The elements in the beats of a frame, in the order in which they came, and where each of the frame, came or not,
    belongs: int64[those that came], int64[elements of a frame]."""
    got = unpack(beats, lanes=boundary.lanes, shape=boundary.carried)
    if boundary.order is None:
        return got, np.arange(boundary.elements_per_frame)
    real = boundary.order.places >= 0
    return got[real[: len(got)]] + boundary.order.offset, boundary.order.places[real]


def whole_frames(boundary: Boundary, beats: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.int64]:
    """The complete frames among the beats, `count` at most: int64[n, elements]."""
    return narrow_frames(boundary, beats, count).astype(np.int64)


def narrow_frames(boundary: Boundary, beats: npt.NDArray[np.uint64], count: int) -> Values:
    """The same as `whole_frames`, in the narrowest type that holds the elements, and made frame by frame to save
    memory."""
    per_frame = boundary.beats_per_frame
    size = next(bits for bits in (8, 16, 32, 64) if boundary.shape.width <= bits)
    frames = np.empty((min(len(beats) // per_frame, count), boundary.elements_per_frame),
                      f"{'i' if boundary.shape.signed else 'u'}{size // 8}")
    for k, frame in enumerate(frames):
        got, places = elements_of(boundary, beats[k * per_frame : (k + 1) * per_frame])
        frame[places] = got
    return frames
