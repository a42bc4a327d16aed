"""Designs behind a USB port: one that sends back what it gets, and boards with small cores."""

from __future__ import annotations

from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.emit import to_verilog, without_collector
from hwflow_rtl.io import BoardTop, Clocking, End, Ends
from hwflow_rtl.io.transports import FullSpeedUsb, UlpiUsb
from hwflow_rtl.io.usb import FullSpeedPort, UlpiPort, UsbIdentity
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.streams import link, stream_of
from hwflow_rtl.vendor import ECP5, Generic, Timing
from hwflow_sim.board import rtl_design
from hwflow_sim.usb import compile_bench
from hwflow_sim.usb.bench import CompiledBench

IDENTITY = UsbIdentity(vendor=0x1209, product=1, serial="board-7", name="loop")
DESIGN = b"usb.test"
BYTE = unsigned(8)
#: Bytes that the design which sends back may hold, and those of the port's two buffers.
HELD, BUFFERS = 1024, 2 * 2048
#: What is in reset at first.
START_CYCLES = 64


def technology() -> Generic:
    return Generic(timing=Timing(multiply=3), like=ECP5())


class Loop(wiring.Component):
    """A port, and a queue from its output to its input; its pins are those of the transports."""

    def __init__(self, kind: str):
        made = {"technology": technology(), "identity": IDENTITY}
        if kind == "full_speed":
            self.port = FullSpeedPort(own_clock=True, **made)
            self.clock = "clk"
            names = {"usb_sample_clk": "sample_clk", "usb_d_p_i": "d_p_i", "usb_d_n_i": "d_n_i", "usb_d_p_o": "d_p_o",
                     "usb_d_n_o": "d_n_o", "usb_d_p_oe": "oe", "usb_pullup": "pullup"}
        else:
            self.port = UlpiPort(**made)
            self.clock = "usb_clk"
            names = {f"usb_{name}": name for name in ("data_i", "data_o", "data_oe", "dir", "nxt", "stp")}
        self.names = names
        super().__init__({self.clock: In(1), **{pin: self.port.signature.members[name] for pin, name in names.items()}})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain("sync")
        m.domains.start = start = ClockDomain("start", reset_less=True, local=True)
        clock, left = getattr(self, self.clock), Signal(range(START_CYCLES), init=START_CYCLES - 1)
        m.d.comb += [sync.clk.eq(clock), start.clk.eq(clock), sync.rst.eq(left != 0)]
        m.d.start += left.eq(left - (left != 0))
        m.submodules.port = port = self.port
        m.submodules.queue = queue = DeepQueue(shape=port.o.payload.shape(), depth=HELD, technology=technology())
        link(m, port.o, queue.i)
        link(m, queue.o, port.i)
        if self.clock == "clk":
            m.d.comb += port.locked.eq(1)
        for pin, name in self.names.items():
            here, there = getattr(self, pin), getattr(port, name)
            m.d.comb += there.eq(here) if self.signature.members[pin].flow is In else here.eq(there)
        return m


class Stretch(wiring.Component):
    """Frames of `taken` bytes become frames of `given`: each byte of the latter is the number of the frame and its
    place, added to the sum of the frame's bytes.  A byte a cycle comes in, or goes out."""

    def __init__(self, taken: int, given: int):
        self.taken, self.given = taken, given
        super().__init__({"i": In(stream_of(BYTE, 1)), "o": Out(stream_of(BYTE, 1))})

    @staticmethod
    def model(data: bytes, taken: int, given: int) -> bytes:
        return bytes(sum(data[at:at + taken]) + at // taken + place & 0xFF
                     for at in range(0, len(data), taken) for place in range(given))

    def elaborate(self, platform):
        m = Module()
        giving, place, frame, total = Signal(), Signal(range(max(self.taken, self.given))), Signal(8), Signal(8)
        last = Mux(giving, self.given - 1, self.taken - 1)
        m.d.comb += [self.i.ready.eq(~giving), self.o.valid.eq(giving), self.o.payload[0].eq(total + frame + place)]
        with m.If(Mux(giving, self.o.ready, self.i.valid)):
            m.d.sync += place.eq(place + 1)
            with m.If(~giving):
                m.d.sync += total.eq(total + self.i.payload[0])
            with m.If(place == last):
                m.d.sync += [place.eq(0), giving.eq(~giving)]
                with m.If(giving):
                    m.d.sync += [total.eq(0), frame.eq(frame + 1)]
        return m


def board(kind: str, taken: int, given: int) -> BoardTop:
    """A `Stretch` on a board with an oscillator of 48 MHz, at full speed, or behind a PHY."""
    made = technology()
    transport = (FullSpeedUsb(identity=IDENTITY, line_mhz=48, technology=made) if kind == "full_speed"
                 else UlpiUsb(identity=IDENTITY, technology=made))
    ends = Ends((End(1, 8, taken),), (End(1, 8, given),))
    return BoardTop(core=Stretch(taken, given), ends=ends, transport=transport, identity=DESIGN, technology=made,
                    clocking=Clocking(technology=made, board_mhz=48, line_mhz=transport.clock_mhz))


def compiled_loop(kind: str, folder: Path, cache: Path) -> CompiledBench:
    top = Loop(kind)
    with without_collector():
        text = rtlil.convert(top, name="top", ports=[getattr(top, name) for name in top.signature.members],
                             emit_src=False)
    return compile_bench(kind, to_verilog(text), folder=folder, cache=cache)


def compiled_board(kind: str, taken: int, given: int, folder: Path, cache: Path) -> CompiledBench:
    design = rtl_design(board(kind, taken, given), {})
    return compile_bench(kind, design.verilog, folder=folder, cache=cache, sources=design.sources)
