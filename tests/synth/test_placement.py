"""Places of multipliers and copies of the reset, on netlists made by hand; sites against the boards' own counts."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from hwflow.synth import load_board
from hwflow.synth.placement import CROWDED, MOST_RESETS, multiplier_sites, prepared


def flip_flop(q: int, d: int | str, reset: int | str = "0") -> dict[str, Any]:
    return {"type": "TRELLIS_FF", "parameters": {"REGSET": "SET"}, "attributes": {},
            "port_directions": {"CLK": "input", "DI": "input", "LSR": "input", "Q": "output"},
            "connections": {"CLK": [2], "DI": [d], "LSR": [reset], "Q": [q]}}


def multiplier() -> dict[str, Any]:
    return {"type": "MULT18X18D", "parameters": {}, "attributes": {}, "port_directions": {}, "connections": {}}


def netlist(cells: dict[str, Any]) -> str:
    top = {"attributes": {"top": "1"}, "ports": {"clk": {"direction": "input", "bits": [2]}}, "cells": cells,
           "netnames": {}}
    return json.dumps({"modules": {"top": top, "TRELLIS_FF": {"attributes": {}, "cells": {}}}})


def cells_of(text: str) -> dict[str, Any]:
    return json.loads(text)["modules"]["top"]["cells"]


@pytest.mark.parametrize("board", ["ulx3s_85f"])
def test_every_multiplier_of_a_device_has_a_site(board: str) -> None:
    sites = multiplier_sites(load_board(board).device)
    assert len(sites) == len(set(sites)) == load_board(board).resources.dsp


@pytest.mark.parametrize(("device", "count"), [("LFE5U-12F", 28), ("LFE5U-25F", 28), ("LFE5U-45F", 72),
                                               ("LFE5UM5G-85F", 156)])
def test_the_walk_turns_at_the_ends_of_rows(device: str, count: int) -> None:
    """Neighbours in the walk are at most as far from each other as two blocks with the spine between, or two rows."""
    sites = multiplier_sites(device)
    assert len(sites) == count
    places = [tuple(int(part[1:]) for part in site.split("/")[:2]) for site in sites]
    for (x, y), (next_x, next_y) in itertools.pairwise(places):
        assert abs(x - next_x) <= 6 if y == next_y else x == next_x


def test_multipliers_stand_in_the_order_of_the_stages() -> None:
    board = load_board("ulx3s_85f")
    count = int(CROWDED * board.resources.dsp) + 1
    names = [f"core.stage{k}_conv.array.bank0.products.multiplier0" for k in range(count)]
    cells = cells_of(prepared(netlist({name: multiplier() for name in sorted(names)}), board))
    assert [cells[name]["attributes"]["BEL"] for name in names] == multiplier_sites(board.device)[:count]


def test_few_multipliers_are_left_to_the_placer() -> None:
    board = load_board("ulx3s_85f")
    cells = {f"core.stage0_conv.multiplier{k}": multiplier() for k in range(int(CROWDED * board.resources.dsp))}
    assert cells_of(prepared(netlist(cells), board)) == cells


def with_reset(readers: int) -> dict[str, Any]:
    """A reset that `readers` registers of two stages and one around the core read, one of them as data."""
    cells = {"clocking.reset_TRELLIS_FF_Q": flip_flop(10, 9, 8), "blink": flip_flop(11, 12, 10),
             "core.stage1_add.seen": flip_flop(13, 10)}
    for k in range(readers - 1):
        cells[f"core.stage{k % 2}_{'add' if k % 2 else 'conv'}.count{k}"] = flip_flop(20 + k, "1", 10)
    return cells


def test_each_stage_has_a_copy_of_the_reset() -> None:
    before = with_reset(MOST_RESETS)
    after = cells_of(prepared(netlist(before), load_board("ulx3s_85f")))
    copies = {name: cell for name, cell in after.items() if name not in before}
    assert sorted(copies) == [f"clocking.reset_TRELLIS_FF_Q.{stage}" for stage in ("stage0_conv", "stage1_add")]
    original = after["clocking.reset_TRELLIS_FF_Q"]
    assert original == before["clocking.reset_TRELLIS_FF_Q"]
    used = {bit for cell in before.values() for bits in cell["connections"].values() for bit in bits}
    for name, copy in copies.items():
        (wire,) = copy["connections"]["Q"]
        assert wire not in used
        assert copy == original | {"connections": original["connections"] | {"Q": [wire]}}
        part = name.rpartition(".")[2]
        for reader, cell in before.items():
            if f".{part}." in reader:
                renamed = {pin: [wire if bit == 10 else bit for bit in bits]
                           for pin, bits in cell["connections"].items()}
                assert after[reader] == cell | {"connections": renamed}
    assert after["blink"] == before["blink"]


def test_a_small_reset_and_other_families_stay_as_they_are() -> None:
    small = netlist(with_reset(MOST_RESETS - 1))
    assert cells_of(prepared(small, load_board("ulx3s_85f"))) == cells_of(small)
    large = netlist(with_reset(MOST_RESETS))
    assert prepared(large, load_board("icebreaker")) == large
