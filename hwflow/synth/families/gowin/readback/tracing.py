"""From what pads take back to what drives it: the cells of a device that the bits use, made when a wire of them is met.

All bits of a device mean something: a table without bits is a constant, a wire without bits has a source that the chip
gives it.  What a design uses of it is what one comes to from its pads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....readback import Fabric
from .chip import Chip
from .tiles import Tile
from .wires import LEVELS, Switch, switches_of

#: Makes the cell that drives a wire.
Maker = Callable[[], None]
#: A wire of the fabric, or a level.
Pin = str
#: From a wire to its driver; more are a circle of switches.
LONGEST = 10_000


class Tracing:
    """The switches of a device and the cells that are met."""

    def __init__(self, chip: Chip, tiles: Mapping[tuple[int, int], Tile], fabric: Fabric):
        self.chip, self.tiles, self.fabric = chip, tiles, fabric
        self.switches = switches_of(chip)
        self.wires = self.switches.wires
        #: What bits say: the source of each wire that they drive.
        self.on: dict[str, str] = {}
        self.led: set[str] = set()
        #: Tiles with the wires that their bits drive.
        self.led_at: set[tuple[str, str]] = set()
        self.makers: dict[str, Maker] = {}
        #: Makes what drives a wire of a tile of logic.
        self.logic: Callable[[Tile, str], None] | None = None
        self.met: set[str] = set()
        self.waiting: list[str] = []

    def read_switches(self) -> None:
        for tile in self.tiles.values():
            on, wrong = self.switches.read(tile)
            for wire in wrong:
                self.fabric.problem(tile.where, f"the bits of the switches to {wire} choose none of its sources")
            for switch in on:
                self.turn_on(tile, switch)

    def turn_on(self, tile: Tile, switch: Switch) -> None:
        source, sink = self.name(tile, switch.source), self.name(tile, switch.sink)
        self.fabric.switch(source, sink, tile.where)
        self.led_at.add((tile.where, switch.sink))
        self.on.setdefault(sink, source)
        self.led.add(sink)

    def name(self, tile: Tile, wire: str) -> str:
        return self.wires.name(tile.row, tile.column, wire)

    def explicit(self, tile: Tile, wire: str) -> bool:
        """Whether bits drive the wire."""
        return self.name(tile, wire) in self.led

    def level(self, tile: Tile, wire: str) -> str | None:
        """The level that the wire has for ever; None where a cell drives it."""
        return LEVELS.get(self.origin(self.name(tile, wire)))

    def take(self, tile: Tile, wire: str) -> Pin:
        """The wire at an input of a cell; what drives it is made later."""
        name = self.name(tile, wire)
        self.waiting.append(name)
        return name

    def hold(self, tile: Tile, wire: str, level: str | None) -> None:
        """The chip needs a wire at a level for ever; None: what is led to it has no effect."""
        self.fabric.hold(self.take(tile, wire), level, tile.where)

    def follow(self) -> None:
        """All cells that drive what was taken, what they take, and so on."""
        while self.waiting:
            origin = self.origin(self.waiting.pop(), keep=True)
            if origin not in self.met:
                self.met.add(origin)
                self.make(origin)

    def make(self, wire: str) -> None:
        """The cell that drives a wire, if one can."""
        if maker := self.makers.get(wire):
            maker()
        elif self.logic and "/" in wire:
            for tile, name in self.own(wire):
                self.logic(tile, name)

    def origin(self, wire: str, keep: bool = False) -> str:
        """The wire that a cell drives, behind all switches in front of `wire`; `keep` those that are on without bits
        as switches of the fabric."""
        for _ in range(LONGEST):
            if (source := self.on.get(wire)) is None:
                found = self.by_default(wire)
                if found is None:
                    break
                source, where = found
                if keep:
                    self.fabric.switch(source, wire, where)
                    self.on[wire] = source
            wire = source
        return wire

    def by_default(self, wire: str) -> tuple[str, str] | None:
        """The source that the chip gives a wire to which no bit belongs, and where."""
        if wire in LEVELS or wire in self.makers:
            return None
        for tile, sink in self.own(wire):
            if (default := self.switches.default(tile, sink)) is not None:
                return self.name(tile, default), f"{tile.where}, without bits"
        return None

    def own(self, wire: str) -> Sequence[tuple[Tile, str]]:
        """The tiles that have a wire, with its name in them."""
        if places := self.wires.places.get(wire):
            return [(self.tiles[row, column], name) for row, column, name in places]
        place, _, name = wire.partition("/")
        if not place.startswith("X"):
            return ()
        column, row = map(int, place[1:].split("Y"))
        tile = self.tiles.get((row, column))
        return () if tile is None else [(tile, name)]
