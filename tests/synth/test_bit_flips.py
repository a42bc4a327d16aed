"""Single bits turned in a bitstream that make another design: the simulation answers wrongly, all in one compilation.

Netlists with a choice are also checked by themselves, on cells that are easy to follow.
"""

from __future__ import annotations

import copy
import lzma
from collections.abc import Sequence

import pytest
from hwflow_base.errors import MissingTool

from bench.bit_flips import Flips
from bench.merged_netlists import CHOICE, can_merge, meaning_of, merged, reached
from hwflow.synth import load_board
from hwflow.synth.families.ice40.readback.database import find_database
from hwflow.synth.yosys_json import Module
from tests.synth.bit_places import ICE40Bits
from tests.synth.test_readback_ice40 import RECORDED


def table(init: str, into: int, out: int) -> dict:
    return {"type": "SB_LUT4", "parameters": {"LUT_INIT": init}, "attributes": {},
            "port_directions": {"I0": "input", "O": "output"}, "connections": {"I0": [into], "O": [out]}}


def module() -> Module:
    """a -> one -> two -> b."""
    return {"ports": {"a": {"direction": "input", "bits": [2]}, "b": {"direction": "output", "bits": [4]}},
            "cells": {"one": table("01", 2, 3), "two": table("10", 3, 4)}, "netnames": {}}


def test_meanings_do_not_depend_on_numbers() -> None:
    other: Module = {**module(), "ports": {"a": {"direction": "input", "bits": [7]},
                                           "b": {"direction": "output", "bits": [2]}},
                     "cells": {"two": table("10", 5, 2), "one": table("01", 7, 5)}}
    assert meaning_of(module()) == meaning_of(other)
    assert can_merge(module(), other)
    other["cells"]["two"]["connections"]["I0"] = [7]
    assert meaning_of(module()) != meaning_of(other)


def test_a_netlist_with_choices() -> None:
    """1 has another table, 2 has no second one: b is a choice of `one` there."""
    base, first, second = module(), module(), module()
    first["cells"]["one"]["parameters"]["LUT_INIT"] = "11"
    del second["cells"]["two"]
    second["ports"]["b"]["bits"] = [3]
    kept = copy.deepcopy(base)
    found = merged(base, {1: first, 2: second})
    assert base == kept
    cells = found["cells"]
    choices = {int(cell["parameters"]["NUMBER"], 2): cell["connections"] for cell in cells.values()
               if cell["type"] == CHOICE}
    assert cells["netlist1_one"]["parameters"] == {"LUT_INIT": "11"}
    assert choices[1] == {"BASE": cells["one"]["connections"]["O"], "OTHER": cells["netlist1_one"]["connections"]["O"],
                          "O": cells["two"]["connections"]["I0"]}
    assert choices[2] == {"BASE": cells["two"]["connections"]["O"], "OTHER": cells["two"]["connections"]["I0"],
                          "O": found["ports"]["b"]["bits"]}


def test_entries_that_are_never_reached() -> None:
    """Of a table with a level and twice the same net four entries of sixteen are left."""
    base = module()
    base["cells"]["one"] = {**table("1" * 16, 2, 3),
                            "connections": {"I0": [2], "I1": ["1"], "I2": [2], "I3": [9], "O": [3]}}
    assert reached(base)["cells"]["one"]["parameters"]["LUT_INIT"] == "1000010010000100"
    assert base["cells"]["one"]["parameters"]["LUT_INIT"] == "1" * 16


@pytest.mark.parametrize("pins", ["ABCD", ("I0", "I1", "I2", "I3")])
def test_tables_of_other_families(pins: Sequence[str]) -> None:
    """Inputs have the names of their family; the highest is a level."""
    base = module()
    base["cells"]["one"] = {
        "type": "LUT4", "parameters": {"INIT": "1" * 16}, "attributes": {},
        "port_directions": {**dict.fromkeys(pins, "input"), "Z": "output"},
        "connections": {**{pin: [net] for pin, net in zip(pins, (2, 3, 4, "0"), strict=True)}, "Z": [5]}}
    assert reached(base)["cells"]["one"]["parameters"]["INIT"] == "0" * 8 + "1" * 8


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Flips:
    try:
        find_database("5k")
    except MissingTool as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("flips")
    (folder / "top.bin").write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return Flips(load_board("icebreaker"), folder, folder / "top.bin", None)


def swapped(base: Module, one: str, other: str) -> Module:
    """With the pads of two ports the other way round."""
    changed = copy.deepcopy(base)
    bits = changed["ports"][one]["bits"], changed["ports"][other]["bits"]
    bits[0][0], bits[1][0] = bits[1][0], bits[0][0]
    return changed


#: Bits of the recorded design by the tile, the setting and its bit: (1, 14) adds up products, (4, 13) counts rows.
TURNED = {"an entry of a table": ((1, 14), "LC_3", 4),
          "set for reset": ((4, 13), "LC_3", 18), "a setting of the multiplier": ((0, 18), "IpConfig.CBIT_0", 0)}
#: The lowest bit of word 40 of a ROM.
WORD = ("memory", (0, 40, 143))


@pytest.mark.slow
def test_what_computes_something_else_is_caught(flips: Flips) -> None:
    """A table, the mode of a flip-flop, contents of a ROM, a setting of the multiplier, two pads."""
    assert isinstance(flips.bits, ICE40Bits)
    places = {name: ("cells", flips.bits.changer.setting(*bit)) for name, bit in TURNED.items()}
    others: dict[str, Module] = {"two pads": swapped(flips.base, "tx", "led")}
    for name, place in {**places, "a word of a ROM": WORD}.items():
        netlist = flips.netlist(place)
        assert not isinstance(netlist, str), netlist
        others[name] = netlist
    numbered = dict(enumerate(others.values(), 1))
    compiled = flips.compiled(merged(flips.base, numbered), flips.folder / "merged")
    wanted = flips.wanted(compiled)
    assert flips.played(compiled, 0, wanted) == wanted
    same = {name: flips.played(compiled, number, wanted) == wanted for number, name in enumerate(others, 1)}
    assert same == dict.fromkeys(others, False)


def test_a_carry_that_is_off_is_reported(flips: Flips) -> None:
    assert isinstance(flips.bits, ICE40Bits)
    found = flips.netlist(("cells", flips.bits.changer.setting((1, 14), "LC_3", 8)))
    assert found == "logic tile 1,14 LC_4: X1/Y14/lutff_3/cout must have a driver"
