"""A flash inside of an FPGA that the design may read, as the data sheet describes it, and the same in clocks.

In: the numbers of a board file.  Out: `UserFlashClocks`, whole clocks, and the bounds that follow from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from ..vendor.pads import Pads
from .part import PartNumberError

if TYPE_CHECKING:
    from .user_flash import UserFlashController
    from .user_flash_cell import UserFlashCell

__all__ = ["UserFlashClocks", "UserFlashPart", "UserFlashTiming"]

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
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise PartNumberError(field.name, f"must be a number of ns above 0, not {value!r}")
            if value > LONGEST_ACCESS:
                raise PartNumberError(field.name, f"must be at most {LONGEST_ACCESS} ns, not {value:g}")


@dataclass(frozen=True, kw_only=True)
class UserFlashPart:
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
        if not (math.isfinite(self.clock_mhz) and self.clock_mhz > 0):
            raise PartNumberError("clock_mhz", f"must be a number above 0, not {self.clock_mhz!r}")
        if self.clock_mhz > FASTEST_CLOCK:
            raise PartNumberError("clock_mhz", f"must be at most {FASTEST_CLOCK}, not {self.clock_mhz:g}")
        if self.period < Fraction(str(self.timing.t_pws)):
            raise PartNumberError("clock_mhz", f"must be at most {1000 / self.timing.t_pws:.6g}, which t_pws = "
                                                f"{self.timing.t_pws:g} ns allows, not {self.clock_mhz:g}")

    @property
    def period(self) -> Fraction:
        """Of the clock, in ns."""
        return 1000 / Fraction(str(self.clock_mhz))

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
        """Of the first byte that may hold weights: the bitstream is in another flash."""
        return 0

    @property
    def row_bits(self) -> int:
        """Of the address of a row; the six bits below are the place of a word in it."""
        return ceil_log2(self.words) - (COLUMNS - 1).bit_length()

    @property
    def erased(self) -> tuple[int, ...]:
        """What bytes are where nothing was written: sources differ."""
        return (0x00, 0xFF)

    @property
    def writable(self) -> bool:
        """Only by a programmer."""
        return False

    @property
    def clocks(self) -> UserFlashClocks:
        return UserFlashClocks(access=math.ceil(Fraction(str(self.timing.t_acc + self.WIRES)) / self.period))

    @property
    def peak_bytes_per_second(self) -> float:
        """Word after word."""
        return self.clock_mhz * 1e6 * WORD_BYTES / self.clocks.word

    @property
    def sustained_bytes_per_second(self) -> float:
        """While a read lasts, no word is later than another."""
        return self.peak_bytes_per_second

    # The controller and the cell are made of a part, so their files are imported when they are asked for.

    def controller(self, technology: Technology | None = None) -> UserFlashController:
        from .user_flash import UserFlashController

        return UserFlashController(part=self)

    def controller_cost(self, technology: Technology | None = None) -> Resources:
        from .user_flash import UserFlashController

        return UserFlashController.cost(part=self)

    def pins(self) -> wiring.Signature:
        """Of the cell, as its controller sees them: row and column, sense enable, data."""
        return wiring.Signature({"xadr": Out(self.row_bits), "yadr": Out((COLUMNS - 1).bit_length()), "se": Out(1),
                                 "dout": In(self.width)})

    def pad_registers(self, pads: Pads | None) -> None:
        """The cell has no pads."""

    def cell(self) -> UserFlashCell:
        """The primitive at the other end of `pins`."""
        from .user_flash_cell import UserFlashCell

        return UserFlashCell(self)


@dataclass(frozen=True, kw_only=True)
class UserFlashClocks:
    """The same in whole clocks: sense enable is low for one of a word, and high for `access`, at whose end data are
    taken."""

    access: int

    @property
    def word(self) -> int:
        """Of a word."""
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

    @property
    def unpaused_share(self) -> Fraction:
        """It makes no pauses."""
        return Fraction(1)

    def with_pauses(self, clocks: int) -> int:
        """It makes no pauses."""
        return clocks
