"""The chip database of Project IceStorm: which wires a device has, which bits are their switches and settings.

The text tables chipdb-5k.txt and chipdb-8k.txt (ISC licence) are read as they are installed; none of their data is kept
here.  Their own head explains the format.  nextpnr's wheel has a database too, made of these tables by nextpnr's
scripts; it is not used, so that an error in it is seen.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError, MissingTool
from hwflow_base.tool_status import ToolStatus

from .file import SHAPES

#: Column and row of a tile; x from the left, y from below.
Tile = tuple[int, int]
#: Row and column of a bit in its tile.
Place = tuple[int, int]

#: Where packages and `make install` of Project IceStorm put the tables.
FOLDERS = tuple(map(Path, (f"{sys.prefix}/share/icebox", "/usr/share/fpga-icestorm/chipdb", "/usr/local/share/icebox",
                           "/usr/share/icebox")))
INSTALL = ("apt install fpga-icestorm-chipdb, or put chipdb-5k.txt and chipdb-8k.txt of Project IceStorm into "
           f"{FOLDERS[0]}")
#: Names of wires that belong to cells; glb_netwk_ are the global ones, which have the same name in every tile.
CELL_WIRES = (rb"lutff_\d/(?:in_\d|out|lout|cout)|lutff_global/\w+|carry_in_mux|io_\d/\w+|io_global/\w+|ram/\w+"
              rb"|mult/O_\d+|slf_op_\d|fabout|clk|glb_netwk_\d")


@dataclass(frozen=True)
class Switch:
    """The switch in `tile` that drives `sink`: the values of its `bits`, and the wire that each connects."""

    tile: Tile
    sink: int
    bits: tuple[Place, ...]
    sources: dict[str, int]


@dataclass(frozen=True)
class ExtraCell:
    """A cell that is no tile of its own: its `kind`, and for each pin or setting a tile and the name in it."""

    kind: str
    place: tuple[int, ...]
    entries: dict[str, tuple[Tile, str]]


@dataclass
class Database:
    """A device.

    `tiles` are their kinds, `sizes` columns and rows of a kind's bits, `settings` of a kind which bits a setting has.
    `pins` are by package: the tile and the number of the pad.  `column_buffers` is for each tile the one whose buffers
    drive its global wires.  `input_enables` is for each pad the tile and number that its input enable and pull-up have.
    `global_inputs` and `global_pads` are the tiles and pads that drive the global wires by their number;
    `pad_bits` the bit (bank, row, column) that lets the pad do it.
    """

    path: Path
    tiles: dict[Tile, str] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    settings: dict[str, dict[str, tuple[Place, ...]]] = field(default_factory=dict)
    pins: dict[str, dict[tuple[Tile, int], str]] = field(default_factory=dict)
    column_buffers: dict[Tile, Tile] = field(default_factory=dict)
    input_enables: dict[tuple[Tile, int], tuple[Tile, int]] = field(default_factory=dict)
    global_inputs: dict[int, Tile] = field(default_factory=dict)
    global_pads: dict[int, tuple[Tile, int]] = field(default_factory=dict)
    pad_bits: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    cells: list[ExtraCell] = field(default_factory=list)
    wires: dict[tuple[Tile, str], int] = field(default_factory=dict)
    text: bytes = b""
    nets: int = 0  # where they begin in the text
    switches_at: int = 0

    @cached_property
    def names(self) -> list[str]:
        """The first name of every wire, with its tile, by its number."""
        found = re.compile(rb"^\.net \d+\n(\d+) (\d+) (\S+)$", re.M).findall(self.text, self.nets, self.switches_at)
        return [f"X{x.decode()}/Y{y.decode()}/{name.decode()}" for x, y, name in found]

    @cached_property
    def blocks(self) -> list[tuple[Tile, int, tuple[Place, ...], bytes]]:
        """Of each switch its tile, what it drives, its bits, and the text of its values."""
        found = []
        for block in self.text[self.switches_at:].strip().split(b"\n\n"):
            head, _, values = block.partition(b"\n")
            kind, x, y, sink, names = (head.split(b" ", 4) + [b""] * 5)[:5]
            if kind.strip() not in (b".buffer", b".routing") or not names:
                raise damaged(self.path)
            found.append(((int(x), int(y)), int(sink), places(names), values))
        return found

    @cached_property
    def switch_bits(self) -> npt.NDArray[np.intp]:
        """A row for each bit of a switch: x and y of its tile, its row and column there, the number of the switch."""
        return np.array([(*tile, *place, number) for number, (tile, _, bits, _) in enumerate(self.blocks)
                         for place in bits], np.intp)

    def switches(self, bits: npt.NDArray[np.bool_]) -> Iterator[Switch]:
        """The switches of which a bit is set in `bits` [x, y, row, column]."""
        x, y, row, column, number = self.switch_bits.T
        for k in np.unique(number[bits[x, y, row, column]]).tolist():
            tile, sink, names, values = self.blocks[k]
            words = values.split()
            yield Switch(tile, sink, names, {words[at].decode(): int(words[at + 1]) for at in range(0, len(words), 2)})


@cache
def places(text: bytes) -> tuple[Place, ...]:
    """The bits of "B1[7] B0[7]"."""
    return tuple((int(row), int(column)) for row, column in re.findall(rb"B(\d+)\[(\d+)\]", text))


def damaged(path: Path) -> HwflowError:
    return HwflowError("a chip database must be one that Project IceStorm made, and whole", INSTALL, where=str(path))


def table(device: str, folders: Sequence[Path]) -> Path | None:
    """The tables of `device` in the first of `folders` that has them."""
    return next((path for folder in folders if (path := folder / f"chipdb-{device}.txt").is_file()), None)


def find_database(device: str, folders: Sequence[Path] = FOLDERS) -> Path:
    """The tables of `device`, "5k" or "8k".  Raises MissingTool where they are not installed."""
    if (path := table(device, folders)) is not None:
        return path
    raise MissingTool(f"chipdb-{device}.txt, the chip database of Project IceStorm, must be installed to read iCE40 "
                      f"bitstreams back: {INSTALL}")


def database_status(folders: Sequence[Path] = FOLDERS) -> tuple[ToolStatus, ...]:
    """The tables of each device, installed or not."""
    lines = []
    for device in SHAPES:
        name, path = f"chipdb-{device}", table(device, folders)
        lines.append(ToolStatus(name, "bitstreams of iCE40 read back", path is not None, "",
                                "native" if path else "", str(path or ""), "" if path else INSTALL))
    return tuple(lines)


@lru_cache(maxsize=1)
def read_database(path: Path) -> Database:
    """The tables in `path`.  HwflowError where they are none."""
    try:
        text = path.read_bytes()
        nets = text.index(b"\n.net 0\n")
        switches = min(at for kind in (b"\n.buffer ", b"\n.routing ") if (at := text.find(kind, nets)) > 0)
        database = Database(path, text=text, nets=nets, switches_at=switches)
        for block in re.split(r"\n(?=\.)", text[:nets].decode("ascii")):
            read_block(database, block.splitlines())
        read_wires(database)
    except OSError as error:
        raise HwflowError(f"the chip database must be a file that can be read ({error.strerror})", INSTALL,
                          where=str(path)) from None
    except (ValueError, KeyError, IndexError):
        raise damaged(path) from None
    return database


def read_block(database: Database, lines: list[str]) -> None:
    """One section: a line that begins with its kind, and its lines up to the next."""
    kind, *words = lines[0].split() or [""]
    rows = [line.split() for line in lines[1:] if line and not line.startswith("#")]
    if kind == ".extra_cell":
        database.cells.append(extra_cell(words, rows))
    elif kind.endswith("_tile"):
        database.tiles[int(words[0]), int(words[1])] = kind[1:-len("_tile")]
    elif kind.endswith("_tile_bits"):
        name = kind[1:-len("_tile_bits")]
        database.sizes[name] = int(words[0]), int(words[1])
        database.settings[name] = {row[0]: places(" ".join(row[1:]).encode()) for row in rows}
    elif kind == ".pins":
        database.pins[words[0]] = {((int(x), int(y)), int(pad)): pin for pin, x, y, pad, *_ in rows}
    elif kind == ".colbuf":
        database.column_buffers = {(int(x), int(y)): (int(a), int(b)) for a, b, x, y in rows}
    elif kind == ".ieren":
        database.input_enables = {((int(x), int(y)), int(k)): ((int(a), int(b)), int(c)) for x, y, k, a, b, c in rows}
    elif kind == ".gbufin":
        database.global_inputs = {int(number): (int(x), int(y)) for x, y, number in rows}
    elif kind == ".gbufpin":
        database.global_pads = {int(number): ((int(x), int(y)), int(pad)) for x, y, pad, number in rows}
    elif kind == ".extra_bits":
        database.pad_bits = {int(name.removeprefix("padin_glb_netwk.")): (int(bank), int(y), int(x))
                             for name, bank, x, y in rows if name.startswith("padin_glb_netwk.")}


def extra_cell(words: list[str], rows: list[list[str]]) -> ExtraCell:
    *place, kind = words
    entries = {row[0]: ((int(row[1]), int(row[2])), row[3]) for row in rows if row[0] != "LOCKED"}
    return ExtraCell(kind, tuple(map(int, place)), entries)


def read_wires(database: Database) -> None:
    """The wires of cells, by tile and name."""
    others = {re.escape(name).encode() for cell in database.cells for _, name in cell.entries.values()}
    pattern = re.compile(rb"^\.net (\d+)$|^(\d+) (\d+) (%s)$" % b"|".join([CELL_WIRES, *sorted(others)]), re.M)
    wire = -1
    for number, x, y, name in pattern.findall(database.text, database.nets, database.switches_at):
        if number:
            wire = int(number)
        else:
            database.wires[(int(x), int(y)), name.decode()] = wire
