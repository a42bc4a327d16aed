"""The rows of a data file on which the integer model is worst: its answer changed, or its outputs are farthest off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.accuracy.metrics import squared_errors
from hwflow.accuracy.task import Question, Task
from hwflow.data.dataset import Dataset, classes
from hwflow.onnx.model import Array

#: So many rows are named: as many pictures as somebody looks at.
MOST_WORST = 12

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WorstRow:
    """Row `row` of the data, counted from 0, and what both models answer.

    `error` is how far the outputs of both models are apart in this row, of the output where that is most: the root mean
    square of the difference, relative to that of the float output over all rows; of an output that names classes, the
    share of its elements that differ.  None where numbers are not finite.
    `expected` is the label or the expected value, `real` and `integer` what the float and the integer model answer: a
    class, a score, the error of a reconstruction, or the value of an output of one element.  None where the data does
    not say what the answer is, or it is not finite.
    """

    row: int
    error: float | None
    expected: int | float | None = None
    real: int | float | None = None
    integer: int | float | None = None


def worst_rows(
    asked: Question, dataset: Dataset, reference: Mapping[str, Array], outputs: Mapping[str, Array]
) -> tuple[WorstRow, ...]:
    """At most `MOST_WORST` rows, the worst first, of the float model's outputs and the integer model's [n, ...].

    First are the rows that only the integer model gets wrong, then those to which it gives another class, then those
    that both get wrong; among them the rows with the largest error.  A row where nothing is wrong is not named.
    """
    errors = _errors(reference, outputs, dataset.rows)
    answers = _answers(asked, dataset, reference, outputs)
    expected, real, integer = answers
    group = np.full(dataset.rows, 3)
    if asked.task is Task.CLASSES and expected is not None and real is not None and integer is not None:
        right, changed = real == expected, real != integer
        group[~right] = 2
        group[changed] = 1
        group[changed & right] = 0
    order = np.lexsort((np.arange(dataset.rows), -errors, group))
    wrong = [int(row) for row in order[:MOST_WORST] if group[row] < 3 or errors[row] > 0]
    return tuple(
        WorstRow(row, _finite(errors[row]), *(None if array is None else _finite(array[row]) for array in answers))
        for row in wrong
    )


def _errors(reference: Mapping[str, Array], outputs: Mapping[str, Array], count: int) -> Reals:
    """`WorstRow.error` of all rows; infinite where numbers are not finite.  Indices count where there is nothing else.
    """
    numbers = [name for name, array in reference.items() if array.dtype.kind == "f"]
    numbers = numbers or [name for name, array in reference.items() if array.dtype.kind in "biu"]
    errors = np.zeros(count)
    for name in numbers:
        real, integer = (of_model[name].astype(np.float64).reshape(count, -1) for of_model in (reference, outputs))
        if reference[name].dtype.kind == "f":
            size = float(np.sqrt(np.square(real[np.isfinite(real)]).mean())) if np.isfinite(real).any() else 0.0
            apart = np.sqrt(np.square(integer - real).mean(axis=1)) / (size or 1.0)
        else:
            apart = (integer != real).mean(axis=1)
        errors = np.maximum(errors, np.where(np.isfinite(apart), apart, np.inf))
    return errors


def _answers(
    asked: Question, dataset: Dataset, reference: Mapping[str, Array], outputs: Mapping[str, Array]
) -> tuple[Array | None, Array | None, Array | None]:
    """The expected answer to each row, and those of the models: [n] each, None where there is no one number."""
    name, labels = asked.output, dataset.labels
    if asked.task is Task.NONE:
        return None, None, None
    if asked.task is Task.CLASSES:
        return labels, classes(reference[name]), classes(outputs[name])
    if asked.task is Task.RECONSTRUCTION:
        source = dataset.inputs[asked.input]
        return labels, squared_errors(source, reference[name]), squared_errors(source, outputs[name])
    if not name and len(dataset.outputs) == 1:  # expected outputs
        ((name, labels),) = dataset.outputs.items()
    arrays = [labels, reference.get(name), outputs.get(name)]
    one = [a is not None and a.size == len(a) == dataset.rows and a.dtype.kind in "biuf" for a in arrays]
    if not all(one):
        return None, None, None
    expected, real, integer = (a.reshape(-1) for a in arrays if a is not None)
    return expected, real, integer


def _finite(value: float) -> float | None:
    """JSON has no NaN; classes stay whole numbers."""
    number = value.item() if isinstance(value, np.generic) else value
    return number if math.isfinite(number) else None
