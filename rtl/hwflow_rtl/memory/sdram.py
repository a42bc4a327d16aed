"""`SdramController`: streams of words to and from an SDR SDRAM."""

from __future__ import annotations

from amaranth.hdl import C, Cat, ClockDomain, ClockSignal, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import flip_flops
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .part import request_of
from .sdram_banks import SdramBanks
from .sdram_pages import PageWalk
from .sdram_part import SdramPart
from .sdram_pins import address_lines, sdram_pins

__all__ = ["SdramController"]

#: Levels of ras_n, cas_n, we_n, the lowest bit first.
NOTHING, ACTIVATE, READ, WRITE, PRECHARGE, REFRESH, SET_MODE = 0b111, 0b110, 0b101, 0b001, 0b010, 0b100, 0b000
#: A10 of a precharge: all banks.
ALL_BANKS = 1 << 10


class SdramController(wiring.Component):
    """Reads and writes any number of words in a row, one a clock, and keeps the chip's timing and refresh.

    The chip is set to bursts of one word: each word has its own command, so a request may begin and end anywhere and
    no word needs a mask.  Consecutive rows are in consecutive banks.  While a row is read, the next one is opened,
    which takes the places of two words.  Rows stay open until another one of their bank is wanted, or a refresh comes.

    A refresh is due every `clocks.refresh_interval` cycles and comes at most `clocks.refresh_lateness` cycles later, so
    that two of them are never further apart than t_refi.

    Parameters
    ----------
    part
        The chip and its clock, which is that of `sync`.
    queue_depth
        Words that wait at `read`, at least `part.clocks.round_trip`, which keeps the full rate.  By default the worst
        latency besides: who takes words no faster than they can come on average then finds one whenever it wants one,
        over refreshes and from one request to the next.
    technology
        Decides what the queue is made of.

    Attributes
    ----------
    request : stream of `request_of(part)`
        The next request is taken when all words of the one before have been asked for.
    write, read : streams of words
        Words to write, taken as the requests need them; words that were read.  A read waits until `read` has room.
    restart : In(1)
        Drops the request under way, and every word that was asked for and not taken.  The chip's rows and refreshes go
        on.  From a register; whoever makes requests must be reset by the same.
    initialized : Out(1)
        The power-up sequence has ended; requests wait for it.
    pins : Out(sdram_pins(part))

    Latency from a request to its first word: at most `part.clocks.worst_latency`.  Between two words of a request that
    began with the start of a row: at most `part.clocks.worst_gap`.
    """

    def __init__(self, *, part: SdramPart, queue_depth: int | None = None, technology: Technology | None = None):
        clocks = part.clocks
        depth = clocks.default_depth if queue_depth is None else queue_depth
        if depth < clocks.round_trip:
            raise ValueError(f"queue_depth must be at least {clocks.round_trip}, the cycles from a read to its place "
                             f"in the queue, not {depth}")
        self.part = part
        self.queue_depth = depth
        self.technology = technology
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "write": In(stream.Signature(part.width)),
            "read": Out(stream.Signature(part.width)), "restart": In(1), "initialized": Out(1),
            "pins": Out(sdram_pins(part))})

    @staticmethod
    def cost(*, part: SdramPart, queue_depth: int | None = None, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated."""
        clocks, width = part.clocks, part.width
        address, rows = ceil_log2(part.words), ceil_log2(part.rows)
        page = address - ceil_log2(part.columns)
        depth = clocks.default_depth if queue_depth is None else queue_depth
        pauses = max(clocks.rp, clocks.rc, clocks.rfc, clocks.mrd) + max(clocks.ras, clocks.wr) + clocks.rcd - 3
        banks = part.banks * (pauses + 1 + rows) + clocks.rrd + clocks.cas
        walk = 2 * address + page + 7
        counters = sum(map(ceil_log2, (clocks.refresh_interval, clocks.power_up, clocks.power_up_refreshes)))
        pins = width + address_lines(part) + ceil_log2(part.banks) + 6
        control = banks + walk + counters
        return (Queue.cost(width=width, depth=2, technology=technology)
                + Queue.cost(width=width, depth=depth, technology=technology).within("words")
                + CreditCounter.cost(words=depth + 1)
                + fitted("SdramController", row_bits=part.banks * rows, pause_bits=part.banks * pauses)
                + flip_flops(control + width + pins, part.banks * rows + width, technology))

    def elaborate(self, platform):
        m = Module()
        m.submodules.banks = banks = SdramBanks(part=self.part)
        m.submodules.words = words = ResetInserter(self.restart)(Queue(shape=self.part.width, depth=2))
        m.submodules.walk = walk = PageWalk(part=self.part)
        wiring.connect(m, wiring.flipped(self.write), words.i)
        wiring.connect(m, wiring.flipped(self.request), walk.request)
        credit = self.arrivals(m, banks.read)
        due, done = self.refresh_due(m)
        here, _ = walk.split(walk.page)
        access = Signal()
        m.d.comb += [
            walk.restart.eq(self.restart), walk.enable.eq(self.initialized), words.o.ready.eq(banks.write),
            access.eq(walk.busy & walk.ready & banks.may_access.bit_select(here, 1)
                      & Mux(walk.write, words.o.valid & banks.may_write, credit))]
        with m.FSM():
            with m.State("POWER_UP"):
                waiting = Signal(range(self.part.clocks.power_up), init=self.part.clocks.power_up - 1)
                m.d.sync += waiting.eq(waiting - 1)
                with m.If(waiting == 0):
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(due):
                    m.d.comb += [banks.precharge_all.eq(banks.may_precharge_all), walk.forget.eq(1)]
                    with m.If(banks.may_precharge_all):
                        m.next = "REFRESH"
                with m.Else():
                    self.next_command(m, banks, walk, access)
            self.refreshes(m, banks, done)
        self.drive(m, banks, walk, words.o.payload)
        return m

    def next_command(self, m: Module, banks: SdramBanks, walk: PageWalk, access: Signal) -> None:
        """What is best for the request: opening the page at hand, else the one after it, else the next word."""
        target, is_open, fits = Signal.like(walk.page), Signal(), Signal()
        bank, row = walk.split(target)
        here, _ = walk.split(walk.page)
        m.d.comb += [
            target.eq(Mux(walk.ready, walk.next_page, walk.page)), is_open.eq(banks.is_open.bit_select(bank, 1)),
            fits.eq(banks.row_at(bank) == row), banks.bank.eq(bank), banks.row.eq(row)]
        with m.If(walk.wants & is_open & fits):
            m.d.comb += walk.opened.eq(1)
        with m.Elif(walk.wants & is_open & banks.may_precharge.bit_select(bank, 1)):
            m.d.comb += banks.precharge.eq(1)
        with m.Elif(walk.wants & ~is_open & banks.may_activate.bit_select(bank, 1)):
            m.d.comb += [banks.activate.eq(1), walk.opened.eq(1)]
        with m.Elif(access):
            m.d.comb += [
                banks.bank.eq(here), walk.step.eq(1), banks.write.eq(walk.write), banks.read.eq(~walk.write)]

    def refreshes(self, m: Module, banks: SdramBanks, done: Signal) -> None:
        """A refresh, or at power-up several ones and the mode register after them."""
        first = self.part.timing.power_up_refreshes - 1
        left = Signal(range(first + 1), init=first)
        with m.State("REFRESH"):
            m.d.comb += banks.refresh.eq(banks.may_refresh)
            with m.If(banks.may_refresh):
                m.d.comb += done.eq(left == 0)
                with m.If(left != 0):
                    m.d.sync += left.eq(left - 1)
                with m.Elif(self.initialized):
                    m.next = "RUN"
                with m.Else():
                    m.next = "MODE"
        with m.State("MODE"):
            m.d.comb += banks.set_mode.eq(banks.may_refresh)
            with m.If(banks.may_refresh):
                m.d.sync += self.initialized.eq(1)
                m.next = "RUN"

    def arrivals(self, m: Module, asked: Signal) -> Signal:
        """Takes the words that were `asked` for from the pins into the queue; high where there is room for one more.

        The chip changes its data at its own rising edge, the falling one of `sync`, and holds them over the next.
        There a register takes them, a whole period after they began to change.
        """
        m.domains += ClockDomain("fall", clk_edge="neg", reset_less=True, local=True)
        m.d.comb += ClockSignal("fall").eq(ClockSignal())
        captured = Signal(self.part.width, reset_less=True)
        m.d.fall += captured.eq(self.pins.dq_i)
        queue = Queue(shape=self.part.width, depth=self.queue_depth, technology=self.technology)
        counter = CreditCounter(words=queue.capacity, take=1)
        m.submodules.queue = ResetInserter(self.restart)(queue)
        m.submodules.credit = ResetInserter(self.restart)(counter)
        arriving = Signal(self.part.clocks.cas + 1)
        m.d.sync += arriving.eq(Mux(self.restart, 0, Cat(asked, arriving[:-1])))
        m.d.comb += [
            queue.i.valid.eq(arriving[-1]), queue.i.payload.eq(captured), counter.taken.eq(asked),
            counter.given.eq(self.read.valid & self.read.ready)]
        wiring.connect(m, queue.o, wiring.flipped(self.read))
        return counter.credit

    def refresh_due(self, m: Module) -> tuple[Signal, Signal]:
        """High while a refresh is due, and the signal that ends it; those of the power-up are due from the start."""
        last = self.part.clocks.refresh_interval - 1
        count, due, done = Signal(range(last + 1), init=last), Signal(init=1), Signal()
        with m.If(self.initialized):
            m.d.sync += count.eq(Mux(count == 0, last, count - 1))
        with m.If(self.initialized & (count == 0)):
            m.d.sync += due.eq(1)
        with m.Elif(done):
            m.d.sync += due.eq(0)
        return due, done

    def drive(self, m: Module, banks: SdramBanks, walk: PageWalk, word) -> None:
        """Registers at all pins."""
        pins, timing = self.pins, self.part.timing
        command = Signal(3, init=NOTHING)
        m.d.sync += [command.eq(NOTHING), pins.dq_oe.eq(banks.write), pins.dq_o.eq(word), pins.ba.eq(banks.bank),
                     pins.cke.eq(1), pins.dqm.eq(Mux(self.initialized, 0, -1)), pins.a.eq(banks.row)]
        with m.If(banks.activate):
            m.d.sync += command.eq(ACTIVATE)
        with m.If(banks.read | banks.write):
            m.d.sync += [command.eq(Mux(banks.write, WRITE, READ)), pins.a.eq(walk.column)]
        with m.If(banks.precharge | banks.precharge_all):
            m.d.sync += [command.eq(PRECHARGE), pins.a.eq(Mux(banks.precharge_all, ALL_BANKS, 0))]
        with m.If(banks.refresh):
            m.d.sync += command.eq(REFRESH)
        with m.If(banks.set_mode):  # bursts of one word
            m.d.sync += [command.eq(SET_MODE), pins.a.eq(timing.cas_latency << 4), pins.ba.eq(0)]
        m.d.comb += [Cat(pins.ras_n, pins.cas_n, pins.we_n).eq(command), pins.cs_n.eq(C(0)),
                     pins.clk.eq(~ClockSignal())]
