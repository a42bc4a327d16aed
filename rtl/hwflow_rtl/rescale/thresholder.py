"""From an exact sum to an element by comparison: how many of the channel's thresholds does it reach?"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology, price
from ..vendor.memory import Holds
from .order import Order
from .ranges import shape_range, union
from .rescaler import Rescaler, RescalerConstants, channels_cost, count_channels

IntArray = npt.NDArray[np.int64]

#: Thresholds of a channel: as many as an element of 8 bits has steps.
MOST_LEVELS = 255
#: Thresholds that are compared at once: their flags become a number in two levels of 4-input tables.
MOST_COMPARATORS = 15


class ThresholderStyle(enum.Enum):
    """A comparator for each threshold, or a binary search with a comparator for each bit of the result."""

    COMPARATORS = "comparators"
    SEARCH = "search"


@dataclass(frozen=True, eq=False)
class ThresholderConstants(RescalerConstants):
    """y = low + how many of the channel's thresholds are <= a.

    `values` is int64[channels, levels], 1 to 255 levels, ascending.  Without a `style` it is the cheaper one.  Where
    classes of pixels or passes have thresholds of their own, `order` says which come when.  With `any_values` the unit
    does not depend on the values, so that a routed one can be given others.
    """

    values: IntArray
    low: int
    style: ThresholderStyle | None = None
    order: Order | None = None
    any_values: bool = False

    @property
    def constants_count(self) -> int:
        return len(self.values)

    def picked(self, places: IntArray, order: Order | None) -> ThresholderConstants:
        return replace(self, values=self.values[places], order=order)

    def unit(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology,
             name: str) -> Thresholder:
        return Thresholder(self.plan(accumulator, output, interval, technology), name=name, order=self.order)

    def cost(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> Resources:
        plan = self.plan(accumulator, output, interval, technology)
        return plan.cost() + (channels_cost(len(plan.rows), self.order) if len(plan.rows) > 1 else Resources())

    def latency(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> int:
        return self.plan(accumulator, output, interval, technology).latency

    def plan(self, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> ThresholderPlan:
        """Raises ValueError for thresholds that are no thresholds."""
        values = np.asarray(self.values, dtype=np.int64)
        if values.ndim != 2 or not len(values) or not 1 <= values.shape[1] <= MOST_LEVELS:
            raise ValueError(f"thresholds must be an array of channels and of 1 to {MOST_LEVELS} levels, not of the "
                             f"shape {values.shape}")
        if (np.diff(values, axis=1) < 0).any():
            channel = int(np.argmax((np.diff(values, axis=1) < 0).any(axis=1)))
            raise ValueError(f"thresholds of a channel must be ascending, not those of channel {channel}")
        if interval < 1:
            raise ValueError(f"interval of thresholds must be at least 1 cycle, not {interval}")
        high, (least, most) = self.low + values.shape[1], shape_range(output)
        if not least <= self.low <= high <= most:
            raise ValueError(f"results of thresholds must be in the range of the output, {least} to {most}, not "
                             f"{self.low} to {high}")
        # What no sum reaches is one above the highest; what all sums reach is the lowest.
        lowest, highest = shape_range(accumulator)
        values = np.clip(values, lowest, highest + 1)
        plans = [ThresholderPlan(accumulator, output, values, self.low, interval, technology, style, self.any_values)
                 for style in ([self.style] if self.style else ThresholderStyle)
                 if self.style or style is ThresholderStyle.SEARCH or values.shape[1] <= MOST_COMPARATORS]
        return min(plans, key=lambda plan: price(plan.cost()))


class Thresholder(Rescaler):
    """o_value = low + how many of the channel's thresholds are <= i_value.

    Made by `ThresholderConstants.unit()`.  Two styles:

    COMPARATORS
        The thresholds of a channel are one word of a ROM, or constants; all are compared in one cycle.
    SEARCH
        A pipeline with a step for each bit of the result, highest first.  The ROM of step s is addressed by the channel
        and by the s bits that are found.  With `interval` above the ROM's latency a step holds its value, else the
        value moves along with the address.

    Latency `latency`, constant; initiation interval `plan.interval`, down to 1.  The first `i_valid` comes no earlier
    than `technology.timing.rom` cycles after reset.
    """

    def __init__(self, plan: ThresholderPlan, *, name: str, order: Order | None = None):
        self.plan = plan
        self.name = name
        self.order = order
        super().__init__(plan.accumulator, plan.output)

    @property
    def latency(self) -> int:
        return self.plan.latency

    def model(self, values: IntArray) -> IntArray:
        places = self.order.places(len(values)) if self.order else np.arange(len(values)) % len(self.plan.values)
        rows = self.plan.values[places]
        return (rows <= np.asarray(values, dtype=np.int64)[:, None]).sum(axis=1) + self.plan.low

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        channel = count_channels(m, self.i_valid, len(plan.rows), self.order if len(plan.rows) > 1 else None)
        if plan.style is ThresholderStyle.COMPARATORS:
            valid, count = self.compare(m, channel)
        else:
            valid, count = self.search(m, channel)
        m.d.sync += [self.o_value.eq(count + plan.low), self.o_valid.eq(valid)]
        return m

    def compare(self, m: Module, channel: Value) -> tuple[Value, Value]:
        plan = self.plan
        (table,) = plan.tables
        thresholds = self.read(m, table, channel, *plan.table_names)
        valid = delay(m, self.i_valid, plan.lead, "valid", reset_less=False)
        value = delay(m, self.i_value, plan.lead, "value")
        reached = Signal(plan.levels, reset_less=True)
        m.d.sync += reached.eq(Cat(reaches(value, threshold) for threshold in thresholds))
        return delay(m, valid, 1, "compared", reset_less=False), number_of(list(reached))

    def search(self, m: Module, channel: Value) -> tuple[Value, Value]:
        plan = self.plan
        valid, value, found = self.i_valid, self.i_value, Const(0, 0)
        for step, (name, table) in enumerate(zip(plan.table_names, plan.tables, strict=True)):
            (threshold,) = self.read(m, table, Cat(found, channel), name)
            wait = plan.waits[step]
            valid = delay(m, valid, wait, f"valid{step}", reset_less=False)
            if not plan.holds:
                value, found, channel = (
                    delay(m, data, wait, f"{name}{step}_late")
                    for name, data in (("value", value), ("found", found), ("channel", channel)))
            moved = {name: Signal(shape, name=f"{name}{step}", reset_less=True) for name, shape in (
                ("value", plan.accumulator), ("found", step + 1), ("channel", channel.shape()))}
            with m.If(valid if plan.holds else Const(1)):
                m.d.sync += [moved["value"].eq(value), moved["channel"].eq(channel),
                             moved["found"].eq(Cat(reaches(value, threshold), found))]
            value, found, channel = moved["value"], moved["found"], moved["channel"]
            valid = delay(m, valid, 1, f"moved{step}", reset_less=False)
        return valid, found

    def read(self, m: Module, table: IntArray, address: Value, name: str) -> list[Value]:
        """The columns of the row at `address` of `table`; those that are the same in every row need no memory."""
        plan, shape = self.plan, self.plan.shape
        stored = plan.stored(table)
        thresholds: list[Value] = [Const(int(column[0]), shape) for column in table.T]
        if stored.size:
            m.submodules[name] = rom = plan.technology.rom(
                width=shape.width * len(stored), contents=words_of(table[:, stored], shape.width),
                name=f"{self.name}_{name}")
            m.d.comb += rom.addr.eq(address)
            for place, column in enumerate(stored):
                bits = rom.data.word_select(place, shape.width)
                thresholds[column] = bits.as_signed() if shape.signed else bits
        return thresholds


@dataclass(frozen=True, eq=False)
class ThresholderPlan:
    """How the comparisons are made: shared by the unit, its latency and its cost.  `values` are in reach of a sum."""

    accumulator: Shape
    output: Shape
    values: IntArray
    low: int
    interval: int
    technology: Technology
    style: ThresholderStyle
    any_values: bool = False

    @property
    def levels(self) -> int:
        return int(self.values.shape[1])

    @property
    def bits(self) -> int:
        """The bits of the number of thresholds that are reached."""
        return self.levels.bit_length()

    @property
    def rows(self) -> IntArray:
        """The thresholds of each channel, or of all where they are the same."""
        same = not self.any_values and (self.values == self.values[0]).all()
        return self.values[:1] if same else self.values

    @property
    def tables(self) -> list[IntArray]:
        """Contents of the memories: [channels, levels], or for step s of a search [channels * 2**s, 1].

        Step s finds whether the sum reaches the threshold in the middle of the 2**(bits - s) that are left; thresholds
        that make the number of them a power of two are never reached.
        """
        rows = self.rows
        if self.style is ThresholderStyle.COMPARATORS:
            return [rows]
        never = shape_range(self.accumulator)[1] + 1
        full = np.pad(rows, ((0, 0), (0, (1 << self.bits) - 1 - self.levels)), constant_values=never)
        steps = []
        for step in range(self.bits):
            part = 1 << (self.bits - step)
            steps.append(full[:, part // 2 - 1::part].reshape(-1, 1))
        return steps

    @property
    def shape(self) -> Shape:
        """The shape of a threshold."""
        low, high = (int(end) for end in (self.values.min(), self.values.max()))
        if self.any_values:
            low, high = shape_range(self.accumulator)[0], shape_range(self.accumulator)[1] + 1
        if self.style is ThresholderStyle.SEARCH and self.levels + 1 < 1 << self.bits:
            high = shape_range(self.accumulator)[1] + 1
        return union([(low, high)]) if low < 0 else Shape(max(high.bit_length(), 1))

    def stored(self, table: IntArray) -> IntArray:
        """The columns of `table` that are not the same in every row, or all."""
        if self.any_values:
            return np.arange(table.shape[1])
        return np.flatnonzero((table != table[0]).any(axis=0))

    @property
    def holds(self) -> bool:
        """With time between the sums a step of a search keeps its value, and what the channel alone decides is ahead.
        """
        return self.interval > self.technology.timing.rom

    @property
    def lead(self) -> int:
        """Cycles that a sum waits for the first memory."""
        return 0 if self.holds or not self.stored(self.tables[0]).size else self.technology.timing.rom

    @property
    def waits(self) -> list[int]:
        """Cycles that a sum waits for the memory of each step."""
        rom = self.technology.timing.rom
        return [self.lead, *(rom if self.stored(table).size else 0 for table in self.tables[1:])]

    @property
    def latency(self) -> int:
        return sum(wait + 1 for wait in self.waits) + 1

    @property
    def table_names(self) -> list[str]:
        """The names of the memories of `tables`."""
        if self.style is ThresholderStyle.COMPARATORS:
            return ["thresholds"]
        return [f"step{step}" for step in range(len(self.tables))]

    def cost(self) -> Resources:
        """Without `channels_cost`.  RAM exact, LUT and FF estimated."""
        technology, sum_bits, channel = self.technology, self.accumulator.width, (len(self.rows) - 1).bit_length()
        comparator = Resources(lut=adder_luts(max(sum_bits, self.shape.width) + 1, technology), ff=1)
        total = Resources(lut=self.output.width if self.low else 0, ff=self.output.width + self.latency)
        for name, table in zip(self.table_names, self.tables, strict=True):
            width = self.shape.width * len(self.stored(table))
            if width:
                total += technology.rom_cost(width=width, depth=len(table), name=name, holds=Holds.CONSTANTS)
        if self.style is ThresholderStyle.COMPARATORS:
            return sum((comparator for _ in range(self.levels)), total) + Resources(
                lut=self.levels - 1, ff=self.lead * sum_bits)
        for step, wait in enumerate(self.waits):
            total += comparator
            if step + 1 < self.bits:
                total += Resources(ff=sum_bits + channel + step)
            if not self.holds:
                total += Resources(ff=wait * (sum_bits + step + (channel if step + 1 < self.bits else 0)))
        return total


def reaches(value: Value, threshold: Value) -> Value:
    """value >= threshold, by the sign of a difference: one carry chain."""
    difference = value - threshold
    return ~difference[-1] if difference.shape().signed else Const(1, 1)


def number_of(reached: Sequence[Value]) -> Value:
    """How many of `reached` are set; a set one has none clear before it."""
    if len(reached) == 1:
        return reached[0]
    top = 1 << (len(reached).bit_length() - 1)
    above, below = list(reached[top:]), list(reached[:top - 1])
    upper, lower = number_of(above) if above else Const(0, 0), number_of(below)
    return Cat(Mux(reached[top - 1], upper, lower)[:max(len(upper), len(lower))], reached[top - 1])


def words_of(values: IntArray, width: int) -> npt.NDArray[np.uint8]:
    """Rows of integers of `width` bits to words for a ROM, the first in the lowest bits."""
    bits = (values[:, :, None] >> np.arange(width)) & 1
    return np.packbits(bits.reshape(len(values), -1).astype(np.uint8), axis=1, bitorder="little")
