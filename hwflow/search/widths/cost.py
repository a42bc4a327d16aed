"""The cost of designs of one model at one pace: that of the plan which `hwflow synth` makes for the widest design.

The pace is the widest design's, so that what the search saves is resources and the throughput stays.  Each stage keeps
the folding it has there.  Where each layer has a stage of its own, the layers' own cost models and what joins them are
the cost; else the plan of each design is made (`alike`).  A layer without hardware costs nothing and is named in
`Pace.without`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.memory import Holds, MemoryKind

from hwflow.hls import Budget, Executions, Plan, StagePlan, make_plan
from hwflow.hls.foldings.solver import offered
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.plan.memories import Places, memories_of_stage
from hwflow.hls.plan.plan import own_layer
from hwflow.hls.schedule.links import link_cost
from hwflow.hls.shared.stage import SharedStage
from hwflow.layers.base import Layer, LayerGraph
from hwflow.search.widths.points import LINKS, Design
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import hardware_problems, has_hardware, stage_of
from hwflow.stages.partition import Execution
from hwflow.stages.stage import LayerStage

#: The folding of a layer that has a stage of its own; None where it has none that is fast enough.
FoldingOf = Callable[[LayerGraph, Layer], Folding | None]


def is_sum_of_layers(plan: Plan) -> bool:
    """Whether the layers' own costs, and what joins them, are all that the plan costs; but for FIFOs of branches."""
    joined = any(len(stage.layers) > 1 for stage in plan.stages)
    return not (plan.partition.shared or joined or plan.streams or any(stage.places for stage in plan.stages))


def plan_like(plan: Plan, graph: LayerGraph, folding_of: FoldingOf) -> Plan | None:
    """`graph`, that of `plan` in other widths, in the stages of `plan`; None where one of them cannot be in hardware.

    Memories stay where they are in `plan` as far as they can be there.
    """
    if hardware_problems(graph) or [item.name for item in graph.layers] != [item.name for item in plan.graph.layers]:
        return None
    stages = stages_of(graph, plan.partition)
    if [tuple(layer.name for layer in stage.layers) for stage in stages] != [stage.layers for stage in plan.stages]:
        return None  # in these widths other windows keep states
    foldings: list[Folding] = []
    places: dict[str, Places] = {}
    for stage, widest in zip(stages, plan.stages, strict=True):
        if isinstance(stage, LayerStage) and len(stage.layers) == 1:
            folding = folding_of(graph, stage.layer)
        else:
            folding = widest.folding if stage.folding_problem(widest.folding, plan.device) is None else None
        if folding is None:
            return None
        foldings.append(folding)
        possible = {item.name: plan.device.places(item) for item in stage.cost(folding, plan.device).memories}
        places[stage.name] = {name: place for name, place in widest.places.items() if place in possible.get(name, ())}
    return replace(make_plan(graph, foldings, plan.device, places, plan.outside, plan.partition), why=plan.why)


def prices_of(plan: Plan, budget: Budget) -> dict[str, float]:
    """The price of each part of a plan; they add up to the price of the plan.

    A stage of one layer, or of one and those that move the state of its window, is a part with the layer's name.  The
    ROM of weights of a shared stage is divided between its layers, by the beats that each takes of it for a frame; the
    rest of the stage is a part with its own name.  `LINKS` is all else: what joins stages to each other and to the
    memory outside, and what is lost where cells are packed.
    """
    prices: dict[str, float] = {}
    for stage, planned in zip(stages_of(plan.graph, plan.partition), plan.stages, strict=True):
        whole = budget.price(planned.resources)
        if isinstance(stage, SharedStage):
            rom, beats = budget.price(_rom_of_weights(planned, plan.device)), stage.beats_by_layer(planned.folding)
            rom = rom if any(beats.values()) else 0.0
            prices |= {layer: rom * count / max(1, sum(beats.values())) for layer, count in beats.items()}
            prices[planned.name] = whole - rom
        else:
            prices[_made_by(plan.graph, planned)] = whole
    return prices | {LINKS: budget.price(plan.resources) - sum(prices.values())}


