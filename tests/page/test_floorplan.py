"""The picture of a die: areas, edges and names are those of the placement; and the section around it."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from hwflow.host.rate import Rate
from hwflow.synth import load_board
from hwflow.synth.placement import Die, Group, Placement
from hwflow.views.page.sections import silicon
from hwflow.views.page.sections.silicon import LEVELS, Kind, Wire, floorplan

ROUTED = Path(__file__).parent / "routed"
HOSTILE = '</script><b>"&\u202e'


def placement(die, tiles, resource="lut"):
    parts = sorted({part for used in tiles.values() for part in used})
    return Placement("device", die, tuple(
        Group(part, resource, tuple((x, y, used[part]) for (x, y), used in sorted(tiles.items()) if part in used))
        for part in parts), {})


def drawn(made, **options):
    text = floorplan("title", "words", made, {"lut": LEVELS}, lambda part: Kind(part, "s1", part[-1]), **options)
    return ElementTree.fromstring(str(text))


def pixels(figure, die):
    """By part how often each level of each tile is painted, row 0 at the top."""
    found = {}
    for group in figure.iter("g"):
        if group.get("class", "").startswith("part"):
            canvas = np.zeros((die.rows * LEVELS, die.columns * LEVELS), int)
            for text in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z", "".join(p.get("d", "") for p in group)):
                x, y, wide, high, back = map(int, text)
                assert wide == back
                canvas[y:y + high, x:x + wide] += 1
            found[group.find("title").text.partition(":")[0]] = canvas
    return found


@pytest.mark.parametrize("upwards", [False, True])
def test_every_cell_is_painted_once_in_its_tile(upwards):
    rng, die = np.random.default_rng(1), Die(20, 15, upwards)
    tiles = {}
    for x, y in rng.integers([20, 15], size=(150, 2)):
        tiles[int(x), int(y)] = dict(Counter(f"stage{k}" for k in rng.integers(5, size=rng.integers(1, LEVELS + 1))))
    found = pixels(drawn(placement(die, tiles)), die)
    assert sum(found.values()).max() == 1
    for (x, y), used in tiles.items():
        row = 14 - y if upwards else y
        tile = {part: int(canvas[row * LEVELS:(row + 1) * LEVELS, x * LEVELS:(x + 1) * LEVELS].sum()) // LEVELS
                for part, canvas in found.items()}
        assert {part: count for part, count in tile.items() if count} == used
    assert sum(canvas.sum() for canvas in found.values()) == LEVELS * sum(sum(used.values()) for used in tiles.values())


def test_a_tile_with_more_parts_than_levels_stays_a_tile():
    figure = drawn(placement(Die(1, 1), {(0, 0): {f"stage{k}": 2 for k in range(12)}}))
    assert sum(canvas.sum() for canvas in pixels(figure, Die(1, 1)).values()) == LEVELS * LEVELS


@pytest.mark.slow
def test_a_full_large_device_of_60_stages_stays_small():
    rng = np.random.default_rng(2)
    tiles = {(x, y): {f"stage{(x // 16 + 8 * (y // 13)) % 60}": 5, f"stage{rng.integers(60)}": 3}
             for x in range(127) for y in range(96)}
    made = floorplan("title", "words", placement(Die(127, 96), tiles), {"lut": LEVELS}, lambda part: Kind(part, "s1"))
    assert len(made) < 500_000


def test_names_are_text_and_the_path_is_on_the_die():
    made = Placement("device", Die(4, 4), (Group("a", "lut", ((1, 1, 1),)), Group("b", "ram", ((2, 3, 1),))), {})
    text = str(floorplan(HOSTILE, HOSTILE, made, {"lut": 8}, lambda part: Kind(
        HOSTILE, "s1", "1", "#a", {"stage": HOSTILE}), Wire([(0, 0), (3, 3)], HOSTILE)))
    assert "</script>" not in text
    assert "<b>" not in text
    figure = ElementTree.fromstring(text)
    wire = next(group for group in figure.iter("g") if group.get("class") == "wire")
    assert wire.find("path").get("d") == "M8.0,8.0L56.0,56.0"
    assert {group.get("data-stage") for group in figure.iter("g") if group.get("class") == "part s1"} == {
        '</script><b>"&\\u202e'}


@pytest.fixture
def subject(tmp_path, monkeypatch):
    """A routed digits_mlp on an iCEBreaker, as synthesis left it."""
    shutil.copytree(ROUTED, tmp_path / "synth")
    monkeypatch.setattr(silicon, "routed_design", lambda plan, graph, board, folder: plan.routed)
    stages = [SimpleNamespace(name=name) for name in ("0_dense1", HOSTILE, "2_logits")]
    plan = SimpleNamespace(stages=stages, interval_at=lambda mhz: 256, input_lanes=(1,), routed=True)
    return SimpleNamespace(plan=plan, graph=None, board=load_board("icebreaker"), synthesis=tmp_path / "synth",
                           command=lambda *words: "hwflow " + " ".join(words))


def test_the_section_of_a_routed_design(subject, monkeypatch):
    monkeypatch.setattr(silicon, "rate_of", lambda plan, mhz, line: Rate(mhz, 256, 0, 1000.4))
    made = silicon.section(subject)
    text = str(made.body)
    assert made.missing is None
    for words in ("52.5 MHz", "52.8 MHz", "1,000", "hwflow synth --seeds 4",
                  "multiplier of requantizer 0 (value_1[0])", "All clocks are slow enough"):
        assert words in text
    assert "</script>" not in text
    figure = ElementTree.fromstring(f"<all>{text}</all>")
    titles = " ".join(group.find("title").text for group in figure.iter("g") if group.get("class", "")[:4] == "part")
    cells = [int(count.replace(",", "")) for count in re.findall(r"(\d[\d,]*) LUT", titles)]
    assert sum(cells) == 3739  # as nextpnr counts


def test_what_is_not_of_this_plan_is_not_shown(subject, monkeypatch):
    subject.plan.routed = None
    made = silicon.section(subject)
    assert (made.missing, "of another plan" in made.body) == ("hwflow synth", True)
    assert "MHz" not in made.body
    (subject.synthesis / "report.json").unlink()
    assert "not routed yet" in silicon.section(subject).body


def test_seeds_side_by_side(subject, monkeypatch):
    """The one that was taken, a slower one, and one that failed with words from a tool."""
    monkeypatch.setattr(silicon, "rate_of", lambda plan, mhz, line: Rate(mhz, 256, 0, 1000.4))
    path = subject.synthesis / "report.json"
    report = json.loads(path.read_text())
    report["seeds"] = [{"seed": 1, "routed_mhz": 52.81, "seconds": 200.0, "failed": ""},
                       {"seed": 2, "routed_mhz": 41.5, "seconds": 90.0, "failed": ""},
                       {"seed": 3, "routed_mhz": None, "seconds": 0.0, "failed": HOSTILE}]
    path.write_text(json.dumps(report))
    text = str(silicon.section(subject).body)
    assert "</script>" not in text
    table = ElementTree.fromstring(f"<all>{text[text.index('<h3>Seeds'):]}</all>").find(".//tbody")
    assert [["".join(cell.itertext()) for cell in row] for row in table] == [
        ["1", "52.8", "200", "taken"], ["2", "41.5", "90", ""], ["3", "", "0", "failed"]]


def test_a_placement_of_another_design_is_not_drawn(subject, monkeypatch):
    monkeypatch.setattr(silicon, "rate_of", lambda plan, mhz, line: Rate(mhz, 256, 0, 1000.4))
    path = subject.synthesis / "placement" / "placement.json"
    kept = json.loads(path.read_text())
    kept["groups"][-1]["tiles"].pop()
    path.write_text(json.dumps(kept))
    made = silicon.section(subject)
    assert (made.missing, "floorplan" in made.body, "were not kept" in made.body) == ("hwflow synth", False, True)
