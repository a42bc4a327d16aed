"""Moves words: takes frames as a stream, gives the same words in another order, some of them often, some never."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..rescale.ranges import shape_range
from ..stream.credit import CreditCounter
from ..stream.deep_queue import pointer
from ..stream.pipeline import adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import link
from ..stream.times import StageTimes, Times, with_room
from ..stream.unit import LanesShape
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from ..window.address import is_power_of_two, sum_with_carry
from .shape import RearrangeShape
from .walk import Walker, WalkerShape


def ring_parts(words: int, width: int, technology: Technology) -> tuple[int, ...]:
    """The depths of the memories, one or two, of a ring of at least `words` words of `width` bits.

    It is a power of two, unless fewer RAM blocks hold only the words that it needs: in one memory, or in one for the
    first three quarters or half of that power of two and one for the others.  Frames of 7 x 7, 14 x 14 or 28 x 28
    pixels have a little more than three quarters of a power of two.
    """
    whole = 1 << ceil_log2(words)
    splits: list[tuple[int, ...]] = [(whole,), (words,)]
    splits += [(first, words - first) for first in (whole // 4 * 3, whole // 2) if 0 < first < words]
    return min(splits, key=lambda depths: sum(technology.ram_cost(width=width, depth=depth).ram for depth in depths))


@dataclass(frozen=True, kw_only=True)
class RingShape:
    """Words of `width` bits in memories of the depths `parts`, those of `ring_parts`."""

    width: int
    parts: tuple[int, ...]

    def cost(self, technology: Technology, holds: Holds) -> Resources:
        """RAM exact, LUT and FF estimated."""
        total = sum((technology.ram_cost(width=self.width, depth=depth, name=name, holds=holds)
                     for depth, name in zip(self.parts, ("ring", "ring_rest"), strict=False)), Resources())
        return total if len(self.parts) == 1 else total + Resources(lut=self.width + 4, ff=technology.timing.ram)


class Ring(wiring.Component):
    """A `Ram` made of memories, which are called `name` and `name`_rest."""

    def __init__(self, *, shape: RingShape, technology: Technology, name: str):
        self.width, self.parts = shape.width, shape.parts
        self.technology = technology
        self.name = name
        depth = sum(self.parts)
        super().__init__({
            "write_en": In(1), "write_addr": In(range(depth)), "write_data": In(self.width),
            "read_addr": In(range(depth)), "read_data": Out(self.width)})

    def elaborate(self, platform):
        m = Module()
        rams = []
        for depth, name in zip(self.parts, (self.name, f"{self.name}_rest"), strict=False):
            m.submodules[name] = ram = self.technology.ram(width=self.width, depth=depth, name=name)
            m.d.comb += [ram.write_en.eq(self.write_en), ram.write_addr.eq(self.write_addr),
                         ram.write_data.eq(self.write_data), ram.read_addr.eq(self.read_addr)]
            rams.append(ram)
        if len(rams) == 1:
            m.d.comb += self.read_data.eq(rams[0].read_data)
            return m
        # The words of the second memory are no more than the largest power of two that divides those of the first.
        unit = (self.parts[0] & -self.parts[0]).bit_length() - 1
        write_rest, read_rest = (address[unit:] == self.parts[0] >> unit
                                 for address in (self.write_addr, self.read_addr))
        m.d.comb += [rams[0].write_en.eq(self.write_en & ~write_rest), rams[1].write_en.eq(self.write_en & write_rest)]
        rest = delay(m, read_rest, self.technology.timing.ram, "rest")
        m.d.comb += self.read_data.eq(Mux(rest, rams[1].read_data, rams[0].read_data))
        return m


@dataclass(frozen=True, kw_only=True)
class MovedShape(LanesShape):
    """Which word of a frame goes where; a word is `lanes` elements, on both streams."""

    order: RearrangeShape

    @property
    def cycles(self) -> int:
        return self.order.cycles()

    @property
    def work(self) -> int:
        return self.order.output_words

    def words_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The words [n, words, lanes] of frames [n, height, width, channels]."""
        return np.asarray(frames, dtype=np.int64).reshape(len(frames), self.order.input_words, self.lanes)


