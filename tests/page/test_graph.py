"""The picture of a design: nothing on top of another, columns cut where few arrows cross, links that lead on."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.views.pictures.layout import first_rows
from hwflow.views.pictures.scene import LINE, NARROW, Arrow, Box, Scene, arrange
from tests.e2e.command import Cli
from tests.page.parsed import Page

HOSTILE = '</script><img src=x onerror="alert(1)">\u202e\x1b[31m'


def drawn(seed: int, columns: int, count: int = 60) -> Scene:
    """A random graph in which some arrows have labels."""
    random = np.random.default_rng(seed)
    boxes = [Box("layer", f"box-{k}", (("x" * int(random.integers(4, 30)), NARROW),) * int(random.integers(1, 4)))
             for k in range(count)]
    arrows = []
    for k in range(1, count):
        for back in set(random.geometric(0.35, int(random.integers(1, 3))).tolist()):
            arrows.append(Arrow(max(0, k - back), k, "queue 1234" if random.random() < 0.3 else ""))
    return arrange(boxes, arrows, columns)


def rectangles(scene: Scene) -> list[tuple[float, float, float, float]]:
    boxes = [(x - box.width / 2, top, x + box.width / 2, top + box.depth) for box, x, top in scene.boxes]
    half = len("queue 1234") * NARROW / 2
    return boxes + [(x - half, y - LINE + 4, x + half, y) for x, y in scene.labels.values()]


@pytest.mark.parametrize("columns", [1, 3])
def test_nothing_covers_another(columns: int) -> None:
    for seed in range(3):
        scene = drawn(seed, columns)
        found = rectangles(scene)
        assert all(a >= 0 and b >= 0 and c <= scene.width and d <= scene.height for a, b, c, d in found)
        for a, b in itertools.combinations(found, 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
        boxes = found[: len(scene.boxes)]
        for _, points in scene.arrows:
            for start, end in itertools.pairwise(points):
                if start.column == end.column and start.x == end.x:  # straight down through a row
                    assert not any(left < start.x < right and start.y < bottom and end.y > top
                                   for left, top, right, bottom in boxes)


def test_columns_are_even_and_cut_where_one_arrow_crosses() -> None:
    """Rows of blocks as of a residual network: three rows with two arrows between them, then one arrow."""
    crossing = [1 if row % 4 == 3 else 2 for row in range(80)]
    firsts = first_rows([50.0] * 80, crossing, 5)
    assert firsts == (0, 16, 32, 48, 64)
    assert first_rows([50.0] * 80, [0] * 80, 5) == (0,), "nowhere may be cut"
    uneven = first_rows([50.0] * 20, [0] * 12 + [1] * 8, 4)
    assert uneven[0] == 0
    assert all(first > 12 for first in uneven[1:])


def test_every_arrow_of_a_column_reaches_the_next_without_crossing_another() -> None:
    scene = drawn(1, 4)
    detours = list(scene.detours.values())
    assert detours
    for (low, beside, high), (lower, further, higher) in itertools.combinations(detours, 2):
        if abs(beside - further) < 100:  # in the same gutter
            assert (low < lower) == (beside < further) == (high < higher)


def hostile(folder: Path) -> None:
    """Two convolutions and a sum whose names would be elements and control sequences where they are not escaped."""
    b = Builder()
    x = b.input(f"x{HOSTILE}", np.float32, (1, 2, 4, 4))
    weights = np.random.default_rng(0).standard_normal((2, 2, 3, 3)).astype(np.float32)
    left = b.node("Conv", x, b.constant("w", weights), name=f"a{HOSTILE}", pads=[1, 1, 1, 1])
    right = b.node("Conv", left, b.constant("v", weights[:, ::-1].copy()), name=f"b{HOSTILE}", pads=[1, 1, 1, 1])
    b.output(b.node("Add", left, right, name=f"c{HOSTILE}"))
    onnx.save(b.model(), folder / "hostile.onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    hostile(made)
    return made


@pytest.mark.parametrize("execution", ["dataflow", "shared"])
def test_page_of_hostile_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], execution: str
) -> None:
    """One page without a request, a broken link or a name that became markup; every layer is a box that leads on."""
    monkeypatch.chdir(folder)
    facts = Cli(capsys)("report", "hostile.onnx", "--execution", execution, "--json").json
    assert facts["bytes"] <= 300_000
    text = Path(facts["report"]).read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "\u202e" not in text
    page = Page(text)
    assert page.requests == []
    assert Counter(page.tags)["script"] == 1
    assert "img" not in page.tags
    assert [name for name, times in Counter(page.ids).items() if times > 1] == []
    assert [link for link in page.links if link.startswith("#") and link[1:] not in page.ids] == []
    boxes = [each for each in page.ids if each.startswith(("g-layer", "gb-layer"))]
    assert len(boxes) == 3
