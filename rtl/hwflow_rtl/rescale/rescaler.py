"""What makes elements of sums, as stages see it: constants per channel, and the unit, cost and latency that follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import Nest
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted

__all__ = ["LaneUnits", "Order", "Rescaler", "RescalerConstants", "channels_cost",
           "count_channels"]


@dataclass(frozen=True)
class Order:
    """Which constants the values of a frame have where they depend on the pixel: those of its class.

    A frame has len(rows) x len(columns) pixels; pixel (y, x) is of class rows[y] * (classes of columns) + columns[x],
    and the constants of a class are `channels`, class 0 first.  Values come pixel by pixel, row by row, and in a pixel
    channel by channel.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    channels: int

    def of_lane(self, lanes: int) -> Order:
        """The order of one of `lanes` units side by side."""
        return replace(self, channels=self.channels // lanes)

    @property
    def depth(self) -> int:
        """Constants of all classes."""
        return (max(self.rows) + 1) * (max(self.columns) + 1) * self.channels

    def start(self, row: int, column: int) -> int:
        """Place of the first constant of the class of these classes of rows and columns."""
        return (row * (max(self.columns) + 1) + column) * self.channels

    def places(self, count: int) -> npt.NDArray[np.int64]:
        """Places of the constants of the first `count` values after reset."""
        pixels = np.add.outer(np.array(self.rows) * (max(self.columns) + 1), self.columns).reshape(-1, 1)
        frame = (pixels * self.channels + np.arange(self.channels)).reshape(-1)
        return np.resize(frame, count)

    def cost(self) -> Resources:
        """Of `count`, estimated: the place, the start of the next pixel, and the counters of the pixels."""
        place = (self.depth - 1).bit_length()
        counters = sum((size - 1).bit_length() + 1 for size in (self.channels, len(self.columns), len(self.rows)))
        edges = sum(len(classes) - max(Counter(classes).values()) for classes in (self.rows, self.columns))
        return fitted("ElementOrder", place_bits=place, counter_bits=counters, edges=edges)

    def count(self, m: Module, valid: Value) -> Value:
        """Place of the constants of the value that comes with `valid`: a register.

        The start of the next pixel's class is another register, chosen while the pixel before it is here, so that
        nothing but a choice stands in front of either.
        """
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


class Rescaler(wiring.Component):
    """Takes sums, gives elements, a constant number of cycles later; no back-pressure.

    The values of the channels come in order, channel 0 first, and begin again after the last; the unit counts them.
    With an `Order` it counts the pixels, too, whose classes have constants of their own.
    """

    def __init__(self, accumulator: Shape, output: Shape):
        super().__init__({
            "i_valid": In(1), "i_value": In(accumulator), "o_valid": Out(1), "o_value": Out(output)})

    @property
    def latency(self) -> int:
        """Cycles from `i_valid` to `o_valid`."""
        raise NotImplementedError

    def model(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What comes out for the values [n] that come in after reset."""
        raise NotImplementedError


@dataclass(frozen=True)
class LaneUnits:
    """Of units side by side: the latency of each, and what they cost together."""

    latencies: tuple[int, ...]
    cost: Resources


class RescalerConstants(ABC):
    """The constants of all channels of a layer; with an `order` those of all classes of pixels, class by class.

    The arguments of `unit`, `cost` and `latency`: the shapes of the sums and of the elements, the least cycles from
    one sum to the next, and who makes multipliers and memories; `name`, of the ROMs, is unique in the design.
    """

    order: Order | None = None

    @property
    @abstractmethod
    def constants_count(self) -> int:
        """Of all channels and classes."""

    @property
    def channels(self) -> int:
        """ValueError where the constants are not as many as the order wants."""
        if self.order is None:
            return self.constants_count
        if self.constants_count != self.order.depth:
            raise ValueError(f"constants of classes of pixels must be {self.order.depth}, those of all classes and "
                             f"channels, not {self.constants_count}")
        return self.order.channels

    @abstractmethod
    def of_lane(self, lane: int, lanes: int) -> RescalerConstants:
        """The channels `lane`, `lane + lanes`, ...: those of one of `lanes` units side by side."""

    @abstractmethod
    def unit(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology,
             name: str) -> Rescaler: ...

    @abstractmethod
    def cost(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> Resources:
        """Of the unit: DSP and RAM exact, LUT and FF estimated."""

    @abstractmethod
    def latency(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> int:
        """Of the unit."""

    @cached_property
    def _lane_units(self) -> dict[tuple[int, Shape, Shape, int, Technology], LaneUnits]:
        """What `lane_units` has given: stages ask for the same in many of their foldings."""
        return {}

    def lane_units(self, lanes: int, *, accumulator: Shape, output: Shape, interval: int,
                   technology: Technology) -> LaneUnits:
        """Of `lanes` units side by side, each with its own channels (`of_lane`)."""
        key = lanes, accumulator, output, interval, technology
        if key not in self._lane_units:
            arguments = {"accumulator": accumulator, "output": output, "interval": interval, "technology": technology}
            parts = [self.of_lane(lane, lanes) for lane in range(lanes)]
            self._lane_units[key] = LaneUnits(tuple(part.latency(**arguments) for part in parts),
                                              sum((part.cost(**arguments).within(f"requantizer{lane}")
                                                   for lane, part in enumerate(parts)), Resources()))
        return self._lane_units[key]


def channels_cost(channels: int, order: Order | None) -> Resources:
    """Of `count_channels`, estimated."""
    if order is not None:
        return order.cost()
    return fitted("Rescaler channel", counter_bits=(channels - 1).bit_length())


def count_channels(m: Module, valid: Value, channels: int, order: Order | None = None) -> Value:
    """The channel, or the place in the `order`, of the value that comes with `valid`."""
    if order is not None:
        return order.count(m, valid)
    channel = Signal(range(channels))
    with m.If(valid):
        m.d.sync += channel.eq(Mux(channel == channels - 1, 0, channel + 1))
    return channel
