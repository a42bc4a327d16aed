"""The ONNX model as frozen dataclasses and numpy arrays.  Protobuf objects never leave `hwflow.onnx`.

`extra` holds what a message of the file has besides the fields here (texts, annotations, fields of later versions of
ONNX) as the bytes of such a message, so that nothing is lost when the model is written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from hwflow_base.by_value import ByValue
from hwflow_base.short_repr import fields_repr, screen

Array: TypeAlias = npt.NDArray[np.generic]
DType: TypeAlias = np.dtype[np.generic]

#: One axis of a shape: a size, the name of a symbolic size, or None where nothing is known.
Dim: TypeAlias = Union[int, str, None]


def size_name(dim: Dim) -> str | None:
    """The name of a symbolic size; None for a number and for an open size without a name.

    "n", "unk__12" and "s0 + 1" name a size, the same wherever they stand, and so does "*" [SH-07].  Any other text
    without a letter ("?", "-1") and "None" are what exporters write for every open size: each is a size of its own.
    """
    if not isinstance(dim, str) or dim == "None":
        return None
    return dim if dim == "*" or any(c.isalpha() or c == "_" for c in dim) else None

#: An attribute's value; text is `str`, lists are tuples, a tensor is an array.
Attribute: TypeAlias = Union[
    int,
    float,
    str,
    bytes,  # a text that is not UTF-8
    Array,
    "Graph",
    "SparseTensor",
    "ValueType",
    "AttributeRef",
    tuple[int, ...],
    tuple[float, ...],
    tuple[str, ...],
    tuple[Array, ...],
    tuple["Graph", ...],
    tuple["SparseTensor", ...],
    tuple["ValueType", ...],
]

#: What code may say for an attribute: None leaves it out, lists become tuples and numpy's scalars plain numbers.
AttributeLike: TypeAlias = Union[Attribute, np.generic, list[int], list[float], list[str], None]

#: What a value is while a model is evaluated: a tensor, a sequence, a map, or None for an optional without content.
Operand: TypeAlias = Union[Array, list[Any], dict[Any, Any], None]


@dataclass(frozen=True)
class TensorType:
    """Element type and shape of a tensor.  `shape` is None where even the rank is unknown; () is a scalar."""

    dtype: DType
    shape: tuple[Dim, ...] | None

    @property
    def is_static(self) -> bool:
        """True where every axis is a number."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)


@dataclass(frozen=True)
class SequenceType:
    """An ordered list of values of one type; `element` is None where the file does not say which."""

    element: ValueType | None


@dataclass(frozen=True)
class OptionalType:
    """A value that may be missing."""

    element: ValueType | None


@dataclass(frozen=True)
class MapType:
    """Keys (integers or strings) to values of one type."""

    key: DType
    value: ValueType | None


@dataclass(frozen=True)
class SparseTensorType:
    """Element type and dense shape of a tensor that is stored by its elements other than zero."""

    dtype: DType
    shape: tuple[Dim, ...] | None


@dataclass(frozen=True)
class OpaqueType:
    """A type of another domain, known by name only."""

    domain: str
    name: str


ValueType: TypeAlias = Union[TensorType, SequenceType, OptionalType, MapType, SparseTensorType, OpaqueType]


@dataclass(frozen=True, eq=False)
class SparseTensor(ByValue):
    """Elements other than zero.

    `values` is [n], `indices` int64 [n] (into the flattened tensor) or [n, rank], ascending.
    """

    values: Array
    indices: npt.NDArray[np.int64]
    shape: tuple[int, ...]

    __repr__ = fields_repr


@dataclass(frozen=True)
class AttributeRef:
    """Inside a function: the attribute `name` of the call, of the kind (an AttributeProto.AttributeType) `kind`."""

    name: str
    kind: int


@dataclass(frozen=True)
class Value:
    """A named input or output of a graph.  `type` is None where the file does not say."""

    name: str
    type: ValueType | None
    extra: bytes = field(default=b"", compare=False, repr=False)

    __repr__ = fields_repr

    @property
    def tensor(self) -> TensorType | None:
        """The type of a tensor; None for other kinds of value and where the file does not say."""
        return self.type if isinstance(self.type, TensorType) else None


@dataclass(frozen=True, eq=False)
class Node(ByValue):
    """One operator call.  An empty name in `inputs` or `outputs` is an optional one that is left out.

    `domain` is "" for the default operator set (the alias "ai.onnx" is folded into it).
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    overload: str = ""
    extra: bytes = field(default=b"", compare=False, repr=False)

    __repr__ = fields_repr

    @property
    def label(self) -> str:
        """How messages name the node: its name, or its first output where it has none, and its operator."""
        return f"'{self.name or next(filter(None, self.outputs), '?')}' ({self.op_type})"

    def input(self, position: int) -> str:
        """The name of an input, empty where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else ""


