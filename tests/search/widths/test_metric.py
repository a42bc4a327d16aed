"""What accuracy means for a model and its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import onnx
from hwflow.data.dataset import Dataset
from hwflow.onnx.build import Builder
from hwflow.search.widths.metric import Metric, noise_power

F = np.float32


def metric(reference: np.ndarray, labels: np.ndarray | None = None, *, inputs: int = 4) -> Metric:
    """Of a model from [1, inputs] to [1, outputs], whose float outputs on the data are `reference` [rows, outputs]."""
    b = Builder()
    x = b.input("x", F, (1, inputs))
    b.output(b.node("MatMul", x, b.constant("w", np.eye(inputs, reference.shape[1], dtype=F)), output="y"))
    rows = np.zeros((len(reference), 1, inputs), F)
    dataset = Dataset(Path("x.npz"), {"x": rows}, {"x": rows}, False, labels, {})
    return Metric.of(onnx.infer(b.model()), dataset, outputs(reference))


def outputs(values: np.ndarray) -> dict[str, np.ndarray]:
    return {"y": values[:, None].astype(F)}


SCORES = np.eye(3)[[0, 1, 2, 0]]


def test_labels_that_name_classes_ask_for_top_1():
    found = metric(SCORES, np.array([0, 1, 2, 1]))
    assert (found.name, found.unit, found.resolution) == ("top-1", "points", 25)
    score = found.score(outputs(np.eye(3)[[0, 0, 2, 0]]))
    assert (score.value, score.drop) == (50, 25)


def test_a_better_integer_model_has_a_negative_drop():
    assert metric(SCORES, np.array([0, 1, 2, 1])).score(outputs(np.eye(3)[[0, 1, 2, 1]])).drop == -25


def test_without_labels_rows_of_scores_must_keep_their_class():
    found = metric(SCORES)
    assert (found.name, found.output) == ("agreement", "y")
    score = found.score(outputs(np.eye(3)[[0, 1, 1, 0]]))
    assert (score.value, score.drop) == (75, 25)


def test_without_labels_an_output_like_the_input_must_stay_close():
    found = metric(np.full((5, 4), 2.0))
    assert (found.name, found.unit, found.resolution) == ("difference", "%", None)
    assert found.score(outputs(np.full((5, 4), 2.5))).drop == pytest.approx(25)
    assert found.score(outputs(np.full((5, 4), 2.0))).drop == 0


def test_real_labels_limit_the_growth_of_the_error():
    labels = np.zeros((5, 1))
    found = metric(np.full((5, 1), 2.0), labels)
    assert (found.name, found.unit) == ("error", "%")
    score = found.score(outputs(np.full((5, 1), 3.0)))
    assert (score.value, score.drop) == (3, pytest.approx(50))


def test_an_error_that_float_does_not_make_is_compared_with_the_size_of_the_labels():
    exact = np.full((5, 1), 2.0)
    assert metric(exact, exact).score(outputs(exact * 1.5)).drop == pytest.approx(50)


def test_labels_of_one_kind_alone_make_no_area_under_the_curve():
    with pytest.raises(HwflowError, match="the labels must make an accuracy, which takes rows of labels 0 and 1"):
        metric(np.zeros((4, 1)), np.zeros(4, np.int64))


def test_outputs_of_the_float_model_must_be_finite():
    with pytest.raises(HwflowError, match="output 'y' of the float model must be finite on"):
        metric(np.array([[1.0, np.nan, 0.0]]))


def test_noise_of_probabilities_is_that_of_their_logarithms():
    real, off = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    expected = (np.log(0.5) ** 2 + np.log(1.5) ** 2) / (2 * np.log(0.5) ** 2)
    assert noise_power({"y": real}, {"y": off}) == pytest.approx(expected)
    assert noise_power({"y": 2 * real}, {"y": 2 * off}) == pytest.approx(0.25)
    assert noise_power({"y": 0 * real}, {"y": off}) == pytest.approx(0.25**2 + 0.75**2)


def test_classes_and_states_have_no_power():
    real, off = np.array([[3.0, -4.0]]), np.array([[3.0, -3.5]])
    label, other = np.array([[7], [5], [0], [3]]), np.array([[7], [1], [0], [3]])
    expected = noise_power({"y": real}, {"y": off})
    assert noise_power({"y": real, "label": label}, {"y": off, "label": other}) == expected
    assert noise_power({"label": label}, {"label": other}) == 0.25
    assert noise_power({"scores": 100 * label.astype(np.int8)}, {"scores": 50 * label.astype(np.int8)}) > 0
    rows = np.full((5, 1, 4), 2.0, F)
    b = Builder()
    x, h = b.input("x", F, (1, 4)), b.input("h_in", F, (1, 4))
    b.output(b.node("Add", x, h, output="h_out"))
    b.output(b.node("Sub", x, h, output="y"))
    dataset = Dataset(Path("x.npz"), {"x": rows, "h_in": rows}, {"x": rows, "h_in": rows}, False, None, {})
    found = Metric.of(onnx.infer(b.model()), dataset, {"h_out": rows, "y": rows})
    assert found.score({"h_out": 9 * rows, "y": rows * F(1.5)}).drop == pytest.approx(50)


def two_outputs() -> onnx.Model:
    b = Builder()
    x = b.input("x", F, (1, 4))
    b.output(b.node("Relu", x, output="first"))
    b.output(b.node("Neg", x, output="second"))
    b.output(b.node("ArgMax", x, axis=1, output="class"))
    return onnx.infer(b.model())


def test_the_worst_output_decides_the_noise_and_classes_have_none():
    rows = np.arange(12, dtype=F).reshape(3, 1, 4)
    dataset = Dataset(Path("x.npz"), {"x": rows}, {"x": rows}, False, None, {})
    reference = {"first": rows, "second": 10 * rows, "class": np.zeros((3, 1), np.int64)}
    found = Metric.of_noise(two_outputs(), dataset, reference)
    integer = {"first": rows * F(1.01), "second": rows * F(10.5), "class": np.ones((3, 1), np.int64)}
    noise = float(np.sum((integer["second"] - reference["second"]) ** 2) / np.sum(reference["second"] ** 2))
    assert found.noise(integer) == pytest.approx(noise)
    assert found.score(integer).value == pytest.approx(-10 * np.log10(noise)) == pytest.approx(26.02, abs=0.01)
    assert found.score(integer).drop == pytest.approx(5)
    assert found.worst(integer) == ("second", found.score(integer).value)
    assert found.noise({name: of[:2] for name, of in integer.items()}, np.arange(2)) == pytest.approx(noise)
    assert found.score(reference).value == 150, "equal, as far as float32 can tell"


def test_an_output_that_is_zero_has_no_signal():
    rows = np.ones((3, 1, 4), F)
    dataset = Dataset(Path("x.npz"), {"x": rows}, {"x": rows}, False, None, {})
    zero = {"first": 0 * rows, "second": rows, "class": np.zeros((3, 1), np.int64)}
    assert set(Metric.of_noise(two_outputs(), dataset, zero).reference) == {"second"}
    with pytest.raises(HwflowError, match="noise must be measured on an output of quantities that are not all 0"):
        Metric.of_noise(two_outputs(), dataset, {**zero, "second": 0 * rows})
