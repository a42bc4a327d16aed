"""The gateware of a QSPI flash: `FlashController` gives its words as a stream of bytes, `FlashPads` has the pins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from amaranth.hdl import Array, C, Cat, ClockDomain, ClockSignal, IOPort, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import flip_flops
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.pads import Pads
from .flash_part import FlashChip, flash_pins
from .part import request_of

# What a QSPI flash is told and asked after a reset, and what is wrong with its answers.


LEAVE_CONTINUOUS, RELEASE, READ_ID = 0xFF, 0xAB, 0x9F
VOLATILE_WRITE, WRITE_STATUS_2, READ_STATUS_2 = 0x50, 0x31, 0x35
#: Bit QE of status register 2.
QUAD_ENABLE = 1


class FlashError(enum.Enum, shape=3):
    """Why a flash cannot be read: no error; all lines stayed at one level; another JEDEC identifier; QE stays 0.

    Or why what it holds is no image for this design (`seal`): nothing was written; another design's; cut or damaged."""

    NONE = 0
    NO_ANSWER = 1
    WRONG_PART = 2
    NOT_QUAD = 3
    EMPTY = 4
    OTHER_DESIGN = 5
    DAMAGED = 6


@dataclass(frozen=True)
class Step:
    """A command on one line: `send` are its first 16 bits, `clocks` how many it lasts, `rest` how many chip select is
    high after it.  `wrong` says what is wrong if the last bits that arrived are these.
    """

    send: int
    clocks: int
    rest: int
    wrong: Callable[[Value], Value] | None = None


def start_steps(part: FlashChip) -> tuple[Step, ...]:
    """All steps in order.

    A chip in continuous read mode takes the ones as an address and a mode that leaves it: bit 4 of the mode comes on
    IO0, whatever the other lines are, after 8 clocks with four lines and 16 with two (Winbond W25Q128JV-DTR data sheet,
    fast read quad I/O).
    Any other chip ignores them, and one in power-down ignores all but the release.
    """
    clocks, rest = part.clocks, part.clocks.deselect
    steps = [Step(LEAVE_CONTINUOUS << 8 | LEAVE_CONTINUOUS, 32 // part.lines, rest),
             Step(RELEASE << 8, 8, max(clocks.release, rest)),
             Step(READ_ID << 8, 32, rest, lambda word: wrong_id(part, word[:24]))]
    if part.lines == 4:
        steps += [Step(VOLATILE_WRITE << 8, 8, rest), Step(WRITE_STATUS_2 << 8 | 1 << QUAD_ENABLE, 16, rest),
                  Step(READ_STATUS_2 << 8, 16, rest, not_quad)]
    return tuple(steps)


def wrong_id(part: FlashChip, number: Value) -> Value:
    right = Value.cast(0)
    for expected in part.jedec_ids:
        right |= number == expected
    silent = number.all() | ~number.any()
    return Mux(right, FlashError.NONE, Mux(silent, FlashError.NO_ANSWER, FlashError.WRONG_PART))


def not_quad(word: Value) -> Value:
    return Mux(word[QUAD_ENABLE], FlashError.NONE, FlashError.NOT_QUAD)


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

    def __init__(self, *, part: FlashChip, technology: Technology | None = None):
        self.part = part
        self.technology = technology
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "read": Out(stream.Signature(part.piece)),
            "restart": In(1), "initialized": Out(1), "error": Out(FlashError), "pins": Out(flash_pins(part))})

    @staticmethod
    def cost(*, part: FlashChip, technology: Technology | None = None) -> Resources:
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
        # A reset may come while the chip wakes up, and chip select is high until it has.
        longest = max(clocks.deselect, clocks.release)
        self.pause = Signal(range(longest), init=longest - 1)
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
        """Tell what is wrong with the answer to the step before `step`."""
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


# The registers between a flash controller and the pins: in the pads of the FPGA, or plain ones for a simulation.


class FlashPads(wiring.Component):
    """Registers of the pads: what a `FlashController` decides in a cycle is at the chip in the next one.

    All pins but `sck` change at the rising edge of `sync`.  `sck` rises at the falling edge after it and falls at the
    next rising one: the chip has half a period before it looks and half a period after.  What the chip drives is taken
    at the rising edge a whole period after the one at which `sck` fell, which may be that of the next fall: the way out
    and back is longer than a hold time (`FlashChip.check_clock`).

    Parameters
    ----------
    part
        The chip.
    pads
        The family's; None for plain registers.

    Attributes
    ----------
    pins : In(flash_pins(part))
        From the controller, out of registers.
    chip : Out(flash_pins(part))
        The pins themselves; only without `pads`.
    ports : dict of IOPort
        `sck`, `cs_n` and `io`; only with `pads`.
    """

    #: The domains of the registers that take data, one after the other; `fall` is the falling edge of `sync`.
    TAKES: ClassVar[tuple[str, ...]] = ("sync",)

    def __init__(self, part: FlashChip, *, pads: Pads | None = None):
        self.part = part
        self.pads = pads
        widths = {"sck": 1, "cs_n": 1, "io": part.lines} if pads else {}
        self.ports = {name: IOPort(width, name=f"memory_{name}") for name, width in widths.items()}
        super().__init__({"pins": In(flash_pins(part)), **({} if pads else {"chip": Out(flash_pins(part))})})

    def elaborate(self, platform):
        m = Module()
        if self.pads is None:
            self.add_registers(m)
            return m
        pins, ports, pads = self.pins, self.ports, self.pads
        m.submodules.sck = pads.clock(ports["sck"], pins.sck)
        m.submodules.cs_n = pads.idle_high(ports["cs_n"], pins.cs_n)
        for k in range(self.part.lines):
            m.submodules[f"io{k}"] = pads.both_ways(ports["io"][k], i=pins.io_i[k], o=pins.io_o[k],
                                                    oe=pins.io_oe[k])
        return m

    def add_registers(self, m: Module) -> None:
        """Two of them make `sck`, of which one changes at an edge: a simulation sees no other level between."""
        pins, chip = self.pins, self.chip
        m.domains += ClockDomain("fall", clk_edge="neg", reset_less=True, local=True)
        m.d.comb += ClockSignal("fall").eq(ClockSignal())
        for name in ("cs_n", "io_o", "io_oe"):
            held = Signal.like(getattr(pins, name), reset_less=True, name=f"{name}_pad")
            m.d.sync += held.eq(getattr(pins, name))
            m.d.comb += getattr(chip, name).eq(held)
        rose, fell = Signal(), Signal(reset_less=True)
        m.d.fall += rose.eq(fell ^ pins.sck)
        m.d.sync += fell.eq(rose)
        taken = chip.io_i
        for domain in self.TAKES:
            seen, taken = taken, Signal(self.part.lines, reset_less=True, name=f"taken_{domain}")
            m.d[domain] += taken.eq(seen)
        m.d.comb += [chip.sck.eq(rose ^ fell), pins.io_i.eq(taken)]


class FlashPart(FlashChip):
    """A QSPI flash as a memory of weights: a `MemoryPart`."""

    def controller(self, technology: Technology | None = None) -> FlashController:
        return FlashController(part=self, technology=technology)

    def controller_cost(self, technology: Technology | None = None) -> Resources:
        return FlashController.cost(part=self, technology=technology)

    def pins(self) -> wiring.Signature:
        return flash_pins(self)

    def pad_registers(self, pads: Pads | None) -> FlashPads:
        return FlashPads(self, pads=pads)

    def cell(self) -> None:
        """It is a chip of its own."""
