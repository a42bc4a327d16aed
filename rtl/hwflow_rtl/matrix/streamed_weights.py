"""`StreamSource`: weights that arrive as a stream, once for each frame.  A matrix stage has either this source or ROMs.

    weights ─▶ TileFiller ─▶ TileBuffer of each bank ─▶ multipliers

A *tile* is the weights of a block.  If a frame has several output pixels, a tile is the weights that all of them read:
each block reads it from its start, and the last one frees it.  The buffer of a bank is a ring with room for two tiles:
while one is read, the next one is filled.  A block starts when its tile is complete, so it never waits between its
first beat and its last.  The stream has the tiles in the order in which blocks read them (`weight_beats`), so no
address has to be sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..stream.deep_queue import pointer
from ..stream.pipeline import Nest, adder_luts, delay, flip_flops
from ..stream.times import Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .array import weight_words
from .shape import MatrixShape
from .weights import BankWords, Contents, WeightSource

#: Counters of a `TileFiller` in carry chains: an address, words of a tile, free places, tiles.
CHAINS = 4
#: Weights count as slow if they take at least this many times the cycles of their block to arrive.
SLOW = 2


def weight_beats(shape: MatrixShape, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Lay out what the stream `weights` has for a frame of each pass: int64[shape.weight_beats, shape.weight_lanes].

    `weights` are those of the stage.  A beat has the columns of `rows` rows, row after row; the rows of a word of
    activations follow each other, then come those of the next word.  `WeightImage.of` makes the words of a memory
    of them.
    """
    words = shape.products.weight.encoded(weight_words(shape, weights))
    return np.asarray(words, dtype=np.int64).reshape(shape.weight_beats, shape.weight_lanes)


