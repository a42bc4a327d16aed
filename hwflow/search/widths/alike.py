"""The plan of a model in other widths, made like the widest design's plan: the same stages with the same foldings.

It prices what layers do not cost one by one: stages that they share, weights outside of the FPGA, memories in tables.
"""

from __future__ import annotations

from collections.abc import Callable

from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.memory import Holds, MemoryKind

from hwflow.hls import Budget, Plan, StagePlan, make_plan
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.plan.memories import Places, memories_of_stage
from hwflow.hls.shared.stage import SharedStage
from hwflow.layers.base import Layer, LayerGraph
from hwflow.search.widths.points import LINKS
from hwflow.stages.folding import Folding
from hwflow.stages.problems import hardware_problems
from hwflow.stages.stage import LayerStage

#: The folding of a layer that has a stage of its own; None where it has none that is fast enough.
FoldingOf = Callable[[LayerGraph, Layer], Folding | None]


def is_sum_of_layers(plan: Plan) -> bool:
    """Whether the layers' own costs, and what joins them, are all that the plan costs; but for FIFOs of branches."""
    return not (plan.partition.shared or plan.streams or any(stage.places for stage in plan.stages))


def plan_like(plan: Plan, graph: LayerGraph, folding_of: FoldingOf) -> Plan | None:
    """`graph`, that of `plan` in other widths, in the stages of `plan`; None where one of them cannot be in hardware.

    Memories stay where they are in `plan` as far as they can be there.
    """
    if hardware_problems(graph) or [each.name for each in graph.layers] != [each.name for each in plan.graph.layers]:
        return None
    foldings: list[Folding] = []
    places: dict[str, Places] = {}
    for stage, widest in zip(stages_of(graph, plan.partition), plan.stages, strict=True):
        if isinstance(stage, LayerStage):
            folding = folding_of(graph, stage.layer)
        else:
            folding = widest.folding if stage.folding_problem(widest.folding, plan.device) is None else None
        if folding is None:
            return None
        foldings.append(folding)
        possible = {each.name: plan.device.places(each) for each in stage.cost(folding, plan.device).memories}
        places[stage.name] = {name: place for name, place in widest.places.items() if place in possible.get(name, ())}
    return make_plan(graph, foldings, plan.device, places, plan.outside, plan.partition, plan.why)


def prices_of(plan: Plan, budget: Budget) -> dict[str, float]:
    """The price of each part of a plan; they add up to the price of the plan.

    A stage of one layer is a part with the layer's name.  The ROM of weights of a shared stage is divided between its
    layers, by the beats that each takes of it for a frame; the rest of the stage is a part with its own name.  `LINKS`
    is all else: what joins stages to each other and to the memory outside, and what is lost where cells are packed.
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
            prices[planned.layers[0]] = whole
    return prices | {LINKS: budget.price(plan.resources) - sum(prices.values())}


def _rom_of_weights(stage: StagePlan, technology: Technology) -> Resources:
    """The ROM for the weights of a shared stage; nothing where its weights are outside of the FPGA."""
    memories = memories_of_stage(stage.name, stage.resources, stage.places, technology)
    roms = [each.resources for each in memories
            if each.memory.kind is MemoryKind.ROM and each.memory.holds is Holds.WEIGHTS]  # fmt: skip
    return sum(roms, Resources())
