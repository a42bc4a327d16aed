"""The page of a design space: its links lead somewhere, its boxes hide what they name, and its names are texts."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hwflow.search.exploration.exploration import Exploration
from hwflow.search.exploration.point import Objective, Point
from hwflow.search.exploration.routing import Routed, Run
from hwflow.synth import load_board
from hwflow.views.page.exploration import Designs, exploration_page, stairs
from tests.page import cut

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "</script><img src=x onerror='alert(1)'>\"&\x1b"
BOARDS = ("icebreaker", HOSTILE)


class Read(HTMLParser):
    """The elements of a page with their attributes, and the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def explored() -> Exploration:
    """Designs on two boards in two widths, one that is refused, and one that is there twice."""
    points = [Point(board, widths, "auto", False, False, 100 * k, design=f"{board}{widths}{k}", made_as=made,
                    interval=100 * k, latency=300 * k, mhz=50.0, mhz_error=0.076, link=98.0, lut=3000 + k, ff=9, dsp=4,
                    ram=5, filled=0.5, accuracy=90.0 + bool(widths), reference=92.0, metric="accuracy %")
              for board in BOARDS for widths in ("", "4,8") for k, made in ((1, "dataflow"), (2, "shared"))]
    points += [points[0], Point("icebreaker", "", "auto", False, False, 7, refused=HOSTILE)]
    board = load_board("icebreaker")
    return Exploration("digits", tuple(points), dict.fromkeys(BOARDS, board), (Objective.FRAMES, Objective.LUT), 50.0,
                       None, (), Path())


@pytest.fixture(scope="module")
def page() -> str:
    exploration = explored()
    runs = (Run(1, "", 48.0, "", 60.0, 3100, interval=100), Run(2, "critexp=3", None, HOSTILE))

    def command(point: Point, name: str, *options: str) -> str:
        return f"hwflow {name} {HOSTILE} --interval {point.asked} {' '.join(options)}"

    return exploration_page(Designs(exploration, command, [Routed(exploration.points[0], runs)]))


def test_every_link_leads_somewhere_and_every_design_has_its_command(page: str) -> None:
    read = Read()
    read.feed(page)
    ids = [each["id"] for _, each in read.elements if each.get("id")]
    assert len(ids) == len(set(ids))
    links = [each["href"] for tag, each in read.elements if tag == "a" and each.get("href")]
    assert {link[1:] for link in links if link} <= set(ids)
    assert sum(str(each).startswith("design-") for each in ids) == 8, "each once"
    assert sum("hwflow build" in text for text in read.texts) >= 8
    assert any(text.startswith("hwflow synth") and text.endswith("--seed 2 --placer critexp=3") for text in read.texts)


def test_no_name_gets_out_of_its_place(page: str) -> None:
    read = Read()
    read.feed(page)
    assert not any(tag == "img" or "onerror" in each for tag, each in read.elements)
    assert sum(tag == "script" for tag, _ in read.elements) == 1
    assert "\x1b" not in page


def test_a_box_hides_the_designs_that_have_its_value(page: str) -> None:
    read = Read()
    read.feed(page)
    rules = set(re.findall(r'main:has\(#(show-\w+):not\(:checked\)\) \[data-(\w)="(\d+)"\]', page))
    shown = {each["id"] for tag, each in read.elements if tag == "input" and str(each.get("id")).startswith("show-")}
    assert {box for box, _, _ in rules} == shown
    assert len(shown) == 2 + 2 + 2
    for box, key, value in rules:
        assert box == f"show-{key}{value}"
        rows = [each for tag, each in read.elements if tag == "tr" and each.get(f"data-{key}") == value]
        assert len([row for row in rows if row.get("id")]) == 4, "half of the designs"


def test_each_board_has_a_frontier_of_its_own() -> None:
    """The best designs of a small board are there, though a large one beats them in everything."""
    points = [Point(board, "", "auto", False, False, None, design=f"{board}{k}", made_as="dataflow", interval=100 * k,
                    latency=10, mhz=mhz, mhz_error=0.0, link=9.0, lut=lut // k, ff=9, dsp=4, ram=5, filled=0.5)
              for board, mhz, lut in (("large", 200.0, 1000), ("small", 50.0, 4000)) for k in (1, 2)]
    points.append(replace(points[3], design="worse", lut=9000))
    boards = dict.fromkeys(("large", "small"), load_board("icebreaker"))
    found = Exploration("digits", tuple(points), boards, (Objective.FRAMES, Objective.LUT), None, None, (), Path())
    assert found.on_frontier == (True, True, True, True, False)
    assert [point.design for point in found.frontier] == ["large1", "large2", "small1", "small2"]
    page = exploration_page(Designs(found, lambda point, name, *options: name))
    assert re.findall(r"<summary>(\w+): (\d) designs, up to", page) == [("large", "2"), ("small", "2")]
    assert "5 designs fit, 4 of them on the frontiers of their boards" in page
    assert len(re.findall(r'<g class="dots s\d" data-b="[01]"><path d="M[\d.,L]+" class="line"></path>', page)) == 4


def test_the_line_joins_what_nothing_beats() -> None:
    """Against every pair of points."""
    rng = np.random.default_rng(3)
    for more in (False, True):
        points = [(float(x), float(y)) for x, y in rng.integers(0, 12, (60, 2))]
        best = {a for a in points if not any(
            b != a and b[0] >= a[0] and (b[1] >= a[1] if more else b[1] <= a[1]) for b in points)}
        assert stairs(points, more=more) == sorted(best)


@pytest.mark.slow
def test_it_is_readable_by_everyone_and_boxes_hide_designs_without_a_script(browser: Browser, page: str,
                                                                             tmp_path: Path) -> None:
    """In Chromium: nothing wider than the window, no message, no finding of axe-core."""
    from axe_playwright_python.sync_playwright import Axe

    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    said: list[str] = []
    for width in (400, 900, 1440, *cut.WIDTHS):
        for colours in ("light", "dark"):
            opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
            opened.on("console", lambda message: said.append(message.text))
            opened.on("pageerror", lambda error: said.append(str(error)))
            opened.goto((tmp_path / "page.html").as_uri())
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert [each["id"] for each in Axe().run(opened).response["violations"]] == []
            assert cut.cut_texts(opened) == []
    assert said == []
    plain = browser.new_page(java_script_enabled=False)
    plain.goto((tmp_path / "page.html").as_uri())
    rows = plain.locator("#table tbody tr:visible")
    assert rows.count() == 8
    plain.locator("#show-b0").uncheck()
    assert rows.count() == 4
    plain.locator("#only-frontier").check()
    assert rows.count() == 2
