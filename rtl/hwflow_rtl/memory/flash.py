"""`FlashController`: words of a QSPI flash as a stream of bytes."""

from __future__ import annotations

from amaranth.hdl import Array, C, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import flip_flops
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .flash_part import FlashPart
from .flash_pins import flash_pins
from .flash_start import FlashError, start_steps
from .part import request_of

__all__ = ["FlashController", "FlashError"]

#: Bytes that wait at `read`.  A byte takes two clocks or more, and the way to the queue and back is shorter than four.
QUEUE_DEPTH = 4
#: Bits of an answer that are looked at: a JEDEC identifier.
ANSWER = 24


class FlashController(wiring.Component):
    """Wakes the chip, finds out whether it is the right one, and reads as many words in a row as a request wants.

    After a reset it sends, each a command of its own (`flash_start`): what leaves continuous read mode, the release
    from power-down, into which an iCE40 puts the chip after configuration, and the request for the JEDEC identifier.
    With four lines it sets the bit QE, in the volatile copy of the status register, and reads it back.  A wrong answer
    ends in `error`, and no request is ever taken.

    A request is one read command.  The clock of the chip is that of `sync`; it stands still while `read` stalls.
    Registers are on both sides of the pins: those of `FlashPads`, and those here.

    Parameters
    ----------
    part
        The chip; `sync` is at most as fast as `part.clock_mhz`.
    technology
        Decides what the queue is made of.

    Attributes
    ----------
    request : stream of `request_of(part)`
        Words from `first` to `last`, both included, `first` <= `last` < `part.words`; `write` is 0.
    read : stream of bytes
        Four for each word, those in the low bits first, which is the order in the chip.
    restart : In(1)
        Drops the request under way and every byte that was not taken.  From a register; whoever makes requests must be
        reset by the same.
    initialized : Out(1)
        The chip has answered as it should.
    error : Out(FlashError)
        What was wrong, else `NONE`.  It stays until a reset.
    pins : Out(flash_pins(part))
        To `FlashPads`.

    Latency from a request to its first byte: at most `part.clocks.worst_latency`.  Between two bytes of a request:
    `part.clocks.worst_gap`.
    """

    def __init__(self, *, part: FlashPart, technology: Technology | None = None):
        self.part = part
        self.technology = technology
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "read": Out(stream.Signature(part.piece)),
            "restart": In(1), "initialized": Out(1), "error": Out(FlashError), "pins": Out(flash_pins(part))})

    @staticmethod
    def cost(*, part: FlashPart, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated."""
        address, lines = ceil_log2(part.words), part.lines
        control = fitted("FlashController", address_bits=address, pause_bits=ceil_log2(part.clocks.release))
        return (Queue.cost(width=part.piece, depth=QUEUE_DEPTH, technology=technology)
                + CreditCounter.cost(words=QUEUE_DEPTH) + Resources(lut=control.lut + part.width + ANSWER)
                + flip_flops(control.ff + part.width + ANSWER + 2 * lines + 2, 2 * lines + 2, technology))

    def elaborate(self, platform):
        m = Module()
        part, clocks, lines = self.part, self.part.clocks, self.part.lines
        self.steps = start_steps(part)
        # What is decided in a cycle reaches the pins two cycles later, and the chip takes it half a cycle after that.
        self.clock, self.sample, self.last = Signal(), Signal(), Signal()
        self.select, self.out, self.drive = Signal(), Signal(lines), Signal(lines)
        self.shift, self.count, self.came = Signal(32), Signal(5), Signal(ANSWER)
        self.pause = Signal(range(max(clocks.deselect, clocks.release)), init=clocks.deselect - 1)
        self.left, self.live = Signal(ceil_log2(part.words)), Signal()
        #: Clocks of a byte that are left.
        self.place = self.count[:exact_log2(clocks.worst_gap)]
        credit = self.arrivals(m)
        step = Signal(range(len(self.steps) + 1))
        wrong = self.wrong_answer(m, step)
        with m.FSM():
            self.start_up(m, step, wrong)
            self.read_command(m)
            self.read_data(m, credit)
        with m.If(self.restart):
            m.d.sync += self.live.eq(0)
        self.drive_pins(m)
        return m


    def wrong_answer(self, m: Module, step: Signal) -> Signal:
        """What is wrong with the answer to the step before `step`."""
        wrong = Signal(FlashError)
        for number, done in enumerate(self.steps, 1):
            if done.wrong is not None:
                with m.If(step == number):
                    m.d.comb += wrong.eq(done.wrong(self.came))
        return wrong

    def start_up(self, m: Module, step: Signal, wrong: Signal) -> None:
        """One step after another, as long as nothing is wrong."""
        steps = self.steps
        sends, last_clocks = (Array(C(value, width) for value in values) for values, width in (
            ([s.send for s in steps], 16), ([s.clocks - 1 for s in steps], 5)))
        rests = Array(C(s.rest - 1, len(self.pause)) for s in steps)
        with m.State("PAUSE"):
            m.d.sync += self.pause.eq(self.pause - 1)
            with m.If(self.pause == 0):
                m.d.sync += [self.shift.eq(Cat(C(0, 16), sends[step])), self.count.eq(last_clocks[step])]
                with m.If(self.initialized):
                    m.next = "IDLE"
                with m.Elif(wrong != FlashError.NONE):
                    m.d.sync += self.error.eq(wrong)
                    m.next = "FAILED"
                with m.Elif(step == len(steps)):
                    m.d.sync += self.initialized.eq(1)
                    m.next = "IDLE"
                with m.Else():
                    m.next = "START"
        with m.State("START"):
            self.single_line(m, self.shift[-1])
            m.d.comb += self.sample.eq(1)
            m.d.sync += self.shift.eq(self.shift << 1)
            with m.If(self.count == 0):
                m.d.sync += [self.pause.eq(rests[step]), step.eq(step + 1)]
                m.next = "PAUSE"
        with m.State("FAILED"):
            pass

    def single_line(self, m: Module, bit) -> None:
        """A clock of a command: IO0 is driven, IO2 and IO3 are high, which is what they are without QE."""
        lines = self.part.lines
        m.d.comb += [self.select.eq(1), self.clock.eq(1), self.drive.eq(0b1101), self.out.eq((0b1100 | bit)[:lines])]
        m.d.sync += self.count.eq(self.count - 1)

    def read_command(self, m: Module) -> None:
        """A request becomes a command, unless the chip is in continuous read mode, and an address."""
        part, lines = self.part, self.part.lines
        entered = Signal()
        address_clocks, mode_clocks = 32 // lines, 8 // lines
        with m.State("IDLE"):
            asked = self.request.payload
            m.d.comb += self.request.ready.eq(~self.restart)
            m.d.sync += [
                self.shift.eq(Cat(C(part.mode, 8), C(0, 2), (asked.first + part.offset // 4)[:22])),
                self.left.eq(asked.last - asked.first), self.count.eq(Mux(entered, address_clocks - 1, 7))]
            with m.If(self.request.valid & self.request.ready):
                m.d.sync += self.live.eq(1)
                with m.If(entered):
                    m.next = "ADDRESS"
                with m.Else():
                    m.next = "COMMAND"
        with m.State("COMMAND"):
            self.single_line(m, C(part.command, 8).bit_select(self.count[:3], 1))
            with m.If(self.count == 0):
                m.d.sync += self.count.eq(address_clocks - 1)
                m.next = "ADDRESS"
        with m.State("ADDRESS"):
            # The lower half of the mode means nothing: the lines are left to the chip in time.
            m.d.comb += [self.select.eq(1), self.clock.eq(1), self.out.eq(self.shift[-lines:]),
                         self.drive.eq((self.count >= mode_clocks // 2).replicate(lines))]
            m.d.sync += [self.shift.eq(self.shift << lines), self.count.eq(self.count - 1)]
            with m.If(self.count == 0):
                m.d.sync += entered.eq(part.continuous)
                self.after_address(m)
        with m.State("DUMMY"):
            m.d.comb += [self.select.eq(1), self.clock.eq(1)]
            m.d.sync += self.count.eq(self.count - 1)
            with m.If(self.count == 0):
                self.begin_data(m)

    def after_address(self, m: Module) -> None:
        if self.part.dummy_clocks:
            m.d.sync += self.count.eq(self.part.dummy_clocks - 1)
            m.next = "DUMMY"
        else:
            self.begin_data(m)

    def begin_data(self, m: Module) -> None:
        m.d.sync += self.count.eq(self.part.clocks.word - 1)
        m.next = "DATA"

    def read_data(self, m: Module, credit: Signal) -> None:
        """A byte begins where there is room for it; the clock stands still until then."""
        full = self.part.clocks.word - 1
        goes = Signal()
        m.d.comb += goes.eq(self.live & (credit | ~self.place.all()))
        ends = Signal()
        with m.State("DATA"):
            m.d.comb += [
                self.select.eq(1), self.clock.eq(goes), self.sample.eq(goes), self.last.eq(goes & ~self.place.any()),
                ends.eq(goes & (self.count == 0))]
            with m.If(goes):
                m.d.sync += self.count.eq(Mux(ends, full, self.count - 1))
            with m.If(ends):
                m.d.sync += self.left.eq(self.left - 1)
            with m.If(~self.live | (ends & (self.left == 0))):
                m.d.sync += [self.live.eq(0), self.pause.eq(self.part.clocks.deselect - 1)]
                m.next = "PAUSE"

    def arrivals(self, m: Module) -> Signal:
        """Takes what was asked for from the pads, into the queue where it is a byte of a request; gives the credit.

        A clock brings what the falling edge of the clock before it made the chip drive: the pads have taken it at the
        falling edge of this clock.
        """
        lines, captured = self.part.lines, self.pins.io_i
        on_the_way = self.part.clocks.PIPELINE - 1
        coming, ending, whole = Signal(on_the_way), Signal(on_the_way), Signal()
        m.d.sync += [coming.eq(Cat(self.sample, coming[:-1])), ending.eq(Cat(self.last, ending[:-1])),
                     whole.eq(ending[-1])]
        with m.If(coming[-1]):
            m.d.sync += self.came.eq(Mux(
                self.initialized, Cat(captured, self.came[:-lines]), Cat(captured[1], self.came[:-1])))
        queue = Queue(shape=self.part.piece, depth=QUEUE_DEPTH, technology=self.technology)
        counter = CreditCounter(words=queue.capacity, take=1)
        m.submodules.queue = ResetInserter(self.restart)(queue)
        m.submodules.credit = ResetInserter(self.restart)(counter)
        m.d.comb += [
            queue.i.valid.eq(whole), queue.i.payload.eq(self.came[:self.part.piece]),
            counter.taken.eq(self.sample & self.initialized & self.place.all()),
            counter.given.eq(self.read.valid & self.read.ready)]
        with m.If(self.restart):
            m.d.sync += [ending.eq(0), whole.eq(0)]
        wiring.connect(m, queue.o, wiring.flipped(self.read))
        return counter.credit

    def drive_pins(self, m: Module) -> None:
        """From registers, so that the pads get a whole period; the clock, whose pad takes it at the falling edge, from
        one of its own, which can be placed beside the pad."""
        pins, gate = self.pins, Signal()
        m.d.sync += [gate.eq(self.clock), pins.sck.eq(gate), pins.cs_n.eq(~self.select), pins.io_o.eq(self.out),
                     pins.io_oe.eq(self.drive)]
