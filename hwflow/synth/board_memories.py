"""Memories on a board, outside of the FPGA: what a board file says of them, checked.

In: the entries of the section `memories`, which keep to the JSON schema.  Out: `SdramMemory` for each, or sentences
that say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Shape
from hwflow_rtl.memory import PartNumberError, SdramPart, SdramTiming, sdram_pins

__all__ = ["SdramMemory", "memories_of", "memory_pins", "memory_violations"]

#: Times of a board file that are whole numbers of clocks or of commands.
COUNTS = ("cas_latency", "t_rrd_clocks", "t_wr_clocks", "t_mrd_clocks", "power_up_refreshes")


@dataclass(frozen=True)
class SdramMemory:
    """An SDR SDRAM of a board.

    `pins` has the names of the package's pins for each of `sdram_pins(part)`, the lowest bit first; `dq` stands for
    `dq_i`, `dq_o` and `dq_oe`.  What the board ties to a level is not in it.  `source` says where all this is from.
    """

    part: SdramPart
    pins: Mapping[str, tuple[str, ...]]
    io_standard: str
    source: str
    kind: str = "sdr_sdram"

    def facts(self) -> dict[str, Any]:
        """Plain data for JSON; rates in bytes a second."""
        part = self.part
        return {
            "kind": self.kind, "part": part.name, "bytes": part.bytes, "width": part.width, "clock_mhz": part.clock_mhz,
            "peak_bytes_per_second": part.peak_bytes_per_second,
            "sustained_bytes_per_second": part.sustained_bytes_per_second}

    def __str__(self) -> str:
        return f"{self.part.bytes // 2**20} MiB of SDRAM"


def memories_of(entries: Sequence[Mapping[str, Any]], io_standard: str) -> tuple[SdramMemory, ...]:
    """The memories of a board file in which `memory_violations` finds nothing."""
    return tuple(SdramMemory(part_of(entry), pins_of(entry["pins"]), entry.get("io_standard", io_standard),
                             entry["source"]) for entry in entries)


def part_of(entry: Mapping[str, Any]) -> SdramPart:
    """Raises PartNumberError."""
    numbers: dict[str, Any] = {
        name: int(value) if name in COUNTS else float(value) for name, value in entry["timing"].items()}
    geometry = {name: int(entry[name]) for name in ("banks", "rows", "columns", "width")}
    return SdramPart(name=entry["part"], clock_mhz=float(entry["clock_mhz"]), timing=SdramTiming(**numbers), **geometry)


def pins_of(pins: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: (given,) if isinstance(given, str) else tuple(given) for name, given in pins.items()}


def memory_pins(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of all pins that go to memories."""
    return [pin for entry in entries for pins in pins_of(entry["pins"]).values() for pin in pins]


def memory_violations(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each number that cannot be, and for pins that are too many or too few."""
    for index, entry in enumerate(entries):
        where = f"memories.{index}"
        try:
            part = part_of(entry)
        except PartNumberError as error:
            inside = "timing." if error.key in entry["timing"] else ""
            yield f"key '{where}.{inside}{error.key}' {error.rule}"
            continue
        if entry["bytes"] != part.bytes:
            yield (f"key '{where}.bytes' must be banks * rows * columns * width / 8 = {part.bytes}, not "
                   f"{entry['bytes']!r}")
        yield from pin_violations(where, part, pins_of(entry["pins"]))


def pin_violations(where: str, part: SdramPart, pins: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    members = sdram_pins(part).members
    for name, given in pins.items():
        width = Shape.cast(members["dq_i" if name == "dq" else name].shape).width
        if len(given) != width:
            yield (f"key '{where}.pins.{name}' must have {width} pin{'s' if width > 1 else ''}, the lowest bit first, "
                   f"not {len(given)}")
