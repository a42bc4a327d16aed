"""After the array of a shared stage: sums become elements, perhaps others in a table, and these words of the frame
memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..rescale.plan import RequantizerPlan, RequantizerStyle
from ..rescale.ranges import RequantizerRanges, RequantizerRoom, RequantizerRounding, shape_range, union
from ..rescale.requantizer import RequantizerDatapath
from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .constants import check_room, constants_bits, constants_layout
from .shape import SharedShape
from .steps import ELEMENT_BITS, IntArray

# A requantizer whose constants come with each value: one unit for all layers of a shared stage.


ELEMENT = signed(ELEMENT_BITS)
#: Bits of a zero point with its sign: that of an unsigned tensor less half of its range has one more than an element.
ZERO_POINT_BITS = ELEMENT_BITS + 1


@dataclass(frozen=True, eq=False)
class SharedRequantizerPlan(RequantizerPlan):
    """The pipeline of a `SharedRequantizer`: its constants need no ROM, and its clamp no constants."""

    @property
    def lead(self) -> int:
        return 0

    @property
    def in_halves(self) -> bool:
        return False

    @property
    def above_shape(self) -> Shape:
        """Holds the rounded result with any zero point, and the operands of the addition that makes it."""
        ranges, (least, most) = self.ranges, shape_range(signed(ZERO_POINT_BITS))
        halves = ranges.halves_after(ranges.most_extra.bit_length()).width - 1
        results = union([((low >> 1) + least, (high >> 1) + 1 + most) for low, high in ranges.halves])
        return signed(max(halves, ZERO_POINT_BITS, results.width))

    def constants_cost(self) -> Resources:
        return Resources()

    def rounding_cost(self) -> Resources:
        """The addition, two comparisons, whether a result is far away, two tables for each bit; what was fitted."""
        result, dropped = self.above_shape.width, self.ranges.drop if self.ranges.rounding.needs_rest else 0
        return fitted("SharedRequantizer") + Resources(
            lut=result + 2 * ELEMENT_BITS + result // 3 + 2 * ELEMENT_BITS + dropped // 3, ff=2 * ELEMENT_BITS + 4)


@dataclass(frozen=True, kw_only=True)
class SharedRequantizerShape:
    """Which constants a `SharedRequantizer` has room for, and how fast it is.

    accumulator
        Signed shape of `i_value`.
    room, fraction, rounding
        Widths of the constants; fractional bits of the bias; how the bits that are shifted out are rounded.
    interval
        Least cycles from one `i_valid` to the next, see `Requantizer`.
    style
        What multiplies.
    wide
        Results of two bytes may be taken byte by byte.
    """

    accumulator: Shape
    room: RequantizerRoom
    fraction: int
    rounding: RequantizerRounding
    interval: int
    style: RequantizerStyle
    wide: bool = False

    def plan(self, technology: Technology) -> SharedRequantizerPlan:
        """ValueError for a room, a fraction or an interval that no unit has, and for sums too wide for blocks."""
        room = self.room
        check_room(room)
        if self.interval < 1:
            raise ValueError(f"interval of a SharedRequantizer must be at least 1 cycle, not {self.interval}")
        least, most = shape_range(ELEMENT)
        ranges = RequantizerRanges.of(  # with room the constants of this one channel say nothing
            accumulator=self.accumulator, bias=np.array([0]), multiplier=np.array([0 if room.factor_bits else 1]),
            shift=np.array([room.base]), zero_point=0, low=least, high=most, output=ELEMENT, fraction=self.fraction,
            rounding=self.rounding, room=room, outward=room.outward)
        plan = SharedRequantizerPlan(ranges, self.interval, self.style, technology)
        _ = plan.multiplier  # refuses sums that are too wide
        return plan

    def latency(self, technology: Technology) -> int:
        """Cycles from `i_valid` to `o_valid`."""
        return self.plan(technology).latency

    def cost(self, technology: Technology) -> Resources:
        """DSP exact, LUT and FF estimated, without what `wide` takes."""
        return self.plan(technology).cost()

    def build(self, technology: Technology) -> SharedRequantizer:
        return SharedRequantizer(shape=self, technology=technology)


class SharedRequantizer(RequantizerDatapath):
    """o_value = clamp(round((i_value * 2**fraction + bias) * factor / 2**(base + extra)) + zero_point, low, high).

    Exactly, for all constants that `room` has room for; `base` is that of the room, and with `factor_bits` 0 the factor
    is 1.  The result may be far beyond `low` and `high`: all of its bits count.

    Ports
    -----
    i_valid, i_value
        A value.
    bias, factor, extra, moves
        The constants of its channel: they are read in the cycle of `i_valid`, and may be anything in others.  `extra`
        must be at most `room.extra`.  `moves`, where the room has `outward`: the product moves so far away from zero.
    zero_point, low, high
        Of all values: registers that stay as they are from an `i_valid` to its `o_valid`; low <= high.
    byte
        As those.  0: results are clamped; where the unit is `wide`, 1 and 2: `o_value` is the lowest byte, the next one
        of what is before the clamp.
    o_valid, o_value
        The result, signed, `latency` cycles later; no backpressure.
    """

    def __init__(self, *, shape: SharedRequantizerShape, technology: Technology):
        self.wide, self.room = shape.wide, shape.room
        self.plan = shape.plan(technology)
        super().__init__({
            "i_valid": In(1), "i_value": In(shape.accumulator), "bias": In(signed(self.room.bias_bits)),
            "factor": In(unsigned(self.room.factor_bits)), "extra": In(unsigned(self.room.extra.bit_length())),
            "moves": In(unsigned(int(self.room.outward > 0))),
            "zero_point": In(signed(ZERO_POINT_BITS)), "low": In(ELEMENT), "high": In(ELEMENT),
            "byte": In(2),
            "o_valid": Out(1), "o_value": Out(ELEMENT)})

    @property
    def latency(self) -> int:
        """Cycles from `i_valid` to `o_valid`."""
        return self.plan.latency

    def model(self, values: IntArray, bias: IntArray, factor: IntArray, extra: IntArray, zero_point: int, low: int,
              high: int, moves: IntArray | int = 0) -> IntArray:
        """The results of the values [n], each with its constants [n]; all int64, products below 2**62."""
        ranges = self.plan.ranges
        product = ((np.asarray(values, dtype=np.int64) << ranges.fraction) + bias) * (
            factor if self.room.factor_bits else 1)
        product += np.where(product < 0, -1, 1) * self.room.outward * moves
        return np.clip(ranges.rounding.of_quotient(product, np.asarray(extra, np.int64) + self.room.base) + zero_point,
                       low, high)

    def constants_read(self, m: Module) -> dict[str, Value]:
        return {"bias": self.bias, "factor": self.factor if self.room.factor_bits else Const(1), "extra": self.extra,
                "moves": self.moves}

    def finish(self, m: Module, valid: Value, halves: Value, up: Value) -> None:
        """The addition of the zero point; comparisons of the low bits, and whether there are others; the clamp."""
        plan = self.plan
        result = Signal(plan.above_shape, reset_less=True)
        # One carry chain: the lowest bit of both operands makes the carry.
        m.d.sync += result.eq(
            (Cat(1, halves[1:]).as_signed() + Cat(up, self.zero_point).as_signed()) >> 1)

        element, sign, above = result[:ELEMENT_BITS].as_signed(), result[-1], result[ELEMENT_BITS - 1:-1]
        rest = Signal(ELEMENT, reset_less=True)
        is_far, is_negative = Signal(reset_less=True), Signal(reset_less=True)
        under, over = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            rest.eq(element), under.eq(element < self.low), over.eq(element > self.high),
            is_far.eq((above ^ sign.replicate(len(above))).any()), is_negative.eq(sign)]
        if self.wide:
            both, is_byte = Signal(signed(2 * ELEMENT_BITS)), self.byte.any()
            m.d.comb += both.eq(result)
            m.d.sync += rest.eq(Mux(self.byte[1], both[ELEMENT_BITS:], element))
            with m.If(is_byte):
                m.d.sync += [under.eq(0), over.eq(0), is_far.eq(0)]
        m.d.sync += self.o_value.eq(Mux(
            Mux(is_far, ~is_negative, over), self.high, Mux(Mux(is_far, is_negative, under), self.low, rest)))
        m.d.comb += self.o_valid.eq(delay(m, valid, plan.tail_latency, "result_valid", reset_less=False))


@dataclass(frozen=True, kw_only=True)
class ResultsShape:
    """The sums of a block are rescaled, `lanes` of them every `interval` cycles, and collected in a word.

    `style` says what multiplies.
    """

    shape: SharedShape
    style: RequantizerStyle

    @property
    def requantizer(self) -> SharedRequantizerShape:
        shape, sums = self.shape, self.shape.sums
        return SharedRequantizerShape(
            accumulator=signed(sums.accumulator), room=sums.room, fraction=sums.fraction, rounding=sums.rounding,
            interval=shape.interval, style=self.style, wide=shape.wide)

    @property
    def groups(self) -> int:
        """Parts of a word that are rescaled one after the other."""
        return self.shape.columns // self.shape.lanes

    def latency(self, technology: Technology) -> int:
        """Cycles from the sums of a block to `valid`."""
        groups, unit = self.groups, self.requantizer.latency(technology)
        looked_up = technology.timing.rom if self.shape.tables else 0
        return (groups - 1) * self.shape.interval + unit + (groups > 1) + looked_up

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated."""
        shape = self.shape
        units = self.requantizer.cost(technology).copies(shape.lanes)
        if shape.tables:
            table = technology.rom_cost(width=ELEMENT_BITS, depth=shape.tables << ELEMENT_BITS, name="table",
                                        holds=Holds.TABLE)
            beside = Resources(lut=ELEMENT_BITS, ff=ELEMENT_BITS * technology.timing.rom + 1)
            units += (table + beside).copies(shape.lanes)
        if shape.wide:
            units += Resources(lut=ELEMENT_BITS + 4).copies(shape.lanes)
        return units + Resources(lut=8, ff=shape.columns * ELEMENT_BITS + 16)