@dataclass(frozen=True, kw_only=True)
class RearrangeStageShape(MovedShape):
    """Words that wait in a ring for their place in the output.

    padding
        Every element of a word that is padding.
    holds
        What the ring is in the plan.
    """

    padding: int
    holds: Holds = Holds.RING

    def __post_init__(self) -> None:
        low, high = shape_range(self.element)
        if not low <= self.padding <= high:
            raise ValueError(f"padding of {self.called('rearrangement')} must be from {low} to {high}, not "
                             f"{self.padding}")

    def ring_parts(self, technology: Technology) -> tuple[int, ...]:
        """Words of the memories of the ring."""
        return ring_parts(self.order.ring_words, self.width, technology)

    def latency(self, technology: Technology) -> int:
        """Cycles from the cycle in which a word is played to the output."""
        return technology.timing.ram + Queue.latency_of(queue_depth(technology))

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        return self.times_with(sum(self.ring_parts(technology)), technology, arrivals[0], left)

    def times_with(self, depth: int, technology: Technology, arrivals: Times, left: Times | None) -> StageTimes:
        """`times` with a ring of `depth` words."""
        room = None if left is None else with_room(np.zeros_like(left), left, queue_depth(technology), back=1)
        played, taken = self.order.times(arrivals, depth, room)
        return StageTimes((taken,), played + self.latency(technology))

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        queue = queue_depth(technology)
        return (self.playing_cost(technology) + CreditCounter.cost(words=queue)
                + Queue.cost(width=self.width, depth=queue, technology=technology))

    def playing_cost(self, technology: Technology) -> Resources:
        """The cost of what plays words, without a queue of them."""
        order, width = self.order, self.width
        parts = self.ring_parts(technology)
        depth = sum(parts)
        address, wraps = (depth - 1).bit_length(), not is_power_of_two(depth)
        counters = [address, address, *(counter.width for counter in counters_of(order, depth))]
        chains = sum(adder_luts(bits, technology) for bits in counters)
        masks = width // 2 if order.outside.any() else 0
        if wraps:  # the second address, what chooses, what wraps the writing one
            chains, masks = chains + adder_luts(address + 1, technology), masks + 3 * address
            counters += [address + 3]
        return (RingShape(width=width, parts=parts).cost(technology, self.holds)
                + walker_of(order, depth).cost(technology) + fitted("RearrangeStage")
                + Resources(lut=chains + masks, ff=sum(counters)))

    def build(self, technology: Technology, name: str) -> RearrangeStage:
        return RearrangeStage(shape=self, technology=technology, name=name)


