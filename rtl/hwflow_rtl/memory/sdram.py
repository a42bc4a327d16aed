"""`SdramController`: streams of words to and from an SDR SDRAM, its banks, and the walk through its pages."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Array, C, Cat, ClockDomain, ClockSignal, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import flip_flops
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.pads import Pads
from .part import request_of
from .sdram_part import SdramChip, address_lines, sdram_pins

# What the banks of an SDR SDRAM allow: which rows are open, and how long each command must still wait.


def pause(m: Module, name: str, loads: Sequence[tuple[Value, int]]) -> Value:
    """High where a command must wait: of each load (event, clocks), `clocks` have not passed since the event.

    A register that shifts out ones: several events are combined by OR, and no number is compared.
    """
    longest = max(clocks for _, clocks in loads) - 1
    left = Signal(max(longest, 1), name=name)
    after = left >> 1
    for event, clocks in loads:
        after |= ((1 << clocks - 1) - 1) & event.replicate(len(left))
    m.d.sync += left.eq(after)
    return left[0]


class SdramBanks(wiring.Component):
    """Follows the commands and says in each cycle which ones the timing of the part allows.

    Attributes
    ----------
    activate, precharge, read, write : In(1)
        The command that is decided in this cycle, for `bank`; with `activate`, `row` is opened.
    precharge_all, refresh, set_mode : In(1)
        The same for all banks.
    bank, row : In
        Of the command.
    may_activate, may_precharge, may_access : Out(banks)
        A bit for each bank: the command may be decided for it in this cycle.  Whether the bank is open is not asked.
    may_write : Out(1)
        The chip has left the data lines to the FPGA.
    may_precharge_all, may_refresh : Out(1)
        The same for all banks; `may_refresh` holds for the mode register too.
    is_open : Out(banks)
    open_row : Out
        For each bank the row that was opened last.
    """

    def __init__(self, *, part: SdramChip):
        self.part = part
        banks, row_bits = part.banks, ceil_log2(part.rows)
        inputs = ("activate", "precharge", "read", "write", "precharge_all", "refresh", "set_mode")
        super().__init__({
            **{name: In(1) for name in inputs}, "bank": In(ceil_log2(banks)), "row": In(row_bits),
            "may_activate": Out(banks), "may_precharge": Out(banks), "may_access": Out(banks), "may_write": Out(1),
            "may_precharge_all": Out(1), "may_refresh": Out(1), "is_open": Out(banks),
            "open_row": Out(row_bits).array(banks)})

    def elaborate(self, platform):
        m = Module()
        clocks = self.part.clocks
        activate_pauses = []
        for bank in range(self.part.banks):
            here = self.bank == bank
            activate, precharge = self.activate & here, (self.precharge & here) | self.precharge_all
            before_activate = pause(m, f"before_activate{bank}", [
                (precharge, clocks.rp), (activate, clocks.rc), (self.refresh, clocks.rfc),
                (self.set_mode, clocks.mrd)])
            before_precharge = pause(m, f"before_precharge{bank}", [
                (activate, clocks.ras), (self.write & here, clocks.wr)])
            before_access = pause(m, f"before_access{bank}", [(activate, clocks.rcd)])
            activate_pauses.append(before_activate)
            m.d.comb += [
                self.may_precharge[bank].eq(~before_precharge), self.may_access[bank].eq(~before_access)]
            with m.If(precharge):
                m.d.sync += self.is_open[bank].eq(0)
            with m.If(activate):
                m.d.sync += [self.is_open[bank].eq(1), self.open_row[bank].eq(self.row)]
        other = pause(m, "before_other_activate", [(self.activate, clocks.rrd)])
        # The word of a read leaves the chip `cas` clocks later; after it the lines are free for a clock.
        turn = pause(m, "before_write", [(self.read, clocks.cas + 2)])
        m.d.comb += [
            self.may_activate.eq(~(Cat(activate_pauses) | other.replicate(self.part.banks))),
            self.may_precharge_all.eq(self.may_precharge.all()), self.may_refresh.eq(~Cat(activate_pauses).any()),
            self.may_write.eq(~turn)]
        return m

    def row_at(self, bank: Value) -> Value:
        return Array(self.open_row)[bank]


class PageWalk(wiring.Component):
    """Goes through the words of a request.  A page is a row of a bank, its number without the bits of the column.

    Attributes
    ----------
    request
        As of the controller.
    enable, restart : In(1)
        Requests are taken; the one under way is dropped.
    busy, write : Out(1)
        There are words left, which are to be written.
    page, column : Out
        Of the next word.
    next_page : Out
        The page after it.
    ready : Out(1)
        `page` is open.
    wants : Out(1)
        A page that is needed is not known to be open: `page` where it is not `ready`, else `next_page`.
    opened : In(1)
        The page that was wanted is open.
    forget : In(1)
        No page is open any more.
    step : In(1)
        The word is asked for.
    """

    def __init__(self, *, part: SdramChip):
        self.part = part
        self.column_bits = ceil_log2(part.columns)
        page = ceil_log2(part.words) - self.column_bits
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "enable": In(1), "restart": In(1), "busy": Out(1),
            "write": Out(1), "page": Out(page), "column": Out(self.column_bits), "next_page": Out(page),
            "ready": Out(1), "wants": Out(1), "opened": In(1), "forget": In(1), "step": In(1)})

    def split(self, page: Value) -> tuple[Value, Value]:
        """Bank and row of a page."""
        bits = ceil_log2(self.part.banks)
        return page[:bits], page[bits:]

    def elaborate(self, platform):
        m = Module()
        last, final, next_final, ahead = Signal.like(self.request.payload.last), Signal(), Signal(), Signal()
        fresh, taken = Signal(), Signal()
        last_page = last[self.column_bits:]
        m.d.comb += [
            self.request.ready.eq(self.enable & ~self.busy & ~fresh),
            taken.eq(self.request.valid & self.request.ready),
            self.wants.eq(self.busy & (~self.ready | (~final & ~ahead)))]
        m.d.sync += [fresh.eq(taken), next_final.eq(self.next_page == last_page)]
        with m.If(taken):
            asked = self.request.payload
            m.d.sync += [
                Cat(self.column, self.page).eq(asked.first), last.eq(asked.last), self.write.eq(asked.write),
                self.ready.eq(0), ahead.eq(0)]
        with m.If(fresh):
            m.d.sync += [self.busy.eq(1), final.eq(self.page == last_page), self.next_page.eq(self.page + 1)]
        with m.If(self.opened):
            m.d.sync += [self.ready.eq(1), ahead.eq(self.ready)]
        with m.If(self.forget):
            m.d.sync += [self.ready.eq(0), ahead.eq(0)]
        with m.If(self.step):
            m.d.sync += self.column.eq(self.column + 1)
            with m.If(final & (self.column == last[:self.column_bits])):
                m.d.sync += self.busy.eq(0)
            with m.Elif(self.column.all()):
                m.d.sync += [
                    self.page.eq(self.next_page), self.next_page.eq(self.next_page + 1), final.eq(next_final),
                    self.ready.eq(ahead), ahead.eq(0)]
        with m.If(self.restart):
            m.d.sync += [self.busy.eq(0), fresh.eq(0)]
        return m


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

    def __init__(self, *, part: SdramChip, queue_depth: int | None = None, technology: Technology | None = None):
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
    def cost(*, part: SdramChip, queue_depth: int | None = None, technology: Technology | None = None) -> Resources:
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
        """Choose what is best for the request: opening the page at hand, else the one after it, else the next word."""
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


class SdramPart(SdramChip):
    """An SDRAM as a memory of weights: a `MemoryPart`."""

    def controller(self, technology: Technology | None = None) -> SdramController:
        return SdramController(part=self, technology=technology)

    def controller_cost(self, technology: Technology | None = None) -> Resources:
        return SdramController.cost(part=self, technology=technology)

    def pins(self) -> wiring.Signature:
        return sdram_pins(self)

    def pad_registers(self, pads: Pads | None) -> None:
        """The controller has its own."""

    def cell(self) -> None:
        """It is a chip of its own."""
