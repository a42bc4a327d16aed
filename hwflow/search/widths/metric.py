"""The meaning of "accuracy" for a model and its data, so that a loss of it can be limited.

| the data                                 | accuracy                              | drop                         |
|------------------------------------------|---------------------------------------|------------------------------|
| labels: classes, or 0 and 1 for a score  | top-1, or area under the ROC curve    | points (hundredths) lost     |
| labels: real numbers                     | root mean square of the error         | growth in per cent           |
| no labels; an output is a row of scores  | rows that keep the float model's class | points below 100 %          |
| no labels; other outputs                 | difference from the float outputs     | per cent of their size       |
| a goal in decibels (`Metric.of_noise`)   | signal to noise of the worst output   | noise in per cent of its size |

A row of scores is an output of two elements or more, in a vector that no input has the shape of.  States that are
outputs of the file are none of those that are judged.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.accuracy import Question, Task, compare, is_index, question, signal_to_noise
from hwflow.data.dataset import Dataset, classes
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array, Model, Value

#: A float model's error below this share of the labels' size counts as none; growth is relative to that size then.
SMALL = 1e-6
#: Probabilities below this one are alike.
FAINT = 1e-4
#: Noise over signal of outputs that are equal, as far as float32 can tell, and of those that say nothing.
QUIET, LOUD = 1e-15, 1e12


@dataclass(frozen=True)
class Score:
    """`value` in the metric's unit, and the drop against the float model."""

    value: float
    drop: float


class Kind(enum.Enum):
    """The rows of the table above."""

    HEADLINE = enum.auto()
    GROWTH = enum.auto()
    AGREEMENT = enum.auto()
    DIFFERENCE = enum.auto()
    NOISE = enum.auto()


@dataclass(frozen=True)
class Metric:
    """How outputs are judged on the rows of `dataset`, against the float model's outputs `reference` by name.

    `name` is for tables, `unit` that of drops.  `output` is the one that is judged, "" for all of them.
    """

    name: str
    unit: str
    asked: Question
    dataset: Dataset
    reference: Mapping[str, Array]
    output: str
    kind: Kind

    @staticmethod
    def of(model: Model, dataset: Dataset, reference: Mapping[str, Array]) -> Metric:
        """The metric for `dataset`; `reference` are the float model's outputs [rows, *output shape] by name.

        HwflowError where the data allows none.
        """
        asked = question(model, dataset)
        reference = {name: values for name, values in reference.items() if name not in asked.states}
        numbers = {name: values for name, values in reference.items() if values.dtype.kind in "biuf"}
        if not numbers:
            raise HwflowError(
                "accuracy must be measured on an output of numbers, and the model has none", "leave --accuracy-drop out"
            )
        _require_finite(numbers, dataset)
        if dataset.labels is not None and asked.task is not Task.VALUES:
            headline = compare(asked, dataset, reference, reference).headline
            if headline is None or headline.real is None:
                raise HwflowError(
                    "the labels must make an accuracy, which takes rows of labels 0 and 1",
                    "add such rows, or leave the labels out",
                    where=str(dataset.path),
                )
            return Metric(headline.name, "points", asked, dataset, reference, asked.output, Kind.HEADLINE)
        if dataset.labels is not None:
            return Metric("error", "%", asked, dataset, reference, asked.output, Kind.GROWTH)
        scores = [value.name for value in model.graph.outputs if value.name in numbers and _is_scores(value, model)]
        if scores:
            return Metric("agreement", "points", asked, dataset, reference, scores[0], Kind.AGREEMENT)
        return Metric("difference", "%", asked, dataset, reference, "", Kind.DIFFERENCE)

    @staticmethod
    def of_noise(model: Model, dataset: Dataset, reference: Mapping[str, Array]) -> Metric:
        """The noise of each output on the rows of `dataset`, as reports say it in decibels; the worst output counts.

        Classes and other indices have no noise, states are no answers, and an output that is 0 in all rows has no
        signal.  HwflowError where nothing is left.
        """
        asked = question(model, dataset)
        quantities = {name: values for name, values in reference.items()
                      if name not in asked.states and values.dtype.kind in "iuf" and not is_index(values)}
        _require_finite(quantities, dataset)
        heard = {name: values for name, values in quantities.items() if np.any(values)}
        if not heard:
            raise HwflowError("noise must be measured on an output of quantities that are not all 0, and the model has "
                              "none", "give a goal with --accuracy-drop")
        return Metric("signal to noise", "%", asked, dataset, heard, "", Kind.NOISE)

    @property
    def rows(self) -> int:
        return self.dataset.rows

    @property
    def description(self) -> str:
        """One sentence for people."""
        return {
            Kind.HEADLINE: f"{self.name} of output '{self.output}' against the labels",
            Kind.GROWTH: f"error of output '{self.output}' against the labels; the drop is its growth in per cent",
            Kind.AGREEMENT: f"rows where output '{self.output}' keeps the float model's class (the data has no labels)",
            Kind.DIFFERENCE: "difference from the float outputs in per cent of their size (the data has no labels)",
            Kind.NOISE: "decibels of the worst output against the float model; the drop is the noise in per cent of "
                        "the output's size, 3.16 for 30 dB",
        }[self.kind]

    @property
    def resolution(self) -> float | None:
        """The smallest drop that can be told from none: one row; None for real-valued metrics."""
        return 100 / self.rows if self.kind is Kind.AGREEMENT or self.name == "top-1" else None

    def score(self, outputs: Mapping[str, Array]) -> Score:
        """Judge outputs [rows, *output shape] by name."""
        if self.kind is Kind.HEADLINE:
            headline = compare(self.asked, self.dataset, self.reference, outputs).headline
            assert headline is not None
            assert headline.integer is not None
            assert headline.lost is not None
            return Score(100 * headline.integer, headline.lost)
        if self.kind is Kind.AGREEMENT:
            same = 100 * float(np.mean(classes(outputs[self.output]) == classes(self.reference[self.output])))
            return Score(same, 100 - same)
        if self.kind is Kind.GROWTH:
            assert self.dataset.labels is not None
            expected = self.dataset.labels.astype(np.float64).reshape(self.rows, -1)
            real, integer = (
                _rms(of_model[self.output].astype(np.float64).reshape(expected.shape) - expected)
                for of_model in (self.reference, outputs)
            )
            size = _rms(expected) or 1.0
            return Score(integer, 100 * (integer - real) / (real if real > SMALL * size else size))
        share = 100 * math.sqrt(self.noise(outputs))
        return Score(_decibels(self.noise(outputs)) if self.kind is Kind.NOISE else share, share)

    def noise(self, outputs: Mapping[str, Array], rows: IntArray | None = None) -> float:
        """Power of the noise of outputs over that of the signal, on the rows with these numbers, all for None."""
        reference = self.reference if rows is None else {name: of[rows] for name, of in self.reference.items()}
        if self.kind is not Kind.NOISE:
            return noise_power(reference, outputs)
        return max(_noise_of(values, outputs[name]) for name, values in reference.items())

    def worst(self, outputs: Mapping[str, Array]) -> tuple[str, float]:
        """The output with the most noise, and its decibels."""
        ratios = {name: _noise_of(values, outputs[name]) for name, values in self.reference.items()}
        name = max(ratios, key=lambda name: ratios[name])
        return name, _decibels(ratios[name])


