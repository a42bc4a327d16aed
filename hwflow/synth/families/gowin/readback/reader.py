"""A bitstream of a Gowin chip as cells and switches."""

from __future__ import annotations

from pathlib import Path

from ....readback import Fabric
from . import memory, tiles
from .chip import Chip, read_chip
from .clocks import Pll, read_configuration, read_constants, read_isolated
from .flash import Flash
from .frames import Frames, read_frames
from .logic import Logic
from .memory import Memory
from .multipliers import MACROS, Macro
from .pads import Pads
from .tracing import Tracing
from .wires import LEVELS


def read_back(path: Path, name: str, part: str) -> Fabric:
    """The fabric of the die `name` in the package of `part`, as the bits of the file `path` say."""
    chip = read_chip(name)
    return read_bits(chip, read_frames(path, chip.layout), part, path)


def read_bits(chip: Chip, frames: Frames, part: str, path: Path) -> Fabric:
    """All that the bits set up, then what of it is met from the pads on, then the bits that are left."""
    fabric = Fabric(path, dict(LEVELS.items()))
    tracing = Tracing(chip, tiles.read_tiles(chip, frames.main), fabric)
    tracing.read_switches()
    read_constants(tracing)
    read_isolated(tracing)
    logic, memories = Logic(tracing), list[Memory]()
    pads = Pads(tracing, part)
    for tile in tracing.tiles.values():
        bels = tile.data.bels
        if "LUT0" in bels:
            logic.read(tile)
        elif "BSRAM" in bels:
            memories.append(Memory(tracing, tile, frames.contents))
        elif "DSP" in bels:
            for number in range(MACROS):
                Macro(tracing, tile, number)
        elif "RPLLA" in bels:
            Pll(tracing, tile)
        pads.read(tile)
    for (row, column), functions in chip.db.extra_func.items():
        if "userflash" in functions:
            Flash(tracing, tracing.tiles[row, column], functions["userflash"])
    read_configuration(tracing)
    tracing.follow()
    logic.read_unread()
    tracing.follow()
    tiles.unexplained(tracing.tiles.values(), fabric)
    memory.unexplained(memories, frames.contents, tracing)
    return fabric
