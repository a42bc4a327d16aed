"""Copies of the reset, and that places reach the netlist, on netlists made by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hwflow.synth import Board, load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.families.ecp5.copies import GROUP, MOST_READERS, MOST_RESETS
from hwflow.synth.families.ecp5.placement import without_places
from hwflow.synth.families.ecp5.sites import multiplier_sites


def flip_flop(q: int, d: int | str, reset: int | str = "0") -> dict[str, Any]:
    return {"type": "TRELLIS_FF", "parameters": {"REGSET": "SET"}, "attributes": {},
            "port_directions": {"CLK": "input", "DI": "input", "LSR": "input", "Q": "output"},
            "connections": {"CLK": [2], "DI": [d], "LSR": [reset], "Q": [q]}}


def prepared(text: str, board: Board) -> str:
    return FAMILIES[board.family].prepared(text, board)


def netlist(cells: dict[str, Any]) -> str:
    top = {"attributes": {"top": "1"}, "ports": {"clk": {"direction": "input", "bits": [2]}}, "cells": cells,
           "netnames": {}}
    return json.dumps({"modules": {"top": top, "TRELLIS_FF": {"attributes": {}, "cells": {}}}})


def cells_of(text: str) -> dict[str, Any]:
    return json.loads(text)["modules"]["top"]["cells"]


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


def table(z: int, *inputs: int) -> dict[str, Any]:
    return {"type": "LUT4", "parameters": {"INIT": "0110100110010110"}, "attributes": {},
            "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
            "connections": {**{pin: [bit] for pin, bit in zip("ABCD", (*inputs, "0", "0", "0", "0"), strict=False)},
                            "Z": [z]}}


def with_words(bits: int) -> dict[str, Any]:
    """A word of `bits` registers with one enable, chosen by a register that counts itself."""
    cells = {"core.stage0_conv.used_TRELLIS_FF_Q": flip_flop(10, 11), "core.stage0_conv.next": table(11, 10, 9),
             "core.stage0_conv.pop": table(12, 10, 9)}
    for k in range(bits):
        cells[f"core.stage0_conv.word[{k}]_TRELLIS_FF_Q"] = word = flip_flop(1000 + k, 5000 + k)
        word["port_directions"]["CE"], word["connections"]["CE"] = "input", [12]
        cells[f"core.stage0_conv.word[{k}]_TRELLIS_FF_Q_DI_LUT4_Z"] = table(5000 + k, 10, 1000 + k)
    return cells


def merged(cells: dict[str, Any]) -> dict[str, Any]:
    """`cells` with each copy's wire replaced by the original's, and without the copies."""
    wires = {}
    for name, cell in cells.items():
        if ".copy" in name:
            pin = "Q" if cell["type"] == "TRELLIS_FF" else "Z"
            original = "core.stage0_conv.next" if name.endswith(".DI") else name.partition(".copy")[0]
            wires[cell["connections"][pin][0]] = cells[original]["connections"][pin][0]
    made = {name: cell | {"connections": {
        pin: [wires.get(bit, bit) for bit in bits] for pin, bits in cell["connections"].items()}}
        for name, cell in cells.items()}
    for name, cell in made.items():  # a copy is a cell like its original
        if ".copy" in name:
            assert cell == made["core.stage0_conv.next" if name.endswith(".DI") else name.partition(".copy")[0]]
    return {name: cell for name, cell in made.items() if ".copy" not in name}


def test_what_many_cells_read_has_a_copy_for_each_group_of_them() -> None:
    before = with_words(3 * GROUP)
    after = cells_of(prepared(netlist(before), load_board("ulx3s_85f")))
    assert sorted(set(after) - set(before)) == [
        "core.stage0_conv.pop.copy1", "core.stage0_conv.pop.copy2",
        *(f"core.stage0_conv.used_TRELLIS_FF_Q.copy{k}{end}" for k in (1, 2, 3) for end in ("", ".DI"))]
    assert merged(after) == before
    reads = Counter(bit for cell in after.values() for pin, bits in cell["connections"].items()
                    if cell["port_directions"][pin] == "input" and pin != "CLK" for bit in bits if bit != "0")
    driven = {bit for name, cell in after.items() for pin, bits in cell["connections"].items()
              if cell["port_directions"][pin] == "output" for bit in bits}
    assert max(reads[bit] for bit in driven) <= GROUP + 3  # its own table has copies, which read it too
    enables = [after[f"core.stage0_conv.word[{k}]_TRELLIS_FF_Q"]["connections"]["CE"] for k in range(3 * GROUP)]
    assert enables == sorted(enables, key=enables.index)  # neighbours share a copy
    assert len({wire for (wire,) in enables}) == 3


def test_what_few_cells_read_and_what_is_in_a_slice_with_its_reader_stays() -> None:
    few = with_words(MOST_READERS - 3)
    assert cells_of(prepared(netlist(few), load_board("ulx3s_85f"))) == few
    wide = with_words(3 * GROUP)
    for name, wire in (("pop", 12), ("used", 10)):
        wide[f"core.stage0_conv.{name}_mux"] = {
            "type": "PFUMX", "parameters": {}, "attributes": {}, "port_directions": {"ALUT": "input"},
            "connections": {"ALUT": [wire]}}
    assert cells_of(prepared(netlist(wide), load_board("ulx3s_85f"))) == wide


def crowd(count: int) -> dict[str, Any]:
    return {f"core.stage{k}_conv.array.bank0.products.multiplier0": {
        "type": "MULT18X18D", "parameters": {}, "attributes": {"keep": "1"}, "port_directions": {}, "connections": {}}
        for k in range(count)}


def test_places_are_written_and_taken_out_again() -> None:
    board = load_board("ulx3s_85f")
    before = netlist(crowd(board.resources.dsp))
    after = prepared(before, board)
    assert {cell["attributes"]["BEL"] for cell in cells_of(after).values()} == {
        site.name for site in multiplier_sites(board.device)}
    assert json.loads(without_places(after)) == json.loads(before)
    assert cells_of(prepared(netlist(crowd(9)), board)) == crowd(9)
