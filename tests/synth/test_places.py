"""Where multipliers and block RAMs stand: on netlists made by hand, against the boards' counts and nextpnr's names."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwflow.synth import load_board
from hwflow.synth.families.ecp5.placement import CROWDED, block_places, matching
from hwflow.synth.families.ecp5.sites import Site, dsp_slices, multiplier_sites, ram_sites
from hwflow.synth.toolchain import ToolRun, find_tool, run_tool
from tests.synth.conftest import need

DEVICE = "LFE5U-85F"
ALL = len(multiplier_sites(DEVICE))
KINDS = {"MULT18": "MULT18X18D", "ALU54": "ALU54B", "EBR": "DP16KD"}
#: As many as a device has: multipliers, block RAMs.
DEVICES = {"LFE5U-12F": (28, 56), "LFE5U-25F": (28, 56), "LFE5U-45F": (72, 108), "LFE5UM5G-85F": (156, 208)}


def cell(kind: str, **wires: int) -> dict[str, Any]:
    return {"hide_name": 0, "type": kind, "parameters": {}, "attributes": {},
            "port_directions": {pin: "input" if pin in ("CLK0", "CLKA") or kind == "ALU54B" else "output"
                                for pin in wires},
            "connections": {pin: [wire] for pin, wire in wires.items()}}


def network(stages: int, multipliers: int, columns: int) -> dict[str, Any]:
    """Stages of two banks of multipliers each, with weights in so many columns, constants and a window."""
    cells = {}
    for k in reversed(range(stages)):
        stage = f"core.stage{k}_conv"
        for bank in range(2):
            path = f"{stage}.array.bank{bank}"
            cells |= {f"{path}.products.multiplier{n}": cell("MULT18X18D") for n in range(multipliers)}
            cells |= {f"{path}.weights.bank{deep}_column{n}": cell("DP16KD")
                      for n in range(columns) for deep in range(2)}
        cells[f"{stage}.window.ring.bank0_column0"] = cell("DP16KD")
        cells[f"{stage}.requantizer0.constants.bank0_column0"] = cell("DP16KD")
    return cells


def checked(cells: dict[str, Any], device: str = DEVICE) -> dict[str, Site]:
    """The places: each of its kind, on the device and used once, whatever the order of the cells."""
    places = block_places(cells, device)
    there = {site.name for row in dsp_slices(device) for part in row for site in (*part.multipliers, part.adder)}
    there |= {site.name for site in ram_sites(device)}
    names = [site.name for site in places.values()]
    assert len(set(names)) == len(names)
    assert set(names) <= there
    for name, site in places.items():
        assert cells[name]["type"] == KINDS[re.sub(r"_?\d+$", "", site.name.split("/")[2])]
    assert block_places(dict(reversed(cells.items())), device) == places
    return places


def distance(a: Site, b: Site) -> int:
    return abs(a.x - b.x) + abs(a.y - b.y)


@pytest.mark.parametrize("device", DEVICES)
def test_as_many_sites_as_the_device_has(device: str) -> None:
    for sites, count in zip((multiplier_sites(device), ram_sites(device)), DEVICES[device], strict=True):
        assert len(sites) == len({site.name for site in sites}) == len({site[1:] for site in sites}) == count


@pytest.mark.parametrize("board", ["ulx3s_45f", "ulx3s_85f", "orangecrab_25f"])
def test_as_many_sites_as_the_board_file_says(board: str) -> None:
    loaded = load_board(board)
    assert len(multiplier_sites(loaded.device)) == loaded.resources.dsp
    assert len(ram_sites(loaded.device)) == loaded.resources.ram


@pytest.mark.parametrize("device", DEVICES)
def test_the_walk_turns_at_the_ends_of_rows(device: str) -> None:
    """Neighbours in the walk are at most as far from each other as two blocks with the spine between, or two rows."""
    count = DEVICES[device][0]
    cells = {f"core.stage{k}_conv.multiplier": cell("MULT18X18D") for k in reversed(range(count))}
    places = checked(cells, device)
    walk = [places[f"core.stage{k}_conv.multiplier"] for k in range(count)]
    for a, b in itertools.pairwise(walk):
        assert abs(a.x - b.x) <= 6 if a.y == b.y else a.x == b.x


@pytest.mark.parametrize(("stages", "multipliers", "columns"), [(6, 13, 3), (3, 24, 6), (10, 7, 2)])
def test_weights_stand_beside_their_multipliers(stages: int, multipliers: int, columns: int) -> None:
    """No further than a row of RAMs is from one of multipliers and the columns that stand there in two rows."""
    cells = network(stages, multipliers, columns)
    places = checked(cells)
    assert len(places) == len(cells)
    for k, bank in itertools.product(range(stages), range(2)):
        path = f"core.stage{k}_conv.array.bank{bank}"
        for column, deep in itertools.product(range(columns), range(2)):
            fed = places[f"{path}.products.multiplier{(2 * column + 1) * multipliers // (2 * columns)}"]
            assert distance(places[f"{path}.weights.bank{deep}_column{column}"], fed) < 48


def test_no_memory_is_far_from_its_stage() -> None:
    """A row of RAMs has no room for all that a stage of a whole row of multipliers has: its window, whose words a RAM
    keeps in four columns, must not be what is sent to the other end of the device."""
    cells = {}
    for k in range(3):
        cells |= {f"core.stage{k}_dense.array.bank{bank}.multiplier{n}": cell("MULT18X18D")
                  for bank in range(4) for n in range(12)}
        cells |= {f"core.stage{k}_dense.array.bank{bank}.weights.bank0_column{n}": cell("DP16KD")
                  for bank in range(4) for n in range(12)}
        cells |= {f"core.stage{k}_dense.window.ring.bank0_column{n}": cell("DP16KD") for n in range(4)}
    places = checked(cells)
    for k, column in itertools.product(range(3), range(4)):
        first = [places[f"core.stage{k}_dense.array.bank0.multiplier{n}"] for n in range(12)]
        ring = places[f"core.stage{k}_dense.window.ring.bank0_column{column}"]
        assert min(distance(ring, site) for site in first) < 24


def test_what_belongs_to_no_multiplier_is_left_to_nextpnr() -> None:
    others = {name: cell("DP16KD") for name in ("link.data.ram.bank0_column0", "core.stage77_pool.fold.bank0_column0",
                                                "core.fork_stage1_conv.queue0.ram.bank0_column0")}
    assert not set(checked(network(6, 13, 3) | others)) & set(others)


@pytest.mark.parametrize("cells", [
    {}, {"core.stage0_add.sum": cell("TRELLIS_FF")}, {"core.stage0_pool.fold.bank0_column0": cell("DP16KD")},
    {f"core.stage0_conv.multiplier{k}": cell("MULT18X18D") for k in range(int(CROWDED * ALL))},
    {f"core.stage0_conv.multiplier{k}": cell("MULT18X18D") for k in range(ALL + 1)}])
def test_designs_without_many_multipliers_or_with_too_many(cells: dict[str, Any]) -> None:
    assert checked(cells) == {}


def test_multipliers_alone_get_places_without_rams_or_with_too_many() -> None:
    multipliers = {f"core.stage0_conv.multiplier{k}": cell("MULT18X18D") for k in range(ALL)}
    assert checked(multipliers).keys() == multipliers.keys()
    rams = {f"core.stage0_conv.ring{k}": cell("DP16KD") for k in range(len(ram_sites(DEVICE)) + 1)}
    assert checked(multipliers | rams).keys() == multipliers.keys()


def summed(pairs: int, alone: int) -> dict[str, Any]:
    """Pairs of multipliers before an adder, and others."""
    cells = {}
    for k in range(pairs):
        path = f"core.stage{k}_conv.array"
        cells |= {f"{path}.multiplier{n}": cell("MULT18X18D", P0=10 * k + n) for n in range(2)}
        cells[f"{path}.sum0"] = cell("ALU54B", MA0=10 * k + 1, MB0=10 * k)
    return cells | {f"core.stage{2 * k}_conv.requantizer.multiplier0": cell("MULT18X18D", P0=5000 + k)
                    for k in range(alone)}


def test_an_adder_and_its_multipliers_share_a_slice() -> None:
    cells = summed(60, 36)
    places = checked(cells)
    assert places.keys() == cells.keys()
    found = {part.adder: part.multipliers for row in dsp_slices(DEVICE) for part in row}
    for k in range(60):
        path = f"core.stage{k}_conv.array"
        assert found[places[f"{path}.sum0"]] == (places[f"{path}.multiplier1"], places[f"{path}.multiplier0"])


@pytest.mark.parametrize("change", [{"MA0": 77}, {"MB0": 1}])
def test_an_adder_of_anything_else_leaves_all_to_nextpnr(change: dict[str, int]) -> None:
    cells = summed(60, 0)
    cells["core.stage0_conv.array.sum0"] = cell("ALU54B", **({"MA0": 1, "MB0": 0} | change))
    assert checked(cells) == {}


def test_the_matching_is_the_cheapest() -> None:
    numbers = np.random.default_rng(5)
    for rows, columns in itertools.product(range(1, 6), range(7)):
        if columns >= rows:
            costs = numbers.integers(0, 9, (rows, columns))
            chosen = matching(costs)
            assert len(set(chosen)) == rows
            assert costs[range(rows), chosen].sum() == min(
                costs[range(rows), other].sum() for other in itertools.permutations(range(columns), rows))


@pytest.mark.parametrize(("die", "device"), [
    ("25k", "LFE5U-25F"), pytest.param("45k", "LFE5U-45F", marks=pytest.mark.slow),
    pytest.param("85k", DEVICE, marks=pytest.mark.slow)])
def test_nextpnr_knows_every_place(die: str, device: str, tmp_path: Path) -> None:
    need("ecp5")
    sites = [*multiplier_sites(device), *ram_sites(device)]
    cells = {f"cell{k}": cell(*(("MULT18X18D",) if "MULT" in site.name else ("DP16KD",)),
                              **({"CLK0": 2, "P0": 10 + k} if "MULT" in site.name else {"CLKA": 2, "DOA0": 10 + k}))
             | {"attributes": {"BEL": site.name}} for k, site in enumerate(sites)}
    top = {"attributes": {"top": "1"}, "ports": {"clk": {"direction": "input", "bits": [2]}}, "cells": cells,
           "netnames": {"clk": {"hide_name": 0, "bits": [2], "attributes": {}}}}
    (tmp_path / "netlist.json").write_text(json.dumps({"creator": "", "modules": {"top": top}}))
    run_tool(find_tool("nextpnr-ecp5"), [f"--{die}", "--json", "netlist.json", "--write", "placed.json", "--no-route",
                                         "--lpf-allow-unconstrained", "--package", "CABGA381"],
             ToolRun(tmp_path, tmp_path / "log", "places"), progress=lambda text: None)
    placed = json.loads((tmp_path / "placed.json").read_text())["modules"]["top"]["cells"]
    assert {name: placed[name]["attributes"]["NEXTPNR_BEL"] for name in cells} == {
        name: each["attributes"]["BEL"] for name, each in cells.items()}
