"""A serial line as the way to a design."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...stream.streams import link
from ...vendor.base import Resources
from ...vendor.fitted import fitted
from ..uart import PARTS, SHORTEST, UartReceiver, UartTransmitter, check_time
from .base import Transport
from .framed import Framed

__all__ = ["Uart"]

#: Parts of a clock cycle in which the host counts bit times.
HOST_PARTS = 256
#: Clock cycles of a bit where a cost is asked for without a board: 1 Mbaud at 25 MHz.
USUAL_DIVIDER = 25


class Uart(Transport):
    """Packets over a serial line, 8 data bits, no parity, one stop bit.

    Another bit time that the host sets counts when all that was to be sent has left.  A break of the host, or a reset,
    brings back that of the board file.

    Parameters
    ----------
    divider
        Clock cycles of one bit as the board file has it, at least 4, counted in sixteenths.
    settable
        Whether the host can set other bit times, of as many binary digits at most.
    flow
        Whether the board's bridge says with `rts_n` when it has room for bytes, and hears with `cts_n` that the board
        always has.

    Attributes
    ----------
    rx : In(1)
        From the host.
    tx : Out(1)
        To the host, idle high.
    rts_n, cts_n : In(1), Out(1)
        Only with `flow`; low where bytes may come.
    settings, settings_taken, settings_changed : In(32), Out(32), In(1)
        Only where it is settable, as of the `HostLink`: the time of a bit in 1/256 clock cycles.  What is taken is
        rounded down to 1/16 cycles, without high bits that the time of the board file does not have, and 0 where it is
        too short.
    """

    kind = "uart"

    def __init__(self, *, divider: float, settable: bool = False, flow: bool = False):
        self.time = round(divider * PARTS)
        check_time(self.time)
        self.settable = settable
        self.flow = flow
        self.width = self.time.bit_length()
        super().__init__({"rx": In(1), "tx": Out(1, init=1), **({"rts_n": In(1), "cts_n": Out(1)} if flow else {})},
                         members={"settings": In(32), "settings_taken": Out(32), "settings_changed": In(1)}
                         if settable else None)

    @staticmethod
    def cost(divider: float = USUAL_DIVIDER, *, settable: bool = False) -> Resources:
        """LUT and FF as synthesized."""
        time_bits = round(divider * PARTS).bit_length()
        more = fitted("Uart with settings", time_bits=time_bits) if settable else Resources()
        return fitted("Uart", time_bits=time_bits) + more

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(time=self.time)
        m.submodules.transmitter = transmitter = UartTransmitter(time=self.time)
        m.submodules.framed = framed = Framed()
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        link(m, receiver.o, framed.received)
        link(m, framed.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), framed.i)
        link(m, framed.sent, transmitter.i)
        if self.flow:  # `cts_n` stays low
            m.submodules.pause = FFSynchronizer(self.rts_n, transmitter.pause)

        if self.settable:
            self.set(m, receiver, transmitter, framed.sent.valid)
        return m

    def set(self, m: Module, receiver: UartReceiver, transmitter: UartTransmitter, waiting: Value) -> None:
        """The time of a bit as the host sets it, when nothing is `waiting` to be sent at the old one."""
        period, following = Signal(self.width, init=self.time - PARTS), Signal(self.width, reset_less=True)
        rounded = exact_log2(HOST_PARTS // PARTS)
        wanted, changing = self.settings[rounded:rounded + self.width], Signal()
        m.d.comb += [
            receiver.period.eq(period), transmitter.period.eq(period),
            self.settings_taken.eq(Mux(wanted >= SHORTEST, Cat(Const(0, rounded), wanted), 0)),
        ]
        with m.If(receiver.long_low):
            m.d.sync += [period.eq(self.time - PARTS), changing.eq(0)]
        with m.Elif(changing & ~self.i.valid & ~waiting & ~transmitter.busy):
            m.d.sync += [period.eq(following), changing.eq(0)]
        with m.If(self.settings_changed):
            m.d.sync += [changing.eq(wanted >= SHORTEST), following.eq(wanted - PARTS)]
