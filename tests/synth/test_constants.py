"""Constants near where they are used: the same values at every pin, on a netlist made by hand."""

from __future__ import annotations

import copy
from typing import Any

from hwflow.synth.families.ecp5.placement import FEWEST, local_constants
from hwflow.synth.families.ecp5.sites import Site, block_at, multiplier_sites

DEVICE = "LFE5U-25F"


def multiplier() -> dict[str, Any]:
    wires = {"CLK0": [2], "CLK1": ["0"], "CE0": ["1"], "CE1": ["1"], "RST0": ["0"], "SOURCEA": ["0"], "SIGNEDB": ["1"],
             "A0": ["0"], "B0": [5], "P0": [6]}
    return {"type": "MULT18X18D", "attributes": {}, "port_directions": {}, "connections": wires}


def carry(first: int | str) -> dict[str, Any]:
    return {"type": "CCU2C", "attributes": {}, "port_directions": {}, "connections": {"CIN": [first], "A0": ["0"]}}


def design() -> tuple[dict[str, Any], dict[str, Site]]:
    """Six multipliers in two blocks, and carry chains of three parts."""
    cells = {f"core.stage0_conv.array.bank0.products.multiplier{k}": multiplier() for k in range(6)}
    places = dict(zip(cells, multiplier_sites(DEVICE), strict=False))
    cells |= {f"core.stage1_conv.window.count{k}": carry("01"[k % 2]) for k in range(2 * FEWEST)}
    cells |= {f"core.stage2_conv.window.count{k}": carry("0") for k in range(FEWEST - 1)}
    cells |= {f"link.count{k}": carry("0") for k in range(2 * FEWEST)}
    cells["core.stage1_conv.window.next"] = carry(7)
    return {"cells": cells, "netnames": {}}, places


def test_every_pin_has_the_value_that_it_had() -> None:
    module, places = design()
    before = copy.deepcopy(module["cells"])
    end = local_constants(module, places, DEVICE, 100)
    tables = {name: cell for name, cell in module["cells"].items() if name not in before}
    values = {cell["connections"]["Z"][0]: cell["parameters"]["INIT"] for cell in tables.values()}
    assert set(values) == set(range(100, end))
    assert set(values.values()) == {16 * "0", 16 * "1"}
    for name, cell in before.items():
        after = module["cells"][name]["connections"]
        assert cell["connections"] == {
            pin: [values[bit][0] if bit in values else bit for bit in bits] for pin, bits in after.items()}


def test_blocks_and_parts_have_tables_of_their_own() -> None:
    module, places = design()
    local_constants(module, places, DEVICE, 100)
    cells = module["cells"]
    path = "core.stage0_conv.array.bank0.products"
    assert {name for name in cells if "constant" in name} == {
        *(f"{path}.constant{value}_{block}" for value in (0, 1) for block in ("X4Y13", "X13Y13")),
        "core.stage1_conv.window.constant0", "core.stage1_conv.window.constant1"}
    for name, site in places.items():
        wires = cells[name]["connections"]
        tables = {value: cells[f"{path}.constant{value}_{block_at(site, DEVICE)}"]["connections"]["Z"]
                  for value in (0, 1)}
        assert wires["CLK1"] == wires["RST0"] == wires["SOURCEA"] == tables[0]
        assert wires["CE0"] == wires["CE1"] == wires["SIGNEDB"] == tables[1]
        assert (wires["CLK0"], wires["A0"], wires["B0"]) == ([2], ["0"], [5])


def test_what_has_no_place_and_stands_alone_stays() -> None:
    module, _ = design()
    before = copy.deepcopy(module["cells"])
    local_constants(module, {}, DEVICE, 100)
    changed = {name for name, cell in before.items() if module["cells"][name] != cell}
    assert changed == {f"core.stage1_conv.window.count{k}" for k in range(2 * FEWEST)}