def _require_finite(reference: Mapping[str, Array], dataset: Dataset) -> None:
    for name, values in reference.items():
        if not np.isfinite(values.astype(np.float64)).all():
            raise HwflowError(
                f"output '{name}' of the float model must be finite on {dataset.path}, or no accuracy can be "
                "compared with it",
                "leave those rows out",
            )


def _noise_of(real: Array, integer: Array) -> float:
    """Power of the noise of one output over that of its signal, from `QUIET` to `LOUD`."""
    decibels = signal_to_noise({"": real}, {"": integer})
    if decibels is None:
        return QUIET if np.array_equal(real, integer.reshape(real.shape)) else LOUD
    return min(max(10 ** (-decibels / 10), QUIET), LOUD)


def _decibels(ratio: float) -> float:
    return -10 * math.log10(ratio)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _is_scores(value: Value, model: Model) -> bool:
    shape = value.tensor.shape if value.tensor is not None else None
    if shape is None or not all(isinstance(size, int) for size in shape):
        return False
    sizes = [size for size in shape if isinstance(size, int)]
    shapes = [v.tensor.shape for v in model.graph.inputs if v.tensor is not None]
    return shape not in shapes and math.prod(sizes) >= 2 and max(sizes, default=0) == math.prod(sizes)


def noise_power(reference: Mapping[str, Array], outputs: Mapping[str, Array]) -> float:
    """Power of the difference over the power of the reference, summed over all outputs of quantities.

    Probabilities are compared by their logarithms, so that errors behind a softmax count where it saturates, too.
    Classes and other indices have no power; where all outputs are such, it is the share of elements that differ.
    """
    numbers = {name: values for name, values in reference.items() if values.dtype.kind in "biuf"}
    quantities = {name: values for name, values in numbers.items() if not is_index(values)}
    if numbers and not quantities:
        equal = [np.ravel(outputs[name]) == np.ravel(values) for name, values in numbers.items()]
        return 1 - float(np.mean(np.concatenate(equal)))
    signal = noise = 0.0
    for name, values in quantities.items():
        real, integer = values.astype(np.float64), outputs[name].astype(np.float64)
        rows = real.reshape(len(real), -1)
        if rows.shape[1] > 1 and rows.min() >= 0 and np.allclose(rows.sum(axis=1), 1, atol=1e-3):
            real, integer = np.log(np.maximum(real, FAINT)), np.log(np.maximum(integer, FAINT))
        signal += float(np.sum(np.square(real)))
        noise += float(np.sum(np.square(integer - real)))
    return noise / signal if signal > 0 else noise