@dataclass(frozen=True)
class StreamSource(WeightSource):
    """A buffer for each bank, filled by the stage's stream `weights`.

    rows
        Rows whose weights arrive in a beat.  They divide the rows of the stage, and are one bank or several.
    interval
        Cycles from beat to beat that the stream keeps up; `MatrixShape.cycles()` counts on it.
    """

    rows: int
    interval: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"rows of a StreamSource must be at least 1, not {self.rows}")
        if self.interval < 1:
            raise ValueError(f"interval of a StreamSource must be at least 1 cycle, not {self.interval}: a beat moves "
                             "in a cycle")

    @property
    def arriving_rows(self) -> int:
        return self.rows

    def block_cycles(self, words: int) -> int:
        return math.ceil(words * self.interval)

    def latency(self, technology: Technology) -> int:
        return technology.timing.ram

    def places(self, words: BankWords) -> int:
        """Words of the ring: two tiles.  If tiles have few words, it is one tile and the words that can arrive between
        the moment when a place is freed and the block that reads its new word, so that tiles follow without a pause.

        If a single block reads a tile, and the tile takes `SLOW` times as long to arrive, half a tile more is enough:
        its places become free one after the other while the block reads.
        """
        least = words.beats + freed_after(words) + 2
        parts = words.banks * words.rows // self.rows
        if words.pixels == 1 and self.interval * parts >= SLOW:
            return max(words.beats + words.beats // 2, least)
        return max(2 * words.beats, least)

    def cost(self, words: BankWords, technology: Technology) -> Resources:
        return technology.ram_cost(width=words.width, depth=self.places(words), name="weights", holds=Holds.WEIGHTS)

    def control_cost(self, words: BankWords, technology: Technology) -> Resources:
        places = self.places(words)
        address = (places - 1).bit_length()
        bits = address + places.bit_length() + (words.beats - 1).bit_length() + (places // words.beats).bit_length()
        parts = words.banks * words.rows // self.rows
        chains = CHAINS * adder_luts(0, technology)
        control = fitted("TileFiller", counter_bits=bits, parts=parts)
        total = Resources(lut=control.lut + chains) + flip_flops(control.ff + freed_after(words), freed_after(words),
                                                                 technology)
        if words.pixels == 1:
            return total
        loops = Nest.bits((words.beats, words.pixels)) + Nest.bits((words.pixels,))
        return total + Resources(lut=2 * loops + 2 * address, ff=loops + address + 1)

    def starts(self, earliest: Times, pace: int, words: BankWords, arrivals: Times | None) -> tuple[Times, ...]:
        """Tiles are filled, one after the other, into the places that the last blocks of earlier tiles have freed."""
        parts, beats, pixels = words.banks * words.rows // self.rows, words.beats, words.pixels
        tiles = len(earliest) // pixels
        if arrivals is None:
            arrivals = self.promised(tiles * beats * parts, self.places(words) * parts)
        if len(arrivals) != tiles * beats * parts:
            raise ValueError(f"arrivals of weights must be {tiles * beats * parts} cycles, not {len(arrivals)}")
        started, taken = earliest.reshape(tiles, pixels).copy(), np.zeros(len(arrivals), dtype=np.int64)
        decided = 1 if pace == 1 else 2  # cycles from the last beat of a tile to the start of its first block
        for n, blocks in enumerate(started):
            # The tiles that must have freed a place for each word of this one.
            freed = -((self.places(words) - n * beats - np.arange(beats) - 1) // beats)
            room = np.where(freed > 0, started[np.maximum(freed, 1) - 1, -1] + freed_after(words) + 1, 0)
            now = slice(n * beats * parts, (n + 1) * beats * parts)
            free = np.maximum(arrivals[now], np.repeat(room, parts))
            free[0] = max(free[0], taken[now.start - 1] + 1 if n else 0)
            taken[now] = in_turn(free)
            blocks[0] = max(blocks[0], taken[now.stop - 1] + decided, started[n - 1, -1] + pace if n else 0)
            blocks[:] = in_turn(blocks, pace)
        return started.reshape(-1), taken

    def promised(self, beats: int, places: int) -> Times:
        """The cycles by which so many beats have arrived if the stream has waited before cycle 0 for the buffers, which
        have places for `places` beats, and keeps up its `interval`."""
        late = np.maximum(np.arange(beats, dtype=np.int64) + 1 - places, 0)
        return -(-late * self.interval.numerator // self.interval.denominator)

    def weights(self, *, words: BankWords, contents: Contents, technology: Technology, name: str) -> StreamedWeights:
        return StreamedWeights(self, words, technology)


def freed_after(words: BankWords) -> int:
    """Cycles from the start of a tile's last block to the moment when its places are counted as free.

    The first word is read so many cycles after the start at the last bank, then one in each cycle.  The filler writes
    at most a word in each cycle, later than that.
    """
    return 1 + words.banks


class StreamedWeights:
    """The `StageWeights` of a `StreamSource`."""

    def __init__(self, source: StreamSource, words: BankWords, technology: Technology):
        self.source = source
        self.words = words
        self.buffers = [TileBuffer(width=words.width, depth=source.places(words), technology=technology,
                                   name=f"weights{b}") for b in range(words.banks)]

    def bank(self, b: int) -> wiring.Component:
        return self.buffers[b]

    def gated(self, m: Module, *, credit: Value, start: Value, arrivals: Any) -> Value:
        words, rows = self.words, self.source.rows
        m.submodules.filler = filler = TileFiller(
            shape=arrivals.payload.shape(), parts=words.banks * words.rows // rows, beats=words.beats,
            places=self.source.places(words), freed_after=freed_after(words))
        wiring.connect(m, arrivals, filler.i)
        blocks = Nest(m, (words.pixels,), name="tile_block")
        blocks.advance(start)
        m.d.comb += filler.start.eq(start & blocks.last[0])
        for b, buffer in enumerate(self.buffers):
            first = (words.banks - 1 - b) * words.rows  # the rows are in reverse order
            m.d.comb += [
                buffer.write_en.eq(filler.write_en[first // rows]), buffer.write_addr.eq(filler.write_addr),
                buffer.write_data.eq(Value.cast(arrivals.payload).word_select(
                    first % rows // words.rows, words.width))]
        return credit & filler.complete


class TileBuffer(wiring.Component):
    """The words of one bank: `data` is the word at `addr`, `timing.ram` cycles later.  As `Ram`, with a ROM's ports."""

    def __init__(self, *, width: int, depth: int, technology: Technology, name: str):
        self.width = width
        self.depth = depth
        self.technology = technology
        self.name = name
        super().__init__({"addr": In(range(depth)), "data": Out(width), "write_en": In(1),
                          "write_addr": In(range(depth)), "write_data": In(width)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.ram(width=self.width, depth=self.depth, name=self.name)
        m.d.comb += [
            ram.read_addr.eq(self.addr), self.data.eq(ram.read_data), ram.write_en.eq(self.write_en),
            ram.write_addr.eq(self.write_addr), ram.write_data.eq(self.write_data)]
        return m


class TileFiller(wiring.Component):
    """Counts the free places and the complete tiles of the buffers, and addresses the beats of a stream.

    Parameters
    ----------
    shape
        Of a beat.
    parts
        Beats for the words of all banks.
    beats
        Words of a tile.
    places
        Words of a buffer.
    freed_after
        Cycles from `start` to the moment when the tile's places are free.

    Ports
    -----
    i
        The stream; a beat is written in the cycle in which it is taken.
    write_en, write_addr
        A bit for each part: its banks are written.
    start
        The last block that reads a tile starts.
    complete
        The tile of the next block is in the buffers: a register that counts every start of the cycles before.
    """

    def __init__(self, *, shape: data.ArrayLayout, parts: int, beats: int, places: int, freed_after: int):
        self.parts = parts
        self.beats = beats
        self.places = places
        self.freed_after = freed_after
        super().__init__({"i": In(stream.Signature(shape)), "start": In(1), "complete": Out(1),
                          "write_en": Out(parts), "write_addr": Out(range(places))})

    def elaborate(self, platform):
        m = Module()
        places, beats = self.places, self.beats
        part = Signal(self.parts, init=1)
        taken, word, tile = Signal(), Signal(), Signal()
        left = Signal(range(beats), init=beats - 1)
        # The sign bits are the answers: free places less one, complete tiles less one.
        free = Signal(Shape.cast(range(-1, places)), init=places - 1)
        tiles = Signal(Shape.cast(range(-1, places // beats)), init=-1)
        m.d.comb += [
            self.i.ready.eq(~free[-1]), self.complete.eq(~tiles[-1]), taken.eq(self.i.valid & self.i.ready),
            self.write_en.eq(part & taken.replicate(self.parts)), word.eq(taken & part[-1]),
            tile.eq(word & (left == 0))]
        pointer(m, self.write_addr, word, places, "write")
        with m.If(taken):
            m.d.sync += part.eq(part.rotate_left(1))
        with m.If(word):
            m.d.sync += left.eq(Mux(left == 0, beats - 1, left - 1))
        freed = delay(m, self.start, self.freed_after, "freed", reset_less=False)
        m.d.sync += [free.eq(free + Mux(freed, beats, 0) - word), tiles.eq(tiles + tile - self.start)]
        return m
