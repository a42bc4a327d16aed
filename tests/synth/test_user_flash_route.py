"""The reader of a Gowin FPGA's user flash with the check of its seal: routed around the cell, packed, fast enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.back import rtlil
from hwflow_base.errors import MissingTool

from hwflow.synth import load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.netlist import TEXT, yosys_script
from hwflow.synth.toolchain import find_tool, run_tool
from tests.synth.flash_reader import Reader

BOARD = load_board("tangnano9k")
PART = BOARD.memories[0].part


@pytest.mark.slow
def test_the_cell_is_placed_and_packed(tmp_path: Path) -> None:
    family, reader = FAMILIES[BOARD.family], Reader(BOARD, 19_000, PART.cell())
    text = rtlil.convert(reader, name="top", ports=[reader.clk, reader.led], emit_src=False)
    (tmp_path / TEXT).write_text(text)
    (tmp_path / "synth.ys").write_text(yosys_script(BOARD))
    (tmp_path / "pins.cst").write_text(family.pin_constraint("clk", BOARD.clock)
                                       + family.pin_constraint("led", BOARD.leds[0]))
    arguments = {"yosys": ["-q", "-s", "synth.ys"], "nextpnr-himbaechel-gowin": [
        "--json", "netlist.json", *family.nextpnr_arguments(BOARD, "pins.cst"), "--freq", "250", "--report",
        "report.json", "--seed", "1", "--timing-allow-fail"],
        "gowin_pack": family.packer_arguments(BOARD, family.layout, "top.fs")}
    try:
        for tool, words in arguments.items():
            run_tool(find_tool(tool), words, folder=tmp_path, log=tmp_path / "log", step="test", progress=print)
    except MissingTool as error:
        pytest.skip(str(error))
    report = json.loads((tmp_path / "report.json").read_text())
    used = {name: count["used"] for name, count in report["utilization"].items()}
    assert used[PART.name] == 1
    assert used["LUT4"] < 350
    assert used["BSRAM"] == 0
    assert min(clock["achieved"] for clock in report["fmax"].values()) > PART.clock_mhz
    assert (tmp_path / "top.fs").stat().st_size > 1 << 20
