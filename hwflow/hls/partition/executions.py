"""Which execution a design gets: a stage for each layer, one shared stage, or shared stages beside others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.multiply.style import MultiplierStyle

from hwflow.hls.foldings.budget import DoesNotFit, Target
from hwflow.hls.foldings.computed_once import Known
from hwflow.hls.foldings.effort import Effort, quietly
from hwflow.hls.foldings.solver import Solver, solve
from hwflow.hls.partition.search import GAIN, PartitionSearch
from hwflow.hls.partition.shared_solver import Search, shared_refusal, solve_shared
from hwflow.hls.plan.outside_memory import OutsideMemory
from hwflow.hls.plan.plan import MIXED, Alternative, Plan
from hwflow.hls.shared.compile import shared_problems
from hwflow.layers.base import LayerGraph
from hwflow.stages.partition import Execution

#: Why a plan has the stages that it has.
ASKED, FITS = "that was asked for", "that fits the board"
#: Shared stages pay where frames follow each other so many times as fast, in cycles, as with a stage for each layer: a
#: shared stage routes at about two thirds of the clock.
PAYS = 1.5
#: Alternatives of a plan, for people.
SLOWER = "it is slower"
DATAFLOW, SHARED = Execution.DATAFLOW.value, Execution.SHARED.value


@dataclass(frozen=True, eq=False)
class Executions:
    """The plans of `graph` for `target`."""

    graph: LayerGraph
    target: Target
    #: What others computed for the same graph and technology.
    earlier: Known | None = None
    #: Hears where a long search is, and keeps its best plan when it is interrupted; see `Effort`.
    say: Callable[[str], None] = quietly
    keep: Callable[[Plan], str] | None = None

    @cached_property
    def known(self) -> Known:
        """Keeps what all plans have in common."""
        return Known(self.graph, self.target.technology) if self.earlier is None else self.earlier

    def plan(self, execution: Execution, interval: int | None) -> Plan:
        """The fastest plan; with `interval`, the cheapest one that is so fast.  AnswerIsNo if no plan fits; DoesNotFit
        where resources are short."""
        self.effort.begin()
        try:
            plan = self.found(execution, interval)
        except BaseException as error:
            if not isinstance(error, Exception):
                error.add_note(self.effort.interrupted())
            raise
        return replace(plan, why=f"{plan.why}{self.effort.early}")

    def found(self, execution: Execution, interval: int | None) -> Plan:
        """Make the plan, without what it says of a search that ended early."""
        if execution is Execution.DATAFLOW:
            return replace(self.dataflow(interval), why=ASKED)
        if execution is Execution.SHARED:
            return self.shared(interval, ASKED)
        try:
            plan = self.dataflow(interval)
        except DoesNotFit as refused:
            return self.instead_of_dataflow(refused, interval)
        return replace(plan, why=FITS) if interval is not None else self.faster(plan)

    @cached_property
    def effort(self) -> Effort:
        """The effort of all searches for a plan."""
        return Effort(say=self.say, keep=self.keep)

    def dataflow(self, interval: int | None) -> Plan:
        """A stage for each layer."""
        return solve(self.graph, self.target, interval=interval, known=self.known)

    def one_stage(self, interval: int | None, why: str) -> Plan:
        """One shared stage."""
        return solve_shared(self.graph, self.target, interval=interval, why=why, search=self.in_one_stage)

    @cached_property
    def in_one_stage(self) -> Search:
        """Keeps what all intervals have in common."""
        return Search(self.graph, self.target)

    def shared(self, interval: int | None, why: str) -> Plan:
        """One shared stage; where it cannot compute all layers, those that it can, and stages for the others.  `why` is
        that of the plan."""
        refused = shared_refusal(self.graph)
        if refused is None:
            return self.one_stage(interval, why)
        mixed = self.mixed(interval)
        if mixed is None:
            raise AnswerIsNo(f"'{self.graph.name}' cannot be one shared stage: {refused}; and no design of shared "
                             f"stages beside stages of single layers was found that fits {self.target.budget.name}"
                             f"{self.effort.early}")
        named = ", ".join(f"'{problem.layer}'" for problem in shared_problems(self.graph, self.graph.layers))
        why = f"{why}, and one shared stage cannot compute {named or 'all outputs'}"
        return replace(mixed, why=why, alternatives=(Alternative(SHARED, None, refused),))

    def faster(self, dataflow: Plan) -> Plan:
        """`dataflow`, or a plan with shared stages, where that pays."""
        plain = replace(dataflow, why=FITS, alternatives=(no_faster(PAYS),))
        self.effort.best = lambda: plain
        logic = self.target.logic or any(stage.folding.style is MultiplierStyle.LOGIC for stage in dataflow.stages)
        outside = self.target.outside if self.target.stream_weights or dataflow.streams else None
        search = self.search(logic=logic, outside=outside)
        if search.least_interval * PAYS > dataflow.interval:  # all multipliers have enough to do
            return plain
        best = plain
        if search.whole is not None and search.whole * PAYS < dataflow.interval:
            best = self.one_stage_instead(None)[0] or plain  # it may take more than its bound
        mixed = search.faster(min(best.interval * PAYS / GAIN, dataflow.interval), PAYS)
        best = best if mixed is None else mixed
        if best.interval * PAYS > dataflow.interval:
            return plain
        why = f"frames are {dataflow.interval / best.interval:.2f} times as fast as with a stage for each layer"
        others = [Alternative(DATAFLOW, dataflow.interval, SLOWER)]
        if best.execution != SHARED:
            others.append(self.one_stage_instead(None)[1])
        return replace(best, why=why, alternatives=tuple(others))

    def instead_of_dataflow(self, refused: DoesNotFit, interval: int | None) -> Plan:
        """The plan with shared stages, where a stage for each layer does not fit."""
        why = f"a stage for each layer takes {refused.lacking}"
        dataflow = Alternative(DATAFLOW, None, refused.facts.strip())
        shared, other = self.one_stage_instead(interval)
        if shared is None:
            mixed = self.mixed(interval)
            if mixed is None:
                raise refused.beside(f"{other.why}{self.effort.early}")
            lacking = "one shared stage is not possible" if interval is None else "no single shared stage is so fast"
            return replace(mixed, why=f"{why}, and {lacking}", alternatives=(dataflow, other))
        if interval is not None:
            return replace(shared, why=why, alternatives=(dataflow,))
        self.effort.best = lambda: shared
        mixed = self.search(logic=self.target.logic, outside=self.target.outside).faster(shared.interval)
        if mixed is None:
            return replace(shared, why=why, alternatives=(dataflow, no_faster(GAIN)))
        gain = f"frames are {shared.interval / mixed.interval:.2f} times as fast as in one shared stage"
        return replace(mixed, why=f"{gain}, and {why}", alternatives=(dataflow, other))

    def one_stage_instead(self, interval: int | None) -> tuple[Plan | None, Alternative]:
        """The plan of one shared stage, None where there is none; and what it is as an alternative."""
        try:
            plan = self.one_stage(interval, "")
        except AnswerIsNo as error:
            return None, Alternative(SHARED, None, error.why)
        return plan, Alternative(SHARED, plan.interval, SLOWER)

    def mixed(self, interval: int | None) -> Plan | None:
        """The fastest plan with shared stages beside others; with `interval` one that is so fast."""
        self.effort.last_resort()
        for logic in [True] if self.target.logic else [False, True]:
            search = self.search(logic=logic, outside=self.target.outside)
            plan = search.fastest() if interval is None else search.at(interval)
            if plan is not None:
                return plan
        return None

    def search(self, *, logic: bool, outside: OutsideMemory | None) -> PartitionSearch:
        target = replace(self.target, logic=logic, outside=outside)
        return PartitionSearch(Solver(self.graph, target, known=self.known), self.target.outside, self.effort)


def no_faster(gain: float) -> Alternative:
    return Alternative(MIXED, None, f"no such plan was found whose frames are {gain} times as fast")
