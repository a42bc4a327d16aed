"""Memories on the pins of each board, and inside its FPGA: routed, packed, fast enough for their clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from hwflow_base.errors import MissingTool
from hwflow_rtl.emit import emit
from hwflow_rtl.memory import FlashError, FlashPads, SealedFlash, WeightMemory, WeightStream

from hwflow.synth import Board, load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.netlist import TEXT, yosys_script
from hwflow.synth.toolchain import ToolRun, find_tool, run_tool
from hwflow.synth.transports import Pin

pytestmark = pytest.mark.slow  # place and route
#: MHz of the fastest core that was routed beside a flash: whoever reads must not be what limits it.
FASTEST_CORE = 42.6


def places_of(board: Board, prefix: str) -> dict[str, Pin]:
    """The pins of the memory, the clock and an LED by the names of their ports."""
    memory = board.memories[0]
    places = {"clk": board.clock, "led": board.leds[0]}
    for name, pins in memory.pins.items():
        for k, pin in enumerate(pins):
            places[f"{prefix}_{name}[{k}]" if len(pins) > 1 else f"{prefix}_{name}"] = Pin(pin, memory.io_standard)
    return places


def routed(board: Board, folder: Path, script: str, places: dict[str, Pin], mhz: float, *more: str) -> dict[str, Any]:
    """nextpnr's report of the netlist that `script` makes; it is packed, too.  Skips the test without the tools."""
    family = FAMILIES[board.family]
    pins = f"pins.{family.constraints_suffix}"
    (folder / "synth.ys").write_text(script)
    (folder / pins).write_text("".join(family.pin_constraint(port, pin) for port, pin in places.items()))
    words = {"yosys": ["-q", "-s", "synth.ys"], next(iter(family.programs)): [
        "--json", "netlist.json", *family.nextpnr_arguments(board, pins), "--freq", str(mhz), "--report",
        "report.json", "--seed", "1", *more], family.packer: family.packer_arguments(board, family.layout, "bitstream")}
    try:
        for tool, arguments in words.items():
            run_tool(find_tool(tool), arguments, ToolRun(folder, folder / "log", "test"), progress=print)
    except MissingTool as error:
        pytest.skip(str(error))
    assert (folder / "bitstream").stat().st_size > 100_000
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def used_of(report: dict[str, Any]) -> dict[str, int]:
    return {name: count["used"] for name, count in report["utilization"].items()}


