"""A serial line as the way to a design: 8 data bits, no parity, one stop bit.

The time of a bit is a fraction: it is given in 1/16 clock cycles, and bits begin in the nearest cycle, so that their
errors do not add up.  Where a bit is 8 cycles long, as 3 Mbaud are at 25 MHz, that is right to 0.4 %.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...stream.streams import BYTE, link, stream_of
from ...vendor.base import Resources
from ...vendor.fitted import fitted
from .base import Framed, Transport

#: Parts of a clock cycle in which bit times are counted.
PARTS = 16
#: The shortest bit that the receiver samples in its middle, with room for another clock at the other end.
SHORTEST = 4 * PARTS
#: A break is that many times nine bits without a one, after a byte of zeros whose stop bit is one of them.  Noise that
#: makes one of a row of bytes of zeros must hit a stop bit as often.
BREAK_PASSES = 8


def bit_time_for(clock_hz: float, baud: int) -> int:
    """1/16 clock cycles a bit, the nearest whole number.  Raises ValueError below 4 cycles."""
    time = round(clock_hz * PARTS / baud)
    if time < SHORTEST:
        raise ValueError(f"baud rate must be at most {clock_hz * PARTS / SHORTEST:.0f}, a quarter of the clock of "
                         f"{clock_hz / 1e6:g} MHz, not {baud}")
    return time


class UartReceiver(wiring.Component):
    """Bytes from the line.  A byte waits at `o` until it is taken; one that comes meanwhile is lost: `overrun`.

    The line is filtered: what lasts a single cycle is not seen.

    Parameters
    ----------
    time
        The longest time of a bit, in 1/16 clock cycles, at least 4 cycles.

    Attributes
    ----------
    rx : In(1)
        The line, asynchronous, idle high.
    period : In(unsigned)
        The time of a bit less one cycle; that of `time` where nothing drives it.
    overrun, broken : Out(1)
        High for one cycle when a byte was lost, or dropped because its stop bit was low.
    long_low : Out(1)
        High for one cycle when the line has been low for 10 + 9 BREAK_PASSES bits, and again as long as it stays so.
    """

    def __init__(self, *, time: int):
        check_time(time)
        self.width = time.bit_length()
        super().__init__({
            "rx": In(1), "period": In(self.width, init=time - PARTS), "o": Out(stream_of(BYTE, 1)),
            "overrun": Out(1), "broken": Out(1), "long_low": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        seen, before, filtered = Signal(init=1), Signal(2, init=-1), Signal(init=1)
        m.submodules.sync = FFSynchronizer(self.rx, seen, init=1)
        m.d.sync += [before.eq(Cat(seen, before)),
                     filtered.eq(seen & before[0] | seen & before[1] | before[0] & before[1])]
        shift = Signal(9, reset_less=True)  # a one goes before the data; where it is the last, the stop bit is next
        word = Signal(8, reset_less=True)
        active, starts, low, stops = Signal(), Signal(), Signal(), Signal()
        passes = Signal(range(BREAK_PASSES))
        done, good, full = Signal(), Signal(), Signal()
        m.d.comb += [self.o.valid.eq(full), self.o.payload[0].eq(word)]
        begins = ~active & ~filtered
        sample = self.ticks(m, active & ~stops, begins)
        # At the end of a stop bit or of a start bit that does not stay; after a stop bit that is low the line has to
        # come back to idle first.
        m.d.comb += stops.eq(active & filtered & (low | sample & (starts | shift[0])))

        m.d.sync += [active.eq(begins | active & ~stops), done.eq(0), self.long_low.eq(0)]
        with m.If(~active):
            m.d.sync += [shift.eq(1 << 8), starts.eq(1), low.eq(0), passes.eq(0)]
        with m.Elif(sample):
            m.d.sync += starts.eq(0)
            with m.If(shift[0]):
                m.d.sync += [low.eq(1), passes.eq(passes + low), done.eq(~low), good.eq(filtered),
                             self.long_low.eq(low & (passes == BREAK_PASSES - 1))]
            with m.If(shift[0] & ~filtered):
                m.d.sync += shift.eq(1 << 8)
            with m.Elif(~shift[0] & ~starts):
                m.d.sync += shift.eq(Cat(shift[1:], filtered))

        m.d.sync += [self.broken.eq(done & ~good), self.overrun.eq(done & good & full & ~self.o.ready)]
        with m.If(done & good & (~full | self.o.ready)):
            m.d.sync += [word.eq(shift[1:]), full.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        return m

    def ticks(self, m: Module, active: Value, begins: Value) -> Value:
        """High in the middle of each bit while `active`; `begins` says that the start bit is seen."""
        # Counts down to below zero.  It starts so that the first middle is half a bit behind the edge, which came half
        # a cycle before it was seen, on the average, and the next cycle is the first that counts.
        idle = (1 << self.width + 1) - 3 * PARTS // 2
        timer = Signal(self.width + 1, init=idle)
        over = timer[-1]
        with m.If(active | begins):
            step = Mux(over, self.period, -PARTS & (1 << self.width + 1) - 1)
            m.d.sync += timer.eq(timer + Mux(active, step, self.period >> 1))
        with m.Else():
            m.d.sync += timer.eq(idle)
        return over


class UartTransmitter(wiring.Component):
    """Bytes to the line, one after the other without a gap.

    Parameters
    ----------
    time
        As of the receiver.

    Attributes
    ----------
    period : In(unsigned)
        As of the receiver.
    pause : In(1)
        No byte begins while it is high.
    tx : Out(1)
        The line, from a register, idle high.
    busy : Out(1)
        A byte is on the line.
    """

    def __init__(self, *, time: int):
        check_time(time)
        self.width = time.bit_length()
        super().__init__({"period": In(self.width, init=time - PARTS), "i": In(stream_of(BYTE, 1)), "pause": In(1),
                          "tx": Out(1, init=1), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        timer = Signal(self.width + 1, init=-1)  # down to below zero, where it waits
        over, sent, begins = timer[-1], Signal(), Signal()
        shift = Signal(9)  # the stop bit goes last: behind it there are zeros
        line = Signal(init=1)
        m.d.comb += [self.tx.eq(line), sent.eq(shift == 0), begins.eq(self.i.valid & self.i.ready),
                     self.i.ready.eq(over & sent & ~self.pause), self.busy.eq(~over | ~sent)]
        with m.If(~over | ~sent | begins):
            m.d.sync += timer.eq(timer + Mux(over, self.period, -PARTS & (1 << self.width + 1) - 1))
        with m.If(begins):
            m.d.sync += [line.eq(0), shift.eq(Cat(self.i.payload[0], 1))]
        with m.Elif(over & ~sent):
            m.d.sync += [line.eq(shift[0]), shift.eq(shift >> 1)]
        return m


def check_time(time: int) -> None:
    if time < SHORTEST:
        raise ValueError(f"time of a bit must be at least {SHORTEST // PARTS} clock cycles, not {time / PARTS:g}")


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
