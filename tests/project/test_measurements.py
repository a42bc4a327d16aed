"""Measurements are data: files of one form, pages that are made of them, and ages that git confirms."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from bench import pages, routes
from bench.__main__ import SECTIONS
from bench.measurements import FOLDER, git, measurement, names, parsed, tables, written_text
from tests.project.tree import ROOT

PLACES = {str(path.relative_to(ROOT)): text for path, text in pages.pages()}
KEYS = {"title", "about", "command", "commit", "written", "date", "machine", "bar", "note", "results", "tags"}
PART_KEYS = {"name", "about", "command", "commit", "written", "date", "show", "columns", "rows", "output", "text"}


@pytest.mark.parametrize("place", PLACES)
def test_numbers_of_documents_are_those_of_the_data(place: str) -> None:
    assert (ROOT / place).read_text(encoding="utf-8") == PLACES[place], (
        f"{place} must have the numbers of docs/measurements; `make docs` writes them")


@pytest.mark.parametrize("name", names())
def test_a_measurement_says_what_it_is_and_where_it_is_from(name: str) -> None:
    data = measurement(name)
    assert set(data) <= KEYS
    assert {"title", "results"} <= set(data)
    for part in data["results"]:
        assert set(part) <= PART_KEYS
    dated = pages.parts_with_commit(data)
    assert all("date" in part for part in dated)
    assert dated or not tables(data), "a table must say at which commit it was measured, or written down"
    for table in tables(data):
        assert all(len(row) <= len(table["columns"]) for row in table["rows"])


def test_every_measurement_is_on_a_page_and_has_the_section_that_makes_it() -> None:
    listed = {name for group in measurement("index")["groups"] for name in group["measurements"]}
    marks = {mark[2] for text in PLACES.values() for mark in pages.MARK.findall(text) if not mark[1]}
    assert listed | marks == set(names())
    assert set(SECTIONS) <= set(names())


@pytest.mark.parametrize("name", names())
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    assert yaml.safe_load(written_text(measurement(name))) == measurement(name)


def test_a_section_of_the_bench_becomes_data() -> None:
    text = ("29 of 31 are equal.\n\n"
            "| model | cycles | share |\n| --- | --- | --- |\n| a | 92,928 | 1.50 % |\n| b | | 0.5 |\n")
    assert parsed(text) == [
        {"text": "29 of 31 are equal."},
        {"columns": ["model", "cycles", "share"], "rows": [["a", 92928, "1.50 %"], ["b", None, 0.5]]}]


def test_the_median_of_the_seeds_leads_and_what_fell_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks end at the device's limit, a seed that failed has none, and a fall of 5 % is a message."""
    answer = {"seeds": [{"seed": k, "routed_mhz": mhz} for k, mhz in enumerate((98.0, None, 120.0, 60.0, 99.0), 1)],
              "routed_mhz": 120.0, "usable_mhz": 100.0, "interval": 1000, "clocks": [], "seconds": {"layout": 2.5},
              "tools": {"yosys": "yosys 1"},
              **{key: {"used": 1, "available": 2} for key in ("lut", "ff", "dsp", "ram")}}
    row = dict(zip(routes.HEADER, routes.cells(routes.Row("net", "net"), answer), strict=True))
    assert [row[key] for key in ("MHz, median", "MHz, worst", "MHz, best", "frames/s")] == [
        "98.0", "60.0", "100.0", "98000"]
    assert row["seeds: MHz"] == "1: 98.0, 2: 0.0, 3: 120.0, 4: 60.0, 5: 99.0"
    before = {"results": [{"columns": ["design", "frames/s"], "rows": [["net", 103_200], ["old", 7], ["same", 5]]}]}
    monkeypatch.setattr(routes, "measurement", lambda name: before)
    same = dict.fromkeys(routes.HEADER, "") | {"design": "same", "frames/s": "5"}
    assert routes.compared([list(row.values()), list(same.values())]).endswith(
        "since the last measurement: net 103 200 -> 98 000 (-5.0%); old is not measured.")


def test_ages_are_those_of_git() -> None:
    """Where the whole history is there."""
    ages = yaml.safe_load((FOLDER / "ages.yaml").read_text(encoding="utf-8"))
    counted = ages["counted"]["commit"]
    try:
        git("cat-file", "-e", counted)
        shallow = git("rev-parse", "--is-shallow-repository")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no history here")
    if shallow == "true":
        pytest.skip("a part of the history only")
    first, *_, last = ages["commits"]
    for commit in (first, last):
        assert ages["commits"][commit] == pages.commits_since(commit, counted)
