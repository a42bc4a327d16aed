"""What the bits of a bitstream say: cells, and the switches between their wires.

A family's reader finds cells and switches in the bits; here they become a netlist, or errors: a wire with two drivers,
an input without one, a switch that leads nowhere, a bit that nothing explains.  Nothing in it is from place and route.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hwflow_base.errors import HwflowError

from ..yosys_json import Bit, Cell, Module, Port

#: A wire of a device: all names of the same metal must be one, which is the family's to see to.
Wire = Hashable
#: Of so many problems each has its line in the message.
SHOWN = 10
#: Switches from a wire to its driver, at most: more are a circle.
LONGEST = 10_000


@dataclass(frozen=True)
class Driver:
    """What drives a wire, and where the bits of it are."""

    source: Wire
    where: str


@dataclass(frozen=True)
class ReadCell:
    """A cell that the bits configure; `outputs` are those of its pins that drive."""

    kind: str
    parameters: Mapping[str, str]
    pins: Mapping[str, Sequence[Wire]]
    outputs: frozenset[str]
    where: str


@dataclass
class Fabric:
    """The cells and switches of the bitstream in `path`, and what is wrong with them.

    `defaults`: the level of wires that no switch drives, where the device defines one.  `pulls`: "up", "down" or
    "none" for pads whose bits say it.  `standards`: the I/O standards that the bits of a pad can stand for, where they
    say one.
    """

    path: Path
    defaults: Mapping[Wire, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    pulls: dict[str, str] = field(default_factory=dict)
    standards: dict[str, frozenset[str]] = field(default_factory=dict)
    _switches: dict[Wire, Driver] = field(default_factory=dict)
    _cells: dict[str, ReadCell] = field(default_factory=dict)
    _pads: dict[str, tuple[str, Wire, str]] = field(default_factory=dict)
    _held: list[tuple[Wire, str | None, str]] = field(default_factory=list)

    @property
    def cells(self) -> Mapping[str, ReadCell]:
        """The cells that were read so far."""
        return self._cells

    @property
    def pads(self) -> frozenset[str]:
        """The pads in use."""
        return frozenset(self._pads)

    def problem(self, where: str, what: str) -> None:
        """Something at `where` (a tile, and a bit of it) that no design may have."""
        self.problems.append(f"{where}: {what}")

    def switch(self, source: Wire, sink: Wire, where: str) -> None:
        """A switch that is on: `source` drives `sink`."""
        other = self._switches.get(sink)
        if other is not None and other.source != source:
            self.problem(where, f"{source} and {other.source} ({other.where}) drive the same wire {sink}")
        self._switches[sink] = Driver(source, where)

    def cell(self, name: str, kind: str, parameters: Mapping[str, str], pins: Mapping[str, Sequence[Wire]],
             outputs: Iterable[str], where: str) -> None:
        """A cell with the name and the pins of the models in `hwflow_sim/cells`; bits of a pin from the lowest on.

        A bit of an input is a wire, or "0" or "1" where the cell has that level by itself.
        """
        self._cells[name] = ReadCell(kind, dict(parameters), dict(pins), frozenset(outputs), where)

    def pad(self, name: str, direction: str, wire: Wire, where: str) -> None:
        """The pad `name` (its pin of the package), which is an "input", "output" or "inout" of the device; `wire` is
        what an input drives or an output takes; of an inout that of the pad itself, which a cell has as its pin."""
        self._pads[name] = direction, wire, where

    def hold(self, wire: Wire, level: str | None, where: str) -> None:
        """The device takes `wire` and no cell of ours does: it must be at `level`, "0" or "1", for ever; None says that
        it has no effect."""
        self._held.append((wire, level, where))

    def module(self, ports: Mapping[str, Sequence[str]]) -> Module:
        """The module `top`, whose `ports` have the pads of their bits, from the lowest on.

        HwflowError lists what is wrong with the bitstream, or says which pads are others than those of `ports`.
        """
        return Netting(self).module(ports)


class Netting:
    """Numbers for nets: the wires that drive, and what follows from them."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.numbers: dict[Wire, Bit] = {}
        self.used: set[Wire] = set()
        self.next = 2  # as yosys counts: 0 and 1 are levels

    def module(self, ports: Mapping[str, Sequence[str]]) -> Module:
        fabric = self.fabric
        self.drive()
        cells = {name: self.read(name, cell) for name, cell in fabric._cells.items()}
        made = {name: self.port(name, pads) for name, pads in ports.items()}
        for wire, level, where in fabric._held:
            if self.net(wire, where) != level and level is not None:
                fabric.problem(where, f"{wire} must be at {level} for ever")
        named = {pad for pads in ports.values() for pad in pads}
        for pad, (direction, _, where) in fabric._pads.items():
            if pad not in named:
                fabric.problem(where, f"pad {pad} is an {direction}, and no port of the design has it")
        for sink, driver in fabric._switches.items():
            if sink not in self.used:
                fabric.problem(driver.where, f"{sink} is driven by {driver.source}, and nothing takes it")
        require_none(fabric.problems, fabric.path)
        return {"ports": made, "cells": cells, "netnames": {}}

    def drive(self) -> None:
        """A number for each wire that a cell or a pad drives."""
        fabric = self.fabric
        driven = [(wire, cell.where) for cell in fabric._cells.values() for pin in cell.outputs
                  for wire in cell.pins.get(pin, ())]
        driven += [(wire, where) for direction, wire, where in fabric._pads.values() if direction != "output"]
        for wire, where in driven:
            if wire in fabric._switches:
                fabric.problem(where, f"{wire} is driven here and by {fabric._switches[wire].source} "
                                      f"({fabric._switches[wire].where})")
            if wire in self.numbers:
                fabric.problem(where, f"{wire} has a second driver here")
            self.numbers[wire] = self.next
            self.next += 1

    def net(self, wire: Wire, where: str) -> Bit:
        """The net of what an input takes."""
        if wire in ("0", "1"):
            return str(wire)
        fabric, at = self.fabric, wire
        for _ in range(LONGEST):
            self.used.add(at)
            driver = fabric._switches.get(at)
            if driver is None:
                break
            at = driver.source
        if at in self.numbers:
            return self.numbers[at]
        if at in fabric.defaults:
            return fabric.defaults[at]
        fabric.problem(where, f"{wire} must have a driver" + ("" if at == wire else f", and ends at {at}"))
        return "x"

    def read(self, name: str, cell: ReadCell) -> Cell:
        nets: dict[str, list[Bit]] = {
            pin: [self.numbers[wire] if pin in cell.outputs else self.net(wire, cell.where) for wire in wires]
            for pin, wires in cell.pins.items()}
        return {"type": cell.kind, "parameters": dict(cell.parameters), "attributes": {"where": cell.where},
                "port_directions": {pin: "output" if pin in cell.outputs else "input" for pin in cell.pins},
                "connections": nets}

    def port(self, name: str, pads: Sequence[str]) -> Port:
        fabric = self.fabric
        directions, bits = set(), list[Bit]()
        for pad in pads:
            if pad not in fabric._pads:
                fabric.problem(f"pad {pad}", f"port '{name}' must be here, and the pad is not used")
                continue
            direction, wire, where = fabric._pads[pad]
            directions.add(direction)
            bits.append(self.net(wire, where) if direction == "output" else self.numbers[wire])
        if len(directions) > 1:
            found = " and ".join(sorted(directions))
            fabric.problem(f"port '{name}'", f"its pads must have one direction, not {found}")
        return {"direction": min(directions, default="input"), "bits": bits}


def require_none(problems: Sequence[str], path: Path) -> None:
    """HwflowError with the first of `problems` and their number."""
    if problems:
        more = [] if len(problems) <= SHOWN else [f"and {len(problems) - SHOWN} more"]
        raise HwflowError("\n  ".join([f"the bitstream has {len(problems)} things that no design may have:" if
                                       len(problems) > 1 else "the bitstream has what no design may have:",
                                       *problems[:SHOWN], *more]),
                          "make it again with hwflow synth; if it is new, a tool wrote other bits than hwflow knows",
                          where=str(path))
