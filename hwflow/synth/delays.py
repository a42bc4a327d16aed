"""nextpnr's SDF file of a routed design: the delay of every wire, and what nextpnr knows of the times of its cells.

The file has a line for each pin that a wire leads to, also for pins whose times nextpnr does not know; its timing
report leaves those out.  All times are the longest, in picoseconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

#: A pin: the cell and the name of the pin.
Pin = tuple[str, str]

_NUMBER = r"[-+.\deE]+"
_TRIPLE = rf"\({_NUMBER}:{_NUMBER}:({_NUMBER})\)"
_WIRE = re.compile(rf"\(INTERCONNECT (\S+) (\S+) {_TRIPLE} {_TRIPLE}\)")
_PATH = re.compile(rf"\(IOPATH (\S+) (\S+) {_TRIPLE} {_TRIPLE}\)")
_CHECK = re.compile(rf"\(SETUPHOLD \(\w+ (\S+)\) \((\w+) (\S+)\) {_TRIPLE} {_TRIPLE}\)")
_KIND = re.compile(r'\(CELLTYPE "([^"]*)"\)')
_CELL = re.compile(r"\(INSTANCE (.*)\)")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Check:
    """A pin that must be steady `setup` before the edge of the pin `clock`."""

    pin: str
    clock: str
    falling: bool
    setup: float


@dataclass
class CellDelays:
    """A cell: its kind, the times from pin to pin (from a clock to an output, too) and those before its clocks."""

    kind: str
    paths: list[tuple[str, str, float]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


@dataclass
class Delays:
    """The cells of a routed design by name, and for each pin that a wire leads to the pin that drives it, with the
    delay."""

    cells: dict[str, CellDelays] = field(default_factory=dict)
    wires: dict[Pin, tuple[Pin, float]] = field(default_factory=dict)


def read_delays(path: Path) -> Delays:
    """The delays in nextpnr's SDF file.  ValueError where a line is not as nextpnr writes it, or cells are missing."""
    with path.open(encoding="utf-8") as file:
        return delays_of(file)


def delays_of(lines: Iterable[str]) -> Delays:
    """The same of the lines of a file."""
    delays, kind, cell = Delays(), "", CellDelays("")
    for line in lines:
        text = line.lstrip()
        if text.startswith("(INTERCONNECT"):
            start, end, *times = groups(_WIRE, text)
            delays.wires[pin_of(end)] = pin_of(start), slowest(times)
        elif text.startswith("(IOPATH"):
            start, end, *times = groups(_PATH, text)
            cell.paths.append((plain(start), plain(end), slowest(times)))
        elif text.startswith("(SETUPHOLD"):
            pin, edge, clock, setup, _ = groups(_CHECK, text)
            check = Check(plain(pin), plain(clock), edge == "negedge", float(setup))
            if check not in cell.checks[-1:]:  # the same for both edges of the pin
                cell.checks.append(check)
        elif text.startswith("(CELLTYPE"):
            kind, = groups(_KIND, text)
        elif text.startswith("(INSTANCE"):
            name, = groups(_CELL, text)
            cell = CellDelays(kind)
            if name:
                delays.cells[plain(name)] = cell
    strangers = {pin[0] for pair in delays.wires.items() for pin in (pair[0], pair[1][0])} - delays.cells.keys()
    if strangers:
        raise ValueError(f"the cell '{min(strangers)}' has wires and is not listed")
    return delays


def groups(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = pattern.match(text)
    if match is None:
        raise ValueError(f"'{text.strip()[:200]}' is no line that nextpnr writes")
    return match.groups()


def plain(name: str) -> str:
    """A name without the backslashes before its special characters."""
    return sys.intern(_ESCAPED.sub(r"\1", name) if "\\" in name else name)


def pin_of(text: str) -> Pin:
    """`cell/pin`; names of cells may have a slash, those of pins have none."""
    cell, _, pin = plain(text).rpartition("/")
    return sys.intern(cell), sys.intern(pin)


def slowest(times: Iterable[str]) -> float:
    return max(map(float, times))
