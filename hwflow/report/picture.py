"""A picture of a graph as SVG: a box per node, coloured by where it runs, and the types of its values under it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ..onnx.model import Graph, ValueType
from ..onnx.rewrite.renaming import reads
from .layout import Drawing, draw
from .places import Place
from .texts import clean, shortened, type_text

__all__ = ["svg"]

#: Fill and border of boxes; the legend shows them in this order.
COLOURS = {
    "hardware": ("#cfe8cf", "#2e7d32"),
    "host": ("#fff0c2", "#b7791f"),
    "nowhere": ("#f8cfcf", "#b71c1c"),
    "constant": ("#e8e8e8", "#757575"),
    "value": ("#d7e6f7", "#1f5f9e"),
}
#: Pixels: an em of the two fonts wide, lines, margins.
WIDE, NARROW, LINE, PAD, ROW_GAP, MARGIN = 7.8, 6.4, 14.0, 8.0, 34.0, 20.0
_LONGEST = 48


@dataclass(frozen=True)
class _Box:
    """A box of the picture: two lines in it, and a line under it for each value that its node makes."""

    kind: str
    identifier: str
    title: str
    lines: tuple[tuple[str, float], ...]
    labels: tuple[str, ...]
    hint: str

    @property
    def width(self) -> float:
        texts = [len(text) * em for text, em in self.lines] + [len(label) * NARROW for label in self.labels]
        return max(texts, default=0.0) + 2 * PAD

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + PAD


def svg(graph: Graph, types: Mapping[str, ValueType], places: Sequence[Place], title: str) -> str:
    """The picture.  `places` has an entry per node.  Initializers are left out."""
    boxes, edges = _boxes(graph, types, places)
    drawing = draw([box.width for box in boxes], edges)
    tops = _tops(boxes, drawing)
    depth = max((top + box.height + len(box.labels) * LINE for top, box in zip(tops, boxes, strict=True)), default=0.0)
    width, height = max(drawing.width, 560.0) + 2 * MARGIN, depth + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans Mono, Consolas, monospace">',
        f"<title>{_xml(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        *_legend(),
        *(_edge(a, b, boxes, drawing, tops) for a, b in sorted(set(edges))),
        *(_box(box, x + MARGIN, top) for box, x, top in zip(boxes, drawing.x, tops, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _xml(text: str) -> str:
    return escape(clean(text))


def _label(name: str, types: Mapping[str, ValueType]) -> str:
    return shortened(type_text(types.get(name)), _LONGEST)


def _boxes(
    graph: Graph, types: Mapping[str, ValueType], places: Sequence[Place]
) -> tuple[list[_Box], list[tuple[int, int]]]:
    boxes: list[_Box] = []
    maker: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    for index, value in enumerate(graph.inputs):
        maker[value.name] = len(boxes)
        line = ((shortened(value.name, _LONGEST), WIDE),)
        boxes.append(_Box("value", f"input-{index}", "input", line, (_label(value.name, types),), value.name))
    for index, (node, place) in enumerate(zip(graph.nodes, places, strict=True)):
        edges += [(maker[name], len(boxes)) for name in reads(node) if name in maker]
        outputs = [name for name in node.outputs if name]
        maker.update(dict.fromkeys(outputs, len(boxes)))
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        lines = [(shortened(kind, _LONGEST), WIDE)]
        if node.name:
            lines.append((shortened(node.name, _LONGEST), NARROW))
        hint = f"node[{index}] {node.label}: {place.where.value}{f', {place.reason}' if place.reason else ''}"
        labels = tuple(_label(name, types) for name in outputs)
        boxes.append(_Box(place.where.value, f"node-{index}", "node", tuple(lines), labels, hint))
    for index, value in enumerate(graph.outputs):
        if value.name in maker:
            edges.append((maker[value.name], len(boxes)))
        line = ((shortened(value.name, _LONGEST), WIDE),)
        boxes.append(_Box("value", f"output-{index}", "output", line, (), value.name))
    return boxes, edges


def _tops(boxes: Sequence[_Box], drawing: Drawing) -> list[float]:
    """The upper edge of each box; a row is as high as its highest box with the labels under it."""
    heights = [0.0] * (max(drawing.row, default=-1) + 1)
    for box, row in zip(boxes, drawing.row, strict=True):
        heights[row] = max(heights[row], box.height + len(box.labels) * LINE)
    starts, y = [], MARGIN + 2 * LINE
    for height in heights:
        starts.append(y)
        y += height + ROW_GAP
    return [starts[row] for row in drawing.row]


def _legend() -> list[str]:
    parts, x = [], MARGIN
    for kind, (fill, border) in COLOURS.items():
        place = f'x="{x:.1f}" y="{MARGIN - 10:.1f}" width="12" height="12"'
        parts.append(f'<rect {place} fill="{fill}" stroke="{border}"/>')
        parts.append(f'<text class="legend" x="{x + 18:.1f}" y="{MARGIN:.1f}" font-size="11">{kind}</text>')
        x += 18 + len(kind) * NARROW + 20
    return parts


def _edge(a: int, b: int, boxes: Sequence[_Box], drawing: Drawing, tops: Sequence[float]) -> str:
    """A smooth line from under the labels of a box to the top of another, through the bends between."""
    box = boxes[a]
    start = drawing.x[a] + MARGIN, tops[a] + box.height + len(box.labels) * LINE + 3
    end = drawing.x[b] + MARGIN, tops[b]
    rows = dict(zip(drawing.row, tops, strict=True))
    points = [start]
    for row, x in enumerate(drawing.bends.get((a, b), ()), drawing.row[a] + 1):
        points.append((x + MARGIN, rows.get(row, start[1]) + LINE))
    points.append(end)
    path = f"M{start[0]:.1f},{start[1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        half = (y1 + y2) / 2
        path += f" C{x1:.1f},{half:.1f} {x2:.1f},{half:.1f} {x2:.1f},{y2:.1f}"
    return f'<path d="{path}" fill="none" stroke="#8a8a8a"/>'


def _box(box: _Box, x: float, top: float) -> str:
    fill, border = COLOURS[box.kind]
    width = box.width
    parts = [
        f'<g class="{box.title}" id="{box.identifier}"><title>{_xml(box.hint)}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{box.height:.1f}" rx="5" '
        f'fill="{fill}" stroke="{border}"/>'
    ]
    y = top + PAD / 2 - 3
    for text, em in box.lines:
        y += LINE
        parts.append(_text(text, x, y, em, "black"))
    y = top + box.height
    for label in box.labels:
        y += LINE
        parts.append(_text(label, x, y - 2, NARROW, "#555555"))
    return "".join(parts) + "</g>"


def _text(text: str, x: float, y: float, em: float, colour: str) -> str:
    """The width is stated, so that no font makes texts wider than their place."""
    size = 13 if em == WIDE else 10.5
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{size}" fill="{colour}" '
        f'textLength="{len(text) * em:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
    )


