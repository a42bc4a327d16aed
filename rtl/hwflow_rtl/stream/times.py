"""When beats move: the vocabulary in which every unit says, ahead of any simulation, in which cycle what leaves it.

Times are int64 arrays of cycle numbers, one entry a beat, in the order of the stream, over one frame or several.  They
are exact for a unit whose output is taken at once.  All functions are monotone: what arrives earlier makes nothing
later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["StageTimes", "Times", "in_turn"]

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StageTimes:
    """`taken[k]`: when the beats of input k are taken; `departures`: when the beats of the output are first valid.

    A beat that arrives (is valid at the input) in cycle t and finds room is taken in cycle t.
    """

    taken: tuple[Times, ...]
    departures: Times


def in_turn(earliest: Times, interval: int = 1) -> Times:
    """The first times that are not before `earliest`, in order, and `interval` cycles or more apart."""
    even = np.arange(len(earliest), dtype=np.int64) * interval
    result: Times = np.maximum.accumulate(earliest - even) + even
    return result
