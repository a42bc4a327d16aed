"""The section with the picture of the graph, and a card for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwflow_base.printable import counted, number, percent, shortened
from markupsafe import Markup

from hwflow.hls.plan.plan import Plan, StagePlan, own_layer
from hwflow.layers.base import Layer, state_name
from hwflow.stages.names import layer_names

from ....facts.plan import bottleneck, busy, ends, execution_line, padding_loss
from ...console.plan import folding_text, lanes_text
from ...pictures.design import DesignGraph, design_graph, kind_text, tensor_text, weights_of, wide_scene
from ...pictures.scene import FONT, LINE, MARGIN, Scene, arrange, scene_parts, xml
from ..markup import Cell, element, environment, layer_anchor, stage_anchor, table
from ..subject import Section, Subject

# What the cards and tables of the section "The graph" say of stages and layers, as texts.


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
        inside = [position for position, other in enumerate(stages) if other is stage]
        if not stage.steps:
            layer = own_layer(plan.graph, stage) or plan.graph.layers[inside[0]]
            keeps = [("keeps", f"the state '{state_name(plan.graph, window.state)}' from frame to frame")
                     for window in plan.partition.windows(plan.graph) if window.layers == tuple(inside)]
            yield Card(stage_anchor(stage.name), stage.name, kind_text(plan.graph, layer),
                       (*stage_facts(plan, stage), *layer_facts(plan, layer), *keeps, in_model(layer)))
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
    for planned in plan.memories:
        memory = planned.memory
        if planned.part == stage.name:
            yield "memory", (f"{memory.name}: {number(memory.depth)} words of {memory.width} bits in "
                             f"{planned.place.value}")
    for stream in plan.streams:
        if stream.stage == stage.name:
            yield "weights outside", f"{number(stream.bytes)} bytes a frame from the memory beside the FPGA"


def step_facts(plan: Plan, stage: StagePlan, layer: Layer) -> Iterator[tuple[str, str]]:
    """The steps of the shared stage for the layer; a layer may take several steps."""
    for step in stage.steps:
        if step.tensor == layer.output:
            waits = f", {number(step.waits)} of them waiting for weights" if step.waits else ""
            share = percent(step.cycles / plan.interval)
            yield "cycles a frame", f"{number(step.cycles)}, {share} of the interval{waits}"


#: Pixels of a sheet of A4 between its margins, upright and on its side; the least scale at which a picture is printed.
UPRIGHT, LYING, SMALLEST = (700.0, 920.0), (1020.0, 620.0), 0.55
#: Characters of a name in a table.
_LONGEST = 44


def section(subject: Subject) -> Section:
    """The section about what each layer becomes, and how the stages are connected."""
    plan, quantized = subject.plan, subject.quantized
    before, after = ([node.op_type for node in program.graph.nodes]
                     for program in (quantized.prologue, quantized.epilogue))
    design = design_graph(plan, before, after, href_of)
    wide = wide_scene(design)
    body = environment().get_template("graph.html.j2").render(
        line=line_of(subject), pictures=pictures_of(plan, design, wide),
        landscape=is_lying(wide), looks=looks_of(design),
        layers=layers_table(plan, design), streams=streams_table(subject), cards=list(cards_of(plan, design.stages)))
    return Section("graph", "The graph", Markup(body))


def line_of(subject: Subject) -> str:
    """How the layers are computed, and which stage sets the pace."""
    plan = subject.plan
    line, slowest = f"{execution_line(plan, subject.board)}.", bottleneck(plan)
    if len(plan.stages) == 1:
        return line
    return f"{line} The slowest stage is {slowest.name}, with {number(slowest.schedule.interval)} cycles a frame."


def looks_of(design: DesignGraph) -> dict[str, bool]:
    """Which entries the key of the picture has."""
    styles = [*(box.css for box in design.boxes), *(arrow.css for arrow in design.arrows)]
    used = {name for css in styles for name in css.split()}
    return {name: name in used for name in ("multiplies", "passes", "shared", "slowest", "inside", "host")}


def pictures_of(plan: Plan, design: DesignGraph, wide: Scene) -> list[Markup]:
    """The picture for wide pages and, where that is too wide for a narrow one, another in one column.

    Of a picture that is too small on one sheet of paper, strips of the column are printed.
    """
    text = (f"{counted(len(plan.graph.layers), 'layer')} in {counted(len(plan.stages), 'stage')}, from the inputs down "
            "to the outputs; the tables after the picture say the same")
    tall = arrange(design.boxes, design.arrows)
    large = paper_scale(wide) >= SMALLEST
    if wide.width <= tall.width:
        pictures = [picture_of(wide, "Design", text, f"only{' printed' if large else ''}", "g")]
    else:
        pictures = [picture_of(wide, "Design", text, f"broad{' printed' if large else ''}", "g"),
                    picture_of(tall, "Design, in one column", text, "tall", "t")]
    return pictures if large else [*pictures, *strips(tall, "g" if len(pictures) == 1 else "t")]


def paper_scale(scene: Scene) -> float:
    """How large a scene is on a sheet of A4, upright or on its side."""
    return max(min(width / scene.width, height / scene.height, 1.0) for width, height in (UPRIGHT, LYING))


def is_lying(scene: Scene) -> bool:
    """Whether a scene is larger on a sheet that is on its side."""
    upright, lying = (min(width / scene.width, height / scene.height, 1.0) for width, height in (UPRIGHT, LYING))
    return lying > upright and lying >= SMALLEST


def strips(scene: Scene, prefix: str) -> list[Markup]:
    """A scene of one column in strips that are no higher than a sheet; no strip begins or ends inside of a box.

    Two are beside each other where they are large enough then.
    """
    half = UPRIGHT[0] / 2 / scene.width >= SMALLEST
    room = UPRIGHT[1] / min(1.0, UPRIGHT[0] / (2 if half else 1) / scene.width)
    spans = sorted([(top, top + box.depth) for box, _, top in scene.boxes]
                   + [(foot - LINE, foot) for _, foot in scene.labels.values()])
    cuts, foot = [0.0], 0.0
    for k, (top, bottom) in enumerate(spans):
        if k and top >= foot and bottom + MARGIN - cuts[-1] > room:
            cuts.append((foot + top) / 2)
        foot = max(foot, bottom)
    ends = [*cuts[1:], scene.height]
    css = "strip half" if half else "strip"
    return [Markup(f'<svg class="{css}" aria-hidden="true" width="{scene.width:.0f}" height="{end - start:.0f}" '
                   f'viewBox="0 {start:.0f} {scene.width:.0f} {end - start:.0f}" font-family="{FONT}">'
                   f'<use href="#{prefix}-all"/></svg>') for start, end in zip(cuts, ends, strict=True)]


def picture_of(scene: Scene, title: str, text: str, css: str, prefix: str) -> Markup:
    """A scene as an SVG element of a page; `prefix` makes the identifiers of its boxes unique in the page."""
    width, height = f"{scene.width:.0f}", f"{scene.height:.0f}"
    return Markup(
        f'<svg class="{css}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group" '
        f'aria-labelledby="{prefix}-title {prefix}-text" font-family="{FONT}"><title id="{prefix}-title">{xml(title)}'
        f'</title><desc id="{prefix}-text">{xml(text)}</desc><g id="{prefix}-all">'
        + "\n".join(scene_parts(scene, f"{prefix}-")) + "</g></svg>")


def layers_table(plan: Plan, design: DesignGraph) -> Markup:
    """A row for each layer in the order of the network."""
    rows, graph, names = [], plan.graph, layer_names(plan.graph)
    for position, (layer, stage) in enumerate(zip(graph.layers, design.stages, strict=True)):
        weights = weights_of(layer)
        steps = [step for step in stage.steps if step.tensor == layer.output]
        own = stage.schedule.interval if layer is own_layer(graph, stage) else 0
        cycles = sum(step.cycles for step in steps) if stage.steps else own
        share = cycles / plan.interval
        rows.append((
            element("a", names[position], href=href_of(position, stage)), kind_text(graph, layer),
            stage.name if len(stage.layers) > 1 else "its own",
            Markup(", ").join(together(tensor_text(graph, name)) for name in layer.inputs),
            together(tensor_text(graph, layer.output)), "" if weights is None else together(str(weights)),
            layer.multiplications(graph), cycles, Cell(percent(share), share)))
    head = ("layer", "kind", "stage", "inputs", "output", "weights", "multiplications", "cycles", "of the interval")
    return table(head, rows, caption="The layers in their order",
                 data=[{"stage": stage.name} for stage in design.stages])


def streams_table(subject: Subject) -> Markup:
    """A row for each stream between stages, and at the ends of the design."""
    rows, plan = [], subject.plan
    technology = subject.board.technology()
    for link in plan.links:
        source, sink = (ended(text) for text in ends(plan, link))
        place = link.memory(technology).value if link.beats else ""
        tensor, lanes = together(tensor_text(plan.graph, link.tensor)), Cell(lanes_text(link), link.lanes_out)
        rows.append((source, sink, tensor, lanes, link.bits * link.lanes_out, link.beats, link.buffer_bytes, place))
    head = ("from", "to", "tensor", "lanes", "bits a beat", "queue, beats", "queue, bytes", "queue in")
    return table(head, rows, caption="The streams and their queues (FIFOs)")


def together(text: str) -> Markup:
    """A text that stays in one line."""
    return element("span", text, class_="together")


def ended(text: str) -> Markup:
    """An end of a stream; a long name of an input or output is whole where a pointer rests on it."""
    words = shortened(text, _LONGEST)
    return element("span", words, title=text if words != text else None)
