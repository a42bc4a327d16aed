"""Classes for all that can be wrong with a model, so that a caller can tell them apart.

The rules in `hwflow.onnx.rules` report findings; these are raised where work cannot go on.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwflow_base.errors import HwflowError


@dataclass(frozen=True)
class Unconverted:
    """A node that has no form with its meaning in the wanted operator set: where it stands, why, and what to do."""

    path: str
    label: str
    why: str
    remedy: str


class ConversionError(HwflowError):
    """The model cannot be written for the wanted operator set; `nodes` says which of its nodes cannot."""

    def __init__(self, why: str, remedy: str = "", *, where: str = "", nodes: tuple[Unconverted, ...] = ()) -> None:
        super().__init__(why, remedy, where=where)
        self.nodes = nodes


class FormatError(HwflowError):
    """The bytes are no ONNX model: another format, cut off, damaged."""


class InvalidModel(HwflowError):
    """The model breaks rules of the specification; the message lists them."""


class TensorDataError(InvalidModel):
    """A tensor's data does not fit its type and dims."""


class MissingDataError(TensorDataError):
    """The file with a tensor's data is not there."""


class ChecksumError(TensorDataError):
    """The file with a tensor's data is not the one that the model was written with."""


class SecurityError(HwflowError):
    """The model points at something outside of its folder, or at something that is no plain file."""


class LimitError(HwflowError):
    """The model asks for more memory, time or depth than `Limits` allow; they can be raised."""


class ShapeLimitError(LimitError):
    """Shapes follow from a constant that is larger than `Limits` allow: nothing can be said of the model."""


class Unsupported(HwflowError):
    """A valid model uses an operator, a type or a feature that hwflow does not evaluate."""


class EvaluationError(HwflowError):
    """A node cannot be computed from the values that reach it, or the fed values do not suit the model."""


class ShapeError(EvaluationError):
    """Shapes that do not fit together or contradict what the model states."""


class TypeMismatch(EvaluationError):
    """Element types or kinds of value that do not fit together."""


class TrainingError(HwflowError):
    """A training step that the model does not have or whose state is not ready."""
