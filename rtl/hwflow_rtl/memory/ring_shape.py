"""Rings of bursts of several streams in one memory: their places, and how often each stream may read a piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

__all__ = ["QUEUED", "REGISTERED", "RingShape", "piece_periods"]

#: Least clocks from a piece to the next of the same stream: with a register after the memory, whose latency is two
#: clocks or less, and with a queue, which wants one only where it needs it.
REGISTERED, QUEUED = 3, 2


@dataclass(frozen=True)
class RingShape:
    """Places for bursts of one stream in a memory of rings.

    Attributes
    ----------
    bits
        A place has 1 << bits pieces.
    first, places
        The number of its first place, counted from the beginning of the memory, and how many it has.
    burst, short
        Pieces of a burst, and of the last one of the image.
    """

    bits: int
    first: int
    places: int
    burst: int
    short: int

    @property
    def end(self) -> int:
        """Pieces of the memory up to its last place."""
        return self.first + self.places << self.bits


def piece_periods(paces: Sequence[Fraction]) -> tuple[int, ...]:
    """For each stream the least clocks from a piece to the next one, so that all get theirs in time.

    `paces` are the clocks a piece that each stream wants; those that want more come first.  A memory gives a piece in a
    clock, to the first stream that wants one, so a stream waits while earlier ones take theirs: the response times of
    fixed priorities (Joseph and Pandya, Finding response times in a real-time system, 1986).  Streams read more seldom
    than they could only where later ones would come too late otherwise.  ValueError where that is not enough.
    """
    longest = REGISTERED
    while longest <= paces[-1]:
        found = in_time(paces, longest)
        if found is not None:
            return found
        longest *= 2
    raise ValueError(f"streams that share a memory of rings must want pieces more seldom than in "
                     f"{', '.join(f'{float(pace):.2f}' for pace in paces)} clocks")


def in_time(paces: Sequence[Fraction], longest: int) -> tuple[int, ...] | None:
    """Periods up to `longest`; None where one stream comes too late."""
    found: list[int] = []
    for pace in paces:
        least, wait = QUEUED if pace < REGISTERED else REGISTERED, turn_wait(found, pace)
        if wait is None or least + wait > pace:
            return None
        found.append(least if least == QUEUED else max(least, min(floor(pace) - wait, longest)))
    return tuple(found)


def turn_wait(periods: Sequence[int], most: Fraction) -> int | None:
    """Clocks that those before take at most until there is one for the next; None if more than `most`."""
    wait = 0
    while wait <= most:
        taken = sum(-(-(wait + 1) // period) for period in periods)
        if taken == wait:
            return wait
        wait = taken
    return None
