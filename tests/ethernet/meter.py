"""The transport `udp` with counters behind it, and a source of packets: how much it carries."""

from __future__ import annotations

from pathlib import Path

from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.emit import emit
from hwflow_rtl.io.ethernet.sender import LARGEST
from hwflow_rtl.io.transports import Udp
from hwflow_rtl.vendor import Generic

from tests.ethernet.echo import ADDRESS
from tests.sim.open_bench import OpenSimulation, compile_open, wrapper


class Meter(wiring.Component):
    """`packets`, `octets`, `bad`: what came in.  While `sends` is set, packets of LARGEST bytes go out, in which each
    byte is the low byte of its place."""

    def __init__(self) -> None:
        self.transport = Udp(address=ADDRESS, technology=Generic())
        super().__init__({"reset": In(1), "sends": In(1), "packets": Out(32), "octets": Out(32), "bad": Out(32),
                          **self.transport.pins})

    def elaborate(self, platform):
        m = Module()
        sync = m.domains.sync = ClockDomain()
        m.submodules.transport = transport = self.transport
        m.d.comb += [sync.clk.eq(self.udp_rxc), sync.rst.eq(self.reset), transport.started.eq(~self.reset)]
        for name, member in transport.pins.items():
            here, there = getattr(self, name), getattr(transport, name)
            m.d.comb += there.eq(here) if member.flow is In else here.eq(there)
        came, place = Signal(32), Signal(range(LARGEST + 1))
        token = transport.o.payload
        m.d.comb += [
            transport.o.ready.eq(1), transport.i.valid.eq(self.sends | (place != 0)),
            transport.i.payload.byte.eq(place[:8]), transport.i.payload.flag.eq(place == LARGEST)]
        with m.If(transport.o.valid):
            m.d.sync += came.eq(came + 1)
            with m.If(token.flag):
                m.d.sync += [came.eq(0), self.bad.eq(self.bad + token.bad)]
                with m.If(~token.bad):
                    m.d.sync += [self.packets.eq(self.packets + 1), self.octets.eq(self.octets + came)]
        with m.If(transport.i.valid & transport.i.ready):
            m.d.sync += place.eq(place + 1)
            with m.If(place == LARGEST):
                m.d.sync += place.eq(0)
        return m


def compile_meter(folder: Path) -> OpenSimulation:
    top = Meter()
    executable = compile_open(emit(top, name="meter") + wrapper(top, "meter"), folder)
    return OpenSimulation(executable, folder, "tests.ethernet.rgmii_bench")