def _made_by(graph: LayerGraph, stage: StagePlan) -> str:
    """The name of the layer that a stage of its own computes."""
    layer = own_layer(graph, stage)
    assert layer is not None, "it is no shared stage"
    return layer.name


def _rom_of_weights(stage: StagePlan, technology: Technology) -> Resources:
    """The ROM for the weights of a shared stage; nothing where its weights are outside of the FPGA."""
    memories = memories_of_stage(stage.name, stage.resources, stage.places, technology)
    roms = [memory.resources for memory in memories
            if memory.memory.kind is MemoryKind.ROM and memory.memory.holds is Holds.WEIGHTS]  # fmt: skip
    return sum(roms, Resources())


@dataclass(frozen=True)
class Pace:
    """Foldings for the layers of a model, by name, and what a board offers.

    `interval` is the cycles between frames.  `costs` are the layers' costs in the widest design; `without` are the
    layers that have no hardware there, so that their cost is unknown.  `fits` says whether the widest design fits.
    `widest` is its plan where that costs more than its layers, and each design has a plan like it; layers that share a
    stage have no folding then.
    """

    technology: Technology
    budget: Budget
    foldings: Mapping[str, Folding]
    costs: Mapping[str, Resources]
    interval: int
    without: tuple[str, ...]
    fits: bool
    widest: Plan | None = None
    notes: set[str] = field(default_factory=set)

    def design(self, graph: LayerGraph) -> Design:
        """The cost of `graph`, the same model in other widths.

        A layer that has no hardware in these widths, but has in the widest, counts as there; `notes` names it then.
        """
        if self.widest is not None:
            return self._planned(graph, self.widest)
        parts: dict[str, Resources] = {}
        placed: dict[str, Folding] = {}
        for layer in graph.layers:
            if layer.name in self.without:
                continue
            folding = self._folding(graph, layer)
            if folding is not None:
                parts[layer.name] = stage_of(graph, layer).cost(folding, self.technology)
                placed[layer.name] = folding
            elif layer.name in self.costs:
                parts[layer.name] = self.costs[layer.name]
                self.notes.add(f"layer '{layer.name}' has widths without hardware; they count as the widest")
        parts[LINKS] = _links(graph, placed, self.technology)
        total = self.technology.placed(sum(parts.values(), Resources()))
        prices = {name: self.budget.price(resources) for name, resources in parts.items()}
        return Design(Resources.of_counts(total.counts()), self.budget.price(total), prices)

    def plan(self, graph: LayerGraph) -> Plan | None:
        """The design of `graph` as a plan to build; None where it cannot be built yet."""
        if self.widest is not None:
            return plan_like(self.widest, graph, self._folding)
        if hardware_problems(graph):
            return None
        foldings = [self._folding(graph, layer) for stage in stages_of(graph) for layer in stage.layers]
        known = [folding for folding in foldings if folding is not None]
        return make_plan(graph, known, self.technology) if len(known) == len(foldings) else None

    def _planned(self, graph: LayerGraph, widest: Plan) -> Design:
        """The cost of the plan of `graph`."""
        plan = self.plan(graph)
        if plan is None:
            self.notes.add("some widths have no hardware in the stages of the widest design; they count as the widest")
        chosen = plan or widest
        resources = Resources.of_counts(chosen.resources.counts())
        return Design(resources, self.budget.price(resources), prices_of(chosen, self.budget))

    def _folding(self, graph: LayerGraph, layer: Layer) -> Folding | None:
        """The folding of the widest design, or the cheapest one that keeps its pace; None without hardware."""
        stage = _possible_stage(graph, layer)
        if stage is None:
            return None
        folding = self.foldings.get(layer.name)
        if folding is not None and stage.folding_problem(folding) is None:
            return folding
        return _cheapest(stage, self.interval, self.technology, self.budget)


