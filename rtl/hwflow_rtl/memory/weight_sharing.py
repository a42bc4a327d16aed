"""Exact numbers of what streams of weights take of a memory: their images, their rings, their share of the pace.

`WeightSharing` decides for all streams of a memory; the gateware (`WeightMemory`) is built from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, lcm

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape
from amaranth.utils import ceil_log2

from .part import MemoryPart


@dataclass(frozen=True)
class WeightStream:
    """`beats` beats of `lanes` elements of `shape`, for each frame the same."""

    shape: Shape
    lanes: int
    beats: int

    def __post_init__(self):
        for name in ("lanes", "beats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def width(self) -> int:
        """Bits of a beat."""
        return self.lanes * self.shape.width

    @property
    def bits(self) -> int:
        """The bits of a frame."""
        return self.beats * self.width


# Rings of bursts of several streams in one memory: their places, and how often each stream may read a piece.


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
        periods = in_time(paces, longest)
        if periods is not None:
            return periods
        longest *= 2
    raise ValueError(f"streams that share a memory of rings must want pieces more seldom than in "
                     f"{', '.join(f'{float(pace):.2f}' for pace in paces)} clocks")


def in_time(paces: Sequence[Fraction], longest: int) -> tuple[int, ...] | None:
    """Periods up to `longest`; None where one stream comes too late."""
    periods: list[int] = []
    for pace in paces:
        least, wait = QUEUED if pace < REGISTERED else REGISTERED, turn_wait(periods, pace)
        if wait is None or least + wait > pace:
            return None
        periods.append(least if least == QUEUED else max(least, min(floor(pace) - wait, longest)))
    return tuple(periods)


def turn_wait(periods: Sequence[int], most: Fraction) -> int | None:
    """Clocks that those before take at most until there is one for the next; None if more than `most`."""
    wait = 0
    while wait <= most:
        taken = sum(-(-(wait + 1) // period) for period in periods)
        if taken == wait:
            return wait
        wait = taken
    return None


#: Bits of the registers that a change of width goes through.
WIDEST_GROUP = 2048


@dataclass(frozen=True)
class WeightImage:
    """The weights of `stream` in words of `word` bits.

    The elements follow each other without gaps, the first in the low bits of the first word.  The image ends where a
    beat and a word end together: what that adds is read and dropped, so that every frame begins with a word of memory.
    """

    stream: WeightStream
    word: int

    def __post_init__(self):
        if self.group > WIDEST_GROUP:
            raise ValueError(f"beats of {self.stream.width} bits must end with a word of {self.word} bits after at "
                             f"most {WIDEST_GROUP} bits, not {self.group}; choose another number of lanes")

    @staticmethod
    def possible(stream: WeightStream, word: int) -> bool:
        """Beats and words end together soon enough."""
        return lcm(stream.width, word) <= WIDEST_GROUP

    @property
    def group(self) -> int:
        """Bits after which a beat and a word end together."""
        return lcm(self.stream.width, self.word)

    @property
    def padded_beats(self) -> int:
        """Beats of a frame and those that are dropped."""
        together = self.group // self.stream.width
        return -(-self.stream.beats // together) * together

    @property
    def words(self) -> int:
        """Words of memory that the image takes."""
        return self.padded_beats * self.stream.width // self.word

    def of(self, beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The words of memory, int64[words], for elements int64[beats, lanes]."""
        stream = self.stream
        elements = np.zeros(self.padded_beats * stream.lanes, dtype=np.int64)
        elements[:stream.beats * stream.lanes] = np.asarray(beats).reshape(-1)
        bits = elements[:, None] >> np.arange(stream.shape.width) & 1
        return bits.reshape(self.words, self.word) @ (1 << np.arange(self.word, dtype=np.int64))

    def model(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The beats of a frame, int64[beats, lanes], for the words of the image."""
        shape = self.stream.shape
        bits = np.asarray(words, dtype=np.int64)[:, None] >> np.arange(self.word) & 1
        weights = 1 << np.arange(shape.width, dtype=np.int64)
        if shape.signed:
            weights[-1] = -weights[-1]
        elements = bits.reshape(-1, shape.width) @ weights
        return elements.reshape(self.padded_beats, self.stream.lanes)[:self.stream.beats]


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
        """The rings of a reader for all streams, the places for bursts of each of them in its memory.

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
        """The pieces of the memory of all rings."""
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
        """The words of all images, and the gaps between bursts that stand side by side."""
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
