"""Block RAMs: how they are set, and what is in them.

One is three tiles.  Its port A writes and its port B reads; a word of 36 bits takes the lines of both.  Bits do not say
whether a byte has 8 bits or 9: it always has 9, and what nothing is led to stays open.

Sources: Project Apicula (MIT): tables BSRAM_SDP of the database, `BSRAM_INIT` of its `logicinfo` with the order of
words that gowin_pack's `store_bsram_init_val` tells, pins as `dat_portmap` gives them; Gowin UG285.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .chip import ROWS_OF_CONTENTS, Chip
from .frames import Bitmap
from .settings import UNSET, Settings
from .tiles import Tile
from .tracing import Pin, Tracing

#: Words in which the contents stand, and their bits; the highest of each byte is its ninth.
WORDS, WORD = 1024, 18
#: Where each of four words after the other stands in the rows of the bitmap, and how many words a parameter has.
ORDER, WORDS_OF_LINE = (0x00, 0x80, 0x40, 0xC0), 16
TILES = 3
#: Lines of both ports, address pins, pins that choose a block.
LINES, PORT, ADDRESSES, SELECTS = 36, 18, 14, 3
#: The width of a port by its attribute; without any it has 18.
WIDTHS = {"1": 1, "2": 2, "4": 4, "9": 9, UNSET: 18}
LATCHES = ("BEHB", "BELB")


class Memory:
    """The block RAM whose first tile is `tile`."""

    def __init__(self, tracing: Tracing, tile: Tile, contents: Bitmap):
        self.tracing, self.tile, self.contents = tracing, tile, contents
        self.ports = tile.data.bels["BSRAM"].portmap
        self.parts = [tracing.tiles[tile.row, tile.column + k] for k in range(TILES)]
        self.settings = Settings(tracing.chip, "BSRAM", "BSRAM_SDP", self.parts, tracing.fabric)
        self.made = False
        if self.settings.has("MODE", "ENABLE"):
            for k in range(LINES):
                tracing.makers[self.wire(f"DO{k}")] = self.make

    def wire(self, port: str) -> str:
        return self.tracing.name(self.tile, self.ports[port])

    def take(self, port: str, needed: bool = True) -> Pin:
        """What is at a pin; one that is not needed is at a level if nothing is led to it."""
        wire = self.ports[port]
        return self.tracing.take(self.tile, wire) if needed or self.tracing.explicit(self.tile, wire) else "0"

    def level(self, port: str) -> str | None:
        return self.tracing.level(self.tile, self.ports[port])

    def problem(self, what: str) -> None:
        self.tracing.fabric.problem(self.tile.where, f"the block RAM {what}")

    def width(self, port: str) -> int:
        values = [value for value in WIDTHS if value != UNSET]
        found = WIDTHS[str(self.settings.of(f"SDP{port}_DATA_WIDTH", values))]
        return LINES if self.settings.has(f"DBLW{port}", "X36") else found

    def make(self) -> None:
        """The cell: an SDPX9B, or an SDPB where a port has fewer than nine bits."""
        if self.made:
            return
        self.made = True
        self.tracing.met |= {self.wire(f"DO{k}") for k in range(LINES)}
        widths = self.width("A"), self.width("B")
        byte = 9 if min(widths) >= 9 else 8
        lines = [k for k in range(LINES) if byte == 9 or k % 9 != 8]
        parameters = self.parameters(widths, byte) | self.init(byte)
        writes = self.writes(widths)
        outs = lines if widths[1] == LINES else [k + PORT for k in lines if k < PORT]
        data = [self.take(f"DI{k}", bool(writes) and n < narrow(widths[0], byte)) for n, k in enumerate(lines)]
        pins = {**self.controls(widths, writes), "DI": data,
                "ADA": self.address("A", widths[0], bool(writes)), "ADB": self.address("B", widths[1], True),
                "DO": [self.wire(f"DO{k}") for k in outs]}
        self.tracing.fabric.cell(f"{self.tile.where}/BSRAM", "SDPX9B" if byte == 9 else "SDPB", parameters, pins,
                                 ["DO"], self.tile.where)

    def parameters(self, widths: tuple[int, int], byte: int) -> dict[str, str]:
        if not self.settings.has("GSR", "DISABLE"):
            self.problem("must not be reset by the global reset")
        if self.settings.has("OUTREG_ASYNC", "RESET"):
            self.problem("has an asynchronous reset, which no cell of hwflow has")
        registers = [self.settings.has(f"SDP{port}_REGMODE", "OUTREG") for port in "AB"]
        if registers[0] != registers[1]:
            self.problem("must have an output register at both ports or at none")
        selected = {f"BLK_SEL_{number}": "".join("01"[not self.settings.has(f"CS{port}_{k}", "SET")]
                                                 for k in reversed(range(SELECTS)))
                    for number, port in enumerate("AB")}
        return {**selected, "READ_MODE": str(int(registers[1])), "RESET_MODE": "SYNC",
                **{f"BIT_WIDTH_{k}": f"{narrow(width, byte):032b}" for k, width in enumerate(widths)}}

    def writes(self, widths: tuple[int, int]) -> Pin | None:
        """The enable of the port that writes; None where it never does."""
        inverted = self.settings.has("CEMUX_CEA", "INV")
        enable, clock = self.level("WREA"), self.level("CEA")
        if widths[1] != LINES:
            self.hold("WREB", "0")
        if enable == "0" or clock == ("1" if inverted else "0"):
            self.hold("WREA", enable)
            self.hold("CEA", clock if enable != "0" else None)
            return None
        if inverted:
            self.problem("must write while its enable is 1")
        self.hold("WREA", "1")
        return self.take("CEA")

    def controls(self, widths: tuple[int, int], writes: Pin | None) -> dict[str, list[Pin]]:
        """Clocks, enables and resets.  A word of both ports takes them at both, and they must be the same."""
        if widths[1] == LINES:
            for a, b in (("OCEA", "OCEB"), ("RESETA", "RESETB")):
                if self.origin(a) != self.origin(b):
                    self.problem(f"must have the same at {a} and {b}, because its words take the lines of both ports")
        for port in ("OCEA", "RESETA", *(["WREB"] if widths[1] == LINES else [])):
            self.hold(port, None)
        return {"CLKA": [self.take("CLKA", writes is not None)], "CEA": [writes or "0"], "RESETA": ["0"],
                "CLKB": [self.take("CLKB")], "CEB": [self.take("CEB")], "OCE": [self.take("OCEB")],
                "RESETB": [self.take("RESETB")],
                "BLKSELA": [self.take(f"BLKSELA{k}", writes is not None) for k in range(SELECTS)],
                "BLKSELB": [self.take(f"BLKSELB{k}") for k in range(SELECTS)]}

    def origin(self, port: str) -> str:
        return self.tracing.origin(self.wire(port))

    def hold(self, port: str, level: str | None) -> None:
        if level is not None or self.tracing.explicit(self.tile, self.ports[port]):
            self.tracing.hold(self.tile, self.ports[port], level)

    def address(self, port: str, width: int, used: bool) -> list[Pin]:
        """Address pins; the lowest ones of a port that writes words of bytes are their enables."""
        enables = width // 9 if port == "A" and width > 9 else 0
        forced = [self.settings.has(f"SDP{at}_{name}", "ENABLE") for at in "AB" for name in LATCHES] if (
            port == "A") else []
        if any(forced) and used and any(self.level(f"ADA{k}") != "1" for k in range(enables)):
            self.problem("must write all bytes of a word, as its settings say")
        lowest = narrow(width, 8).bit_length() - 1
        return [self.take(f"AD{port}{k}", used and (k >= lowest or k < enables)) for k in range(ADDRESSES)]

    def init(self, byte: int) -> dict[str, str]:
        """INIT_RAM_00 to INIT_RAM_3F; none where the file has no contents."""
        if not len(self.contents):
            return {}
        words = self.contents[places(self.tracing.chip, self.tile)].reshape(-1, WORDS_OF_LINE, WORD)
        if byte == 8:
            if words[..., 8::9].any():
                self.problem("has contents in ninth bits that nothing reads")
            words = np.delete(words, (8, 17), axis=-1)
        return {f"INIT_RAM_{k:02X}": "".join(map(str, line.reshape(-1)[::-1])) for k, line in enumerate(words)}


def narrow(width: int, byte: int) -> int:
    """The width of a port with bytes of that many bits."""
    return width if width < 9 else width // 9 * byte


def places(chip: Chip, tile: Tile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The row and the column in the bitmap of contents of each bit of each word of a block RAM, [1024, 18].

    The rows of a row of block RAMs stand from the last to the first.
    """
    block = sorted(chip.db.simplio_rows).index(tile.row)
    column_of = {code: number - 1 for (number, _), code in chip.db.logicinfo["BSRAM_INIT"].items()}
    word, bit = np.arange(WORDS)[:, None], np.arange(WORD)[None, :]
    row = np.array(ORDER)[word % 4] + word // 4 % 64
    columns = np.array([[column_of[4 * b + k] for k in range(4)] for b in range(WORD)])
    return (np.broadcast_to(ROWS_OF_CONTENTS * block + ROWS_OF_CONTENTS - 1 - row, (WORDS, WORD)),
            chip.offsets[1][tile.column] + columns[bit, word // 256])


def unexplained(memories: Iterable[Memory], contents: Bitmap, tracing: Tracing) -> None:
    """A problem for contents that stand in no block RAM in use."""
    left = contents.copy()
    for memory in memories:
        if memory.made and len(contents):
            left[places(tracing.chip, memory.tile)] = 0
    for row, column in np.argwhere(left):
        tracing.fabric.problem(f"row {row} of contents", f"bit {column} is set, and no block RAM in use has it")
