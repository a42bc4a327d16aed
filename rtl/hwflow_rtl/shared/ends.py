"""The ends of a shared stage: frames from a stream into words, and from words onto a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..stream.streams import stream_of
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds
from .steps import ELEMENT_BITS, IntArray, Load, Store


def lanes_possible(lanes: int, channels: int, columns: int) -> bool:
    """Whether a stream of frames of `channels` can have `lanes` elements a beat, with words of `columns`."""
    return channels % lanes == 0 and (columns % lanes == 0 or lanes == channels <= columns)


@dataclass(frozen=True, kw_only=True)
class LoaderShape:
    """The beats of a frame, `lanes` of `element`, become words of `columns`, as `load` says.

    A pixel ends its word; what is above its last channel is anything.
    """

    load: Load
    element: Shape
    lanes: int
    columns: int

    def __post_init__(self) -> None:
        if not lanes_possible(self.lanes, self.load.channels, self.columns):
            raise ValueError(f"lanes of a Loader must divide {self.load.channels} channels and words of "
                             f"{self.columns}, not {self.lanes}")

    @property
    def beats(self) -> int:
        """The beats of a frame."""
        return self.load.pixels * self.load.channels // self.lanes

    @property
    def end(self) -> int:
        """The address after the last word."""
        return self.load.base + self.load.pixels * -(-self.load.channels // self.columns)

    def cost(self, words: int) -> Resources:
        """LUT and FF estimated; `words` are those of the frame memory."""
        count = self.beats.bit_length() + (words - 1).bit_length()
        return Resources(lut=2 * count + 8, ff=count + self.columns * ELEMENT_BITS + 10)


class Loader(wiring.Component):
    """Takes the beats of a frame after `open`, and makes words of them, for the addresses from `load.base` on.

    Parameters
    ----------
    waits
        Other words go to the same memory meanwhile: a word is completed only in a cycle for which `allowed` was set.
    opened
        The first frame is let in without `open`.

    Ports
    -----
    open
        Let a frame in, two cycles later at the earliest.  The frame before it is complete.
    allowed
        In the next cycle a word may be completed.
    valid, word, address
        A word is complete; it must be taken in that cycle.
    there
        The frame is complete: its last word was taken two cycles ago or earlier.
    """

    def __init__(self, *, shape: LoaderShape, waits: bool = False, opened: bool = False):
        self.shape = shape
        self.waits = waits
        self.opened = opened
        super().__init__({"i": In(stream_of(shape.element, shape.lanes)), "open": In(1), "allowed": In(1),
                          "valid": Out(1), "word": Out(shape.columns * ELEMENT_BITS),
                          "address": Out(range(shape.end), init=shape.load.base), "there": Out(1)})

    def elaborate(self, platform):
        m = Module()
        beats, base = self.shape.beats, self.shape.load.base
        left, ready = Signal(range(beats), init=beats - 1), Signal()
        active, taken, ends_frame = Signal(init=self.opened), Signal(name="taken"), Signal(name="ends_frame")
        m.d.comb += [self.i.ready.eq(ready), taken.eq(self.i.valid & ready), ends_frame.eq(taken & (left == 0))]
        with m.If(taken):
            m.d.sync += left.eq(Mux(ends_frame, beats - 1, left - 1))
        elements = [self.stored(lane) for lane in range(self.shape.lanes)]
        ends_next = self.words(m, taken, elements)
        with m.If(self.valid):
            m.d.sync += self.address.eq(Mux(ends_frame, base, self.address + 1))
        allowed = ~ends_next | self.allowed if self.waits else Const(1, 1)
        written = Signal(name="written")
        m.d.sync += [ready.eq(active & ~ends_frame & allowed), written.eq(ends_frame)]
        with m.If(self.open):
            m.d.sync += [active.eq(1), self.there.eq(0)]
        with m.Elif(ends_frame):
            m.d.sync += active.eq(0)
        with m.If(written):
            m.d.sync += self.there.eq(1)
        return m

    def words(self, m: Module, taken: Value, elements: list[Value]) -> Value:
        """Collect the beats of a word.  Returns: the beat of the next cycle, if there is one, completes its word."""
        lanes = self.shape.lanes
        of_pixel, of_word = self.shape.load.channels // lanes, max(1, self.shape.columns // lanes)
        if of_word == 1:
            m.d.comb += [self.valid.eq(taken), self.word.eq(Cat(*elements))]
            return Const(1, 1)
        place, pixel = Signal(range(of_word)), Signal(range(of_pixel))
        place_next, pixel_next = Signal.like(place, name="place_next"), Signal.like(pixel, name="pixel_next")
        kept = [Signal(lanes * ELEMENT_BITS, name=f"kept{k}", reset_less=True) for k in range(of_word - 1)]
        ends_pixel, ends = Signal(name="ends_pixel"), Signal(name="ends_word")
        m.d.comb += [ends_pixel.eq(pixel == of_pixel - 1), ends.eq(ends_pixel | (place == of_word - 1)),
                     place_next.eq(place), pixel_next.eq(pixel)]
        for k, part in enumerate(kept):
            with m.If(taken & (place == k)):
                m.d.sync += part.eq(Cat(*elements))
        with m.If(taken):
            m.d.comb += [place_next.eq(Mux(ends, 0, place + 1)), pixel_next.eq(Mux(ends_pixel, 0, pixel + 1))]
        m.d.sync += [place.eq(place_next), pixel.eq(pixel_next)]
        parts = [Mux(place == k, Cat(*elements), kept[k]) for k in range(of_word - 1)]
        m.d.comb += [self.valid.eq(taken & ends), self.word.eq(Cat(*parts, *elements))]
        return (pixel_next == of_pixel - 1) | (place_next == of_word - 1)

    def stored(self, lane: int) -> Value:
        """An element as it is in the frame memory."""
        bits = Value.cast(self.i.payload[lane])
        if self.shape.load.flip:
            return Cat(bits[:-1], ~bits[-1])
        signed = self.shape.element.signed
        return Cat(bits, (bits[-1] if signed else Value.cast(0)[:1]).replicate(ELEMENT_BITS - len(bits)))


@dataclass(frozen=True, kw_only=True)
class StorerShape:
    """The words of a frame, of `columns` elements, become beats of `lanes` of `element`, as `store` says.

    With `store.wide` elements have two bytes, the low ones in a word and the high ones in the next.
    """

    store: Store
    element: Shape
    lanes: int
    columns: int

    def __post_init__(self) -> None:
        if not lanes_possible(self.lanes, self.store.channels, self.columns):
            raise ValueError(f"lanes of a Storer must divide {self.store.channels} channels and words of "
                             f"{self.columns}, not {self.lanes}")

    @property
    def words(self) -> int:
        """The words of a pixel."""
        return -(-self.store.channels // self.columns)

    def beats(self, word: int) -> int:
        """Beats of a word of a pixel."""
        return min(self.columns, self.store.channels - word * self.columns) // self.lanes

    def cost(self) -> Resources:
        """LUT and FF estimated."""
        word, wide = self.columns * ELEMENT_BITS, self.store.wide
        bits = 2 * word if wide else word
        return Resources(lut=(bits if self.lanes < self.columns else 0) + 10, ff=bits + 10 + (word + 1 if wide else 0))


class Filler(wiring.Component):
    """Gives the words of states after a reset: all lanes `value`, or those of `image` one after another.

    Ports
    -----
    filling, from_image, value
        A word is to be filled, out of the image or not.
    next_valid, valid, word
        A word is complete in the next cycle, and in this one: `latency` cycles after `filling`.
    """

    def __init__(self, *, columns: int, image: IntArray | None, technology: Technology, name: str):
        self.columns, self.image, self.technology, self.name = columns, image, technology, name
        super().__init__({"filling": In(1), "from_image": In(1), "value": In(ELEMENT_BITS), "next_valid": Out(1),
                          "valid": Out(1), "word": Out(columns * ELEMENT_BITS)})

    @property
    def latency(self) -> int:
        return fill_latency(self.image, self.technology)

    @staticmethod
    def cost(*, columns: int, image: IntArray | None, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        cost = Resources(lut=columns * ELEMENT_BITS + 4, ff=fill_latency(image, technology))
        if image is None:
            return cost
        address = (len(image) - 1).bit_length()
        return cost + Resources(lut=address + 8, ff=address) + technology.rom_cost(
            width=columns * ELEMENT_BITS, depth=len(image), name="states", holds=Holds.TABLE)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.next_valid.eq(delay(m, self.filling, self.latency - 1, "fills", reset_less=False)),
                     self.valid.eq(delay(m, self.next_valid, 1, "filled", reset_less=False)),
                     self.word.eq(self.value.replicate(self.columns))]
        if self.image is not None:
            m.submodules.rom = rom = self.technology.rom(
                width=self.columns * ELEMENT_BITS, contents=(self.image & 0xFF).astype(np.uint8),
                name=f"{self.name}_states")
            place = Signal(range(max(2, len(self.image))))
            m.d.comb += rom.addr.eq(place)
            with m.If(self.from_image):
                m.d.comb += self.word.eq(rom.data)
                with m.If(self.filling):
                    m.d.sync += place.eq(place + 1)
        return m


def fill_latency(image: IntArray | None, technology: Technology) -> int:
    """Cycles from the one in which a word is to be filled to the one in which it is complete."""
    return 1 if image is None else technology.timing.rom


class Storer(wiring.Component):
    """Reads the words of a frame while `store` is set, one after another, and gives their elements.

    `fetch` reads the next word, which is at `word` in `latency` cycles.
    """

    def __init__(self, *, shape: StorerShape, latency: int):
        self.shape = shape
        self.latency = latency
        super().__init__({"o": Out(stream_of(shape.element, shape.lanes)), "store": In(1), "fetch": Out(1),
                          "word": In(shape.columns * ELEMENT_BITS)})

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        words, wide, flip = shape.words, shape.store.wide, shape.store.flip
        idle, there = Signal(init=1), delay(m, self.fetch, self.latency, "there", reset_less=False)
        bits = 2 * ELEMENT_BITS if wide else ELEMENT_BITS
        kept = Signal(shape.columns * bits, name="kept", reset_less=True)
        left, valid, number = Signal(range(max(2, shape.columns)), name="beats_left"), Signal(), Signal(range(words))
        gone = Signal(name="gone")
        m.d.comb += [self.fetch.eq(self.store & idle), self.o.valid.eq(valid), gone.eq(valid & self.o.ready)]
        with m.If(self.fetch):
            m.d.sync += idle.eq(0)
        there, word = self.whole(m, there, idle)
        with m.If(there):
            m.d.sync += [kept.eq(word), valid.eq(1), left.eq(shape.beats(0) - 1),
                         number.eq(Mux(number == words - 1, 0, number + 1))]
            if shape.beats(words - 1) != shape.beats(0):
                with m.If(number == words - 1):
                    m.d.sync += left.eq(shape.beats(words - 1) - 1)
        with m.If(gone):
            m.d.sync += [left.eq(left - 1), kept.eq(kept >> (shape.lanes * bits))]
            with m.If(left == 0):
                m.d.sync += [valid.eq(0), idle.eq(1)]
        width = shape.element.width
        for lane in range(shape.lanes):
            element = kept[lane * bits:lane * bits + width]
            m.d.comb += Value.cast(self.o.payload[lane]).eq(Cat(element[:-1], ~element[-1]) if flip else element)
        return m

    def whole(self, m: Module, there: Value, idle: Signal) -> tuple[Value, Value]:
        """Whether all bytes of some elements are there, and these elements."""
        if not self.shape.store.wide:
            return there, self.word
        low, second = Signal(len(self.word), name="low_bytes", reset_less=True), Signal(name="second")
        with m.If(there):
            m.d.sync += second.eq(~second)
            with m.If(~second):
                m.d.sync += [low.eq(self.word), idle.eq(1)]
        lanes = [half.word_select(lane, ELEMENT_BITS) for lane in range(self.shape.columns)
                 for half in (low, self.word)]
        return there & second, Cat(*lanes)
