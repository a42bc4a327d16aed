"""Known defects of the tools: which versions have them, and what is done about them in a routed design."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Instance, Module, Signal
from hwflow_base.errors import HwflowError

from hwflow.synth import SynthesisReport, defects_of, load_board, synthesize
from hwflow.synth.clock import goal_pll
from hwflow.synth.defects import NOTE, found_in, known_defects, mend
from hwflow.synth.families import FAMILIES
from hwflow.synth.readback.of_board import pads_of
from hwflow.synth.toolchain import PROGRAMS
from hwflow.synth.top import TextOnBoard
from hwflow.views.console.design import show_clocks
from hwflow.views.console.runs import show_defects
from tests.synth.blinky import Blinky
from tests.synth.conftest import need

HEAD = {"CIN_NETTYPE": "LOGIC", "RAW_ALU_LUT": f"{0x505A:032b}"}
GOWIN = FAMILIES["gowin"]


def layout_of(*cells: tuple[str, dict[str, str]]) -> str:
    """A routed design with these cells: kind and parameters."""
    return json.dumps({"modules": {"top": {"cells": {
        f"cell{k}": {"type": kind, "parameters": parameters} for k, (kind, parameters) in enumerate(cells)}}}})


def carry_of(table: int, pins: int, carry: int) -> int:
    """What a Gowin's adder of a table gives as carry out (apicula, doc/alu.md): the table is the half sum; where that
    is 1 the carry passes, else it is an entry of the lowest four."""
    return carry if table >> pins & 1 else table >> pins % 4 & 1


def test_every_row_can_be_acted_on() -> None:
    """Programs are those that are run; a design is cured where a row says so; threads are real names."""
    rows = known_defects()
    assert len({row.key for row in rows}) == len(rows) >= 10
    assert {row.program for row in rows} <= set(PROGRAMS)
    checks = set(GOWIN.mended(layout_of(), "here")[1])
    assert {row.check for row in rows} - {""} == checks
    for row in rows:
        assert row.breaks, row.key
        assert row.cure, row.key
        assert all("#" in thread and thread.count("/") == 1 for thread in row.threads), row.key


@pytest.mark.parametrize(("version", "heads", "optimized"), [
    ("0.10", True, True), ("0.11", True, False), ("0.11.1.0.post826", True, False), ("0.12", False, False),
    ("0.12.3.0.post900", False, False), ("unknown", True, True)])
def test_which_versions_have_them(version: str, heads: bool, optimized: bool) -> None:
    found = {row.key: row.present for row in defects_of({"nextpnr-himbaechel-gowin": version})}
    assert (found["gowin-carry-head"], found["gowin-optimized-adders"]) == (heads, optimized)
    assert "abc9-wide-names" not in found, "yosys is not installed"


def test_doctor_says_what_is_there_and_what_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    from hwflow.views.console.terminal import Console

    show_defects(Console(), defects_of({"nextpnr-himbaechel-gowin": "0.12", "yosys": "0.70"}))
    said = " ".join(capsys.readouterr().out.split())
    assert "gone, the installed versions have them no more: gowin-carry-head (nextpnr-himbaechel-gowin 0.12), " in said
    assert "abc9-wide-names" in said


def test_heads_of_adders_are_cured(tmp_path: Path) -> None:
    layout = tmp_path / "layout.json"
    layout.write_text(layout_of(("ALU", HEAD), ("ALU", {"ALU_MODE": "C2L"}), ("ALU", {**HEAD, "RAW_ALU_LUT": "1010"}),
                                ("LUT3", {"INIT": "00000001"}), ("DP", {}), ("LUT4", {}), ("ALU", HEAD)))
    mend(layout, GOWIN)
    cells = json.loads(layout.read_text())["modules"]["top"]["cells"]
    assert [int(cells[name]["parameters"]["RAW_ALU_LUT"], 2) for name in ("cell0", "cell2", "cell6")] == [10, 10, 10]
    assert len(cells["cell0"]["parameters"]["RAW_ALU_LUT"]) == 32
    found = {row.key: row.cells for row in found_in(tmp_path, ["nextpnr-himbaechel-gowin"])}
    assert found == {"gowin-carry-head": 2, "gowin-double-port-times": 1, "gowin-small-tables": 1}
    assert found_in(tmp_path, ["yosys"]) == ()
    once = layout.read_text()
    mend(layout, GOWIN)
    assert layout.read_text() == once


def test_a_head_that_nobody_knows_stops(tmp_path: Path) -> None:
    layout = tmp_path / "layout.json"
    layout.write_text(layout_of(("ALU", {**HEAD, "RAW_ALU_LUT": "1"})))
    with pytest.raises(HwflowError, match=r"layout.json.*the cell 'cell0' in front of an adder must have the table "
                                          r"0x505a of nextpnr up to 0.11.1 or 0x000a of newer ones, not 0x0001"):
        mend(layout, GOWIN)
    assert not (tmp_path / NOTE).exists()


def test_what_both_tables_compute() -> None:
    """Of a head's inputs the first is the carry in, the third is 1, and the others are whatever the chip has there; so
    is the physical carry."""
    for carry_in, second, fourth, physical in itertools.product((0, 1), repeat=4):
        pins = carry_in | second << 1 | 1 << 2 | fourth << 3
        assert carry_of(0x000A, pins, physical) == carry_in
        assert carry_of(0x505A, pins, physical) == carry_in | physical


class Adder(Blinky):
    """Blinky with a chain of adders whose carry in comes from a register."""

    def elaborate(self, platform: Any) -> Module:
        m = super().elaborate(platform)
        shift, carry = Signal(9), Signal(5)
        m.d.sync += shift.eq(Cat(self.rx, shift))
        total = Signal(4)
        m.d.comb += carry[0].eq(shift[8])
        for k in range(4):
            m.submodules[f"adder{k}"] = Instance(
                "ALU", p_ALU_MODE=2, i_I0=shift[k], i_I1=shift[k + 4], i_I3=Const(1, 1), i_CIN=carry[k],
                o_COUT=carry[k + 1], o_SUM=total[k])
        m.d.comb += self.led.eq(total)
        return m


def has_it(report: SynthesisReport) -> bool:
    """Whether the version of nextpnr that made the design makes wrong heads."""
    name = "nextpnr-himbaechel-gowin"
    version = report.tools[name].split()[1]
    return next(row.present for row in defects_of({name: version}) if row.key == "gowin-carry-head")


@pytest.mark.slow
def test_a_carry_from_logic_on_the_way_to_the_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """nextpnr makes a head; the table that is loaded gives the carry in, whatever the physical carry is there."""
    from hwflow.views.console.terminal import Console

    board = load_board("tangnano9k")
    need(board.family)
    top = Adder(board, goal_pll(board, GOWIN.goal_mhz))
    text = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    report = synthesize(TextOnBoard(text, board), tmp_path)
    raw = json.loads((tmp_path / "seeds" / "seed1" / "layout.json").read_text())
    heads = {name: cell for name, cell in raw["modules"]["top"]["cells"].items()
             if cell["parameters"].get("CIN_NETTYPE") == "LOGIC"}
    assert len(heads) == 1
    assert [int(cell["parameters"]["RAW_ALU_LUT"], 2) for cell in heads.values()] == [0x000A]
    show_clocks(Console(), report)
    said = " ".join(capsys.readouterr().out.split())
    if has_it(report):
        assert [(found.key, found.cells, found.state) for found in report.defects] == [("gowin-carry-head", 1, "cured")]
        assert "cured: a known defect of the tools in 1 cell (gowin-carry-head, YosysHQ/nextpnr#1799" in said
    else:
        assert report.defects == ()
    tables = [int(cell["parameters"]["TABLE"], 2) for cell in GOWIN.read_back(board, report.bitstream).module(
        pads_of(board, None))["cells"].values() if cell["type"] == "ALU16_COUT"]
    assert tables.count(0x000A) == 1, "0x505a is the right one of an adder with a constant operand"
