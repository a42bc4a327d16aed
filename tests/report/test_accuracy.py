"""The tables on accuracy as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwflow.accuracy import Accuracy, LayerNoise, compare, question
from hwflow.views.console.accuracy import say_accuracy, show_accuracy, show_layers
from hwflow.views.console.terminal import Console
from hwflow.views.page.sections.accuracy import accuracy_body
from tests.accuracy.support import dataset, passing


def shown(capsys: pytest.CaptureFixture[str], show: Any, *arguments: Any) -> str:
    show(Console(), *arguments)
    return capsys.readouterr().out


def classified(labels: list[int], real: list[int], integer: list[int], count: int) -> Accuracy:
    model, data = passing((1, 1), (1, count)), dataset(labels)
    one_hot = np.eye(count, dtype=np.float32)
    return compare(question(model, data), data, {"y": one_hot[real][:, None]}, {"y": one_hot[integer][:, None]})


def test_a_confusion_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, show_accuracy, classified([0, 1, 2, 2], [0, 1, 2, 2], [0, 1, 1, 1], 3))
    lines = [line.split() for line in out.splitlines()]
    assert ["top-1", "100.00", "%", "50.00", "%", "-50.00", "points"] in lines
    assert ["label", "0", "1", "2"] in lines
    assert ["2", "2"] in lines, "both rows of label 2 are taken for 1"
    assert "both models give the same class to 50.00 % of the rows" in out


def test_many_classes_show_the_pairs_that_are_confused(capsys: pytest.CaptureFixture[str]) -> None:
    others = list(range(40))
    real, integer = [7, 7, 9, 30, 30, 31], [9, 9, 7, 31, 30, 31]
    out = shown(capsys, show_accuracy, classified([7, 7, 7, 30, 30, 31, *others], real + others, integer + others, 40))
    assert "classes that are confused most" in out
    lines = [line.split() for line in out.splitlines()]
    first = lines.index(["7", "9", "2", "1"])
    assert lines[first + 1] == ["30", "31", "1", "0"]


def test_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, say_accuracy, None) == ""
    out = shown(capsys, say_accuracy, classified([0, 1], [0, 1], [0, 0], 3))
    assert out.splitlines() == [
        "  accuracy on 2 labelled rows: float 100.00 %, integer 50.00 % (-50.00 points)",
        "  integer against float outputs on 2 rows: 0.0 dB signal to noise",
    ]
    names, data = {"y": np.array([[7], [-2]])}, dataset([7, -2])
    asked = question(passing((1, 1), (1, 1), np.int64), data)
    made = compare(asked, data, {**names, "scores": np.ones((2, 3))}, {"y": np.array([[7], [3]]),
                                                                       "scores": np.full((2, 3), 1.1)})
    assert shown(capsys, say_accuracy, made).splitlines()[1:] == [
        "  integer against float outputs on 2 rows: 20.0 dB signal to noise; 'y' equal in 50.00 %"]
    assert [(noise.snr_db is None, noise.agreement) for noise in made.outputs] == [(True, 0.5), (False, None)]
    same = compare(asked, data, names, {"y": np.array([[7], [3]])})
    assert same.snr_db is None, "a class has no noise"
    assert shown(capsys, say_accuracy, same).endswith("rows: 'y' equal in 50.00 %\n")
    apart = replace(asked, states=("scores",))
    made = compare(apart, data, {**names, "scores": np.ones((2, 3))}, {**names, "scores": np.full((2, 3), 1.1)})
    assert shown(capsys, say_accuracy, made).endswith("rows: equal\n")
    assert "  state 'scores' against the float model: 20.0 dB" in shown(capsys, show_accuracy, made)
    data = dataset(np.array([1.0, 2.0]))
    made = compare(question(passing((1, 1)), data), data, {"y": data.labels[:, None]}, {"y": data.labels[:, None]})
    assert shown(capsys, say_accuracy, made).splitlines() == [
        "  R2 on 2 rows: float 1.0000, integer 1.0000 (+0.0000)",
        "  integer against float outputs on 2 rows: equal",
    ]


def test_the_page_has_states_in_a_table_of_their_own() -> None:
    names, data = {"y": np.array([[7], [-2]])}, dataset([7, -2])
    asked = replace(question(passing((1, 1), (1, 1), np.int64), data), states=("cache",))
    made = compare(asked, data, {**names, "cache": np.ones((2, 3))}, {"y": np.array([[7], [3]]),
                                                                      "cache": np.full((2, 3), 1.1)})
    outputs, states = accuracy_body(made).split("States and caches, none of the answers", 1)
    assert "equal in 50.00 %" in outputs
    assert "20.0 dB" not in outputs
    assert "20.0 dB" in states


ROWS = (
    LayerNoise("x", "", "", "", "int8", 0.1, 1.0, 0.0001, 0.01, 0.05, 0.0, 0.0001),
    LayerNoise("a", "conv", "conv", "int2", "int8", 0.5, 1.0, 0.02, -0.25, 1.0, 0.00001, 0.0199, 40.0),
    LayerNoise("b", "[red]pool\x1b[31m", "max_pool", "", "int8", 0.5, 1.0, 0.03, 0.0, 1.0, 0.125, 0.01, 17.0),
    LayerNoise("c", "cut", "lookup", "", "int8", 0.5),
    LayerNoise("d", "same", "dense", "int8", "int8", 0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 17.0),
)


def test_a_line_for_each_layer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --verbose: in one table of 80 columns, also where names are long."""
    monkeypatch.setenv("COLUMNS", "80")
    long = replace(ROWS[2], layer="model/activation/Relu;model/batch_normalization/FusedBatchNormV3")
    lines = shown(capsys, show_layers, (*ROWS, long), 100).splitlines()
    words = [line.split() for line in lines]
    assert ["input", "x", "int8", "40.0"] in words
    assert ["conv", "conv", "int2", "int8", "17.0", "hurts", "most"] in words
    assert ["[red]pool\\x1b[31m", "max_pool", "int8", "15.2"] in words
    assert ["model/activat…sedBatchNormV3", "max_pool", "int8", "15.2"] in words
    assert max(map(len, lines)) <= 80
    assert "  dB: how close the integers of a layer are to the float model: at 20 dB they" in lines


def test_layers(capsys: pytest.CaptureFixture[str]) -> None:
    show_layers(Console(verbose=True), ROWS, 100)
    lines = capsys.readouterr().out.splitlines()
    words = [line.split() for line in lines]
    assert ["0", "input", "x", "int8", "40.0", "0.10", "0.50", "0", "%"] in words
    assert ["1", "conv", "conv", "int2", "int8", "17.0", "-0.50", "2.00", "<", "0.01", "%", "hurts", "most"] in words
    assert ["2", "[red]pool\\x1b[31m", "max_pool", "int8", "15.2", "0.00", "2.00", "12.50", "%", "worst"] in words
    assert ["3", "cut", "lookup", "int8"] in words
    assert ["4", "same", "dense", "int8", "int8", "exact", "0.00", "0.00", "0", "%"] in words
    assert lines[-1] == (
        "  layer 'conv' hurts most: from 40.0 dB at its inputs to 17.0 dB at its output (weights int2, output int8)")


def test_layers_that_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, show_layers, [replace(ROWS[3])], 10)
    assert out == "  layer by layer: this model's tensors have no counterpart in reals to compare with\n"