class RearrangeStage(wiring.Component):
    """Plays the words of `shape` out of a linear ring, whose pointers never start again.

    Where the ring is no power of two, two registers have the address of the word that is played next: before it is
    wrapped around, and less the ring's words, whose sign chooses.

    Parameters
    ----------
    shape
        Which word goes where.
    technology, name
        Makes ring and ROMs; prefix of the ROMs' names.
    ring
        The ring's name.

    A word is played, at the earliest, in the cycle after it is taken, and is at the output
    `RearrangeStageShape.latency` cycles later; one a cycle.  A frame takes one cycle for each word of the output or, if
    they are more, of the input.  `busy` says that a word is played.

    An output word waits for nothing but itself, the output words before it and, if it is padding, for the first word
    of its frame; and the ring takes all words up to those it waits for.  So the stage never needs input beyond what
    its next output needs.
    """

    def __init__(self, *, shape: RearrangeStageShape, technology: Technology, name: str, ring: str = "ring"):
        self.shape = shape
        self.technology = technology
        self.name = name
        self.ring = ring
        self.parts = shape.ring_parts(technology)
        self.depth = sum(self.parts)
        super().__init__(shape.ports)

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        shape = self.shape
        played = shape.words_of(frames)[:, shape.order.addresses]
        played[:, shape.order.outside] = shape.padding
        return played.reshape(-1, shape.lanes)

    def elaborate(self, platform):
        m = Module()
        shape, technology = self.shape, self.technology
        places_in_queue = queue_depth(technology)
        m.submodules.queue = queue = Queue(
            shape=data.ArrayLayout(shape.element, shape.lanes), depth=places_in_queue, technology=technology)
        m.submodules.credit = credit = CreditCounter(words=places_in_queue, take=1)
        start, word = self.play(m, credit.credit)
        m.d.comb += [
            queue.i.valid.eq(delay(m, start, technology.timing.ram, "valid", reset_less=False)),
            Value.cast(queue.i.payload).eq(word),
            credit.taken.eq(start), credit.given.eq(queue.o.valid & queue.o.ready),
        ]
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def play(self, m: Module, allowed: Value) -> tuple[Signal, Value]:
        """A word is played in each cycle of the first, which `allowed` permits; it is there `timing.ram` cycles later.
        """
        shape, order, depth, technology = self.shape, self.shape.order, self.depth, self.technology
        m.submodules.walker = walker = Walker(
            shape=walker_of(order, depth), technology=technology, name=self.name)
        m.submodules.ring = ring = Ring(
            shape=RingShape(width=shape.width, parts=self.parts), technology=technology, name=self.ring)

        start, wrote = Signal(name="start"), Signal(name="wrote")
        m.d.comb += [walker.start.eq(start), self.busy.eq(start)]
        room, there = self.room(m, start, wrote, walker.freed), self.there(m, start, wrote, walker)
        m.d.comb += [self.i.ready.eq(room), wrote.eq(self.i.valid & room), start.eq(there & allowed)]

        write, read = self.write_address(m, wrote), self.read_address(m, start, walker)
        m.d.comb += [
            ring.write_en.eq(wrote), ring.write_addr.eq(write), ring.write_data.eq(Value.cast(self.i.payload)),
            ring.read_addr.eq(read),
        ]

        word = ring.read_data
        if order.outside.any():
            outside = delay(m, walker.outside, technology.timing.ram, "outside")
            word = Mux(outside, Cat(*(Const(shape.padding, shape.element) for _ in range(shape.lanes))), word)
        return start, word

    def write_address(self, m: Module, wrote: Signal) -> Value:
        write = Signal(range(self.depth), name="write")
        if is_power_of_two(self.depth):
            m.d.sync += write.eq(write + wrote)
        else:
            pointer(m, write, wrote, self.depth, "write")
        return write

    def read_address(self, m: Module, start: Signal, walker: Walker) -> Value:
        """The address of the word that is played next."""
        depth, first = self.depth, self.shape.order.first % self.depth
        if is_power_of_two(depth):
            read = Signal(range(depth), init=first, name="read")
            with m.If(start):
                m.d.sync += read.eq(sum_with_carry(read, walker.hop, Const(1)))
            return read
        far = Signal(range(2 * depth), init=first, name="far")
        over = Signal(Shape.cast(range(-depth, depth)), init=first - depth, name="over")
        read = Mux(over[-1], far, over)[:(depth - 1).bit_length()]
        with m.If(start):
            m.d.sync += [far.eq(read + walker.turn), over.eq(read + walker.under)]
        return read

    def room(self, m: Module, start: Signal, wrote: Signal, freed: Value) -> Value:
        """Whether the ring takes one more word: the counter is the places less one, its sign bit the answer."""
        places = Signal(counters_of(self.shape.order, self.depth)[0], init=self.depth - 1 + self.shape.order.skipped)
        m.d.sync += places.eq(sum_with_carry(places, Mux(start, freed, -1), ~wrote))
        return ~places[-1]

    def there(self, m: Module, start: Signal, wrote: Signal, walker: Walker) -> Value:
        """Whether the next output word has come.

        The counters are the words that lack, less one, so that the sign bit says that none does.  Padding needs none,
        but padding before all words of a frame waits for the first of them.
        """
        shape = self.shape.order
        counters = counters_of(shape, self.depth)
        lack = Signal(counters[1], init=shape.first)
        m.d.sync += lack.eq(sum_with_carry(lack, Mux(start, walker.hop, -1), ~wrote))
        if not shape.outside.any():
            return lack[-1]
        if not shape.outside[0]:
            return walker.outside | lack[-1]
        begun = Signal(counters[2])
        m.d.sync += begun.eq(sum_with_carry(begun, Mux(start & walker.ends, shape.input_words - 1, -1), ~wrote))
        return Mux(walker.outside, begun[-1], lack[-1])


def walker_of(order: RearrangeShape, depth: int) -> WalkerShape:
    """The walker that describes the words of `order` in a ring of `depth` words."""
    return WalkerShape(order=order, around=1 if is_power_of_two(depth) else depth)


def counters_of(shape: RearrangeShape, depth: int) -> list[Shape]:
    """The widths of the counters of the free places less one, the words that lack less one, and those that lack of a
    frame, less one.

    The last is wanted where a frame starts with padding.
    """
    shape, words = shape.essential, shape.input_words
    most = depth + words + shape.skipped  # words from a frame's start to the end of what the ring may have taken
    come = np.append(0, np.maximum.accumulate(shape.needs))  # at least, before each word is played and at the end
    lacking = int((np.append(shape.addresses, words + shape.first) - come).max())
    ahead = int((shape.wanted - shape.addresses).max()) + depth
    counters = [range(-1, most), range(-ahead, max(lacking, 0) + 1), range(-most, words + 1)]
    return [Shape.cast(counter) for counter in counters[:2 + int(shape.outside[0])]]


def queue_depth(technology: Technology) -> int:
    """Words for a beat in every cycle: the ring, the queue, and the cycle in which the credit comes back."""
    return next(depth for depth in range(2, 64) if depth >= technology.timing.ram + Queue.latency_of(depth) + 1)
