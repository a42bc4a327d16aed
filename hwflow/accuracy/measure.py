"""Both models on the rows of a data file, side by side: against labels or expected values, and against each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import ml_dtypes
import numpy as np
from hwflow_base.short_repr import drawn_html, fields_repr

from hwflow import golden
from hwflow.accuracy.metrics import (
    area_under_curve,
    chance_of_area,
    chance_of_share,
    deviation,
    is_index,
    ranks,
    signal_to_noise,
    squared_errors,
)
from hwflow.accuracy.task import Question, Task, in_numbers
from hwflow.accuracy.worst import WorstRow, worst_rows
from hwflow.data.dataset import Dataset, classes
from hwflow.golden import Progress
from hwflow.onnx.model import Array, Model
from hwflow.onnx.run.sequences import in_order, state_pairs
from hwflow.outcome import OutcomeWarning

#: Rows of the float model between two calls of `progress`.
_ROWS = 16


@dataclass(frozen=True)
class Metric:
    """One measure of one output, for both models.  None where it is not defined: one label alone, no variance, NaN.

    A `share` is from 0 to 1 at best (R2 may be negative), and the larger the better; others are errors.  `chance` is
    what chance alone makes of what a share loses, in points: its standard error over these rows were both models of
    equal worth; None where that is not known.
    """

    name: str
    output: str
    real: float | None
    integer: float | None
    share: bool
    chance: float | None = None

    @property
    def lost(self) -> float | None:
        """The loss of the integer model: points (hundredths) of a share, the growth of an error."""
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
class Values:
    """The numbers that an output has: `odd_row` is the first row with NaN or an infinity, None where there is none.

    `varies` is the root mean square of what rows differ from the first one, relative to that of the numbers: 0 where
    all rows are equal, None where numbers are not finite.
    """

    odd_row: int | None = None
    varies: float | None = None


@dataclass(frozen=True)
class OutputNoise:
    """How far an output of the integer model is from the float model's; None where numbers are not finite.

    `snr_db` is None, too, where they are equal or the float output is 0.  `real` and `integer` are the outputs of both
    models; `counts` says that they are integers or booleans.  `agreement` is for classes and other indices, which have
    no noise: the share of elements that are equal, 0 to 1; None for quantities.  A `state` is called like the next
    value of an input, and is none of the answers.
    """

    output: str
    snr_db: float | None
    largest_error: float | None
    real: Values = Values()
    integer: Values = Values()
    counts: bool = False
    agreement: float | None = None
    state: bool = False


@dataclass(frozen=True)
class Accuracy:
    """Over `rows` rows.  `agreement` is the share of rows, 0 to 1, to which both models give the same class.

    `classes` is the number of scores (0 where the output names the class itself), `confusion` every cell that is not 0.
    `snr_db` is the power of the float outputs over the power of the difference, in decibels over all outputs together
    that are quantities and no states; None where they are equal, or where there are none.  `worst` are the rows on
    which the integer model is worst, the worst first.  `warnings` is what somebody should know of these numbers.
    `names` are those of the classes, where labels are texts.
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
    worst: tuple[WorstRow, ...] = ()
    warnings: tuple[OutcomeWarning, ...] = ()
    names: tuple[str, ...] = ()

    __repr__ = fields_repr
    _repr_html_ = drawn_html

    @property
    def headline(self) -> Metric | None:
        """The measure that says how good the model is: top-1, AUC or R2; None where the data asks for none."""
        return next((metric for metric in self.metrics if metric.share), None)

    def class_name(self, number: int) -> str:
        """The name of a class, or its number, where it has no name."""
        return self.names[number] if self.names else str(number)

    def facts(self) -> dict[str, object]:
        """Plain data for JSON; `of_plain` reads it.  The top-1 shares stand at the top once more.

        Warnings are left out: a command has one list of them, wherever they come from.
        """
        top1 = next((metric for metric in self.metrics if metric.name == "top-1"), None)
        both = (top1.real, top1.integer) if top1 else (None, None)
        facts = {**asdict(replace(self, warnings=())), "float_top1": both[0], "integer_top1": both[1]}
        del facts["warnings"]
        return facts


def float_outputs(model: Model, inputs: Mapping[str, Array], progress: Progress | None = None) -> dict[str, Array]:
    """The model as its file has it on rows [n, *input shape]: [n, *output shape] by name, bfloat16 as float32.

    Rows of a streaming model are one sequence.
    """
    if state_pairs(model):
        return in_order(model, inputs, progress)
    count = min(len(array) for array in inputs.values())
    parts = []
    for start in range(0, count, _ROWS):
        parts.append(golden.evaluate_rows(model, {name: a[start : start + _ROWS] for name, a in inputs.items()}))
        if progress is not None:
            progress(min(start + _ROWS, count), count)
    outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {name: a.astype(np.float32) if a.dtype == ml_dtypes.bfloat16 else a for name, a in outputs.items()}


