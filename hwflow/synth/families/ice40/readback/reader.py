"""From a bitstream to the cells and switches that it configures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ....readback import Fabric
from .blocks import read_blocks
from .database import FOLDERS, find_database, read_database
from .die import Die, TileBits, bit_name
from .file import DEVICES, Image, read_image
from .logic import read_logic
from .memory import read_memories
from .pads import read_pads

#: What icepack writes without options: the slow oscillator of the loader, warm boot on, the flash put to sleep.
FREQUENCY, FLAGS = 0, 0x20
UNEXPLAINED = "is set, and nothing explains it"


def read_back(device: str, package: str, bitstream: Path, folders: tuple[Path, ...] = FOLDERS) -> Fabric:
    """What the bits in `bitstream` configure on a `device` in a `package`, both as board files have them.

    Raises HwflowError for a file that is none of the device or is damaged, MissingTool without the chip database, which
    is looked for in `folders`.  What no design may have is a problem of the result.
    """
    image = read_image(bitstream, device)
    die = Die(read_database(find_database(DEVICES[device], folders)), image, bitstream)
    read_settings(die, image)
    read_logic(die)
    read_memories(die)
    read_pads(die, package, read_blocks(die))
    for tile in die.tiles.values():
        for row, column in zip(*np.nonzero(tile.left), strict=True):
            die.fabric.problem(f"{tile.where} {named(tile, (int(row), int(column)))}", UNEXPLAINED)
    for bank, row, column in sorted(die.left):
        die.fabric.problem(f"bank {bank} row {row} column {column}", UNEXPLAINED)
    return die.fabric


def read_settings(die: Die, image: Image) -> None:
    """What the file tells the loader."""
    if image.frequency != FREQUENCY:
        die.fabric.problem("the setting of the loader's oscillator", f"must be {FREQUENCY}, not {image.frequency}")
    if image.flags != FLAGS:
        die.fabric.problem("the setting of warm boot and sleep", f"must be {FLAGS:#04x}, not {image.flags:#04x}")


def named(tile: TileBits, place: tuple[int, int]) -> str:
    """A bit, with its setting where it is of one."""
    names = [name for name, places in tile.settings.items() if place in places]
    return " ".join([bit_name(place), *names])
