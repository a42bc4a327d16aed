"""The die while it is read: which wires cells take, what drives them, and what is said of them to the fabric."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....readback import Fabric
from .tiles import Place, TileBits
from .wires import Wires, at, place_of

#: Wires through which a tile of wires feeds a block; such a tile can tie them instead.
TIED = re.compile(r"J(?:[A-D]|CE|LSR|CLK)[0-7]")
#: Of these the database calls the level 1 "0": the same bits make WREMUX "1" at LSR1 of a tile of logic, and nextpnr
#: ties them so (ecp5/bitstream.cc, tie_cib_signal).
CALLED_ZERO = re.compile(r"J(?:LSR|CLK)\d")
#: Tiles of wires.
CIB = "V?CIB.*"
#: A wire drives another through fewer wires than this.
LONGEST = 1000

#: What a pin takes: a wire, or the level "0" or "1".
Pin = str


@dataclass(frozen=True)
class CellKind:
    """A kind of cell: `outputs` are the names of the wires that it drives.  `owner` says which cell a wire is of, by a
    name of its own, or None where the bits configure none there; `make` tells the fabric of the cell."""

    outputs: re.Pattern[str]
    owner: Callable[[Die, str], str | None]
    make: Callable[[Die, str], None]


class Owner(NamedTuple):
    """A cell by its kind and its name there."""

    kind: CellKind
    cell: str


@dataclass
class Die:
    """The die.

    `kinds` are the kinds of its cells; `passages` say of the output of what is no cell which wire it passes on;
    `outranked` says of an output that another one of its block has the wires to other tiles; `idle` are wires that may
    be driven although nothing takes them.  `drivers` are the switches that are on, source by sink, and `places` are
    where their bits are.  `ends` are levels and wires of cells at the end of what drives a wire; `told` and `passed`
    are the sinks that something takes in the end, as the fabric knows or as a level; `taken` are the wires of cells
    that something takes.  `queue` are cells to be made, `checks` what is asked when all of them are known.
    """


    bits: TileBits
    wires: Wires
    fabric: Fabric
    memories: Mapping[int, npt.NDArray[np.uint16]]
    kinds: Sequence[CellKind]
    passages: Sequence[Callable[[Die, str], str | None]]
    outranked: Callable[[Die, str], bool]
    idle: re.Pattern[str]
    drivers: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    owners: dict[str, Owner | None] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    ends: dict[str, str | None] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    queue: list[Owner] = field(default_factory=list)
    made: set[Owner] = field(default_factory=set)
    checks: list[Callable[[], None]] = field(default_factory=list)
    memories_taken: dict[int, str] = field(default_factory=dict)

    def owner(self, wire: str) -> Owner | None:
        """The cell that drives the wire, if the bits configure one there."""
        if wire not in self.owners:
            base = base_of(wire)
            self.owners[wire] = next((Owner(kind, cell) for kind in self.kinds if kind.outputs.fullmatch(base)
                                      if (cell := kind.owner(self, wire)) is not None), None)
        return self.owners[wire]

    def make(self) -> None:
        """All cells that something takes, and what they take in turn."""
        while self.queue:
            owner = self.queue.pop()
            if owner not in self.made:
                self.made.add(owner)
                owner.kind.make(self, owner.cell)

    def check(self) -> None:
        """What cells can only say when it is known which of their outputs something takes."""
        for check in self.checks:
            check()

    def unused(self) -> None:
        """A problem for each switch that is on and that nothing takes."""
        for sink, source in self.drivers.items():
            if sink not in self.told and sink not in self.passed and not self.idle.fullmatch(sink):
                self.problem(self.places[sink], f"{sink} is driven by {source}, and nothing takes it")

    def problem(self, where: str, what: str) -> None:
        self.fabric.problem(where, what)

    def source(self, wire: str) -> str | None:
        """What drives the wire: another, a level, or nothing that is known."""
        found = self.drivers.get(wire)
        if found is not None:
            return found
        if (level := self.tie(wire)) is not None:
            return level
        for through in self.passages:
            if (found := through(self, wire)) is not None:
                return found
        sources = self.wires.always(wire)
        if len(sources) > 1:
            sources = [source for source in sources if self.live(source)]
        if len(sources) > 1:
            sources = [source for source in sources if not self.outranked(self, source)]
        return sources[0] if len(sources) == 1 else None

    def live(self, wire: str) -> bool:
        """Whether a cell or a level drives the wire in the end."""
        for _ in range(LONGEST):
            source = None if self.owner(wire) else self.source(wire)
            if source is None or source in ("0", "1"):
                return source is not None or self.owner(wire) is not None
            wire = source
        return False

    def tie(self, wire: str) -> str | None:
        """The level that a tile of wires ties the wire to."""
        base = base_of(wire)
        if wire.startswith("G_") or not TIED.fullmatch(base):
            return None
        place = self.bits.place(*place_of(wire), CIB)
        name = f"CIB.{base}MUX"
        level = place.setting(name) if place.has(name) else None
        if level not in ("0", "1"):
            return None
        return "1" if CALLED_ZERO.fullmatch(base) else level

    def end(self, wire: str) -> str | None:
        """The level or the wire of a cell at the end of what drives `wire`; None where nothing does.  The cell is made,
        and the fabric is told of the way to it."""
        way: list[tuple[str, str]] = []
        at: str | None = wire
        while at is not None and at not in self.ends and len(way) < LONGEST:
            if (owner := self.owner(at)) is not None:
                self.queue.append(owner)
                self.taken.add(at)
                self.ends[at] = at
                break
            source = self.source(at)
            if source is not None:
                way.append((at, source))
            at = source
            if at in ("0", "1"):
                self.ends[at] = at
        found = self.ends.get(at) if at is not None else None
        for sink, driver in way:
            self.ends[sink] = found
            if found in ("0", "1"):
                self.passed.add(sink)
            elif found is not None:
                self.tell(sink, driver)
        return found

    def tell(self, sink: str, source: str) -> None:
        """The fabric that `source` drives `sink`."""
        if sink not in self.told:
            self.told.add(sink)
            self.fabric.switch(source, sink, self.places.get(sink, "always on"))

    def pin(self, wire: str) -> Pin | None:
        """What a pin at `wire` takes: a level, the wire itself if something drives it, or None."""
        found = self.end(wire)
        return found if found in ("0", "1", None) else wire

    def place(self, wire: str, kinds: str) -> Place:
        """The tiles of these kinds where `wire` is."""
        return self.bits.place(*place_of(wire), kinds)

    def local(self, wire: str, base: str) -> str:
        """The wire `base` of the place where `wire` is."""
        return at(*place_of(wire), base)


def base_of(wire: str) -> str:
    """The name of a wire without its place."""
    return wire if wire.startswith("G_") else wire.partition("_")[2]


def inverted(die: Die, pin: Pin | None, where: str) -> Pin:
    """What inverts `pin` before a cell: the other level, or a table."""
    if pin in ("0", "1", None):
        return "1" if pin == "0" else "0"
    name = f"not {pin}"
    die.fabric.cell(name, "LUT4", {"INIT": f"{0x5555:016b}"}, {"A": [str(pin)], "B": ["0"], "C": ["0"], "D": ["0"],
                                                               "Z": [name]}, ["Z"], where)
    return name
