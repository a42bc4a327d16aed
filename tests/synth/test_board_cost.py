"""What `BoardTop.cost` reserves around a core is what yosys makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_rtl.io import BoardTop, End, Ends
from hwflow_rtl.vendor import Resources

from hwflow.synth import board_top, load_board
from hwflow.synth.design_parts import LINKS, read_parts
from hwflow.synth.netlist import make_netlist
from hwflow.synth.toolchain import Job, tools_of_family
from hwflow.synth.top import design_text
from tests.synth.board_samples import Through


@pytest.mark.parametrize(("name", "streams", "lanes"), [
    ("icebreaker", 1, 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("ulx3s_85f", 1, 1), ("tangnano9k", 1, 1), ("icebreaker", 1, 4), ("ulx3s_85f", 1, 8), ("ulx3s_85f", 3, 2),
        ("icebreaker", 2, 2)))])
def test_what_stands_around_a_core(name: str, streams: int, lanes: int, tmp_path: Path) -> None:
    board = load_board(name)
    technology = board.technology()
    frames = (End(lanes, 8, 8 if streams == 1 else 4096),) * streams
    ends = Ends(frames, frames)
    top = board_top(Through(streams, lanes), board, ends, identity=bytes(range(8)))
    make_netlist(Job(board, tmp_path, tools_of_family(board.family), lambda text: None), design_text(top))
    parts = read_parts(tmp_path / "netlist" / "netlist.json", board.family)
    used = sum((resources for part, resources in parts.items() if part != LINKS), Resources())
    planned = technology.placed(BoardTop.cost(technology, ends, transport=board.transport.cost(technology)))
    assert (planned.ram, planned.spram) == (used.ram, used.spram)
    assert (used.spram > 0) == (name == "icebreaker" and streams > 1)
    assert abs(planned.lut / used.lut - 1) < 0.15, (planned, used)
    assert abs(planned.ff / used.ff - 1) < 0.15, (planned, used)
