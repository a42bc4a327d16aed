"""Pictures of graphs: every node once, nothing on top of another, texts of the file harmless."""

from __future__ import annotations

import itertools
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hwflow_base.printable import clean, shortened

from hwflow.facts.places import Place, Where
from hwflow.onnx import Model
from hwflow.onnx.build import Builder, make_graph, make_node
from hwflow.onnx.inference import infer_types
from hwflow.onnx.model import Value
from hwflow.views.pictures.layout import draw
from hwflow.views.pictures.model import svg

SVG = "{http://www.w3.org/2000/svg}"


def picture(model: Model, places: list[Place] | None = None) -> ElementTree.Element:
    places = places or [Place(Where.HOST, "why")] * len(model.graph.nodes)
    return ElementTree.fromstring(svg(model.graph, infer_types(model).values, places, "title"))


def groups(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == kind]


def rectangles(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every box with its labels."""
    found = []
    for group in root.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        assert box is not None
        x, y, width, height = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        sides = [(x, y, x + width, y + height)]
        for text in group.iter(f"{SVG}text"):
            middle, base, length = float(text.attrib["x"]), float(text.attrib["y"]), float(text.attrib["textLength"])
            sides.append((middle - length / 2, base - 9, middle + length / 2, base + 2))
        lefts, tops, rights, bottoms = zip(*sides, strict=True)
        found.append((min(lefts), min(tops), max(rights), max(bottoms)))
    return found


def overlaps(found: list[tuple[float, float, float, float]]) -> list[object]:
    return [
        (a, b) for a, b in itertools.combinations(sorted(found, key=lambda r: r[1]), 2)
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]  # fmt: skip


def branching(count: int, seed: int = 0) -> Model:
    """Additions of values from anywhere before."""
    random = np.random.default_rng(seed)
    b = Builder()
    names = [b.input("x", np.float32, ("n", 3)), b.input("z", np.float32, ("n", 3))]
    for _ in range(count):
        left, right = (names[max(0, len(names) - 1 - int(k))] for k in random.geometric(0.3, 2))
        names.append(b.node("Add", left, right))
    b.output(names[-1])
    return b.model()


@pytest.mark.parametrize("seed", range(4))
def test_every_node_is_there_once_and_none_covers_another(seed: int) -> None:
    model = branching(60, seed)
    root = picture(model)
    assert [group.get("id") for group in groups(root, "node")] == [f"node-{k}" for k in range(60)]
    assert len(groups(root, "input")) == 2
    assert len(groups(root, "output")) == 1
    assert overlaps(rectangles(root)) == []
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(a >= 0 and b >= 0 and c <= width and d <= height for a, b, c, d in rectangles(root))


def test_shapes_stand_under_the_boxes() -> None:
    texts = [text.text for text in groups(picture(branching(1)), "node")[0].iter(f"{SVG}text")]
    assert texts == ["Add", "Add_0", "float32[n, 3]"]


def test_colours_say_where_a_node_runs() -> None:
    places = [Place(Where.HARDWARE), Place(Where.NOWHERE, "no such operator")]
    first, second = groups(picture(branching(2), places), "node")
    fills = [group.find(f"{SVG}rect").get("fill") for group in (first, second)]  # type: ignore[union-attr]
    assert fills == ["#cfe8cf", "#f8cfcf"]
    assert second.find(f"{SVG}title").text == "node[1] 'Add_1' (Add): nowhere, no such operator"  # type: ignore[union-attr]


def test_edges_join_what_they_should() -> None:
    """Also of values that a graph in an attribute reads from around it."""
    b = Builder()
    x = b.input("x", np.float32, (2,))
    condition = b.input("c", np.bool_, ())
    then, other = (make_graph([make_node(op, ["x"], ["r"])], [], [Value("r", None)], name=op) for op in ("Abs", "Neg"))
    b.output(b.node("If", condition, then_branch=then, else_branch=other))
    b.node("Relu", x)
    assert len(list(picture(b.model()).iter(f"{SVG}path"))) == 4  # x -> If, c -> If, x -> Relu, If -> output


@pytest.mark.parametrize("name", ["<&\"'>]]>", "\x1b[31mred\x00", "\u202eleft", "\ud800", "a" * 5000, ""])
def test_hostile_names(name: str) -> None:
    b = Builder()
    b.output(b.node("Relu", b.input(name or "x", np.float32, (name or "n", 3)), name=name, output="y"))
    root = picture(b.model())
    assert len(groups(root, "node")) == 1
    shown = "".join(root.itertext())
    assert shown.replace("\n", "").isprintable()
    assert overlaps(rectangles(root)) == []


def test_a_thousand_nodes() -> None:
    model = branching(1000)
    types = infer_types(model).values
    started = time.monotonic()
    text = svg(model.graph, types, [Place(Where.HARDWARE)] * 1000, "large")
    assert time.monotonic() - started < 5
    root = ElementTree.fromstring(text)
    assert len(groups(root, "node")) == 1000
    assert overlaps(rectangles(root)) == []


def test_an_empty_graph() -> None:
    b = Builder()
    b.output(b.input("x", np.float32, (2,)))
    assert len(groups(picture(b.model()), "input")) == 1


def test_long_edges_go_around() -> None:
    """An edge over a row of its own has a bend there, beside the box of that row."""
    drawing = draw([100.0, 100.0, 100.0], [(0, 1), (1, 2), (0, 2)])
    assert drawing.row == (0, 1, 2)
    (bend,) = drawing.bends[0, 2]
    assert abs(bend - drawing.x[1]) > 50


def test_texts() -> None:
    assert clean("plain \N{GREEK SMALL LETTER MU}") == "plain \N{GREEK SMALL LETTER MU}"
    assert clean("\x1b[0m\n") == "\\x1b[0m\\n"
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abc", 5) == "abc"
