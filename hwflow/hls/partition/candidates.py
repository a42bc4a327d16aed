"""The shared stages that could compute some layers: every size of the array, of its memories and of its rescalers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from amaranth.hdl import Shape
from hwflow_base.errors import HwflowError
from hwflow_rtl.memory import WeightImage
from hwflow_rtl.shared.steps import ELEMENT_BITS
from hwflow_rtl.vendor import Technology

from hwflow.hls.foldings.budget import Budget
from hwflow.hls.plan.outside_memory import OutsideMemory, TooManyWeights, paced
from hwflow.hls.shared.stage import COLUMNS, INTERVALS, SharedStage
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.partition import Group, SharedLayers

#: Words of weights that a stage may have room for.
BUFFERS = (256, 512, 1024, 2048, 4096)
#: Beats of weights that a memory with a single port has room for.
AHEAD = 1 << 14


@dataclass(frozen=True, eq=False)
class Candidate:
    """A shared stage with a folding: its array works in `blocks` for each step, and the `weights` of the step come in
    as many cycles at least."""

    stage: SharedStage
    folding: Folding
    blocks: IntArray
    weights: IntArray

    @property
    def least(self) -> int:
        """Cycles of a frame."""
        return int(max(self.blocks.sum(), self.weights.sum()))

    @cached_property
    def promised(self) -> int:
        """About the cycles of a frame."""
        return self.promised_beside(1.0)

    def promised_beside(self, crowd: float) -> int:
        """About the cycles of a frame where its weights take `crowd` times as long, for others come, too."""
        weights = self.weights * crowd
        return int(max(self.blocks.sum(), weights.sum()) if self.stage.sizes.ahead else
                   np.maximum(self.blocks, weights).sum())


def columns_of(technology: Technology, budget: Budget) -> list[int]:
    """The columns of square arrays for which there are multipliers; of the smallest one if there are too few, to say
    what it lacks; none on a device without multipliers."""
    if technology.operand_bits < ELEMENT_BITS:
        return []
    sizes = [columns for columns in COLUMNS if most_rows(columns, technology, budget) == columns]
    return sizes or [COLUMNS[0]]


def most_rows(columns: int, technology: Technology, budget: Budget) -> int:
    """The most rows of an array of so many columns for which there are multipliers; 0 where one row has too many."""
    element = Shape(ELEMENT_BITS, signed=True)
    return max((rows for rows in divisors(columns) if technology.multipliers_cost(
        count=rows * columns, a=element, b=element).dsp <= budget.limit("dsp")), default=0)


class Candidates:
    """The shared stages that could compute the layers of `group`; `problem` is why a program could not be made, where
    that is so."""

    def __init__(self, graph: LayerGraph, group: Group, technology: Technology):
        assert group.name is not None, "a shared stage has a name"
        self.graph = graph
        self.technology = technology
        self.name, self.positions = group.name, group.layers
        self.layers = tuple(graph.layers[k] for k in group.layers)
        self.inputs = group.inputs(graph)
        self.problem: HwflowError | None = None
        #: Why the memory outside has no room, of the smallest image that was tried.
        self.crowded: tuple[int, TooManyWeights] | None = None

    def memories(self, memory: OutsideMemory | None) -> Sequence[tuple[bool, int, int]]:
        """For a frame memory: whether it has a single port, and its banks; and beats of weights that may come ahead."""
        if not self.technology.single_port_rams:
            return ((False, 1, 0),)
        ahead = () if memory is None else ((True, 1, AHEAD), (False, 1, AHEAD))
        return ((True, 2, 0), (True, 1, 0), (False, 1, 0), *ahead)

    def sizes(self, buffer: int, rom_rows: int) -> SharedLayers:
        """The sizes of the plainest stage with such a buffer and such rows of a ROM."""
        return SharedLayers(self.name, self.positions, single_port=False, buffer=buffer, interval=1, rom_rows=rom_rows)

    def stage(self, sizes: SharedLayers) -> SharedStage:
        return SharedStage.of(self.graph, sizes, self.layers, self.inputs)

    def arrays(self, budget: Budget) -> list[tuple[int, int]]:
        """Rows and columns: those of `columns_of`, and one of fewer rows that has yet more multipliers than they.

        Large words make more of those useless that hold few channels.
        """
        square = [(columns, columns) for columns in columns_of(self.technology, budget)]
        rows = {columns: most_rows(columns, self.technology, budget) for columns in COLUMNS}
        most = max(COLUMNS, key=lambda columns: rows[columns] * columns)
        more = rows[most] * most > square[-1][0] ** 2
        return [*square, (rows[most], most)] if more and self.can_turn(most) else square

    def can_turn(self, columns: int) -> bool:
        """Whether an array may have fewer rows than columns."""
        if self.technology.single_port_rams:  # whose frames mostly leave a cycle in each block
            return False
        buffers = self.buffers(columns)[:1]
        return any(not self.stage(self.sizes(buffer, columns)).multiplies_words(columns) for buffer in buffers)

    def of_size(self, columns: int, memory: OutsideMemory | None, rows: int = 0) -> Iterator[Candidate]:
        """All with an array of so many columns and `rows` (0: as many), and weights in `memory`, or (None) in ROMs."""
        rows = rows or columns
        for buffer, stream_rows, lanes in product(self.buffers(columns), divisors(rows), divisors(columns)):
            plain = self.sizes(buffer, stream_rows)
            intervals = INTERVALS if lanes == 1 else (1,)  # with time between sums there is one rescaler less
            for interval, (single_port, banks, ahead), sliding in product(
                    intervals, self.memories(memory), self.sliding(columns, buffer)):
                stage = self.stage(replace(plain, single_port=single_port, interval=interval, banks=banks,
                                           sliding=sliding, ahead=ahead))
                folding = Folding(rows, columns, lanes, weight_rows=0 if memory is None else stream_rows)
                if stream_rows in stage.weight_rows(folding) and self.can_stream(stage, folding, memory):
                    yield from self.paced(stage, folding, memory)

    def sliding(self, columns: int, buffer: int) -> Sequence[bool]:
        """Whether the array keeps words for windows that slide, where there are such windows."""
        stage = self.stage(replace(self.sizes(buffer, columns), sliding=True))
        return (False, True) if stage.made_for(columns).program.shape.windows.taps > 1 else (False,)

    def buffers(self, columns: int) -> Sequence[int]:
        """The smallest buffer that has room for the weights of a block, and one of twice as many words: then the next
        weights come meanwhile."""
        for k, buffer in enumerate(BUFFERS):
            try:
                self.stage(self.sizes(buffer, columns)).made_for(columns)
            except HwflowError as error:
                self.problem = error
                continue
            return BUFFERS[k:k + 2]
        return ()

    def can_stream(self, stage: SharedStage, folding: Folding, memory: OutsideMemory | None) -> bool:
        if memory is None:
            return True
        stream = stage.weight_stream(folding)
        return stream is not None and WeightImage.possible(stream, memory.part.width)

    def paced(self, stage: SharedStage, folding: Folding, memory: OutsideMemory | None) -> Iterator[Candidate]:
        """The stage with the pace of its weights, where the memory is large enough."""
        try:
            (folding,) = paced([stage], [folding], memory)
        except TooManyWeights as error:
            stream = stage.weight_stream(folding)
            if stream is not None and (self.crowded is None or stream.bits < self.crowded[0]):
                self.crowded = stream.bits, error
            return
        except HwflowError as error:
            self.problem = error
            return
        shape = stage.shape(folding)
        steps = [step for step, _ in stage.made_for(folding.cols).program.computed()]
        blocks = [step.loops.blocks * step.turns_of_tile * shape.period(step) for step in steps]
        weights = [int(shape.beats_of(step) * folding.weight_interval) for step in steps]
        yield Candidate(stage, folding, np.array(blocks, np.int64), np.array(weights, np.int64))
