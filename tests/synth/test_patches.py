"""New contents in routed designs: the same as if the tools had been given them from the start."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Signal
from hwflow_base.errors import HwflowError, MissingTool

from hwflow.synth import load_board, synthesize
from hwflow.synth.boards import Board
from hwflow.synth.families import FAMILIES
from hwflow.synth.families.ice40.family import with_table
from hwflow.synth.placement import rom_cells_of, saved_rom_cells
from hwflow.synth.rom_contents import Contents, cells_of, permuted, replaced, separated
from hwflow.synth.toolchain import ToolRun, find_tool, run_tool, tools_of_family
from hwflow.synth.top import TextOnBoard

#: Width and depth: tables of every depth, blocks of several shapes, and words in both.
SIZES = [(8, 8), (3, 16), (5, 30), (2, 64), (4, 48), (41, 128), (9, 2000)]


def roms(seed: int) -> list[np.ndarray]:
    """Contents; of an even seed with constant and equal bits."""
    random = np.random.default_rng(seed)
    made = []
    for width, depth in SIZES:
        bits = random.integers(0, 2, (depth, width), dtype=np.uint8)
        if seed % 2 == 0:
            bits[:, 0], bits[:, -1] = 0, bits[:, 1]
        made.append(np.packbits(bits, axis=1, bitorder="little"))
    return made


def text_of(board: Board, seed: int) -> str:
    """A top whose output depends on every bit of its ROMs; a shift register is their address."""
    m, technology = Module(), board.technology()
    clk, led = Signal(name="clk"), Signal(min(3, len(board.leds)), name="led")
    pins = {name: Signal(name=name) for name in ("rx", "tx", *(["rst"] if board.reset is not None else []))}
    m.domains.sync = ClockDomain(reset_less=True)
    address, out = Signal(16), Signal()
    m.d.comb += [ClockSignal().eq(clk), led.eq(address), pins["tx"].eq(out)]
    m.d.sync += address.eq(Cat(pins["rx"] ^ pins.get("rst", 0), address))
    parities = []
    for k, ((width, _), contents) in enumerate(zip(SIZES, roms(seed), strict=True)):
        m.submodules[f"rom{k}"] = rom = technology.rom(width=width, contents=contents, name=f"rom{k}")
        m.d.comb += rom.addr.eq(address ^ (address >> 3))
        parities.append(rom.data.xor())
    m.d.sync += out.eq(Cat(*parities).xor())
    return rtlil.convert(m, name="top", ports=[clk, led, *pins.values()], emit_src=False)


def routed(board: Board, seed: int, folder: Path) -> Path:
    try:
        tools_of_family(board.family)
    except MissingTool as error:
        pytest.skip(str(error))
    synthesize(TextOnBoard(text_of(board, seed), board), folder)
    return folder


def patched(board: Board, folder: Path, old: Contents, new: Contents) -> str:
    family = FAMILIES[board.family]
    layout = folder / "layout" / family.layout
    netlist = layout if board.family == "gowin" else layout.with_name("routed.json")
    rom_cells = rom_cells_of(netlist.read_text(), family, str(netlist))
    assert saved_rom_cells(folder, netlist, family) == rom_cells
    return family.patched(layout.read_text(), rom_cells, old, new, str(layout))


# Without tools


def test_contents_are_all_that_differs() -> None:
    board = load_board("ulx3s_85f")
    (structure, contents), (same, others) = (separated(text_of(board, seed)) for seed in (1, 2))
    assert structure == same
    assert set(contents) == set(others)
    assert {name for name, _ in contents} == {*(f"rom{k}" for k in range(len(SIZES))), "rom5_high"}
    assert sum(contents[place] != others[place] for place in contents) > 50
    assert "INIT" in structure
    assert not re.search(r"INIT\w* \d+'[01]", structure)


def test_a_place_that_is_taken_twice_is_refused() -> None:
    cell = 'attribute \\hwflow_rom "a"\n  attribute \\hwflow_block "0"\n  cell \\LUT4 \\x\n  end\n'
    with pytest.raises(ValueError, match="part '0' of ROM 'a' must be in one cell, not in two"):
        separated(cell + cell)


@pytest.mark.parametrize("inputs", [{0: 0, 1: 1, 2: 2, 3: 3}, {0: 2, 1: 0, 2: 3, 3: 1}, {0: 3, 1: 2}, {}])
def test_a_table_gives_the_same_through_swapped_inputs(inputs: dict[int, int]) -> None:
    period = 1 << len(inputs)
    values = np.resize(np.random.default_rng(len(inputs)).integers(0, 2, period), 16)
    bits = "".join(map(str, values[::-1]))
    physical = permuted(bits, inputs)
    for address in range(period):
        word = sum(1 << inputs[k] for k in inputs if address >> k & 1)
        assert physical[15 - word] == str(values[address])


def test_a_table_in_a_logic_tile_of_ice40() -> None:
    rows = ["0" * 54, "1" * 54]
    made = with_table(rows, "1" * 8 + "0" * 8)
    assert [len(row) for row in made] == [54, 54]
    assert made[0][:36] == rows[0][:36]
    assert made[1][46:] == rows[1][46:]
    assert made[0][36 + 8:36 + 10] == "00"  # carry and flip-flop
    assert with_table(made, "1" * 8 + "0" * 8) == made
    assert sum(a != b for a, b in zip("".join(made), "".join(with_table(made, "0" * 16)), strict=True)) == 8


NETLIST = {"modules": {"top": {"cells": {"x": {
    "type": "LUT4", "attributes": {"hwflow_rom": "a", "hwflow_block": "0"}, "parameters": {"INIT": "0001"}}}}}}


@pytest.mark.parametrize(("old", "new", "message"), [
    ({("a", "0"): {"INIT": "0011"}}, {("a", "0"): {"INIT": "0111"}}, "other contents are there"),
    ({}, {}, "must be a part of this design, once"),
    ({("a", "0"): {"INIT": "0001"}, ("b", "1"): {}}, {("a", "0"): {"INIT": "0111"}, ("b", "1"): {}},
     "not lack part '1' of 'b'"),
])
def test_a_netlist_of_another_design_is_refused(old: Contents, new: Contents, message: str) -> None:
    with pytest.raises(HwflowError, match=message):
        replaced(json.loads(json.dumps(NETLIST)), old, new, "netlist.json")


# With tools


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_25f", "tangnano9k"])
def test_a_patched_design_is_the_routed_design_of_the_new_contents(name: str, tmp_path: Path) -> None:
    """Placement and routing do not depend on contents here, so the bitstreams of both ways are equal byte for byte."""
    board = load_board(name)
    first, second = routed(board, 1, tmp_path / "first"), routed(board, 2, tmp_path / "second")
    (_, old), (_, new) = (separated((folder / "netlist" / "top.il").read_text()) for folder in (first, second))
    made = patched(board, first, old, new)
    if board.family == "ecp5":
        assert made == (second / "layout" / FAMILIES["ecp5"].layout).read_text()
        with pytest.raises(HwflowError, match="other contents are there"):
            patched(board, first, new, old)
    else:  # numbers of nets, which say nothing, differ in the netlist
        (tmp_path / "layout.json").write_text(made)
        run_tool(find_tool("gowin_pack"), ["-d", board.chip, "-o", "top.fs", "layout.json"],
                 ToolRun(tmp_path, tmp_path / "log", "bitstream"), progress=print)
        assert (tmp_path / "top.fs").read_bytes() == (second / "bitstream" / "top.fs").read_bytes()
    netlist = json.loads((first / "netlist" / "netlist.json").read_text())
    replaced(netlist, old, new, "first")
    expected = dict(cells_of(json.loads((second / "netlist" / "netlist.json").read_text())))
    assert {place: cell["parameters"] for place, cell in cells_of(netlist)} == {
        place: cell["parameters"] for place, cell in expected.items()}


@pytest.mark.slow
def test_a_patched_ice40_is_what_nextpnr_writes_of_the_new_contents(tmp_path: Path) -> None:
    """The order of nextpnr's cells, and with it placement, depends on contents here: so nextpnr is given its own routed
    netlist again, with other contents and nothing left to place or route."""
    board = load_board("icebreaker")
    folder = routed(board, 1, tmp_path / "first")
    _, old = separated((folder / "netlist" / "top.il").read_text())
    _, new = separated(text_of(board, 2))
    made = patched(board, folder, old, new)
    document = json.loads((folder / "layout" / "routed.json").read_text())
    for place, cell in cells_of(document):
        cell["parameters"].update(new[place])
    (tmp_path / "routed.json").write_text(json.dumps(document))
    run_tool(find_tool("nextpnr-ice40"),
             ["--up5k", "--package", "sg48", "--json", "routed.json", "--asc", "layout.asc", "--no-pack", "--no-place",
              "--no-route"], ToolRun(tmp_path, tmp_path / "log", "reload"), progress=print)
    assert sections(made) == sections((tmp_path / "layout.asc").read_text())
    assert sections(made) != sections((folder / "layout" / "layout.asc").read_text())


def sections(text: str) -> dict[str, str]:
    """The parts of a text bitstream by their first lines: their order says nothing."""
    parts = [part.partition("\n") for part in re.split(r"\n(?=\.)", text)]
    return {head: body.strip() for head, _, body in parts}
