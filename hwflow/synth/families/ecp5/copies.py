"""Copies of registers and tables that so many cells read that nextpnr cannot place all of these near one.

A word of 384 bits in a queue has one enable.  Its wires took 7.1 ns of a cycle of 8.3 ns in a full LFE5U-85F.
Measured on an LFE5U-25F, speed grade 6, seeds 1 and 2: a convolution stage with such words alone and 8 180 registers,
156.3 and 160.3 MHz before, 170.8 and 169.8 MHz with copies for groups of 64 and a queue whose last word does not wait
for its reader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count

from ...yosys_json import Bit, Cell, Cells, Module
from .sites import module_of, natural

#: A register that resets so many others gets copies.
MOST_RESETS = 256
#: What so many cells read gets copies, each for a group of at most so many.
MOST_READERS, GROUP = 96, 64
#: The output of what is copied.
OUTPUTS = {"LUT4": "Z", "TRELLIS_FF": "Q"}
#: Cells that lie in one slice with the tables that they read.
MUXES = ("PFUMX", "L6MUX21")
#: An input: cell, pin and place in the pin.
Pin = tuple[str, str, int]


def copy_resets(module: Module) -> set[str]:
    """A register that resets many others is copied for each part of the core: none has to reach over the device.

    The copies have the register's own inputs, so they always hold the same.  Returns the copies and their originals.
    """
    cells = module["cells"]
    readers, drivers = wiring_of(cells)
    fresh = first_free(module)
    done: set[str] = set()
    for bit, pins in readers.items():
        driver = drivers.get(bit)
        if driver is None or cells[driver]["type"] != "TRELLIS_FF":
            continue
        if sum(pin == "LSR" for _, pin, _ in pins) < MOST_RESETS:
            continue
        groups = defaultdict(list)
        for cell, pin, place in pins:
            groups[module_of(cell)].append((cell, pin, place))
        if len(groups) < 2:
            continue  # not a reset of the design: `copy_busy` knows better
        done.add(driver)
        for part in sorted(groups, key=natural):
            if not part:
                continue  # keeps the register itself
            name = f"{driver}.{part}"
            add_copy(module, driver, name, "Q", fresh)
            done.add(name)
            for cell, pin, place in groups[part]:
                cells[cell]["connections"][pin][place] = fresh
            fresh += 1
    return done


def copy_busy(module: Module, resets: set[str]) -> None:
    """Tables, then registers, of the core that many cells read are copied for groups of these, in the order of names:
    so the bits of a word that are next to each other are in one group.

    A copy reads what the original reads.  A table that only the original register reads is copied with the register.
    """
    fresh = count(first_free(module))
    for kind in OUTPUTS:
        readers, drivers = wiring_of(module["cells"])
        for bit, pins in readers.items():
            driver = drivers.get(bit)
            if driver is None or driver in resets or len(pins) < MOST_READERS or not module_of(driver):
                continue
            cell = module["cells"][driver]
            if cell["type"] == kind and not any(module["cells"][reader]["type"] in MUXES for reader, _, _ in pins):
                share_out(module, driver, pins, fresh, readers, drivers)


def share_out(module: Module, driver: str, pins: list[Pin], fresh: Iterator[int],
              readers: dict[Bit, list[Pin]], drivers: dict[Bit, str]) -> None:
    """All groups of `pins` but the first, which the driver keeps, get a copy of it."""
    cells = module["cells"]
    ordered = sorted(pins, key=lambda pin: natural(pin[0]))
    groups = -(-len(ordered) // GROUP)
    size = -(-len(ordered) // groups)
    for k in range(1, groups):
        name, wire = f"{driver}.copy{k}", next(fresh)
        copy = add_copy(module, driver, name, OUTPUTS[cells[driver]["type"]], wire)
        for cell, pin, place in ordered[k * size:(k + 1) * size]:
            cells[cell]["connections"][pin][place] = wire
        (source,) = copy["connections"].get("DI", ["0"])
        table = drivers.get(source, "")
        if table and cells[table]["type"] == "LUT4" and len(readers[source]) == 1:
            own = next(fresh)
            add_copy(module, table, f"{name}.DI", "Z", own)
            copy["connections"]["DI"] = [own]


def add_copy(module: Module, driver: str, name: str, output: str, wire: int) -> Cell:
    """A cell `name` like `driver` that drives `wire`."""
    original = module["cells"][driver]
    copy: Cell = {**original, "attributes": dict(original["attributes"]), "connections": {
        **{pin: list(bits) for pin, bits in original["connections"].items()}, output: [wire]}}
    module["cells"][name] = copy
    module["netnames"][f"{name}.{output}"] = {"hide_name": 1, "bits": [wire], "attributes": {}}
    return copy


def wiring_of(cells: Cells) -> tuple[dict[Bit, list[Pin]], dict[Bit, str]]:
    """For each wire the inputs it goes to, as cell, pin and place in the pin; and the cell that drives it."""
    readers: dict[Bit, list[Pin]] = defaultdict(list)
    drivers: dict[Bit, str] = {}
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            for place, bit in enumerate(bits):
                if not isinstance(bit, int):
                    continue
                if cell["port_directions"][pin] == "input":
                    readers[bit].append((name, pin, place))
                else:
                    drivers[bit] = name
    return readers, drivers


def first_free(module: Module) -> int:
    """A number above those of all wires."""
    return 1 + max((bit for bits in bits_of(module) for bit in bits if isinstance(bit, int)), default=0)


def bits_of(module: Module) -> Iterator[list[Bit]]:
    """The wires that the module knows by any name."""
    for cell in module["cells"].values():
        yield from cell["connections"].values()
    for named in (*module["netnames"].values(), *module["ports"].values()):
        yield named["bits"]
