"""An SDR SDRAM as its data sheet describes it, and the same in clocks of a controller.

In: the numbers of a board file.  Out: `SdramClocks`, whole clocks, and the bounds that follow from them: how long a
read can take, how long a sequential read can pause, and which share of the bandwidth is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .part import Clocked, PartNumberError

#: A10 says in a column command whether the row closes by itself, so columns have ten address lines.
MOST_COLUMNS = 1024
#: ns before the first command, and refreshes then: data sheets ask for 100 000 to 200 000 and 2 to 8.  A larger number
#: is a slip of the pen, with which a board would seem to be dead.
LONGEST_POWER_UP, MOST_POWER_UP_REFRESHES = 10_000_000, 64


@dataclass(frozen=True, kw_only=True)
class SdramTiming:
    """Times of a data sheet, in ns, with the data sheet's names; `..._clocks` where it counts clocks of the chip.

    Where a time has both, the longer one holds.

    Attributes
    ----------
    t_ck
        Shortest clock period at `cas_latency`.
    t_rc, t_ras, t_ras_max, t_rp, t_rcd
        Of one bank: activate to activate, activate to precharge (least and most), precharge to activate, activate to
        read or write.
    t_rrd, t_rrd_clocks
        Activate of one bank to activate of another.
    t_rfc
        Refresh to refresh or activate.
    t_wr, t_wr_clocks
        Last written word to precharge.
    t_mrd_clocks
        Setting of the mode register to the next command.
    t_refi
        From one refresh to the next: the retention time divided by the number of refreshes in it.
    power_up
        From a stable clock to the first command.
    power_up_refreshes
        How many refreshes come before the first access.
    cas_latency
        Clocks from a read to its word: 2 or 3.
    """

    t_ck: float
    t_rc: float
    t_ras: float
    t_ras_max: float
    t_rp: float
    t_rcd: float
    t_rrd: float
    t_rfc: float
    t_wr: float
    t_refi: float
    power_up: float
    cas_latency: int
    t_rrd_clocks: int = 1
    t_wr_clocks: int = 1
    t_mrd_clocks: int = 2
    power_up_refreshes: int = 8

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                if not isinstance(value, int) or value < 1:
                    raise PartNumberError(field.name, f"must be a whole number of at least 1, not {value!r}")
            elif not (math.isfinite(value) and value > 0):
                raise PartNumberError(field.name, f"must be a number of ns above 0, not {value!r}")
        if self.power_up > LONGEST_POWER_UP:
            raise PartNumberError("power_up", f"must be at most {LONGEST_POWER_UP} ns, not {self.power_up:g}")
        if self.power_up_refreshes > MOST_POWER_UP_REFRESHES:
            raise PartNumberError("power_up_refreshes",
                                  f"must be at most {MOST_POWER_UP_REFRESHES}, not {self.power_up_refreshes}")
        if self.cas_latency not in (2, 3):
            raise PartNumberError("cas_latency", f"must be 2 or 3, not {self.cas_latency}")
        if self.t_rc < self.t_ras + self.t_rp:
            raise PartNumberError("t_rc", f"must be at least t_ras + t_rp = {self.t_ras + self.t_rp:g} ns, not "
                                           f"{self.t_rc:g}: a row is open for t_ras and closes in t_rp")
        if self.t_ras_max < self.t_refi + self.t_ras:
            raise PartNumberError(
                "t_ras_max", f"must be at least t_refi + t_ras = {self.t_refi + self.t_ras:g} ns, not "
                             f"{self.t_ras_max:g}: a row may stay open from one refresh to the next")
        busy = self.t_ras + self.t_rp + self.t_rfc + self.t_rcd
        if self.t_refi < 4 * busy:
            raise PartNumberError("t_refi", f"must be at least four times t_ras + t_rp + t_rfc + t_rcd = {busy:g} ns, "
                                             f"not {self.t_refi:g}: refreshes would take most of the time")


@dataclass(frozen=True, kw_only=True)
class SdramChip(Clocked):
    """A chip on a board: its geometry, the clock that the board gives it, its timing.

    A word of `width` bits has the address `(row * banks + bank) * columns + column`: what follows the end of a row is
    in the next bank.
    """

    name: str
    banks: int
    rows: int
    columns: int
    width: int
    clock_mhz: float
    timing: SdramTiming

    def __post_init__(self):
        allowed = {"banks": (2, 4), "width": (8, 16, 32)}
        for key, values in allowed.items():
            if getattr(self, key) not in values:
                raise PartNumberError(key, f"must be {' or '.join(map(str, values))}, not {getattr(self, key)!r}")
        for key, least, most in (("rows", 64, 8192), ("columns", 64, MOST_COLUMNS)):
            value = getattr(self, key)
            if not isinstance(value, int) or not least <= value <= most or value & (value - 1):
                raise PartNumberError(key, f"must be a power of two from {least} to {most}, not {value!r}")
        self.check_clock_number()
        if self.period < Fraction(str(self.timing.t_ck)):
            raise PartNumberError(
                "clock_mhz", f"must be at most {1000 / self.timing.t_ck:.6g}, which t_ck = {self.timing.t_ck:g} ns "
                             f"allows at a CAS latency of {self.timing.cas_latency}, not {self.clock_mhz:g}")
        self.check_clocks()

    def check_clocks(self) -> None:
        """The bounds that follow from `clocks` hold where a row opens while one is read, and refreshes are few."""
        clocks = self.clocks
        if clocks.opening > self.columns:
            key = max(("t_rc", "t_wr", "t_rrd"), key=lambda name: getattr(clocks, name[2:]))
            raise PartNumberError(key, f"must be shorter, not {getattr(clocks, key[2:])} clocks: while the "
                                       f"{self.columns} words of a row are read the next one opens")
        busy = clocks.refresh_lateness + clocks.worst_gap
        if clocks.refi < 2 * busy:
            raise PartNumberError("clock_mhz", f"must be higher, not {self.clock_mhz:g}: a refresh takes up to {busy} "
                                               f"clocks, and in t_refi there are {clocks.refi}")

    @property
    def piece(self) -> int:
        """Bits that `read` gives at once: a whole word."""
        return self.width

    @property
    def words(self) -> int:
        return self.banks * self.rows * self.columns

    @property
    def bytes(self) -> int:
        return self.words * self.width // 8

    @property
    def peak_bytes_per_second(self) -> float:
        """A word in every clock."""
        return self.clock_mhz * 1e6 * self.width / 8

    @property
    def sustained_bytes_per_second(self) -> float:
        """The bytes that a sequential read gets at least, refresh and changes of rows included."""
        return self.peak_bytes_per_second * float(self.clocks.sustained_share)

    @property
    def clocks(self) -> SdramClocks:
        return clocks_of(self)

    def in_clocks(self) -> SdramClocks:
        """Compute what `clocks` knows after it was asked first."""
        timing = self.timing

        def up(time: float, least: int = 1) -> int:
            return max(math.ceil(Fraction(str(time)) / self.period), least)

        return SdramClocks(
            columns=self.columns, rc=up(timing.t_rc), ras=up(timing.t_ras), rp=up(timing.t_rp), rcd=up(timing.t_rcd),
            rrd=up(timing.t_rrd, timing.t_rrd_clocks), rfc=up(timing.t_rfc), wr=up(timing.t_wr, timing.t_wr_clocks),
            mrd=timing.t_mrd_clocks, cas=timing.cas_latency, refi=int(Fraction(str(timing.t_refi)) / self.period),
            power_up=up(timing.power_up), power_up_refreshes=timing.power_up_refreshes)

    @property
    def writable(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class SdramClocks:
    """The timing of a part in whole clocks: least distances between commands; `refi` is the most between refreshes.

    `columns` are the words of a row.
    """

    columns: int
    rc: int
    ras: int
    rp: int
    rcd: int
    rrd: int
    rfc: int
    wr: int
    mrd: int
    cas: int
    refi: int
    power_up: int
    power_up_refreshes: int

    @property
    def refresh_lateness(self) -> int:
        """Most clocks from the moment when a refresh is due to its command: what is open must close first."""
        return max(max(self.ras, self.wr) + self.rp, self.rc) + 1

    @property
    def refresh_interval(self) -> int:
        """Clocks from one due refresh to the next: with the lateness it is `refi`."""
        return self.refi - self.refresh_lateness

    @property
    def round_trip(self) -> int:
        """Clocks from the decision to read a word to the place in the queue that it takes, and back to the credit.

        The command's register at the pins, the CAS latency, the queue's two, the credit counter's one.
        """
        return 1 + self.cas + 2 + 1

    @property
    def worst_gap(self) -> int:
        """Most clocks from one word of a sequential read to the next, if the request began with the start of a row.

        Commands for the next row take the places of reads; right after them a refresh is due, so that the row that was
        opened last must stay open for its time; after the refresh the row opens again, and the next row's activate may
        take the place of the first read.
        """
        commands = 2 if self.rp == 1 else 1
        return commands + max(self.ras + self.rp, self.rc) + self.rfc + self.rcd + 1

    @property
    def opening(self) -> int:
        """Most clocks from the transfer of a read request to its first read command, without a refresh.

        The bank has another row open, which was activated or written just before.
        """
        close = max(2, self.ras - 1, self.wr - 1)
        return max(close + self.rp, self.rc - 1, self.rrd - 1) + self.rcd

    @property
    def worst_latency(self) -> int:
        """Most clocks from the transfer of a read request to its first word at the output, if there is room for it.

        When the right row is open comes what makes the worst gap.
        """
        return self.opening - 1 + self.worst_gap + 1 + self.cas + 2

    @property
    def default_depth(self) -> int:
        """Words of the queue at the controller's output, of which the worst latency costs none."""
        return self.round_trip + self.worst_latency

    @property
    def sustained_share(self) -> Fraction:
        """Least share of the clocks that bring a word while a sequential read lasts.

        In each refresh interval the longest gap is lost, and two clocks, for precharge and activate, at each change of
        rows.
        """
        changes = self.refresh_interval // self.columns + 1
        return 1 - Fraction(self.worst_gap + 2 * changes, self.refresh_interval)

    def read_clocks(self, words: int) -> int:
        """Most clocks from the last word of a read to the last one of the next, without refreshes.

        The request is taken in the clock after the last read command of the one before.  Precharge and activate at each
        change of rows take the places of two words.
        """
        changes = (words + self.columns - 2) // self.columns
        return self.opening + words + 2 * changes

    @property
    def unpaused_share(self) -> Fraction:
        """Each refresh takes the longest gap."""
        return 1 - Fraction(self.worst_gap, self.refresh_interval)

    def with_pauses(self, clocks: int) -> int:
        """Refreshes become due at even distances, one perhaps just before; each takes the longest gap."""
        gap, interval = self.worst_gap, self.refresh_interval
        return clocks + gap * ((clocks + gap + interval) // (interval - gap))


@cache
def clocks_of(part: SdramChip) -> SdramClocks:
    """Compute the clocks of equal parts once: plans ask for them often."""
    return part.in_clocks()


# The pins of an SDR SDRAM, as the FPGA sees them.


def address_lines(part: SdramChip) -> int:
    """A0 to A10 for columns and commands, and as many as a row needs."""
    return max(11, ceil_log2(part.rows))


def sdram_pins(part: SdramChip) -> wiring.Signature:
    """The pins of `part`.

    `clk` is the inverted clock: the chip looks at its pins half a period after they change.  `dq_oe` says that the
    FPGA drives `dq_o`; where it is low the chip may drive `dq_i`.  A board that ties cke, cs_n or dqm to a level leaves
    these unconnected: cs_n is always low, cke high from the first cycle on, dqm low from the end of power-up on.
    """
    return wiring.Signature({
        "clk": Out(1), "cke": Out(1), "cs_n": Out(1), "ras_n": Out(1), "cas_n": Out(1), "we_n": Out(1),
        "ba": Out(ceil_log2(part.banks)), "a": Out(address_lines(part)), "dqm": Out(part.width // 8),
        "dq_i": In(part.width), "dq_o": Out(part.width), "dq_oe": Out(1)})
