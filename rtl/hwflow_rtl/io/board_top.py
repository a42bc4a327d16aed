"""The design on a board: clock and reset, a serial line in, the core, a serial line out, LEDs.

Its ports are the pins; `hwflow.synth` writes the constraint file that places them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, ClockDomain, Const, Module, ResetSignal, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..deep_queue import QueueChoice, make_queue
from ..streams import Gearbox, Queue, link, payload_of
from ..vendor.base import Resources, Technology
from .uart import BYTE, UartReceiver, UartTransmitter, bytes_of

__all__ = ["BoardTop", "End", "Ends"]

#: Bytes that wait on either side of the core: few enough to need no memory.
QUEUE_DEPTH = 4
#: Cycles of reset after configuration.  Block RAM of iCE40 reads zeros in the first microseconds (icestorm's notes).
RESET_CYCLES = 4096


@dataclass(frozen=True)
class End:
    """An input or output of a core: beats of `lanes` elements of `width` bits, `elements` in a frame."""

    lanes: int
    width: int
    elements: int

    def queue(self, technology: Technology | None) -> QueueChoice:
        """What holds a whole frame."""
        return QueueChoice(width=self.lanes * self.width, depth=self.depth, technology=technology)

    @property
    def depth(self) -> int:
        return max(2, self.elements // self.lanes)


@dataclass(frozen=True)
class Ends:
    """All inputs and outputs of a core, in order."""

    inputs: tuple[End, ...]
    outputs: tuple[End, ...]

    @property
    def waiting(self) -> tuple[End, ...]:
        """Those of which a whole frame waits while the line serves the others."""
        return (*self.inputs[:-1], *self.outputs[1:])


class BoardTop(wiring.Component):
    """One byte of the line is one element of up to 8 bits; wider elements take as many bytes as they need, low first.

    An element is in the low bits of its bytes; on the way out its sign, or zeros, fill them.

    Of a core with several inputs the line brings a frame of input 0, then one of input 1, and so on; then the next of
    input 0.  All but the last input have a queue for a whole frame, since the core may take nothing of one before
    another has come.  Back go a frame of output 0, then one of output 1, and so on; all but the first have a queue for
    a whole frame.  Nothing waits in a circle: what a queue at an output has no room for is of a later frame than the
    line is at, and all that this frame needs has passed before it.

    Parameters
    ----------
    core
        A component with streams `i` and `o` whose payloads are arrays of elements of any width; with several, `i0`,
        `i1`, ... and `o0`, `o1`, ..., as a `Core`.
    divider
        Clock cycles of one bit on the line.
    leds
        How many LEDs the board has: the first blinks, the second is lit while the core takes or gives data, the third
        stays lit when a byte was lost.
    leds_active_low, reset_active_low
        Polarity of the pins.
    has_reset
        Whether the board has a button for reset.
    ends, technology
        Of a core with several inputs or outputs: their frames, and what makes the queues for these.

    Attributes
    ----------
    clk, rx, rst : In(1)
    tx : Out(1)
    led : Out(leds)
    """

    def __init__(self, *, core: Any, divider: int, leds: int = 0, leds_active_low: bool = False,
                 has_reset: bool = False, reset_active_low: bool = False, ends: Ends | None = None,
                 technology: Technology | None = None):
        self.core = core
        self.ends = ends
        self.technology = technology
        self.inputs, self.outputs = streams_of(core, "i"), streams_of(core, "o")
        check_ends(self.inputs, self.outputs, ends)
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
    def cost(technology: Technology, ends: Ends | None = None) -> Resources:
        """What stands around the core: RAM exact, LUT and FF rounded up from routed designs with byte-wide ends.

        Of a core with several inputs or outputs a whole frame of all but one input and one output waits in a queue.
        """
        queue = Queue.cost(width=8, depth=QUEUE_DEPTH, technology=technology)
        total = Resources(lut=250, ff=200, ram=2 * queue.ram)
        for end in ends.waiting if ends is not None else ():
            total += end.queue(technology).cost + Resources(lut=40 + 2 * end.lanes * end.width,
                                                            ff=40 + 2 * end.lanes * end.width)
        return total

    @property
    def pins(self) -> list[Value]:
        """The top-level ports, in the order of the constraint file."""
        return [self.clk, self.rx, self.tx, *([self.rst] if self.has_reset else []), *([self.led] if self.leds else [])]

    def elaborate(self, platform):
        m = Module()
        self.clock_and_reset(m)
        m.submodules.core = self.core
        m.submodules.receiver = receiver = UartReceiver(divider=self.divider)
        m.submodules.transmitter = transmitter = UartTransmitter(divider=self.divider)
        m.submodules.queue_in = queue_in = Queue(shape=payload_of(receiver.o), depth=QUEUE_DEPTH)
        m.submodules.queue_out = queue_out = Queue(shape=payload_of(transmitter.i), depth=QUEUE_DEPTH)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        link(m, receiver.o, queue_in.i)
        link(m, queue_out.o, transmitter.i)

        turns = self.turns(m, "in", self.inputs, queue_in.o.valid & queue_in.o.ready)
        readies = [self.gather(m, k, queue_in.o, turn) for k, turn in enumerate(turns)]
        m.d.comb += queue_in.o.ready.eq(Cat(*readies).any())

        turns = self.turns(m, "out", self.outputs, queue_out.i.valid & queue_out.i.ready)
        offers = [self.scatter(m, k, queue_out.i, turn) for k, turn in enumerate(turns)]
        m.d.comb += queue_out.i.valid.eq(Cat(*(valid for valid, _ in offers)).any())
        for turn, (_, byte) in zip(turns, offers, strict=True):
            with m.If(turn):
                m.d.comb += queue_out.i.payload[0].eq(byte)
        if self.leds:
            self.lights(m, receiver)
        return m

    def turns(self, m: Module, name: str, streams: Sequence[Any], step: Value) -> list[Value]:
        """Which of the streams the line serves: each for the bytes of a frame, one for each `step`, in order."""
        if len(streams) == 1:
            return [Const(1, 1)]
        assert self.ends is not None
        ends = self.ends.inputs if name == "in" else self.ends.outputs
        last = [end.elements * bytes_of(payload_of(port).elem_shape) - 2
                for end, port in zip(ends, streams, strict=True)]
        turn = Signal(len(streams), init=1, name=f"turn_{name}")
        left = Signal(Shape.cast(range(-1, max(last) + 1)), init=last[0], name=f"left_{name}")  # down to its sign bit
        with m.If(step):
            m.d.sync += left.eq(left - 1)
            with m.If(left[-1]):
                m.d.sync += turn.eq(turn.rotate_left(1))
                for k, count in enumerate(last):
                    with m.If(turn[k - 1]):
                        m.d.sync += left.eq(count)
        return list(turn)

    def gather(self, m: Module, k: int, line: Any, turn: Value) -> Value:
        """Bytes of the line to input k while it is its turn; whether it takes one in this cycle."""
        port = self.inputs[k]
        shape, lanes = payload_of(port).elem_shape, payload_of(port).length
        count, width = bytes_of(shape), Shape.cast(shape).width
        m.submodules[f"gather{k}"] = gather = Gearbox(shape=BYTE, lanes_in=1, lanes_out=lanes * count)
        m.d.comb += [gather.i.valid.eq(line.valid & turn), gather.i.payload.eq(line.payload)]
        sink = port
        if k < len(self.inputs) - 1:
            m.submodules[f"frame_in{k}"] = queue = self.frame_queue(port, self.ends.inputs[k])
            link(m, queue.o, port)
            sink = queue.i
        flat = Value.cast(gather.o.payload)
        m.d.comb += [
            sink.valid.eq(gather.o.valid), gather.o.ready.eq(sink.ready),
            Value.cast(sink.payload).eq(Cat(flat.word_select(n, 8 * count)[:width] for n in range(lanes)))]
        return gather.i.ready & turn

    def scatter(self, m: Module, k: int, line: Any, turn: Value) -> tuple[Value, Value]:
        """Bytes of output k to the line while it is its turn: whether there is one, and which."""
        port = self.outputs[k]
        shape, lanes = payload_of(port).elem_shape, payload_of(port).length
        count = bytes_of(shape)
        m.submodules[f"scatter{k}"] = scatter = Gearbox(shape=BYTE, lanes_in=lanes * count, lanes_out=1)
        source = port
        if k:
            m.submodules[f"frame_out{k}"] = queue = self.frame_queue(port, self.ends.outputs[k])
            link(m, port, queue.i)
            source = queue.o
        m.d.comb += [scatter.i.valid.eq(source.valid), source.ready.eq(scatter.i.ready),
                     scatter.o.ready.eq(line.ready & turn)]
        for n in range(lanes):
            element = Signal(Shape(8 * count, signed=Shape.cast(shape).signed), name=f"element{k}_{n}")
            m.d.comb += [element.eq(source.payload[n]),
                         Value.cast(scatter.i.payload).word_select(n, 8 * count).eq(element)]
        return scatter.o.valid & turn, scatter.o.payload[0]

    def frame_queue(self, port: Any, end: End) -> wiring.Component:
        return make_queue(shape=payload_of(port), depth=end.depth, technology=self.technology)

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

    def lights(self, m: Module, receiver) -> None:
        # Short counters behind a registered carry, so that a lamp never limits the clock.
        cycle = Signal(12)
        carry = Signal()
        beat = Signal(12)
        idle = Signal(8, init=1 << 7)
        moved = Signal()
        lost = Signal()
        m.d.sync += [Cat(cycle, carry).eq(cycle + 1), beat.eq(beat + carry),
                     moved.eq(Cat(port.valid & port.ready for port in (*self.inputs, *self.outputs)).any())]
        with m.If(moved):
            m.d.sync += idle.eq(0)
        with m.Elif(~idle[-1]):
            m.d.sync += idle.eq(idle + carry)
        with m.If(receiver.overrun | receiver.broken):
            m.d.sync += lost.eq(1)
        wide = Signal(self.leds)
        m.d.comb += [wide.eq(Cat(beat[-1], ~idle[-1], lost)), self.led.eq(~wide if self.leds_active_low else wide)]


def streams_of(core: Any, letter: str) -> list[Any]:
    """The inputs `i`, or `i0`, `i1`, ..., of a core, or its outputs."""
    members = getattr(core, "signature", None)
    if members is None or letter in members.members:
        return [getattr(core, letter, None)]
    count = sum(name.startswith(letter) and name[1:].isdigit() for name in members.members)
    return [getattr(core, f"{letter}{k}") for k in range(count)]


def check_ends(inputs: Sequence[Any], outputs: Sequence[Any], ends: Ends | None) -> None:
    """A core with one input and one output needs no frames; of others they must be those of its streams."""
    if len(inputs) == len(outputs) == 1:
        return
    if ends is None:
        raise ValueError(f"ends of a BoardTop must be given for a core with {len(inputs)} inputs and {len(outputs)} "
                         f"outputs")
    for what, ports, given in (("inputs", inputs, ends.inputs), ("outputs", outputs, ends.outputs)):
        found = [(payload_of(port).length, Shape.cast(payload_of(port).elem_shape).width) for port in ports]
        if [(end.lanes, end.width) for end in given] != found or any(end.elements % end.lanes for end in given):
            raise ValueError(f"ends of a BoardTop must be whole beats of the core's {what}, of the lanes and widths "
                             f"{found}, not {list(given)}")
