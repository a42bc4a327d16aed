"""The flash inside of a chip that a design may read.

It has no bits: where its wires are used, it is.  All its pins but the address of a row and the one that puts it into
use are inverted.  Sources: Project Apicula (MIT), `userflash` of the database; nextpnr-himbaechel (ISC), whose packer
puts the inverters there.
"""

from __future__ import annotations

from .tiles import Tile
from .tracing import Pin, Tracing

KIND = "FLASH608K"
WIDTHS = {"XADR": 9, "YADR": 6, "DIN": 32, "XE": 0, "YE": 0, "SE": 0, "PROG": 0, "ERASE": 0, "NVSTR": 0}
STRAIGHT, IN_USE, OUTPUT, WORD = ("XADR",), "INUSEN", "DOUT", 32


class Flash:
    """The flash in `tile`."""

    def __init__(self, tracing: Tracing, tile: Tile, ports: dict[str, dict[str, str]]):
        self.tracing, self.tile, self.ports = tracing, tile, ports
        self.made = False
        for wire in ports["outs"].values():
            tracing.makers[tracing.name(tile, wire)] = self.make

    def make(self) -> None:
        if self.made:
            return
        self.made = True
        self.tracing.hold(self.tile, self.ports["ins"][IN_USE], "0")
        pins = {name: [self.input(name, f"{name}{k}" if width else name) for k in range(width or 1)]
                for name, width in WIDTHS.items()}
        wires = [self.tracing.name(self.tile, self.ports["outs"][f"{OUTPUT}{k}"]) for k in range(WORD)]
        self.tracing.met.update(wires)
        inner = [f"{self.tile.where}/{KIND}/{OUTPUT}{k}" for k in range(WORD)]
        for k, (wire, output) in enumerate(zip(wires, inner, strict=True)):
            self.invert(f"{OUTPUT}{k}", output, wire)
        self.tracing.fabric.cell(f"{self.tile.where}/{KIND}", KIND, {}, {**pins, OUTPUT: inner}, [OUTPUT],
                                 self.tile.where)

    def input(self, name: str, port: str) -> Pin:
        wire = self.tracing.take(self.tile, self.ports["ins"][port])
        if name in STRAIGHT:
            return wire
        inner = f"{self.tile.where}/{KIND}/{port}"
        self.invert(port, wire, inner)
        return inner

    def invert(self, port: str, source: Pin, sink: Pin) -> None:
        self.tracing.fabric.cell(f"{self.tile.where}/{KIND}/~{port}", "INV", {}, {"I": [source], "O": [sink]}, ["O"],
                                 self.tile.where)
