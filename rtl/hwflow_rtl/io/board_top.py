"""The design on a board: clock and reset, a serial line in, the core, a serial line out, LEDs.

Its ports are the pins; `hwflow.synth` writes the constraint file that places them.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Module, ResetSignal, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..streams import Gearbox, Queue, link, payload_of
from ..vendor.base import Resources, Technology
from .uart import BYTE, UartReceiver, UartTransmitter, bytes_of

__all__ = ["BoardTop"]

#: Bytes that wait on either side of the core: few enough to need no memory.
QUEUE_DEPTH = 4
#: Cycles of reset after configuration.  Block RAM of iCE40 reads zeros in the first microseconds (icestorm's notes).
RESET_CYCLES = 4096


class BoardTop(wiring.Component):
    """One byte of the line is one element of up to 8 bits; wider elements take as many bytes as they need, low first.

    An element is in the low bits of its bytes; on the way out its sign, or zeros, fill them.

    Parameters
    ----------
    core
        A component with streams `i` and `o` whose payloads are arrays of elements of any width.
    divider
        Clock cycles of one bit on the line.
    leds
        How many LEDs the board has: the first blinks, the second is lit while the core takes or gives data, the third
        stays lit when a byte was lost.
    leds_active_low, reset_active_low
        Polarity of the pins.
    has_reset
        Whether the board has a button for reset.

    Attributes
    ----------
    clk, rx, rst : In(1)
    tx : Out(1)
    led : Out(leds)
    """

    def __init__(self, *, core: Any, divider: int, leds: int = 0, leds_active_low: bool = False,
                 has_reset: bool = False, reset_active_low: bool = False):
        self.core = core
        self.divider = divider
        self.leds = leds
        self.leds_active_low = leds_active_low
        self.has_reset = has_reset
        self.reset_active_low = reset_active_low
        super().__init__({
            "clk": In(1), "rx": In(1), "tx": Out(1),
            **({"rst": In(1)} if has_reset else {}), **({"led": Out(leds)} if leds else {}),
        })

    @staticmethod
    def cost(technology: Technology) -> Resources:
        """What stands around the core: RAM exact for byte-wide ends, LUT and FF rounded up from routed designs."""
        queue = Queue.cost(width=8, depth=QUEUE_DEPTH, technology=technology)
        return Resources(lut=250, ff=200, ram=2 * queue.ram)

    @property
    def pins(self) -> list[Value]:
        """The top-level ports, in the order of the constraint file."""
        return [self.clk, self.rx, self.tx, *([self.rst] if self.has_reset else []), *([self.led] if self.leds else [])]

    def elaborate(self, platform):
        m = Module()
        self.clock_and_reset(m)
        m.submodules.core = core = self.core
        m.submodules.receiver = receiver = UartReceiver(divider=self.divider)
        m.submodules.transmitter = transmitter = UartTransmitter(divider=self.divider)
        m.submodules.queue_in = queue_in = Queue(shape=payload_of(receiver.o), depth=QUEUE_DEPTH)
        m.submodules.queue_out = queue_out = Queue(shape=payload_of(transmitter.i), depth=QUEUE_DEPTH)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        link(m, receiver.o, queue_in.i)
        link(m, queue_out.o, transmitter.i)

        shape, lanes = payload_of(core.i).elem_shape, payload_of(core.i).length
        count = bytes_of(shape)
        m.submodules.gather = gather = Gearbox(shape=BYTE, lanes_in=1, lanes_out=lanes * count)
        link(m, queue_in.o, gather.i)
        m.d.comb += [core.i.valid.eq(gather.o.valid), gather.o.ready.eq(core.i.ready)]
        flat, width = Value.cast(gather.o.payload), Shape.cast(shape).width
        m.d.comb += Value.cast(core.i.payload).eq(Cat(flat.word_select(k, 8 * count)[:width] for k in range(lanes)))

        shape, lanes = payload_of(core.o).elem_shape, payload_of(core.o).length
        count = bytes_of(shape)
        m.submodules.scatter = scatter = Gearbox(shape=BYTE, lanes_in=lanes * count, lanes_out=1)
        link(m, scatter.o, queue_out.i)
        m.d.comb += [scatter.i.valid.eq(core.o.valid), core.o.ready.eq(scatter.i.ready)]
        for k in range(lanes):
            element = Signal(Shape(8 * count, signed=Shape.cast(shape).signed), name=f"element{k}")
            m.d.comb += [element.eq(core.o.payload[k]),
                         Value.cast(scatter.i.payload).word_select(k, 8 * count).eq(element)]
        if self.leds:
            self.lights(m, core, receiver)
        return m

    def clock_and_reset(self, m: Module) -> None:
        """The board's clock drives everything.  A PLL would stand here, between `clk` and the domain."""
        domain = m.domains.sync = ClockDomain("sync")
        start = m.domains.start = ClockDomain("start", reset_less=True, local=True)
        m.d.comb += [domain.clk.eq(self.clk), start.clk.eq(self.clk)]
        count = Signal(range(RESET_CYCLES))
        reset = Signal(init=1)
        button = Signal()
        if self.has_reset:
            pressed = ~self.rst if self.reset_active_low else self.rst
            m.submodules.button = FFSynchronizer(pressed, button, o_domain="start")
        with m.If(button):
            m.d.start += [count.eq(0), reset.eq(1)]
        with m.Else():
            m.d.start += [count.eq(count + reset), reset.eq(reset & (count != RESET_CYCLES - 1))]
        m.d.comb += ResetSignal("sync").eq(reset)

    def lights(self, m: Module, core, receiver) -> None:
        # Short counters behind a registered carry, so that a lamp never limits the clock.
        cycle = Signal(12)
        carry = Signal()
        beat = Signal(12)
        idle = Signal(8, init=1 << 7)
        moved = Signal()
        lost = Signal()
        m.d.sync += [Cat(cycle, carry).eq(cycle + 1), beat.eq(beat + carry),
                     moved.eq((core.i.valid & core.i.ready) | (core.o.valid & core.o.ready))]
        with m.If(moved):
            m.d.sync += idle.eq(0)
        with m.Elif(~idle[-1]):
            m.d.sync += idle.eq(idle + carry)
        with m.If(receiver.overrun | receiver.broken):
            m.d.sync += lost.eq(1)
        wide = Signal(self.leds)
        m.d.comb += [wide.eq(Cat(beat[-1], ~idle[-1], lost)), self.led.eq(~wide if self.leds_active_low else wide)]
