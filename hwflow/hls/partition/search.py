"""The search of partitions: which layers share a stage, and which have stages of their own, so that frames follow each
other fastest.

Searched are partitions with one shared stage or two, each of consecutive layers in the order of the graph, beside
dataflow stages for all other layers.  There are thousands.  Bounds of what layers take (`bounds`) say which
of them may fit at an interval; only of these, the cheapest first, stages are compiled and the foldings of the others
solved.  So the interval grows from the shortest that any bound allows, until a partition really fits or a known plan is
as fast.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, takewhile
from types import MappingProxyType

import numpy as np
from hwflow_rtl.multiply.style import MultiplierStyle

from hwflow.hls.foldings.budget import RESOURCE_NAMES, Budget
from hwflow.hls.foldings.computed_once import Counts
from hwflow.hls.foldings.effort import Effort
from hwflow.hls.foldings.solver import HEAVIER, Solver
from hwflow.hls.partition.bounds import KINDS, DataflowBounds, Run, SharedBounds
from hwflow.hls.partition.candidates import Candidate, Candidates
from hwflow.hls.partition.options import Option, Options
from hwflow.hls.plan.choices import Choice
from hwflow.hls.plan.outside_memory import OutsideMemory, TooManyWeights, paced
from hwflow.hls.plan.plan import Plan
from hwflow.stages.folding import Folding, Schedule
from hwflow.stages.kinds import stage_of
from hwflow.stages.partition import SHARED, Group, Partition

#: A mixed design pays where its frames follow each other so many times as fast as in one shared stage.
GAIN = 1.05
#: From one interval to the next that is tried, and all of them.
STEP = 1.08
INTERVALS = tuple(sorted({int(STEP**k) for k in range(500)}))
#: Partitions with one shared stage, and with two, that are solved at an interval, and in all.
AT_ONCE, MOST = (3, 2), (18, 10)
#: Steps of the effort for a layer: to bound all partitions at an interval, and to compile the candidates of a run; and
#: layers of which shared stages are played in a step.
AT_A_TARGET, COMPILED, PLAYED = 2, 3, 4
#: What resources of shared stages count: all alike, or one that is short more.
WEIGHTS: Sequence[Mapping[str, float]] = tuple(
    {kind: HEAVIER if kind == heavy else 1.0 for kind in RESOURCE_NAMES} for heavy in ("", "dsp", "ram"))
#: Shorter and shorter intervals for which a partition is solved where its frames have to wait.
SHORTER = 3
#: An interval is found but for its 2**-CLOSE.
CLOSE = 10


@dataclass(frozen=True, eq=False)
class Mixed:
    """Stages of a partition that fit, with `picked` foldings, and the cycles from frame to frame.  The `plan` of it
    takes much longer to make, so only the best one gets one."""

    solver: Solver
    picked: Sequence[Choice]
    interval: int
    memory: OutsideMemory | None

    @classmethod
    def of(cls, solver: Solver, picked: Sequence[Choice], memory: OutsideMemory | None) -> Mixed:
        _, pace, interval = solver.known.with_queues(solver.partition, picked)
        return cls(solver, picked, max(pace, interval), memory)

    def plan(self) -> Plan:
        return self.solver.plan(self.picked, self.memory)


class PartitionSearch:
    """The partitions of the graph of `dataflow`, a solver without shared stages, on its device.

    Stages multiply in logic, and weights are in the memory outside, as that solver says; `memory` is that of the board,
    if it has one.  A search takes as many steps as `effort` has.
    """

    def __init__(self, dataflow: Solver, memory: OutsideMemory | None = None, effort: Effort | None = None):
        self.effort = Effort() if effort is None else effort
        self.dataflow = dataflow
        self.graph, self.technology, self.budget = dataflow.graph, dataflow.technology, dataflow.budget
        self.outside = dataflow.outside
        self.memory = self.outside if memory is None else memory
        self.limits = limits_of(self.budget)
        self.candidates: dict[tuple[Run, str], list[Candidate]] = {}
        #: Their cycles from frame to frame, where these are known, with the crowd at the memory outside.
        self.played: dict[tuple[Candidate, float], int] = {}

    @cached_property
    def bounds(self) -> SharedBounds:
        likenesses = [stage_of(self.graph, layer).likeness for layer in self.graph.layers]
        return SharedBounds(self.graph, self.dataflow.target, likenesses, self.dataflow.known.parts)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs that may fit, of some layers, not of all."""
        return [run for run in self.bounds.runs if not self.has_all(run) and (run.counts <= self.limits).all()]

    @cached_property
    def options(self) -> Options:
        return Options(self.runs, DataflowBounds(self.dataflow), self.limits)

    @cached_property
    def whole(self) -> int | None:
        """About the cycles of a frame in one shared stage of all layers; None where none fits."""
        budget = replace(self.budget, usable_logic=max(self.budget.usable_logic, self.technology.usable_logic_shared))
        limits = limits_of(budget)
        return min((run.promised for run in self.bounds.runs if self.has_all(run) and (run.counts <= limits).all()),
                   default=None)

    def has_all(self, run: Run) -> bool:
        return run.end - run.first == len(self.graph.layers)

    @cached_property
    def least_interval(self) -> float:
        """Cycles in which as many multipliers as there may be do all multiplications of a frame; 0 where logic
        multiplies."""
        styles = {style for offered in self.dataflow.offered for style in offered}
        if MultiplierStyle.LOGIC in styles:
            return 0.0
        products = 2 if MultiplierStyle.PAIRS in styles else 1
        blocks = max(1, self.budget.limit("dsp"))
        return sum(stage.multiplications for stage in self.dataflow.stages) / (products * blocks)

    def fastest(self) -> Plan | None:
        """The fastest mixed plan that is found."""
        return self.faster(GAIN * self.slowest)

    @cached_property
    def slowest(self) -> int:
        """The longest interval that any partition makes use of."""
        alone = [int(choices.stage_intervals.max()) for choices in self.dataflow.choices]
        return max([*alone, *(run.promised for run in self.runs)])

    def at(self, interval: int) -> Plan | None:
        """A cheap mixed plan with an interval of at most `interval`."""
        mixed = self.cheap_at(interval)
        return None if mixed is None or mixed.interval > interval else mixed.plan()

    def cheap_at(self, interval: int) -> Mixed | None:
        """The design of `at`, or a slower one."""
        some = (self.some(interval, count, most) for count, most in enumerate(MOST, 1))
        options = sorted((option for listed in some for option in listed), key=lambda option: option.price)
        fitting = next((mixed for option in options if (mixed := self.within(option, interval)) is not None), None)
        if fitting is None and not self.effort.ended:  # shared stages may be faster than they promise
            fitting = self.fastest_below(interval * STEP, 1)
        if fitting is None and self.effort.ended:
            self.effort.bound = interval
        return fitting

    def within(self, option: Option, interval: int) -> Mixed | None:
        """The design of a partition, with an interval of at most `interval`, also where frames have to wait."""
        target = interval
        for _ in range(SHORTER):
            mixed = self.mixed(option, target)
            if mixed is None or mixed.interval <= interval:
                return mixed
            target = int(target * interval / mixed.interval)
        return None

    def faster(self, interval: float, gain: float = GAIN) -> Plan | None:
        """The fastest mixed plan that is found, where it is `gain` times as fast as `interval`; else None."""
        best = self.fastest_below(interval, gain)
        return None if best is None else best.plan()

    def fastest_below(self, interval: float, gain: float) -> Mixed | None:
        """The design of `faster`."""
        longest = interval / gain
        left = list(MOST)
        best: Mixed | None = None
        solved: dict[tuple[Run, ...], Mixed] = {}
        failed: Counter[tuple[Run, ...]] = Counter()
        targets = self.targets(longest)
        for target in targets:
            if target > longest or not any(left):
                break
            for count, at_once in enumerate(AT_ONCE, 1):
                for option in self.some(target, count, min(at_once, left[count - 1]), solved, failed):
                    left[count - 1] -= 1
                    mixed = self.refined(option, target, longest)
                    self.effort.tell(targets[0], None if best is None else best.interval)
                    if mixed is None:
                        failed[option.runs] += 1
                    else:
                        solved[option.runs] = mixed
                best = fastest_of(mixed for mixed in solved.values() if mixed.interval <= longest)
                if best is not None:
                    longest, self.effort.best = best.interval, best.plan
            if self.effort.ended:
                self.effort.bound = targets[0]
                break
        return best

    def some(self, target: int, count: int, most: int, without: Collection[tuple[Run, ...]] = (),
             failed: Mapping[tuple[Run, ...], int] = MappingProxyType({})) -> list[Option]:
        """At most `most` options with so many shared stages, the cheapest first of those that failed least."""
        self.effort.spend(AT_A_TARGET * len(self.graph.layers))
        options = (option for option in self.options.at(target)
                   if len(option.runs) == count and option.runs not in without)
        return list(islice(sorted(options, key=lambda option: failed.get(option.runs, 0)), most))

    def targets(self, longest: float) -> list[int]:
        """The intervals up to `longest` that are tried: from the shortest one on at which bounds allow any
        partition."""
        first = bisect_left(INTERVALS, self.least_interval)
        targets = list(takewhile(lambda target: target <= longest, INTERVALS[first:]))
        if not targets or not self.options.at(targets[-1]):
            return []
        return targets[bisect_left(targets, True, key=lambda target: bool(self.options.at(target))):]

    def refined(self, option: Option, target: int, longest: float) -> Mixed | None:
        """The fastest of a partition with an interval from `target` / `STEP` to about `target`; None where none is
        found, or none that is faster than `longest`."""
        if self.chosen(option, target) is None:
            return None
        low, high = int(target / STEP), target
        while high - low > max(1, high >> CLOSE):
            middle = (low + high) // 2
            if self.chosen(option, middle) is None:
                low = middle
            else:
                high = middle
        if low >= longest:
            return None
        tries = (self.mixed(option, pace) for pace in dict.fromkeys((high, (high + target) // 2, target)))
        return next((mixed for mixed in tries if mixed is not None), None)

    def chosen(self, option: Option, target: int) -> list[Candidate] | None:
        """The shared stages with which a partition is as fast as `target`; None where it does not fit, also without
        queues."""
        tried: list[list[Candidate]] = []
        for weights in WEIGHTS:
            while True:
                candidates = None if self.effort.ended else self.cheapest_of(option, target, weights)
                if candidates is None:
                    return None
                if candidates in tried or not self.fits(option, candidates, target):
                    break
                if self.keeps(option, candidates, target):
                    return candidates
                tried.append(candidates)
            tried.append(candidates)
        return None

    def fits(self, option: Option, candidates: Sequence[Candidate], target: int) -> bool:
        """If the shared stages keep what they promise, and without queues."""
        try:
            foldings = self.paced(candidates)
        except TooManyWeights:
            return False
        promised = list(map(as_promised, candidates, foldings, option.runs, option.crowds))
        return self.solver(candidates, promised).fitting(target, queues=False) is not None

    def keeps(self, option: Option, candidates: Sequence[Candidate], target: int) -> bool:
        """Whether the shared stages are as fast as they promise."""
        self.effort.spend(sum(len(candidate.stage.layers) for candidate in candidates) // PLAYED)
        choices = self.choices(candidates)
        for candidate, crowd, choice in zip(candidates, option.crowds, choices, strict=True):
            self.played[candidate, crowd] = choice.schedule.interval
        return all(choice.schedule.interval <= target for choice in choices)

    def choices(self, candidates: Sequence[Candidate]) -> list[Choice]:
        """With their schedules."""
        return [Choice(folding, self.dataflow.known.schedule(candidate.stage, folding))
                for candidate, folding in zip(candidates, self.paced(candidates), strict=True)]

    def paced(self, candidates: Sequence[Candidate]) -> list[Folding]:
        """Their foldings, where they share the memory outside."""
        stages, foldings = zip(*((candidate.stage, candidate.folding) for candidate in candidates), strict=True)
        return paced(stages, foldings, self.outside)

    def mixed(self, option: Option, target: int) -> Mixed | None:
        """The design of a partition, about as fast as `target`; None where none is found."""
        candidates = self.chosen(option, target)
        if candidates is None:
            return None
        solver = self.solver(candidates, self.choices(candidates))
        picked = solver.fitting(target)
        return None if picked is None else Mixed.of(solver, picked, self.memory)

    def solver(self, candidates: Sequence[Candidate], fixed: Sequence[Choice]) -> Solver:
        """With shared stages that have these choices, and all other layers in stages of their own."""
        partition = Partition(tuple(candidate.stage.sizes for candidate in candidates))
        return Solver(self.graph, self.dataflow.target, known=self.dataflow.known, partition=partition, fixed=fixed,
                      effort=self.effort)

    def cheapest_of(self, option: Option, target: int, weights: Mapping[str, float]) -> list[Candidate] | None:
        """The cheapest shared stage for each run with at most `target` cycles; resources count by `weights`."""
        cheapest = [self.cheapest(run, f"{SHARED}{k}", crowd, target, weights)
                 for k, (run, crowd) in enumerate(zip(option.runs, option.crowds, strict=True))]
        candidates = [candidate for candidate in cheapest if candidate is not None]
        return candidates if len(candidates) == len(cheapest) else None

    def cheapest(self, run: Run, name: str, crowd: float, target: int,
                 weights: Mapping[str, float]) -> Candidate | None:
        def price(candidate: Candidate) -> float:
            return self.budget.price(self.dataflow.known.cost(candidate.stage, candidate.folding), weights)

        fast = [candidate for candidate in self.candidates_of(run, name)
                if self.played.get((candidate, crowd), candidate.promised_beside(crowd) + run.idle) <= target]
        return min(smallest(fast), key=price, default=None)

    def candidates_of(self, run: Run, name: str) -> list[Candidate]:
        if (run, name) not in self.candidates:
            self.effort.spend(COMPILED * (run.end - run.first))
            group = Group(name, tuple(range(run.first, run.end)))
            memory = self.outside if run.sharing.outside else None
            compiled = Candidates(self.graph, group, self.technology).of_size(run.sharing.columns, memory)
            same = (replace(candidate, stage=self.dataflow.known.shared(candidate.stage)) for candidate in compiled)
            self.candidates[run, name] = [variant for one in same for variant in with_rescalers(one)]
        return self.candidates[run, name]


def fastest_of(designs: Iterable[Mixed]) -> Mixed | None:
    """The fastest by its interval, in which frames wait for shared stages."""
    return min(designs, key=lambda mixed: mixed.interval, default=None)


def with_rescalers(candidate: Candidate) -> Iterator[Candidate]:
    """The same stage, rescaling in multiplier blocks and in logic."""
    yield candidate
    for style in candidate.stage.rescale_styles:
        yield replace(candidate, folding=replace(candidate.folding, rescale=style))


def as_promised(candidate: Candidate, folding: Folding, run: Run, crowd: float) -> Choice:
    """A shared stage that is not played yet."""
    return Choice(folding, Schedule(0, candidate.promised_beside(crowd) + run.idle, folding.rows * folding.cols,
                                    candidate.stage.lanes_in(folding)))


def limits_of(budget: Budget) -> Counts:
    """The most that a design may take of each of `KINDS`."""
    return np.array([budget.limit(kind) for kind in KINDS], np.float64)


def smallest(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """Keep of those that differ only in their rescalers the one with the fewest."""
    seen = set()
    for one in sorted(candidates, key=lambda one: (one.folding.lanes, -one.stage.sizes.interval)):
        sizes = one.stage.sizes
        kind = (sizes.single_port, sizes.banks, sizes.buffer, sizes.rom_rows, sizes.sliding, sizes.ahead,
                one.folding.rescale)
        if kind not in seen:
            seen.add(kind)
            yield one
