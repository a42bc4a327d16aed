"""What the cards and tables of the section "The graph" say of stages and layers, as texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..hls.names import layer_names
from ..hls.plan import Plan, StagePlan
from ..layers.base import Layer
from ..report.layer_words import kind_text, tensor_text, weights_of
from ..report.numbers import number, percent
from ..report.plan import bottleneck, busy, folding_text, padding_loss
from .anchors import layer_anchor, stage_anchor

__all__ = ["Card", "cards_of", "href_of"]


@dataclass(frozen=True)
class Card:
    """A stage, or a layer of a shared stage: its facts as pairs of a name and a text; `links` leads to other cards."""

    anchor: str
    title: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...] = ()


def href_of(position: int, stage: StagePlan) -> str:
    """Where the box of a layer leads."""
    return f"#{layer_anchor(position) if stage.steps else stage_anchor(stage.name)}"


def cards_of(plan: Plan, stages: Sequence[StagePlan]) -> Iterator[Card]:
    """A card for each stage, and for each layer of a shared stage; `stages` has the stage of each layer."""
    names = layer_names(plan.graph)
    for stage in plan.stages:
        inside = [position for position, each in enumerate(stages) if each is stage]
        if not stage.steps:
            layer = plan.graph.layers[inside[0]]
            yield Card(stage_anchor(stage.name), stage.name, kind_text(plan.graph, layer),
                       (*stage_facts(plan, stage), *layer_facts(plan, layer), in_model(layer)))
            continue
        links = tuple((f"#{layer_anchor(position)}", names[position]) for position in inside)
        yield Card(stage_anchor(stage.name), stage.name, f"shared by {len(inside)} layers",
                   tuple(stage_facts(plan, stage)), links)
        for position in inside:
            layer = plan.graph.layers[position]
            yield Card(layer_anchor(position), names[position], f"{kind_text(plan.graph, layer)}, in {stage.name}",
                       (*step_facts(plan, stage, layer), *layer_facts(plan, layer), in_model(layer)),
                       ((f"#{stage_anchor(stage.name)}", f"stage {stage.name}"),))


def in_model(layer: Layer) -> tuple[str, str]:
    return "in the model", layer.name


def layer_facts(plan: Plan, layer: Layer) -> Iterator[tuple[str, str]]:
    for name in layer.inputs:
        yield "input", f"{tensor_text(plan.graph, name)}, '{name}'"
    yield "output", f"{tensor_text(plan.graph, layer.output)}, '{layer.output}'"
    weights = weights_of(layer)
    if weights is not None:
        yield "weights", f"{weights}, {number(weights.count * weights.format.bits)} bits"
    multiplications = layer.multiplications(plan.graph)
    if multiplications:
        yield "multiplications", f"{number(multiplications)} a frame"


def stage_facts(plan: Plan, stage: StagePlan) -> Iterator[tuple[str, str]]:
    schedule = stage.schedule
    slowest = ", the slowest stage" if stage is bottleneck(plan) and len(plan.stages) > 1 else ""
    yield "cycles a frame", f"{number(schedule.interval)}{slowest}"
    yield "works", f"{number(schedule.work)} cycles, {percent(busy(stage, plan))} of the interval"
    yield "parallel", folding_text(stage)
    if schedule.multipliers:
        loss = padding_loss(stage)
        filled = f"; {percent(loss)} of their work fills sizes up" if loss else ""
        useful = percent(stage.multiplier_use(plan.interval))
        yield "multipliers", f"{number(schedule.multipliers)}, useful in {useful} of the cycles{filled}"
    need = [(name, count) for name, count in stage.resources.counts().items() if count]
    yield "takes", ", ".join(f"{number(count)} {name.upper()}" for name, count in need)
    for each in plan.memories:
        memory = each.memory
        if each.part == stage.name:
            yield "memory", f"{memory.name}: {number(memory.depth)} words of {memory.width} bits in {each.place.value}"
    for stream in plan.streams:
        if stream.stage == stage.name:
            yield "weights outside", f"{number(stream.bytes)} bytes a frame from the memory beside the FPGA"


def step_facts(plan: Plan, stage: StagePlan, layer: Layer) -> Iterator[tuple[str, str]]:
    """What the shared stage does for the layer; a layer may take several steps."""
    for step in stage.steps:
        if step.tensor == layer.output:
            waits = f", {number(step.waits)} of them waiting for weights" if step.waits else ""
            share = percent(step.cycles / plan.interval)
            yield "cycles a frame", f"{number(step.cycles)}, {share} of the interval{waits}"
