"""Rescaling as stages see it: constants per channel, and the unit, cost and latency that follow from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .order import Order


class Rescaler(wiring.Component):
    """Rescales each sum to an element, a constant number of cycles later; no backpressure.

    The values of the channels come in order, channel 0 first, and begin again after the last; the unit counts them.
    With an `Order` it counts pixels or passes, too, that have constants of their own.
    """

    def __init__(self, accumulator: Shape, output: Shape):
        super().__init__({
            "i_valid": In(1), "i_value": In(accumulator), "o_valid": Out(1), "o_value": Out(output)})

    @property
    def latency(self) -> int:
        """Cycles from `i_valid` to `o_valid`."""
        raise NotImplementedError

    def model(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The results of the values [n], the first values after reset."""
        raise NotImplementedError


@dataclass(frozen=True)
class LaneUnits:
    """Units side by side: the latency of each, and what they cost together."""

    latencies: tuple[int, ...]
    cost: Resources


class RescalerConstants(ABC):
    """The constants of all channels of a layer; with an `order` those of all classes of pixels or of all passes.

    The arguments of `unit`, `cost` and `latency`: the shapes of the sums and of the elements, the least cycles from
    one sum to the next, and the family that makes multipliers and memories; `name` is the prefix of the ROMs' names.
    """

    order: Order | None = None

    @property
    @abstractmethod
    def constants_count(self) -> int:
        """All constants, each once."""

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
    def picked(self, places: npt.NDArray[np.int64], order: Order | None) -> RescalerConstants:
        """The constants at `places`, which come in `order`."""

    @cached_property
    def _picked(self) -> dict[Order, RescalerConstants]:
        """Keeps what `picked_once` has given."""
        return {}

    def picked_once(self, order: Order, places: Callable[[], npt.NDArray[np.int64]]) -> RescalerConstants:
        """`picked`, again the same object for the same `order`, which `places` follow from."""
        if order not in self._picked:
            self._picked[order] = self.picked(places(), order)
        return self._picked[order]

    def of_lane(self, lane: int, lanes: int) -> RescalerConstants:
        """The channels `lane`, `lane + lanes`, ...: those of one of `lanes` units side by side."""
        return self.picked(np.arange(lane, self.constants_count, lanes), self.order and self.order.of_lane(lanes))

    @abstractmethod
    def unit(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology,
             name: str) -> Rescaler: ...

    @abstractmethod
    def cost(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> Resources:
        """The cost of the unit: DSP and RAM exact, LUT and FF estimated."""

    @abstractmethod
    def latency(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> int:
        """The latency of the unit."""

    @cached_property
    def _lane_units(self) -> dict[tuple[int, Shape, Shape, int, Technology], LaneUnits]:
        """Keeps what `lane_units` has given: stages ask for the same in many of their foldings."""
        return {}

    def lane_units(self, lanes: int, *, accumulator: Shape, output: Shape, interval: int,
                   technology: Technology) -> LaneUnits:
        """The latency and the cost of `lanes` units side by side, each with its own channels (`of_lane`)."""
        key = lanes, accumulator, output, interval, technology
        if key not in self._lane_units:
            arguments = {"accumulator": accumulator, "output": output, "interval": interval, "technology": technology}
            parts = [self.of_lane(lane, lanes) for lane in range(lanes)]
            self._lane_units[key] = LaneUnits(tuple(part.latency(**arguments) for part in parts),
                                              sum((part.cost(**arguments).within(f"requantizer{lane}")
                                                   for lane, part in enumerate(parts)), Resources()))
        return self._lane_units[key]


def channels_cost(channels: int, order: Order | None) -> Resources:
    """The cost of `count_channels`, estimated."""
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
