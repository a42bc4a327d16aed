"""`--noise`: the cheapest design with so little noise, what other commands make of it, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo, HwflowError

import hwflow
from hwflow import golden, onnx
from hwflow.golden import evaluate_rows
from hwflow.quantize import load_quantized
from tests.e2e.command import Cli
from tests.e2e.networks import rows_for, small_network, write_data

FOLDER = Path("build/small/ulx3s_85f/precision")
SMALL = ("small.onnx", "--data", "small.npz")
FEW = ("--search-evaluations", "20")


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small network and rows for it, of which others calibrate."""
    monkeypatch.chdir(tmp_path)
    model = small_network()
    onnx.save(model, "small.onnx")
    (calibration,) = rows_for(model, 30, seed=1).values()
    write_data(Path("small.npz"), model, rows=12, calib_x=calibration)
    return tmp_path


def decibels_of_calibration() -> float:
    """Signal to noise of the worst output of what was quantized, on the calibration rows."""
    quantized = load_quantized(Path("build/small/quantized"))
    with np.load("small.npz") as data:
        rows = {"x": data["calib_x"]}
    real, integer = evaluate_rows(hwflow.load("small.onnx"), rows), golden.predict(quantized, rows)
    return min(10 * np.log10(float((real[name].astype(float) ** 2).sum() / ((real[name] - integer[name]) ** 2).sum()))
               for name in real)


def test_wider_and_narrower_and_other_commands_take_the_same(cli: Cli) -> None:
    done = cli("quantize", *SMALL, "--noise", "46", *FEW, "--json")
    assert done.code == 0, done.err
    search = done.json["search"]
    winner, knobs = search["winner"], search["knobs"]
    assert decibels_of_calibration() >= 46
    assert winner["accuracy"] == pytest.approx(decibels_of_calibration())
    assert "the default widths have 38.9 dB at output 'fc_out'" in search["notes"]
    assert {max(knob["widths"]) for knob in knobs} == {8, 16}
    assert 8 < max(winner["bits"]) < 16
    for command in ("golden", "build", "report"):
        again = cli(command, *SMALL, "--noise", "46", *FEW)
        assert again.code == 0, again.err
        assert f"widths for --noise 46: {FOLDER / 'settings.yaml'}" in again.out, "nothing is searched again"
        assert "search for widths" not in again.err
    built = cli("build", *SMALL, "--settings", FOLDER / "settings.yaml", "--plan", FOLDER / "plan.yaml", "--json")
    assert built.json["resources"] == winner["resources"]
    assert "search for widths" in cli("golden", *SMALL, "--noise", "45", *FEW).err, "another question"


def test_a_goal_that_nothing_reaches(cli: Cli) -> None:
    message = cli.refuses("quantize", *SMALL, "--noise", "110", *FEW, code=1)
    assert message.startswith("no design has 110 dB at every output; the best found has ")
    assert "(bits 16 8/16 8/16): layer '" in message
    assert "adds most noise" in message
    assert f"the settings of the best design are in {FOLDER / 'best.yaml'}" in message
    assert not (FOLDER / "settings.yaml").exists()
    best = json.loads((FOLDER / "frontier.json").read_text())["points"][0]
    assert cli("quantize", *SMALL, "--settings", FOLDER / "best.yaml").code == 0
    assert decibels_of_calibration() == pytest.approx(best["accuracy"])


def test_given_widths_are_the_most(cli: Cli) -> None:
    message = cli.refuses("quantize", *SMALL, "--noise", "40", "--bits", "4,5", *FEW, code=1)
    assert "(bits 5 4/5 4/5)" in message
    done = cli("quantize", *SMALL, "--noise", "15", "--bits", "4,5", *FEW, "--json")
    assert done.code == 0, done.err
    assert max(done.json["search"]["winner"]["bits"]) <= 5


def test_few_rows_and_equal_rows_are_said(cli: Cli) -> None:
    np.savez("small.npz", in_x=np.ones((3, 1, 2, 4, 4), np.float32))
    done = cli("quantize", *SMALL, "--noise", "20", *FEW)
    assert done.code == 0, done.err
    assert "the noise is measured on 3 calibration rows only" in done.out
    assert "their noise says little of other rows" in done.out


