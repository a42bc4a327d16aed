"""A flash inside of an FPGA that the design may read: its data sheet, the same in clocks, its primitive and controller.

In: the numbers of a board file.  Out: `UserFlashClocks`, whole clocks, and the bounds that follow from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar

from amaranth.hdl import Cat, Const, Instance, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from ..vendor.pads import Pads
from .flash import FlashError
from .part import NoPauses, PartNumberError, WrittenByProgrammer, check_times, request_of

#: Words of a row, and bytes of a word.
COLUMNS, WORD_BYTES = 64, 4
#: Longest access, in ns, and fastest clock, in MHz, that are understood as such.
LONGEST_ACCESS, FASTEST_CLOCK = 10_000, 1000
#: Rows of each primitive, from the source in the board file.
ROWS = {"FLASH608K": 304}


@dataclass(frozen=True, kw_only=True)
class UserFlashTiming:
    """Times of a data sheet, in ns, with the data sheet's names.

    Attributes
    ----------
    t_acc
        Sense enable high to valid data.
    t_pws
        Shortest pulse of sense enable.  Low it is for as long, with the next address already there.  A clock of the
        controller is not shorter: a restart may end a pulse after any of them.
    """

    t_acc: float
    t_pws: float

    def __post_init__(self):
        check_times(self)
        for field in fields(self):
            if getattr(self, field.name) > LONGEST_ACCESS:
                raise PartNumberError(
                    field.name, f"must be at most {LONGEST_ACCESS} ns, not {getattr(self, field.name):g}")


@dataclass(frozen=True, kw_only=True)
class UserFlashPart(WrittenByProgrammer):
    """The user flash of a Gowin FPGA, in words of 32 bits, the first byte of the image in the lowest ones.

    It has no pins outside, no start and no refresh.  Only the programmer writes it, together with the bitstream.

    Attributes
    ----------
    name
        The primitive.
    bytes
        A multiple of a row of 64 words; at most what the primitive has.
    clock_mhz
        The fastest clock of the controller, which is the core's; at a slower one every time is longer.
    """

    name: str
    bytes: int
    clock_mhz: float
    timing: UserFlashTiming

    #: ns for the wires on the way to the cell and back, which place and route does not time.
    WIRES: ClassVar[float] = 10.0

    def __post_init__(self):
        row = COLUMNS * WORD_BYTES
        if self.bytes <= 0 or self.bytes % row:
            raise PartNumberError("bytes", f"must be a multiple of {row} above 0, not {self.bytes!r}")
        most = ROWS[self.name] * row if self.name in ROWS else self.bytes
        if self.bytes > most:
            raise PartNumberError("bytes", f"must be at most {most}, which a {self.name} has, not {self.bytes!r}")
        self.check_clock_number()
        if self.clock_mhz > FASTEST_CLOCK:
            raise PartNumberError("clock_mhz", f"must be at most {FASTEST_CLOCK}, not {self.clock_mhz:g}")
        if self.period < Fraction(str(self.timing.t_pws)):
            raise PartNumberError("clock_mhz", f"must be at most {1000 / self.timing.t_pws:.6g}, which t_pws = "
                                                f"{self.timing.t_pws:g} ns allows, not {self.clock_mhz:g}")

    @property
    def width(self) -> int:
        """Bits of a word."""
        return 8 * WORD_BYTES

    @property
    def piece(self) -> int:
        """Bits that `read` gives at once: a whole word."""
        return self.width

    @property
    def words(self) -> int:
        return self.bytes // WORD_BYTES

    @property
    def offset(self) -> int:
        """The offset of the first byte that may hold weights: the bitstream is in another flash."""
        return 0

    @property
    def row_bits(self) -> int:
        """The bits of the address of a row; the six bits below are the place of a word in it."""
        return ceil_log2(self.words) - (COLUMNS - 1).bit_length()

    @property
    def erased(self) -> tuple[int, ...]:
        """The bytes that are there where nothing was written: sources differ."""
        return (0x00, 0xFF)

    @property
    def clocks(self) -> UserFlashClocks:
        return UserFlashClocks(access=math.ceil(Fraction(str(self.timing.t_acc + self.WIRES)) / self.period))

    @property
    def peak_bytes_per_second(self) -> float:
        """Word after word."""
        return self.clock_mhz * 1e6 * WORD_BYTES / self.clocks.word

    def controller(self, technology: Technology | None = None) -> UserFlashController:
        return UserFlashController(part=self)

    def controller_cost(self, technology: Technology | None = None) -> Resources:
        return UserFlashController.cost(part=self)

    def pins(self) -> wiring.Signature:
        """The pins of the cell, as its controller sees them: row and column, sense enable, data."""
        return wiring.Signature({"xadr": Out(self.row_bits), "yadr": Out((COLUMNS - 1).bit_length()), "se": Out(1),
                                 "dout": In(self.width)})

    def pad_registers(self, pads: Pads | None) -> None:
        """The cell has no pads."""

    def cell(self) -> UserFlashCell:
        """The primitive at the other end of `pins`."""
        return UserFlashCell(self)


@dataclass(frozen=True, kw_only=True)
class UserFlashClocks(NoPauses):
    """The same in whole clocks: sense enable is low for one of a word, and high for `access`, at whose end data are
    taken."""

    access: int

    @property
    def word(self) -> int:
        """The clocks of a word."""
        return 1 + self.access

    @property
    def worst_latency(self) -> int:
        """Most clocks from the transfer of a request to its first word."""
        return self.word + 1

    @property
    def worst_gap(self) -> int:
        """Most clocks from one word of a request to the next."""
        return self.word

    @property
    def sustained_share(self) -> Fraction:
        """Share of the clocks that bring a word while one read lasts."""
        return Fraction(1, self.word)

    def read_clocks(self, words: int) -> int:
        """Most clocks from the last word of a read to the last one of the next, which waits."""
        return words * self.word + 2


class UserFlashCell(wiring.Component):
    """The cell of `part`, which is known by its name.

    Rows and columns are enabled for good: sense enable alone starts an access.

    Attributes
    ----------
    pins : In(part.pins())
    """

    def __init__(self, part: UserFlashPart):
        self.part = part
        super().__init__({"pins": In(part.pins())})

    def elaborate(self, platform):
        m = Module()
        pins = self.pins
        m.submodules.cell = Instance(
            self.part.name, i_XADR=pins.xadr, i_YADR=pins.yadr, i_XE=Const(1, 1), i_YE=Const(1, 1), i_SE=pins.se,
            i_ERASE=Const(0, 1), i_PROG=Const(0, 1), i_NVSTR=Const(0, 1), i_DIN=Const(0, self.part.width),
            o_DOUT=pins.dout)
        return m


class UserFlashController(wiring.Component):
    """Reads as many words in a row as a request wants.

    The address of a word is at the cell from the first of its clocks on.  Sense enable is low for one and then high
    until data are taken, `clocks.access` later or, while the word before waits at `read`, until there is room.  All
    that the cell gets comes from registers, and its data go to one.

    Parameters
    ----------
    part
        The flash; `sync` is at most as fast as `part.clock_mhz`.

    Attributes
    ----------
    request : stream of `request_of(part)`
        Words from `first` to `last`, both included, `first` <= `last` < `part.words`; `write` is 0.
    read : stream of words
    restart : In(1)
        Drops the request under way and a word that was not taken.  From a register; whoever makes requests must be
        reset by the same.
    initialized : Out(1)
        High: the cell needs no start.
    error : Out(FlashError)
        `NONE`: the cell is asked nothing.
    pins : Out(part.pins())

    Latency from a request to its first word: `part.clocks.worst_latency`.  Between two words of a request:
    `part.clocks.worst_gap`.
    """

    def __init__(self, *, part: UserFlashPart):
        self.part = part
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "read": Out(stream.Signature(part.piece)),
            "restart": In(1), "initialized": Out(1), "error": Out(FlashError), "pins": Out(part.pins())})

    @staticmethod
    def cost(*, part: UserFlashPart) -> Resources:
        """LUT and FF: address and words that are left, the word, the clocks of one."""
        address, clocks, control = ceil_log2(part.words), ceil_log2(part.clocks.word), 6
        return Resources(lut=3 * address + 2 * (clocks + control), ff=2 * address + part.width + clocks + control)

    def elaborate(self, platform):
        m = Module()
        pins, clocks = self.pins, self.part.clocks
        address, left = Signal(ceil_log2(self.part.words)), Signal(ceil_log2(self.part.words))
        place, ends = Signal(range(clocks.word), init=clocks.word - 1), Signal()
        word, there = Signal(self.part.width, reset_less=True), Signal()
        takes = Signal()
        m.d.comb += [
            self.initialized.eq(1), Cat(pins.yadr, pins.xadr).eq(address),
            self.read.valid.eq(there), self.read.payload.eq(word), takes.eq(ends & (~there | self.read.ready))]
        with m.If(self.read.ready):
            m.d.sync += there.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                asked = self.request.payload
                m.d.comb += self.request.ready.eq(~self.restart)
                m.d.sync += [address.eq(asked.first), left.eq(asked.last - asked.first)]
                with m.If(self.request.valid & self.request.ready):
                    m.next = "READ"
            with m.State("READ"):
                # `place` counts the clocks of a word that are left.
                m.d.sync += [place.eq(Mux(takes, clocks.word - 1, Mux(ends, 0, place - 1))), ends.eq(place <= 1),
                             pins.se.eq(1)]
                with m.If(takes):
                    m.d.sync += [word.eq(pins.dout), there.eq(1), left.eq(left - 1), address.eq(address + 1),
                                 pins.se.eq(0), ends.eq(0)]
                    with m.If(left == 0):
                        m.next = "IDLE"
                with m.If(self.restart):
                    m.next = "IDLE"
        with m.If(self.restart):
            m.d.sync += [there.eq(0), pins.se.eq(0), ends.eq(0), place.eq(place.init)]
        return m
