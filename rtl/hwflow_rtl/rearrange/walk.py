"""The counters of a `RearrangeStage`: three nested loops, and for each a table of what happens at the end of an entry.

A table is cut into blocks of `period` entries, and equal blocks that follow each other are stored once: a whole factor
of resizing, a crop, a shuffle, a transpose need a few entries, which are constants or small tables in logic; a factor
like 8/5 or a choice of channels needs a ROM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.pipeline import Nest, delay, prefetched
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .shape import Axis, RearrangeShape

#: Entries of a table that one logic cell a bit can hold.
ENTRIES_IN_LOGIC = 16
#: More runs than this take more comparisons than a table is worth.
MOST_RUNS = 8

FIELDS = ("step", "freed", "turn", "under", "outside", "final")
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AxisTable:
    """The table of an axis: equal blocks of entries that follow each other are stored once.

    records
        int64[entries, fields]; step and freed words less one; the step around a ring, and that less the ring's words.
    period
        Entries of a block.
    ends
        The last block of each run of equal blocks.
    """

    records: IntArray
    period: int
    ends: tuple[int, ...]

    @staticmethod
    def of(axis: Axis, *, outermost: bool, innermost: bool, around: int) -> AxisTable:
        """The smallest; `around` as of a `WalkerShape`.

        In place of step and freed words of an inner loop's last entry those of the loop around it count: they may be
        anything here.  So may `final` where there is no loop inside.
        """
        final, turn = axis.final & (not innermost), axis.step % around
        records = np.stack([axis.step - 1, axis.freed - 1, turn, turn - around, axis.outside, final],
                           axis=1).astype(np.int64)
        count, tables = len(records), []
        for period in (n for n in range(1, count + 1) if count % n == 0):
            entries = records.copy()
            if not outermost:
                entries[-1, :4] = entries[-1 - period, :4] if period < count else 0
            blocks = entries.reshape(count // period, -1)
            ends = np.append(np.flatnonzero((blocks[1:] != blocks[:-1]).any(axis=1)), len(blocks) - 1)
            if len(ends) <= MOST_RUNS:
                tables.append(AxisTable(entries, period, tuple(int(end) for end in ends)))
        return min(tables, key=lambda table: (table.size, len(table.ends)))

    @property
    def counts(self) -> tuple[int, int]:
        """Iterations of the loop inside a block, and of that over the blocks."""
        return self.period, len(self.records) // self.period

    @property
    def size(self) -> int:
        """Entries that are stored, in powers of two of both loops."""
        return 1 << (ceil_log2(self.period) + ceil_log2(len(self.ends)))

    @cached_property
    def stored(self) -> IntArray:
        """Records by the address, which is the low bits of the inner counter and then the run: [size, fields]."""
        places = 1 << ceil_log2(self.period)
        stored = np.repeat(self.records[:1], self.size, axis=0)
        for run, end in enumerate(self.ends):
            for k in range(self.period):
                stored[run * places + (self.period - 2 - k) % places] = self.records[end * self.period + k]
        return stored

    def shape_of(self, field: int) -> Shape:
        values = self.records[:, field]
        return Shape.cast(range(min(0, int(values.min())), max(1, int(values.max()) + 1)))

    @property
    def varying(self) -> list[int]:
        """The fields that are not constant."""
        return [k for k in range(len(FIELDS)) if (self.records[:, k] != self.records[0, k]).any()]

    @property
    def width(self) -> int:
        """Bits of a stored entry."""
        return sum(self.shape_of(k).width for k in self.varying)

    @property
    def in_rom(self) -> bool:
        return self.size > ENTRIES_IN_LOGIC and bool(self.varying)

    def words(self) -> list[int]:
        """The stored entries as words of a ROM, the step in the lowest bits."""
        found = []
        for record in self.stored.tolist():
            word, place = 0, 0
            for k in self.varying:
                width = self.shape_of(k).width
                word |= (record[k] & (1 << width) - 1) << place
                place += width
            found.append(word)
        return found

    def contents(self) -> npt.NDArray[np.uint8]:
        octets = -(-self.width // 8)
        return np.array([list(word.to_bytes(octets, "little")) for word in self.words()], dtype=np.uint8)


@dataclass(frozen=True, kw_only=True)
class WalkerShape:
    """The words of `order`, around a ring of `around` words; 1 where addresses need not turn around one."""

    order: RearrangeShape
    around: int = 1

    @cached_property
    def tables(self) -> list[AxisTable]:
        order = self.order
        inside = (1, len(order.groups), len(order.groups) * len(order.columns))
        return [AxisTable.of(axis, outermost=k == 2, innermost=inside[k] == 1, around=self.around)
                for k, axis in enumerate(order.axes)]

    def latency(self, technology: Technology) -> int:
        """Cycles from the counters to a description."""
        return technology.timing.rom if any(table.in_rom for table in self.tables) else 1

    @property
    def layout(self) -> data.StructLayout:
        """A description."""
        steps, freed, around = self.order.steps, self.order.freed, self.around
        turns = {"turn": Shape.cast(range(around)), "under": Shape.cast(range(-around, 0))} if around > 1 else {}
        return data.StructLayout({
            **turns, "hop": Shape.cast(range(min(0, int(steps.min())) - 1, max(1, int(steps.max())))),
            "freed": Shape.cast(range(-1, max(1, int(freed.max())))), "outside": 1, "ends": 1})

    @property
    def distinct_bits(self) -> int:
        """Bits of a description, without those that are constant or equal to others."""
        order, around = self.order, self.around
        groups, columns, rows = (np.stack([axis.step - 1, axis.freed - 1, axis.step % around,
                                           axis.step % around - around]) for axis in order.axes)
        distinct = np.unique(np.concatenate([groups[:, :-1], columns[:, :-1], rows], axis=1), axis=1)
        bits = (distinct[:, None] >> np.arange(64)[:, None] & 1).reshape(len(distinct) * 64, -1)
        courses = np.unique(bits ^ bits[:, :1], axis=0)
        return len(courses) - 1 + int(order.outside.any()) + int(order.outside[0])

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated: of the bits of a description those count that differ in their course."""
        tables = self.tables
        latency, bits = self.latency(technology), self.distinct_bits
        counters = sum((count - 1).bit_length() for table in tables for count in table.counts if count > 1)
        runs = sum(len(table.ends) - 1 for table in tables)
        total = fitted("Walker", counter_bits=counters, runs=runs, described_bits=(latency + 1) * bits)
        for axis, table in enumerate(tables):
            if table.in_rom:
                total += technology.rom_cost(width=table.width, depth=table.size, name=f"table{axis}")
        return total


