"""The least that a layer takes, in a stage of its own and as a part of a shared stage: so the search of partitions
knows early which cannot fit, and which promise most.

A shared stage of several layers is not compiled for that.  Each layer is compiled once, alone, for each size of the
array; cycles and weights of layers that share a stage add up, and its frame memory holds what is needed at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import zip_longest

import numpy as np
from amaranth.hdl import unsigned
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.shared.steps import ELEMENT_BITS
from hwflow_rtl.vendor import Resources
from hwflow_rtl.vendor.memory import Holds, Memory, MemoryKind, Place

from hwflow.hls.foldings.budget import Target
from hwflow.hls.foldings.computed_once import Counts, Part
from hwflow.hls.foldings.solver import Solver
from hwflow.hls.partition.candidates import Candidates, columns_of
from hwflow.hls.plan.choices import Choice
from hwflow.hls.plan.outside_memory import StreamPlan, outside_cost
from hwflow.hls.shared.compile import shared_problem
from hwflow.hls.shared.stage import INTERVALS, SharedStage
from hwflow.layers.base import LayerGraph
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.partition import SHARED, Group

#: Resources that bounds are of.
KINDS = ("lut", "ff", "dsp", "ram")
#: Bits of a beat, and beats, of a stream of weights that stands for those of any shared stage.
LONG_STREAM = 128


@dataclass(frozen=True)
class Sharing:
    """How some layers share a stage: the size of its array, and whether their weights are outside of the FPGA."""

    columns: int
    outside: bool


@dataclass(frozen=True, eq=False)
class Run:
    """Layers `first` to `end` - 1 in a shared stage: it takes at least `counts` (of `KINDS`).

    Its array works for `cycles` for each layer, and does not for `idle` of a frame, in which frames come and go and
    pipelines fill; `weights` are the cycles in which those of each layer come, `coming` all of them, where the stage
    has the memory outside for itself, and they may come `ahead` of their layer.  A frame takes about `promised` cycles.
    """

    first: int
    end: int
    sharing: Sharing
    cycles: Counts
    weights: Counts
    ahead: bool
    idle: int
    counts: Counts
    promised: int
    coming: float

    def promised_beside(self, crowd: float) -> int:
        """Cycles of a frame where the weights take `crowd` times as long, for others come, too."""
        return self.idle + int(busy(self.cycles, self.weights * crowd, ahead=self.ahead)[-1])


def busy(cycles: Counts, weights: Counts, *, ahead: bool) -> Counts:
    """The cycles until each layer is computed, of those of the array and of the weights for each."""
    until: Counts = (np.maximum(cycles.cumsum(), weights.cumsum()) if ahead else
                     np.maximum(cycles, weights).cumsum())
    return until


def counts_of(resources: Resources) -> Counts:
    return np.array([getattr(resources, kind) for kind in KINDS], np.float64)


class DataflowBounds:
    """The least that layers take in stages of their own; `solver` has no shared stages."""

    def __init__(self, solver: Solver):
        self.solver = solver
        self.known: dict[tuple[int, tuple[Folding, ...]], Counts] = {}

    def at(self, target: int) -> Counts:
        """The least that each layer takes in a stage that is as fast as `target`: [layers, kinds], infinite where it
        cannot be so fast.

        Of a stage whose window keeps a state it is that of the layer that makes its output; the others take nothing.
        """
        solver = self.solver
        least = np.full((len(solver.stages), len(KINDS)), np.inf)
        for k, stage in enumerate(solver.stages):
            coming: list[int | None] = [None] * len(stage.inputs)
            for choices in [solver.choices] if solver.outside is None else [solver.choices, solver.streamed]:
                fast = choices[k].fast_enough(target, coming)
                if fast:
                    least[k] = np.minimum(least[k], self.least(k, fast, coming))
        of_layers = np.zeros((len(solver.graph.layers), len(KINDS)))
        of_layers[self.layers] = least
        return of_layers

    @cached_property
    def layers(self) -> list[int]:
        """For each stage, the position of the layer that makes its output."""
        position = {layer.output: k for k, layer in enumerate(self.solver.graph.layers)}
        return [position[stage.boundaries[-1]] for stage in self.solver.stages]

    def least(self, k: int, fast: Sequence[Choice], coming: Sequence[int | None]) -> Counts:
        """The least of each resource that stage k takes with the cheapest of these choices."""
        key = k, tuple(choice.folding for choice in fast)
        if key not in self.known:
            solver, stage = self.solver, self.solver.stages[k]
            best = solver.cheapest(k, fast, coming, None)
            foldings = [replace(best.folding, style=style, rescale=rescale) for style in solver.styles(k, best)
                        for rescale in (None, *stage.rescale_styles)]
            counts = np.array([counts_of(solver.cost(k, folding)) for folding in foldings])
            counts[:, -1] += [sum(min(0, change.ram) for change in solver.known.movable(stage, folding))
                              for folding in foldings]
            self.known[key] = counts.min(axis=0)
        return self.known[key]


class SharedBounds:
    """The runs of layers of `graph` that a shared stage can compute; weights are in ROMs or in the memory outside of
    `target`.  `parts` are layers alone that are known."""

    def __init__(self, graph: LayerGraph, target: Target, likenesses: Sequence[Hashable],
                 parts: dict[tuple[Hashable, int], Part | None]):
        self.graph = graph
        self.technology, self.outside = target.technology, target.outside
        self.columns = columns_of(target.technology, target.budget)
        self.likenesses = likenesses
        self.parts = parts
        self.part_of: dict[tuple[int, int], Part | None] = {}

    @cached_property
    def possible(self) -> list[bool]:
        """Whether, layer by layer, a shared stage can compute it."""
        return [shared_problem(self.graph, layer) is None for layer in self.graph.layers]

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of every span of two and more layers with every sharing."""
        by_columns = ([list(self.runs_from(first, columns)) for columns in self.columns]
                      for first in range(len(self.graph.layers)))
        return [run for grown in by_columns for of_span in zip_longest(*grown, fillvalue=()) for ways in of_span
                for run in ways]

    def runs_from(self, first: int, columns: int) -> Iterator[list[Run]]:
        """The runs from layer `first` on, longer and longer; with weights in ROMs, or outside."""
        parts: list[Part] = []
        for k in range(first, len(self.graph.layers)):
            part = self.part(k, columns) if self.possible[k] else None
            if part is None:
                break
            parts.append(part)
        if len(parts) < 2:
            return
        bits, cycles = (np.array([getattr(part, name) for part in parts]) for name in ("bits", "cycles"))
        counts = np.maximum.accumulate([part.counts for part in parts])
        idle = np.cumsum([part.idle for part in parts])
        sharings = [Sharing(columns, outside) for outside in ([False] if self.outside is None else [False, True])]
        weights = [bits * (self.cycles_of_a_bit if sharing.outside else 0.0) for sharing in sharings]
        aheads = [sharing.outside and bool(self.technology.single_port_rams) for sharing in sharings]
        works = [busy(cycles, coming, ahead=ahead) for coming, ahead in zip(weights, aheads, strict=True)]
        for last, ((words, moving), image) in enumerate(zip(self.held(first, parts), bits.cumsum(), strict=True)):
            if last:
                end = last + 1
                yield [Run(first, first + end, sharing, cycles[:end], coming[:end], ahead, int(idle[last]) + moving,
                           counts[last] + self.around_of(sharing, words, int(image)),
                           int(work[last]) + int(idle[last]) + moving, float(coming[:end].sum()))
                       for sharing, coming, ahead, work in zip(sharings, weights, aheads, works, strict=True)]

    def around_of(self, sharing: Sharing, words: int, bits: int) -> Counts:
        """Count what a frame memory of so many words and weights of so many bits take."""
        frames = 0 if self.technology.single_port_rams else self.blocks(ELEMENT_BITS * sharing.columns, words)
        if sharing.outside:
            beside: Counts = self.reading + np.array([0, 0, 0, frames])
            return beside
        return np.array([0, 0, 0, frames + self.image(bits, sharing.columns)], np.float64)

    def blocks(self, width: int, words: int) -> int:
        """RAM blocks that a memory takes at least, whatever RAMs or ROMs it is made of: those for its bits, less what
        may be in tables: all, or the rest that fills no block."""
        return width * words // self.technology.ram_block_bits

    def image(self, bits: int, columns: int) -> int:
        """RAM blocks that the ROM of all weights takes at least: none where its widest words can be in tables."""
        width = ELEMENT_BITS * columns * columns
        memory = Memory("image", MemoryKind.ROM, Holds.WEIGHTS, width, -(-bits // width))
        return 0 if Place.TABLES in self.technology.places(memory) else self.blocks(1, bits)

    @cached_property
    def cycles_of_a_bit(self) -> float:
        """The cycles of a bit of the memory outside, where a single stage reads it."""
        assert self.outside is not None
        stream = WeightStream(unsigned(ELEMENT_BITS), LONG_STREAM // ELEMENT_BITS, LONG_STREAM)
        (interval,) = self.outside.intervals([stream])
        return float(interval) / LONG_STREAM

    @cached_property
    def reading(self) -> Counts:
        """Count what reads the memory outside for a single stage."""
        stream = WeightStream(unsigned(ELEMENT_BITS), LONG_STREAM // ELEMENT_BITS, LONG_STREAM)
        streams = [StreamPlan(SHARED, stream, Fraction(1))]
        return counts_of(outside_cost(self.outside, streams, self.technology))

    @cached_property
    def states(self) -> frozenset[str]:
        """The tensors that states read."""
        return frozenset(state.read for state in self.graph.states)

    @cached_property
    def maker(self) -> dict[str, int]:
        """The layer that makes each tensor, by the tensor's name."""
        return {layer.output: k for k, layer in enumerate(self.graph.layers)}

    @cached_property
    def last_reader(self) -> list[int]:
        """For each layer, the last one that reads what it makes: itself where none does, none of the graph for an
        output, and for the next value of a state."""
        readers = {name: k for k, layer in enumerate(self.graph.layers) for name in layer.inputs}
        readers |= dict.fromkeys(self.graph.sinks, len(self.graph.layers))
        return [readers.get(layer.output, k) for k, layer in enumerate(self.graph.layers)]

    def held(self, first: int, parts: Sequence[Part]) -> Iterator[tuple[int, int]]:
        """For longer and longer runs from layer `first` on: the most words of the frame memory that are needed at a
        time, and the cycles in which frames are loaded and stored."""
        needed, stored = np.zeros(len(parts), np.int64), np.zeros(len(parts), np.int64)
        loads: dict[str, int] = {}
        words: dict[str, int] = {}
        until: dict[str, int] = {}
        for k, part in enumerate(parts):
            layer = self.graph.layers[first + k]
            for name, size, cycles in zip(layer.inputs, part.words, part.moving, strict=False):
                if self.maker.get(name, -1) < first:  # it is loaded when it is first read, or a state that is there
                    loads[name] = 0 if name in self.states else cycles
                    needed[until.get(name, k):k + 1] += words.setdefault(name, size)
                    until[name] = k + 1
            gone = self.last_reader[first + k] - first
            needed[k:gone + 1] += part.words[-1]
            stored[k:gone] += part.moving[-1]
            yield int(needed[:k + 1].max()), sum(loads.values()) + int(stored[k])

    def part(self, k: int, columns: int) -> Part | None:
        """Layer k alone; None where it does not fit."""
        if (k, columns) not in self.part_of:
            key = self.likenesses[k], columns
            if key not in self.parts:
                self.parts[key] = self.made(k, columns)
            self.part_of[k, columns] = self.parts[key]
        return self.part_of[k, columns]

    def made(self, k: int, columns: int) -> Part | None:
        candidates = Candidates(self.graph, Group(SHARED, (k,)), self.technology)
        buffers = candidates.buffers(columns)
        if not buffers:
            return None
        rows = 1 if columns > 1 else 2
        stages = [candidates.stage(replace(candidates.sizes(buffers[0], rows), sliding=sliding))
                  for sliding in candidates.sliding(columns, buffers[0])]
        program = stages[0].made_for(columns)
        narrow = stages[0].shape(Folding(columns, columns, columns, weight_rows=rows))
        bits = sum(narrow.beats_of(step) for step, _ in program.program.computed()) * narrow.stream_lanes * ELEMENT_BITS
        stage = min(stages, key=lambda candidate: work_of(candidate, columns))
        steps = replace(stage, sizes=replace(stage.sizes, rom_rows=columns)).steps(
            Folding(columns, columns, columns), self.technology)
        cycles = work_of(stage, columns)
        idle = sum(step.cycles - step.waits for step in steps if step.multiplications) - cycles
        moved = {step.tensor: step.cycles for step in steps if step.name in ("load", "store")}
        layer = self.graph.layers[k]
        words = tuple(program.frames[name].words for name in (*layer.inputs, layer.output))
        moving = tuple(moved.get(name, 0) for name in (*layer.inputs, layer.output))  # a state of its own is there
        if stage_of(self.graph, layer).sources() is not None:  # others may read its elements where they are
            cycles, idle, bits, words = 0, 0, 0, (*words[:-1], 0)
        return Part(cycles, max(0, idle), bits, words, moving, self.around(candidates, columns, buffers[0]))

    def around(self, candidates: Candidates, columns: int, buffer: int) -> Counts:
        """Count what the smallest stage takes beside its frame memory and the image of its weights."""
        stage = candidates.stage(replace(candidates.sizes(buffer, 1), interval=max(INTERVALS)))
        folding = Folding(columns, columns, 1, weight_rows=1)
        cost = self.technology.placed(stage.cost(folding, self.technology))
        logic = self.technology.placed(stage.cost(replace(folding, rescale=MultiplierStyle.LOGIC), self.technology))
        frames = sum(self.technology.memory_cost(memory, self.technology.places(memory)[0]).ram
                     for memory in cost.memories if memory.holds is Holds.FRAMES)
        least: Counts = np.minimum(counts_of(cost), counts_of(logic)) - np.array([0, 0, 0, frames])
        return least


def work_of(stage: SharedStage, columns: int) -> int:
    """Cycles in which the array works for a frame."""
    return sum(step.loops.blocks * step.turns_of_tile * step.run
               for step, _ in stage.made_for(columns).program.computed())
