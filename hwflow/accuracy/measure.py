"""Both models on the rows of a data file, side by side: against labels or expected values, and against each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hwflow import golden
from hwflow.accuracy.metrics import area_under_curve, deviation, ranks, signal_to_noise, squared_errors
from hwflow.accuracy.question import Question, Task, question
from hwflow.dataset import Dataset, classes
from hwflow.golden import Progress
from hwflow.onnx.model import Array, Model
from hwflow.quantize import Quantized

__all__ = ["Accuracy", "Metric", "OutputNoise", "Pair", "compare", "float_outputs", "measure"]

#: Rows of the float model between two calls of `progress`.
_ROWS = 16


@dataclass(frozen=True)
class Metric:
    """One measure of one output, for both models.  None where it is not defined: one label alone, no variance, NaN.

    A `share` is from 0 to 1 at best (R2 may be negative), and the larger the better; others are errors.
    """

    name: str
    output: str
    real: float | None
    integer: float | None
    share: bool

    @property
    def lost(self) -> float | None:
        """What the integer model is worse: points (hundredths) of a share, the growth of an error."""
        if self.real is None or self.integer is None:
            return None
        return 100 * (self.real - self.integer) if self.share else self.integer - self.real


@dataclass(frozen=True)
class Pair:
    """A cell of both confusion tables: how many rows of class `label` each model takes for `found`."""

    label: int
    found: int
    real: int
    integer: int


@dataclass(frozen=True)
class OutputNoise:
    """How far an output of the integer model is from the float model's; None where numbers are not finite.

    `snr_db` is None, too, where they are equal or the float output is 0.
    """

    output: str
    snr_db: float | None
    largest_error: float | None


@dataclass(frozen=True)
class Accuracy:
    """Over `rows` rows.  `agreement` is the share of rows, 0 to 1, to which both models give the same class.

    `classes` is the number of scores (0 where the output names the class itself), `confusion` every cell that is not 0.
    `snr_db` is the power of the float outputs over the power of the difference, in decibels over all outputs together;
    None where they are equal.
    """

    rows: int
    task: Task
    output: str
    metrics: tuple[Metric, ...]
    agreement: float | None
    classes: int
    confusion: tuple[Pair, ...]
    snr_db: float | None
    outputs: tuple[OutputNoise, ...]

    @property
    def headline(self) -> Metric | None:
        """The measure that says how good the model is: top-1, AUC or R2; None where the data asks for none."""
        return next((metric for metric in self.metrics if metric.share), None)

    def facts(self) -> dict[str, Any]:
        """Plain data for JSON; `from_facts` reads it.  The top-1 shares stand at the top once more."""
        top1 = next((metric for metric in self.metrics if metric.name == "top-1"), None)
        both = (top1.real, top1.integer) if top1 else (None, None)
        return {**asdict(self), "float_top1": both[0], "integer_top1": both[1]}

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> Accuracy:
        return Accuracy(
            facts["rows"], Task(facts["task"]), facts["output"],
            tuple(Metric(**metric) for metric in facts["metrics"]), facts["agreement"], facts["classes"],
            tuple(Pair(**pair) for pair in facts["confusion"]), facts["snr_db"],
            tuple(OutputNoise(**noise) for noise in facts["outputs"]),
        )  # fmt: skip


def measure(
    model: Model, quantized: Quantized, dataset: Dataset, progress: Progress | None = None
) -> tuple[Accuracy, dict[str, Array]]:
    """Both models on every row of `dataset`; the accuracy, and the integer model's outputs [n, *output shape].

    HwflowError where the labels do not fit the model.
    """
    asked = question(model, dataset)
    reference = float_outputs(model, dataset.inputs)
    outputs = golden.predict(quantized, dataset.inputs, progress)
    return compare(asked, dataset, reference, outputs), outputs


def float_outputs(model: Model, inputs: Mapping[str, Array], progress: Progress | None = None) -> dict[str, Array]:
    """The model as its file has it on rows [n, *input shape]: [n, *output shape] by name."""
    count = min(len(array) for array in inputs.values())
    parts = []
    for start in range(0, count, _ROWS):
        parts.append(golden.evaluate_rows(model, {name: a[start : start + _ROWS] for name, a in inputs.items()}))
        if progress is not None:
            progress(min(start + _ROWS, count), count)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@np.errstate(invalid="ignore", over="ignore")  # a model may compute NaN; what comes of it is None
def compare(
    asked: Question, dataset: Dataset, reference: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Accuracy:
    """What `asked` of the rows of `dataset`, answered by the float model's outputs and by the integer model's."""
    both = reference.get(asked.output), outputs.get(asked.output)
    metrics = tuple(_metrics(asked, dataset, reference, outputs))
    found = [None, None] if asked.task is not Task.CLASSES else [classes(o) for o in both if o is not None]
    numbers = {name: values for name, values in reference.items() if values.dtype.kind in "biuf"}
    return Accuracy(
        rows=dataset.rows,
        task=asked.task,
        output=asked.output,
        metrics=metrics,
        agreement=None if found[0] is None else float(np.mean(found[0] == found[1])),
        classes=both[0][0].size if found[0] is not None and both[0] is not None and both[0][0].size > 1 else 0,
        confusion=() if found[0] is None else _confusion(dataset, found[0], found[1]),
        snr_db=signal_to_noise(reference, outputs),
        outputs=tuple(
            OutputNoise(
                name, signal_to_noise({name: values}, outputs), _finite(deviation(values, outputs[name]).largest)
            )
            for name, values in numbers.items()
        ),
    )


def _metrics(
    asked: Question, dataset: Dataset, reference: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Iterator[Metric]:
    labels, name = dataset.labels, asked.output
    models = (reference, outputs)
    if asked.task is Task.VALUES:
        expected = dataset.outputs if labels is None else {name: labels}
        for output, values in expected.items():
            if reference[output].dtype.kind not in "biuf":
                continue  # texts are not measured
            yield from _deviations(output, values, reference[output], outputs[output])
    elif labels is None or asked.task is Task.NONE:
        return
    elif asked.task is Task.CLASSES:
        yield from _shares(name, labels, reference[name], outputs[name])
    elif asked.task is Task.SCORE:
        yield _metric("AUC", name, [area_under_curve(made[name].reshape(-1), labels) for made in models], share=True)
    else:
        errors = [squared_errors(dataset.inputs[asked.input], made[name]) for made in models]
        yield _metric("AUC", name, [area_under_curve(error, labels) for error in errors], share=True)
        for label in (0, 1):
            if (labels == label).any():
                means = [float(error[labels == label].mean()) for error in errors]
                yield _metric(f"reconstruction error, label {label}", name, means, share=False)


def _metric(name: str, output: str, values: Sequence[float | None], *, share: bool) -> Metric:
    """`values`: of the float model and of the integer model."""
    real, integer = map(_finite, values)
    return Metric(name, output, real, integer, share)


def _finite(value: float | None) -> float | None:
    """A model may compute anything; JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def _shares(name: str, labels: Array, reference: Array, outputs: Array) -> Iterator[Metric]:
    """Top-1, and top-5 where there are more than five scores."""
    count = reference[0].size
    if count == 1:
        shares = [float(np.mean(made.reshape(-1) == labels)) for made in (reference, outputs)]
        yield _metric("top-1", name, shares, share=True)
        return
    places = [ranks(made, labels) for made in (reference, outputs)]
    for depth in (1, 5) if count > 5 else (1,):
        yield _metric(f"top-{depth}", name, [float(np.mean(place < depth)) for place in places], share=True)


def _deviations(output: str, expected: Array, reference: Array, outputs: Array) -> Iterator[Metric]:
    both = [deviation(expected, reference), deviation(expected, outputs)]
    yield _metric("R2", output, [found.r2 for found in both], share=True)
    yield _metric("MSE", output, [found.mse for found in both], share=False)
    yield _metric("largest error", output, [found.largest for found in both], share=False)


def _confusion(dataset: Dataset, real: Array, integer: Array | None) -> tuple[Pair, ...]:
    if dataset.labels is None or integer is None:
        return ()
    labels = dataset.labels.tolist()
    counts = [Counter(zip(labels, found.tolist(), strict=True)) for found in (real, integer)]
    return tuple(Pair(*cell, *(count[cell] for count in counts)) for cell in sorted({*counts[0], *counts[1]}))
