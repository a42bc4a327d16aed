"""A QSPI flash as the proofs of its reader know it.

Written from the Winbond data sheets (W25Q128JV-DTR and W25Q32JV: 6 and 7, signals, status and protection; 8.2,
instructions; 9.6, times).  It knows the commands by their bits, counts times in half clocks, and shares nothing with
the reader but the numbers of the part.
"""

from __future__ import annotations

from enum import IntEnum
from fractions import Fraction
from math import ceil
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from hwflow_rtl.memory import FlashPart

from .scene import Scene

LEAVE, RELEASE, IDENTIFY, VOLATILE, WRITE_STATUS, READ_STATUS = 0xFF, 0xAB, 0x9F, 0x50, 0x31, 0x35
#: Commands that are over when their eight bits are; what they do comes with chip select.
SHORT = (LEAVE, RELEASE, VOLATILE)


class Phase(IntEnum):
    """What the next clock is one of."""

    COMMAND = 0
    DONE = 1
    STATUS = 2
    ANSWER = 3
    ADDRESS = 4
    MODE = 5
    DUMMY = 6
    READ = 7


def halves(part: FlashPart, time: float) -> int:
    """The least number of half clocks that is not shorter than a time in ns."""
    return ceil(Fraction(str(time)) * Fraction(str(part.clock_mhz)) / 500)


