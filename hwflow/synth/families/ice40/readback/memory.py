"""Block RAMs: two tiles each, the lower one with the read port, the upper one with the write port.

Sources: Project IceStorm, docs/source/ram_tile.rst (bits; inputs without a driver are 0, clock enables 1), for devices
like HX8K and UP5K, whose RAMs are on with PowerUp.
"""

from __future__ import annotations

import numpy as np

from .database import Tile
from .die import Die

WORD, ADDRESS, LINES, WORDS_A_LINE = 16, 11, 16, 16


def read_memories(die: Die) -> None:
    """All block RAMs."""
    for place, tile in die.tiles.items():
        if tile.kind == "ramb":
            read_memory(die, place)


def read_memory(die: Die, place: Tile) -> None:
    x, y = place
    lower, upper = die.tiles[place], die.tiles[x, y + 1]
    words, wires = die.words_of(place), RamWires(die, place)
    if not lower.take("RamConfig.PowerUp"):
        if words.any():
            die.fabric.problem(lower.where, "has contents, and the RAM is not used")
        return
    modes = [upper.take(f"RamConfig.CBIT_{k}") for k in range(4)]
    falling = "NR" * lower.take("NegClk") + "NW" * upper.take("NegClk")
    if falling:
        die.fabric.problem(lower.where, "has a clock at its falling edge, which has no model")
    parameters = {"WRITE_MODE": f"{modes[1]}{modes[0]}", "READ_MODE": f"{modes[3]}{modes[2]}"}
    for line in range(LINES):
        bits = words[line * WORDS_A_LINE:(line + 1) * WORDS_A_LINE].reshape(-1)
        parameters[f"INIT_{line:X}"] = "".join(np.where(bits[::-1], "1", "0"))
    pins = {
        "RADDR": [wires.read(f"RADDR_{k}") for k in range(ADDRESS)],
        "WADDR": [wires.write(f"WADDR_{k}") for k in range(ADDRESS)],
        **{name: [wires.half(name, k) for k in range(WORD)] for name in ("MASK", "WDATA", "RDATA")},
        "RCLK": [wires.read("RCLK", None)], "RCLKE": [wires.read("RCLKE", "1")], "RE": [wires.read("RE")],
        "WCLK": [wires.write("WCLK")], "WCLKE": [wires.write("WCLKE", "1")], "WE": [wires.write("WE")]}
    die.fabric.cell(f"ram_{x}_{y}", "SB_RAM40_4K", parameters, pins, ["RDATA"], lower.where)


class RamWires:
    """The wires of the RAM whose lower tile is at `place`."""

    def __init__(self, die: Die, place: Tile):
        self.die, self.lower, self.upper = die, place, (place[0], place[1] + 1)

    def at(self, place: Tile, name: str, default: str | None) -> str:
        wire = self.die.wire(place, f"ram/{name}")
        if default is not None:
            self.die.defaults[wire] = default
        return wire

    def read(self, name: str, default: str | None = "0") -> str:
        return self.at(self.lower, name, default)

    def write(self, name: str, default: str | None = "0") -> str:
        return self.at(self.upper, name, default)

    def half(self, name: str, bit: int) -> str:
        """Bits 0 to 7 of a word are in the upper tile, the others in the lower one."""
        place = self.upper if bit < WORD // 2 else self.lower
        return self.at(place, f"{name}_{bit}", None if name == "RDATA" else "0")
