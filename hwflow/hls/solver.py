"""The folding solver: the shortest interval between frames that a budget of resources allows.

For one target interval the cheapest folding of each stage is independent of the others (but for the lanes between
neighbours), and the cost of a design grows as its interval shrinks.  So the solver searches the stages' own intervals
by bisection; each probe picks the cheapest folding of every stage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from hwflow_rtl.vendor import Resources, Technology

from ..errors import AnswerIsNo
from ..layers.base import Estimate, Folding, LayerGraph
from .plan import Plan, link_cost, links_cost, make_plan, stage_names

__all__ = ["Budget", "solve"]

#: Routers fail long before the last logic cell is used; the other resources can be used up.
USABLE_LOGIC = 0.85


@dataclass(frozen=True)
class Budget:
    """What a board offers.  `name` is for messages; `reserved` is what the design around the core needs."""

    name: str
    available: Resources
    reserved: Resources

    def limit(self, resource: str) -> int:
        share = USABLE_LOGIC if resource in ("lut", "ff") else 1.0
        return int(getattr(self.available, resource) * share) - int(getattr(self.reserved, resource))

    def price(self, resources: Resources) -> float:
        """The share of the budget that `resources` takes, summed over the kinds; what the solver keeps low."""
        shares = (getattr(resources, f.name) / max(self.limit(f.name), 1) for f in fields(Resources))
        return float(sum(shares))

    def fits(self, resources: Resources) -> bool:
        return all(getattr(resources, f.name) <= self.limit(f.name) for f in fields(Resources))


@dataclass(frozen=True)
class Choice:
    """One folding of one stage with its estimate and price."""

    folding: Folding
    estimate: Estimate
    price: float


def solve(graph: LayerGraph, technology: Technology, budget: Budget, *, interval: int | None = None) -> Plan:
    """The fastest plan within `budget`; with `interval`, the cheapest plan that is at least that fast.

    Raises AnswerIsNo where not even the slowest plan fits, naming the resource, the largest stages and what would help.
    """
    choices = [stage_choices(graph, position, technology, budget) for position in range(len(graph.layers))]
    if interval is not None:
        picked = pick(graph, choices, interval, budget)
        if picked is None:
            fastest = max(min(c.estimate.interval for c in stage) for stage in choices)
            raise AnswerIsNo(f"an interval of {interval} cycles must be at least {fastest}, the shortest that the "
                             f"layers of '{graph.name}' allow")
        return checked(graph, picked, technology, budget)
    targets = sorted({choice.estimate.interval for stage in choices for choice in stage})
    return make_plan(graph, [c.folding for c in bisect(graph, choices, targets, budget)], technology)


def bisect(graph: LayerGraph, choices: Sequence[Sequence[Choice]], targets: Sequence[int],
           budget: Budget) -> list[Choice]:
    """The picks for the smallest of `targets` (ascending) that fit; raises where none does."""
    low, high = 0, len(targets) - 1
    best: list[Choice] | None = None
    while low <= high:
        middle = (low + high) // 2
        picked = pick(graph, choices, targets[middle], budget)
        if picked is not None and budget.fits(total(graph, picked)):
            best, high = picked, middle - 1
        else:
            low = middle + 1
    if best is None:
        raise AnswerIsNo(does_not_fit(graph, choices, budget))
    return best


def stage_choices(graph: LayerGraph, position: int, technology: Technology, budget: Budget) -> list[Choice]:
    """Every folding of a stage, cheapest first."""
    layer = graph.layers[position]
    estimates = ((folding, layer.estimate(graph, folding, technology)) for folding in layer.foldings(graph))
    choices = [Choice(folding, estimate, budget.price(estimate.resources)) for folding, estimate in estimates]
    return sorted(choices, key=lambda c: (c.price, c.estimate.interval))


def pick(graph: LayerGraph, choices: Sequence[Sequence[Choice]], target: int, budget: Budget) -> list[Choice] | None:
    """The cheapest folding of each stage that is as fast as `target`, with what joins it to the stage before."""
    picked: list[Choice] = []
    tensor = graph.tensors[graph.inputs[0]]
    for layer, stage in zip(graph.layers, choices, strict=True):
        lanes = picked[-1].folding.lanes if picked else None
        output = graph.tensors[layer.output]
        best, lowest = None, math.inf
        for choice in stage:
            entering = choice.estimate.lanes_in
            slowest = max(choice.estimate.interval, output.frame.elements // choice.folding.lanes,
                          tensor.frame.elements // min(lanes or entering, entering))
            if choice.price >= lowest:
                break  # the others are dearer still
            if slowest <= target:
                price = choice.price + budget.price(link_cost(tensor.format.bits, lanes or entering, entering))
                if price < lowest:
                    best, lowest = choice, price
        if best is None:
            return None
        picked.append(best)
        tensor = output
    return picked


def total(graph: LayerGraph, choices: Sequence[Choice]) -> Resources:
    """The resources of all stages and of the links between them."""
    links = links_cost(graph, [(choice.folding, choice.estimate) for choice in choices])
    return sum((choice.estimate.resources for choice in choices), links)


def checked(graph: LayerGraph, picked: Sequence[Choice], technology: Technology, budget: Budget) -> Plan:
    """The plan of `picked`, or AnswerIsNo where it exceeds the budget."""
    plan = make_plan(graph, [choice.folding for choice in picked], technology)
    if not budget.fits(plan.resources):
        raise AnswerIsNo(over_budget(plan, budget))
    return plan


RESOURCE_NAMES = {"lut": "logic cells", "ff": "flip-flops", "dsp": "multipliers", "ram": "block RAMs"}


def over_budget(plan: Plan, budget: Budget) -> str:
    """Which resources `plan` exceeds, by how much, and the stages that take most of them."""
    lines = []
    for field, name in RESOURCE_NAMES.items():
        need, have = getattr(plan.resources, field), budget.limit(field)
        if need > have:
            rows = sorted(plan.stages, key=lambda s: -getattr(s.estimate.resources, field))[:3]
            most = ", ".join(f"{s.name} {getattr(s.estimate.resources, field)}" for s in rows)
            lines.append(f"{name}: {need} needed, {have} usable ({most})")
    return f"'{plan.model}' does not fit {budget.name}: " + "; ".join(lines)


def does_not_fit(graph: LayerGraph, choices: Sequence[Sequence[Choice]], budget: Budget) -> str:
    """Why not even the smallest folding fits, resource by resource, and what would help."""
    names = stage_names(graph)
    parts = []
    for field, name in RESOURCE_NAMES.items():
        least = [min(getattr(c.estimate.resources, field) for c in stage) for stage in choices]
        if sum(least) > budget.limit(field):
            order = sorted(range(len(least)), key=lambda k: -least[k])[:3]
            most = ", ".join(f"{names[k]} {least[k]}" for k in order)
            parts.append(f"{name}: at least {sum(least)} needed, {budget.limit(field)} usable (most of it: {most})")
    if not parts:
        smallest = total(graph, [stage[0] for stage in choices])
        parts = [f"{name}: {getattr(smallest, field)} needed, {budget.limit(field)} usable"
                 for field, name in RESOURCE_NAMES.items() if getattr(smallest, field) > budget.limit(field)]
    return (f"'{graph.name}' does not fit {budget.name}, not even with its smallest folding: {'; '.join(parts)}. "
            "Fewer channels or layers, fewer bits, or a larger board would help (`hwflow boards` lists them)")
