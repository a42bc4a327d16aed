"""Cells make hidden states of gate sums: the pipelines of rnn, gru and lstm, `lanes` units at a time.

Cycles are counted from the beat of gate sums of the recurrent product; `LoopTiming` has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..matrix.weights import packed
from ..multiply.products import WideMultipliers, WideProductShape
from ..stream.pipeline import Nest, adder_luts, delay
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .memories import StateMemory, StateMemoryShape, beats_memory, beats_memory_cost
from .shape import ONE_FRACTION, VALUE, LoopTiming, RecurrentShape


class Beat:
    """The marks of a beat in some cycle: `valid`; `place` of its units in the gate; `initial`: the first step of a
    sequence; `gates`: whether it is of that gate."""

    def __init__(self, valid: Value, place: Value, initial: Value, gates: Mapping[str, Value]):
        self.valid, self.place, self.initial, self.gates = valid, place, initial, gates

    def of(self, gate: str) -> Value:
        """Whether it is a valid beat of `gate`."""
        return self.valid & self.gates[gate]


class Trail:
    """Counts the beats that `valid` announces; `at(cycle)` is the beat whose sums come in cycle 0.

    `lead`: it is announced so many cycles before.
    """

    def __init__(self, m: Module, shape: RecurrentShape, valid: Value, lead: int):
        self.m, self.lead = m, lead
        nest = Nest(m, (shape.beats, len(shape.gates), shape.steps), name="beat")
        nest.advance(valid)
        place, initial = Signal(range(max(2, shape.beats)), name="place"), Signal(init=1, name="initial")
        last_gate = nest.at(1, [len(shape.gates) - 1])
        with m.If(valid):
            m.d.sync += place.eq(Mux(nest.last[0], 0, place + 1))
            with m.If(nest.last[0] & last_gate):
                m.d.sync += initial.eq(0 if shape.streaming else nest.last[2])
        gates = {gate: nest.at(1, [k]) for k, gate in enumerate(shape.gates)}
        self.beats = [Beat(valid, place, initial, gates)]

    def at(self, cycle: int) -> Beat:
        """The beat whose sums come `cycle` cycles before."""
        while len(self.beats) <= cycle + self.lead:
            before, number = self.beats[-1], len(self.beats)
            names = list(before.gates)
            flags = delay(self.m, Cat(before.initial, *(before.gates[name] for name in names)), 1, f"flags{number}")
            self.beats.append(Beat(
                delay(self.m, before.valid, 1, f"beat{number}", reset_less=False),
                delay(self.m, before.place, 1, f"place{number}"), flags[0],
                {name: flags[k + 1] for k, name in enumerate(names)}))
        return self.beats[cycle + self.lead]


def rounds_up(value: Value, bits: int) -> Value:
    """Whether value / 2**bits is nearer to the next integer, or as near and that one is even."""
    if not bits:
        return Const(0, 1)
    return value[bits - 1] & (value[bits] | value[:bits - 1].any()) if bits > 1 else value[0] & value[1]


def quotient(m: Module, value: Value, bits: int, name: str, base: Value | None = None) -> Signal:
    """base + value / 2**bits, one cycle later."""
    above = (value >> bits).as_signed()
    width = max(len(above), 0 if base is None else len(base)) + 1
    made = Signal(signed(width), name=name, reset_less=True)
    # One carry chain: the lowest bits of both operands make the carry.
    low, high = Cat(1, above).as_signed(), Cat(rounds_up(value, bits), Const(0, 1) if base is None else base)
    m.d.sync += made.eq((low + high.as_signed()) >> 1)
    return made


def rounded(m: Module, value: Value, bits: int, name: str) -> Signal:
    """value / 2**bits, two cycles later; for quotients of many bits."""
    above, up = delay(m, (value >> bits).as_signed(), 1, f"{name}_floor"), delay(
        m, rounds_up(value, bits), 1, f"{name}_up")
    made = Signal(signed(len(above) + 1), name=name, reset_less=True)
    m.d.sync += made.eq(above + up)
    return made


def saturated(m: Module, value: Value, shape: Shape, name: str) -> Signal:
    """The integer of the signed `shape` that is nearest to `value`, one cycle later."""
    made = Signal(shape, name=name, reset_less=True)
    if len(value) <= shape.width:
        m.d.sync += made.eq(value)
        return made
    top = value[shape.width - 1:]
    low, high = -1 << (shape.width - 1), (1 << (shape.width - 1)) - 1
    m.d.sync += made.eq(Mux(top.all() | ~top.any(), value[:shape.width].as_signed(), Mux(top[-1], low, high)))
    return made


IntArray = npt.NDArray[np.int64]


class Cell(wiring.Component):
    """Gate sums to hidden states; kinds of cells say what follows the table (`finish`).

    Ports
    -----
    valid, sums
        `valid` announces a beat of gate sums of the recurrent product, `LoopTiming.lead` cycles before `sums`.
    x, x_taken
        The gate sums of the input, which are taken `LoopTiming.x` cycles after `sums`.
    state, state_valid
        The hidden states of the step, `LoopTiming.state` cycles after the sums of their last gate.
    kept
        With `reset_before`: `state` has what r leaves of the states instead.
    """

    def __init__(self, *, shape: RecurrentShape, tables: Sequence[IntArray], initial: IntArray, timing: LoopTiming,
                 technology: Technology, name: str):
        """`tables`: by index, int64 [2**index_bits], of gates and candidates (rnn: of candidates) and, of an lstm,
        int64 [2**shape.memory.index_bits] of its cell state.  `initial`: int64 [1 or 2, hidden].
        """
        self.shape, self.timing = shape, timing
        self.tables, self.initial = tables, initial
        self.technology, self.name = technology, name
        lanes = shape.lanes
        super().__init__({
            "valid": In(1), "sums": In(data.ArrayLayout(shape.sum, lanes)),
            "x": In(data.ArrayLayout(shape.sum, lanes)), "x_taken": Out(1),
            "state": Out(data.ArrayLayout(shape.state, lanes)), "state_valid": Out(1), "kept": Out(1)})

    @property
    def candidate(self) -> str:
        """The gate that has the table of candidates."""
        return {"rnn": "h", "gru": "n", "lstm": "c"}[self.shape.cell]

    def elaborate(self, platform):
        m = Module()
        trail = Trail(m, self.shape, self.valid, self.timing.lead)
        own = self.recurrent_sums(m, trail)
        beat = trail.at(self.timing.x)
        m.d.comb += self.x_taken.eq(beat.valid)
        values = []
        for lane, value in enumerate(own):
            total = Signal(signed(max(len(value), self.shape.sum.width) + 1), name=f"total{lane}", reset_less=True)
            m.d.sync += total.eq(value + self.x[lane])
            values.append(self.looked_up(m, total, trail.at(self.timing.x + 3), lane))
        states = self.finish(m, trail, values)
        last = self.shape.gates[-1]
        m.d.comb += self.state_valid.eq(trail.at(self.timing.state).of(last))
        m.d.comb += [self.state[lane].eq(value) for lane, value in enumerate(states)]
        return m

    def recurrent_sums(self, m: Module, trail: Trail) -> list[Value]:
        """The sums in cycle `x`; of n times r where that is after the product."""
        if not self.shape.reset_after:
            return [self.sums[lane] for lane in range(self.shape.lanes)]
        return self.times_reset(m, trail)

    def times_reset(self, m: Module, trail: Trail) -> list[Value]:
        raise NotImplementedError(f"cell {self.shape.cell} has no reset")

    def looked_up(self, m: Module, total: Value, beat: Beat, lane: int) -> Value:
        """Read what the table gives for a sum; `beat` is that of the index."""
        steps = quotient(m, total, self.shape.table.drop, f"steps{lane}")
        index = saturated(m, steps, signed(self.shape.table.index_bits), f"index{lane}")
        m.submodules[f"table{lane}"] = rom = self.rom(
            self.table, f"{self.name}_table{lane}")
        address = Cat(index, beat.gates[self.candidate]) if self.shape.cell != "rnn" else index
        m.d.comb += rom.addr.eq(address)
        return rom.data.as_signed()

    @property
    def table(self) -> IntArray:
        """The table by address: the bits of an index, then whether it is that of a candidate."""
        count = 1 + (self.shape.cell != "rnn")
        return np.concatenate([rolled(table) for table in self.tables[:count]])

    def rom(self, table: IntArray, name: str):
        return self.technology.rom(width=VALUE.width, contents=packed(table[:, None], VALUE.width), name=name)

    def beats(self, m: Module, name: str, *, read: Beat, write: Value, beat: Beat, values: Sequence[Value]) -> Value:
        """A RAM of a gate's values: `values` are written with `beat` where `write`; the word of `read`'s units."""
        width = sum(len(value) for value in values)
        m.submodules[name] = ram = beats_memory(
            width=width, depth=self.shape.beats, technology=self.technology, name=name)
        m.d.comb += [ram.read_addr.eq(read.place), ram.write_en.eq(write), ram.write_addr.eq(beat.place),
                     ram.write_data.eq(Cat(*values))]
        return ram.read_data

    def states(self, m: Module, name: str, row: int, element: Shape, *, read: Beat) -> StateMemory:
        """The memory of a state, row `row` of `initial`; writes are not connected."""
        contents = self.initial[row].reshape(-1, self.shape.lanes)
        shape = StateMemoryShape(element=element, lanes=self.shape.lanes, depth=len(contents),
                                 zero=not contents.any(), name=name)
        m.submodules[name] = memory = StateMemory(
            shape=shape, contents=contents, technology=self.technology, name=self.name)
        m.d.comb += [memory.address.eq(read.place), memory.initial.eq(read.initial)]
        return memory

    def written(self, m: Module, memory: StateMemory, write: Value, beat: Beat, values: Sequence[Value]) -> None:
        m.d.comb += [memory.write.eq(write), memory.write_address.eq(beat.place),
                     memory.write_data.eq(Cat(*values))]

    def lanes(self, word: Value, shape: Shape) -> list[Value]:
        """The elements of a word."""
        parts = [word.word_select(lane, shape.width) for lane in range(self.shape.lanes)]
        return [part.as_signed() for part in parts]

    def products(self, m: Module, name: str, a: Sequence[Value], shape: Shape, b: Sequence[Value]) -> list[Value]:
        """a[n] * b[n], where a are of `shape` and b of `VALUE`; `WideProductShape.latency` cycles later."""
        m.submodules[name] = unit = WideMultipliers(
            shape=WideProductShape(shape, VALUE), count=self.shape.lanes, technology=self.technology)
        for lane, (one, two) in enumerate(zip(a, b, strict=True)):
            m.d.comb += [unit.a[lane].eq(one), unit.b[lane].eq(two)]
        return [unit.p[lane] for lane in range(self.shape.lanes)]

    def latency(self, shape: Shape) -> int:
        """The latency of products of `shape` with a gate."""
        return WideProductShape(shape, VALUE).latency(self.technology)

    def finish(self, m: Module, trail: Trail, values: list[Value]) -> list[Value]:
        """The hidden states in cycle `state`, of what the tables give in cycle `value`."""
        raise NotImplementedError


class RnnCell(Cell):
    def finish(self, m: Module, trail: Trail, values: list[Value]) -> list[Value]:
        return values


class GruCell(Cell):
    """n + z * (h - n), and where r comes before the product also r * h, with the same multiplier."""

    def times_reset(self, m: Module, trail: Trail) -> list[Value]:
        t, shape = self.timing, self.shape
        products = self.products(m, "reset_product", [self.sums[lane] for lane in range(shape.lanes)], shape.sum,
                                 self.lanes(self.reset, VALUE))
        of_n, inputs = trail.at(t.x).gates["n"], []
        for lane, product in enumerate(products):
            kept = quotient(m, product, ONE_FRACTION, f"reset{lane}")
            late = delay(m, self.sums[lane], t.x, f"sum{lane}")
            inputs.append(Mux(of_n, kept[:shape.sum.width + 1].as_signed(), late))
        return inputs

    def elaborate(self, platform):
        if self.shape.reset_after:
            self.reset = Signal(VALUE.width * self.shape.lanes, name="reset_values")
        return super().elaborate(platform)

    def finish(self, m: Module, trail: Trail, values: list[Value]) -> list[Value]:
        t, shape = self.timing, self.shape
        wide = signed(shape.state.width + 1)
        now, after = trail.at(t.value), trail.at(t.value + 1)
        memory = self.states(m, "hidden", 0, shape.state, read=trail.at(t.value - t.ram - 1))
        old = self.lanes(memory.data, shape.state)
        z = self.lanes(self.beats(m, "update", read=trail.at(t.value + 1 - t.ram), write=now.of("z"), beat=now,
                                  values=values), VALUE)
        gate = z
        operands = []
        for lane, value in enumerate(values):
            operand = Signal(wide, name=f"operand{lane}", reset_less=True)
            difference = old[lane] - value[:shape.state.width].as_signed()
            m.d.sync += operand.eq(Mux(now.gates["n"], difference, old[lane]) if shape.reset_before else difference)
            operands.append(operand)
        if shape.reset_after:
            m.d.comb += self.reset.eq(self.beats(
                m, "reset", read=trail.at(-t.ram), write=now.of("r"), beat=now, values=values))
        else:
            gate = [Mux(after.gates["n"], z[lane], delay(m, value, 1, f"value{lane}"))
                    for lane, value in enumerate(values)]
        states, wait = [], 1 + self.latency(wide)
        of_n = trail.at(t.value + wait).gates["n"]
        for lane, product in enumerate(self.products(m, "product", operands, wide, gate)):
            base = delay(m, values[lane][:shape.state.width], wait, f"candidate{lane}")
            if shape.reset_before:
                base = Mux(of_n, base, 0)
            total = quotient(m, product, ONE_FRACTION, f"moved{lane}", base.as_signed())
            states.append(saturated(m, total, shape.state, f"state{lane}") if shape.table.saturates
                          else total[:shape.state.width].as_signed())
        done = trail.at(t.state)
        self.written(m, memory, done.of("n"), done, states)
        if shape.reset_before:
            m.d.comb += self.kept.eq(done.of("r"))
        return states


class LstmCell(Cell):
    """c = f * c + i * candidate, and o times the function of c."""

    def finish(self, m: Module, trail: Trail, values: list[Value]) -> list[Value]:
        t, shape = self.timing, self.shape
        now, read = trail.at(t.value), trail.at(t.value - t.ram)
        i, f = (self.lanes(self.beats(m, name, read=read, write=now.of(gate), beat=now, values=values), VALUE)
                for name, gate in (("input", "i"), ("forget", "f")))
        memory = self.states(m, "cell", 1, shape.memory.format, read=trail.at(t.value - t.ram - 1))
        old = self.lanes(memory.data, shape.memory.format)
        kept = self.products(m, "kept", old, shape.memory.format, f)
        added = self.products(m, "added", values, VALUE, i)
        slow = max(self.latency(shape.memory.format), self.latency(VALUE))
        cells = []
        for lane, (one, two) in enumerate(zip(kept, added, strict=True)):
            one = delay(m, one, slow - self.latency(shape.memory.format), f"kept{lane}") << max(0, shape.memory.finer)
            two = delay(m, two, slow - self.latency(VALUE), f"added{lane}") << max(0, -shape.memory.finer)
            total = Signal(signed(max(len(one), len(two)) + 1), name=f"sum{lane}", reset_less=True)
            m.d.sync += total.eq(one + two)
            whole = rounded(m, total, ONE_FRACTION + max(0, shape.memory.finer), f"whole{lane}")
            cells.append(saturated(m, whole, shape.memory.format, f"cell{lane}"))
        stored = trail.at(t.memory)
        self.written(m, memory, stored.of("c"), stored, cells)
        shown = [self.shown(m, cell, lane) for lane, cell in enumerate(cells)]
        done = trail.at(t.shown)
        functions = self.lanes(self.beats(m, "shown", read=read, write=done.of("c"), beat=done, values=shown), VALUE)
        return [saturated(m, quotient(m, product, ONE_FRACTION, f"hidden{lane}"), shape.state, f"state{lane}")
                for lane, product in enumerate(self.products(m, "output", functions, VALUE, values))]

    def shown(self, m: Module, cell: Value, lane: int) -> Value:
        """The function of a cell state, `shown - memory` cycles later."""
        steps = quotient(m, cell, self.shape.memory.drop, f"cell_steps{lane}")
        index = saturated(m, steps, signed(self.shape.memory.index_bits), f"cell_index{lane}")
        m.submodules[f"output_table{lane}"] = rom = self.rom(
            rolled(self.tables[-1]), f"{self.name}_output_table{lane}")
        m.d.comb += rom.addr.eq(index)
        return rom.data.as_signed()


CELLS: dict[str, type[Cell]] = {"rnn": RnnCell, "gru": GruCell, "lstm": LstmCell}


def cell_of(shape: RecurrentShape, **arguments) -> Cell:
    """The pipeline of the cell."""
    return CELLS[shape.cell](shape=shape, **arguments)


def rolled(table: IntArray) -> IntArray:
    """A table whose lowest index is -len / 2, by the bits of the index."""
    return np.roll(table, -(len(table) // 2))


def cell_cost(shape: RecurrentShape, timing: LoopTiming, zero: bool, technology: Technology) -> Resources:
    """The cost of a `Cell`: DSP and RAM exact, LUT and FF estimated."""
    lanes, width = shape.lanes, shape.sum.width
    total = technology.rom_cost(width=VALUE.width, depth=(1 + (shape.cell != "rnn")) << shape.table.index_bits,
                                name="table", holds=Holds.TABLE).copies(lanes)
    # Sum, steps and index of the table.
    total += lane(adders=(width + 1, width + 1 - shape.table.drop), bits=shape.table.index_bits, technology=technology,
                  lanes=lanes)
    if shape.cell == "gru":
        total += gru_cost(shape, timing, zero, technology)
    elif shape.cell == "lstm":
        total += lstm_cost(shape, zero, technology)
    counted = shape.beats.bit_length() + timing.state
    return total + fitted("Cell", trail_bits=counted)


def gru_cost(shape: RecurrentShape, timing: LoopTiming, zero: bool, technology: Technology) -> Resources:
    lanes, state = shape.lanes, shape.state.width
    wide = signed(state + 1)
    total = products(shape, wide, technology)
    total += states(shape, "hidden", shape.state, zero, technology) + values(shape, "update", technology)
    if shape.reset_after:
        total += products(shape, shape.sum, technology) + values(shape, "reset", technology)
        total += lane(adders=(shape.sum.width + 2,), bits=0, technology=technology, lanes=lanes)
        total += Resources(ff=lanes * shape.sum.width * timing.x)
    wait = timing.state - timing.value - 1 - shape.table.saturates
    return total + Resources(ff=lanes * state * wait) + lane(
        adders=(state + 1, state + 3), bits=state * shape.table.saturates, technology=technology, lanes=lanes)


def lstm_cost(shape: RecurrentShape, zero: bool, technology: Technology) -> Resources:
    lanes, memory, state = shape.lanes, shape.memory.format.width, shape.state.width
    total = technology.rom_cost(width=VALUE.width, depth=1 << shape.memory.index_bits, name="output_table",
                                holds=Holds.TABLE).copies(lanes)
    for each in (shape.memory.format, VALUE, VALUE):
        total += products(shape, each, technology)
    total += states(shape, "cell", shape.memory.format, zero, technology)
    for name in ("input", "forget", "shown"):
        total += values(shape, name, technology)
    product = memory + VALUE.width + max(0, shape.memory.finer) + 1
    total += lane(adders=(product, memory + 2), bits=memory, technology=technology, lanes=lanes)
    total += Resources(ff=lanes * (memory + 2))  # rounded in two cycles
    total += lane(adders=(memory + 1 - shape.memory.drop,), bits=shape.memory.index_bits, technology=technology,
                  lanes=lanes)
    return total + lane(adders=(state + 2,), bits=state, technology=technology, lanes=lanes)


def products(shape: RecurrentShape, a: Shape, technology: Technology) -> Resources:
    return WideProductShape(a, VALUE).cost(shape.lanes, technology)


def values(shape: RecurrentShape, name: str, technology: Technology) -> Resources:
    return beats_memory_cost(width=VALUE.width * shape.lanes, depth=shape.beats, technology=technology, name=name)


def states(shape: RecurrentShape, name: str, element: Shape, zero: bool, technology: Technology) -> Resources:
    memory = StateMemoryShape(element=element, lanes=shape.lanes, depth=shape.beats, zero=zero, name=name)
    return memory.cost(technology)


def lane(*, adders: tuple[int, ...], bits: int, technology: Technology, lanes: int) -> Resources:
    """Additions with a register after each, and a saturation to `bits`."""
    return Resources(lut=lanes * (sum(adder_luts(width, technology) for width in adders) + bits),
                     ff=lanes * (sum(adders) + bits))
