"""Costs and schedules of the stages of a graph with their foldings: computed when it is first needed, and once for all
partitions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.memory import Place

from hwflow.hls.plan.choices import Choice, Choices, choices_of
from hwflow.hls.plan.memories import Places, can_leave_blocks, moved
from hwflow.hls.plan.outside_memory import OutsideMemory
from hwflow.hls.plan.plan import Plan, PlanMaker, bare_links
from hwflow.hls.schedule.links import LinkPlan
from hwflow.hls.schedule.timeline import deepening
from hwflow.hls.shared.stage import SharedStage
from hwflow.layers.base import LayerGraph
from hwflow.stages.folding import Folding, Schedule
from hwflow.stages.partition import Partition, SharedLayers
from hwflow.stages.stage import Stage

#: Of resources, one number for each kind.
Counts = npt.NDArray[np.float64]


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


class Known(PlanMaker):
    """Makes plans, and keeps what they have in common: stages of equal layers are the same object in all partitions."""

    def __init__(self, graph: LayerGraph, technology: Technology):
        super().__init__(graph, technology)
        self.cost: Callable[[Stage, Folding], Resources] = cache(self._cost)
        self.schedule: Callable[[Stage, Folding], Schedule] = cache(self._schedule)
        self.movable: Callable[[Stage, Folding], list[Resources]] = cache(self._movable)
        #: The links of a partition with the choices of its stages, and their queues.
        self.queued: dict[tuple[Partition, tuple[Choice, ...]], tuple[tuple[LinkPlan, ...], int, int]] = {}
        #: The plans that were made, by everything that they are made of.
        self.plans: dict[Hashable, Plan] = {}
        #: Layers alone in a shared stage, by likeness and columns: those that are alike share one.
        self.parts: dict[tuple[Hashable, int], Part | None] = {}
        #: By their names and layers: a window may keep a state in one partition, and not in another one.
        self._stages: dict[tuple[str, tuple[str, ...]], Stage] = {}
        self._shared: dict[SharedLayers, SharedStage] = {}
        self._choices: dict[tuple[Hashable, int | None], Choices] = {}

    def stages(self, partition: Partition) -> tuple[Stage, ...]:
        return tuple(self.shared(stage) if isinstance(stage, SharedStage) else
                     self._stages.setdefault((stage.name, tuple(layer.name for layer in stage.layers)), stage)
                     for stage in super().stages(partition))

    def shared(self, stage: SharedStage) -> SharedStage:
        """The one that all partitions have instead of this stage, which is equal."""
        return self._shared.setdefault(stage.sizes, stage)

    def choices(self, stages: Sequence[Stage], word: int | None = None) -> list[Choices]:
        """The choices of each stage, see `choices_of`."""
        return choices_of(stages, self.technology, word=word, known=self._choices)

    def with_queues(self, partition: Partition, choices: Sequence[Choice]) -> tuple[tuple[LinkPlan, ...], int, int]:
        for _ in self.deepening(partition, choices):
            pass
        return self.queued[partition, tuple(choices)]

    def deepening(self, partition: Partition, choices: Sequence[Choice]) -> Iterator[tuple[LinkPlan, ...]]:
        """The links with deeper and deeper FIFOs, at the end with those that they need."""
        key = partition, tuple(choices)
        if key in self.queued:
            yield self.queued[key][0]
            return
        stages = self.stages(partition)
        bare, pace, interval = bare_links(self.graph, stages, choices, self.technology)
        for links in deepening(stages, [choice.folding for choice in choices], bare, self.technology, pace):
            yield links
        self.queued[key] = links, pace, interval

    def plan(self, foldings: Sequence[Folding], places: Mapping[str, Places], outside: OutsideMemory | None,
             partition: Partition) -> Plan:
        away = tuple((stage, tuple(sorted(moved_memories.items()))) for stage, moved_memories in sorted(places.items()))
        key = partition, tuple(foldings), away, outside
        if key not in self.plans:
            self.plans[key] = super().plan(foldings, places, outside, partition)
        return self.plans[key]

    def _cost(self, stage: Stage, folding: Folding) -> Resources:
        return stage.cost(folding, self.technology)

    def _schedule(self, stage: Stage, folding: Folding) -> Schedule:
        return stage.schedule(folding, self.technology)

    def _movable(self, stage: Stage, folding: Folding) -> list[Resources]:
        """List what a stage takes more, or less, with each memory that can leave the RAM blocks in tables."""
        return [moved(memory, Place.TABLES, self.technology) for memory in self.cost(stage, folding).memories
                if can_leave_blocks(memory, self.technology)]
