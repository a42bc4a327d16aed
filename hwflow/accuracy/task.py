"""The question that a data file asks of a model: which output is judged, by what, and with which measure."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.data.dataset import Dataset
from hwflow.onnx.inference.maps import class_names
from hwflow.onnx.model import Array, Model, Value
from hwflow.onnx.run.sequences import outputs_of_rows
from hwflow.quantize.passes.handed_on import named_like_states

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
    """`output` is the output that labels judge, and `input` what a reconstruction is compared with; else empty.

    `names` are those of the scores' classes, where labels are texts and the output is scores.  `states` are outputs
    that are called like next values of inputs: caches and states, which are no answers and are measured apart.
    """

    task: Task
    output: str = ""
    input: str = ""
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()


def question(model: Model, dataset: Dataset) -> Question:
    """The question that `dataset` asks of `model`, whose shapes are known.

    HwflowError where its labels are of no use for any output: not a class that there is, or not as many numbers.
    """
    states = named_like_states(model)
    answers = [value for value in outputs_of_rows(model) if value.name not in states]
    return replace(_question(model, dataset, answers), states=states)


def _question(model: Model, dataset: Dataset, answers: list[Value]) -> Question:
    """The question about the outputs `answers`."""
    labels, outputs = dataset.labels, [value for value in answers if _elements(value)]
    if labels is None:
        expected = any(value.name in dataset.outputs and (_elements(value) or _is_text(value)) for value in answers)
        return Question(Task.VALUES if expected else Task.NONE)
    if labels.dtype.kind == "U":
        return _texts(dataset, labels, model)
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


def _texts(dataset: Dataset, labels: Array, model: Model) -> Question:
    """Labels that are texts: the first output that names a class by a text, or has scores whose classes have names."""
    named = class_names(model)
    for value in outputs_of_rows(model):
        if _is_text(value) and value.tensor is not None and set(value.tensor.shape or ()) <= {1}:
            return Question(Task.CLASSES, value.name)
        names = tuple(str(name) for name in named.get(value.name, ()))
        if names:
            unknown = sorted(set(labels.tolist()) - set(names))
            if unknown:
                raise HwflowError(f"{dataset.path}: labels must be classes of output '{value.name}' "
                                  f"({', '.join(names[:12])}), not '{unknown[0]:.40}'")
            return Question(Task.CLASSES, value.name, names=names)
    raise HwflowError(f"{dataset.path}: labels must be integers, as no output of the model names classes by texts",
                      "store the number of each class: np.unique(labels, return_inverse=True)[1]")


def in_numbers(asked: Question, dataset: Dataset, *of_models: Mapping[str, Array]) -> tuple[
        tuple[str, ...], Dataset, list[Mapping[str, Array]]]:
    """Names of classes, and `dataset` and the outputs `of_models` of models with their numbers in place of texts."""
    labels, name = dataset.labels, asked.output
    if labels is None or labels.dtype.kind != "U":
        return (), dataset, list(of_models)
    if asked.names:
        number = {name_of_class: k for k, name_of_class in enumerate(asked.names)}
        numbers = np.array([number[label] for label in labels.tolist()], np.int64)
        return asked.names, replace(dataset, labels=numbers), list(of_models)
    names = np.unique(np.concatenate([labels, *(outputs[name].ravel() for outputs in of_models)]))
    coded: list[Mapping[str, Array]] = [
        {**outputs, name: np.searchsorted(names, outputs[name])} for outputs in of_models]
    return tuple(names.tolist()), replace(dataset, labels=np.searchsorted(names, labels)), coded


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


def _is_text(value: Value) -> bool:
    return value.tensor is not None and value.tensor.dtype.kind == "O"


def _elements(value: Value) -> int:
    """Elements of one row of an output of numbers; 0 where that is not known, or it holds something else."""
    shape = value.tensor.shape if value.tensor is not None else None
    sizes = [] if shape is None else [size for size in shape if isinstance(size, int)]
    known = shape is not None and len(sizes) == len(shape) and _kind(value) in tuple("biuf")
    return math.prod(sizes) if known else 0
