"""`hwflow quantize --accuracy-drop`: the search on small models, what it leaves, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import hwflow
from hwflow import onnx
from hwflow.golden import evaluate_rows
from hwflow.quantize import load_quantized
from hwflow.quantize.settings_file import settings_from_yaml
from hwflow.search.widths import Answers
from tests.e2e.command import Cli, Outcome, process
from tests.e2e.networks import forked, rows_for, small_network, write_data
from tests.project.tree import ROOT

DIGITS = ROOT / "models" / "digits_cnn.onnx"
DATA = ROOT / "models" / "digits_cnn.npz"
FOLDER = Path("build/small/ulx3s_85f/precision")


SMALL = ["quantize", "small.onnx", "--data", "small.npz", "--accuracy-drop", "10"]
EVALUATIONS = ("--search-evaluations", "8")


def prepare(folder: Path) -> None:
    """The small network and forty rows without labels, so that the float model's classes count."""
    model = small_network()
    onnx.save(model, folder / "small.onnx")
    write_data(folder / "small.npz", model, rows=40)


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """The command, in a folder in which nothing was searched."""
    prepare(tmp_path)
    return SMALL


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder in which the search ran, for all tests that only look at the result, and what it said."""
    folder = tmp_path_factory.mktemp("searched")
    prepare(folder)
    return folder, process([*SMALL, *EVALUATIONS], cwd=folder)


@pytest.mark.slow
def test_the_example_becomes_cheaper_within_the_drop(cli: Cli) -> None:
    words = ["quantize", DIGITS, "--data", DATA, "--accuracy-drop", "1.0", "--search-evaluations", "20"]
    done = cli(*words, "--json")
    assert done.code == 0, done.err
    search = done.json["search"]
    winner, widest = search["winner"], search["widest"]
    assert winner["drop"] <= 1.0
    assert winner["price"] < widest["price"]
    assert search["evaluations"] <= 20
    assert search["metric"]["name"] == "top-1"
    top1 = done.json["accuracy"]
    assert 100 * (top1["float_top1"] - top1["integer_top1"]) == pytest.approx(winner["drop"])


def test_what_it_prints_and_leaves(searched: tuple[Path, Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, done = searched
    monkeypatch.chdir(folder)
    assert done.code == 0, done.err
    assert "frontier for ulx3s_85f" in done.out
    assert "bits: input, then weights/result of conv, fc" in done.out
    assert "agreement: rows where output" in done.out
    assert "the accuracy is measured on 40 rows only; one row is 2.50 points" in done.out
    facts = json.loads((FOLDER / "frontier.json").read_text())
    prices = [point["price"] for point in facts["frontier"]]
    assert prices == sorted(prices, reverse=True)
    assert facts["winner"]["drop"] <= 10
    assert facts["winner"]["price"] < facts["widest"]["price"]
    assert facts["evaluations"] <= 8
    files = sorted((FOLDER / "frontier").glob("*.yaml"))
    model = hwflow.load("small.onnx")
    for file, point in zip(files, facts["frontier"], strict=True):
        settings = settings_from_yaml(file.read_text(), str(file), model)
        bits = {(knob["kind"], knob["name"]): bits for knob, bits in zip(facts["knobs"], point["bits"], strict=True)}
        assert settings.layer("conv").weights.bits == bits["weights", "conv"]
        assert settings.layer("fc").weights.bits == bits["weights", "fc"]
    picture = ElementTree.fromstring((FOLDER / "frontier.svg").read_text())
    assert picture.tag.endswith("svg")


def test_the_settings_make_the_design_again(
    cli: Cli, searched: tuple[Path, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(searched[0])
    chosen = load_quantized(Path("build/small/quantized"))
    again = cli("quantize", "small.onnx", "--data", "small.npz", "--settings", FOLDER / "settings.yaml", "--build", "b")
    assert again.code == 0, again.err
    assert load_quantized(Path("b/small/quantized")).graph == chosen.graph
    winner = json.loads((FOLDER / "frontier.json").read_text())["winner"]
    assert min(winner["bits"]) < 8
    made = ["--settings", FOLDER / "settings.yaml", "--plan", FOLDER / "plan.yaml"]
    built = cli("build", "small.onnx", "--data", "small.npz", *made, "--build", "b", "--json")
    assert built.json["resources"] == winner["resources"]


@pytest.mark.slow
def test_where_layers_share_a_stage_the_price_is_that_of_the_build(cli: Cli, tmp_path: Path) -> None:
    """A stage for each layer does not fit the board."""
    model = forked()
    onnx.save(model, tmp_path / "forked.onnx")
    write_data(tmp_path / "forked.npz", model, rows=20)
    words = ["forked.onnx", "--data", "forked.npz", "--board", "icebreaker"]
    done = cli("quantize", *words, "--accuracy-drop", "20", "--search-evaluations", "4", "--json")
    assert done.code == 0, done.err
    search = done.json["search"]
    made = ["--settings", search["settings"], "--plan", search["plan"]]
    for folder, bits, plan in (("chosen", "winner", made), ("widest", "widest", [])):
        built = cli("build", *words, *plan, "--build", folder, "--json")
        assert built.json["execution"] == "shared"
        assert built.json["resources"] == search[bits]["resources"]


@pytest.mark.slow
def test_a_second_run_asks_nothing_again_and_says_the_same(
    cli: Cli, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    store = Answers.__setitem__
    monkeypatch.setattr(Answers, "__setitem__", lambda self, key, value: (asked.append(key), store(self, key, value)))
    first = cli(*small, "--search-evaluations", "14", "--json")
    before = len(asked)
    second = cli(*small, "--search-evaluations", "14", "--json")
    assert len(asked) == before > 0
    assert second.json == first.json
    longer = cli(*small, "--search-evaluations", "20", "--json").json["search"]  # it may win less: it walks elsewhere
    assert first.json["search"]["evaluations"] <= 14 < longer["evaluations"] <= 20
    assert len(set(asked)) == len(asked) > before, "it asks only what is new"
    assert longer["winner"]["drop"] <= 10
    assert longer["winner"]["price"] < longer["widest"]["price"]


@pytest.mark.slow
def test_an_interrupted_search_goes_on_where_it_was(
    cli: Cli, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*small, "--search-evaluations", "8"]
    whole = cli(*words, "--json", "--build", "other")
    store, asked = Answers.__setitem__, []

    def interrupt(self: Answers, key: str, value: object) -> None:
        store(self, key, value)
        asked.append(key)
        if len(asked) == 10:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "__setitem__", interrupt)
        assert cli(*words).code == 130
    assert not (FOLDER / "settings.yaml").exists()
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "__setitem__", lambda self, key, value: (asked.append(key), store(self, key, value)))
        resumed = cli(*words, "--json")
    assert len(asked) == len(set(asked)), "nothing is computed twice"
    assert resumed.json["search"]["winner"] == whole.json["search"]["winner"]


def test_without_matplotlib_the_table_is_there_and_the_plot_says_what_to_install(
    cli: Cli, searched: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(searched[0], tmp_path, dirs_exist_ok=True)  # with its answers
    (FOLDER / "frontier.svg").unlink()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = cli(*SMALL, *EVALUATIONS)
    assert done.code == 0
    assert "frontier for ulx3s_85f" in done.out
    assert "install it with `pip install 'hwflow[plot]'`" in done.err
    assert not (FOLDER / "frontier.svg").exists()


def test_a_drop_needs_data(cli: Cli, small: list[str]) -> None:
    assert cli.refuses("quantize", "small.onnx", "--accuracy-drop", "1") == (
        "--accuracy-drop must have data to measure the accuracy on; give an NPZ file with --data (docs/data-files.md)"
    )


@pytest.mark.parametrize("drop", ["-0.5", "nan", "inf"])
def test_a_drop_is_a_number_of_points(cli: Cli, small: list[str], drop: str) -> None:
    assert cli.refuses(*small[:-1], drop) == (
        f"--accuracy-drop must be 0 or more points, not {drop}; 1.0 lets the model lose one of a hundred rows"
    )


def test_a_model_that_came_quantized_has_its_widths(cli: Cli, small: list[str]) -> None:
    assert cli(*small[:-2], "--export", "int8.onnx").code == 0
    assert cli.refuses("quantize", "int8.onnx", *small[2:]) == (
        "--accuracy-drop must have a float model, not one that is quantized already, whose widths are fixed in the "
        "file; start from the float model"
    )


def test_the_settings_that_are_written_are_not_those_that_are_read(
    cli: Cli, searched: tuple[Path, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(searched[0])
    message = cli.refuses(*SMALL, "--settings", FOLDER / "settings.yaml")
    assert message == (
        f"--settings must not be {FOLDER / 'settings.yaml'}, which --accuracy-drop writes; copy it to another place"
    )


def test_labels_that_make_no_accuracy(cli: Cli, small: list[str], tmp_path: Path) -> None:
    write_data(tmp_path / "small.npz", small_network(), rows=4, labels=np.array([0, 1, 2, 7]))
    assert "labels must be from 0 to 2" in cli.refuses(*small)


def test_no_design_may_be_good_enough(cli: Cli, small: list[str], tmp_path: Path) -> None:
    model = small_network()
    rows = rows_for(model, 6)
    (labels,) = evaluate_rows(onnx.infer(model), rows).values()  # no integer model equals them
    write_data(tmp_path / "small.npz", model, rows=6, labels=labels)
    done = cli.refuses(*small[:-1], "0", "--search-evaluations", "5", code=1)
    assert done.startswith("no design loses at most 0 % of error; the best found loses ")
    assert "allow a larger --accuracy-drop" in done
    assert not (FOLDER / "settings.yaml").exists()
    assert (FOLDER / "frontier.json").exists()


def test_answers_survive_damage(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    answers = Answers(file, "here")
    answers["a"], answers["b"] = {"x": 1}, {"x": 2}
    Answers(file, "there")["c"] = {"x": 3}
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([lines[0], b"\xff{", b"[1]", b'{"context": "here"}', lines[1][:-3]]))
    damaged = Answers(file, "here")
    assert dict(damaged) == {"a": {"x": 1}}
    damaged["d"] = {"x": 4}
    assert dict(Answers(file, "here")) == {"a": {"x": 1}, "d": {"x": 4}}
