"""What a beat of gate sums is, carried along the pipeline with it."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from ..stream.pipeline import Nest, delay
from .shape import RecurrentShape


class Beat:
    """Of a beat in some cycle: `valid`; `place` of its units in the gate; `initial`: the first step of a sequence;
    `gates`: whether it is of that gate.
    """

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
