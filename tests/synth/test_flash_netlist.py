"""What yosys makes of the flash controller, cell by cell with the simulated chip: every word, no violation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import MissingTool
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.memory import FlashController, FlashError
from hwflow_sim.board import Netlist, read_netlist
from hwflow_sim.memory_bench import compile_reads

from hwflow.synth import Board, load_board
from hwflow.synth.netlist import TEXT, yosys_script
from hwflow.synth.toolchain import find_tool, run_tool


def controller_netlist(board: Board, folder: Path) -> Netlist:
    controller = FlashController(part=board.memories[0].part, technology=board.technology())
    (folder / TEXT).write_text(emit_rtlil(controller, name="top"))
    (folder / "synth.ys").write_text(yosys_script(board))
    run_tool(find_tool("yosys"), ["-q", "-s", "synth.ys"], folder=folder, log=folder / "yosys.log", step="test",
             progress=print)
    return read_netlist(folder / "netlist.json", board.family)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["icebreaker", "icesugar", "upduino3"])
def test_netlist_of_the_controller(tmp_path: Path, cache: Path, name: str) -> None:
    board = load_board(name)
    try:
        netlist = controller_netlist(board, tmp_path)
    except MissingTool as error:
        pytest.skip(str(error))
    part = board.memories[0].part
    reads = compile_reads(part, folder=tmp_path, cache=cache, netlist=netlist)
    source = np.random.default_rng(13)
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
