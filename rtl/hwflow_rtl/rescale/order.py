"""The order of a rescaler's constants if it depends on more than the channel: on the pixel's class, or on the pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ..stream.pipeline import Nest
from ..vendor.base import Resources
from ..vendor.fitted import fitted


class Order(ABC):
    """For each value after reset, the place of its constant.

    The `channels` values of a pixel have consecutive constants.
    """

    channels: int

    @abstractmethod
    def of_lane(self, lanes: int) -> Order:
        """The order of one of `lanes` units side by side."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """All constants."""

    @abstractmethod
    def places(self, count: int) -> npt.NDArray[np.int64]:
        """Places of the constants of the first `count` values after reset."""

    @abstractmethod
    def cost(self) -> Resources:
        """The cost of `count`, estimated."""

    @abstractmethod
    def count(self, m: Module, valid: Value) -> Value:
        """Place of the constants of the value that comes with `valid`: a register."""


@dataclass(frozen=True)
class PixelOrder(Order):
    """Each class of pixels of a frame has constants of its own.

    A frame has len(rows) x len(columns) pixels; pixel (y, x) is of class rows[y] * (classes of columns) + columns[x],
    and the constants of a class are `channels`, class 0 first.  Values come pixel by pixel, row by row, and in a pixel
    channel by channel.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    channels: int

    def of_lane(self, lanes: int) -> PixelOrder:
        return replace(self, channels=self.channels // lanes)

    @property
    def depth(self) -> int:
        return (max(self.rows) + 1) * (max(self.columns) + 1) * self.channels

    @property
    def is_raster(self) -> bool:
        """Every pixel is a class of its own, in order: the places are counted through."""
        return self.rows == tuple(range(len(self.rows))) and self.columns == tuple(range(len(self.columns)))

    def start(self, row: int, column: int) -> int:
        """Place of the first constant of the class of these classes of rows and columns."""
        return (row * (max(self.columns) + 1) + column) * self.channels

    def places(self, count: int) -> npt.NDArray[np.int64]:
        pixels = np.add.outer(np.array(self.rows) * (max(self.columns) + 1), self.columns).reshape(-1, 1)
        frame = (pixels * self.channels + np.arange(self.channels)).reshape(-1)
        return np.resize(frame, count)

    def cost(self) -> Resources:
        """The cost of `count`, estimated: the place, the start of the next pixel, and the counters of the pixels."""
        place = (self.depth - 1).bit_length()
        if self.is_raster:
            return fitted("Rescaler channel", counter_bits=place)
        counters = sum((size - 1).bit_length() + 1 for size in (self.channels, len(self.columns), len(self.rows)))
        edges = sum(len(classes) - max(Counter(classes).values()) for classes in (self.rows, self.columns))
        return fitted("ElementOrder", place_bits=place, counter_bits=counters, edges=edges)

    def count(self, m: Module, valid: Value) -> Value:
        """Place of the constants of the value that comes with `valid`: a register.

        The start of the next pixel's class is another register, chosen during the pixel before it.  So each of the two
        registers has only a multiplexer before it.
        """
        if self.is_raster:
            place = Signal(range(self.depth))
            with m.If(valid):
                m.d.sync += place.eq(Mux(place == self.depth - 1, 0, place + 1))
            return place
        width, height = len(self.columns), len(self.rows)
        pixels = [self.start(row, column) for row in self.rows for column in self.columns]
        place = Signal(range(self.depth), init=pixels[0])
        following = Signal.like(place, init=pixels[1 % len(pixels)])
        channel, pixel = Nest(m, (self.channels,), name="channel"), Nest(m, (width, height), ahead=2, name="pixel")
        channel.advance(valid)
        ends = valid & channel.last[0]
        pixel.advance(ends)
        chosen = by_class(pixel, 1, self.rows, lambda row: by_class(
            pixel, 0, self.columns, lambda column: Const(self.start(row, column), len(place))))
        with m.If(ends):
            m.d.sync += [place.eq(following), following.eq(chosen)]
        with m.Elif(valid):
            m.d.sync += place.eq(place + 1)
        return place


def by_class(nest: Nest, loop: int, classes: Sequence[int], value) -> Value:
    """value(class of the iteration of `loop`); the most frequent class is what is left when it is none of the others.
    """
    (usual, _), *others = Counter(classes).most_common()
    chosen = value(usual)
    for number, _ in others:
        chosen = Mux(nest.at(loop, (k for k, each in enumerate(classes) if each == number)), value(number), chosen)
    return chosen


@dataclass(frozen=True)
class PassOrder(Order):
    """A frame comes in passes of `pixels` pixels, `channels` values each, and each pass has constants of its own.

    All pixels of a pass have the same; those of pass 0 come first.  After `passes` passes they begin again.
    """

    passes: int
    pixels: int
    channels: int

    def of_lane(self, lanes: int) -> PassOrder:
        return replace(self, channels=self.channels // lanes)

    @property
    def depth(self) -> int:
        return self.passes * self.channels

    def places(self, count: int) -> npt.NDArray[np.int64]:
        of_pass = np.arange(self.depth).reshape(self.passes, 1, self.channels)
        return np.resize(np.repeat(of_pass, self.pixels, axis=1), count)

    def cost(self) -> Resources:
        """The place, the start of the pass, and the counters."""
        counters = Nest.bits((self.channels, self.pixels, self.passes))
        return fitted("ElementOrder", place_bits=(self.depth - 1).bit_length(), counter_bits=counters, edges=0)

    def count(self, m: Module, valid: Value) -> Value:
        place, start = (Signal(range(self.depth), name=name) for name in ("place", "pass_start"))
        nest = Nest(m, (self.channels, self.pixels, self.passes), name="of_pass")
        nest.advance(valid)
        pixel_ends, pass_ends = nest.last[0], nest.last[0] & nest.last[1]
        following = Mux(Cat(*nest.last).all(), 0, place + 1)
        with m.If(valid):
            m.d.sync += place.eq(Mux(pixel_ends & ~nest.last[1], start, following))
            with m.If(pass_ends):
                m.d.sync += start.eq(following)
        return place