@pytest.mark.parametrize(("words", "message"), [
    (["--noise", "0"], "--noise must be above 0 and at most 120 decibels, not 0; 30 leaves a thousandth of an output's "
                       "power to noise"),
    (["--noise", "-3"], "--noise must be above 0 and at most 120 decibels, not -3; 30 leaves a thousandth of an "
                        "output's power to noise"),
    (["--noise", "nan"], "--noise must be above 0 and at most 120 decibels, not nan; 30 leaves a thousandth of an "
                         "output's power to noise"),
    (["--noise", "1000"], "--noise must be above 0 and at most 120 decibels, not 1000; 30 leaves a thousandth of an "
                          "output's power to noise"),
])
def test_a_goal_is_a_number_of_decibels(cli: Cli, words: list[str], message: str) -> None:
    assert cli.refuses("golden", *SMALL, *words) == message


def test_a_goal_needs_data_and_one_goal_is_enough(cli: Cli) -> None:
    assert cli.refuses("build", "small.onnx", "--noise", "30") == (
        "--noise must have data to measure the noise on; give an NPZ file with --data (docs/data-files.md)")
    both = cli.refuses("quantize", *SMALL, "--noise", "30", "--accuracy-drop", "1")
    assert "--noise" in both
    assert "--accuracy-drop" in both


def test_an_accuracy_that_eight_bits_lose_is_kept_with_more(cli: Cli) -> None:
    model = small_network()
    (labels,) = evaluate_rows(onnx.infer(model), rows_for(model, 12)).values()
    write_data(Path("small.npz"), model, rows=12, labels=labels)
    narrow = cli("quantize", *SMALL, "--accuracy-drop", "0.5", "--bits", "8", *FEW)
    assert narrow.code == 1
    done = cli("quantize", *SMALL, "--accuracy-drop", "0.5", *FEW, "--json")
    assert done.code == 0, done.err
    assert done.json["search"]["winner"]["drop"] <= 0.5
    assert max(done.json["search"]["winner"]["bits"]) > 8


@pytest.mark.slow
def test_the_hardware_of_a_found_design_is_its_integers(cli: Cli) -> None:
    done = cli("sim", *SMALL, "--noise", "46", *FEW, "--frames", "3", "--json")
    assert done.code == 0, done.err


def test_from_python() -> None:
    model = hwflow.load("small.onnx")
    data = hwflow.read_data("small.npz", model)
    quantized = hwflow.quantize_model(model, data, noise=42)
    real, integer = evaluate_rows(model, data.calibration), golden.predict(quantized, data.calibration)
    (name,) = real
    noise = float(((real[name] - integer[name]) ** 2).sum() / (real[name].astype(float) ** 2).sum())
    assert -10 * np.log10(noise) >= 42
    assert max(tensor.format.bits for tensor in quantized.graph.tensors.values()) > 8
    with pytest.raises(AnswerIsNo, match="no design has 115 dB at every output; the best found has"):
        hwflow.quantize_model(model, data, noise=115)
    for wrong in ({"noise": True}, {"noise": "30"}, {"noise": 30, "accuracy_drop": 1}, {"noise": float("inf")}):
        with pytest.raises(HwflowError, match="must be"):
            hwflow.quantize_model(model, data, **wrong)


def test_the_default_names_the_goal_where_it_is_noisy(cli: Cli) -> None:
    with np.load("small.npz") as data:
        rows = data["in_x"]
    write_data(Path("wide.npz"), small_network(), rows=12, calib_x=rows / 20)  # all beyond is clipped
    done = cli("quantize", "small.onnx", "--data", "wide.npz", "--board", "icebreaker", "--json")
    assert done.code == 0, done.err
    advice = done.json["advice"]
    assert advice["command"] == "hwflow quantize small.onnx --data wide.npz --noise 30.0 --board icebreaker"
    default, wide = (cli("build", "small.onnx", "--data", "wide.npz", "--board", "icebreaker", *bits, "--json").json
                     for bits in ((), ("--bits", "8,16")))
    for name, built in (("default", default), ("wide", wide)):
        assert advice["estimate"][name] == {**built["resources"], "interval": built["interval"]}
    assert cli("quantize", "small.onnx", "--data", "wide.npz", "--bits", "8", "--json").json["advice"] is None
