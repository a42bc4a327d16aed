"""The reader of a Gowin FPGA's user flash with the check of its seal: routed around the cell, packed, fast enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal
from amaranth.lib import wiring
from hwflow_base.errors import MissingTool
from hwflow_rtl.memory import FlashError, SealedFlash

from hwflow.synth import load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.netlist import TEXT, yosys_script
from hwflow.synth.toolchain import find_tool, run_tool

BOARD = load_board("tangnano9k")
PART = BOARD.memories[0].part


class Reader(Elaboratable):
    """Reads all words again and again and shows a bit of them."""

    def __init__(self) -> None:
        self.controller = SealedFlash(PART, words=19_000, mark=b"anything").controller(BOARD.technology())
        self.clk = Signal()
        self.led = Signal()

    def elaborate(self, platform):
        m = Module()
        sync = m.domains.sync = ClockDomain(reset_less=True)
        m.d.comb += sync.clk.eq(self.clk)
        m.submodules.controller, m.submodules.cell = controller, cell = self.controller, PART.cell()
        wiring.connect(m, controller.pins, cell.pins)
        m.d.comb += [controller.request.valid.eq(1), controller.request.payload.last.eq(18_999),
                     controller.read.ready.eq(1)]
        with m.If(controller.read.valid):
            m.d.sync += self.led.eq(controller.read.payload.xor() ^ (controller.error != FlashError.NONE))
        return m


@pytest.mark.slow
def test_the_cell_is_placed_and_packed(tmp_path: Path) -> None:
    family, reader = FAMILIES[BOARD.family], Reader()
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
