"""Two streams of weights from a memory on the pins of each board with SDRAM: routed, packed, fast enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from hwflow_base.errors import MissingTool
from hwflow_rtl.emit import emit
from hwflow_rtl.memory import WeightMemory, WeightStream

from hwflow.synth import Board, load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.toolchain import find_tool, run_tool
from hwflow.synth.transports import Pin


class Filled(wiring.Component):
    """Fills the memory with numbers and shows a bit of what it gives."""

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


def wrapper(board: Board) -> tuple[str, dict[str, Pin]]:
    """Verilog with data lines in both directions around `Filled`, and where its ports are."""
    memory = board.memories[0]
    places = {"clk": board.clock, "led": board.leds[0]}
    ports, joined = ["input clk", "output led"], []
    for name, pins in memory.pins.items():
        kind = "inout" if name == "dq" else "output"
        ports.append(f"{kind} [{len(pins) - 1}:0] sdram_{name}")
        if name != "dq":
            joined.append(f".pins__{name}(sdram_{name})")
        for k, pin in enumerate(pins):
            places[f"sdram_{name}[{k}]" if len(pins) > 1 else f"sdram_{name}"] = Pin(pin, memory.io_standard)
    width = memory.part.width - 1
    return (f"module board({', '.join(ports)});\n  wire [{width}:0] dq_o;\n  wire dq_oe;\n"
            f"  filled filled(.clk(clk), .rst(1'b0), .led(led), .pins__dq_i(sdram_dq), .pins__dq_o(dq_o), "
            f".pins__dq_oe(dq_oe), {', '.join(joined)});\n"
            f"  assign sdram_dq = dq_oe ? dq_o : {width + 1}'bz;\nendmodule\n"), places


def routed_mhz(board: Board, folder: Path) -> float:
    family = FAMILIES[board.family]
    text, places = wrapper(board)
    (folder / "top.v").write_text(emit(Filled(board), name="filled") + text)
    (folder / "synth.ys").write_text(f"read_verilog top.v\n{family.synth_command(board)} -top board\n"
                                     f"write_json netlist.json\n")
    (folder / f"pins.{family.constraints_suffix}").write_text(
        "".join(family.pin_constraint(port, pin) for port, pin in places.items()))
    log, nextpnr = folder / "log", next(iter(family.programs))
    run_tool(find_tool("yosys"), ["-q", "-s", "synth.ys"], folder=folder, log=log, step="test", progress=print)
    run_tool(find_tool(nextpnr), [
        "--json", "netlist.json", *family.nextpnr_arguments(board, f"pins.{family.constraints_suffix}"), "--freq",
        str(board.memories[0].part.clock_mhz), "--report", "report.json", "--seed", "1"], folder=folder, log=log,
        step="test", progress=print)
    run_tool(find_tool(family.packer), family.packer_arguments(board, family.layout, "bitstream"), folder=folder,
             log=log, step="test", progress=print)
    assert (folder / "bitstream").stat().st_size > 100_000
    clocks = json.loads((folder / "report.json").read_text())["fmax"]
    return max(clock["achieved"] for clock in clocks.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_85f", "colorlight_i5", "tangnano20k"])
def test_the_clock_of_the_chip_is_reached(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    try:
        mhz = routed_mhz(board, tmp_path)
    except MissingTool as error:
        pytest.skip(str(error))
    assert mhz >= board.memories[0].part.clock_mhz
