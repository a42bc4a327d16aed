"""`WeightSharing`: how streams of weights share a memory, in exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np
import numpy.typing as npt
from amaranth.utils import ceil_log2

from .part import MemoryPart
from .ring_shape import RingShape, piece_periods
from .weight_image import WeightImage
from .weight_stream import WeightStream

__all__ = ["WeightSharing"]

#: Share of the pace of one long read that bursts of the stream with the most weights keep.  More takes more RAM.
SHARE = Fraction(29, 30)
#: The longest burst is at most so many times as long as any other one.
LONGEST = 8
#: Clocks from a place that is freed in a reader's queue to the transfer of its request, and from the controller's
#: `read` to the output of the queue.
WAY = 8


@dataclass(frozen=True)
class WeightSharing:
    """Each stream reads its image in bursts, in turn with the others.

    The lengths of the bursts are in proportion to the words of the images, so that the frames of all streams take the
    same number of turns.  The part decides the longest burst (`longest_burst`); no other one is shorter than
    1 / `LONGEST` of it, or the whole image.  All bursts of an image are as long as its first one, but for the last.

    A *round* is a burst of each stream.  No stream waits longer for its turn, whatever the others do.  A stream alone
    reads its image as one burst.
    """

    part: MemoryPart
    streams: tuple[WeightStream, ...]

    def __post_init__(self):
        if not self.streams:
            raise ValueError("streams must have at least one stream")

    @cached_property
    def images(self) -> tuple[WeightImage, ...]:
        return tuple(WeightImage(stream, self.part.width) for stream in self.streams)

    def image(self, beats: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """The words of memory, int64[words], for int64[beats, lanes] of each stream."""
        images = [image.of(each) for image, each in zip(self.images, beats, strict=True)]
        if not self.side_by_side:
            return np.concatenate(images)
        words = np.zeros(max(self.turns) * self.stride, dtype=np.int64)
        for first, burst, image in zip(self.firsts, self.bursts, images, strict=True):
            place = np.arange(len(image))
            words[first + place // burst * self.stride + place % burst] = image
        return words[:self.words]

    @property
    def side_by_side(self) -> bool:
        """The streams have one reader and one queue memory, and bursts of a round stand side by side.

        So it is where the memory gives pieces of words: a memory that gives a word in every clock has a queue for each
        stream, because one memory cannot give all streams their words in time.
        """
        return len(self.streams) > 1 and self.part.piece < self.part.width

    @property
    def stride(self) -> int:
        """Words from a round of bursts side by side to the next, a power of two."""
        return 1 << ceil_log2(sum(self.bursts))

    @property
    def last_bursts(self) -> tuple[int, ...]:
        """Words of the last burst of each image."""
        return tuple(image.words - (turns - 1) * burst
                     for image, turns, burst in zip(self.images, self.turns, self.bursts, strict=True))

    @cached_property
    def rings(self) -> tuple[RingShape, ...]:
        """Of a reader for all streams, the places for bursts of each of them in its memory.

        A burst is read when all of it is there.  The places that are left are read at the guaranteed pace, a round
        each, while a burst is waited for that was asked for when a place became free.
        """
        pieces, clocks, end = self.part.width // self.part.piece, self.part.clocks, 0
        rings: dict[int, RingShape] = {}
        for n in sorted(range(len(self.bursts)), key=lambda k: -self.bursts[k]):
            burst, short = pieces * self.bursts[n], pieces * self.last_bursts[n]
            bits = ceil_log2(burst)
            wait = self.worst_wait(n) + clocks.with_pauses(self.burst_clocks[n])
            places = 1 + ceil(wait / self.round_clocks)
            rings[n] = RingShape(bits, end >> bits, places, burst, short)
            end += places << bits
        return tuple(rings[n] for n in range(len(rings)))

    @property
    def ring_pieces(self) -> int:
        """Of the memory of all rings."""
        return max(ring.end for ring in self.rings)

    @property
    def by_pace(self) -> tuple[int, ...]:
        """The streams in the order in which a reader for all of them gives pieces: those with the most come first."""
        return tuple(sorted(range(len(self.bursts)), key=lambda n: -self.bursts[n]))

    @cached_property
    def periods(self) -> tuple[int, ...]:
        """Least clocks from a piece that a reader for all streams gives one of them to the next.

        ValueError where the streams want more pieces than a memory gives.
        """
        pieces = self.part.width // self.part.piece
        periods = piece_periods([self.round_clocks / (pieces * self.bursts[n]) for n in self.by_pace])
        return tuple(periods[self.by_pace.index(n)] for n in range(len(self.bursts)))

    @property
    def words(self) -> int:
        """Of all images, and the gaps between bursts that stand side by side."""
        if not self.side_by_side:
            return sum(image.words for image in self.images)
        return max((turns - 1) * self.stride + first + last
                   for turns, first, last in zip(self.turns, self.firsts, self.last_bursts, strict=True))

    @property
    def firsts(self) -> tuple[int, ...]:
        """The addresses of the images, or of their first bursts."""
        sizes = self.bursts if self.side_by_side else [image.words for image in self.images]
        return tuple(sum(sizes[:n]) for n in range(len(sizes)))

    @cached_property
    def bursts(self) -> tuple[int, ...]:
        """Words of a burst of each stream."""
        if len(self.images) == 1:
            return (self.images[0].words,)
        longest, most = self.longest_burst, max(image.words for image in self.images)
        return tuple(even(image.words, max(longest // LONGEST, ceil(Fraction(longest * image.words, most))))
                     for image in self.images)

    @property
    def longest_burst(self) -> int:
        """Words of the burst of the largest image: the fewest that keep `SHARE`, a power of two, at least `LONGEST`.

        Pauses take the same share of long and of short reads, so they do not count.
        """
        clocks, words = self.part.clocks, LONGEST
        while words / Fraction(clocks.read_clocks(words)) < SHARE * clocks.sustained_share / clocks.unpaused_share:
            words *= 2
        return words

    @property
    def turns(self) -> tuple[int, ...]:
        """Bursts of a frame of each stream."""
        return tuple(-(-image.words // burst) for image, burst in zip(self.images, self.bursts, strict=True))

    @cached_property
    def burst_clocks(self) -> tuple[int, ...]:
        """Most clocks that a burst of each stream takes, without pauses of the memory."""
        return tuple(self.part.clocks.read_clocks(burst) for burst in self.bursts)

    @cached_property
    def round_clocks(self) -> Fraction:
        """Most clocks of a round over a long time, pauses included."""
        return sum(self.burst_clocks) / self.part.clocks.unpaused_share

    def worst_wait(self, n: int) -> int:
        """Most clocks from the moment when the queue of stream `n` has room for a burst to its first word at the output
        of the queue: a burst that was just begun, one of each other stream, and the latency of its own."""
        others = [clocks for k, clocks in enumerate(self.burst_clocks) if k != n]
        clocks = self.part.clocks
        return clocks.with_pauses(max(others, default=0) + sum(others)) + clocks.worst_latency + WAY

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Words of the queue of each stream; 0 for a stream alone, which blocks nobody.

        While a burst is waited for, the words that are there last at the guaranteed pace; where the other streams want
        nothing, the next burst is asked for while one comes.
        """
        if len(self.streams) == 1:
            return (0,)
        assert not self.side_by_side, "these have rings"
        clocks = self.part.clocks
        return tuple(max(burst + ceil((self.worst_wait(n) + clocks.worst_gap) * burst / self.round_clocks),
                         2 * burst + WAY + clocks.worst_latency - clocks.worst_gap)
                     for n, burst in enumerate(self.bursts))

    def guaranteed(self, ratio: Fraction | int = 1) -> tuple[Fraction, ...]:
        """For each stream the cycles of its reader a beat, on average of a frame, that it never has to exceed.

        `ratio` is the clock of what takes the beats divided by that of the memory.  A piece of a word and a beat, also
        one that is dropped, take at least a cycle.
        """
        pieces = self.part.width // self.part.piece
        return tuple(
            max(turns * self.round_clocks * ratio,
                Fraction(max(pieces * image.words, image.padded_beats))) / image.stream.beats
            for turns, image in zip(self.turns, self.images, strict=True))


def even(words: int, most: int) -> int:
    """The length of pieces of at most `most` words, as many as `words` need, and all but the last of them equal."""
    return -(-words // -(-words // most))


