"""What the data asks is what is measured, for both models side by side."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import of_plain

from hwflow.accuracy import Accuracy, Task, compare, question
from hwflow.onnx import infer
from hwflow.onnx.build import Builder
from tests.accuracy.support import dataset, passing


def scores(*rows: list[float]) -> dict[str, np.ndarray]:
    return {"y": np.array(rows, np.float32)[:, None]}


def measured(accuracy: Accuracy) -> dict[str, tuple[float | None, float | None]]:
    return {metric.name: (metric.real, metric.integer) for metric in accuracy.metrics}


def test_classes() -> None:
    model, data = passing((1, 1), (1, 3)), dataset([0, 1, 2, 2])
    asked = question(model, data)
    assert (asked.task, asked.output) == (Task.CLASSES, "y")
    real = scores([3, 0, 0], [0, 3, 0], [0, 0, 3], [3, 0, 1])
    integer = scores([3, 0, 0], [3, 2, 0], [0, 0, 3], [0, 0, 3])
    found = compare(asked, data, real, integer)
    assert measured(found) == {"top-1": (0.75, 0.75)}
    assert found.agreement == 0.5
    assert [(p.label, p.found, p.real, p.integer) for p in found.confusion] == [
        (0, 0, 1, 1), (1, 0, 0, 1), (1, 1, 1, 0), (2, 0, 1, 0), (2, 2, 1, 2)]
    assert (found.classes, found.rows) == (3, 4)
    assert found.headline is not None
    assert found.headline.lost == 0
    assert of_plain(json.loads(json.dumps(found.facts())), Accuracy) == found
    assert found.facts()["float_top1"] == 0.75


def test_top_5_of_more_than_five_classes() -> None:
    model, data = passing((1, 1), (1, 6)), dataset([0, 5])
    descending, ascending = [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]
    found = compare(question(model, data), data, scores(descending, ascending), scores(descending, descending))
    assert measured(found) == {"top-1": (1.0, 0.5), "top-5": (1.0, 0.5)}
    assert found.headline is not None
    assert found.headline.lost == 50


def test_an_output_that_names_the_class() -> None:
    model, data = passing((1, 1), (1, 1), np.int64), dataset([7, -2])
    asked = question(model, data)
    assert asked.task is Task.CLASSES
    found = compare(asked, data, {"y": np.array([[7], [-2]])}, {"y": np.array([[7], [3]])})
    assert measured(found) == {"top-1": (1.0, 0.5)}
    assert (found.classes, found.agreement) == (0, 0.5)


def test_outputs_called_like_next_values_of_inputs_are_measured_apart() -> None:
    """A state of the same shape, a cache that a row was joined to, and neither: an output named like no input, and one
    that depends on its own input alone."""
    b = Builder("step")
    x, h = b.input("x", np.float32, (1, 4)), b.input("h_in", np.float32, (1, 4))
    keys, own = b.input("past_key_values.0.key", np.float32, (3, 4)), b.input("own_in", np.float32, (1, 4))
    for name, made in (("h_out", b.node("Add", x, h, output="h_out")), ("y", b.node("Mul", x, h, output="y")),
                       ("present.0.key", b.node("Concat", keys, x, axis=0, output="present.0.key")),
                       ("own_out", b.node("Neg", own, output="own_out"))):
        b.output(made, np.float32, (4, 4) if name == "present.0.key" else (1, 4))
    model, rng = infer(b.model()), np.random.default_rng(0)
    real = {value.name: rng.normal(0, 9, (6, *(value.tensor.shape or ()))).astype(np.float32)
            for value in model.graph.outputs if value.tensor}  # fmt: skip
    labels = real["y"].reshape(6, -1).argmax(axis=1)
    data = dataset(labels, **real)
    asked = question(model, data)
    assert (asked.output, asked.states) == ("y", ("h_out", "present.0.key")), "labels do not judge the first output"
    apart = {"h_out": 1.0, "present.0.key": 2.0, "y": 0.5, "own_out": 0.0}
    found = compare(asked, data, real, {name: values + np.float32(apart[name]) for name, values in real.items()})
    answers = np.square([real["y"], real["own_out"]]).sum()
    assert found.snr_db == pytest.approx(10 * np.log10(answers / (24 * 0.25)), abs=1e-3)
    assert [noise.output for noise in found.outputs if noise.state] == ["h_out", "present.0.key"]
    states = next(noise for noise in found.outputs if noise.output == "h_out")
    assert states.snr_db == pytest.approx(10 * np.log10(np.square(real["h_out"]).mean()), abs=1e-3)
    assert of_plain(found.facts(), Accuracy) == found
    values = dataset(None, **real)
    expected = compare(question(model, values), values, real, real)
    assert expected.headline is not None
    assert expected.headline.output == "y", "states come behind the answers"
    alone = passing((1, 4))
    assert question(alone, dataset()).states == (), "an only output is the answer, whatever it is called"


def test_one_score_for_labels_0_and_1() -> None:
    model, data = passing((1, 1)), dataset([0, 1, 0, 1])
    asked = question(model, data)
    assert asked.task is Task.SCORE
    found = compare(asked, data, scores([0.1], [0.9], [0.2], [0.8]), scores([0], [1], [1], [1]))
    assert measured(found) == {"AUC": (1.0, 0.75)}
    assert found.agreement is None


def test_a_reconstruction_is_scored_by_its_error() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    model, data = passing((1, 4)), dataset([0, 1, 1], rows)
    asked = question(model, data)
    assert (asked.task, asked.output, asked.input) == (Task.RECONSTRUCTION, "y", "x")
    steps = np.array([1, 2, 3], np.float32)[:, None, None]
    found = compare(asked, data, {"y": rows + steps}, {"y": rows + 4 - steps})
    assert measured(found) == {
        "AUC": (1.0, 0.0), "reconstruction error, label 0": (1.0, 9.0), "reconstruction error, label 1": (6.5, 2.5)}


def test_two_scores_for_two_features_are_classes() -> None:
    assert question(passing((1, 2)), dataset([0, 1], np.zeros((2, 1, 2)))).task is Task.CLASSES


@pytest.mark.parametrize("labels", [[0.5, 2.5, 4.0], np.array([[0.5], [2.5], [4.0]]), [3, 17, 400]])
def test_values(labels: Any) -> None:
    model, data = passing((1, 1)), dataset(np.asarray(labels))
    asked = question(model, data)
    assert (asked.task, asked.output) == (Task.VALUES, "y")
    want = np.asarray(labels, np.float64).reshape(3, 1, 1)
    found = measured(compare(asked, data, {"y": want}, {"y": want + 2}))
    assert found["MSE"] == (0, 4)
    assert found["largest error"] == (0, 2)
    assert found["R2"][0] == 1
    assert found["R2"][1] == pytest.approx(1 - 12 / float(np.square(want - want.mean()).sum()))


def test_expected_outputs_without_labels() -> None:
    model, want = passing((1, 1)), np.array([[[1.0]], [[2.0]]])
    data = dataset(None, np.zeros((2, 1, 1)), y=want)
    asked = question(model, data)
    assert asked.task is Task.VALUES
    assert measured(compare(asked, data, {"y": want}, {"y": want}))["MSE"] == (0, 0)


def test_rows_alone() -> None:
    data = dataset(None, np.zeros((2, 1, 1)))
    asked = question(passing((1, 1)), data)
    found = compare(asked, data, scores([1], [2]), scores([1], [2.5]))
    assert (found.task, found.metrics, found.headline) == (Task.NONE, (), None)
    assert found.snr_db == pytest.approx(10 * np.log10(5 / 0.25))
    assert [(noise.output, noise.largest_error) for noise in found.outputs] == [("y", 0.5)]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], "labels must be from 0 to 2, because output 'y' has 3 scores, not from 0 to 3; number the classes in "
                 "the order of the scores"),
        ([-1, 0], "labels must be from 0 to 2, because output 'y' has 3 scores, not from -1 to 0; number the classes "
                  "in the order of the scores"),
        ([0.0, 1.0], "labels must have one real number per element of an output (3 for 'y'), or be integers that name "
                     "classes, not float64[2]"),
    ],
)
def test_labels_of_no_use(labels: list[float], message: str) -> None:
    with pytest.raises(HwflowError) as caught:
        question(passing((1, 1), (1, 3)), dataset(labels))
    assert str(caught.value) == f"d.npz: {message}"


def test_a_measure_that_is_not_defined() -> None:
    model, data = passing((1, 1)), dataset([1, 1])
    found = compare(question(model, data), data, scores([1], [2]), scores([1], [2]))
    assert measured(found) == {"AUC": (None, None)}
    assert found.headline is not None
    assert found.headline.lost is None


def test_numbers_that_are_none_are_no_measure() -> None:
    data = dataset(np.array([1.0, 2.0]))
    made = {"y": np.array([[[np.nan]], [[np.inf]]])}
    found = compare(question(passing((1, 1)), data), data, made, made)
    assert set(measured(found).values()) == {(None, None)}
    assert found.outputs[0].largest_error is None
    json.dumps(found.facts(), allow_nan=False)
