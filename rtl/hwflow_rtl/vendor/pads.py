"""Pads with registers: what they are asked for, and the times that a chip at the other end sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from amaranth.hdl import Instance, IOValue, Value

__all__ = ["PadTiming", "Pads"]


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
