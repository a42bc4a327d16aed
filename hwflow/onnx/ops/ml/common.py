"""Helpers of the operators of ai.onnx.ml: rows, lists in attributes, scores to probabilities, scores to labels."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known
from hwflow.onnx.ops.special import erf_inverse
from hwflow.onnx.ops.text import strings

T = TypeVar("T", int, float, str)
Floats = npt.NDArray[np.float64]


def listed(call: Call, name: str, kind: type[T]) -> tuple[T, ...]:
    """An attribute that is a list; empty where it is left out."""
    value = call.node.attributes.get(name, ())
    if not isinstance(value, tuple) or not all(isinstance(v, kind) for v in value):
        raise call.error(
            f"attribute '{name}' must be a list of {kind.__name__}, not {value!r}", "export the model again"
        )
    return tuple(v for v in value if isinstance(v, kind))


def floats(call: Call, name: str) -> Floats:
    """A list of numbers, or the tensor of attribute `name`_as_tensor, which holds float64."""
    tensor = call.node.attributes.get(f"{name}_as_tensor")
    if isinstance(tensor, np.ndarray) and tensor.size:
        return tensor.reshape(-1).astype(np.float64)
    return np.array(listed(call, name, float), np.float64)


def integers(call: Call, name: str) -> npt.NDArray[np.int64]:
    return np.array(listed(call, name, int), np.int64)


def texts(call: Call, name: str) -> tuple[str, ...]:
    return listed(call, name, str)


def as_rows(call: Call, x: Arr | Known) -> tuple[int, int]:
    """Rows and features; a vector is one row."""
    if x.ndim not in (1, 2):
        raise call.error(f"the input must have the shape [N, F] or [F], not {list(x.shape)}")
    return (x.shape[0], x.shape[1]) if x.ndim == 2 else (1, x.shape[0])


def class_labels(call: Call, integer_name: str) -> Arr:
    """The labels of the classes, from the attribute with integers or from `classlabels_strings`."""
    words, numbers = texts(call, "classlabels_strings"), integers(call, integer_name)
    if bool(words) == bool(numbers.size):
        raise call.error(f"one of '{integer_name}' and 'classlabels_strings' must be given", "export the model again")
    return strings(words, (len(words),)) if words else numbers


def pick_labels(call: Call, labels: Arr, chosen: npt.NDArray[np.intp]) -> Arr:
    """The label of each row."""
    if chosen.size and int(chosen.max()) >= len(labels):
        raise call.error(f"there must be a label for each class, not {len(labels)}", "export the model again")
    return labels[chosen]


def post_transform(call: Call, scores: Floats, kind: str | None = None) -> Floats:
    """Rows of scores by attribute `post_transform`."""
    kind = kind or call.text("post_transform")
    match kind:
        case "NONE":
            return scores
        case "LOGISTIC":
            return np.asarray(1 / (1 + np.exp(-scores)))
        case "SOFTMAX":
            return _softmax(scores, np.ones(scores.shape, np.bool_))
        case "SOFTMAX_ZERO":
            return _softmax(scores, np.abs(scores) > 1e-7)
        case "PROBIT":
            return np.asarray(np.sqrt(2) * erf_inverse(2 * scores - 1))
    raise call.error(
        f"attribute 'post_transform' must be NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT, not '{kind}'"
    )


def _softmax(scores: Floats, counted: npt.NDArray[np.bool_]) -> Floats:
    """Over the counted scores of each row; the others become 0."""
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.where(counted, np.exp(scores - top), 0)
    return np.asarray(e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny))


def binary_scores(call: Call, score: Floats, complement: bool) -> Floats:
    """The scores of two classes from that of the second; the first has 1 - score (`complement`) or -score."""
    kind = call.text("post_transform")
    if kind == "LOGISTIC":
        return post_transform(call, np.stack((-score, score), axis=-1))
    both = np.stack((1 - score if complement or kind == "PROBIT" else -score, score), axis=-1)
    return post_transform(call, both, kind if kind == "PROBIT" else "NONE")
