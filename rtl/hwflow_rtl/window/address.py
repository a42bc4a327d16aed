"""The two counters of a `LineBuffer`: `BlockWalker` goes from block to block, `BeatWalker` from beat to beat in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import Nest
from .shape import WindowShape


def is_power_of_two(depth: int) -> bool:
    return depth & (depth - 1) == 0


def sum_with_carry(a: Value, b: Value, carry: Value) -> Value:
    """a + b + carry in one carry chain."""
    return (Cat(1, a).as_signed() + Cat(carry, b).as_signed()) >> 1


def block_steps(shape: WindowShape) -> tuple[int, int, int, int, int]:
    """Words from the base of a block to that of the next block: in the next tile, group, column, row, frame."""
    group = shape.group_words
    back = (shape.groups - 1) * group
    row_start = (shape.out_width - 1) * shape.stride[1] * shape.words
    column = shape.stride[1] * shape.words - back
    row = shape.stride[0] * shape.width * shape.words - row_start - back
    last_row = (shape.out_height - 1) * shape.stride[0] * shape.width * shape.words
    frame = shape.input_words - last_row - row_start - back
    return 0, group, column, row, frame


def all_beat_steps(shape: WindowShape) -> tuple[int, int, int]:
    """Words from a beat of a block to the next beat: the next word, column, row."""
    back = shape.group_words - 1
    return (1, shape.dilation[1] * shape.words - back,
            (shape.dilation[0] * shape.width - shape.reach[1]) * shape.words - back)


def beat_steps(shape: WindowShape) -> tuple[int, ...]:
    """The steps of `all_beat_steps` that a block has, the first step first; 0 if it has none."""
    counts = (shape.group_words, shape.kernel[1], shape.kernel[0])
    return tuple(step for step, count in zip(all_beat_steps(shape), counts, strict=True) if count > 1) or (0,)


def ends_at(counts: Sequence[int], beat: int) -> list[bool]:
    """For each of nested loops, innermost first, whether `beat` is in its last iteration."""
    found = []
    for count in counts:
        beat, index = divmod(beat, count)
        found.append(index == count - 1)
    return found


class BlockWalker(wiring.Component):
    """Describes the block that starts next; `start` moves on to the one after.

    Ports
    -----
    hop
        Words from this block's base to the next block's, less one: `Mux(start, hop, -1) + carry` then is one carry
        chain's second operand for "plus the step, minus the words that came".
    ends
        This block is the last of its frame.
    outside_x, outside_y
        Bit k: tap column (row) k of this block's window lies in the padding.

    The registers of the ports are computed from counters that are one block ahead.  So a new block can start in every
    cycle, and there is only a multiplexer before each register.
    """

    def __init__(self, *, shape: WindowShape):
        self.shape = shape
        steps = block_steps(shape)
        super().__init__({
            "start": In(1),
            "hop": Out(Shape.cast(range(min(steps) - 1, max(steps)))),
            "ends": Out(1),
            "outside_x": Out(shape.kernel[1]),
            "outside_y": Out(shape.kernel[0]),
        })

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        counts = (shape.tiles_per_group, shape.groups, shape.out_width, shape.out_height)
        nest = Nest(m, counts, ahead=1, name="left")
        nest.advance(self.start)

        *steps, last_step = (Const(step - 1, self.hop.shape()) for step in block_steps(shape))
        choice, first = last_step, last_step
        for last, count, step in reversed(list(zip(nest.last, counts, steps, strict=True))):
            choice, first = Mux(last, choice, step), first if count == 1 else step
        hop = Signal(self.hop.shape(), init=first)
        ends = Signal(init=all(count == 1 for count in counts))
        with m.If(self.start):
            m.d.sync += [hop.eq(choice), ends.eq(Cat(*nest.last).all())]
        m.d.comb += [self.hop.eq(hop), self.ends.eq(ends)]

        for axis, taps, size, port in ((1, shape.columns_at(), shape.width, self.outside_x),
                                       (0, shape.rows_at(), shape.height, self.outside_y)):
            loop = 3 - axis
            if shape.kept and axis == shape.kept_axis:
                m.d.comb += port.eq(before_first(m, shape, nest, loop, self.start, ends))
                continue
            for k, outside in enumerate(((taps < 0) | (taps >= size)).T):
                flag = Signal(init=int(outside[0]), name=f"{port.name}_{k}")
                if outside.all():
                    m.d.comb += flag.eq(1)
                elif outside.any():
                    with m.If(self.start):
                        m.d.sync += flag.eq(nest.at(loop, (int(i) for i in np.flatnonzero(outside))))
                m.d.comb += port[k].eq(flag)
        return m


def before_first(m: Module, shape: WindowShape, windows: Nest, loop: int, start: Value, ends: Value) -> Value:
    """A flag for each tap row (column) of the window that starts next: it is before the first frame.

    Rows that are kept are so in the first frames alone.  `windows` is a window ahead of the one that starts next, and
    counts those along the axis in its `loop`; `ends`: that one is the last of its frame.
    """
    frames = shape.frames_before()
    most, flags = int(frames.max()), []
    frame = Signal(range(most + 1), name="frame")  # from 0 on, as far as it matters
    with m.If(start & ends & (frame != most)):
        m.d.sync += frame.eq(frame + 1)
    for k, until in enumerate(frames.T):
        flag = Signal(init=int(until[0] > 0), name=f"before_{k}")
        counts = [(np.flatnonzero(until == count), int(count)) for count in np.unique(until[until > 0])]
        early = [windows.at(loop, map(int, at)) & Mux(ends, frame < count - 1, frame < count) for at, count in counts]
        with m.If(start):
            m.d.sync += flag.eq(Cat(early).any())
        flags.append(flag)
    return Cat(flags)


class BeatWalker(wiring.Component):
    """Plays the ring addresses of a block, from the cycle after `start` on, one a cycle.

    `base`, `outside_x` and `outside_y` are read with `start`, and so are `second` and `over` of a `RingBase` if the
    depth of the ring is no power of two.  While a block plays, `start` may be set only in the cycle of its last beat.
    `outside` is set if the beat is in the padding; `addr` then has no meaning.
    """

    def __init__(self, *, shape: WindowShape, depth: int):
        self.shape = shape
        self.depth = depth
        super().__init__({
            "start": In(1),
            "base": In(range(depth)),
            "second": In(range(2 * depth)),
            "over": In(Shape.cast(range(-depth, depth))),
            "outside_x": In(shape.kernel[1]),
            "outside_y": In(shape.kernel[0]),
            "addr": Out(range(depth)),
            "valid": Out(1), "first": Out(1), "last": Out(1), "outside": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        counts = (shape.group_words, shape.kernel[1], shape.kernel[0])
        wraps = not is_power_of_two(self.depth)
        # The flags of a beat are in registers when it plays, and its step a beat earlier where the ring wraps.
        nest = Nest(m, counts, ahead=1 + wraps, name="left")
        valid = Signal(name="valid")
        following = self.flags(m, nest.last, valid, 1) if wraps else nest.last
        lasts = self.flags(m, following, valid, 0)
        word_last, column_last, row_last = lasts
        first = Signal(name="first")
        last = word_last & column_last & row_last
        nest.advance(valid)
        m.d.sync += [valid.eq(self.start | (valid & ~last)), first.eq(self.start)]
        m.d.comb += [self.valid.eq(valid), self.first.eq(first), self.last.eq(valid & last)]
        self.address(m, nest, valid, wraps)

        # The flags of the current tap are in bit 0; after a whole row (kernel) they have rotated back.
        outside_x, outside_y = (Signal.like(port, name=f"flags_{port.name}", reset_less=True)
                                for port in (self.outside_x, self.outside_y))
        with m.If(self.start):
            m.d.sync += [outside_x.eq(self.outside_x), outside_y.eq(self.outside_y)]
        with m.Elif(word_last):
            m.d.sync += outside_x.eq(outside_x.rotate_right(1))
            with m.If(column_last):
                m.d.sync += outside_y.eq(outside_y.rotate_right(1))
        m.d.comb += self.outside.eq(outside_x[0] | outside_y[0])
        return m

    def flags(self, m: Module, following: Sequence[Value], valid: Signal, beat: int) -> list[Signal]:
        """Registers with the flags of `following` of the beat before; at reset those of `beat`."""
        shape = self.shape
        ends = ends_at((shape.group_words, shape.kernel[1], shape.kernel[0]), beat)
        found = [Signal(init=end, name=f"last{k}" if beat == 0 else f"next_last{k}") for k, end in enumerate(ends)]
        with m.If(valid):
            m.d.sync += [flag.eq(ended) for flag, ended in zip(found, following, strict=True)]
        return found

    def address(self, m: Module, nest: Nest, valid: Signal, wraps: bool) -> None:
        """There is no logic before a carry chain; `start` has a long path and is selected after it.

        Where the ring wraps, the address of the next beat is in two registers: before it is wrapped, and less `depth`.
        """
        one, tap, row = (Const(step % self.depth, len(self.addr)) for step in all_beat_steps(self.shape))
        ends = ends_at(nest.counts, int(wraps))
        step = Signal(self.addr.shape(), init=(row if ends[0] and ends[1] else tap if ends[0] else one).value)
        with m.If(valid):
            m.d.sync += step.eq(Mux(nest.last[0], Mux(nest.last[1], row, tap), one))
        addr = Signal(self.addr.shape(), reset_less=True)
        m.d.comb += self.addr.eq(addr)
        if not wraps:
            m.d.sync += addr.eq(Mux(self.start, self.base, addr + step))
            return
        place, over = (Signal(port.shape(), name=f"next_{port.name}", reset_less=True)
                       for port in (self.second, self.over))
        m.d.sync += [
            addr.eq(Mux(self.start, self.base, Mux(over[-1], place, over))),
            place.eq(Mux(self.start, self.second, place + step)), over.eq(Mux(self.start, self.over, over + step)),
        ]
