"""Proofs of the SDRAM controller: what its pins say keeps to the data sheet, whatever is asked of it, and when.

The `Chip` here knows the commands of an SDR SDRAM by their levels and counts the clocks between them.  It shares
nothing with the controller but the numbers of the part.
"""

from __future__ import annotations

from functools import partial

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import ceil_log2
from hwflow_rtl.memory.sdram import SdramController, SdramPart
from hwflow_rtl.memory.sdram_part import SdramTiming

from .contract import drive, take
from .methods import Induction, Invariant
from .proof import Proof
from .scene import Inside, Scene

#: A chip whose times are different numbers of clocks and whose refreshes are as close as a part may have them.
SMALL = SdramPart(
    name="small", banks=2, rows=64, columns=64, width=8, clock_mhz=100, timing=SdramTiming(
        t_ck=10, t_rc=70, t_ras=40, t_ras_max=5000, t_rp=20, t_rcd=30, t_rrd=20, t_rfc=60, t_wr=20, t_refi=640,
        power_up=100, cas_latency=2, power_up_refreshes=2))
#: Other numbers: a precharge of one clock, a slow write, four banks.
OTHER = SdramPart(
    name="other", banks=4, rows=64, columns=64, width=8, clock_mhz=50, timing=SdramTiming(
        t_ck=10, t_rc=60, t_ras=40, t_ras_max=9000, t_rp=20, t_rcd=20, t_rrd=30, t_rfc=80, t_wr=60, t_refi=1280,
        power_up=100, cas_latency=3, power_up_refreshes=2))


class Chip:
    """Reads the pins.  Signals are of the command that is at the pins in this cycle."""

    def __init__(self, s: Scene, part: SdramPart, pins):
        self.s, self.part, self.pins = s, part, pins
        level = Cat(pins.ras_n, pins.cas_n, pins.we_n)
        selected = ~pins.cs_n & pins.cke
        self.activate, self.read, self.write, self.precharge, self.refresh, self.mode = (
            selected & (level == code) for code in (0b110, 0b101, 0b001, 0b010, 0b100, 0b000))
        self.any = selected & (level != 0b111)
        self.here = [pins.ba == bank for bank in range(part.banks)]
        self.closes = [self.precharge & (pins.a[10] | here) for here in self.here]
        self.open = [Signal(name=f"open{bank}") for bank in range(part.banks)]
        for bank, is_open in enumerate(self.open):
            with s.m.If(self.closes[bank]):
                s.m.d.sync += is_open.eq(0)
            with s.m.If(self.activate & self.here[bank]):
                s.m.d.sync += is_open.eq(1)

    def old(self, name: str, event: Value, clocks: int) -> Value:
        """The last `event` was at least so many clocks before this one, or there was none."""
        if clocks <= 1:
            return Value.cast(1)
        past = Signal(clocks - 1, name=f"{name}_past")  # bit k: k + 1 clocks ago
        self.s.m.d.sync += past.eq(Cat(event, past[:-1]))
        return ~past.any()

    def rows(self) -> None:
        """The distances between the commands of a bank, and of two banks."""
        s, clocks = self.s, self.part.clocks
        other = self.old("other", self.activate, clocks.rrd)
        refreshed = self.old("refreshed", self.refresh, clocks.rfc)
        set_ = self.old("set", self.mode, clocks.mrd)
        s.claim("t_rrd", ~self.activate | other)
        s.claim("t_rfc", ~(self.activate | self.refresh | self.mode) | refreshed)
        s.claim("t_mrd", ~self.any | set_)
        for bank, here in enumerate(self.here):
            opens, closes = self.activate & here, self.closes[bank]
            opened = {name: self.old(f"{name}{bank}", opens, count) for name, count in (
                ("rc", clocks.rc), ("ras", clocks.ras), ("rcd", clocks.rcd))}
            closed = self.old(f"rp{bank}", closes & self.open[bank], clocks.rp)
            wrote = self.old(f"wr{bank}", self.write & here, clocks.wr)
            everywhere = self.refresh | self.mode
            s.claim(f"t_rc{bank}", ~(opens | everywhere) | opened["rc"])
            s.claim(f"t_rp{bank}", ~(opens | everywhere) | closed)
            s.claim(f"t_ras{bank}", ~(closes & self.open[bank]) | opened["ras"])
            s.claim(f"t_rcd{bank}", ~((self.read | self.write) & here) | opened["rcd"])
            s.claim(f"t_wr{bank}", ~(closes & self.open[bank]) | wrote)
            s.claim(f"opens_what_is_closed{bank}", ~opens | ~self.open[bank])
            s.claim(f"accesses_what_is_open{bank}", ~((self.read | self.write) & here) | self.open[bank])
            s.claim(f"refreshes_closed_rows{bank}", ~everywhere | ~self.open[bank])
        # A word that is read is on the lines `cas` clocks later, and they are free for a clock after it.
        s.claim("lines_are_free", ~self.pins.dq_oe | self.old("read", self.read, clocks.cas + 2))
        s.claim("writes_what_it_drives", self.write == self.pins.dq_oe)

    def power_up(self) -> None:
        """Time before the first command, then a precharge, refreshes and the mode, before anything else."""
        s, part = self.s, self.part
        awake = Signal(range(part.clocks.power_up + 1), name="awake")
        refreshes = Signal(range(part.timing.power_up_refreshes + 1), name="refreshes")
        closed, ready = Signal(name="closed"), Signal(name="ready")
        s.m.d.sync += [awake.eq(Mux(awake == part.clocks.power_up, awake, awake + 1)),
                       closed.eq(closed | (self.precharge & self.pins.a[10])), ready.eq(ready | self.mode)]
        with s.m.If(self.refresh & (refreshes != part.timing.power_up_refreshes)):
            s.m.d.sync += refreshes.eq(refreshes + 1)
        s.claim("power_up", ~self.any | (awake == part.clocks.power_up))
        s.claim("precharges_first", ~(self.refresh | self.mode) | closed)
        s.claim("refreshes_first", ~self.mode | (refreshes == part.timing.power_up_refreshes))
        s.claim("sets_the_mode_first", ~(self.activate | self.read | self.write) | ready)
        s.claim("sets_the_mode", ~self.mode | (self.pins.a == part.timing.cas_latency << 4))


