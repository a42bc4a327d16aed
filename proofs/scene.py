"""`Scene`: a unit, an environment that may do anything, and what is claimed of both.

The environment is made of *free* values, which differ in every cycle as they like, and of *fixed* ones, which are any
value and never change.  A proof is about all of them: about all inputs, all stalls, and a reset in any cycle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import (
    Assert,
    Assume,
    Cover,
    Elaboratable,
    Fragment,
    MemoryInstance,
    Module,
    Signal,
    Value,
    ValueCastable,
)
from amaranth.hdl._ast import AnyConst, AnySeq, SignalSet  # Amaranth 0.5 has no public names for them
from hwflow_rtl.emit import without_collector


class Inside:
    """The inside of an elaborated unit: its registers and memories by their names, for invariants that speak of them.

    `inside["queue0"]` is a part of it, `inside.signal("used")` a signal that it drives.
    """

    def __init__(self, fragment: Fragment, path: str, variables: list[tuple[str, Signal]]):
        self.fragment = fragment
        self.path = path
        self.variables = variables

    def __getitem__(self, name: str) -> Inside:
        for fragment, called, _ in self.fragment.subfragments:
            if called == name:
                return Inside(fragment, f"{self.path}.{name}", self.variables)
        names = ", ".join(str(called) for _, called, _ in self.fragment.subfragments)
        raise KeyError(f"a part of {self.path} must be one of {names or 'none'}, not {name}")

    def signal(self, name: str) -> Signal:
        """The signal that the unit itself drives and that has this name, or that a variable of this name held while it
        was made: Amaranth gives no name to what is made in a tuple."""
        driven = SignalSet(self._driven())
        found = {name: signal for name, signal in self.variables if signal in driven}
        found |= {signal.name: signal for signal in driven if not signal.name.startswith("$")}
        if name not in found:
            raise KeyError(f"a signal of {self.path} must be one of {', '.join(sorted(found))}, not {name}")
        return found[name]

    def word(self, address: Value, name: str) -> Signal:
        """What the memory has at `address` in this cycle: one more asynchronous port."""
        assert isinstance(self.fragment, MemoryInstance), self.path
        word = Signal(self.fragment._data.shape, name=name)
        self.fragment.read_port(domain="comb", addr=address, data=Value.cast(word), en=Value.cast(1),
                                transparent_for=())
        return word

    def _driven(self) -> Iterator[Signal]:
        for statements in self.fragment.statements.values():
            for statement in statements:
                yield from (each for each in statement._lhs_signals() if isinstance(each, Signal))


class Scene(Elaboratable):
    """A module with claims.  `m` is the module; whoever describes a scene adds to it as to any other.

    Attributes
    ----------
    m
        The module.
    claims
        Names of what is claimed; each is a signal `claim_<name>` in a trace.
    reached
        Names of what must be possible, `reach_<name>`: else the environment excludes what the proof is about.
    clocks
        Whether there are several clocks, which then tick as they like.
    """

    def __init__(self, clocks: tuple[str, ...] = ("sync",)):
        self.m = Module()
        self.clocks = clocks
        self.claims: list[str] = []
        self.reached: list[str] = []

    def put(self, name: str, unit: Any) -> Inside:
        """Make `unit` a part of the scene."""
        variables: list[tuple[str, Signal]] = []

        def look(frame: FrameType, event: str, result: object) -> None:
            if event == "return" and frame.f_globals.get("__name__", "").startswith("hwflow_rtl"):
                variables.extend((variable, signal) for variable, value in frame.f_locals.items()
                                 if isinstance(value, Signal | ValueCastable)
                                 and isinstance(signal := Value.cast(value), Signal))

        before = sys.getprofile()
        sys.setprofile(look)
        try:
            fragment = Fragment.get(unit, None)
        finally:
            sys.setprofile(before)
        self.m.submodules[name] = fragment
        return Inside(fragment, name, variables)

    def free(self, shape: Any, name: str) -> Signal:
        """Any value in every cycle."""
        signal = Signal(shape, name=name)
        self.m.d.comb += Value.cast(signal).eq(AnySeq(len(Value.cast(signal))))
        return signal

    def fixed(self, shape: Any, name: str) -> Signal:
        """Any value, the same in all cycles."""
        signal = Signal(shape, name=name)
        self.m.d.comb += Value.cast(signal).eq(AnyConst(len(Value.cast(signal))))
        return signal

    def assume(self, condition: Value) -> None:
        """Only runs in which `condition` holds in every cycle count."""
        self.m.d.comb += Assume(condition)

    def claim(self, name: str, condition: Value) -> None:
        """It holds in every cycle of every run."""
        signal = Signal(name=f"claim_{name}")
        self.claims.append(name)
        self.m.d.comb += [signal.eq(Value.cast(condition).any()), Assert(signal)]

    def reach(self, name: str, condition: Value) -> None:
        """There is a run in which it holds once."""
        signal = Signal(name=f"reach_{name}")
        self.reached.append(name)
        self.m.d.comb += [signal.eq(Value.cast(condition).any()), Cover(signal)]

    def elaborate(self, platform: object) -> Module:
        return self.m

    def rtlil(self) -> str:
        with without_collector():
            text: str = rtlil.convert(self, name="top", ports=[], emit_src=False, platform="formal")
        return text
