"""The clock of each kind of stage, placed and routed alone: what in it is the longest path, on a family each.

    python -m bench stages [--only NAME] [--folder build/bench]

The streams of a stage come from registers that are filled bit by bit and go into registers that are folded into one
bit, with a queue between: two pins are enough, and no path ends in one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_base.files.cache import cached_step, digest
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import link, payload_of

from bench.routes import FOLDER
from bench.sections import Bench, table
from hwflow import hls
from hwflow.hls import make_plan
from hwflow.layers import Add, AveragePool, Conv, Dense, Frame, Layer, LayerGraph, Lookup, MaxPool, Tensor
from hwflow.layers.rescale import Requantize, Thresholds
from hwflow.stages.folding import Folding
from hwflow.synth import Board, load_board
from hwflow.synth.board_ports import constraints
from hwflow.synth.design_parts import read_parts
from hwflow.synth.families import FAMILIES
from hwflow.synth.netlist import make_netlist
from hwflow.synth.paths import clocks_of, shortened
from hwflow.synth.toolchain import Job, nextpnr_of, tools_of_family
from tests.synth.estimates import FRAME, INT8, ROW, small_stages
from tests.synth.stage_samples import normalize_graph, softmax_graph

#: The smallest device of a family that has the speed grade of the largest.
BOARDS = ("ulx3s_25f", "tangnano9k")
GOAL_MHZ = 200.0
Made = tuple[LayerGraph, Folding]


class TwoPins(wiring.Component):
    """A core behind one input pin and in front of one output pin."""

    def __init__(self, core: wiring.Component):
        self.core = core
        self.streams = {name: member for name, member in core.signature.members.items() if member.is_signature}
        super().__init__({"rx": In(1), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self.core
        drive, seen = [], []
        for name, member in self.streams.items():
            port = getattr(core, name)
            m.submodules[f"queue_{name}"] = queue = Queue(shape=payload_of(port), depth=2)
            if member.flow is In:
                drive += [Value.cast(queue.i.payload), queue.i.valid]
                link(m, queue.o, port)
            else:
                drive.append(queue.o.ready)
                seen += [Value.cast(queue.o.payload), queue.o.valid]
                link(m, port, queue.i)
        shifted, folded = Signal(len(Cat(*drive)), name="shifted"), Signal(len(Cat(*seen)), name="folded")
        m.d.comb += [Cat(*drive).eq(shifted), self.tx.eq(folded[-1])]
        m.d.sync += [shifted.eq(Cat(self.rx, shifted)), folded.eq(folded.rotate_left(1) ^ Cat(*seen))]
        return m


def one(layer: Layer, folding: Folding, *frames: Frame) -> Made:
    """A graph of one layer of int8 tensors."""
    tensors = {name: Tensor(name, frame, INT8, 0.5, 0) for name, frame in zip(layer.inputs, frames, strict=True)}
    tensors[layer.output] = Tensor(layer.output, layer.output_frame(*frames), INT8, 0.5, 0)
    graph = LayerGraph(layer.name, tensors, (layer,), layer.inputs, (layer.output,))
    graph.check()
    return graph, folding


def stages() -> dict[str, Made]:
    """A stage of each kind, by name."""
    rng = np.random.default_rng(1)
    scaled = Requantize(bias=rng.integers(-999, 999, 16), multiplier=rng.integers(1 << 9, 1 << 17, 16),
                        shift=np.full(16, 18), zero_point=3, low=-128, high=127)
    few, many = (Thresholds(np.sort(rng.integers(-9999, 9999, (16, count)), axis=1), -128) for count in (15, 255))
    taps, every, table_of = (rng.integers(-127, 128, shape) for shape in ((16, 3, 3, 16), (16, 256), 256))
    x, y, pads, two, ratios, rests = ("x",), "y", (1, 1, 1, 1), (2, 2), (77013, 91311), Frame(9, 9, 16)
    made = {
        "conv": one(Conv("conv", x, y, taps, INT8, INT8, scaled, pads=pads), Folding(8, 2), FRAME),
        "conv, depthwise": one(Conv("conv", x, y, taps[..., :1], INT8, INT8, scaled, pads=pads, groups=16),
                               Folding(4, 1), FRAME),
        "conv, 15 thresholds": one(Conv("conv", x, y, taps, INT8, INT8, few), Folding(4, 2), FRAME),
        "conv, 255 thresholds": one(Conv("conv", x, y, taps, INT8, INT8, many), Folding(4, 2), FRAME),
        "dense": one(Dense("dense", x, y, every, INT8, INT8, scaled), Folding(4, 4), Frame(4, 4, 16)),
        "max_pool": one(MaxPool("max", x, y, INT8, (3, 3), (2, 2)), Folding(1, 2, 2), FRAME),
        "max_pool, side by side": one(MaxPool("max", x, y, INT8, two, two), Folding(1, 2, 2), rests),
        "average_pool": one(AveragePool("mean", x, y, INT8, scaled, (3, 3)), Folding(1, 2), FRAME),
        "average_pool, side by side": one(AveragePool("mean", x, y, INT8, scaled, two, two), Folding(1, 2), rests),
        "average_pool, whole frame": one(AveragePool("mean", x, y, INT8, scaled, (8, 8)), Folding(1, 2), FRAME),
        "lookup": one(Lookup("table", x, y, INT8, table_of), Folding(1, 4, 4), FRAME),
        "add": one(Add("add", ("a", "b"), y, ratios, 17, 3, -128, 127), Folding(1, 2, 2), FRAME, FRAME),
        "add, row": one(Add("add", ("a", "b"), y, ratios, 17, 3, -128, 127), Folding(1, 2, 2), FRAME, ROW),
        "softmax": (softmax_graph(64), Folding(1, 1, 1)),
        "normalize, layer": (normalize_graph(64), Folding(1, 1, 1)),
        "normalize, rms": (normalize_graph(64, centred=False), Folding(1, 1, 1)),
    }
    graph, foldings = small_stages()
    for layer, folding in zip(graph.layers, foldings, strict=True):
        frames = [graph.tensors[name].frame for name in layer.inputs]
        made[f"{layer.kind}, {layer.name}"] = one(layer, folding, *frames)
    return made


def measure(made: Made, board: Board, folder: Path) -> list[str]:
    """LUT, FF, MHz and the longest path, synthesized, placed and routed; kept in `folder` for the same netlist."""
    graph, folding = made
    top = TwoPins(hls.lower(graph, make_plan(graph, [folding], board.technology()), board.technology()))
    job = Job(board, folder, tools_of_family(board.family), lambda text: None)
    make_netlist(job, rtlil.convert(top, name="top", ports=[top.rx, top.tx], emit_src=False))
    netlist = folder / "netlist" / "netlist.json"
    tool = nextpnr_of(job)
    pins = [line for line in constraints(board, leds=0)[1].splitlines() if "freq" not in line.lower()]
    device = FAMILIES[board.family].nextpnr_arguments(board, "pins")
    arguments = [*device, "--json", "netlist.json", "--report", "report.json", "--seed", "1",
                 "--detailed-timing-report", "--freq", f"{GOAL_MHZ:g}", "--timing-allow-fail"]

    def make(place: Path) -> None:
        (place / "pins").write_text("\n".join([*pins, ""]))
        job.run(tool.name, arguments, place, "place and route", netlist)
        (place / "report.json").write_text(json.dumps(shortened(json.loads((place / "report.json").read_text()))))
        for path in place.glob("*rout*.json"):
            path.unlink()

    cached_step(folder / "layout", digest(netlist, *arguments, str(tool)), make, with_code=False)
    clock = clocks_of(json.loads((folder / "layout" / "report.json").read_text()))[0]
    used = read_parts(netlist, board.family)["stage0"]
    return [str(used.lut), str(used.ff), f"{clock.routed_mhz or math.inf:.0f}", str(clock.path)]


def stage_clocks(bench: Bench) -> str:
    """The clock of a stage of each kind, placed and routed alone, and its longest path."""
    folder = (bench.folder if bench.kept else FOLDER.resolve()) / "stages"
    rows = []
    for name, made in stages().items():
        for board in BOARDS:
            if bench.only is not None and bench.only not in (name, board, f"{name} {board}"):
                continue
            place = folder / board / name.replace(", ", "_").replace(" ", "_")
            rows.append([name, board, *measure(made, load_board(board), place)])
    return table(("stage", "board", "LUT", "FF", "MHz", "longest path"), rows)


STAGE_SECTIONS: dict[str, Callable[[Bench], str]] = {"stages": stage_clocks}
