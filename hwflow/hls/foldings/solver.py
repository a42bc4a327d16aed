"""The folding solver: the shortest interval between frames that a budget of resources allows.

For one target interval the cheapest folding of each stage does not depend on the other stages, except for the gearboxes
between neighbours.  The cost of a design grows as its interval shrinks.  So the solver bisects over the intervals that
the stages can have.  Each probe picks the cheapest folding of every stage, and then its style (`styles`): multiplier
blocks; two products in a block (pairs) if there are too few blocks; logic if there are still too few and logic is
allowed.  If there are not enough RAM blocks, weights move to external memory (`outside`), if the board has any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources
from hwflow_rtl.vendor.memory import Place

from hwflow.hls.foldings.budget import RESOURCE_NAMES, DoesNotFit, Target
from hwflow.hls.foldings.computed_once import Known
from hwflow.hls.foldings.effort import Effort
from hwflow.hls.plan.choices import Choice, Choices
from hwflow.hls.plan.memories import Option, Places, cheapest_options, gathered, relieved, with_places
from hwflow.hls.plan.outside_memory import (
    OutsideMemory,
    TooManyWeights,
    outside_cost,
    paced,
    slowest_intervals,
    streams_of,
)
from hwflow.hls.plan.plan import Plan, interval_of
from hwflow.hls.schedule.links import LinkPlan, link_cost, links_cost, links_of
from hwflow.hls.schedule.timeline import with_least_queues
from hwflow.layers.base import LayerGraph
from hwflow.stages.folding import Folding
from hwflow.stages.partition import DATAFLOW, Partition
from hwflow.stages.stage import Stage

#: Rounds of the search for foldings that need less of an exceeded resource, and how its price grows in each.
ROUNDS, HEAVIER = 4, 4.0
#: In a step of the effort, stages that get a folding, and beats of a frame that are played.
PICKED, BEATS = 4, 1000
#: Frames that are played for the queues of a plan, about.
PLAYED_FRAMES = 6
#: The share of the RAM blocks that a design takes if logic can hold the rest, and the share of the logic for that.
COMFORTABLE, ROOMY = 0.75, 0.65
#: Stages that are named in an error because they need the most.
MOST = 3
#: Of the clock for which an error says a bandwidth.
EXAMPLE_MHZ = 100


class Solver:
    """The stages of `graph` with all their foldings.  A cost is computed when it is first needed.

    Stages multiply in logic if the technology has no other style, or if the `logic` of the target allows it.  If there
    are too few RAM blocks, weights move to its memory `outside`, if it has one.  With `partition`, layers share stages,
    whose choices are `fixed`, in the order of the partition.  `known` is a cache that solvers of the same graph and
    technology share.  Nothing fits any more when the `effort` of the search has ended.
    """

    def __init__(self, graph: LayerGraph, target: Target, *, known: Known | None = None,
                 partition: Partition = DATAFLOW, fixed: Sequence[Choice] = (), effort: Effort | None = None):
        self.graph = graph
        self.target = target
        self.technology, self.budget, self.outside = target.technology, target.budget, target.outside
        self.known = Known(graph, target.technology) if known is None else known
        self.effort = Effort(math.inf) if effort is None else effort
        self.partition = partition
        self.stages = self.known.stages(partition)
        self.fixed = {shared.name: choice for shared, choice in zip(partition.shared, fixed, strict=True)}
        self.choices = self.choices_in(None)
        self.offered = [offered(stage.styles(target.technology), logic=target.logic) for stage in self.stages]
        #: Resources that the choices of `fitting` exceeded when it was called last.
        self.exceeded: set[str] = set()

    def choices_in(self, word: int | None) -> list[Choices]:
        """The foldings of each stage; with `word`, those that read their weights from external memory in such words."""
        free = iter(self.known.choices([stage for stage in self.stages if stage.name not in self.fixed], word))
        return [Choices(stage, self.technology, only=self.fixed[stage.name]) if stage.name in self.fixed else
                next(free) for stage in self.stages]

    @cached_property
    def streamed(self) -> list[Choices]:
        """For each stage the foldings that read weights from external memory; some stages have none."""
        return self.choices_in(1 if self.outside is None else self.outside.part.width)

    @cached_property
    def slowest(self) -> npt.NDArray[np.int64]:
        """The `slowest_intervals` of the memory outside."""
        assert self.outside is not None
        return slowest_intervals(self.stages, self.streamed, self.outside, self.technology)

    def cost(self, position: int, folding: Folding) -> Resources:
        """The cost of a stage."""
        return self.known.cost(self.stages[position], folding)

    def fastest(self) -> list[Choice] | None:
        """The choices for the shortest interval that fits; None if no interval fits.

        The FIFOs of the links take long to compute and seldom decide.  So the first search leaves them out.
        """
        all_choices = self.choices if self.outside is None else [*self.choices, *self.streamed]
        intervals = [stage.stage_intervals for stage in all_choices]
        if self.outside is not None:  # which may take longer than any folding
            intervals.append(self.slowest)
        targets = np.unique(np.concatenate(intervals)).tolist()
        if self.fitting(targets[-1], queues=False) is None:  # there every stage may have any folding
            return None
        first_fast = self.first_fitting(targets, queues=False)
        for first in ([] if first_fast is None else [first_fast, first_fast + 1]):
            best = self.fitting(targets[first]) if first < len(targets) else None
            if best is not None:
                return best
        if first_fast is None or self.fitting(targets[-1]) is None:  # mostly the smallest design of all
            return None
        first_fast = self.first_fitting(targets, queues=True, low=first_fast + 1)
        return None if first_fast is None else self.fitting(targets[first_fast])

    def refusal(self, interval: int | None) -> AnswerIsNo:
        """Why no plan fits: at `interval` cycles, or (None) at any."""
        slowest = max(int(stage.stage_intervals.max()) for stage in self.choices)
        picked = self.pick(slowest if interval is None else interval)
        if picked is None:
            least = max(int(stage.stage_intervals.min()) for stage in self.choices)
            return AnswerIsNo(f"an interval of {interval} cycles must be at least {least}, the shortest that the "
                              f"layers of '{self.graph.name}' allow")
        even = "not even with its smallest folding: " if interval is None else ""
        return does_not_fit(self, self.styled(picked), even=even)

    def first_fitting(self, targets: Sequence[int], *, queues: bool, low: int = 0) -> int | None:
        """The first position from `low` on in the ascending `targets` for which choices fit; None if none do."""
        best, high = None, len(targets) - 1
        while low <= high:
            middle = (low + high) // 2
            if self.fitting(targets[middle], queues=queues) is not None:
                best, high = middle, middle - 1
            else:
                low = middle + 1
        return best

    def fitting(self, target: int, *, queues: bool = True) -> list[Choice] | None:
        """Choices with an interval of at most `target` that fit together; None if none were found.

        Without `queues` the FIFOs of the links are not counted.

        If the choices exceed a resource, its price grows in the next round, so stages take foldings that need less of
        it.  If they exceed the RAM blocks, weights move to external memory first.
        """
        weights, seen = dict.fromkeys(RESOURCE_NAMES, 1.0), set()
        self.exceeded = set()
        outside: frozenset[int] = frozenset()
        for _ in range(ROUNDS if self.outside is None else 2 * ROUNDS):
            self.effort.spend(len(self.stages) // PICKED)
            picked = None if self.effort.ended else self.pick(target, weights, outside)
            if picked is None:
                return None
            try:
                picked = self.paced(self.styled(picked, weights))
            except TooManyWeights:
                return None
            if max(choice.schedule.interval for choice in picked) > target:
                return None
            foldings = tuple(choice.folding for choice in picked)
            if foldings in seen:
                return None
            seen.add(foldings)
            total = self.total(picked, queues=queues)
            if self.budget.fits(total):
                return picked
            exceeded = self.budget.exceeded(total)
            self.exceeded.update(exceeded)
            if "ram" in exceeded and self.outside is not None:
                more = self.moved_outside(target, picked, outside, total.ram - self.budget.limit("ram"), weights)
                if more != outside:
                    outside = more
                    continue
            for name in exceeded:
                weights[name] *= HEAVIER
        return None

    def moved_outside(self, target: int, picked: Sequence[Choice], outside: frozenset[int], excess: int,
                      weights: Mapping[str, float]) -> frozenset[int]:
        """`outside`, and more stages whose weights move there so that `excess` RAM blocks become free.

        It moves the stages that free them with the fewest streamed bits a frame: a knapsack problem like that of the
        styles, solved exactly.  If no choice frees so many blocks, it moves all stages that free any.
        """
        options, moving = [], []
        for k, choices in enumerate(self.streamed):
            there = self.cost(k, picked[k].folding).ram
            fast = [] if k in outside else choices.fast_enough(target, [None] * len(self.stages[k].inputs))
            if fast:
                best = self.cheapest(k, fast, [None] * len(self.stages[k].inputs), weights)
                folding = replace(best.folding, style=self.styles(k, best)[0])  # one that the technology has
                left, stream = self.cost(k, folding).ram, self.stages[k].weight_stream(folding)
                if left < there and stream is not None:
                    options.append([Option(there, 0.0), Option(left, float(stream.bits))])
                    moving.append(k)
        least = sum(stay.blocks for stay, _ in options) - excess
        chosen = cheapest_options(options, least)
        return outside | {k for k, place in zip(moving, chosen, strict=True) if place}

    def paced(self, picked: list[Choice]) -> list[Choice]:
        """The same foldings, with the pace of the weights that come from external memory."""
        if not any(choice.folding.weight_rows for choice in picked):
            return picked
        foldings = paced(self.stages, [choice.folding for choice in picked], self.outside)
        return [choice if folding == choice.folding else Choice(folding, self.known.schedule(stage, folding))
                for stage, folding, choice in zip(self.stages, foldings, picked, strict=True)]

    def pick(self, target: int, weights: Mapping[str, float] | None = None,
             outside: frozenset[int] = frozenset()) -> list[Choice] | None:
        """The cheapest folding of each stage with an interval of at most `target`, its input gearboxes included.

        The stages whose numbers are in `outside` read their weights from external memory.
        """
        picked: list[Choice] = []
        lanes: dict[str, int] = {}
        for position, stage in enumerate(self.stages):
            coming = [lanes.get(name) for name in stage.inputs]
            choices = (self.streamed if position in outside else self.choices)[position]
            fast = choices.fast_enough(target, coming)
            if not fast:
                return None
            picked.append(self.cheapest(position, fast, coming, weights))
            lanes |= dict(zip(stage.outputs, stage.lanes_out(picked[-1].folding), strict=True))
        return picked

    def cheapest(self, position: int, choices: Sequence[Choice], coming: Sequence[int | None],
                 weights: Mapping[str, float] | None) -> Choice:
        """The cheapest of `choices`, with the style that takes the fewest blocks and with the cheapest memories.

        Which style a stage gets, and which memories leave the RAM blocks, is decided later for all stages together.
        """
        stage = self.stages[position]

        def price(choice: Choice) -> float:
            folding = replace(choice.folding, style=self.styles(position, choice)[-1])
            cost = self.cost(position, folding) + self.joined(stage, choice, coming)
            saved = sum(min(0.0, self.budget.price(change, weights)) for change in self.known.movable(stage, folding))
            return self.budget.price(cost, weights) + saved

        return min(choices, key=price)

    def styles(self, position: int, choice: Choice) -> list[MultiplierStyle]:
        """The styles that a stage may use, in this order: blocks, pairs, logic."""
        possible = (self.streamed if choice.folding.weight_rows else self.choices)[position].styles(choice)
        return [style for style in self.offered[position] if style in possible]

    def styled(self, picked: Sequence[Choice], weights: Mapping[str, float] | None = None) -> list[Choice]:
        """The same foldings with the styles that need the least logic within the multiplier blocks of the budget."""
        styled = [[choice.folding] if self.stages[position].name in self.fixed else
                  [replace(choice.folding, style=style, rescale=rescale) for style in self.styles(position, choice)
                   for rescale in (None, *self.stages[position].rescale_styles)]
                  for position, choice in enumerate(picked)]
        options = [[self.option(self.cost(position, folding), weights) for folding in foldings]
                   for position, foldings in enumerate(styled)]
        places = cheapest_options(options, self.budget.limit("dsp"))
        return [Choice(foldings[place], choice.schedule)
                for foldings, place, choice in zip(styled, places, picked, strict=True)]

    def option(self, cost: Resources, weights: Mapping[str, float] | None) -> Option:
        return Option(cost.dsp, self.budget.price(replace(cost, dsp=0), weights))

    def joined(self, stage: Stage, choice: Choice, coming: Sequence[int | None]) -> Resources:
        """The cost of the gearboxes at the inputs of a stage; an input of the graph needs none."""
        bits = (self.graph.tensors[name].format.bits for name in stage.inputs)
        return sum((link_cost(width, entering if lanes is None else lanes, entering, self.technology)
                    for width, lanes, entering in zip(bits, coming, choice.schedule.lanes_in, strict=True)),
                   Resources())

    def total(self, picked: Sequence[Choice], *, queues: bool = True) -> Resources:
        """The resources of all stages and of the links between them; FIFOs are counted only if the rest fits, and all
        of them only if there are RAM blocks for those of a first frame."""
        links = self.links(picked)
        without, _ = self.relieved(picked, links)
        if not queues or not self.budget.fits(without):
            return without
        if not self.technology.single_port_rams:  # where queues are in SPRAM, all of them decide which ones
            least, _ = self.relieved(picked, self.with_least_queues(picked, links))
            if least.ram > self.budget.limit("ram"):
                return least
        self.effort.spend(beats_of(links) // BEATS)
        for deeper in self.known.deepening(self.partition, picked):
            total, _ = self.relieved(picked, deeper)
            if not self.budget.fits(total):
                break
        return total

    def places(self, picked: Sequence[Choice]) -> dict[str, Places]:
        """Find, for each stage, the memories that are not in the kind of memory that the family prefers.

        More of them leave the RAM blocks than must, until at most `COMFORTABLE` of the blocks are taken, if at most
        `ROOMY` of the logic is then taken: a chip whose blocks are all taken has long wires.  Memories that are almost
        empty leave them, too, if there are many (`gathered`).
        """
        links = self.with_queues(picked)  # the place of a memory changes no cycle, so no FIFO
        total, places = self.relieved(picked, links)
        logic = [kind for kind in ("lut", "ff") if self.budget.limit(kind)]
        least = int(COMFORTABLE * self.budget.limit("ram"))
        for blocks in range(least, total.ram, max(1, (total.ram - least) // 8)):
            relieved_total, others = self.relieved(picked, links, blocks)
            if all(getattr(relieved_total, kind) <= ROOMY * self.budget.limit(kind) for kind in logic):
                total, places = relieved_total, others
                break
        costs = [self.cost(k, choice.folding) for k, choice in enumerate(picked)]
        room = Resources.of_counts({
            kind: int(ROOMY * self.budget.limit(kind)) - getattr(total, kind) for kind in logic})
        places = gathered(costs, places, self.budget.limit("ram"), room, self.technology)
        return {stage.name: of_stage for stage, of_stage in zip(self.stages, places, strict=True)}

    def plan(self, picked: Sequence[Choice], outside: OutsideMemory | None) -> Plan:
        """The plan with these choices, on a board with the memory `outside`."""
        return self.known.plan([choice.folding for choice in picked], self.places(picked), outside, self.partition)

    def links(self, picked: Sequence[Choice]) -> tuple[LinkPlan, ...]:
        """The links between the stages, without FIFOs."""
        return links_of(self.graph, self.stages, [(choice.folding, choice.schedule.lanes_in) for choice in picked])

    def with_least_queues(self, picked: Sequence[Choice], links: Sequence[LinkPlan]) -> tuple[LinkPlan, ...]:
        """The `links` with FIFOs for a first frame alone: less than `with_queues`."""
        self.effort.spend(beats_of(links) // (PLAYED_FRAMES * BEATS))
        interval = interval_of([choice.schedule for choice in picked], links)
        return with_least_queues(self.stages, [choice.folding for choice in picked], links, self.technology, interval)

    def with_queues(self, picked: Sequence[Choice]) -> tuple[LinkPlan, ...]:
        """The links with the FIFOs that they need at the pace of the plan."""
        self.effort.spend(beats_of(self.links(picked)) // BEATS)
        return self.known.with_queues(self.partition, picked)[0]

    def relieved(self, picked: Sequence[Choice], links: Sequence[LinkPlan],
                 blocks: int | None = None) -> tuple[Resources, list[dict[str, Place]]]:
        """The resources of all stages and of `links`, and by stage the memories that leave the RAM blocks.

        So many leave them that at most `blocks` are taken; None: as many as the budget has.
        """
        costs = [self.cost(k, choice.folding) for k, choice in enumerate(picked)]
        streams = streams_of(self.stages, [choice.folding for choice in picked])
        joined = links_cost(links, self.technology) + outside_cost(self.outside, streams, self.technology)
        preferred = self.technology.placed(sum(costs, joined))
        excess = preferred.ram - (self.budget.limit("ram") if blocks is None else blocks)
        places = relieved(costs, excess, self.technology, self.budget.price)
        placed = (with_places(cost, away, self.technology) for cost, away in zip(costs, places, strict=True))
        return self.technology.placed(sum(placed, joined)), places


def beats_of(links: Sequence[LinkPlan]) -> int:
    """Beats of a frame that leave the sources of all links."""
    return sum(link.elements // link.lanes_out for link in links)


def offered(styles: Sequence[MultiplierStyle], *, logic: bool) -> list[MultiplierStyle]:
    """List those of `styles` that the solver may choose.

    LOGIC only if `logic` allows it or it is the only style.  Never MACS, because nextpnr does not know the delay of an
    ALU54B (docs/synthesis.md): only the file of a plan can ask for it.
    """
    return [style for style in MultiplierStyle
            if style in styles and style is not MultiplierStyle.MACS
            and (logic or style is not MultiplierStyle.LOGIC or len(styles) == 1)]


def solve(graph: LayerGraph, target: Target, *, interval: int | None = None, known: Known | None = None) -> Plan:
    """The fastest plan for `target`; with `interval`, the cheapest plan that is at least that fast.

    `known` is what was computed before for this graph and technology.  AnswerIsNo if no plan fits: it names the
    resource, the largest stages and the remedy.
    """
    outside = target.outside
    memories = [outside] if target.stream_weights or outside is None else [None, outside]
    known = Known(graph, target.technology) if known is None else known
    for memory in memories:
        for logic in ([True] if target.logic else [False, True]):
            solver = Solver(graph, replace(target, outside=memory, logic=logic), known=known)
            picked = solver.fastest() if interval is None else solver.fitting(interval)
            if picked is not None:
                plan = solver.plan(picked, outside)
                return plan if interval is None or not plan.loop else in_step(solver, plan, outside, interval)
            if solver.exceeded == {"ram"}:  # products in logic would not help
                break
    raise solver.refusal(interval)


def in_step(solver: Solver, plan: Plan, outside: OutsideMemory | None, interval: int) -> Plan:
    """`plan`, or one of faster stages, whose frames do not wait longer than `interval` cycles for states that the frame
    before hands on.

    AnswerIsNo where all wait longer.
    """
    target, best = interval, plan
    while best.interval > interval and target > 1:
        target //= 2
        picked = solver.fitting(target)
        if picked is None:
            break
        best = min(best, solver.plan(picked, outside), key=lambda each: each.interval)
    if best.interval > interval and (picked := solver.fastest()) is not None:
        best = min(best, solver.plan(picked, outside), key=lambda each: each.interval)
    if best.interval > interval:
        raise AnswerIsNo(f"an interval of {interval} cycles must be at least {best.interval}, because a frame of "
                         f"'{plan.model}' waits for the states that the one before hands on")
    return best


def does_not_fit(solver: Solver, picked: Sequence[Choice], *, even: str = "") -> DoesNotFit:
    """The error for the design `picked`: which resources are exceeded, by how much, and the remedy."""
    total, budget, names = solver.total(picked), solver.budget, [stage.name for stage in solver.stages]
    costs = [solver.cost(k, choice.folding) for k, choice in enumerate(picked)]
    parts, short = [], []
    for field, name in RESOURCE_NAMES.items():
        need, have = getattr(total, field), budget.limit(field)
        if need > have:
            order = sorted(range(len(costs)), key=lambda k: -getattr(costs[k], field))[:MOST]
            most = ", ".join(f"{names[k]} {getattr(costs[k], field):,}" for k in order)
            parts.append(f"{need:,} {name} needed, {have:,} usable (most in {most})")
            short.append(f"{need:,} {name} of {have:,}")
    outside, helps = weights_outside(solver, picked, total.ram - budget.limit("ram"))
    lacking = f"'{solver.graph.name}' does not fit {budget.name}, {even}{'; '.join(parts)}"
    said = " and ".join(filter(None, (", ".join(short[:-1]), short[-1])))
    return DoesNotFit.of(f"{lacking}. {outside}", lacking=said,
                         outside_helps=0 if solver.outside and solver.outside.bytes >= helps else helps)


def weights_outside(solver: Solver, picked: Sequence[Choice], excess: int) -> tuple[str, int]:
    """Which weights would have to leave the RAM blocks, and the bandwidth for it; their bytes if that would be enough
    blocks, else 0.

    "" where RAM blocks are not short, or no weights can leave.
    """
    if excess <= 0:
        return "", 0
    pace = max(choice.schedule.interval for choice in picked)
    weights = dict.fromkeys(RESOURCE_NAMES, 1.0)
    moved = sorted(solver.moved_outside(pace, picked, frozenset(), excess, weights))
    rest = solver.pick(pace, weights, frozenset(moved)) if moved else None
    if rest is None:
        return "", 0
    streams = [solver.stages[k].weight_stream(rest[k].folding) for k in moved]
    size = sum(-(-stream.bits // 8) for stream in streams if stream is not None)
    names = ", ".join(solver.stages[k].name for k in moved[:MOST])
    more = f" and {len(moved) - MOST} more stages" if len(moved) > MOST else ""
    left = solver.total(solver.styled(rest)).ram
    enough = left <= solver.budget.limit("ram")
    verdict = "the RAM blocks suffice" if enough else f"{left:,} block RAMs are still needed"
    rate, memory = size / pace * EXAMPLE_MHZ, solver.outside
    few = "" if memory is None or size <= memory.bytes else (
        f", and {memory.part.name} has {memory.bytes:,}, {size - memory.bytes:,} fewer")
    return (f"With the weights of {names}{more} in a memory outside of the FPGA {verdict}: {size:,} bytes a frame, "
            f"{rate:.3g} MB/s at {EXAMPLE_MHZ} MHz{few}. "), size if enough else 0
