"""Each warning: a small model in code or numbers by hand that make it, its text, and results that must not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hwflow_base.errors import HwflowError

from hwflow.accuracy import LayerNoise, compare, data_warnings, measure, measured_warnings, question
from hwflow.accuracy.warnings import remedy_of
from hwflow.api import load, quantize_model
from hwflow.data.dataset import Dataset, load_dataset
from hwflow.onnx import evaluate, infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.outcome import OutcomeCode, OutcomeWarning
from hwflow.quantize import quantize
from hwflow.quantize.settings_file import settings_from_yaml
from tests.accuracy.support import dataset, passing
from tests.project.tree import ROOT


def classifier(seed: int = 0, last: str = "") -> Model:
    """Of 16 numbers: a matrix `first`, Relu, and a matrix `second` that gives 4 scores; `last` follows."""
    random, b = np.random.default_rng(seed), Builder("classifier")
    x = b.input("x", np.float32, (1, 16))
    for name, rows, columns in (("first", 8, 16), ("second", 4, 8)):
        weights = b.constant(f"{name}.w", random.standard_normal((rows, columns)).astype(np.float32) / 4)
        x = b.node("Gemm", x, weights, name=name, transB=1, output=f"{name}_out")
        x = b.node("Relu", x, name="relu") if name == "first" else x
    b.output(b.node(last, x, name="last", output="y") if last else x)
    return infer(b.model())


def rows(count: int = 40, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 1, 16)).astype(np.float32)


def given(inputs: np.ndarray, calibration: np.ndarray | None = None, labels: Any = None) -> Dataset:
    seen = inputs if calibration is None else calibration
    return Dataset(Path("d.npz"), {"x": inputs}, {"x": seen}, calibration is None, labels, {})


def answers(model: Model, inputs: np.ndarray) -> np.ndarray:
    """The class of each row, as the float model says."""
    (scores,) = measure(model, quantize(model, {"x": inputs}), given(inputs))[1].values()
    return scores.reshape(len(scores), -1).argmax(axis=1)


def found(model: Model, data: Dataset, **choices: Any) -> tuple[OutcomeWarning, ...]:
    quantized = quantize_model(model, data, **choices)
    return measure(model, quantized, data)[0].warnings


def texts(warnings: tuple[OutcomeWarning, ...]) -> list[str]:
    return [str(warning) for warning in warnings]


def test_a_good_model_has_none() -> None:
    model, inputs = classifier(), rows()
    assert found(model, given(inputs, rows(100, 2), answers(model, inputs))) == ()
    assert found(model, given(inputs)) == ()


def test_the_noise_of_an_output_names_the_layer_and_a_line_that_helps() -> None:
    model, data = classifier(), given(rows())
    low = found(model, data, bits=1)
    assert len(low) == 1
    assert re.fullmatch(
        r"layer 'first' hurts most: output 'second_out' has \d\.\d dB signal to noise, below 10; give it more bits, in "
        r"--settings: {layers: {first: {weights: {bits: 8}}}}, or let --accuracy-drop choose those of all layers "
        r"\[low-snr\]", str(low[0]))  # fmt: skip
    choices = settings_from_yaml(settings_of(low[0].remedy), "s", model)
    assert found(model, data, settings=choices) == ()


def settings_of(remedy: str) -> str:
    """The settings file that a remedy holds."""
    return remedy.partition("--settings: ")[2].partition(", or let")[0]


def test_what_helps_a_layer() -> None:
    """By its widths and its range, in the order in which it is tried."""
    quantized = quantize(classifier(), {"x": rows()})
    layer = LayerNoise("t", "first", "dense", "int8", "int8", 0.1, saturated=0.0, reach=1.0)
    more = "give it more bits, in --settings: {layers: {first: %s}}, or let --accuracy-drop choose those of all layers"
    assert remedy_of(quantized, replace(layer, weights="int2")) == more % "{weights: {bits: 8}}"
    assert remedy_of(quantized, replace(layer, activations="uint4")) == more % "{output: {bits: 8}}"
    clipped = replace(layer, weights="int4", saturated=0.02, reach=4.0)
    assert remedy_of(quantized, clipped) == more % "{weights: {bits: 8}}", "few bits are clipped on purpose"
    text = "its range is far too {}: calibrate with rows like those of the data, or leave out its `range`"
    assert remedy_of(quantized, replace(layer, reach=0.01)) == text.format("wide")
    minmax = replace(quantized, settings=quantized.settings.replace("method: mse", "method: minmax"))
    assert remedy_of(minmax, replace(layer, saturated=0.5, reach=40.0)) == text.format("narrow")
    assert remedy_of(minmax, layer) == "try finer steps, in --settings: {layers: {first: {output: {method: mse}}}}"
    mse = replace(quantized, settings=quantized.settings.replace("method: minmax", "method: mse"))
    assert remedy_of(mse, replace(layer, saturated=0.5, weights="int2", reach=40.0)) == (
        "try a wider range, in --settings: {layers: {first: {output: {method: minmax}}}}")
    assert remedy_of(mse, layer) == "try, in --settings: {equalize: true}"
    general = "give it more bits (--bits 8), or calibrate with more rows like those of the data"
    assert remedy_of(quantized, None) == remedy_of(quantized, replace(layer, layer="pool")) == general
    odd = replace(quantized, settings=quantized.settings.replace("first:", "'a: {b':"))
    line = remedy_of(odd, replace(layer, layer="a: {b", weights="int2"))
    assert yaml.safe_load(settings_of(line)) == {"layers": {"a: {b": {"weights": {"bits": 8}}}}


def answered(labels: np.ndarray, real: np.ndarray, integer: np.ndarray, count: int = 4) -> list[str]:
    """The warnings where the models answer so, of integers that came with the file."""
    model, data = passing((1, 1), (1, count)), dataset(labels)
    one_hot = np.eye(count, dtype=np.float32) + 100  # large, so that the noise is small
    return judged(model, data, one_hot[real][:, None], one_hot[integer][:, None])


def judged(model: Model, data: Dataset, real: np.ndarray, integer: np.ndarray) -> list[str]:
    accuracy = compare(question(model, data), data, {"y": real}, {"y": integer})
    return texts(measured_warnings(accuracy, model, CAME_QUANTIZED, data, lambda: ()))


#: Integers that nothing is known of but that no settings made them.
CAME_QUANTIZED = replace(quantize(classifier(), {"x": rows()}), views={}, settings="")
FILE = "its integers are fixed in the model: train or export it with more bits, or start from the float model"


def test_accuracy_lost_says_how_many_rows_and_needs_more_than_chance() -> None:
    labels = np.arange(40) % 4
    other = (labels + 1) % 4
    wrong = {count: np.where(np.arange(40) < count, other, labels) for count in (3, 4)}
    assert answered(labels, labels, wrong[4]) == [
        f"output 'y' loses 10.0 points of top-1, 4 of 40 rows; {FILE} [accuracy-lost]"]
    assert answered(labels, labels, wrong[3]) == [], "7.5 points, but of 3 rows"
    gains, loses = (np.where(np.isin(np.arange(40) // 10, half), other, labels) for half in ((0,), (1, 2)))
    assert int((gains != labels).sum() - (loses != labels).sum()) == -10
    assert answered(labels, gains, loses) == [], "20 rows lost and 10 gained may be chance"
    many = np.arange(400) % 4
    assert answered(many, many, np.where(np.arange(400) < 20, (many + 1) % 4, many)) == [], "5 points are allowed"


def test_accuracy_lost_of_other_measures() -> None:
    model, labels = passing((1, 1)), np.arange(60) % 2
    real = labels.astype(np.float32).reshape(-1, 1, 1) + 10
    integer = np.where(np.arange(60) < 20, 1 - labels, labels).astype(np.float32).reshape(-1, 1, 1) + 10
    assert judged(model, dataset(labels), real, integer) == [
        f"output 'y' loses 33.3 points of AUC on 60 rows; {FILE} [accuracy-lost]"]
    assert judged(model, dataset(labels), integer, real) == []
    values = np.random.default_rng(0).standard_normal(60)
    noise = np.random.default_rng(1).standard_normal(60) / 2
    shaped = values.reshape(-1, 1, 1) + 10
    found = judged(model, dataset(values + 10), shaped, shaped + noise.reshape(-1, 1, 1))
    assert [re.sub(r"0\.\d\d", "0.dd", text) for text in found] == [
        f"output 'y' loses 0.dd of R2 on 60 rows; {FILE} [accuracy-lost]"]
    one = np.where(np.arange(60) == 7, 3.0, 0.0).reshape(-1, 1, 1)
    assert judged(model, dataset(values + 10), shaped, shaped + one) == [], "one row alone may be chance"


def test_one_class_for_all_rows() -> None:
    labels = np.arange(20) % 4
    text = "output 'y' takes all 20 rows for class 2, of 4 in the labels"
    assert answered(labels, labels, labels * 0 + 2) == [
        "output 'y' is the same for all 20 rows: the rows of the data are equal; give rows that differ "
        "[constant-output]"]
    model, data = passing((1, 1), (1, 4)), dataset(labels, np.arange(20.0).reshape(20, 1, 1))
    one_hot, two = np.eye(4, dtype=np.float32) + 100, (np.arange(20) % 3)[:, None].astype(np.float32)
    real, integer = one_hot[labels][:, None], (one_hot[labels * 0 + 2] + two)[:, None]
    assert judged(model, data, real, integer) == [f"{text}; {FILE} [one-class]"]
    assert judged(model, data, integer, integer) == [
        f"{text}, in the float model, too; prepare the rows as in training (scale, order of channels) [one-class]"]
    most = np.where(np.arange(20) == 0, 1, 2)
    assert judged(model, dataset(most, data.inputs["x"]), one_hot[most][:, None], integer) == [], "nearly all are 2"


def test_labels_off_by_one() -> None:
    labels = np.arange(40) % 3 + 1
    assert answered(labels, labels - 1, labels - 1) == [
        "labels are off by one: float answers label - 1 in 40 of 40 rows, the label in 0; store labels - 1 "
        "[shifted-labels]"]
    assert answered(labels, labels, labels) == []
    with pytest.raises(HwflowError, match=r"not from 1 to 4; they count from 1: store labels - 1$"):
        question(passing((1, 1), (1, 4)), dataset(np.arange(40) % 4 + 1))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_one_hot_labels_are_classes(tmp_path: Path, dtype: Any) -> None:
    model, inputs = classifier(), rows()
    labels = answers(model, inputs)
    np.savez(tmp_path / "d.npz", in_x=inputs, labels=np.eye(4, dtype=dtype)[labels])
    data = load_dataset(tmp_path / "d.npz", model)
    quantized = quantize_model(model, data)
    accuracy = measure(model, quantized, data)[0]
    assert [(m.name, m.real) for m in accuracy.metrics] == [("top-1", 1.0)]
    one_hot = "labels are one-hot; they are taken for classes; store labels.argmax(1) to say so [one-hot-labels]"
    assert texts(accuracy.warnings) == texts(data_warnings(quantized, data)) == [one_hot]


def test_labels_that_are_not_one_hot_stay_values(tmp_path: Path) -> None:
    model = classifier()
    for row in ([1, 1, 0, 0], [0, 0, 0, 0], [0.5, 0.5, 0, 0]):
        labels = np.eye(4, dtype=np.float32)[np.arange(40) % 4]
        labels[7] = row
        np.savez(tmp_path / "d.npz", in_x=rows(), labels=labels)
        data = load_dataset(tmp_path / "d.npz", model)
        assert data.labels is not None
        assert (data.labels.dtype, data.labels_one_hot) == (np.float32, False)


@pytest.mark.parametrize(
    ("data", "calibration", "text"),
    [
        (rows() * 300, rows(100, 2), "is from -924 to 930 in the data, and its integers reach 3.11; calibrate (calib_ "
                                     "arrays) with rows like those of the data [range-exceeded]"),
        (np.abs(rows()) * 80, np.abs(rows(100, 2)) / 4, "is from 0.0161 to 248 in the data, and its integers reach "
         "0.778; pixels from 0 to 255, which calibration had scaled: scale the data alike, mostly by 1 / 255 "
         "[range-exceeded]"),
        (np.abs(rows()).clip(0.04) / 4, np.abs(rows(100, 2)) * 80, "is from 0.01 to 0.775 in the data, and its "
         "integers reach 249; pixels from 0 to 1, of which calibration had 0 to 255: scale the data alike, mostly by "
         "255 [range-unused]"),
    ],
    ids=["other", "0..255", "0..1"],
)  # fmt: skip
def test_data_of_another_scale_than_calibration(data: np.ndarray, calibration: np.ndarray, text: str) -> None:
    model = classifier()
    first, *others = texts(found(model, given(data, calibration)))
    assert first == f"input 'x' {text}"
    assert all("; first mend input 'x' [" in other for other in others)
    assert found(model, given(data, data)) == ()


def test_ranges_of_numbers_in_another_order_are_those_of_the_input() -> None:
    b = Builder("moved")
    x = b.node("Flatten", b.input("image", np.float32, (1, 4, 4)), name="flat")
    weights = b.constant("w", np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32))
    b.output(b.node("Gemm", x, weights, name="fc", transB=1, output="y"))
    model, seen = infer(b.model()), rows().reshape(40, 1, 4, 4)
    data = Dataset(Path("d.npz"), {"image": seen * 100}, {"image": seen}, False, None, {})
    (warning,) = data_warnings(quantize_model(model, data), data)
    assert (warning.where, warning.code) == ("input 'image'", OutcomeCode.RANGE_EXCEEDED)


def test_a_layer_whose_range_is_left() -> None:
    model = classifier()
    choices = settings_from_yaml("{layers: {first: {output: {range: [0, 0.01]}}}}", "s", model)
    first, second = texts(found(model, given(rows()), settings=choices))
    assert first == ("layer 'first' has values 210 times as far from 0 as its integers reach; calibrate (calib_ "
                     "arrays) with rows like those of the data [range-exceeded]")
    assert second.startswith("layer 'first' hurts most: output 'second_out' has 0.1 dB signal to noise, below 10; ")


def test_a_layer_that_is_the_same_for_all_rows() -> None:
    model = classifier()
    choices = settings_from_yaml("{layers: {second: {output: {range: [0, 1000]}}}}", "s", model)
    assert texts(found(model, given(rows()), settings=choices)) == [
        "layer 'second' is the same for all 40 rows, and so is output 'second_out', but not in float; its range is far "
        "too wide: calibrate with rows like those of the data, or leave out its `range` [constant-output]"]
    same = rows(1).repeat(20, 0)
    assert texts(found(model, given(same, rows()))) == [
        "output 'second_out' is the same for all 20 rows: the rows of the data are equal; give rows that differ "
        "[constant-output]"]
    assert found(model, given(same[:9], rows())) == (), "of few rows nothing is said"


def test_calibration_data_that_are_all_equal() -> None:
    model = classifier()
    text = ("calibration data has {}; ranges come from it: give some hundred rows like those of the data (calib_ "
            "arrays) [equal-calibration]")
    for calibration, what in ((np.zeros((5, 1, 16), np.float32), "one number everywhere"),
                              (rows(1).repeat(20, 0), "20 equal rows")):  # fmt: skip
        quantized = quantize(model, {"x": calibration})
        assert texts(quantized.warnings) == [text.format(what)]
        assert texts(data_warnings(quantized, given(rows(), calibration))) == [text.format(what)]
    assert quantize(model, {"x": rows(1)}).warnings == ()


def test_numbers_that_are_not_finite_name_the_node_and_the_row() -> None:
    model, data = classifier(4, "Log"), rows(500, 3)
    positive = np.array([evaluate(model, {"x": row}, ("second_out",))["second_out"].min() > 0 for row in data])
    row = int(np.argmin(positive))
    assert texts(found(model, given(data, data[positive]))) == [
        f"node 'last' gives NaN or infinite numbers in row {row}, in the float model, too; look at that row, and at "
        "what the node divides by or takes the logarithm of [not-finite]"]
    real, integer = np.ones((3, 1, 1), np.float32), np.array([1, 1, -np.inf], np.float32).reshape(3, 1, 1)
    assert judged(passing((1, 1)), dataset(None, real), real, integer) == [
        "output 'y' is NaN or infinite in row 2, and finite in float; add a small number in front of the last Log, "
        "Sqrt or Div, which rounding brings to 0 [not-finite]"]


@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp"])
def test_shipped_models_have_none(name: str) -> None:
    model = load(ROOT / "models" / f"{name}.onnx")
    assert found(model, load_dataset(ROOT / "models" / f"{name}.npz", model)) == ()