@np.errstate(invalid="ignore", over="ignore")  # a model may compute NaN; what comes of it is None
def compare(
    asked: Question, dataset: Dataset, reference: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Accuracy:
    """The answer to `asked` on the rows of `dataset` by the float model's outputs and by the integer model's."""
    names, dataset, (reference, outputs) = in_numbers(asked, dataset, reference, outputs)
    both = reference.get(asked.output), outputs.get(asked.output)
    metrics = tuple(_metrics(asked, dataset, reference, outputs))
    answers = [None, None] if asked.task is not Task.CLASSES else [classes(o) for o in both if o is not None]
    numbers = {name: values for name, values in reference.items() if values.dtype.kind in "biuf"}
    return Accuracy(
        rows=dataset.rows,
        task=asked.task,
        output=asked.output,
        metrics=metrics,
        agreement=None if answers[0] is None else float(np.mean(answers[0] == answers[1])),
        classes=both[0][0].size if answers[0] is not None and both[0] is not None and both[0][0].size > 1 else 0,
        confusion=() if answers[0] is None else _confusion(dataset, answers[0], answers[1]),
        snr_db=signal_to_noise({name: values for name, values in numbers.items()
                                if name not in asked.states and not is_index(values)}, outputs),
        outputs=tuple(replace(_noise(name, values, outputs[name]), state=name in asked.states)
                      for name, values in numbers.items()),
        worst=worst_rows(asked, dataset, reference, outputs),
        names=names,
    )


def _noise(name: str, real: Array, integer: Array) -> OutputNoise:
    """How far one output is from that of the float model."""
    agreement = float(np.mean(real == integer.reshape(real.shape))) if is_index(real) else None
    snr = signal_to_noise({name: real}, {name: integer}) if agreement is None else None
    largest = _finite(deviation(real, integer).largest)
    return OutputNoise(name, snr, largest, _values(real), _values(integer), real.dtype.kind != "f", agreement)


def _values(output: Array) -> Values:
    rows = output.astype(np.float64).reshape(len(output), -1)
    odd = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(odd):
        return Values(int(odd[0]))
    size, apart = float(np.square(rows).sum()), float(np.square(rows - rows[:1]).sum())
    return Values(varies=_finite(math.sqrt(apart / size)) if size else 0.0)


def _metrics(
    asked: Question, dataset: Dataset, reference: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Iterator[Metric]:
    labels, name = dataset.labels, asked.output
    models = (reference, outputs)
    if asked.task is Task.VALUES:
        expected = dataset.outputs if labels is None else {name: labels}
        for output, values in sorted(expected.items(), key=lambda item: item[0] in asked.states):
            if reference[output].dtype.kind not in "biuf":
                yield _equal_texts(output, values, reference[output], outputs[output])
                continue
            yield from _deviations(output, values, reference[output], outputs[output])
    elif labels is None or asked.task is Task.NONE:
        return
    elif asked.task is Task.CLASSES:
        yield from _shares(name, labels, reference[name], outputs[name])
    elif asked.task is Task.SCORE:
        yield _area(name, labels, *(of_model[name].reshape(-1) for of_model in models))
    else:
        errors = [squared_errors(dataset.inputs[asked.input], of_model[name]) for of_model in models]
        yield _area(name, labels, *errors)
        for label in (0, 1):
            if (labels == label).any():
                means = [float(error[labels == label].mean()) for error in errors]
                yield _metric(f"reconstruction error, label {label}", name, means, share=False)


def _metric(
    name: str, output: str, values: Sequence[float | None], *, share: bool, chance: float | None = None
) -> Metric:
    """`values`: of the float model and of the integer model; `chance` from 0 to 1 as they are."""
    real, integer = map(_finite, values)
    return Metric(name, output, real, integer, share, None if chance is None else _finite(100 * chance))


def _area(name: str, labels: Array, real: Array, integer: Array) -> Metric:
    areas = [area_under_curve(scores, labels) for scores in (real, integer)]
    return _metric("AUC", name, areas, share=True, chance=chance_of_area(real, integer, labels))


def _finite(value: float | None) -> float | None:
    """A model may compute anything; JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def _shares(name: str, labels: Array, reference: Array, outputs: Array) -> Iterator[Metric]:
    """Top-1, and top-5 where there are more than five scores."""
    count = reference[0].size
    if count == 1:
        places = [(of_model.reshape(-1) != labels).astype(np.int64) for of_model in (reference, outputs)]
    else:
        places = [ranks(of_model, labels) for of_model in (reference, outputs)]
    for depth in (1, 5) if count > 5 else (1,):
        right = [place < depth for place in places]
        shares = [float(np.mean(rows)) for rows in right]
        yield _metric(f"top-{depth}", name, shares, share=True, chance=chance_of_share(*right))


def _deviations(output: str, expected: Array, reference: Array, outputs: Array) -> Iterator[Metric]:
    both = [deviation(expected, reference), deviation(expected, outputs)]
    chance = len(expected) * chance_of_share(*(apart.rows for apart in both))
    yield _metric("R2", output, [apart.r2 for apart in both], share=True, chance=chance)
    yield _metric("MSE", output, [apart.mse for apart in both], share=False)
    yield _metric("largest error", output, [apart.largest for apart in both], share=False)


def _equal_texts(output: str, expected: Array, reference: Array, outputs: Array) -> Metric:
    """The share of rows whose texts are those expected."""
    right = [(of_model == expected).reshape(len(expected), -1).all(axis=1) for of_model in (reference, outputs)]
    return _metric("equal", output, [float(rows.mean()) for rows in right], share=True, chance=chance_of_share(*right))


def _confusion(dataset: Dataset, real: Array, integer: Array | None) -> tuple[Pair, ...]:
    if dataset.labels is None or integer is None:
        return ()
    labels = dataset.labels.tolist()
    counts = [Counter(zip(labels, answers.tolist(), strict=True)) for answers in (real, integer)]
    return tuple(Pair(*cell, *(count[cell] for count in counts)) for cell in sorted({*counts[0], *counts[1]}))