def controlled(part: SdramPart) -> tuple[Scene, SdramController, Inside]:
    """A controller of which anything is asked."""
    s = Scene()
    unit = SdramController(part=part)
    inside = s.put("controller", unit)
    drive(s, unit.request, "request")
    drive(s, unit.write, "write")
    take(s, unit.read, "read")
    s.m.d.comb += [unit.restart.eq(s.free(1, "restart")), unit.pins.dq_i.eq(s.free(part.width, "dq_i"))]
    return s, unit, inside


def timing(part: SdramPart) -> Scene:
    s, unit, _ = controlled(part)
    chip = Chip(s, part, unit.pins)
    chip.rows()
    chip.power_up()
    s.reach("reads", chip.read)
    s.reach("writes", chip.write)
    s.reach("closes_a_row", chip.precharge & ~unit.pins.a[10])
    return s


def refreshed(part: SdramPart) -> Scene:
    """From the mode register on two refreshes are at most `refi` apart."""
    s, unit, inside = controlled(part)
    chip, clocks = Chip(s, part, unit.pins), part.clocks
    ready, age = Signal(name="ready"), Signal(range(clocks.refi + 2), name="age")
    s.m.d.sync += ready.eq(ready | chip.mode)
    with s.m.If(chip.refresh | ~ready):
        s.m.d.sync += age.eq(0)
    with s.m.Elif(age <= clocks.refi):
        s.m.d.sync += age.eq(age + 1)
    s.claim("t_refi", ~ready | (age < clocks.refi))
    # What helps: how long the last refresh is ago follows from the count to the next one that is due.
    count, due, last = inside.signal("count"), inside.signal("due"), clocks.refresh_interval - 1
    late = last - count
    s.claim("counts", count <= last)
    s.claim("counted", ~ready | chip.refresh | due | (age + count <= last - 1))
    s.claim("counted_when_due", ~ready | chip.refresh | ~due | (age <= last + late))
    s.claim("comes_in_time", ~ready | ~due | (late < clocks.refresh_lateness))
    s.claim("initialized", ready | ~unit.initialized | chip.mode)
    s.reach("refreshes", ready & chip.refresh)
    return s