class Filled(wiring.Component):
    """Fills the memory with numbers and shows a bit of what two streams of weights give."""

    def __init__(self, board: Board):
        self.memory = WeightMemory(
            part=board.memories[0].part, streams=[WeightStream(signed(8), 8, 1000), WeightStream(signed(8), 4, 5000)],
            technology=board.technology())
        super().__init__({"pins": Out(self.memory.part.pins()), "led": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        wiring.connect(m, wiring.flipped(self.pins), memory.pins)
        m.d.comb += [memory.fill.valid.eq(1), memory.o0.ready.eq(1), memory.o1.ready.eq(1)]
        with m.If(memory.fill.ready):
            m.d.sync += memory.fill.payload.eq(memory.fill.payload + 1)
        with m.If(memory.o0.valid & memory.o1.valid):
            m.d.sync += self.led.eq(sum(each.payload[n][0] for each in (memory.o0, memory.o1) for n in range(4)))
        return m


def wrapper(board: Board) -> str:
    """Verilog with data lines in both directions around `Filled`."""
    memory = board.memories[0]
    ports, joined = ["input clk", "output led"], []
    for name, pins in memory.pins.items():
        ports.append(f"{'inout' if name == 'dq' else 'output'} [{len(pins) - 1}:0] sdram_{name}")
        if name != "dq":
            joined.append(f".pins__{name}(sdram_{name})")
    width = memory.part.width - 1
    return (f"module board({', '.join(ports)});\n  wire [{width}:0] dq_o;\n  wire dq_oe;\n"
            f"  filled filled(.clk(clk), .rst(1'b0), .led(led), .pins__dq_i(sdram_dq), .pins__dq_o(dq_o), "
            f".pins__dq_oe(dq_oe), {', '.join(joined)});\n"
            f"  assign sdram_dq = dq_oe ? dq_o : {width + 1}'bz;\nendmodule\n")


@pytest.mark.parametrize("name", ["ulx3s_85f", "colorlight_i5", "tangnano20k"])
def test_the_clock_of_an_sdram_is_reached(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    mhz = board.memories[0].part.clock_mhz
    (tmp_path / "top.v").write_text(emit(Filled(board), name="filled") + wrapper(board))
    script = (f"read_verilog top.v\n{FAMILIES[board.family].synth_command(board)} -top board\n"
              "write_json netlist.json\n")
    report = routed(board, tmp_path, script, places_of(board, "sdram"), mhz)
    assert max(clock["achieved"] for clock in report["fmax"].values()) >= mhz


class Reader(Elaboratable):
    """Reads all `words` of a flash's image with the check of its seal again and again and shows a bit of them; `far`
    has the pins at the other end."""

    def __init__(self, board: Board, words: int, far: Any):
        self.words, self.far = words, far
        self.controller = SealedFlash(board.memories[0].part, words=words, mark=b"anything").controller(
            board.technology())
        self.clk = Signal()
        self.led = Signal()

    def elaborate(self, platform):
        m = Module()
        sync = m.domains.sync = ClockDomain(reset_less=True)
        m.d.comb += sync.clk.eq(self.clk)
        m.submodules.controller, m.submodules.far = controller, far = self.controller, self.far
        wiring.connect(m, controller.pins, far.pins)
        m.d.comb += [controller.request.valid.eq(1), controller.request.payload.last.eq(self.words - 1),
                     controller.read.ready.eq(1)]
        with m.If(controller.read.valid):
            m.d.sync += self.led.eq(controller.read.payload.xor() ^ (controller.error != FlashError.NONE))
        return m


@pytest.mark.parametrize("name", ["icebreaker", "icesugar", "upduino3"])
def test_a_controller_of_a_flash(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    memory = board.memories[0]
    pads = FlashPads(memory.part, pads=board.technology().pads)
    reader = Reader(board, 50_000, pads)
    (tmp_path / "top.il").write_text(rtlil.convert(
        reader, name="board", ports=[reader.clk, reader.led, *pads.ports.values()], emit_src=False))
    script = f"read_rtlil top.il\n{FAMILIES[board.family].synth_command(board)} -top board\nwrite_json netlist.json\n"
    report = routed(board, tmp_path, script, places_of(board, "memory"), memory.part.clock_mhz, "--timing-allow-fail")
    assert min(clock["achieved"] for clock in report["fmax"].values()) > FASTEST_CORE
    used = used_of(report)
    assert used["ICESTORM_LC"] < 600
    assert used["ICESTORM_RAM"] == 0
    untimed = [path for path in report["critical_paths"] if "<async>" in (path["from"], path["to"])]
    assert {path["path"][-1]["to"]["cell"] for path in untimed} == {"led$sb_io"}, "the pads are in the clock's paths"


def test_the_reader_of_a_user_flash(tmp_path: Path) -> None:
    """Routed around the cell, which a Gowin FPGA has inside."""
    board = load_board("tangnano9k")
    part = board.memories[0].part
    reader = Reader(board, 19_000, part.cell())
    (tmp_path / TEXT).write_text(rtlil.convert(reader, name="top", ports=[reader.clk, reader.led], emit_src=False))
    report = routed(board, tmp_path, yosys_script(board), {"clk": board.clock, "led": board.leds[0]}, 250,
                    "--timing-allow-fail")
    used = used_of(report)
    assert used[part.name] == 1
    assert used["LUT4"] < 350
    assert used["BSRAM"] == 0
    assert min(clock["achieved"] for clock in report["fmax"].values()) > part.clock_mhz
    assert (tmp_path / "bitstream").stat().st_size > 1 << 20
