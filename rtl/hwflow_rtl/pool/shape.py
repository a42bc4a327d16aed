"""Bases of the shapes of all pools, with a ring or without, and those of all averages."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amaranth.hdl import Shape

from ..multiply.products import Operand
from ..rescale.rescaler import Rescaler, RescalerConstants
from ..stream.streams import stream_of
from ..stream.times import Times
from ..stream.unit import LanesShape
from ..vendor.base import Resources, Technology
from ..window.shape import WindowShape
from .results import Results


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolShape(LanesShape):
    """The windows of frames of words of `lanes` elements, and the format of an element."""

    window: WindowShape

    @property
    def width_out(self) -> int:
        """Bits of a word that leaves."""
        return self.width

    @property
    def parts(self) -> int:
        """Words that leave for a word that comes."""
        return 1

    @property
    def step(self) -> int:
        """Cycles between them."""
        return 1

    @abstractmethod
    def results(self, technology: Technology) -> Results:
        """The queue of the results."""

    def departures(self, starts: Times, technology: Technology) -> Times:
        """When the words leave whose blocks start at `starts`, as `results` counts."""
        return self.results(technology).departures(starts, self.step)


@dataclass(frozen=True, kw_only=True, eq=False)
class RescaledShape(LanesShape):
    """The sum of each lane over a block of words, rescaled: division, zero points and clamp are in the constants.

    accumulator, output
        Shapes of a sum, and of an element that leaves.
    rescaler
        The constants of all channels.
    out_lanes
        Elements that leave in a beat, and the number of units that rescale; divides `lanes`.
    bipolar
        The one bit of an element means +1 or -1.
    """

    accumulator: Shape
    rescaler: RescalerConstants
    output: Shape
    out_lanes: int
    bipolar: bool = False

    def check_lanes(self, what: str) -> None:
        """ValueError, which calls the unit `what`, where a word does not leave in equal parts."""
        if self.lanes % self.out_lanes:
            raise ValueError(f"out_lanes of {what} must divide its {self.lanes} lanes, not {self.out_lanes}")

    @property
    @abstractmethod
    def step(self) -> int:
        """Cycles between the words that leave for the sums of a word."""

    @property
    def parts(self) -> int:
        """Words that leave for the sums of a word."""
        return self.lanes // self.out_lanes

    @property
    def operand(self) -> Operand:
        return Operand(self.element, self.bipolar)

    @property
    def sums_width(self) -> int:
        """Bits of the sums of a word."""
        return self.lanes * self.accumulator.width

    @property
    def width_out(self) -> int:
        return self.out_lanes * self.output.width

    @property
    def words_out(self) -> Any:
        return stream_of(self.output, self.out_lanes)

    @property
    def drain_latency(self) -> int:
        """From the sums of a word to the last part of them."""
        return 1 + (self.parts - 1) * self.step if self.parts > 1 else 0

    @cached_property
    def constants(self) -> list[RescalerConstants]:
        """The constants of each unit that rescales: number k has the channels k, k + out_lanes, ..."""
        return [self.rescaler.of_lane(k, self.out_lanes) for k in range(self.out_lanes)]

    def rescale_latency(self, technology: Technology) -> int:
        """The latency of the slowest unit that rescales."""
        return max(part.latency(accumulator=self.accumulator, output=self.output, interval=self.step,
                                technology=technology) for part in self.constants)

    def rescale_cost(self, technology: Technology) -> Resources:
        return sum((part.cost(accumulator=self.accumulator, output=self.output, interval=self.step,
                              technology=technology).within(f"requantizer{k}")
                    for k, part in enumerate(self.constants)), Resources())

    def rescalers(self, technology: Technology, name: str) -> list[Rescaler]:
        return [part.unit(accumulator=self.accumulator, output=self.output, interval=self.step, technology=technology,
                          name=f"{name}_requantizer{k}") for k, part in enumerate(self.constants)]


@dataclass(frozen=True, kw_only=True, eq=False)
class RescaledPoolShape(RescaledShape, PoolShape):
    """The sum of each lane over a window, rescaled.

    The `rescaler` has an `order` where windows at the edges count fewer elements than others.
    """

    def __post_init__(self) -> None:
        self.check_lanes("an average pool")
        check_constants(self.rescaler, self.window, self.window.words * self.lanes)


def check_constants(rescaler: RescalerConstants, window: WindowShape, channels: int) -> None:
    """ValueError if the constants are not those of the channels, or their classes not those of the output's pixels."""
    if rescaler.channels != channels:
        raise ValueError(f"constants of an average pool must be those of its {channels} channels, not of "
                         f"{rescaler.channels}")
    order, pixels = rescaler.order, (window.out_height, window.out_width)
    if order is not None and (len(order.rows), len(order.columns)) != pixels:
        raise ValueError(f"classes of the pixels of an average pool must be those of {pixels[0]} rows and {pixels[1]} "
                         f"columns, not {len(order.rows)} and {len(order.columns)}")