def addresses(part: SdramPart) -> Scene:
    """The words of a request are asked for in order, each once, at the row, bank and column of its address."""
    s, unit, inside = controlled(part)
    m, chip, pins = s.m, Chip(s, part, unit.pins), unit.pins
    column, bank = ceil_log2(part.columns), ceil_log2(part.banks)
    rows = [Signal(ceil_log2(part.rows), name=f"row{number}") for number in range(part.banks)]
    for number, row in enumerate(rows):
        with m.If(chip.activate & chip.here[number]):
            m.d.sync += row.eq(pins.a)
    row = Mux(chip.here[0], rows[0], rows[1]) if part.banks == 2 else Cat(rows).word_select(pins.ba, len(rows[0]))
    address = Cat(pins.a[:column], pins.ba[:bank], row)
    due, last = Signal(ceil_log2(part.words), name="due"), Signal(ceil_log2(part.words), name="last")
    live, write = Signal(name="live"), Signal(name="write")
    access = chip.read | chip.write
    with m.If(access):
        m.d.sync += [due.eq(due + 1), live.eq(live & (due != last))]
    with m.If(unit.request.valid & unit.request.ready):
        m.d.sync += [due.eq(unit.request.payload.first), last.eq(unit.request.payload.last), live.eq(1),
                     write.eq(unit.request.payload.write)]
    s.assume(~unit.restart)  # it drops what was asked for
    s.claim("asks_for_what_is_due", ~access | (live & (address == due)))
    s.claim("as_it_was_asked", ~access | (chip.write == write))
    s.reach("two_words", access & live & (due != last))
    walk_is_at(s, inside, chip, due + access, live & (~access | (due != last)), last, rows)
    return s


def walk_is_at(s: Scene, inside: Inside, chip: Chip, due: Value, live: Value, last: Value, rows: list[Signal]) -> None:
    """What helps: the walk is at the word that is due, and its pages are those that the chip has open."""
    walk, banks = inside["walk"], inside["banks"]
    page, column, next_page, ready, ahead, busy, fresh, final = (walk.signal(name) for name in (
        "page", "column", "next_page", "ready", "ahead", "busy", "fresh", "final"))
    s.claim("walk_lives", live == (busy | fresh))
    s.claim("walk_is_there", ~live | (Cat(column, page) == due[:len(column) + len(page)]))
    s.claim("walk_ends", ~live | (walk.signal("last") == last))
    s.claim("walk_goes_on", ~busy | (next_page == (page + 1)[:len(page)]))
    s.claim("walk_is_final", ~busy | (final == (page == last[len(column):])))
    s.claim("walk_is_not_ready", ~fresh | (~ready & ~ahead & ~busy))
    s.claim("walk_is_ready_first", ~ahead | ready)
    is_open, bits = banks.signal("is_open"), (len(rows) - 1).bit_length()
    for number, row in enumerate(rows):
        opened = banks.signal(f"open_row__{number}")
        now = chip.activate & chip.here[number]
        s.claim(f"row{number}", Mux(now, chip.pins.a[:len(row)], row) == opened)
        for name, where, at in (("page", ready, page), ("next", ahead, next_page)):
            s.claim(f"{name}_is_open{number}", ~(where & (busy | fresh) & (at[:bits] == number))
                    | (is_open[number] & (opened == at[bits:])))


SDRAM_PROOFS = (
    *(Proof("SdramController", f"timing, {part.banks} banks, {part.clock_mhz} MHz",
            "commands at the pins keep t_rc, t_ras, t_rp, t_rcd, t_rrd, t_rfc, t_wr, t_mrd, the data lines and the "
            "power-up sequence", partial(timing, part), Invariant(), 60) for part in (SMALL, OTHER)),
    Proof("SdramController", f"refresh, {SMALL.banks} banks", "two refreshes are at most t_refi apart",
          partial(refreshed, SMALL), Invariant(), 140),
    Proof("SdramController", f"addresses, {SMALL.banks} banks",
          "each word of a request is asked for once, in order, at its row, bank and column",
          partial(addresses, SMALL), Induction(2), 60),
)
