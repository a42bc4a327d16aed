"""What `BoardTop.cost` reserves around a core is what yosys makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io import BoardTop, End, Ends
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import link, payload_of, stream_of
from hwflow_rtl.vendor import Resources

from hwflow.synth import board_top, load_board
from hwflow.synth.job import Job
from hwflow.synth.netlist import make_netlist
from hwflow.synth.parts import LINKS
from hwflow.synth.toolchain import tools_of_family
from hwflow.synth.top import design_text
from hwflow.synth.usage import read_parts


class Through(wiring.Component):
    """A core that gives each stream `i` as the stream `o` of the same number."""

    def __init__(self, streams: int, lanes: int):
        self.streams = streams
        numbers = [""] if streams == 1 else range(streams)
        ends = {"i": In, "o": Out}
        super().__init__({f"{letter}{k}": flow(stream_of(8, lanes)) for letter, flow in ends.items() for k in numbers})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k in [""] if self.streams == 1 else range(self.streams):
            source, sink = getattr(self, f"i{k}"), getattr(self, f"o{k}")
            m.submodules[f"queue{k}"] = queue = Queue(shape=payload_of(source), depth=2)
            link(m, wiring.flipped(source), queue.i)
            link(m, queue.o, wiring.flipped(sink))
        return m


@pytest.mark.parametrize(("name", "streams", "lanes"), [
    ("icebreaker", 1, 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("ulx3s_85f", 1, 1), ("tangnano9k", 1, 1), ("icebreaker", 1, 4), ("ulx3s_85f", 1, 8), ("ulx3s_85f", 3, 2),
        ("icebreaker", 2, 2)))])
def test_what_stands_around_a_core(name: str, streams: int, lanes: int, tmp_path: Path) -> None:
    board = load_board(name)
    technology = board.technology()
    frames = (End(lanes, 8, 8 if streams == 1 else 2048),) * streams
    ends = Ends(frames, frames)
    top = board_top(Through(streams, lanes), board, ends, identity=bytes(range(8)))
    make_netlist(Job(board, tmp_path, tools_of_family(board.family), lambda text: None), design_text(top))
    parts = read_parts(tmp_path / "netlist" / "netlist.json", board.family)
    used = sum((resources for part, resources in parts.items() if part != LINKS), Resources())
    planned = technology.placed(BoardTop.cost(technology, ends))
    assert (planned.ram, planned.spram) == (used.ram, used.spram)
    assert (used.spram > 0) == (name == "icebreaker" and streams > 1)
    assert abs(planned.lut / used.lut - 1) < 0.15, (planned, used)
    assert abs(planned.ff / used.ff - 1) < 0.15, (planned, used)
