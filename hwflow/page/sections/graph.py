"""The section "The graph" of a report: the picture of the design, its layers and streams, and a card for each stage."""

from __future__ import annotations

from markupsafe import Markup

from ...hls.names import layer_names
from ...hls.plan import Plan
from ...report.design_picture import DesignGraph, design_graph, wide_scene
from ...report.execution import execution_line
from ...report.layer_words import kind_text, tensor_text, weights_of
from ...report.numbers import counted, percent
from ...report.plan import ends, lanes_text
from ...report.scene import Scene, arrange
from ...report.scene_svg import FONT, scene_parts, xml
from ...report.texts import shortened
from ..cards import cards_of, href_of
from ..environment import environment
from ..section import Section
from ..subject import Subject
from ..svg import element
from ..table import Cell, table

__all__ = ["picture_of", "section"]

#: Characters of a name in a table.
_LONGEST = 44


def section(subject: Subject) -> Section:
    """What each layer becomes, and how the stages are connected."""
    plan, quantized = subject.plan, subject.quantized
    before, after = ([node.op_type for node in each.graph.nodes] for each in (quantized.prologue, quantized.epilogue))
    design = design_graph(plan, before, after, href_of)
    wide = wide_scene(design)
    body = environment().get_template("graph.html.j2").render(
        line=execution_line(plan, subject.board), pictures=pictures_of(plan, design, wide),
        landscape=wide.width > wide.height, several=len(plan.stages) > 1, looks=looks_of(design),
        layers=layers_table(plan, design), streams=streams_table(subject), cards=list(cards_of(plan, design.stages)))
    return Section("graph", "The graph", Markup(body))


def looks_of(design: DesignGraph) -> dict[str, bool]:
    """Which entries the key of the picture has."""
    styles = [*(box.css for box in design.boxes), *(arrow.css for arrow in design.arrows)]
    used = {name for css in styles for name in css.split()}
    return {name: name in used for name in ("multiplies", "passes", "shared", "inside", "host")}


def pictures_of(plan: Plan, design: DesignGraph, wide: Scene) -> list[Markup]:
    """The picture for wide pages and, where that is too wide for a narrow one, another in one column."""
    text = (f"{counted(len(plan.graph.layers), 'layer')} in {counted(len(plan.stages), 'stage')}, from the inputs down "
            "to the outputs; the tables after the picture say the same")
    tall = arrange(design.boxes, design.arrows)
    if wide.width <= tall.width:
        return [picture_of(wide, "Design", text, "only", "g")]
    return [picture_of(wide, "Design", text, "broad", "gb"),
            picture_of(tall, "Design, in one column", text, "tall", "gt")]


def picture_of(scene: Scene, title: str, text: str, css: str, prefix: str) -> Markup:
    """A scene as an SVG element of a page; `prefix` makes the identifiers of its boxes unique in the page."""
    width, height = f"{scene.width:.0f}", f"{scene.height:.0f}"
    return Markup(
        f'<svg class="{css}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group" '
        f'aria-labelledby="{prefix}-title {prefix}-text" font-family="{FONT}"><title id="{prefix}-title">{xml(title)}'
        f'</title><desc id="{prefix}-text">{xml(text)}</desc>' + "\n".join(scene_parts(scene, f"{prefix}-")) + "</svg>")


def layers_table(plan: Plan, design: DesignGraph) -> Markup:
    """A row for each layer in the order of the network."""
    rows, graph, names = [], plan.graph, layer_names(plan.graph)
    for position, (layer, stage) in enumerate(zip(graph.layers, design.stages, strict=True)):
        weights = weights_of(layer)
        steps = [step for step in stage.steps if step.tensor == layer.output]
        cycles = sum(step.cycles for step in steps) if stage.steps else stage.schedule.interval
        share = cycles / plan.interval
        rows.append((
            element("a", names[position], href=href_of(position, stage)), kind_text(layer),
            stage.name if stage.steps else "its own", ", ".join(tensor_text(graph, name) for name in layer.inputs),
            tensor_text(graph, layer.output), "" if weights is None else str(weights),
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
        rows.append((source, sink, tensor_text(plan.graph, link.tensor), Cell(lanes_text(link), link.lanes_out),
                     link.bits * link.lanes_out, link.beats, link.buffer_bytes, place))
    head = ("from", "to", "tensor", "lanes", "bits a beat", "queue, beats", "queue, bytes", "queue in")
    return table(head, rows, caption="The streams and their queues (FIFOs)")


def ended(text: str) -> Markup:
    """An end of a stream; a long name of an input or output is whole where a pointer rests on it."""
    words = shortened(text, _LONGEST)
    return element("span", words, title=text if words != text else None)