class Chip:
    """Reads the pins of `FlashPads`, as they are from one falling clock to the next: all but the clock stand still for
    so long, and it rises in the middle where `rises` is set.

    `lines` are the levels that the chip shows in that time.
    """

    def __init__(self, s: Scene, part: FlashPart, pins: Any):
        self.s, self.part, m = s, part, s.m
        kept = {"reset_less": True}
        self.high, self.was_high = Signal(init=1, **kept, name="high"), Signal(init=1, **kept, name="was_high")
        self.out, self.drives = Signal(part.lines, **kept, name="out"), Signal(part.lines, **kept, name="drives")
        m.d.sync += [self.high.eq(pins.cs_n), self.was_high.eq(self.high), self.out.eq(pins.io_o),
                     self.drives.eq(pins.io_oe)]
        self.rises = pins.sck
        self.falls, self.ends = self.was_high & ~self.high, ~self.was_high & self.high  # of chip select
        self.phase, self.clocks = Signal(range(len(Phase)), **kept, name="phase"), Signal(5, **kept, name="clocks")
        self.octet, self.command = Signal(8, **kept, name="octet"), Signal(8, **kept, name="command")
        self.asleep, self.qe, self.continuous, self.volatile, self.floating = (
            Signal(**kept, name=name) for name in ("asleep", "qe", "continuous", "volatile", "floating"))
        #: The reader was reset while chip select was low: what it cut off does not count.
        self.cut = Signal(**kept, name="cut")
        with m.If(ResetSignal("sync")):
            m.d.sync += self.cut.eq(1)
        with m.Elif(self.high & self.was_high):
            m.d.sync += self.cut.eq(0)
        #: On a line that nobody drives is anything.
        noise = s.free(part.lines, "undriven")
        self.bits = Signal(part.lines, name="bits")
        m.d.comb += self.bits.eq((self.out & self.drives) | (noise & ~self.drives))
        self.begin(m)
        self.clocked(m)
        self.deselected(m)

    def begin(self, m: Module) -> None:
        """Nothing is known of what was before: power-down, continuous read mode and QE."""
        self.first, s = Signal(init=1, reset_less=True, name="first"), self.s
        first = self.first
        m.d.sync += first.eq(0)
        with m.If(first):
            m.d.sync += [self.asleep.eq(s.free(1, "asleep_first")), self.qe.eq(s.free(1, "qe_first")),
                         self.continuous.eq(s.free(1, "continuous_first"))]
        with m.If(self.high):
            m.d.sync += [self.phase.eq(Mux(self.continuous, Phase.ADDRESS, Phase.COMMAND)), self.clocks.eq(0),
                         self.floating.eq(0)]

    def go(self, m: Module, phase: Phase) -> None:
        m.d.sync += [self.phase.eq(phase), self.clocks.eq(0)]

    def clocked(self, m: Module) -> None:
        """One rising clock."""
        part, lines = self.part, self.part.lines
        octet = Cat(self.bits[0], self.octet[:7])
        with m.If(~self.high & self.rises):
            m.d.sync += [self.clocks.eq(self.clocks + 1), self.octet.eq(octet)]
            with m.Switch(self.phase):
                with m.Case(Phase.COMMAND), m.If(self.clocks == 7):
                    self.decode(m, octet)
                with m.Case(Phase.ADDRESS), m.If(self.clocks == 24 // lines - 1):
                    self.go(m, Phase.MODE)
                with m.Case(Phase.MODE):
                    with m.If(self.clocks == 4 // lines - 1):  # the lines have M5 and M4
                        m.d.sync += self.continuous.eq(self.bits[:2] == 0b10)
                    with m.If(self.clocks == 8 // lines - 1):
                        self.go(m, Phase.DUMMY if part.dummy_clocks else Phase.READ)
                with m.Case(Phase.DUMMY), m.If(self.clocks == part.dummy_clocks - 1):
                    self.go(m, Phase.READ)
            wanted = Mux(self.phase == Phase.ADDRESS, 1, (self.phase == Phase.MODE) & (self.clocks < 4 // lines))
            with m.If(wanted & ~self.drives.all()):
                m.d.sync += self.floating.eq(1)

    def decode(self, m: Module, octet: Value) -> None:
        """The last bit of a command."""
        m.d.sync += self.command.eq(octet)
        self.go(m, Phase.DONE)
        with m.Switch(octet):
            with m.Case(IDENTIFY, READ_STATUS):
                self.go(m, Phase.ANSWER)
            with m.Case(WRITE_STATUS):
                self.go(m, Phase.STATUS)
            with m.Case(self.part.command):
                self.go(m, Phase.ADDRESS)

    def deselected(self, m: Module) -> None:
        """What a command does when chip select rises behind it.  A chip may leave its status as it is."""
        with m.If(self.ends):
            with m.If((self.phase == Phase.DONE) & (self.command == RELEASE)):
                m.d.sync += self.asleep.eq(0)
            with m.If((self.phase == Phase.DONE) & (self.command == VOLATILE) & (self.clocks == 0)):
                m.d.sync += self.volatile.eq(1)
            with m.If(self.phase == Phase.STATUS):
                m.d.sync += self.volatile.eq(0)
                with m.If((self.clocks == 8) & self.volatile & self.s.free(1, "obeys")):
                    m.d.sync += self.qe.eq(self.octet[1])

    def claim_times(self) -> None:
        s, m, part = self.s, self.s.m, self.part
        needs = {name: halves(part, getattr(part.timing, name)) for name in (
            "t_c", "t_slch", "t_chsh", "t_shsl", "t_res1")}
        # Half clocks from the start of this clock back to the last rising clock, the last edge of chip select, and the
        # end of a release; or the most that is asked for.
        self.since: dict[str, Signal] = {}
        self.needs = needs
        released = self.ends & (self.phase == Phase.DONE) & (self.command == RELEASE)
        for name, event, starts, names in (("clock", self.rises, 1, ("t_c", "t_chsh")),
                                           ("select", self.falls | self.ends, 2, ("t_slch", "t_shsl")),
                                           ("release", released, 2, ("t_res1",))):
            most = max(needs[each] for each in names) + 2
            self.since[name] = count = Signal(range(most + 3), init=most, reset_less=True, name=f"since_{name}")
            m.d.sync += count.eq(Mux(event, starts, Mux(count >= most, count, count + 2)))
        since = self.since
        s.claim("t_c", ~self.rises | (since["clock"] + 1 >= needs["t_c"]))
        s.claim("t_slch", ~self.rises | (Mux(self.falls, 0, since["select"]) + 1 >= needs["t_slch"]))
        s.claim("t_chsh", ~self.ends | (since["clock"] >= needs["t_chsh"]))
        s.claim("t_shsl", ~self.falls | (since["select"] >= needs["t_shsl"]))
        s.claim("t_res1", ~self.falls | (since["release"] >= needs["t_res1"]))

    def claim_commands(self) -> None:
        s, part, lines = self.s, self.part, self.part.lines
        low, phase = ~self.high, self.phase
        clock = low & self.rises
        known = (*SHORT, IDENTIFY, part.command, *((WRITE_STATUS, READ_STATUS) if lines == 4 else ()))
        decides = clock & (phase == Phase.COMMAND) & (self.clocks == 7)
        octet = Cat(self.bits[0], self.octet[:7])
        s.claim("clocks_the_chip", ~self.rises | low)
        s.claim("known_command", ~decides | Cat(octet == each for each in known).any())
        s.claim("awake", ~decides | ~self.asleep | (octet == LEAVE) | (octet == RELEASE))
        s.claim("enabled_status_write", ~decides | (octet != WRITE_STATUS) | self.volatile)
        s.claim("drives_what_it_says", ~clock | ((phase != Phase.COMMAND) & (phase != Phase.STATUS)) | self.drives[0])
        s.claim("drives_the_address", ~clock | (phase != Phase.READ) | ~self.floating)
        mode = clock & (phase == Phase.MODE) & ~self.floating
        upper = [part.mode >> 4] if lines == 4 else [part.mode >> 6, part.mode >> 4 & 3]
        for k, bits in enumerate(upper):
            s.claim(f"mode{k}", ~mode | (self.clocks != k) | (self.bits == bits))
        shown = Mux(phase == Phase.READ, (1 << lines) - 1, Mux(phase == Phase.ANSWER, 0b10, 0))
        s.claim("one_driver", ~(low | self.ends) | ~(self.drives & shown).any())
        whole = ((phase == Phase.READ) | (phase == Phase.DUMMY) | (phase == Phase.ANSWER)
                 | ((phase == Phase.DONE) & ((self.clocks == 0) | (self.command == LEAVE)))
                 | ((phase == Phase.STATUS) & (self.clocks == 8)))
        s.claim("whole_commands", ~self.ends | self.cut | whole)
        if lines == 4:
            s.claim("quad_enabled", ~decides | (octet != part.command) | self.qe)
            s.claim("no_hold", self.high | self.qe | (self.drives[2] & self.drives[3] & self.out[2] & self.out[3]))

    def answers(self, lines: Value) -> None:
        """What the reader gets: a clock later what is on the lines.  Of what the chip says only QE matters."""
        m = self.s.m
        qe = (self.phase == Phase.ANSWER) & (self.command == READ_STATUS) & (self.clocks == 6)
        self.late = late = Signal(self.part.lines, reset_less=True, name="late")
        m.d.sync += late.eq(self.s.free(self.part.lines, "shown"))
        with m.If(qe):
            m.d.sync += late[1].eq(self.qe)
        m.d.comb += lines.eq(late)
