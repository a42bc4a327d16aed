"""A board whose only part is the transport `udp`: what comes in goes back."""

from __future__ import annotations

from pathlib import Path

from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io import Clocking
from hwflow_rtl.io.ethernet.headers import Address
from hwflow_rtl.io.link.bytes import TOKEN
from hwflow_rtl.io.transports import Udp
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.vendor import Generic
from hwflow_sim.board import CompiledBoard, RgmiiLine, SimulatedBoard, compile_board, rtl_design
from hwflow_sim.board.network import Host

ADDRESS = Address("192.168.1.50", 17510)
BOARD = Host(ADDRESS.mac, ADDRESS.ip, ADDRESS.port)
#: Until the board has left its reset.
START_CYCLES = 6000
#: Tokens between both directions.
WAITING = 1 << 14


class Echo(wiring.Component):
    """`led` counts the packets that came in bad, and in its high half the good ones."""

    def __init__(self) -> None:
        technology = Generic()
        self.transport = Udp(address=ADDRESS, technology=technology)
        self.clocking = Clocking(technology=technology, board_mhz=125.0, line_mhz=125.0)
        super().__init__({"clk": In(1), "led": Out(8), **self.transport.pins})

    @property
    def pins(self):
        return [self.clk, self.led, *(getattr(self, name) for name in self.transport.pins)]

    def elaborate(self, platform):
        m = Module()
        self.clocking.add_to(m)
        transport = self.transport
        m.submodules.transport = DomainRenamer("line")(transport)
        for name, member in transport.pins.items():
            here, there = getattr(self, name), getattr(transport, name)
            m.d.comb += there.eq(here) if member.flow is In else here.eq(there)
        m.d.comb += [self.clocking.clk.eq(self.clk), self.clocking.line.eq(self.udp_rxc),
                     transport.started.eq(self.clocking.started)]
        m.submodules.waiting = waiting = DomainRenamer("line")(Queue(shape=TOKEN, depth=WAITING))
        wiring.connect(m, transport.o, waiting.i)
        wiring.connect(m, waiting.o, transport.i)
        with m.If(transport.o.valid & transport.o.payload.flag):
            with m.If(transport.o.payload.bad):
                m.d.line += self.led[:4].eq(self.led[:4] + 1)
            with m.Else():
                m.d.line += self.led[4:].eq(self.led[4:] + 1)
        return m


def compile_echo(folder: Path, cache: Path) -> CompiledBoard:
    return compile_board(rtl_design(Echo(), {}, line=RgmiiLine), folder=folder, cache=cache)


def record(frame: bytes, gap: int = 12) -> bytes:
    """A frame, preamble and FCS included, as `RgmiiLine` takes it."""
    return len(frame).to_bytes(2, "little") + bytes([gap]) + frame


def started(compiled: CompiledBoard, **more) -> SimulatedBoard:
    """To be used in a `with` statement; then `wait(b"", START_CYCLES)` brings it out of reset."""
    return SimulatedBoard(compiled, line=RgmiiLine(), **more)
