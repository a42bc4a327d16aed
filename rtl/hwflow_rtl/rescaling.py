"""What makes elements of sums, as stages see it: constants per channel, and the unit, cost and latency that follow."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .vendor.base import Resources, Technology

__all__ = ["Rescaling", "RescalingUnit", "count_channels"]


class RescalingUnit(wiring.Component):
    """Takes sums, gives elements, a constant number of cycles later; no back-pressure.

    The values of the channels come in order, channel 0 first, and begin again after the last; the unit counts them.
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


class Rescaling(ABC):
    """The constants of all channels of a layer.

    The arguments of `unit`, `cost` and `latency`: the shapes of the sums and of the elements, the least cycles from
    one sum to the next, and who makes multipliers and memories; `name`, of the ROMs, is unique in the design.
    """

    @property
    @abstractmethod
    def channels(self) -> int: ...

    @abstractmethod
    def of_lane(self, lane: int, lanes: int) -> Rescaling:
        """The channels `lane`, `lane + lanes`, ...: those of one of `lanes` units side by side."""

    @abstractmethod
    def unit(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology,
             name: str) -> RescalingUnit: ...

    @abstractmethod
    def cost(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> Resources:
        """Of the unit: DSP and RAM exact, LUT and FF estimated."""

    @abstractmethod
    def latency(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> int:
        """Of the unit."""


def count_channels(m: Module, valid: Value, channels: int) -> Signal:
    """The channel of the value that comes with `valid`."""
    channel = Signal(range(channels))
    with m.If(valid):
        m.d.sync += channel.eq(Mux(channel == channels - 1, 0, channel + 1))
    return channel
