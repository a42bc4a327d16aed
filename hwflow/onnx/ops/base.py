"""What an operator of the evaluator is: its signature, its kernel, and the rule that gives the types of its outputs."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from hwflow.errors import HwflowError
from hwflow.onnx.model import Array, Attribute, Node

__all__ = [
    "ANY",
    "FLOAT",
    "FLOATS",
    "INT",
    "INTS",
    "MAX_BYTES",
    "STRING",
    "STRINGS",
    "TENSOR",
    "Arr",
    "AttributeKind",
    "Call",
    "Kernel",
    "Known",
    "Operator",
    "ShapeRule",
    "Table",
    "axis_in",
]

Arr: TypeAlias = npt.NDArray[Any]

#: An operator that makes a tensor from nothing (ConstantOfShape, Expand, Pad) refuses to make a larger one.
MAX_BYTES = 1 << 31

#: No upper limit on the number of inputs or outputs.
ANY = 1 << 30


class AttributeKind(enum.Enum):
    """What an attribute holds."""

    INT = "an integer"
    FLOAT = "a number"
    STRING = "a text"
    TENSOR = "a tensor"
    INTS = "a list of integers"
    FLOATS = "a list of numbers"
    STRINGS = "a list of texts"

    def accepts(self, value: Attribute) -> bool:
        """True for a value of this kind.  An empty list is of every list kind."""
        match self:
            case AttributeKind.INT:
                return isinstance(value, int)
            case AttributeKind.FLOAT:
                return isinstance(value, float)
            case AttributeKind.STRING:
                return isinstance(value, str)
            case AttributeKind.TENSOR:
                return isinstance(value, np.ndarray)
        item = _ITEMS[self]
        return isinstance(value, tuple) and all(isinstance(v, item) for v in value)


_ITEMS: Mapping[AttributeKind, type[int | float | str]] = {
    AttributeKind.INTS: int,
    AttributeKind.FLOATS: float,
    AttributeKind.STRINGS: str,
}

INT, FLOAT, STRING, TENSOR = AttributeKind.INT, AttributeKind.FLOAT, AttributeKind.STRING, AttributeKind.TENSOR
INTS, FLOATS, STRINGS = AttributeKind.INTS, AttributeKind.FLOATS, AttributeKind.STRINGS


@dataclass(frozen=True)
class Call:
    """One node under evaluation: its attributes with their defaults, and the version of its operator set."""

    node: Node
    opset: int
    path: str = "node"

    def error(self, message: str) -> HwflowError:
        """An error that names the node in front."""
        return HwflowError(f"{self.path} {self.node.label}: {message}")

    def wants(self, output: int) -> bool:
        """True where the node names its output number `output`."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def has(self, name: str) -> bool:
        return name in self.node.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        return self._get(name, AttributeKind.INT, default)  # type: ignore[no-any-return]

    def number(self, name: str, default: float | None = None) -> float:
        return self._get(name, AttributeKind.FLOAT, default)  # type: ignore[no-any-return]

    def text(self, name: str, default: str | None = None) -> str:
        return self._get(name, AttributeKind.STRING, default)  # type: ignore[no-any-return]

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        return self._get(name, AttributeKind.INTS, default)  # type: ignore[no-any-return]

    def tensor(self, name: str, default: Array | None = None) -> Arr:
        return self._get(name, AttributeKind.TENSOR, default)  # type: ignore[no-any-return]

    def _get(self, name: str, kind: AttributeKind, default: Any) -> Any:
        value = self.node.attributes.get(name, default)
        if value is None:
            raise self.error(f"attribute '{name}' must be given, not left out; export the model again")
        if value is not default and not kind.accepts(value):
            raise self.error(f"attribute '{name}' must be {kind.value}, not {value!r}; export the model again")
        return value

    def check_size(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        """Refuse an output that is larger than MAX_BYTES, before anything is allocated."""
        size = math.prod(shape) * dtype.itemsize
        if size > MAX_BYTES or any(d < 0 for d in shape):
            raise self.error(
                f"the output must be at most {MAX_BYTES >> 20} MiB with dims of 0 or more, "
                f"not {dtype.name}{list(shape)}; this file cannot be trusted"
            )


@dataclass(frozen=True)
class Known:
    """What is known of a tensor before evaluation: its type, and its elements where they are constant."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    value: Arr | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)


#: Kernels take the call and one array (None where left out) per input, and return one array or a tuple.
Kernel: TypeAlias = Callable[..., Union[Arr, tuple[Arr, ...]]]

#: Rules take the call and one Known (None where left out) per input, and return one or a tuple.
ShapeRule: TypeAlias = Callable[..., Union[Known, tuple[Known, ...]]]


@dataclass(frozen=True)
class Operator:
    """One version of an operator: valid from operator set `since` until the next version.

    `inputs` and `outputs` are the smallest and the largest number of them.  `constant` names the inputs whose elements
    must be known for the output's shape to be.
    """

    since: int
    kernel: Kernel
    shapes: ShapeRule
    inputs: tuple[int, int] = (1, 1)
    attributes: Mapping[str, AttributeKind] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    outputs: tuple[int, int] = (1, 1)
    constant: tuple[int, ...] = ()


#: (domain, operator) to its versions, oldest first.
Table: TypeAlias = Mapping[tuple[str, str], tuple[Operator, ...]]


def axis_in(call: Call, axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        raise call.error(f"the axis must be {-rank} to {rank - 1}, not {axis}; export the model again")
    return axis % rank
