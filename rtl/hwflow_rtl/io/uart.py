"""A serial line, 8 data bits, no parity, one stop bit: a receiver and a transmitter with byte streams."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Shape, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.streams import stream_of

__all__ = ["UartReceiver", "UartTransmitter", "bytes_of", "divider_for"]

BYTE = unsigned(8)
#: Both ends sample a bit in its middle; the last one is 9.5 bit times after the start edge, and half a bit of error
#: there is lost data.  3 % leaves room for the other end.
LARGEST_ERROR = 0.03


def divider_for(clock_hz: float, baud: int) -> int:
    """Clock cycles a bit, the nearest whole number.

    Raises ValueError where that misses the rate by more than 3 % or is below 4 cycles.
    """
    divider = round(clock_hz / baud)
    if divider < 4 or abs(clock_hz / divider / baud - 1) > LARGEST_ERROR:
        raise ValueError(f"baud rate must be a rate that a clock of {clock_hz / 1e6:g} MHz can be divided to within "
                         f"{LARGEST_ERROR:.0%}, with at least 4 cycles a bit, not {baud}")
    return divider


class UartReceiver(wiring.Component):
    """Bytes from the line.  A byte waits at `o` until it is taken; one that comes meanwhile is lost: `overrun`.

    Parameters
    ----------
    divider
        Clock cycles of one bit, at least 4.

    Attributes
    ----------
    rx : In(1)
        The line, asynchronous, idle high.
    overrun, broken : Out(1)
        High for one cycle when a byte was lost, or dropped because its stop bit was low.
    """

    def __init__(self, *, divider: int):
        check_divider(divider)
        self.divider = divider
        super().__init__({
            "rx": In(1), "o": Out(stream_of(BYTE, 1)), "overrun": Out(1), "broken": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        rx = Signal(init=1)
        m.submodules.sync = FFSynchronizer(self.rx, rx, init=1)
        # Down to its sign bit; the middle of the first data bit is one and a half bits after the edge.
        first = self.divider + self.divider // 2 - 2
        timer = Signal(Shape.cast(range(-1, first + 1)), init=first)
        shift = Signal(9, reset_less=True)  # a one goes before the data; where it is the last, the stop bit is next
        word = Signal(8, reset_less=True)
        active = Signal()
        low = Signal()
        done = Signal()
        good = Signal()
        full = Signal()
        m.d.comb += [self.o.valid.eq(full), self.o.payload[0].eq(word)]

        m.d.sync += [done.eq(0), low.eq(low & ~rx)]
        with m.If(~active):
            m.d.sync += [timer.eq(first), shift.eq(1 << 8), active.eq(~rx & ~low)]
        with m.Elif(~timer[-1]):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += timer.eq(self.divider - 2)
            with m.If(shift[0]):
                # After a stop bit that is low the line has to come back to idle first.
                m.d.sync += [active.eq(0), done.eq(1), good.eq(rx), low.eq(~rx)]
            with m.Else():
                m.d.sync += shift.eq(Cat(shift[1:], rx))

        m.d.sync += [self.broken.eq(done & ~good), self.overrun.eq(done & good & full & ~self.o.ready)]
        with m.If(done & good & (~full | self.o.ready)):
            m.d.sync += [word.eq(shift[1:]), full.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        return m


class UartTransmitter(wiring.Component):
    """Bytes to the line, one after the other without a gap.

    Parameters
    ----------
    divider
        Clock cycles of one bit, at least 4.

    Attributes
    ----------
    tx : Out(1)
        The line, from a register, idle high.
    """

    def __init__(self, *, divider: int):
        check_divider(divider)
        self.divider = divider
        super().__init__({"i": In(stream_of(BYTE, 1)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        last = self.divider - 2
        timer = Signal(Shape.cast(range(-1, last + 1)), init=last)
        shift = Signal(9, reset_less=True)  # the stop bit goes last: behind it there are zeros
        busy, sent = Signal(), Signal()
        line = Signal(init=1)
        m.d.comb += [self.tx.eq(line), self.i.ready.eq(~busy), sent.eq(shift == 0)]
        with m.If(~busy):
            m.d.sync += timer.eq(last)
            with m.If(self.i.valid):
                m.d.sync += [line.eq(0), shift.eq(Cat(self.i.payload[0], 1)), busy.eq(1)]
        with m.Elif(~timer[-1]):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(last), busy.eq(~sent), line.eq(shift[0] | sent), shift.eq(shift >> 1)]
        return m


def check_divider(divider: int) -> None:
    if divider < 4:
        raise ValueError(f"divider must be at least 4 clock cycles a bit, not {divider}")


def bytes_of(shape: Shape) -> int:
    """Bytes of one element on the line: as many as its bits need, at least one."""
    return max(1, -(-Shape.cast(shape).width // 8))
