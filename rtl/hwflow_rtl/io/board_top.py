"""The design on a board: clocks and resets, the host link on a serial line, the core, LEDs.

Its ports are the pins; `hwflow.synth` writes the constraint file that places them.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockDomain, DomainRenamer, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.streams import link
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .clocking import Clocking
from .core_crossing import CoreCrossing
from .frame_bytes import End, Ends, FrameBytes
from .host_link import HostLink
from .uart import UartReceiver, UartTransmitter

__all__ = ["BoardTop", "End", "Ends"]


class BoardTop(wiring.Component):
    """A core with `FrameBytes`, and a `HostLink`.

    The link runs in the domain `line`, at the clock of the board's oscillator, so that it never limits the core's.
    The core runs in the domain `run`: that is `sync` with a reset of its own.  Between them stands a `CoreCrossing`.

    Parameters
    ----------
    core, ends
        See `FrameBytes`.
    technology
        What makes memories: those of the link, and queues for whole frames.
    clocking
        Makes the clocks of the pins `clk` and `rst`.
    divider
        Cycles of the board's oscillator, which drives `line`, of one bit.
    identity
        The 8 bytes that name the design to the host.
    leds, leds_active_low
        How many LEDs the board has, and their polarity: the first blinks, the second is lit while data or
        results pass, the third stays lit from an error on the line to the host's next RESET.

    Attributes
    ----------
    clk, rx, rst : In(1)
    tx : Out(1)
    led : Out(leds)
    """

    def __init__(self, *, core: Any, clocking: Clocking, divider: int, identity: bytes, technology: Technology,
                 ends: Ends | None = None, leds: int = 0, leds_active_low: bool = False):
        self.core = core
        self.technology = technology
        self.clocking = clocking
        self.divider = divider
        self.identity = identity
        self.leds = leds
        self.leds_active_low = leds_active_low
        self.frames = FrameBytes(core=core, ends=ends, technology=technology)
        self.link = HostLink(technology=technology, identity=identity, bytes_in=self.frames.bytes_in,
                             bytes_out=self.frames.bytes_out)
        super().__init__({
            "clk": In(1), "rx": In(1), "tx": Out(1, init=1),
            **({"rst": In(1)} if clocking.has_reset else {}), **({"led": Out(leds)} if leds else {}),
        })

    @staticmethod
    def cost(technology: Technology, ends: Ends | None = None) -> Resources:
        """What stands around the core: RAM exact, LUT and FF as synthesized; without `ends` for streams of bytes.

        Of a core with several inputs or outputs a whole frame of all but one input and one output waits in a queue.
        """
        around = HostLink.cost(technology) + CoreCrossing.cost() + Clocking.cost() + fitted("BoardTop")
        return around if ends is None else around + FrameBytes.cost(ends, technology)

    @property
    def pins(self) -> list[Value]:
        """The top-level ports, in the order of the constraint file."""
        return [self.clk, self.rx, self.tx, *([self.rst] if self.clocking.has_reset else []),
                *([self.led] if self.leds else [])]

    def elaborate(self, platform):
        m = Module()
        self.clocking.add_to(m)
        m.d.comb += self.clocking.clk.eq(self.clk)
        if self.clocking.has_reset:
            m.d.comb += self.clocking.rst.eq(self.rst)
        on_line = DomainRenamer("line")
        receiver, transmitter = UartReceiver(divider=self.divider), UartTransmitter(divider=self.divider)
        m.submodules.receiver, m.submodules.transmitter = on_line(receiver), on_line(transmitter)
        m.submodules.link = on_line(self.link)
        m.submodules.crossing = crossing = CoreCrossing()
        # One register resets the core: what reads it can be placed near a copy of it (`Family.prepared`).
        run = m.domains.run = ClockDomain("run")
        m.d.comb += [run.clk.eq(self.clocking.sync_clk), run.rst.eq(crossing.reset)]
        in_core = DomainRenamer("run")
        m.submodules.core, m.submodules.frames = in_core(self.core), in_core(self.frames)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx),
                     crossing.restart.eq(self.link.restart), self.link.stopped.eq(crossing.stopped)]
        link(m, receiver.o, self.link.i)
        link(m, self.link.data, crossing.data)
        link(m, crossing.core_data, self.frames.i)
        link(m, self.frames.o, crossing.core_results)
        link(m, crossing.results, self.link.results)
        link(m, self.link.o, transmitter.i)
        if self.leds:
            self.lights(m)
        return m

    def lights(self, m: Module) -> None:
        # Each second of the oscillator has a few ticks.
        cycle, tick = Signal(20), Signal()
        beat, recent, error = Signal(4), Signal(2), Signal()
        data, results = self.link.data, self.link.results
        m.d.line += [Cat(cycle, tick).eq(cycle + 1), beat.eq(beat + tick),
                     error.eq((error | self.link.error) & ~self.link.restart)]
        with m.If(data.valid & data.ready | results.valid & results.ready):
            m.d.line += recent.eq(-1)
        with m.Elif(tick):
            m.d.line += recent.eq(recent >> 1)
        wide = Signal(self.leds)
        m.d.comb += [wide.eq(Cat(beat[-1], recent[0], error)), self.led.eq(~wide if self.leds_active_low else wide)]
