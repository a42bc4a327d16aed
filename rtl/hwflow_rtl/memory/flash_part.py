"""A QSPI flash as its data sheet describes it, the same in clocks of a controller, and its pins.

In: the numbers of a board file.  Out: `FlashClocks`, whole clocks, and the bounds that follow from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.pads import PadTiming
from .part import NoPauses, PartNumberError, WrittenByProgrammer, check_times

#: Bits of an address on the line.  What is behind 16 MiB would need other commands.
ADDRESS_BITS = 24
#: An image begins where a block for erasing does, so that it is written without touching what is before it.
ERASE_BLOCK = 1 << 16
#: By the number of lines, the fast read with an address of 24 bits on all of them.
COMMANDS = {2: 0xBB, 4: 0xEB}
#: ns to wake up: data sheets ask for 3 000 to 50 000.  A larger number is a slip of the pen, with which a board would
#: seem to be dead.
LONGEST_WAKE_UP = 10_000_000


@dataclass(frozen=True, kw_only=True)
class FlashTiming:
    """Times of a data sheet, in ns, with the data sheet's names.

    Attributes
    ----------
    t_c
        Shortest clock period of the read command.
    t_slch, t_chsh
        Chip select low to the rising clock; rising clock to chip select high.
    t_shsl
        Chip select high between two commands, the longest that the data sheet has for reads and status writes.
    t_clqv
        Falling clock to valid data.  How long the data before stay after it is not asked: no time is enough.
    t_res1
        Release from power-down to the next command.
    """

    t_c: float
    t_slch: float
    t_chsh: float
    t_shsl: float
    t_clqv: float
    t_res1: float

    def __post_init__(self):
        check_times(self)
        if self.t_res1 > LONGEST_WAKE_UP:
            raise PartNumberError("t_res1", f"must be at most {LONGEST_WAKE_UP} ns, not {self.t_res1:g}")


@dataclass(frozen=True, kw_only=True)
class FlashChip(WrittenByProgrammer):
    """A chip on a board, and the part of it that holds weights.

    A word has 32 bits, the first byte in the lowest ones: reads on four lines must begin at a multiple of four bytes
    (Winbond W25Q32JV data sheet, note 5 to 9.6).  Word 0 begins at the byte `offset`; the bitstream stands before it.

    Attributes
    ----------
    bytes, offset
        Of the chip; of the first byte that may hold weights, a multiple of 64 KiB.
    lines
        Data lines between chip and FPGA: 4, or 2 where IO2 and IO3 are not connected.
    command, mode, dummy_clocks
        The fast read with addresses on all lines: its instruction, the byte behind the address, and the clocks between
        this byte and the data.  If bits 5 and 4 of `mode` are 10, the chip stays in continuous read mode: what
        follows the next chip select is an address at once.  Not every part has this mode; others want 1111 in the upper
        bits.
    jedec_ids
        What the chip may answer to 9Fh, 24 bits: manufacturer, type, capacity.
    clock_mhz
        The fastest clock of chip and controller; at a slower one every time is longer.
    pads
        The FPGA's, whose registers drive the chip and take its data.
    """

    name: str
    bytes: int
    offset: int
    lines: int
    command: int
    mode: int
    dummy_clocks: int
    jedec_ids: tuple[int, ...]
    clock_mhz: float
    timing: FlashTiming
    pads: PadTiming

    def __post_init__(self):
        if self.lines not in (2, 4):
            raise PartNumberError("lines", f"must be 2 or 4, not {self.lines!r}")
        if not ERASE_BLOCK < self.bytes <= 1 << ADDRESS_BITS or self.bytes & (self.bytes - 1):
            raise PartNumberError("bytes", f"must be a power of two from {2 * ERASE_BLOCK} to {1 << ADDRESS_BITS}, not "
                                            f"{self.bytes!r}")
        if not 0 < self.offset < self.bytes or self.offset % ERASE_BLOCK:
            raise PartNumberError("offset", f"must be a multiple of {ERASE_BLOCK} above 0 and below {self.bytes}, not "
                                             f"{self.offset!r}")
        if self.command != COMMANDS[self.lines]:
            raise PartNumberError("command", f"must be {COMMANDS[self.lines]}, which has the address on {self.lines} "
                                             f"lines, not {self.command!r}")
        if not 0 <= self.mode <= 0xFF:
            raise PartNumberError("mode", f"must be a byte, not {self.mode!r}")
        if not 0 <= self.dummy_clocks <= 16:
            raise PartNumberError("dummy_clocks", f"must be from 0 to 16, not {self.dummy_clocks!r}")
        if not self.jedec_ids or any(not 0 < number < 0xFFFFFF for number in self.jedec_ids):
            raise PartNumberError("jedec_ids", "must be numbers of 24 bits that are neither all zeros nor all ones, at "
                                                f"least one, not {list(self.jedec_ids)!r}")
        self.check_clock_number()
        self.check_clock()

    def check_clock(self) -> None:
        """Pins move half a period before the rising clock; data have a whole period from the falling one, and the ways
        through the pads are a part of it."""
        timing = self.timing
        needs = {"t_c": timing.t_c, "t_slch": 2 * timing.t_slch, "t_chsh": 2 * timing.t_chsh,
                 "t_clqv": round(timing.t_clqv + self.pads.round_trip, 6)}
        name = max(needs, key=lambda key: needs[key])
        if self.period < Fraction(str(needs[name])):
            there = f" and {self.pads.round_trip:g} ns in the FPGA's pads allow" if name == "t_clqv" else " allows"
            raise PartNumberError("clock_mhz", f"must be at most {1000 / needs[name]:.6g}, which {name} = "
                                                f"{getattr(timing, name):g} ns{there}, not {self.clock_mhz:g}")

    def setup_margin(self, clock_mhz: float) -> float:
        """How long data have been at the pads before they must be, in ns, at the slowest of chip and pads."""
        return 1000 / clock_mhz - self.timing.t_clqv - self.pads.round_trip

    @property
    def hold_margin(self) -> float:
        """How much longer than they must be data are at the pads, in ns, at the fastest pads and a chip that changes
        them at once: they are taken at the edge that makes the clock fall for the next ones."""
        return self.pads.out_min - self.pads.hold

    @property
    def width(self) -> int:
        """Bits of a word."""
        return 32

    @property
    def piece(self) -> int:
        """Bits that `read` gives at once."""
        return 8

    @property
    def words(self) -> int:
        """From `offset` to the end of the chip."""
        return (self.bytes - self.offset) * 8 // self.width

    @property
    def erased(self) -> tuple[int, ...]:
        """The bytes that are there where nothing was written."""
        return (0xFF,)

    @property
    def continuous(self) -> bool:
        """`mode` keeps the chip in continuous read mode."""
        return self.mode >> 4 & 3 == 2

    @property
    def peak_bytes_per_second(self) -> float:
        """Data in every clock."""
        return self.clock_mhz * 1e6 * self.lines / 8

    @property
    def clocks(self) -> FlashClocks:
        def up(time: float) -> int:
            return math.ceil(Fraction(str(time)) / self.period)

        lead = (ADDRESS_BITS + 8) // self.lines + self.dummy_clocks
        return FlashClocks(word=self.width // self.lines, octet=self.piece // self.lines,
                           lead=lead if self.continuous else lead + 8, first_lead=lead + 8,
                           deselect=max(up(self.timing.t_shsl), FlashClocks.DRAIN),
                           release=up(self.timing.t_res1))


@dataclass(frozen=True, kw_only=True)
class FlashClocks(NoPauses):
    """The same in whole clocks.

    Attributes
    ----------
    word, octet
        Of the data of a word, and of one of its bytes.
    lead, first_lead
        Of command, address, mode and dummies before the data: of every request, and of the first one, which puts the
        chip into continuous read mode.
    deselect, release
        Chip select high between two commands, and after the release from power-down.
    """

    word: int
    octet: int
    lead: int
    first_lead: int
    deselect: int
    release: int

    #: From the decision to give a clock to its data in a register: two registers before the pad, those of the pads on
    #: both ways, one after it.
    PIPELINE = 4
    #: Chip select is high for so long, that what was asked for has arrived before the next command.
    DRAIN = PIPELINE

    @property
    def worst_latency(self) -> int:
        """Most clocks from the transfer of a request to its first byte at the output, if there is room for it.

        Command, address, mode and dummies, the byte, its way through the pins and the queue.
        """
        return self.first_lead + self.octet + self.PIPELINE + 1

    @property
    def worst_gap(self) -> int:
        """Most clocks from one byte of a request to the next: the chip has no refresh and no pages."""
        return self.octet

    @property
    def sustained_share(self) -> Fraction:
        """Least share of the clocks that bring a word while one read lasts."""
        return Fraction(1, self.word)

    def read_clocks(self, words: int) -> int:
        """Most clocks from the last word of a read to the last one of the next, which waits."""
        return self.deselect + 1 + self.lead + words * self.word


# The pins of a QSPI flash, as the FPGA sees them.


def flash_pins(part: FlashChip) -> wiring.Signature:
    """The pins of `part`: IO0 (its DI) is bit 0 of `io_i`, `io_o` and `io_oe`, IO1 (its DO) bit 1.

    Where a bit of `io_oe` is low, the chip may drive that line.  Between a controller and its `FlashPads` they are what
    the registers of the pads take and give, and `sck` is set for a cycle where the chip gets a clock.
    """
    lines = part.lines
    return wiring.Signature({
        "sck": Out(1), "cs_n": Out(1, init=1), "io_i": In(lines), "io_o": Out(lines), "io_oe": Out(lines)})