class Results(wiring.Component):
    """Rescales the sums of a block and collects them in a word; `tables` are those of the program.

    Ports
    -----
    early, ends_tile
        The sums of a block will be there `timing.ram` cycles later; the block is the last of its tile.
    move, sums
        The lowest `lanes` sums are taken; the others follow.
    group, constants, tile_done
        As of `Weights`.
    zero_point, low, high, byte, looks_up, table
        Of the step; `table` is the number of the table in which elements are looked up where `looks_up` is set.
    valid, word
        A word is complete, `ResultsShape.latency` cycles after its sums.
    next_valid
        `valid` will be set in the next cycle.
    """

    def __init__(self, *, shape: ResultsShape, tables: Sequence[IntArray], technology: Technology, name: str):
        self.shape, self.groups = shape.shape, shape.groups
        self.tables = tables
        self.technology = technology
        self.name = name
        lanes, columns, room = self.shape.lanes, self.shape.columns, self.shape.sums.room
        self.units = [shape.requantizer.build(technology) for _ in range(lanes)]
        super().__init__({
            "early": In(1), "ends_tile": In(1), "move": Out(1),
            "sums": In(data.ArrayLayout(signed(self.shape.sums.accumulator), lanes)),
            "group": Out(range(self.groups)), "constants": In(lanes * constants_bits(room)),
            "tile_done": Out(1),
            "zero_point": In(signed(9)), "low": In(signed(8)), "high": In(signed(8)),
            "looks_up": In(1), "table": In(range(self.shape.tables)), "byte": In(2),
            "valid": Out(1), "next_valid": Out(1), "word": Out(columns * ELEMENT_BITS)})

    def elaborate(self, platform):
        m = Module()
        shape, groups = self.shape, self.groups
        takes = [self.early]  # the constants of a group of sums are read
        for k in range(1, groups):
            takes.append(delay(m, takes[-1], shape.interval, f"take{k}", reset_less=False))
        take, ends = Signal(name="take"), Signal(name="ends")
        m.d.comb += take.eq(Cat(*takes).any())
        with m.If(self.early):
            m.d.sync += ends.eq(self.ends_tile)
        last = takes[-1]
        m.d.comb += self.tile_done.eq(last & (self.ends_tile if groups == 1 else ends))
        if groups > 1:
            with m.If(take):
                m.d.sync += self.group.eq(Mux(last, 0, self.group + 1))
        move = delay(m, take, self.technology.timing.ram, "move", reset_less=False)
        m.d.comb += self.move.eq(move)
        words = []
        for lane, unit in enumerate(self.units):
            m.submodules[f"requantizer{lane}"] = unit
            layout = constants_layout(shape.sums.room)
            constants = data.View(layout, self.constants.word_select(lane, layout.size))
            m.d.comb += [
                unit.i_valid.eq(move), unit.i_value.eq(self.sums[lane]), unit.bias.eq(constants.bias),
                unit.factor.eq(constants.factor), unit.extra.eq(constants.extra), unit.moves.eq(constants.moves),
                unit.zero_point.eq(self.zero_point), unit.low.eq(self.low), unit.high.eq(self.high),
                unit.byte.eq(self.byte)]
            words.append(self.looked_up(m, unit, lane))
        self.collect(m, move, words)
        return m

    def collect(self, m: Module, move: Value, made: Sequence[Value]) -> None:
        """The elements of a group of sums become a part of a word."""
        shape, groups = self.shape, self.groups
        valid = self.units[0].o_valid
        if self.tables:
            valid = delay(m, valid, self.technology.timing.rom, "found", reset_less=False)
        if groups == 1:
            cycles = self.units[0].latency + (self.technology.timing.rom if self.tables else 0)
            m.d.comb += [self.valid.eq(valid), self.word.eq(Cat(*made)),
                         self.next_valid.eq(delay(m, move, cycles - 1, "result_next", reset_less=False))]
            return
        count = Signal(range(groups), name="collected")
        with m.If(valid):
            m.d.sync += [self.word.eq(Cat(self.word[shape.lanes * ELEMENT_BITS:], *made)),
                         count.eq(Mux(count == groups - 1, 0, count + 1))]
        m.d.comb += self.next_valid.eq(valid & (count == groups - 1))
        m.d.sync += self.valid.eq(self.next_valid)

    def looked_up(self, m: Module, unit: SharedRequantizer, lane: int) -> Value:
        """The bits of what the element of a rescaler becomes; with tables `timing.rom` cycles later."""
        element = Value.cast(unit.o_value)[:]
        if not self.tables:
            return element
        contents = np.concatenate(self.tables) & ((1 << ELEMENT_BITS) - 1)
        m.submodules[f"table{lane}"] = rom = self.technology.rom(
            width=ELEMENT_BITS, contents=contents.astype(np.uint8).reshape(-1, 1), name=f"{self.name}_table{lane}")
        m.d.comb += rom.addr.eq(Cat(element, self.table))
        return Mux(self.looks_up, rom.data, delay(m, element, self.technology.timing.rom, f"element{lane}"))
