"""What a data file asks of a model: which output is judged, by what, and with which measure."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.data.dataset import Dataset
from hwflow.onnx.model import Array, Model, Value
from hwflow.onnx.run.sequences import outputs_of_rows

__all__ = ["Question", "Task", "question"]


#: Numbers that numpy itself does not know as floats.
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Task(enum.StrEnum):
    """CLASSES: labels name the largest score.  SCORE: labels 0 and 1, one score.  RECONSTRUCTION: labels 0 and 1, and
    the output is like the input, so that their difference is the score.  VALUES: the output is to equal numbers."""

    CLASSES = "classification"
    SCORE = "binary score"
    RECONSTRUCTION = "reconstruction"
    VALUES = "values"
    NONE = "none"


@dataclass(frozen=True)
class Question:
    """`output` is the output that labels judge, and `input` what a reconstruction is compared with; else empty."""

    task: Task
    output: str = ""
    input: str = ""


def question(model: Model, dataset: Dataset) -> Question:
    """What `dataset` asks of `model`, whose shapes are known.

    HwflowError where its labels are of no use for any output: not a class that there is, or not as many numbers.
    """
    labels, outputs = dataset.labels, [value for value in outputs_of_rows(model) if _elements(value)]
    if labels is None:
        return Question(Task.VALUES if any(value.name in dataset.outputs for value in outputs) else Task.NONE)
    if labels.dtype.kind == "f":
        return _values(dataset, labels, outputs)
    binary = bool(np.isin(labels, (0, 1)).all())
    for value in outputs:
        source = _like(value, model) if binary else ""
        if source:
            return Question(Task.RECONSTRUCTION, value.name, source)
        if _elements(value) > 1:
            _require_classes(dataset, labels, value)
        if _elements(value) > 1 or _kind(value) in "iu":
            return Question(Task.CLASSES, value.name)
    if not outputs:
        raise HwflowError(f"{dataset.path}: labels must be left out, as the model has no output of numbers")
    return Question(Task.SCORE if binary else Task.VALUES, outputs[0].name)


def _values(dataset: Dataset, labels: Array, outputs: list[Value]) -> Question:
    """Real labels: the first output of as many numbers."""
    count = labels[0].size
    for value in outputs:
        if _elements(value) == count:
            return Question(Task.VALUES, value.name)
    there = " or ".join(f"{_elements(value)} for '{value.name}'" for value in outputs) or "none, the model has none"
    raise HwflowError(
        f"{dataset.path}: labels must have one real number per element of an output ({there}), or be integers that "
        f"name classes, not {labels.dtype}[{', '.join(map(str, labels.shape))}]"
    )


def _require_classes(dataset: Dataset, labels: Array, value: Value) -> None:
    low, high, last = int(labels.min()), int(labels.max()), _elements(value) - 1
    if low < 0 or high > last:
        remedy = "they count from 1: store labels - 1" if (low, high) == (1, last + 1) else (
            "number the classes in the order of the scores")  # fmt: skip
        raise HwflowError(
            f"labels must be from 0 to {last}, because output '{value.name}' has {last + 1} scores, not from {low} to "
            f"{high}",
            remedy,
            where=str(dataset.path),
        )


def _like(value: Value, model: Model) -> str:
    """The input that has the shape of output `value`; two scores of two features are no reconstruction."""
    if _elements(value) <= 2:
        return ""
    shape = value.tensor.shape if value.tensor is not None else None
    same = [v.name for v in model.graph.inputs if v.tensor is not None and v.tensor.shape == shape]
    return same[0] if same else ""


def _kind(value: Value) -> str:
    if value.tensor is None:
        return ""
    return "f" if value.tensor.dtype == BFLOAT16 else value.tensor.dtype.kind


def _elements(value: Value) -> int:
    """Elements of one row of an output of numbers; 0 where that is not known, or it holds something else."""
    shape = value.tensor.shape if value.tensor is not None else None
    sizes = [] if shape is None else [size for size in shape if isinstance(size, int)]
    known = shape is not None and len(sizes) == len(shape) and _kind(value) in tuple("biuf")
    return math.prod(sizes) if known else 0
