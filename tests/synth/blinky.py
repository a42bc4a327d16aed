"""The smallest design that uses everything of a board: both clocks, the button, the serial line and the LEDs."""

from __future__ import annotations

from amaranth.back import rtlil
from amaranth.hdl import Cat, DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io.clocking import Clocking
from hwflow_rtl.io.transports.uart import UartReceiver, UartTransmitter, bit_time_for
from hwflow_rtl.stream.streams import link
from hwflow_rtl.vendor.pll import PllSettings

from hwflow.synth.boards import Board

LEDS = 3


class Blinky(wiring.Component):
    """Bytes come back on the serial line; a counter in the core's clock blinks."""

    def __init__(self, board: Board, pll: PllSettings | None):
        self.board = board
        self.pll = pll
        self.leds = min(LEDS, len(board.leds))
        super().__init__({"clk": In(1), "rx": In(1), "tx": Out(1), "led": Out(self.leds),
                          **({"rst": In(1)} if board.reset is not None else {})})

    @property
    def pins(self):
        return [self.clk, self.rx, self.tx, *([self.rst] if self.board.reset is not None else []), self.led]

    def elaborate(self, platform):
        m = Module()
        board = self.board
        clocking = Clocking(technology=board.technology(), board_mhz=board.clock_mhz, pll=self.pll,
                            has_reset=board.reset is not None, reset_active_low=board.reset_active_low)
        clocking.add_to(m)
        m.d.comb += clocking.clk.eq(self.clk)
        if board.reset is not None:
            m.d.comb += clocking.rst.eq(self.rst)
        time = bit_time_for(board.clock_mhz * 1e6, board.transport.entry["baud"])
        m.submodules.receiver = receiver = DomainRenamer("line")(UartReceiver(time=time))
        m.submodules.transmitter = transmitter = DomainRenamer("line")(UartTransmitter(time=time))
        link(m, receiver.o, transmitter.i)
        count, carry, high = Signal(16), Signal(), Signal(12)
        m.d.sync += [Cat(count, carry).eq(count + 1), high.eq(high + carry)]
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx),
                     self.led.eq(high[-self.leds:] ^ (-1 if board.leds_active_low else 0))]
        return m


def blinky_text(board: Board, pll: PllSettings | None) -> str:
    """The design as RTLIL."""
    top = Blinky(board, pll)
    return rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
