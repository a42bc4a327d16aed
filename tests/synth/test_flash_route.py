"""A flash controller with the check of its seal in the pads of each board: routed, fast enough for its clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.back import rtlil
from hwflow_base.errors import MissingTool
from hwflow_rtl.memory import FlashPads

from hwflow.synth import Board, load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.toolchain import find_tool, run_tool
from hwflow.synth.transports import Pin
from tests.synth.flash_reader import Reader

#: MHz of the fastest core that was routed beside a flash: whoever reads must not be what limits it.
FASTEST_CORE = 42.6


def design(board: Board) -> tuple[str, dict[str, Pin]]:
    """RTLIL of a `Reader`, and where its ports are."""
    memory = board.memories[0]
    pads = FlashPads(memory.part, pads=board.technology().pads)
    reader = Reader(board, 50_000, pads)
    places = {"clk": board.clock, "led": board.leds[0]}
    for name, pins in memory.pins.items():
        for k, pin in enumerate(pins):
            places[f"memory_{name}[{k}]" if len(pins) > 1 else f"memory_{name}"] = Pin(pin, memory.io_standard)
    ports = [reader.clk, reader.led, *pads.ports.values()]
    return rtlil.convert(reader, name="board", ports=ports, emit_src=False), places


@pytest.mark.slow
@pytest.mark.parametrize("name", ["icebreaker", "icesugar", "upduino3"])
def test_a_controller_is_routed(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    family, mhz = FAMILIES[board.family], board.memories[0].part.clock_mhz
    text, places = design(board)
    constraints = f"pins.{family.constraints_suffix}"
    (tmp_path / "top.il").write_text(text)
    (tmp_path / "synth.ys").write_text(f"read_rtlil top.il\n{family.synth_command(board)} -top board\n"
                                       "write_json netlist.json\n")
    (tmp_path / constraints).write_text("".join(family.pin_constraint(port, pin) for port, pin in places.items()))
    try:
        run_tool(find_tool("yosys"), ["-q", "-s", "synth.ys"], folder=tmp_path, log=tmp_path / "log", step="test",
                 progress=print)
        run_tool(find_tool(next(iter(family.programs))), [
            "--json", "netlist.json", *family.nextpnr_arguments(board, constraints), "--freq", str(mhz), "--report",
            "report.json", "--seed", "1", "--timing-allow-fail"],
            folder=tmp_path, log=tmp_path / "log", step="test", progress=print)
    except MissingTool as error:
        pytest.skip(str(error))
    report = json.loads((tmp_path / "report.json").read_text())
    assert min(clock["achieved"] for clock in report["fmax"].values()) > FASTEST_CORE
    assert report["utilization"]["ICESTORM_LC"]["used"] < 600
    assert report["utilization"]["ICESTORM_RAM"]["used"] == 0
    untimed = [path for path in report["critical_paths"] if "<async>" in (path["from"], path["to"])]
    assert {path["path"][-1]["to"]["cell"] for path in untimed} == {"led$sb_io"}, "the pads are in the clock's paths"
