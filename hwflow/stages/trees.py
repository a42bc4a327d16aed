"""The stage of an ensemble of decision trees."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property

from hwflow_rtl.trees.forest import Aggregate, Forest
from hwflow_rtl.trees.parallel import ParallelPlan, ParallelTreesShape
from hwflow_rtl.trees.walk import SLOTS, WalkedTreesShape, WalkPlan
from hwflow_rtl.vendor import Technology

from hwflow.layers.trees import Trees
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, divisors
from hwflow.stages.stage import LayerStage

#: Nodes that are compared all at once, at most; more fit no device.
MOST_PARALLEL = 1 << 14

#: Elements of a beat of which a walker chooses one.
MOST_COLS = 8


class TreesStage(LayerStage[Trees]):
    """All nodes at once, or walkers from node to node."""

    def shared_problem(self) -> str | None:
        return "a shared stage multiplies, and trees compare"

    def foldings(self) -> Iterator[Folding]:
        """`rows` are comparisons in a cycle.  All nodes at once, or walkers that each look at a node in a cycle: as few
        as make do with a number of rounds.  `cols` are channels of a beat, `lanes` targets of a beat.
        """
        channels, targets = self.x.frame.channels, self.layer.leaves.shape[1]
        nodes, trees = len(self.layer.features), len(self.layer.roots)
        if nodes <= MOST_PARALLEL:
            for cols in divisors(channels):
                yield from (Folding(nodes, cols, lanes) for lanes in divisors(targets))
        starts = -(-trees // SLOTS)
        walkers = sorted({-(-starts // rounds) for rounds in range(1, starts + 1)})
        for rows in walkers:
            for cols in divisors(channels):
                if cols <= MOST_COLS and rows < nodes:
                    yield from (Folding(rows, cols, lanes) for lanes in divisors(targets))

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        """The schedule of the shape, but without the plan of the trees, which takes long to make."""
        x, targets = self.x.frame, self.layer.leaves.shape[1]
        pixels, beats, groups = x.height * x.width, x.channels // folding.cols, targets // folding.lanes
        if self._is_parallel(folding):
            return Schedule(work=pixels * beats, interval=pixels * max(beats, groups), multipliers=0,
                            lanes_in=(folding.cols,))
        rounds = -(-len(self.layer.roots) // (folding.rows * SLOTS))
        cycles = pixels * (beats + rounds * SLOTS * (len(self.layer.levels) + groups))
        return Schedule(work=cycles, interval=cycles, multipliers=0, lanes_in=(folding.cols,))

    def _is_parallel(self, folding: Folding) -> bool:
        return folding.rows == len(self.layer.features)

    def shape(self, folding: Folding, technology: Technology) -> ParallelTreesShape | WalkedTreesShape:
        frame, plan = self.x.frame, self._plan(folding)
        pixels = frame.height * frame.width
        if isinstance(plan, ParallelPlan):
            return ParallelTreesShape(plan=plan, pixels=pixels, channels=frame.channels, cols=folding.cols,
                                      lanes=folding.lanes)
        return WalkedTreesShape(plan=plan, pixels=pixels, channels=frame.channels, cols=folding.cols)

    def _plan(self, folding: Folding) -> ParallelPlan | WalkPlan:
        """Plan what follows from the trees, once for each folding that needs another one."""
        parallel = self._is_parallel(folding)
        key = None if parallel else (folding.rows, folding.lanes)
        if key not in self._plans:
            element, output = shape_of(self.layer.input_format), shape_of(self.y.format)
            self._plans[key] = ParallelPlan(self._forest, element, output) if parallel else WalkPlan(
                self._forest, element, output, folding.rows, folding.lanes)
        return self._plans[key]

    @cached_property
    def _plans(self) -> dict[Hashable, ParallelPlan | WalkPlan]:
        return {}

    @cached_property
    def _forest(self) -> Forest:
        layer = self.layer
        return Forest(layer.features, layer.thresholds, layer.equal, layer.children, layer.roots, layer.leaves,
                      Aggregate(layer.aggregate))
