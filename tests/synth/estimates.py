"""What a core takes of a device, beside what its plan says: synthesized alone, without board and without routing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from hwflow_rtl.vendor import Resources

from hwflow import hls
from hwflow.hls import Plan
from hwflow.hls.schedule.links import links_cost
from hwflow.layers import Concat, Frame, IntFormat, Layer, LayerGraph, Multiply, Rearrange, Tensor, TopK
from hwflow.layers.rearrange import depth_to_space, transposed
from hwflow.stages.folding import Folding
from hwflow.synth import Board
from hwflow.synth.design_parts import LINKS, read_parts
from hwflow.synth.netlist import make_netlist
from hwflow.synth.toolchain import Job, tools_of_family


class Alone(wiring.Component):
    """A core whose streams are pins.  Its probes lead nowhere, so that synthesis drops them."""

    def __init__(self, core: wiring.Component):
        self.core = core
        self.streams = {name: member for name, member in core.signature.members.items() if member.is_signature}
        super().__init__(self.streams)

    @property
    def pins(self) -> list[Value]:
        return [Value.cast(getattr(getattr(self, name), part)) for name in self.streams
                for part in ("payload", "valid", "ready")]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = self.core
        for name in self.streams:
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(self.core, name))
        return m


@dataclass(frozen=True)
class Comparison:
    """What the plan says of a part, or of all of a core, and what the netlist has."""

    name: str
    kind: str
    planned: Resources
    used: Resources

    @property
    def lut_error(self) -> float:
        """Planned over used, minus 1."""
        return self.planned.lut / self.used.lut - 1 if self.used.lut else 0.0


def compare(graph: LayerGraph, plan: Plan, board: Board, folder: Path) -> tuple[Comparison, tuple[Comparison, ...]]:
    """The whole core, and its stages and links one by one."""
    technology = board.technology()
    top = Alone(hls.lower(graph, plan, technology))
    text: str = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    job = Job(board, folder, tools_of_family(board.family), lambda text: None)
    make_netlist(job, text)
    parts = read_parts(folder / "netlist" / "netlist.json", board.family)
    stages = [Comparison(stage.name, stage.kind, technology.placed(stage.resources),
                         parts.get(f"stage{k}", Resources())) for k, stage in enumerate(plan.stages)]
    links = Comparison("between the stages", "", technology.placed(links_cost(plan.links, technology)),
                       parts.get(LINKS, Resources()))
    whole = Comparison(graph.name, "", plan.resources, sum(parts.values(), Resources()))
    return whole, (*stages, links)


INT8 = IntFormat(8, True)
FRAME, ROW = Frame(8, 8, 16), Frame(1, 1, 16)


def small_stages() -> tuple[LayerGraph, list[Folding]]:
    """A stage of each kind that whole networks seldom have, side by side with inputs of their own; their foldings."""
    tensors: dict[str, Tensor] = {}
    layers: list[Layer] = []
    foldings: list[Folding] = []

    def add(make: Callable[[tuple[str, ...], str], Layer], folding: Folding, *inputs: Frame) -> None:
        k = len(layers)
        names = tuple(f"x{k}_{n}" for n in range(len(inputs)))
        tensors.update({name: Tensor(name, frame, INT8, 0.5, 0) for name, frame in zip(names, inputs, strict=True)})
        layer = make(names, f"y{k}")
        tensors[f"y{k}"] = Tensor(f"y{k}", layer.output_frame(*inputs), INT8, 0.5, 0)
        layers.append(layer)
        foldings.append(folding)

    add(lambda i, o: Multiply("gate", i, o, 77013, 24, 0, -128, 127), Folding(1, 2, 2), FRAME, ROW)
    add(lambda i, o: Multiply("product", i, o, 77013, 24, 3, -128, 127), Folding(1, 1, 1), FRAME, FRAME)
    add(lambda i, o: Concat("pair", i, o), Folding(1, 4, 4), FRAME, Frame(8, 8, 8))
    add(lambda i, o: Concat("three", i, o), Folding(1, 1, 1), FRAME, FRAME, Frame(8, 8, 3))
    add(lambda i, o: Rearrange("shuffle", i, o, INT8, *depth_to_space(FRAME, 2), 0), Folding(1, 1, 1), FRAME)
    add(lambda i, o: Rearrange("transpose", i, o, INT8, *transposed(FRAME, (1, 0, 2)), 0), Folding(1, 4, 4), FRAME)
    add(lambda i, o: TopK("argmax", i, o, INT8, 1, True, True, False), Folding(1, 1, 1), Frame(1, 1, 10))
    add(lambda i, o: TopK("wide", i, o, INT8, 1, True, True, False), Folding(1, 4, 1), Frame(1, 1, 64))
    add(lambda i, o: TopK("best3", i, o, INT8, 3, True, True, False), Folding(1, 1, 3), Frame(1, 1, 64))
    outputs = tuple(layer.output for layer in layers)
    inputs = tuple(name for layer in layers for name in layer.inputs)
    graph = LayerGraph("small", tensors, tuple(layers), inputs, outputs)
    graph.check()
    return graph, foldings
