"""Pins with two bits in a cycle of their clock: one at its rising edge, one at its falling edge."""

from __future__ import annotations

from abc import ABC, abstractmethod

from amaranth.hdl import ClockDomain, ClockSignal, Module, Mux, Signal, Value

__all__ = ["DoubleRate", "GenericDoubleRate"]


class DoubleRate(ABC):
    """Registers in the pads of a family, which are in `sync`."""

    @abstractmethod
    def input(self, m: Module, pin: Value, *, delay_ns: float, name: str) -> tuple[Value, Value]:
        """What `pin` was at a rising edge and at the falling edge behind it; both from the second rising edge on that
        follows.  The pin is `delay_ns` late at the registers."""

    @abstractmethod
    def output(self, m: Module, first: Value, second: Value, *, delay_ns: float, name: str) -> Value:
        """A pin that is `first` while the clock is high and `second` while it is low, both of the rising edge before;
        `delay_ns` late."""


class GenericDoubleRate(DoubleRate):
    """What simulation runs: without delays."""

    def input(self, m: Module, pin: Value, *, delay_ns: float, name: str) -> tuple[Value, Value]:
        falling = ClockDomain(f"falling_{name}", clk_edge="neg", reset_less=True, local=True)
        m.domains += falling
        m.d.comb += falling.clk.eq(ClockSignal())
        rise, fall, first, second = (Signal(name=f"{name}_{which}", reset_less=True)
                                     for which in ("rise", "fall", "first", "second"))
        m.d[falling.name] += fall.eq(pin)
        m.d.sync += [rise.eq(pin), first.eq(rise), second.eq(fall)]
        return first, second

    def output(self, m: Module, first: Value, second: Value, *, delay_ns: float, name: str) -> Value:
        high, low = Signal(name=f"{name}_high", reset_less=True), Signal(name=f"{name}_low", reset_less=True)
        m.d.sync += [high.eq(first), low.eq(second)]
        return Mux(ClockSignal(), high, low)
