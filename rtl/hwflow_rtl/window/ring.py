"""The ring of a `LineBuffer`: how many words it has, and the place of the window that is played next.

The addresses of a ring whose depth is a power of two wrap around by themselves.  For any other depth two registers hold
an address before and after it is wrapped, and a third one, the sign of one of them, selects.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.pipeline import adder_luts
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .address import beat_steps, block_steps, is_power_of_two, sum_with_carry
from .shape import WindowShape

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
