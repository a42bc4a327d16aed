"""Plays frames through the core of a plan in Amaranth's simulator: no compiler, so for designs of few gates and cycles.

Every transfer at every stage boundary is recorded by one test bench, which also feeds the inputs and takes the outputs,
with random stalls on each.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from amaranth.hdl import Shape, Value
from hwflow_rtl.core import Core
from hwflow_rtl.stream.streams import lanes_of, payload_of
from hwflow_rtl.vendor import Generic

from hwflow import golden, hls
from hwflow.layers import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.pipeline.verilog import simulation_technology
from hwflow.stages.codes import codes_of
from tests.rtl.harness import pack, simulator, unpack


@dataclass(frozen=True)
class Stalls:
    """Probability in each cycle that an input has no next beat, and that an output is not ready."""

    source: float = 0.0
    sink: float = 0.0
    seed: int = 0


NO_STALLS = Stalls()


@dataclass
class Played:
    """`wrong`: what was not as the golden model says.  Cycle 0 is the first one after the reset.

    `cycles` of the transfers of each output, and `offered`, the cycle in which its first beat is valid.
    """

    wrong: list[str] = field(default_factory=list)
    cycles: list[list[int]] = field(default_factory=list)
    offered: list[int | None] = field(default_factory=list)


@dataclass
class Stream:
    """A port of the core and what goes through it."""

    port: object
    words: list[int]
    stall: float
    noise: random.Random
    place: int = 0
    offering: bool = False


def words_of(graph: LayerGraph, tensor: str, values: IntArray, port: object) -> list[int]:
    lanes, shape = lanes_of(port), Shape.cast(payload_of(port).elem_shape)
    codes = codes_of(values, graph.tensors[tensor].format).reshape(-1, lanes)
    return [pack(beat, shape) for beat in codes.tolist()]


def play_plan(graph: LayerGraph, plan: hls.Plan, frames: Mapping[str, IntArray], stalls: Stalls = NO_STALLS,
              patience: int = 4000) -> Played:
    """Every boundary of `plan` against the golden model; with shared stages, every output."""
    core = hls.lower(graph, plan, portable(plan))
    values = golden.run(graph, frames)
    made = () if plan.partition.shared else [stage.boundaries[-1] for stage in plan.stages]
    bench = Bench(core, graph, values, stalls, patience, made)
    sim = simulator(core)
    sim.add_testbench(bench.run)
    sim.run()
    return bench.played


def portable(plan: hls.Plan) -> Generic:
    """As `hwflow.pipeline.verilog.simulation_technology`, with ROMs inside of the design."""
    return Generic(timing=plan.timing, like=simulation_technology(plan).like)


class Bench:
    """Feeds and takes; compares every word with the golden one when it moves.

    `made` are the tensors that the stages make, if those are to be compared.
    """

    def __init__(self, core: Core, graph: LayerGraph, values: Mapping[str, IntArray], stalls: Stalls, patience: int,
                 made: Sequence[str] = ()):
        self.core, self.graph, self.patience = core, graph, patience
        self.sources = [self.stream(getattr(core, port), tensor, values, stalls.source, (stalls.seed, port))
                        for port, tensor in zip(core.input_names, graph.inputs, strict=True)]
        self.sinks = [self.stream(getattr(core, port), tensor, values, stalls.sink, (stalls.seed, port))
                      for port, tensor in zip(core.output_names, graph.outputs, strict=True)]
        self.stages = [self.stream(stage.o, tensor, values, 0.0, 0)
                       for (_, stage), tensor in zip(core.stages, made, strict=bool(made))]
        self.played = Played(cycles=[[] for _ in self.sinks], offered=[None for _ in self.sinks])

    def stream(self, port: object, tensor: str, values: Mapping[str, IntArray], stall: float, seed: object) -> Stream:
        return Stream(port, words_of(self.graph, tensor, values[tensor], port), stall, random.Random(repr(seed)))

    async def run(self, ctx) -> None:
        watched = [each.port.ready for each in self.sources]
        watched += [part for each in self.sinks for part in (each.port.valid, Value.cast(each.port.payload))]
        watched += [part for k in range(len(self.stages))
                    for part in (getattr(self.core, f"probe{k}_valid"), getattr(self.core, f"probe{k}_data"))]
        links = [part for e in range(len(self.core.links))
                 for part in (getattr(self.core, f"full{e}"), getattr(self.core, f"empty{e}"))]
        cycle = idle = 0
        while idle < 30 or not self.complete:
            takes = self.offer(ctx)
            _, _, *seen = await ctx.tick().sample(*watched)
            moved = self.note(cycle, seen, takes)
            cycle, idle = cycle + 1, 0 if moved else idle + 1
            if len(self.played.wrong) > 5:
                return
            if idle > self.patience and not self.complete:
                self.diagnose(cycle, [ctx.get(link) for link in links])
                return

    @property
    def complete(self) -> bool:
        return all(each.place >= len(each.words) for each in (*self.sources, *self.sinks, *self.stages))

    def offer(self, ctx) -> list[bool]:
        """Drive the inputs and the ready of the outputs; whether each output takes."""
        for each in self.sources:
            if not each.offering:
                each.offering = each.place < len(each.words) and each.noise.random() >= each.stall
                payload = Value.cast(each.port.payload)
                ctx.set(payload, each.words[each.place] if each.offering else each.noise.getrandbits(len(payload)))
                ctx.set(each.port.valid, each.offering)
        takes = [each.noise.random() >= each.stall for each in self.sinks]
        for each, take in zip(self.sinks, takes, strict=True):
            ctx.set(each.port.ready, take)
        return takes

    def note(self, cycle: int, seen: list[int], takes: list[bool]) -> bool:
        """What moved in this cycle; True if anything did."""
        values, moved = iter(seen), False
        for each in self.sources:
            if next(values) and each.offering:
                each.offering, each.place, moved = False, each.place + 1, True
        for k, (each, take) in enumerate(zip(self.sinks, takes, strict=True)):
            valid, word = next(values), next(values)
            if valid and self.played.offered[k] is None:
                self.played.offered[k] = cycle
            if valid and take:
                self.played.cycles[k].append(cycle)
                self.compare(each, f"output {k}", word, cycle)
                moved = True
        for each, (name, _) in zip(self.stages, self.core.stages[:len(self.stages)], strict=True):
            if next(values):
                self.compare(each, name, next(values), cycle)
                moved = True
            else:
                next(values)
        return moved

    def compare(self, each: Stream, name: str, word: int, cycle: int) -> None:
        if each.place >= len(each.words):
            self.played.wrong.append(f"cycle {cycle}: '{name}' gives more than {len(each.words)} beats")
        elif word != each.words[each.place]:
            shape, lanes = Shape.cast(payload_of(each.port).elem_shape), lanes_of(each.port)
            got, want = unpack(word, shape, lanes), unpack(each.words[each.place], shape, lanes)
            self.played.wrong.append(f"cycle {cycle}: beat {each.place} of '{name}': {got}, not {want}")
        each.place += 1

    def diagnose(self, cycle: int, links: list[int]) -> None:
        states = [f"{each.source}->{each.sink}.{each.port} {'full' if full else ''}{'empty' if empty else ''}"
                  for each, full, empty in zip(self.core.links, links[::2], links[1::2], strict=True)]
        places = [f"{name} {each.place}/{len(each.words)}"
                  for each, (name, _) in zip(self.stages, self.core.stages[:len(self.stages)], strict=True)]
        self.played.wrong.append(f"nothing moves up to cycle {cycle}: {', '.join(places)}; {', '.join(states)}")
