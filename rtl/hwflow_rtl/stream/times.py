"""The cycles in which beats move, as every unit computes them without simulation.

Times are int64 arrays of cycle numbers, one entry for each beat, in the order of the stream, over one or more frames.
They are exact for given arrivals, and for given times at which the beats of the output leave.  All functions are
monotonic: an earlier arrival never makes another beat later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StageTimes:
    """Cycles: `taken[k]`, in which the beats of input k are taken; `departures`, in which output beats are first valid;
    `further[k]`, the same for output k + 1 of a unit with several outputs.

    A beat that arrives (is valid at the input) in cycle t and finds room is taken in cycle t.
    """

    taken: tuple[Times, ...]
    departures: Times
    further: tuple[Times, ...] = ()


def in_turn(earliest: Times, interval: int = 1) -> Times:
    """The earliest ascending times that are not before `earliest` and at least `interval` cycles apart."""
    even = np.arange(len(earliest), dtype=np.int64) * interval
    result: Times = np.maximum.accumulate(earliest - even) + even
    return result


def with_room(earliest: Times, left: Times | None, places: int, *, back: int, block: int = 1) -> Times:
    """`earliest`, delayed so that no block of `block` beats starts before a FIFO of `places` beats has room for it.

    `left`: when the beats leave the queue; None: at once.  A place is counted `back` cycles after its beat left.
    """
    if left is None:
        return earliest
    last = np.arange(1, len(earliest) + 1) * block - places - 1  # the beat whose place the last one of a block takes
    return np.where(last < 0, earliest, np.maximum(earliest, left[np.maximum(last, 0)] + back))
