"""The pictures that pages are made of, read back with an XML parser: where marks are, and that no name gets out."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree

import pytest

from hwflow.views.page.bars import Piece, Row, bars
from hwflow.views.page.chart import Axis, Columns, Dot, Dots, Line, Rule, plot
from hwflow.views.page.markup import STEPS, Cell, element, short, table
from hwflow.views.page.schedule import Lane, Span, Timeline, gantt
from hwflow.views.page.sections.accuracy import heat_map

HOSTILE = "</script><svg onload=\"x\"> & 'a' \x00\x1b[31m\u202e"
SHOWN = "</script><svg onload=\"x\"> & 'a' \\x00\\x1b[31m\\u202e"


def parsed(markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup))


def rects(markup, tone: str) -> list[ElementTree.Element]:
    return [each for each in parsed(markup).iter("rect") if each.get("class") == tone]


def size(rect: ElementTree.Element, key: str) -> float:
    return float(rect.get(key))


def test_a_hostile_text_stays_a_text_in_every_picture():
    axis = Axis.of(HOSTILE, [1, 2])
    pictures = [
        plot(HOSTILE, HOSTILE, axis, axis, [
            Dots(HOSTILE, [Dot(1, 1, HOSTILE, link=HOSTILE, data={"stage": HOSTILE})]), Line(HOSTILE, [(1, 1), (2, 2)]),
            Columns(HOSTILE, [1, 2], [1], hints=[HOSTILE]), Rule(HOSTILE, x=1)]),
        bars(HOSTILE, HOSTILE, [Row(HOSTILE, [[Piece(1, "planned", HOSTILE)]], [HOSTILE], HOSTILE, {"stage": HOSTILE})],
             axis, names={"planned": HOSTILE}, rules=[Rule(HOSTILE, x=1)]),
        heat_map(HOSTILE, HOSTILE, [[1]], [HOSTILE], rows=HOSTILE, columns=HOSTILE),
        gantt(HOSTILE, HOSTILE, Timeline([
            Lane(HOSTILE, [Span(0, 1, "works", HOSTILE)], HOSTILE, data={"stage": HOSTILE})], axis,
            [Rule(HOSTILE, x=1)]), names={"works": HOSTILE}, note=HOSTILE),
        table([HOSTILE], [[HOSTILE], [Cell(HOSTILE, 1.0)]], caption=HOSTILE, anchors=[HOSTILE, None])]
    for picture in pictures:
        root = parsed(picture)
        said = [text for each in root.iter() for text in (each.text, *each.attrib.values()) if text]
        assert any(SHOWN in text for text in said)
        assert not any(each.tag == "script" or "onload" in each.attrib for each in root.iter())
        assert all(each in "\n" or each.isprintable() for each in str(picture))


@pytest.mark.parametrize("low, high", [(92.98, 93.2), (0, 1), (99.9999, 100), (1e9 + 1, 1e9 + 9), (12_340, 12_360),
                                       (999.5, 1000.5), (-1e-7, 1e-7), (4, 4.0000001)])
def test_ticks_of_an_axis_differ(low, high):
    for log in (False, True) if low > 0 else (False,):
        ticks = Axis.of("a", [low, high], log=log, zero=False).ticks()
        texts = [tick.text for tick in ticks]
        assert len(set(texts)) == len(ticks) > 1
        factors = {" k": 1e3, " M": 1e6, " G": 1e9}
        for tick in ticks:
            read = float(tick.text[:-2]) * factors[tick.text[-2:]] if tick.text[-2:] in factors else float(tick.text)
            assert read == pytest.approx(tick.value, abs=(high - low) / 100)


def test_a_table_becomes_lists_where_there_is_no_room_for_its_columns():
    rows = [["name", "a few words", 1_000_000], ["another", Cell("x" * 90), Cell("1", 1.0)]]
    few, many = (parsed(table(["layer", "why", "cycles"][:count], [row[:count] for row in rows])) for count in (1, 3))
    steps = [int(each.find("table").get("class").split("-")[1]) for each in (few, many)]
    assert steps[0] < steps[1] < STEPS[-1]
    assert parsed(table(["a"] * 40, [["word"] * 40])).find("table").get("class") == f"sortable stack-{STEPS[-1]}"
    assert [each.get("data-label") for each in many.iter("td")] == ["why", "cycles"] * 2
    folded = element("details", element("summary", "open"), element("pre", "y" * 400))
    assert parsed(table(["a", "b"], [["c", folded]])).find("table").get("class") == f"sortable stack-{STEPS[0]}"


def test_bars_are_as_long_as_their_values_and_lie_side_by_side():
    axis = Axis.of("LUT", [0, 200])
    made = bars("bars", "two", [Row("a", [[Piece(50, "planned", ""), Piece(150, "used", "")]]),
                                Row("b", [[Piece(100, "planned", "")], [Piece(0, "used", "")]])], axis)
    (a, b), (used,) = rects(made, "planned"), rects(made, "used")
    assert size(b, "width") == pytest.approx(2 * size(a, "width"), abs=0.2)
    assert size(used, "width") == pytest.approx(3 * size(a, "width"), abs=0.3)
    assert size(used, "x") == pytest.approx(size(a, "x") + size(a, "width"), abs=0.2)
    assert size(a, "y") == size(used, "y") < size(b, "y")


def test_spans_are_where_their_cycles_are():
    made = gantt("time", "two", Timeline([
        Lane("a", [Span(0, 100, "fills", ""), Span(100, 400, "works", "")]), Lane("b", [Span(300, 350, "works", "")])],
        Axis("cycles", 0, 400)), names={"works": "works"})
    (fills,), (first, second) = rects(made, "fills"), rects(made, "works")
    scale = size(fills, "width") / 100
    assert size(first, "x") == pytest.approx(size(fills, "x") + 100 * scale, abs=0.2)
    assert size(first, "width") == pytest.approx(300 * scale, abs=0.5)
    assert size(second, "x") == pytest.approx(size(fills, "x") + 300 * scale, abs=0.5)


@pytest.mark.parametrize("log", [False, True])
def test_points_are_where_their_values_are(log):
    x, y = Axis.of("x", [1, 100], log=log), Axis.of("y", [0, 10])
    values = [(1, 0), (10, 5), (100, 10)]
    made = plot("points", "three", x, y, [Dots("p", [Dot(*each, "") for each in values])])
    circles = list(parsed(made).iter("circle"))
    left, middle, right = (float(each.get("cx")) for each in circles)
    floor, half, top = (float(each.get("cy")) for each in circles)
    share = 0.5 if log else 9 / 99 if x.low == 1 else 10 / 100
    first = 0.0 if log else 1 / 100
    assert (middle - left) / (right - left) == pytest.approx((share - first) / (1 - first), abs=0.002)
    assert (floor - half) / (floor - top) == pytest.approx(0.5, abs=0.002)


def test_steps_keep_a_value_until_the_next_point():
    made = plot("steps", "two", Axis("x", 0, 10), Axis("y", 0, 10), [Line("s", [(0, 0), (5, 10), (10, 5)], step=True)])
    (d,) = (each.get("d") for each in parsed(made).iter("path") if each.get("class") == "line s1")
    points = [tuple(map(float, each.split(","))) for each in d.removeprefix("M").split("L")]
    assert len(points) == 6
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(points))
    assert [a[1] == b[1] for a, b in itertools.pairwise(points)] == [True, False, True, False, True]


@pytest.mark.parametrize("values", [(0, 1), (0, 950), (3, 7), (-128, 127), (0.001, 0.0042), (0, 83_640), (5, 5)])
def test_a_linear_axis_ends_at_ticks_around_its_values(values):
    axis = Axis.of("a", values, zero=False)
    ticks = axis.ticks()
    assert axis.low <= min(values)
    assert axis.high >= max(values)
    assert 2 <= len(ticks) <= 10
    assert (ticks[0].value, ticks[-1].value) == pytest.approx((axis.low, axis.high))
    steps = {round((b.value - a.value) / (ticks[1].value - ticks[0].value), 6) for a, b in itertools.pairwise(ticks)}
    assert steps == {1.0}
    assert len({tick.text for tick in ticks}) == len(ticks)


@pytest.mark.parametrize("values", [(1, 10), (3, 4000), (0.02, 5e6), (7, 7), (1, 1e12)])
def test_ticks_of_a_logarithmic_axis_are_where_their_logarithms_are(values):
    axis = Axis.of("a", values, log=True)
    ticks = axis.ticks()
    assert axis.low <= min(values) <= max(values) <= axis.high
    assert 2 <= len(ticks) <= 10
    span = math.log(axis.high) - math.log(axis.low)
    assert all(tick.share == pytest.approx((math.log(tick.value) - math.log(axis.low)) / span) for tick in ticks)


def test_what_is_no_number_has_no_place():
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="must be finite"):
            Axis.of("a", [wrong])
        with pytest.raises(ValueError, match="must be a finite number"):
            element("rect", x=wrong)
    with pytest.raises(ValueError, match="above 0"):
        Axis.of("a", [0, 1], log=True)


def test_numbers_are_short():
    assert [short(each) for each in (0, 5, 950, 1234, 12_000, 999_999, 3_400_000, 0.05, 1e15)] == [
        "0", "5", "950", "1234", "12 k", "1000 k", "3.4 M", "0.05", "1000 T"]
    assert str(element("rect", x=1.04, y=-0.01, hidden=True, class_=None)) == '<rect x="1" y="0" hidden></rect>'


def test_a_confusion_matrix_marks_what_is_right():
    made = parsed(heat_map("c", "t", [[9, 1], [0, 10]], ["cat", "dog"], rows="label", columns="answer"))
    (heat,) = (each for each in made.iter("g") if each.get("class") == "heat")
    assert [each.get("class") for each in heat] == ["right h9", "wrong h1", "wrong none", "right h9"]
    assert heat[1].find("title").text == "label cat, answer dog: 1 of 10"