@dataclass(frozen=True, eq=False)
class Graph(ByValue):
    """Nodes in topological order.

    `inputs` leaves out names that `initializers` also defines; those stand in `overridable`: a caller may feed them,
    and the initializer is the value otherwise (below IR version 4 that holds for all initializers).
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    initializers: Mapping[str, Array]
    #: Types of intermediate values that the file states or shape inference found.
    types: Mapping[str, ValueType] = field(default_factory=dict)
    sparse_initializers: Mapping[str, SparseTensor] = field(default_factory=dict)
    overridable: tuple[Value, ...] = ()
    #: Inputs and outputs that are states outside of layers: the host neither makes nor reads them (`keep_states`).
    kept: frozenset[str] = frozenset()
    extra: bytes = field(default=b"", compare=False, repr=False)

    def __repr__(self) -> str:
        return screen(f"Graph '{self.name}': {len(self.nodes)} nodes", self.shown())

    def shown(self) -> Iterable[str]:
        """Inputs, outputs, kinds of nodes and initializers, a line each."""
        yield f"inputs: {', '.join(map(_described, self.inputs)) or 'none'}"
        yield f"outputs: {', '.join(map(_described, self.outputs)) or 'none'}"
        kinds = Counter(node.op_type for node in self.nodes)
        yield f"nodes: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common()) or 'none'}"
        yield (f"initializers: {len(self.initializers) + len(self.sparse_initializers)} with "
               f"{sum(array.size for array in self.initializers.values())} elements")

    def tensor_type(self, name: str) -> TensorType | None:
        """The stated or inferred type of a tensor by name; None for other kinds of value and where nothing is known."""
        type_ = self.types.get(name) or next((v.type for v in (*self.inputs, *self.outputs) if v.name == name), None)
        return type_ if isinstance(type_, TensorType) else None


@dataclass(frozen=True, eq=False)
class Function(ByValue):
    """An operator that the model defines by nodes.

    `attributes` must be given by a call, those of `defaults` may be; a call's attribute is read in the body through an
    AttributeRef.  `opsets` are the operator sets of the body.
    """

    name: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    opsets: Mapping[str, int]
    attributes: tuple[str, ...] = ()
    defaults: Mapping[str, Attribute] = field(default_factory=dict)
    overload: str = ""
    types: Mapping[str, ValueType] = field(default_factory=dict)
    extra: bytes = field(default=b"", compare=False, repr=False)

    __repr__ = fields_repr

    @property
    def key(self) -> tuple[str, str, str]:
        """Domain, name, overload, by which nodes refer to it."""
        return self.domain, self.name, self.overload


@dataclass(frozen=True, eq=False)
class Training(ByValue):
    """One training algorithm: how the state variables (initializers by name) are set at first and in each step.

    The bindings map a state variable to the output of the graph that gives its new value.
    """

    initialization: Graph | None
    initialization_binding: Mapping[str, str]
    algorithm: Graph | None
    update_binding: Mapping[str, str]
    extra: bytes = field(default=b"", compare=False, repr=False)

    __repr__ = fields_repr


@dataclass(frozen=True, eq=False)
class Model(ByValue):
    """A whole model.  `opsets` maps a domain ("" for the default one) to the version of its operator set."""

    graph: Graph
    ir_version: int
    opsets: Mapping[str, int]
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[Function, ...] = ()
    training: tuple[Training, ...] = ()
    extra: bytes = field(default=b"", compare=False, repr=False)
    #: The path that it was read from, with which messages begin.
    file: str = field(default="", compare=False, repr=False)
    #: What reading and the steps since decided on the user's behalf, one sentence each.
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        lines = [f"IR version {self.ir_version}, operator sets: {sets or 'none'}", *self.graph.shown()]
        if self.functions:
            lines.append(f"functions: {', '.join(function.name for function in self.functions)}")
        if self.producer_name:
            lines.append(f"made by {self.producer_name} {self.producer_version}".rstrip())
        return screen(f"Model '{self.graph.name}': {len(self.graph.nodes)} nodes", lines)


def _described(value: Value) -> str:
    tensor = value.tensor
    if tensor is None:
        return f"{value.name} ({'of unknown type' if value.type is None else type(value.type).__name__})"
    shape = "[...]" if tensor.shape is None else f"[{', '.join('?' if d is None else str(d) for d in tensor.shape)}]"
    return f"{value.name} {tensor.dtype}{shape}"
