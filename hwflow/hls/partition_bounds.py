"""What a layer takes at least, in a stage of its own and as a part of a shared stage: so the search of partitions knows
early which cannot fit, and which promise most.

A shared stage of several layers is not compiled for that.  Each layer is compiled once, alone, for each size of the
array; cycles and weights of layers that share a stage add up, and its frame memory holds what is needed at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import unsigned
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.shared.steps import ELEMENT_BITS
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.memory import Holds, Memory, MemoryKind, Place

from ..layers.base import Folding, LayerGraph
from ..layers.partition import SHARED, Group
from .choices import Choice
from .outside import OutsideMemory, StreamPlan, outside_cost
from .shared.support import shared_problem
from .shared_candidates import Candidates
from .shared_stage import INTERVALS, SharedStage
from .solver import Solver

__all__ = ["KINDS", "Counts", "DataflowBounds", "Run", "SharedBounds", "Sharing"]

#: Resources that bounds are of.
KINDS = ("lut", "ff", "dsp", "ram")
#: Bits of a beat, and beats, of a stream of weights that stands for those of any shared stage.
LONG_STREAM = 128
Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sharing:
    """How some layers share a stage: the size of its array, and whether their weights are outside of the FPGA."""

    columns: int
    outside: bool


@dataclass(frozen=True, eq=False)
class Run:
    """Layers `first` to `end` - 1 in a shared stage: it takes at least `counts` (of `KINDS`).

    Its array works for `cycles` for each layer, and does not for `idle` of a frame, in which frames come and go and
    pipelines fill; `weights` are the cycles in which those of each layer come, where the stage has the memory outside
    for itself, and they may come `ahead` of their layer.
    """

    first: int
    end: int
    sharing: Sharing
    cycles: Counts
    weights: Counts
    ahead: bool
    idle: int
    counts: Counts

    @cached_property
    def promised(self) -> int:
        """Cycles of a frame."""
        return self.promised_beside(1.0)

    def promised_beside(self, crowd: float) -> int:
        """Cycles of a frame where the weights take `crowd` times as long, for others come, too."""
        weights = self.weights * crowd
        work = max(self.cycles.sum(), weights.sum()) if self.ahead else np.maximum(self.cycles, weights).sum()
        return int(work) + self.idle

    @cached_property
    def coming(self) -> float:
        """Cycles in which all weights come."""
        return float(self.weights.sum())


@dataclass(frozen=True)
class Part:
    """A layer in a shared stage: cycles of its array, and those in which it does not work; bits of weights and
    constants; for each input and for the output, the words in the frame memory, and the cycles to load or store it;
    what the stage takes beside both memories."""

    cycles: int
    idle: int
    bits: int
    words: tuple[int, ...]
    moving: tuple[int, ...]
    counts: Counts


def counts_of(resources: Resources) -> Counts:
    return np.array([getattr(resources, kind) for kind in KINDS], np.float64)


class DataflowBounds:
    """What layers take in stages of their own; `solver` has no shared stages."""

    def __init__(self, solver: Solver):
        self.solver = solver
        self.known: dict[tuple[int, tuple[Folding, ...]], Counts] = {}

    def at(self, target: int) -> Counts:
        """What each layer takes at least in a stage that is as fast as `target`: [layers, kinds], infinite where it
        cannot be so fast."""
        solver = self.solver
        found = np.full((len(solver.stages), len(KINDS)), np.inf)
        for k, stage in enumerate(solver.stages):
            coming: list[int | None] = [None] * len(stage.inputs)
            for choices in [solver.choices] if solver.outside is None else [solver.choices, solver.streamed]:
                fast = choices[k].fast_enough(target, coming)
                if fast:
                    found[k] = np.minimum(found[k], self.least(k, fast, coming))
        return found

    def least(self, k: int, fast: Sequence[Choice], coming: Sequence[int | None]) -> Counts:
        """The least of each resource that stage k takes with the cheapest of these choices."""
        key = k, tuple(choice.folding for choice in fast)
        if key not in self.known:
            solver, stage = self.solver, self.solver.stages[k]
            best = solver.cheapest(k, fast, coming, None)
            foldings = [replace(best.folding, style=style, rescale=rescale) for style in solver.styles(k, best)
                        for rescale in (None, *stage.rescale_styles)]
            counts = np.array([counts_of(solver.cost(k, folding)) for folding in foldings])
            counts[:, -1] += [sum(min(0, each.ram) for each in solver.known.movable(stage, folding))
                              for folding in foldings]
            self.known[key] = counts.min(axis=0)
        return self.known[key]


class SharedBounds:
    """The runs of layers of `graph` that a shared stage can compute, with arrays of `columns`; weights in ROMs or in
    the memory `outside`."""

    def __init__(self, graph: LayerGraph, technology: Technology, columns: Sequence[int],
                 outside: OutsideMemory | None, likenesses: Sequence[Hashable]):
        self.graph = graph
        self.technology = technology
        self.columns = columns
        self.outside = outside
        self.likenesses = likenesses
        #: Layers alone: those that are alike share one.
        self.parts: dict[tuple[Hashable, int], Part | None] = {}
        self.part_of: dict[tuple[int, int], Part | None] = {}

    @cached_property
    def possible(self) -> list[bool]:
        """By layer, whether a shared stage can compute it."""
        return [shared_problem(self.graph, layer) is None for layer in self.graph.layers]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """First layer and end of every run of two and more layers."""
        count = len(self.graph.layers)
        return [(first, end) for first in range(count) for end in range(first + 2, count + 1)
                if all(self.possible[first:end])]

    @cached_property
    def runs(self) -> list[Run]:
        """Of every span with every sharing."""
        ways = [Sharing(columns, outside) for columns in self.columns
                for outside in ([False] if self.outside is None else [False, True])]
        return [run for first, end in self.spans for way in ways if (run := self.run(first, end, way)) is not None]

    def run(self, first: int, end: int, sharing: Sharing) -> Run | None:
        """None where a layer does not fit any stage with such an array."""
        found = [self.part(k, sharing.columns) for k in range(first, end)]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        bits, cycles = np.array([part.bits for part in parts]), np.array([part.cycles for part in parts])
        weights = bits * (self.cycles_of_a_bit if sharing.outside else 0.0)
        width = ELEMENT_BITS * sharing.columns
        frames = 0 if self.technology.single_port_rams else self.blocks(width, self.words(first, end, parts))
        image = 0 if sharing.outside else self.image(int(bits.sum()), sharing.columns)
        counts = np.max([part.counts for part in parts], axis=0)
        if sharing.outside:
            counts = counts + self.reading
        counts = counts + np.array([0, 0, 0, frames + image])
        idle = sum(part.idle for part in parts) + self.moving(first, end, parts)
        ahead = sharing.outside and bool(self.technology.single_port_rams)
        return Run(first, end, sharing, cycles, weights, ahead, idle, counts)

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
        """Of the memory outside, where a single stage reads it."""
        assert self.outside is not None
        stream = WeightStream(unsigned(ELEMENT_BITS), LONG_STREAM // ELEMENT_BITS, LONG_STREAM)
        (interval,) = self.outside.intervals([stream])
        return float(interval) / LONG_STREAM

    @cached_property
    def reading(self) -> Counts:
        """What reads the memory outside for a single stage."""
        stream = WeightStream(unsigned(ELEMENT_BITS), LONG_STREAM // ELEMENT_BITS, LONG_STREAM)
        streams = [StreamPlan(SHARED, stream, Fraction(1))]
        return counts_of(outside_cost(self.outside, streams, self.technology))

    def moving(self, first: int, end: int, parts: Sequence[Part]) -> int:
        """Cycles in which frames are loaded and stored."""
        layers = self.graph.layers[first:end]
        made = {layer.output for layer in layers}
        loads = {name: cycles for layer, part in zip(layers, parts, strict=True)
                 for name, cycles in zip(layer.inputs, part.moving, strict=False) if name not in made}
        leaving = set(Group(SHARED, tuple(range(first, end))).outputs(self.graph))
        stores = [part.moving[-1] for layer, part in zip(layers, parts, strict=True) if layer.output in leaving]
        return sum(loads.values()) + sum(stores)

    def words(self, first: int, end: int, parts: Sequence[Part]) -> int:
        """Of the frame memory: the most that are needed at a time."""
        layers = self.graph.layers[first:end]
        read = {name: k for k, layer in enumerate(layers) for name in layer.inputs}
        read |= dict.fromkeys(Group(SHARED, tuple(range(first, end))).outputs(self.graph), len(layers))
        needed = np.zeros(len(layers), np.int64)
        for k, (layer, part) in enumerate(zip(layers, parts, strict=True)):
            needed[k:read.get(layer.output, k) + 1] += part.words[-1]
        made = {layer.output for layer in layers}
        for name, last in read.items():
            if name not in made:  # it is loaded when it is first read
                begin = next(k for k, layer in enumerate(layers) if name in layer.inputs)
                needed[begin:last + 1] += parts[begin].words[layers[begin].inputs.index(name)]
        return int(needed.max())

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
        stages = [candidates.stage(buffer=buffers[0], rom_rows=rows, sliding=sliding)
                  for sliding in candidates.sliding(columns, buffers[0])]
        made = stages[0].made_for(columns)
        narrow = stages[0].shape(Folding(columns, columns, columns, weight_rows=rows))
        bits = sum(narrow.beats_of(step) for step, _ in made.program.computed()) * narrow.stream_lanes * ELEMENT_BITS
        stage = min(stages, key=lambda each: work_of(each, columns))
        steps = replace(stage, sizes=replace(stage.sizes, rom_rows=columns)).steps(
            Folding(columns, columns, columns), self.technology)
        cycles = work_of(stage, columns)
        idle = sum(step.cycles - step.waits for step in steps if step.multiplications) - cycles
        moved = {step.tensor: step.cycles for step in steps if step.name in ("load", "store")}
        layer = self.graph.layers[k]
        words = tuple(made.frames[name].words for name in (*layer.inputs, layer.output))
        moving = tuple(moved[name] for name in (*layer.inputs, layer.output))
        return Part(cycles, max(0, idle), bits, words, moving, self.around(candidates, columns, buffers[0]))

    def around(self, candidates: Candidates, columns: int, buffer: int) -> Counts:
        """What the smallest stage takes beside its frame memory and the image of its weights."""
        stage = candidates.stage(buffer=buffer, interval=max(INTERVALS), rom_rows=1)
        folding = Folding(columns, columns, 1, weight_rows=1)
        cost = self.technology.placed(stage.cost(folding, self.technology))
        logic = self.technology.placed(stage.cost(replace(folding, rescale=MultiplierStyle.LOGIC), self.technology))
        frames = sum(self.technology.memory_cost(memory, self.technology.places(memory)[0]).ram
                     for memory in cost.memories if memory.holds is Holds.FRAMES)
        least: Counts = np.minimum(counts_of(cost), counts_of(logic)) - np.array([0, 0, 0, frames])
        return least


def work_of(stage: SharedStage, columns: int) -> int:
    """Cycles in which the array works for a frame."""
    return sum(step.blocks * step.turns_of_tile * step.run
               for step, _ in stage.made_for(columns).program.computed())
