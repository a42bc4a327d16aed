"""`WordJoin` joins beats into the words of a matrix stage, if its channels are not a whole number of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .gearbox import join_beats
from .pipeline import Nest
from .queue import Queue
from .streams import stream_of
from .times import Times, in_turn

IntArray = npt.NDArray[np.int64]

#: Beats that wait in front of a word while it waits for its reader, and cycles of a beat in its first register.
SKID, STAGE = 2, 1


def spaced(earliest: Times, spacing: IntArray) -> Times:
    """The earliest times that are not before `earliest`, each at least `spacing[k]` cycles after the one before it."""
    even = np.cumsum(spacing)
    result: Times = np.maximum.accumulate(earliest - even) + even
    return result


@dataclass(frozen=True, kw_only=True)
class WordJoinShape:
    """Beats of `lanes_in` elements become words of `lanes` elements; every `chunk` elements a new word begins."""

    element: Shape
    lanes_in: int
    lanes: int
    chunk: int

    def __post_init__(self) -> None:
        if self.lanes % self.lanes_in or self.chunk % self.lanes_in or self.lanes == self.lanes_in:
            raise ValueError(f"lanes_in of a WordJoin must be less than its {self.lanes} lanes and divide them and a "
                             f"chunk of {self.chunk} elements, not {self.lanes_in}")

    @property
    def beats(self) -> IntArray:
        """Beats of each word of a chunk."""
        words = -(-self.chunk // self.lanes)
        counts = np.full(words, self.lanes // self.lanes_in)
        counts[-1] = (self.chunk - (words - 1) * self.lanes) // self.lanes_in
        return counts

    def earliest(self, arrivals: Times) -> tuple[Times, IntArray]:
        """The cycles in which words are ready, for beats that arrive as `arrivals` says, and the least cycles between
        words.

        The latter count from the cycle in which the word before was taken.
        """
        beats = self.beats
        spacing = np.tile(beats, len(arrivals) // int(beats.sum()))
        ends = np.cumsum(spacing)
        behind = np.repeat(ends, spacing) - np.arange(len(arrivals))  # beats of the word, from this one on
        return np.maximum.reduceat(arrivals + STAGE + behind, ends - spacing), spacing

    def taken(self, arrivals: Times, words: Times, spacing: IntArray) -> Times:
        """The cycles in which beats are taken, if words are taken as `words` says."""
        ready = arrivals + STAGE
        first = np.cumsum(spacing)[:-1]
        ready[first] = np.maximum(ready[first], words[:-1])
        left, entered = in_turn(ready), arrivals.copy()
        entered[SKID:] = np.maximum(entered[SKID:], left[:-SKID] + 1)
        return in_turn(entered)

    def cost(self) -> Resources:
        """Estimate."""
        parts, count = self.lanes // self.lanes_in, (self.chunk // self.lanes_in).bit_length()
        waiting = Queue.cost(width=self.lanes_in * self.element.width, depth=SKID)  # as much as two words of a FIFO
        word = Resources(ff=self.lanes * self.element.width)
        return waiting + fitted("WordJoin", parts=parts, count_bits=count) + word

    def build(self) -> WordJoin:
        return WordJoin(shape=self)


class WordJoin(wiring.Component):
    """Joins the beats of `shape` into words.

    The last word of a chunk may have unused lanes with undefined values: its reader multiplies them by 0, or drops the
    product.  A word needs no beat of the next chunk.

    Latency from a word's last beat to the word: 2 cycles.  One beat in every cycle.
    """

    def __init__(self, *, shape: WordJoinShape):
        self.shape = shape
        super().__init__({
            "i": In(stream_of(shape.element, shape.lanes_in)), "o": Out(stream_of(shape.element, shape.lanes))})

    def model(self, frames: IntArray) -> IntArray:
        """[n, height, width, channels] with zeros where the last words of chunks are empty."""
        chunk, lanes = self.shape.chunk, self.shape.lanes
        chunks = np.asarray(frames, dtype=np.int64).reshape(*frames.shape[:3], -1, chunk)
        padded = np.pad(chunks, [(0, 0)] * 4 + [(0, -chunk % lanes)])
        return padded.reshape(*frames.shape[:3], -1)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        parts = shape.lanes // shape.lanes_in
        words = [Signal(len(Value.cast(self.i.payload)), name=f"part{k}", reset_less=True) for k in range(parts)]
        chunk = Nest(m, (shape.chunk // shape.lanes_in,), name="beat")
        m.d.comb += Value.cast(self.o.payload).eq(Cat(*words))
        chunk.advance(join_beats(m, self.i, words, self.o, chunk.last[0]))
        return m
