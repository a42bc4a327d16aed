"""What the tests of netlists share: runs of yosys, and which cells are multipliers and RAM blocks in each family."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import MissingTool

from hwflow.synth.toolchain import ToolRun, find_tool, run_tool

SYNTH = {"ecp5": "synth_ecp5 -nodsp", "ice40": "synth_ice40 -device u", "gowin": "synth_gowin -nodsp"}
DSP = {"ecp5": {"MULT18X18D": 1}, "ice40": {"SB_MAC16": 1}, "gowin": {"MULT9X9": 1, "MULT18X18": 4}}
RAM = {"ecp5": ("DP16KD",), "ice40": ("SB_RAM40_4K",), "gowin": ("pROM", "pROMX9", "SDPB", "SDPX9B", "SPX9", "SP")}


def random_contents(width: int, depth: int, seed: int = 0) -> np.ndarray:
    bits = np.random.default_rng(seed).integers(0, 2, (depth, width), dtype=np.uint8)
    return np.packbits(bits, axis=1, bitorder="little")


def words_of(contents: np.ndarray) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in contents]


def yosys(folder: Path, text: str, script: str) -> dict:
    """Run yosys on a design `top`; the netlist that it writes as JSON."""
    try:
        tool = find_tool("yosys")
    except MissingTool as error:
        pytest.skip(str(error))
    (folder / "top.il").write_text(text)
    (folder / "run.ys").write_text(f"read_rtlil top.il\n{script}\nselect top*\nwrite_json -selected netlist.json\n")
    run_tool(tool, ["-q", "-s", "run.ys"], ToolRun(folder, folder / "yosys.log", "test"), progress=print)
    return json.loads((folder / "netlist.json").read_text())["modules"]
