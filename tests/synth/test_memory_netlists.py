"""What yosys makes of the controllers of memories, cell by cell with the simulated chips: every word, no violation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.lib import wiring
from hwflow_base.errors import MissingTool
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.memory import FlashController, FlashError, SdramController
from hwflow_sim.board import Netlist, read_netlist
from hwflow_sim.memory_bench import compile_reads, compile_traffic

from hwflow.synth import Board, load_board
from hwflow.synth.netlist import TEXT, yosys_script
from hwflow.synth.toolchain import ToolRun, find_tool, run_tool
from tests.memory.loads import random_load, require_right

pytestmark = pytest.mark.slow  # yosys, Verilator and a compiler


def netlist_of(kind: type[wiring.Component], board: Board, folder: Path) -> Netlist:
    controller = kind(part=board.memories[0].part, technology=board.technology())
    (folder / TEXT).write_text(emit_rtlil(controller, name="top"))
    (folder / "synth.ys").write_text(yosys_script(board))
    try:
        run_tool(find_tool("yosys"), ["-q", "-s", "synth.ys"], ToolRun(folder, folder / "yosys.log", "test"),
                 progress=print)
    except MissingTool as error:
        pytest.skip(str(error))
    return read_netlist(folder / "netlist.json", board.family)


@pytest.mark.parametrize("name", ["ulx3s_85f", "colorlight_i5", "tangnano20k"])
def test_an_sdram(tmp_path: Path, cache: Path, name: str) -> None:
    board = load_board(name)
    part = board.memories[0].part
    traffic = compile_traffic(part, folder=tmp_path, cache=cache, netlist=netlist_of(SdramController, board, tmp_path))
    for longest, stall in ((1, 0.0), (20, 0.3)):
        wanted = random_load(part, 10_000, seed=longest, longest=longest)
        result = traffic.run(wanted.requests, wanted.words, seed=3, write_stall=stall, read_stall=stall)
        require_right(result, wanted)
        assert stall or result.latency <= part.clocks.worst_latency


@pytest.mark.parametrize("name", ["icebreaker", "icesugar", "upduino3"])
def test_a_flash(tmp_path: Path, cache: Path, name: str) -> None:
    board = load_board(name)
    part, source = board.memories[0].part, np.random.default_rng(13)
    reads = compile_reads(part, folder=tmp_path, cache=cache, netlist=netlist_of(FlashController, board, tmp_path))
    octets = source.integers(0, 256, 40_000, dtype=np.uint8)
    words = octets.view("<u4").astype(np.int64)
    first, length = source.integers(0, 9800, 150), source.integers(1, 200, 150)
    last = np.minimum(first + length, 9999)
    drop = np.where(source.integers(0, 4, 150) == 0, (last - first) // 2 + 1, 0)
    requests = np.stack([first, last, source.integers(0, 9, 150), drop], axis=1)
    expected = np.concatenate([words[a:b + 1][:d or None] for a, b, _, d in requests.tolist()])
    for stall in (0.0, 0.4):
        result = reads.run(requests, octets, seed=5, stall=stall)
        assert (result.violations, result.error) == ({}, FlashError.NONE)
        assert np.array_equal(result.words, expected)
    assert reads.run(requests[:1], octets, numbers={"mute": 1}).error == FlashError.NO_ANSWER