def pace_of(executions: Executions) -> Pace:
    """The pace of the fastest plan.

    Where there is no plan, because parts have no hardware yet or the board is too small, each layer is folded by
    itself for the shortest interval at which they fit together, and at worst for the smallest cost.
    """
    graph, technology, budget = executions.graph, executions.target.technology, executions.target.budget
    able = {layer.name: stage for layer in graph.layers if (stage := _possible_stage(graph, layer)) is not None}
    without = tuple(layer.name for layer in graph.layers if layer.name not in able)
    plan = _fastest(executions)
    if plan is None:
        foldings, interval, fits = _each_by_itself(graph, able, technology, budget)
    else:
        foldings = {stage.layers[0]: stage.folding for stage in plan.stages
                    if not stage.steps and len(stage.layers) == 1}
        interval, fits = plan.interval, True
    costs = {name: able[name].cost(folding, technology) for name, folding in foldings.items()}
    return Pace(technology, budget, foldings, costs, interval, without, fits,
                None if plan is None or is_sum_of_layers(plan) else plan)  # fmt: skip


def _fastest(executions: Executions) -> Plan | None:
    """The plan that a build makes if nothing else is asked for; None where there is none."""
    if hardware_problems(executions.graph):
        return None
    try:
        return executions.plan(Execution.AUTO, None)
    except AnswerIsNo:
        return None


def _each_by_itself(
    graph: LayerGraph, stages: Mapping[str, LayerStage[Layer]], technology: Technology, budget: Budget
) -> tuple[dict[str, Folding], int, bool]:
    """Foldings by layer, their common interval, and whether they fit the budget together."""
    intervals = {
        name: sorted({stage.schedule(f, technology).interval for f in _foldings(stage, technology)})
        for name, stage in stages.items()
    }
    if not intervals:
        return {}, 0, True
    shortest = max(own[0] for own in intervals.values())
    targets = sorted({interval for own in intervals.values() for interval in own if interval >= shortest})

    def at(target: int) -> tuple[dict[str, Folding], bool]:
        picked = {name: _cheapest(stage, target, technology, budget) for name, stage in stages.items()}
        foldings = {name: folding for name, folding in picked.items() if folding is not None}
        costs = [stage.cost(foldings[name], technology) for name, stage in stages.items()]
        total = technology.placed(sum(costs, _links(graph, foldings, technology)))
        return foldings, budget.fits(total)

    low, high = 0, len(targets) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if at(targets[middle])[1] else (middle + 1, high)
    foldings, fits = at(targets[low])
    return foldings, targets[low], fits


def _possible_stage(graph: LayerGraph, layer: Layer) -> LayerStage[Layer] | None:
    """The stage of a layer; None where it cannot be in hardware."""
    stage = stage_of(graph, layer) if has_hardware(layer) else None
    return stage if stage is not None and stage.hardware_problem() is None else None


def _cheapest(stage: LayerStage[Layer], interval: int, technology: Technology, budget: Budget) -> Folding | None:
    """The cheapest of the foldings with the fewest multipliers that keep up with `interval`; None where none does."""
    schedules = [(folding, stage.schedule(folding, technology)) for folding in _foldings(stage, technology)]
    produced = stage.y.frame.elements
    fast = [folding for folding, schedule in schedules if max(schedule.interval, produced // folding.lanes) <= interval]
    least = min((folding.rows * folding.cols for folding in fast), default=0)
    small = [folding for folding in fast if folding.rows * folding.cols == least]
    return min(small, key=lambda f: budget.price(stage.cost(f, technology)), default=None)


def _foldings(stage: LayerStage[Layer], technology: Technology) -> list[Folding]:
    """The foldings in styles that the solver may take on the technology."""
    styles = offered(stage.styles(technology), logic=True)
    return [folding for folding in stage.foldings() if folding.style in styles]


def _links(graph: LayerGraph, foldings: Mapping[str, Folding], technology: Technology) -> Resources:
    """The cost of what joins each two neighbours that both have a folding."""
    costs = (
        link_cost(
            graph.tensors[maker.output].format.bits,
            foldings[maker.name].lanes,
            stage_of(graph, reader).schedule(foldings[reader.name], technology).lanes_in[
                reader.inputs.index(maker.output)],
            technology,
        )
        for maker, reader in _edges(graph)
        if maker.name in foldings and reader.name in foldings
    )
    return sum(costs, Resources())


def _edges(graph: LayerGraph) -> Iterator[tuple[Layer, Layer]]:
    for maker in graph.layers:
        for reader in graph.consumers(maker.output):
            yield maker, reader
