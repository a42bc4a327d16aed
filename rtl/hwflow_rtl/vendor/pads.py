"""Pins that are more than a wire: with registers in their pads, or with two bits in a cycle.

What they are asked for, and the times that a chip at the other end sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from amaranth.hdl import ClockDomain, ClockSignal, Instance, IOValue, Module, Mux, Signal, Value


@dataclass(frozen=True, kw_only=True)
class PadTiming:
    """Times of the registers in the pads of a family, in ns, at all of its speeds, voltages and temperatures.

    Attributes
    ----------
    out_max, out_min
        Clock edge at a register to the pin.
    setup, hold
        How long before the clock edge at a register its pin must have a level, and how long after it.
    source
        Where the figures are from.
    """

    out_max: float
    out_min: float
    setup: float
    hold: float
    source: str

    def __post_init__(self):
        if not self.hold <= self.out_min <= self.out_max:
            raise ValueError(f"hold must be at most out_min, and that at most out_max, not {self.hold}, {self.out_min} "
                             f"and {self.out_max}")

    @property
    def round_trip(self) -> float:
        """Longest time in both pads on the way out and back, without that of the chip between them."""
        return self.out_max + self.setup


class Pads(ABC):
    """The pads of a family with their registers, which are in `sync`."""

    timing: PadTiming

    @abstractmethod
    def clock(self, port: IOValue, gate: Value) -> Instance:
        """High in the second half of a period if `gate` was set at the falling edge that begins it; else low."""

    @abstractmethod
    def idle_high(self, port: IOValue, value: Value) -> Instance:
        """`value` of the last rising edge; high from configuration on."""

    @abstractmethod
    def both_ways(self, port: IOValue, *, i: Value, o: Value, oe: Value) -> Instance:
        """Registers at the rising edge in all three directions."""


# Pins with two bits in a cycle of their clock: one at its rising edge, one at its falling edge.


class DoubleRate(ABC):
    """Registers in the pads of a family, which are in `sync`."""

    @abstractmethod
    def input(self, m: Module, pin: Value, *, delay_ns: float, name: str) -> tuple[Value, Value]:
        """Give what `pin` was at a rising edge and at the falling edge behind it; both from the second rising edge on
        that follows.  The pin is `delay_ns` late at the registers."""

    @abstractmethod
    def output(self, m: Module, first: Value, second: Value, *, delay_ns: float, name: str) -> Value:
        """A pin that is `first` while the clock is high and `second` while it is low, both of the rising edge before;
        `delay_ns` late."""


class GenericDoubleRate(DoubleRate):
    """The pads that simulation runs: without delays."""

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
