"""The registers between a flash controller and the pins: in the pads of the FPGA, or plain ones for a simulation."""

from __future__ import annotations

from typing import ClassVar

from amaranth.hdl import ClockDomain, ClockSignal, IOPort, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.pads import Pads
from .flash_part import FlashPart
from .flash_pins import flash_pins

__all__ = ["FlashPads"]


class FlashPads(wiring.Component):
    """What a `FlashController` decides in a cycle is at the chip in the next one.

    All pins but `sck` change at the rising edge of `sync`.  `sck` rises at the falling edge after it and falls at the
    next rising one: the chip has half a period before it looks and half a period after.  What the chip drives is taken
    at the rising edge a whole period after the one at which `sck` fell, which may be that of the next fall: the way out
    and back is longer than a hold time (`FlashPart.check_clock`).

    Parameters
    ----------
    part
        The chip.
    pads
        The family's; None for plain registers.

    Attributes
    ----------
    pins : In(flash_pins(part))
        From the controller, out of registers.
    chip : Out(flash_pins(part))
        The pins themselves; only without `pads`.
    ports : dict of IOPort
        `sck`, `cs_n` and `io`; only with `pads`.
    """

    #: The domains of the registers that take data, one after the other; `fall` is the falling edge of `sync`.
    TAKES: ClassVar[tuple[str, ...]] = ("sync",)

    def __init__(self, part: FlashPart, *, pads: Pads | None = None):
        self.part = part
        self.pads = pads
        widths = {"sck": 1, "cs_n": 1, "io": part.lines} if pads else {}
        self.ports = {name: IOPort(width, name=f"memory_{name}") for name, width in widths.items()}
        super().__init__({"pins": In(flash_pins(part)), **({} if pads else {"chip": Out(flash_pins(part))})})

    def elaborate(self, platform):
        m = Module()
        if self.pads is None:
            self.add_registers(m)
            return m
        pins, ports, pads = self.pins, self.ports, self.pads
        m.submodules.sck = pads.clock(ports["sck"], pins.sck)
        m.submodules.cs_n = pads.idle_high(ports["cs_n"], pins.cs_n)
        for k in range(self.part.lines):
            m.submodules[f"io{k}"] = pads.both_ways(ports["io"][k], i=pins.io_i[k], o=pins.io_o[k],
                                                    oe=pins.io_oe[k])
        return m

    def add_registers(self, m: Module) -> None:
        """Two of them make `sck`, of which one changes at an edge: a simulation sees no other level between."""
        pins, chip = self.pins, self.chip
        m.domains += ClockDomain("fall", clk_edge="neg", reset_less=True, local=True)
        m.d.comb += ClockSignal("fall").eq(ClockSignal())
        for name in ("cs_n", "io_o", "io_oe"):
            held = Signal.like(getattr(pins, name), reset_less=True, name=f"{name}_pad")
            m.d.sync += held.eq(getattr(pins, name))
            m.d.comb += getattr(chip, name).eq(held)
        rose, fell = Signal(), Signal(reset_less=True)
        m.d.fall += rose.eq(fell ^ pins.sck)
        m.d.sync += fell.eq(rose)
        taken = chip.io_i
        for domain in self.TAKES:
            seen, taken = taken, Signal(self.part.lines, reset_less=True, name=f"taken_{domain}")
            m.d[domain] += taken.eq(seen)
        m.d.comb += [chip.sck.eq(rose ^ fell), pins.io_i.eq(taken)]
