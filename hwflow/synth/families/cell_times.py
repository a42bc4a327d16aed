"""What place and route does not know of the times of a family's cells, and cautious figures in its place.

A family has a file `cell_times.yaml` with a row for each kind of cell of a routed design.  What nextpnr does know is
not read from there but from the delays that it writes (`delays.py`), so that a newer nextpnr closes its gaps by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import yaml
from hwflow_base.files.facts import of_plain

#: The file in a family's folder.
FILE = "cell_times.yaml"


@dataclass(frozen=True)
class Figure:
    """A time of hwflow's own: `ns` before an edge of the pin `clock`, or after it."""

    clock: str
    ns: float


@dataclass(frozen=True)
class KindTimes:
    """The pins of a kind of cell; `kind` and the names of pins are regular expressions.

    `nextpnr` says in words what it knows.  Pins of `clock` take a clock.  Pins of `aside` are on no path from register
    to register: pads, pins of constants, what is not read.  `setup` and `out` are our figures, which hold where nextpnr
    has none or a smaller one; where `made_up` is set, its own are inventions.  From an input to an output a cell that
    nextpnr does not time is as slow as the slowest one of the kind `like` in the same design.  `source` says where our
    figures are from.
    """

    kind: str
    nextpnr: str
    clock: str = ""
    aside: str = ""
    like: str = ""
    setup: Mapping[str, Figure] = field(default_factory=dict)
    out: Mapping[str, Figure] = field(default_factory=dict)
    made_up: bool = False
    source: str = ""

    def is_clock(self, pin: str) -> bool:
        return re.fullmatch(self.clock, pin) is not None

    def is_aside(self, pin: str) -> bool:
        return re.fullmatch(self.aside, pin) is not None

    def setup_of(self, pin: str) -> Figure | None:
        return figure_of(self.setup, pin)

    def out_of(self, pin: str) -> Figure | None:
        return figure_of(self.out, pin)


def figure_of(figures: Mapping[str, Figure], pin: str) -> Figure | None:
    return next((figure for name, figure in figures.items() if re.fullmatch(name, pin)), None)


@dataclass(frozen=True)
class CellTimes:
    """All kinds of cells of a family; `source` says where what nextpnr knows was read."""

    source: str
    kinds: tuple[KindTimes, ...]

    @cached_property
    def _found(self) -> dict[str, KindTimes | None]:
        return {}

    def of(self, kind: str) -> KindTimes | None:
        """The row of a kind of cell; None for one that the file does not have."""
        if kind not in self._found:
            self._found[kind] = next((row for row in self.kinds if re.fullmatch(row.kind, kind)), None)
        return self._found[kind]


def read_cell_times(path: Path) -> CellTimes:
    """The rows of a family's file.  ValueError where it is none."""
    return of_plain(yaml.safe_load(path.read_text(encoding="utf-8")), CellTimes)
