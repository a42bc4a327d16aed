"""A flash controller with the check of its seal on the pins of each board: routed, fast enough for its clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from hwflow_base.errors import MissingTool
from hwflow_rtl.emit import emit
from hwflow_rtl.memory import FlashError, SealedFlash

from hwflow.synth import Board, load_board
from hwflow.synth.boards import Pin
from hwflow.synth.families import FAMILIES
from hwflow.synth.toolchain import find_tool, run_tool


class Reader(wiring.Component):
    """Reads all words again and again and shows a bit of them."""

    def __init__(self, board: Board):
        self.controller = SealedFlash(board.memories[0].part, words=50_000, mark=b"anything").controller(
            board.technology())
        super().__init__({"pins": Out(board.memories[0].part.pins()), "led": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = self.controller
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        m.d.comb += [controller.request.valid.eq(1), controller.request.payload.last.eq(49_999),
                     controller.read.ready.eq(1)]
        with m.If(controller.read.valid):
            m.d.sync += self.led.eq(controller.read.payload.xor() ^ (controller.error != FlashError.NONE))
        return m


def wrapper(board: Board) -> tuple[str, dict[str, Pin]]:
    """Verilog with data lines in both directions around `Reader`, and where its ports are."""
    memory = board.memories[0]
    lines = memory.part.lines
    places = {"clk": board.clock, "led": board.leds[0]}
    for name, pins in memory.pins.items():
        for k, pin in enumerate(pins):
            places[f"{name}[{k}]" if len(pins) > 1 else name] = Pin(pin, memory.io_standard)
    drives = "".join(f"  assign io[{k}] = oe[{k}] ? o[{k}] : 1'bz;\n" for k in range(lines))
    return (f"module board(input clk, output led, sck, cs_n, inout [{lines - 1}:0] io);\n"
            f"  wire [{lines - 1}:0] o, oe;\n"
            "  reader reader(.clk(clk), .rst(1'b0), .led(led), .pins__sck(sck), .pins__cs_n(cs_n), .pins__io_i(io), "
            f".pins__io_o(o), .pins__io_oe(oe));\n{drives}endmodule\n"), places


@pytest.mark.slow
@pytest.mark.parametrize("name", ["icebreaker", "icesugar", "upduino3"])
def test_a_controller_is_routed(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    family, mhz = FAMILIES[board.family], board.memories[0].part.clock_mhz
    text, places = wrapper(board)
    constraints = f"pins.{family.constraints_suffix}"
    (tmp_path / "top.v").write_text(emit(Reader(board), name="reader") + text)
    (tmp_path / "synth.ys").write_text(f"read_verilog top.v\n{family.synth_command(board)} -top board\n"
                                       "write_json netlist.json\n")
    (tmp_path / constraints).write_text("".join(family.pin_constraint(port, pin) for port, pin in places.items()))
    try:
        run_tool(find_tool("yosys"), ["-q", "-s", "synth.ys"], folder=tmp_path, log=tmp_path / "log", step="test",
                 progress=print)
        run_tool(find_tool(next(iter(family.programs))), [
            "--json", "netlist.json", *family.nextpnr_arguments(board, constraints), "--freq", str(mhz), "--report",
            "report.json", "--seed", "1"], folder=tmp_path, log=tmp_path / "log", step="test", progress=print)
    except MissingTool as error:
        pytest.skip(str(error))
    report = json.loads((tmp_path / "report.json").read_text())
    assert min(clock["achieved"] for clock in report["fmax"].values()) > mhz
    assert report["utilization"]["ICESTORM_LC"]["used"] < 600
    assert report["utilization"]["ICESTORM_RAM"]["used"] == 0
