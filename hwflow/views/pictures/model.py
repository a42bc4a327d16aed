"""A picture of a graph as SVG: a box per node, coloured by where it runs, and the types of its values under it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hwflow_base.printable import shortened

from ...facts.places import Place
from ...onnx.inference.claims import type_text
from ...onnx.model import Graph, ValueType
from ...onnx.rewrite.renaming import reads
from .scene import FONT, LINE, MARGIN, NARROW, WIDE, Arrow, Box, Scene, arrange, scene_parts, xml

#: Fill and border of boxes; the legend shows them in this order.
COLOURS = {
    "hardware": ("#cfe8cf", "#2e7d32"),
    "host": ("#fff0c2", "#b7791f"),
    "nowhere": ("#f8cfcf", "#b71c1c"),
    "constant": ("#e8e8e8", "#757575"),
    "value": ("#d7e6f7", "#1f5f9e"),
}
_LONGEST = 48
#: Pixels: the least width of a picture, that of its legend; the height from which on it has columns, and its shape.
_LEGEND, _HIGH, _WIDER = 560.0, 2400.0, 1.2


def svg(graph: Graph, types: Mapping[str, ValueType], places: Sequence[Place], title: str) -> str:
    """The picture.  `places` has an entry per node.  Initializers are left out."""
    boxes, arrows = _boxes(graph, types, places)
    scene = in_columns(boxes, arrows, head=2 * LINE)
    width, height = max(scene.width, _LEGEND + 2 * MARGIN), scene.height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}">',
        f"<title>{xml(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        *_legend(),
        *scene_parts(scene),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def in_columns(boxes: Sequence[Box], arrows: Sequence[Arrow], head: float) -> Scene:
    """One column where that is not too high, else so many that the picture is a little wider than high."""
    scene = arrange(boxes, arrows, head=head)
    if scene.height <= _HIGH:
        return scene
    return arrange(boxes, arrows, round(math.sqrt(_WIDER * scene.height / scene.width)), head=head)


def _label(name: str, types: Mapping[str, ValueType]) -> str:
    return shortened(type_text(types.get(name)), _LONGEST)


def _boxes(
    graph: Graph, types: Mapping[str, ValueType], places: Sequence[Place]
) -> tuple[list[Box], list[Arrow]]:
    boxes: list[Box] = []
    maker: dict[str, int] = {}
    arrows: list[Arrow] = []
    for index, value in enumerate(graph.inputs):
        maker[value.name] = len(boxes)
        line = ((shortened(value.name, _LONGEST), WIDE),)
        boxes.append(_box("value", "input", index, line, (_label(value.name, types),), value.name))
    for index, (node, place) in enumerate(zip(graph.nodes, places, strict=True)):
        arrows += [Arrow(maker[name], len(boxes), hint=name) for name in reads(node) if name in maker]
        outputs = [name for name in node.outputs if name]
        maker.update(dict.fromkeys(outputs, len(boxes)))
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        lines = [(shortened(kind, _LONGEST), WIDE)]
        if node.name:
            lines.append((shortened(node.name, _LONGEST), NARROW))
        hint = f"node[{index}] {node.label}: {place.where.value}{f', {place.reason}' if place.reason else ''}"
        labels = tuple(_label(name, types) for name in outputs)
        boxes.append(_box(place.where.value, "node", index, tuple(lines), labels, hint))
    for index, value in enumerate(graph.outputs):
        if value.name in maker:
            arrows.append(Arrow(maker[value.name], len(boxes), hint=value.name))
        line = ((shortened(value.name, _LONGEST), WIDE),)
        boxes.append(_box("value", "output", index, line, (), value.name))
    return boxes, arrows


def _box(
    colour: str, css: str, index: int, lines: tuple[tuple[str, float], ...], labels: tuple[str, ...], hint: str
) -> Box:
    fill, border = COLOURS[colour]
    return Box(css, f"{css}-{index}", lines, labels, hint, fill, border)


def _legend() -> list[str]:
    parts, x = [], MARGIN
    for kind, (fill, border) in COLOURS.items():
        place = f'x="{x:.1f}" y="{MARGIN - 10:.1f}" width="12" height="12"'
        parts.append(f'<rect {place} fill="{fill}" stroke="{border}"/>')
        parts.append(f'<text class="legend" x="{x + 18:.1f}" y="{MARGIN:.1f}" font-size="11">{kind}</text>')
        x += 18 + len(kind) * NARROW + 20
    return parts
