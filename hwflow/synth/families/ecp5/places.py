"""Places for the multipliers and block RAMs of a design for an ECP5 that has many of them.

In: the cells of a netlist, as in yosys' JSON, by name.  Out: a place for each that gets one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .names import natural
from .sites import Site, dsp_slices, ram_sites

__all__ = ["CROWDED", "Cells", "block_places", "matching"]

Cells = dict[str, dict[str, Any]]

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
    """What shares a slice, in order: a multiplier alone, or those whose products are an adder's inputs, and the adder.

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
    """Block RAMs stand as near as possible to the multipliers that they work with, all distances taken together.

    RAMs of no stage with multipliers, as queues and those of the link, are left to nextpnr.
    """
    multipliers = {name: places[name] for name in sorted(places, key=natural) if cells[name]["type"] == "MULT18X18D"}
    rams = sorted((name for name, cell in cells.items() if cell["type"] == "DP16KD"), key=natural)
    sites = ram_sites(device)
    near = dict(neighbours(rams, multipliers))
    if not near or len(rams) > len(sites):
        return {}
    costs = np.array([[sum(abs(site.x - other.x) + abs(site.y - other.y) for other in others) * FINE // len(others)
                       for site in sites] for others in near.values()])
    return {name: sites[k] for name, k in zip(near, matching(costs), strict=True)}


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
        around, near = next(((path[:k], found) for k in range(len(path) - 1, STAGE - 1, -1) if (
            found := [other for other in multipliers if other.startswith(".".join(path[:k]) + ".")])), ([], []))
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
    found = re.fullmatch(r"(.*?)(?:bank\d+_)?column(\d+)", ram)
    return (found[1], int(found[2])) if found else (ram, 0)


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
