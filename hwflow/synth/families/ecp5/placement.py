"""Between synthesis and place and route: what nextpnr would not find by itself in a large design for an ECP5.

In: the cells of a netlist, as in yosys' JSON.  Out: the same function, with copies of the register that resets the
design, one for each part of it, and of what enables wide words; with places for multipliers and block RAMs, and with
constants near them.

Measured on an LFE5U-85F, speed grade 6, seed 1, the same netlists with nextpnr-ecp5 0.11.1; MHz, and seconds that the
router took of a core.  A keyword network of 147 multipliers and 63 block RAMs: with places for the multipliers alone
167.6 MHz, 223 s, and its wires are 122 578 tiles long; with RAMs beside them 185.6 MHz, 118 s, 101 993 tiles; with
constants and resets near, too, 173.5 MHz, 84 s.  nextpnr's second router made 152.7 MHz of the first, 92 s.  ResNet-8
of 135 multipliers: RAMs placed 159.6 MHz, and 134.8 MHz with the second router; resets near 165.1 MHz.  ResNet-8 of 4
bits and 155 multipliers: RAMs placed, the router did not end; constants and resets near 156.3 MHz, 113 s.  An
autoencoder of 154 multipliers and 174 RAMs: RAMs placed, resets near 163.3 MHz, 121 s.  ResNet-8 of 156 multipliers and
as many more in logic, 26 000 tables: all of it 124.0 MHz, limited by a join that nextpnr placed 51 tiles from its
queue; an older netlist without any of it but multipliers had 141.6 MHz from the second router.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ...yosys_json import Cell, Cells, Module
from .copies import copy_busy, copy_resets, first_free
from .sites import Site, block_at, dsp_slices, module_of, natural, ram_sites

# Places for the multipliers and block RAMs of a design for an ECP5 that has many of them.
#
# In: the cells of a netlist, as in yosys' JSON, by name.  Out: a place for each that gets one.



#: Share of a device's multipliers from which on blocks get their places here: below it nextpnr finds better ones.
CROWDED = 0.4
#: The path of names before a cell of a stage: what comes after it says which part of the stage.
STAGE = 2
#: Distances are whole numbers, so that no rounding decides; in tiles, times this.
FINE = 64


def block_places(cells: Cells, device: str) -> dict[str, Site]:
    """Where the multipliers, the adders behind them and the block RAMs of a crowded design stand; {} for another."""
    places = dsp_places(cells, device)
    return places | ram_places(cells, places, device) if places else {}


def dsp_places(cells: Cells, device: str) -> dict[str, Site]:
    """Multipliers stand in the order of the stages, banks and rows that they belong to, along a walk to and fro.

    An adder takes all of a slice with its two multipliers: nextpnr wants places for all three or for none.
    """
    groups = groups_of(cells)
    walk = [part for k, row in enumerate(dsp_slices(device)) for part in (row[::-1] if k % 2 else row)]
    directions = [k % 2 for k, row in enumerate(dsp_slices(device)) for _ in row]
    count = sum(min(len(group), 2) for group in groups)
    alone = sum(len(group) == 1 for group in groups)
    if count <= CROWDED * 2 * len(walk) or len(groups) - alone + (alone + 1) // 2 > len(walk):
        return {}
    parts, places, spare = iter(zip(walk, directions, strict=True)), dict[str, Site](), list[Site]()
    for group in groups:
        if len(group) > 1 or not spare:
            part, backward = next(parts)
        if len(group) > 1:
            places |= zip(group, (*part.multipliers, part.adder), strict=True)
        else:
            spare = spare or list(part.multipliers)[::-1 if backward else 1]
            places[group[0]] = spare.pop(0)
    return places


def groups_of(cells: Cells) -> list[tuple[str, ...]]:
    """Groups that share a slice, in order: a multiplier alone, or those whose products are an adder's inputs, and the
    adder.

    Nothing, so that nextpnr places all, where the inputs of an adder are anything else.
    """
    multipliers = {name for name, cell in cells.items() if cell["type"] == "MULT18X18D"}
    adders = [name for name, cell in cells.items() if cell["type"] == "ALU54B"]
    drivers = {bit: name for name in multipliers if adders for bit in cells[name]["connections"].get("P0", ())}
    groups = []
    for adder in adders:
        wires = cells[adder]["connections"]
        pair = [drivers.get(bit, "") for pin in ("MA0", "MB0") for bit in wires.get(pin, ("",))]
        if len(pair) != 2 or len(set(pair) & multipliers) != 2:
            return []
        multipliers -= set(pair)
        groups.append((*pair, adder))
    return sorted([*groups, *((name,) for name in multipliers)], key=lambda group: natural(group[0]))


def ram_places(cells: Cells, places: dict[str, Site], device: str) -> dict[str, Site]:
    """Block RAMs stand near the multipliers that they work with: the sum of the squares of all distances is the least.

    The longest wire limits the clock, and squares keep it short.  In an autoencoder of 161 RAMs, three of the first
    stage's ring stood 81 tiles from it where the sum of distances was the least, 2 348 tiles; with squares none is
    farther than 36, and the sum is 2 351.

    RAMs of no stage with multipliers, as queues and those of the link, are left to nextpnr.
    """
    multipliers = {name: places[name] for name in sorted(places, key=natural) if cells[name]["type"] == "MULT18X18D"}
    rams = sorted((name for name, cell in cells.items() if cell["type"] == "DP16KD"), key=natural)
    sites = ram_sites(device)
    near = dict(neighbours(rams, multipliers))
    if not near or len(rams) > len(sites):
        return {}
    far = np.array([[sum(abs(site.x - other.x) + abs(site.y - other.y) for other in others) * FINE // len(others)
                     for site in sites] for others in near.values()])
    return {name: sites[k] for name, k in zip(near, matching(far**2), strict=True)}


def neighbours(rams: list[str], multipliers: dict[str, Site]) -> Iterator[tuple[str, list[Site]]]:
    """Each RAM with the multipliers that its words go to or come from, as the names tell.

    A bank's ROM holds the weights of its multipliers side by side: of a ROM of several columns each has a share of
    them.  The words of a stage's window go to its first bank, and its constants are for the results of the last.
    """
    columns: dict[str, int] = defaultdict(int)
    for name in rams:
        memory, column = column_of(name)
        columns[memory] = max(columns[memory], column + 1)
    for name in rams:
        path = name.split(".")
        around, near = next(((path[:k], others) for k in range(len(path) - 1, STAGE - 1, -1) if (
            others := [other for other in multipliers if other.startswith(".".join(path[:k]) + ".")])), ([], []))
        if not near:
            continue
        if len(around) > STAGE:
            memory, column = column_of(name)
            first, end = (len(near) * k // columns[memory] for k in (column, column + 1))
            near = near[first:max(end, first + 1)]
        else:
            last = near[0] if path[STAGE] == "window" else near[-1]
            near = [other for other in near if other.rpartition(".")[0] == last.rpartition(".")[0]]
        yield name, [multipliers[other] for other in near]


def column_of(ram: str) -> tuple[str, int]:
    """The memory that a block is a part of, and which bits of its words it has, counted in blocks."""
    match = re.fullmatch(r"(.*?)(?:bank\d+_)?column(\d+)", ram)
    return (match[1], int(match[2])) if match else (ram, 0)


def matching(costs: npt.NDArray[np.int64]) -> list[int]:
    """A column of its own for each row, so that the sum of `costs` is the least; int64[rows, columns >= rows].

    The Hungarian method by shortest augmenting paths (R. Jonker and A. Volgenant, Computing 38, 1987): rows are added
    one at a time, and prices of rows and columns keep what is left of every cost at 0 or above.

    scipy has `linear_sum_assignment`, and does not say which of several least sums it gives.  Distances between sites
    are often equal, and the same netlist must get the same places with every version of every library; so it is
    written here.  208 rows and columns take about 15 ms.
    """
    rows, count = costs.shape
    row_price, price = np.zeros(rows, np.int64), np.zeros(count, np.int64)
    taken_by = np.full(count, -1)
    for new in range(rows):
        distance = costs[new] - price
        before, done = np.full(count, -1), np.zeros(count, bool)
        while True:
            column = int(np.where(done, np.iinfo(np.int64).max, distance).argmin())
            done[column] = True
            row = int(taken_by[column])
            if row < 0:
                break
            through = distance[column] + costs[row] - row_price[row] - price
            shorter = ~done & (through < distance)
            distance[shorter], before[shorter] = through[shorter], column
        reached, end = np.flatnonzero(done), distance[column]
        row_price[new] += end
        others = reached[reached != column]
        row_price[taken_by[others]] += end - distance[others]
        price[reached] -= end - distance[reached]
        while column >= 0:
            previous = int(before[column])
            taken_by[column] = new if previous < 0 else taken_by[previous]
            column = previous
    result = [0] * rows
    for place in np.flatnonzero(taken_by >= 0).tolist():
        result[taken_by[place]] = place
    return result


# Tables for constants near the multipliers that read them.
#
# nextpnr takes constants from one table of zeros and one of ones, whose 1 800 wires lead over all of a device: the
# inputs of its multipliers that choose registers and signs, and where carry chains begin. Its first router takes them
# last, when the wires at the multipliers are taken: of a ResNet-8 with 155 multipliers it did not end with 763 of 73
# 732 arcs left.


#: Pins that no configuration bit ties, by the type of cell.
PINS = {"MULT18X18D": r"(?:CLK|CE|RST)\d|(?:SOURCE|SIGNED)[AB]", "ALU54B": r"(?:CLK|CE|RST|OP)\d+", "CCU2C": "CIN"}
#: Fewer of the same value in the same part of the design stay with nextpnr's table.
FEWEST = 4


def local_constants(module: Module, places: dict[str, Site], device: str, fresh: int) -> int:
    """Give each DSP block, and each part of the core, tables of its own; the next wire that is free after `fresh`.

    A block's four multipliers share what they have: its wires hold four clocks, enables and resets for all of them.
    """
    cells = module["cells"]
    groups: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
    for name in sorted(cells, key=natural):
        kind = cells[name]["type"]
        where = block_at(places[name], device) if name in places else module_of(name) if kind == "CCU2C" else ""
        if where and kind in PINS:
            for pin, bits in cells[name]["connections"].items():
                if re.fullmatch(PINS[kind], pin):
                    for place, bit in enumerate(bits):
                        if bit in ("0", "1"):
                            groups[where, bit].append((name, pin, place))
    for (where, value), pins in groups.items():
        if len(pins) >= FEWEST:
            first = pins[0][0]
            name = f"{first.rpartition('.')[0]}.constant{value}" + (f"_{where}" if first in places else "")
            cells[name] = table(value, fresh)
            module["netnames"][f"{name}.Z"] = {"hide_name": 1, "bits": [fresh], "attributes": {}}
            for cell, pin, place in pins:
                cells[cell]["connections"][pin][place] = fresh
            fresh += 1
    return fresh


def table(value: str, wire: int) -> Cell:
    """A LUT4 that is always `value`."""
    return {"hide_name": 1, "type": "LUT4", "parameters": {"INIT": 16 * value}, "attributes": {},
            "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
            "connections": {**{pin: ["0"] for pin in "ABCD"}, "Z": [wire]}}


#: Of what is done here; part of the key of a step whose result it changes.
RULES = "5"


def prepared(netlist: str, device: str) -> str:
    """`netlist`, JSON text, ready for place and route on `device`."""
    document = json.loads(netlist)
    for module in document["modules"].values():
        if "top" in module["attributes"]:
            copy_busy(module, copy_resets(module))
            place_blocks(module, device)
    return json.dumps(document)


def place_blocks(module: Module, device: str) -> None:
    """Places for blocks and, where there are any, constants near them."""
    places = block_places(module["cells"], device)
    for name, site in places.items():
        module["cells"][name]["attributes"]["BEL"] = site.name
    if places:
        local_constants(module, places, device, first_free(module))


def without_places(netlist: str) -> str:
    """`netlist`, JSON text, with all places left to nextpnr."""
    document = json.loads(netlist)
    for module in document["modules"].values():
        for cell in module["cells"].values():
            cell["attributes"].pop("BEL", None)
    return json.dumps(document)
