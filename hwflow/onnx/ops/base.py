"""Operators of the evaluator: signature, its kernel, and the rule that gives the types of its outputs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import EvaluationError
from hwflow.onnx.limits import Meter
from hwflow.onnx.model import Array, Attribute, DType, Graph, Node, Operand
from hwflow.onnx.schemas import Schema

#: Arrays and element types that kernels compute with, whatever they hold.
Arr: TypeAlias = npt.NDArray[Any]
Working: TypeAlias = np.dtype[Any]


class _Held(enum.Enum):
    """Kinds of values that kernels take from attributes, in the words of messages."""

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
            case _Held.INT:
                return isinstance(value, int)
            case _Held.FLOAT:
                return isinstance(value, float)
            case _Held.STRING:
                return isinstance(value, str)
            case _Held.TENSOR:
                return isinstance(value, np.ndarray)
        item = _ITEMS[self]
        return isinstance(value, tuple) and all(isinstance(v, item) for v in value)


_ITEMS: Mapping[_Held, type[int | float | str]] = {
    _Held.INTS: int,
    _Held.FLOATS: float,
    _Held.STRINGS: str,
}


class GraphRunner(Protocol):
    """Evaluates the graphs in attributes (of If, Loop, Scan): they see the values of the graphs around them."""

    def __call__(self, name: str, inputs: Sequence[Operand]) -> tuple[Operand, ...]:
        """The outputs of the graph in attribute `name` for values of its inputs, by position."""
        ...


@dataclass(frozen=True)
class Call:
    """One node under evaluation: its attributes with their defaults, and the version of its operator set.

    `schema` gives defaults of attributes; those of callers are for versions whose schema has none.  `run_graph` is
    there while a model is evaluated, not while types are inferred.
    """

    node: Node
    opset: int
    path: str = "node"
    schema: Schema | None = None
    meter: Meter = field(default_factory=Meter)
    run_graph: GraphRunner | None = None

    @property
    def where(self) -> str:
        """The node, as messages name it."""
        return f"{self.path} {self.node.label}"

    def error(self, why: str, remedy: str = "") -> HwflowError:
        """An error that names the node in front."""
        return EvaluationError(why, remedy, where=self.where)

    def work(self, amount: int) -> None:
        """Say that about `amount` multiplications (or steps as costly) follow; a LimitError where they are too many."""
        self.meter.work(amount, self.where)

    def subgraph(self, name: str, inputs: Sequence[Operand] = ()) -> tuple[Operand, ...]:
        """The outputs of the graph in attribute `name`."""
        graph = self.node.attributes.get(name)
        if not isinstance(graph, Graph):
            raise self.error(f"attribute '{name}' must be a graph, not {graph!r}", "export the model again")
        assert self.run_graph is not None, "graphs are run while a model is evaluated"
        return self.run_graph(name, inputs)

    def wants(self, output: int) -> bool:
        """True where the node names its output number `output`."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def has(self, name: str) -> bool:
        return name in self.node.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        return self._get(name, _Held.INT, default)  # type: ignore[no-any-return]

    def number(self, name: str, default: float | None = None) -> float:
        return self._get(name, _Held.FLOAT, default)  # type: ignore[no-any-return]

    def text(self, name: str, default: str | None = None) -> str:
        return self._get(name, _Held.STRING, default)  # type: ignore[no-any-return]

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        return self._get(name, _Held.INTS, default)  # type: ignore[no-any-return]

    def numbers(self, name: str, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        return self._get(name, _Held.FLOATS, default)  # type: ignore[no-any-return]

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        return self._get(name, _Held.STRINGS, default)  # type: ignore[no-any-return]

    def tensor(self, name: str, default: Array | None = None) -> Arr:
        return self._get(name, _Held.TENSOR, default)  # type: ignore[no-any-return]

    def _get(self, name: str, kind: _Held, default: Any) -> Any:
        stated = None if self.schema is None else self.schema.attributes.get(name)
        if stated is not None and stated.default is not None:
            default = stated.default
        value = self.node.attributes.get(name, default)
        if value is None:
            raise self.error(f"attribute '{name}' must be given, not left out", "export the model again")
        if value is not default and not kind.accepts(value):
            raise self.error(f"attribute '{name}' must be {kind.value}, not {value!r}", "export the model again")
        return value

    def check_size(self, shape: Sequence[int], dtype: DType) -> None:
        """Refuse an output that is too large or has negative dims, before anything is allocated."""
        self.meter.tensor(shape, dtype, self.where)


@dataclass(frozen=True)
class Known:
    """Knowledge of a tensor before evaluation: its type, and its elements where they are constant."""

    dtype: DType
    shape: tuple[int, ...]
    value: Arr | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)


#: Kernels take the call and one Operand (None where left out) per input, and return one or a tuple of them.  Sequences
#: are lists, maps dicts, an optional without content is None.
Kernel: TypeAlias = Callable[..., Union[Operand, tuple[Operand, ...]]]

#: A function of arrays, as numpy has them.
Formula: TypeAlias = Callable[..., npt.ArrayLike]

#: Rules take the call and one Known (None where left out) per input, and return one or a tuple.
ShapeRule: TypeAlias = Callable[..., Union[Known, tuple[Known, ...]]]


@dataclass(frozen=True)
class Operator:
    """One version of an operator: valid from operator set `since` until the next version.

    `shapes` is None for operators whose outputs are no tensors or depend on the data; `constant` names the inputs whose
    elements must be known for the output's shape to be.  Parameters and attributes stand in the schema of that version.
    """

    since: int
    kernel: Kernel
    shapes: ShapeRule | None
    constant: tuple[int, ...] = ()


#: (domain, operator) to its versions, oldest first.
Table: TypeAlias = Mapping[tuple[str, str], tuple[Operator, ...]]


def axis_in(call: Call, axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        raise call.error(f"the axis must be {-rank} to {rank - 1}, not {axis}", "export the model again")
    return axis % rank
