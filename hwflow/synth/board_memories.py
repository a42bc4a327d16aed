"""Memories of a board for weights, beside the FPGA or a flash inside of it: what a board file says of them, checked.

In: the entries of the section `memories`, which keep to the JSON schema.  Out: a `BoardMemory` for each, or sentences
that say what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from amaranth.hdl import Shape
from hwflow_base.by_value import ByValue
from hwflow_base.files.plain_yaml import Entry
from hwflow_rtl.memory import (
    AnyFlash,
    FlashPart,
    FlashTiming,
    PartNumberError,
    SdramPart,
    SdramTiming,
    UserFlashPart,
    UserFlashTiming,
)
from hwflow_rtl.vendor.pads import PadTiming

#: Times of a board file that are whole numbers of clocks or of commands.
COUNTS = ("cas_latency", "t_rrd_clocks", "t_wr_clocks", "t_mrd_clocks", "power_up_refreshes")
#: What a memory is called.
NAMES = {"sdr_sdram": "SDRAM", "qspi_flash": "flash", "user_flash": "user flash"}
#: Data lines of a board file that are several ports of a controller.
DATA_LINES = ("dq", "io")

Part: TypeAlias = SdramPart | AnyFlash


@dataclass(frozen=True, eq=False)
class BoardMemory(ByValue):
    """A memory of a board, of a `kind` of `NAMES`.

    `pins` has the names of the package's pins for each of `part.pins()`, the lowest bit first; `dq` (of a flash `io`)
    stands for `dq_i`, `dq_o` and `dq_oe`.  What the board ties to a level is not in it, and a flash inside of the FPGA
    has none.  `source` says where all this is from.
    """

    kind: str
    part: Part
    pins: Mapping[str, tuple[str, ...]]
    io_standard: str
    source: str

    def facts(self) -> dict[str, object]:
        """Plain data for JSON; rates in bytes a second."""
        part = self.part
        return {
            "kind": self.kind, "part": part.name, "bytes": part.bytes, "width": part.width, "clock_mhz": part.clock_mhz,
            "peak_bytes_per_second": part.peak_bytes_per_second,
            "sustained_bytes_per_second": part.sustained_bytes_per_second}

    def __str__(self) -> str:
        unit, name = (2**20, "MiB") if self.part.bytes >= 2**20 else (2**10, "KiB")
        return f"{self.part.bytes // unit} {name} of {NAMES[self.kind]}"


def memories_of(entries: Sequence[Entry], io_standard: str, pads: PadTiming | None,
                user_flash: str | None = None) -> tuple[BoardMemory, ...]:
    """The memories of a board file in which `memory_violations` finds nothing."""
    return tuple(BoardMemory(entry["kind"], part_of(entry, pads, user_flash), pins_of(entry.get("pins", {})),
                             entry.get("io_standard", io_standard), entry["source"]) for entry in entries)


def part_of(entry: Entry, pads: PadTiming | None, user_flash: str | None) -> Part:
    """Raises PartNumberError."""
    if entry["kind"] == "sdr_sdram":
        return sdram_of(entry)
    if entry["kind"] == "user_flash":
        return user_flash_of(entry, user_flash)
    if pads is None:
        raise PartNumberError("kind", "must be sdr_sdram: a flash needs registers in the pads of the FPGA, and their "
                                      "times are not known for this family")
    return flash_of(entry, pads)


def number(value: float) -> float:
    """A number of a board file, where an integer may be larger than any float: that is infinite, which no part can
    be."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def sdram_of(entry: Entry) -> SdramPart:
    numbers: dict[str, Any] = {
        name: int(value) if name in COUNTS else number(value) for name, value in entry["timing"].items()}
    geometry = {name: int(entry[name]) for name in ("banks", "rows", "columns", "width")}
    timing, clock = SdramTiming(**numbers), number(entry["clock_mhz"])
    return SdramPart(name=entry["part"], clock_mhz=clock, timing=timing, **geometry)


def user_flash_of(entry: Entry, cell: str | None) -> UserFlashPart:
    if cell is None:
        raise PartNumberError("kind", "must be given only for a device whose user flash is known")
    if entry["part"] != cell:
        raise PartNumberError("part", f"must be {cell}, which is the user flash of the device, not {entry['part']!r}")
    timing = UserFlashTiming(**{name: number(value) for name, value in entry["timing"].items()})
    return UserFlashPart(name=cell, bytes=int(entry["bytes"]), clock_mhz=number(entry["clock_mhz"]), timing=timing)


def flash_of(entry: Entry, pads: PadTiming) -> FlashPart:
    timing = FlashTiming(**{name: number(value) for name, value in entry["timing"].items()})
    numbers = {name: int(entry[name]) for name in ("bytes", "offset", "lines", "command", "mode", "dummy_clocks")}
    return FlashPart(name=entry["part"], clock_mhz=number(entry["clock_mhz"]), timing=timing, pads=pads,
                     jedec_ids=tuple(int(identifier) for identifier in entry["jedec_ids"]), **numbers)


def pins_of(pins: Entry) -> dict[str, tuple[str, ...]]:
    return {name: (names,) if isinstance(names, str) else tuple(names) for name, names in pins.items()}


def memory_pins(entries: Sequence[Entry]) -> list[str]:
    """The names of all pins that go to memories."""
    return [pin for entry in entries for pins in pins_of(entry.get("pins", {})).values() for pin in pins]


def memory_violations(entries: Sequence[Entry], pads: PadTiming | None, user_flash: str | None = None
                      ) -> Iterator[str]:
    """A sentence for each number that cannot be, for pins that are too many or too few, and for a second user flash.

    `pads` are those of the family, None where they have no registers; `user_flash` is the primitive that the device
    has, None where it has none.
    """
    for index, entry in enumerate(entries):
        where = f"memories.{index}"
        if entry["kind"] == "user_flash" and any(other["kind"] == "user_flash" for other in entries[:index]):
            yield f"key '{where}.kind' must be user_flash for one memory: a device has one user flash"
        try:
            part = part_of(entry, pads, user_flash)
        except PartNumberError as error:
            inside = "timing." if error.key in entry["timing"] else ""
            yield f"key '{where}.{inside}{error.key}' {error.rule}"
            continue
        if entry["bytes"] != part.bytes:  # of an SDRAM, whose geometry says it as well
            yield (f"key '{where}.bytes' must be banks * rows * columns * width / 8 = {part.bytes}, not "
                   f"{entry['bytes']!r}")
        yield from pin_violations(where, part, pins_of(entry.get("pins", {})))


def pin_violations(where: str, part: Part, pins: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    members = part.pins().members
    for name, names in pins.items():
        width = Shape.cast(members[f"{name}_i" if name in DATA_LINES else name].shape).width
        if len(names) != width:
            yield (f"key '{where}.pins.{name}' must have {width} pin{'s' if width > 1 else ''}, the lowest bit first, "
                   f"not {len(names)}")
