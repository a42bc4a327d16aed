"""The line buffer: it takes frames as a stream of words and plays the windows of every output pixel, block by block.

A *block* is the beats of a window for one tile of outputs.  The words are in a linear ring: a memory whose pointers
never reset.  So the rows of the next frame enter while the last windows of this one are played.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..rescale.ranges import shape_range
from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .address import BeatWalker, BlockWalker, beat_steps, block_steps, is_power_of_two, sum_with_carry
from .shape import WindowShape, with_frames_before

#: Words for which a ring has room while a block is decided on, in addition to those that it needs.
SPARE = 8
#: Cycles from block to block in which the place of the block after the next is found.
WRAP_CYCLES = 3


def ring_depth(*, shape: WindowShape, width: int, technology: Technology, interval: int = 1, feed: int = 0) -> int:
    """Words of `width` bits of a ring; arguments as those of a `LineBuffer`.

    A power of two with room for another pixel, because a source often gives the words of a pixel at once.  If the words
    that windows need (`WindowShape.ring_words`) fit fewer RAM blocks, it is the power of two for these, or exactly
    these, unless wrapping then takes more logic than the blocks are worth in this family.
    """
    needed = max(2, shape.ring_words(interval, feed))
    depths = [1 << ceil_log2(words) for words in (needed + shape.words + SPARE, needed)]
    if can_wrap(shape, needed, interval):
        depths.append(needed)
    worth = technology.cells_for_a_ram_block

    def price(depth: int) -> tuple[int, int]:
        blocks = technology.ram_cost(width=width, depth=depth).ram
        return (worth * blocks + technology.placed(wrap_cost(depth, technology)).lut if worth else blocks), blocks

    return min(depths, key=price)


def can_wrap(shape: WindowShape, depth: int, interval: int) -> bool:
    """Whether a ring of `depth` words, no power of two, is possible: there is time, and no step goes back or around."""
    steps = (*block_steps(shape), *beat_steps(shape))
    return max(interval, shape.beats) >= WRAP_CYCLES and all(0 <= step < depth for step in steps)


def wrap_cost(depth: int, technology: Technology) -> Resources:
    """The additional cost of a ring whose depth is no power of two."""
    if is_power_of_two(depth):
        return Resources()
    bits = (depth - 1).bit_length()
    chains = Resources(lut=6 * adder_luts(bits + 1, technology), ff=6 * (bits + 1))
    return chains + fitted("LineBuffer that wraps", address_bits=bits)


class RingBase(wiring.Component):
    """The place in the ring of the first word of the block that starts next; `start` moves on to the block after.

    Ports
    -----
    hop
        Words from this block's base to the next block's, less one.
    base
        The place.
    second, over
        Those of the second beat where a ring is no power of two: the sum of `base` and the first step, which may be
        beyond the ring, and as many words less as the ring has.

    In a ring that is no power of two starts are at least `WRAP_CYCLES` cycles apart.
    """

    def __init__(self, *, shape: WindowShape, depth: int):
        self.shape = shape
        self.depth = depth
        steps = block_steps(shape)
        super().__init__({
            "start": In(1), "hop": In(Shape.cast(range(min(steps) - 1, max(steps)))), "base": Out(range(depth)),
            "second": Out(range(2 * depth)), "over": Out(Shape.cast(range(-depth, depth)))})

    def elaborate(self, platform):
        m = Module()
        depth, first = self.depth, int(self.shape.bases()[0]) % self.depth
        base = Signal(self.base.shape(), init=first)
        m.d.comb += self.base.eq(base)
        if is_power_of_two(depth):
            with m.If(self.start):
                m.d.sync += base.eq(sum_with_carry(base, self.hop, Const(1)))
            return m
        # The cycle after a start, `base` and `hop` are those of the block that starts next.
        following = first + self.first_hop
        far, over = (Signal(port.shape(), init=following - words, name=name) for port, words, name in (
            (self.second, 0, "far"), (self.over, depth, "far_over")))
        with m.If(self.start):
            m.d.sync += base.eq(Mux(over[-1], far, over))
        m.d.sync += [far.eq(sum_with_carry(Cat(base, Const(0, 1)), self.hop, Const(1))), over.eq(far - depth)]
        step = beat_steps(self.shape)[0]
        second, second_over = (Signal(port.shape(), init=first + step - words, name=name) for port, words, name in (
            (self.second, 0, "second_place"), (self.over, depth, "second_over")))
        m.d.sync += [second.eq(base + step), second_over.eq(base + (step - depth))]
        m.d.comb += [self.second.eq(second), self.over.eq(second_over)]
        return m

    @property
    def first_hop(self) -> int:
        """Words from the first block's base to the second's."""
        shape = self.shape
        counts = (shape.tiles_per_group, shape.groups, shape.out_width, shape.out_height)
        return next((step for step, count in zip(block_steps(shape), counts, strict=False) if count > 1),
                    block_steps(shape)[-1])


@dataclass(frozen=True, kw_only=True)
class LineBufferShape:
    """Blocks in the order: output rows, output columns, groups, tiles of the group.

    Inside a block: kernel rows, kernel columns, words of the group, one beat a cycle with no pause.

    window
        The windows, and the frame that they are in.
    element, lanes
        A word is `lanes` elements: consecutive channels of one pixel.
    pad_value
        The value of every element of a word in the padding.
    interval
        Least cycles from the start of a block to the start of the next, for a datapath that needs more than the beats
        of a block.
    feed
        Least cycles in which the words of a frame can come.
    """

    window: WindowShape
    element: Shape
    lanes: int
    pad_value: int = 0
    interval: int = 1
    feed: int = 0

    def __post_init__(self) -> None:
        low, high = shape_range(self.element)
        if self.pad_value not in range(low, high + 1):
            raise ValueError(f"pad_value of a LineBuffer must be in {range(low, high + 1)}, not {self.pad_value}")

    @property
    def width(self) -> int:
        """Bits of a word."""
        return self.element.width * self.lanes

    def depth(self, technology: Technology) -> int:
        """Words of the ring."""
        return ring_depth(shape=self.window, width=self.width, technology=technology, interval=self.interval,
                          feed=self.feed)

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        window, depth = self.window, self.depth(technology)
        address, wide = (depth - 1).bit_length(), window.kernel != (1, 1)
        counters = sum((n - 1).bit_length() for n in (
            window.out_height, window.out_width, window.groups, window.tiles_per_group, window.group_words,
            *window.kernel))
        masked = sum(bool(((taps < 0) | (taps >= size)).any())
                     for size, all_taps in ((window.width, window.columns_at()), (window.height, window.rows_at()))
                     for taps in all_taps.T)
        chains = 6 * adder_luts(0, technology)
        control = fitted("LineBuffer", address_bits=address, counter_bits=counters, masked_taps=masked,
                         taps=sum(window.kernel), is_wide=int(wide))
        return (technology.ram_cost(width=self.width, depth=depth, name="ring") + control + wrap_cost(depth, technology)
                + window.kept_cost() + Resources(lut=chains, ff=self.width))

    def build(self, technology: Technology) -> LineBuffer:
        return LineBuffer(shape=self, technology=technology)


class LineBuffer(wiring.Component):
    """Plays the blocks of `shape`; `technology` makes the ring.

    Ports
    -----
    i
        Words in raster order, channels fastest.
    credit
        The datapath can take the results of one more block.  It must count every `start` of the cycles before, and may
        not fall without one.
    start
        One pulse for each block, at least `max(beats, interval)` cycles apart.
    beat
        `valid`; `first` and `last` of the block; `word`.  The first beat comes `latency` cycles after `start`.
    busy
        High while a block plays, `beat_latency` cycles before `beat.valid`.

    A block starts when its last word, or the last word of its frame, has arrived.  If words arrive in time and there is
    always a credit, blocks follow each other without a pause, also over the ends of rows and frames: a frame takes
    `window.cycles(interval)` cycles.
    """

    def __init__(self, *, shape: LineBufferShape, technology: Technology):
        self.shape = shape.window
        self.element, self.lanes, self.pad_value = shape.element, shape.lanes, shape.pad_value
        self.technology = technology
        self.interval = max(shape.interval, self.shape.beats)
        self.depth = shape.depth(technology)
        word = data.ArrayLayout(self.element, self.lanes)
        super().__init__({
            "i": In(stream.Signature(word)),
            "credit": In(1),
            "start": Out(1),
            "beat": Out(data.StructLayout({"valid": 1, "first": 1, "last": 1, "word": word})),
            "busy": Out(1),
        })

    @property
    def beat_latency(self) -> int:
        """Cycles from `busy` to `beat.valid`: those of the ring, and of the register that selects word or padding."""
        return self.technology.timing.ram + 1

    @property
    def latency(self) -> int:
        """Cycles from `start` to the first beat."""
        return 1 + self.beat_latency

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Words of all beats in order, [n * blocks, beats, lanes]; frames are [n, height, width, channels]."""
        shape, count = self.shape, len(frames)
        top, left, bottom, right = shape.pads
        frames = np.asarray(frames, dtype=np.int64)
        if shape.kept:
            frames = with_frames_before(frames, shape, self.pad_value)
            top, left = (0, left) if shape.kept_axis == 0 else (top, 0)
        padded = np.pad(frames, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=self.pad_value)
        words = padded.reshape(*padded.shape[:3], shape.groups, shape.group_words, self.lanes)
        rows = (shape.rows_at() + shape.pads[0])[:, None, :, None]  # [out row, out column, tap row, tap column]
        columns = (shape.columns_at() + shape.pads[1])[None, :, None, :]
        taps = words[:, rows, columns]  # [n, out row, out column, tap row, tap column, group, word, lane]
        taps = np.moveaxis(taps, 5, 3)  # [n, out row, out column, group, tap row, tap column, word, lane]
        blocks = np.repeat(taps[:, :, :, :, None], shape.tiles_per_group, axis=4)
        return blocks.reshape(count * shape.blocks, shape.beats, self.lanes)

    def elaborate(self, platform):
        m = Module()
        shape, depth = self.shape, self.depth
        m.submodules.blocks = blocks = BlockWalker(shape=shape)
        m.submodules.beats = beats = BeatWalker(shape=shape, depth=depth)
        m.submodules.ring = ring = self.technology.ram(
            width=self.element.width * self.lanes, depth=depth, name="ring")

        m.submodules.base = base = RingBase(shape=shape, depth=depth)
        m.d.comb += [
            blocks.start.eq(self.start), beats.start.eq(self.start), base.start.eq(self.start),
            base.hop.eq(blocks.hop), beats.base.eq(base.base), beats.second.eq(base.second), beats.over.eq(base.over),
            beats.outside_x.eq(blocks.outside_x), beats.outside_y.eq(blocks.outside_y),
        ]

        wrote, write_addr = Signal(name="wrote"), Signal(range(depth), name="write_addr")
        room, there = self.room(m, wrote, blocks.hop), self.there(m, wrote, blocks)
        m.d.comb += [self.i.ready.eq(room), wrote.eq(self.i.valid & room)]
        with m.If(wrote):
            if is_power_of_two(depth):
                m.d.sync += write_addr.eq(write_addr + 1)
            else:
                at_end = Signal(init=depth == 1)  # a word ahead
                m.d.sync += [write_addr.eq(Mux(at_end, 0, write_addr + 1)), at_end.eq(write_addr == depth - 2)]
        m.d.comb += [
            ring.write_en.eq(wrote), ring.write_addr.eq(write_addr), ring.write_data.eq(Value.cast(self.i.payload)),
            ring.read_addr.eq(beats.addr),
        ]
        self.starter(m, there)
        self.player(m, beats, ring.read_data)
        return m

    def room(self, m: Module, wrote: Signal, hop: Value) -> Value:
        """Whether the ring takes one more word: write pointer < base of the block that plays + depth.

        The counter is the number of free places less one, so its sign bit is the answer.  When a block starts, it grows
        by the step to that block, because the block before has then read its last address.
        """
        shape = self.shape
        places = Signal(Shape.cast(range(-2 * self.depth, 2 * self.depth)),
                        init=self.depth - shape.guard - 1 + int(shape.bases()[0]))
        freed = Signal.like(hop, init=-1)
        with m.If(self.start):
            m.d.sync += freed.eq(hop)
        m.d.sync += places.eq(sum_with_carry(places, Mux(self.start, freed, -1), ~wrote))
        return ~places[-1]

    def there(self, m: Module, wrote: Signal, blocks: BlockWalker) -> Value:
        """Whether the data of the next block has arrived: its last word, or the last word of its frame.

        The counters are the number of missing words less one, so the sign bit says that none is missing.
        """
        shape, words = self.shape, self.shape.input_words
        written = delay(m, wrote, 1, "written", reset_less=False)  # not before the ring can give it back
        first = int(shape.bases()[0]) + shape.span - 1
        reach = max(abs(step) for step in block_steps(shape)) + shape.span + shape.guard
        of_block = Signal(Shape.cast(range(min(first, -self.depth - reach), max(first, reach) + 1)), init=first)
        m.d.sync += of_block.eq(sum_with_carry(of_block, Mux(self.start, blocks.hop, -1), ~written))
        of_frame = Signal(Shape.cast(range(-words - self.depth, 2 * words)), init=words - 1)
        m.d.sync += of_frame.eq(sum_with_carry(of_frame, Mux(self.start & blocks.ends, words - 1, -1), ~written))
        return of_block[-1] | of_frame[-1]

    def starter(self, m: Module, there: Value) -> None:
        """With two cycles or more from start to start, `start` is a register: it is decided in the cycle before."""
        if self.interval == 1:
            m.d.comb += self.start.eq(there & self.credit)
            return
        start = Signal()
        left = Signal(Shape.cast(range(-1, max(1, self.interval - 2))), init=-1)
        with m.If(start):
            m.d.sync += left.eq(self.interval - 3)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        m.d.sync += start.eq(there & self.credit & left[-1] & ~start)
        m.d.comb += self.start.eq(start)

    def player(self, m: Module, beats: BeatWalker, word: Value) -> None:
        """The flags are delayed by the latency of the ring; its word or the padding goes into a register."""
        flags = Cat(beats.valid, beats.first, beats.last)
        valid, first, last = delay(m, flags, self.beat_latency, "flags", reset_less=False)
        outside = delay(m, beats.outside, self.beat_latency - 1, "outside")
        padding = Cat(*(Const(self.pad_value, self.element) for _ in range(self.lanes)))
        played = Signal(len(word), reset_less=True)
        m.d.sync += played.eq(Mux(outside, padding, word))
        m.d.comb += [
            self.busy.eq(beats.valid), self.beat.valid.eq(valid), self.beat.first.eq(first),
            self.beat.last.eq(last), Value.cast(self.beat.word).eq(played),
        ]