class Walker(wiring.Component):
    """Describes the output word that is played next; `start` moves on to the one after.

    Ports
    -----
    hop
        Words from this word's address to the next one's, less one, so that "plus the step, minus the words that
        came" is one carry chain.
    freed
        Words that are given free with this word, less one.
    outside
        This word is padding.
    ends
        It is the last of its frame.
    turn, under
        Only with `around` words of a ring, which are no power of two: the step around the ring, not negative, and the
        same less `around`.

    `ahead` descriptions are in registers, which hold the first ones after reset.  Each description that leaves starts
    the making of another, which is there `ahead - 1` cycles later.  So there is always one, and tables may be ROMs.
    """

    def __init__(self, *, shape: WalkerShape, technology: Technology, name: str):
        self.order, self.around = shape.order, shape.around
        self.technology = technology
        self.name = name
        self.tables, self.layout = shape.tables, shape.layout
        self.latency = shape.latency(technology)
        fields = self.layout.members
        super().__init__({"start": In(1), **{field: Out(kind) for field, kind in fields.items()}})

    def elaborate(self, platform):
        m = Module()
        counts = [count for table in self.tables for count in table.counts]
        ahead = (self.latency + 1) % self.order.output_words
        nest = Nest(m, counts, ahead=ahead, name="left")
        nest.advance(self.start)
        groups, columns, rows = (self.record(m, nest, k, ahead) for k in range(3))
        lasts = [Cat(*nest.last[k:k + 2]).all() for k in (0, 2, 4)]
        flags = delay(m, Cat(lasts[0], lasts[0] & lasts[1], Cat(*lasts).all()), self.latency, "flags")
        group_last, column_last, frame_last = flags
        made = Signal(self.layout)
        column_freed = Mux(rows["final"], columns["freed"], -1)
        group_freed = Mux(rows["final"] & columns["final"], groups["freed"], -1)
        for field, entry in (("hop", "step"), ("turn", "turn"), ("under", "under")):
            if field in self.layout.members:
                m.d.comb += getattr(made, field).eq(
                    Mux(group_last, Mux(column_last, rows[entry], columns[entry]), groups[entry]))
        m.d.comb += [
            made.freed.eq(Mux(group_last, Mux(column_last, rows["freed"], column_freed), group_freed)),
            made.outside.eq(rows["outside"] | columns["outside"] | groups["outside"]), made.ends.eq(frame_last),
        ]
        first = self.prefetch(m, made)
        m.d.comb += [getattr(self, field).eq(getattr(first, field)) for field in self.layout.members]
        return m

    def record(self, m: Module, nest: Nest, axis: int, ahead: int) -> dict[str, Value]:
        """The fields of the entry that is looked up, `latency` cycles later."""
        table = self.tables[axis]
        address = Cat(self.inner(nest, axis), self.run(m, nest, axis, ahead))
        word = Signal(table.width, name=f"record{axis}")
        if table.in_rom:
            m.submodules[f"table{axis}"] = rom = self.technology.rom(
                width=table.width, contents=table.contents(), name=f"{self.name}_table{axis}")
            m.d.comb += [rom.addr.eq(address), word.eq(rom.data)]
        elif table.varying:
            selected = Signal(table.width, name=f"selected{axis}")
            with m.Switch(address):
                for place, entry in enumerate(table.words()):
                    with m.Case(place):
                        m.d.comb += selected.eq(entry)
            m.d.comb += word.eq(delay(m, selected, self.latency, f"record{axis}"))
        fields: dict[str, Value] = {}
        place = 0
        for k, field in enumerate(FIELDS):
            kind = table.shape_of(k)
            if k in table.varying:
                bits = word[place:place + kind.width]
                fields[field] = bits.as_signed() if kind.signed else bits
                place += kind.width
            else:
                fields[field] = Const(int(table.records[0, k]), kind)
        return fields

    def inner(self, nest: Nest, axis: int) -> Value:
        """The low bits of the counter inside a block: -1 is all of them."""
        left = nest.left[2 * axis]
        return Const(0, 0) if left is None else left[:ceil_log2(self.tables[axis].period)]

    def run(self, m: Module, nest: Nest, axis: int, ahead: int) -> Value:
        """The run of the block that is looked up."""
        table, loop = self.tables[axis], 2 * axis + 1
        if len(table.ends) == 1:
            return Const(0, 0)
        before = int(np.prod(nest.counts[:loop], dtype=np.int64))
        block = ahead // before % nest.counts[loop]
        run = Signal(range(len(table.ends)), init=int(np.searchsorted(table.ends, block)), name=f"run{axis}")
        with m.If(self.start & Cat(*nest.last[:loop]).all()):
            with m.If(nest.last[loop]):
                m.d.sync += run.eq(0)
            with m.Elif(nest.at(loop, table.ends[:-1])):
                m.d.sync += run.eq(run + 1)
        return run

    def prefetch(self, m: Module, made: Signal) -> Signal:
        """A shift register of descriptions, full at reset."""
        shape, words = self.order, []
        for k in range(self.latency + 1):
            index = k % shape.output_words
            step = int(shape.steps[index])
            turns = {"turn": step % self.around, "under": step % self.around - self.around} if self.around > 1 else {}
            words.append(Signal(self.layout, name=f"next{k}", init={
                **turns, "hop": step - 1, "freed": int(shape.freed[index]) - 1,
                "outside": int(shape.outside[index]), "ends": int(index == shape.output_words - 1)}))
        return prefetched(m, self.start, made, words)
