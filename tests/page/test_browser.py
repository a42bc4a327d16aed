"""The report in Chromium: nothing wider than the window, no error, no request, no serious finding of axe-core.

It needs Chromium, and `pip install 'hwflow[browser]'`: Playwright, which drives it, and axe-core, which judges pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.command import process
from tests.page import cut

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
WIDTHS = (400, 900, 1440)
MODELS = Path(__file__).parents[2] / "models"
Opened = Callable[..., "Page"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the example after its evaluation; it has rows with pictures, and commands that were not run."""
    folder = tmp_path_factory.mktemp("report")
    design = (str(MODELS / "digits_cnn.onnx"), "--data", str(MODELS / "digits_cnn.npz"))
    for words in (("golden", *design), ("report", *design, "--board", "icebreaker", "--output", "report.html")):
        done = process(words, cwd=folder)
        assert done.code == 0, done.err
    return folder / "report.html"


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    """Open the report.  A message in the console, an error or a request fails the test that did it."""
    said: list[str] = []

    def open_it(width: int = 1440, *, scripts: bool = True, dark: bool = False) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=scripts,
                                      color_scheme="dark" if dark else "light")
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(
            request.url))
        page.goto(report.as_uri())
        return page

    yield open_it
    assert said == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_width_is_readable_by_everyone(opened: Opened, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for width in WIDTHS:
        page = opened(width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = [(each["id"], each["impact"], [node["target"] for node in each["nodes"]])
                 for each in Axe().run(page).response["violations"]]
        assert found == []


@pytest.mark.parametrize("width", cut.WIDTHS)
def test_no_text_is_cut(opened: Opened, width: int) -> None:
    page = opened(width)
    assert page.locator(".wide").count() > 5
    assert cut.cut_texts(page) == []
    page.locator(".graph svg:visible a").nth(2).click()
    card = page.locator(".card:visible")
    assert card.evaluate("each => [each.scrollWidth - each.clientWidth, each.scrollHeight - each.clientHeight]") == [
        0, 0], "all of it is shown"
    assert cut.cut_texts(page) == []


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_box_shows_the_numbers_of_its_stage(opened: Opened, scripts: bool) -> None:
    page = opened(scripts=scripts)
    cards = page.locator(".card")
    assert cards.count() == 5
    assert [card.is_visible() for card in cards.all()] == [False] * 5
    page.locator(".graph a").nth(2).click()
    assert [card.is_visible() for card in cards.all()] == [False, False, True, False, False]
    assert "2_conv2" in page.locator(".card:visible h3").inner_text()
    page.locator(".card:visible .close").click()
    assert not page.locator(".card:visible").count()


def test_tables_are_sorted(opened: Opened) -> None:
    page = opened()
    column = page.locator("#graph table").first.locator("tbody tr td:nth-child(8)")
    before = [int(re.sub(r"\D", "", text)) for text in column.all_inner_texts()]
    button = page.locator("#graph table").first.get_by_role("button", name="cycles")
    button.click()
    assert [int(re.sub(r"\D", "", text)) for text in column.all_inner_texts()] == sorted(before)
    button.click()
    assert [int(re.sub(r"\D", "", text)) for text in column.all_inner_texts()] == sorted(before, reverse=True)


def test_the_picture_is_zoomed_moved_and_shown_whole_again(opened: Opened) -> None:
    page = opened()
    picture = page.locator(".zoomable svg:visible")
    whole = picture.get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    near = picture.get_attribute("viewBox")
    assert whole is not None
    assert near is not None
    assert float(near.split()[2]) < 0.8 * float(whole.split()[2])
    picture.hover()
    page.mouse.down()
    page.mouse.move(500, 300, steps=4)
    page.mouse.up()
    assert picture.get_attribute("viewBox") != near
    assert not page.locator(".card:visible").count(), "a drag is no press"
    page.get_by_role("button", name="Show the whole picture").click()
    assert picture.get_attribute("viewBox") == whole


def test_a_stage_is_marked_everywhere(opened: Opened) -> None:
    page = opened()
    page.locator(".graph [data-stage='2_conv2']").first.hover()
    assert page.locator("tr.same").count() >= 1
    assert page.locator(".edge.near").count() == 2
    assert "conv" in page.locator(".tip").inner_text()


def test_it_prints_on_paper(opened: Opened, tmp_path: Path) -> None:
    """Pages of A4, upright or on their side, in light colours, with the picture and without what is for a screen."""
    page = opened(dark=True)
    page.emulate_media(media="print")
    assert page.locator(".graph svg:visible").count() == 1
    assert not page.locator(".contents").is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(26, 31, 39)"
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    sizes = set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", (tmp_path / "report.pdf").read_bytes()))
    assert sizes
    assert {tuple(sorted(round(float(side)) for side in size)) for size in sizes} == {(595, 842)}
