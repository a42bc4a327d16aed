"""What yosys makes of the SDRAM controller, cell by cell with the simulated chip: every word, no violation."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.memory import SdramController
from hwflow_sim.board import Netlist, read_netlist
from hwflow_sim.memory_bench import compile_traffic

from hwflow.synth import Board, load_board
from hwflow.synth.netlist import TEXT, yosys_script
from hwflow.synth.toolchain import find_tool, run_tool
from tests.memory.loads import random_load, require_right


def controller_netlist(board: Board, folder: Path) -> Netlist:
    controller = SdramController(part=board.memories[0].part, technology=board.technology())
    (folder / TEXT).write_text(emit_rtlil(controller, name="top"))
    (folder / "synth.ys").write_text(yosys_script(board))
    run_tool(find_tool("yosys"), ["-q", "-s", "synth.ys"], folder=folder, log=folder / "yosys.log", step="test",
             progress=print)
    return read_netlist(folder / "netlist.json", board.family)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_85f", "colorlight_i5", "tangnano20k"])
def test_netlist_of_the_controller(tmp_path: Path, cache: Path, name: str) -> None:
    board = load_board(name)
    try:
        netlist = controller_netlist(board, tmp_path)
    except MissingTool as error:
        pytest.skip(str(error))
    part = board.memories[0].part
    traffic = compile_traffic(part, folder=tmp_path, cache=cache, netlist=netlist)
    for longest, stall in ((1, 0.0), (20, 0.3)):
        wanted = random_load(part, 10_000, seed=longest, longest=longest)
        result = traffic.run(wanted.requests, wanted.words, seed=3, write_stall=stall, read_stall=stall)
        require_right(result, wanted)
        assert stall or result.latency <= part.clocks.worst_latency
