"""The ONNX model as frozen dataclasses and numpy arrays.  Protobuf objects never leave `hwflow.onnx`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, Union

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Attribute", "Dim", "Graph", "Model", "Node", "TensorType", "Value"]

Array: TypeAlias = npt.NDArray[np.generic]

#: One axis of a shape: a size, the name of a symbolic size, or None where nothing is known.
Dim: TypeAlias = Union[int, str, None]

#: An attribute's value; text is `str`, lists are tuples, a tensor is an array.
Attribute: TypeAlias = Union[
    int,
    float,
    str,
    Array,
    "Graph",
    tuple[int, ...],
    tuple[float, ...],
    tuple[str, ...],
    tuple[Array, ...],
    tuple["Graph", ...],
]


@dataclass(frozen=True)
class TensorType:
    """Element type and shape of a tensor.  `shape` is None where even the rank is unknown; () is a scalar."""

    dtype: np.dtype[np.generic]
    shape: tuple[Dim, ...] | None

    @property
    def is_static(self) -> bool:
        """True where every axis is a number."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)


@dataclass(frozen=True)
class Value:
    """A named input or output of a graph.  `type` is None where the file does not say."""

    name: str
    type: TensorType | None


@dataclass(frozen=True)
class Node:
    """One operator call.  An empty name in `inputs` or `outputs` is an optional one that is left out.

    `domain` is "" for the default operator set (the alias "ai.onnx" is folded into it).
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""

    @property
    def label(self) -> str:
        """How messages name the node: its name, or its first output where it has none, and its operator."""
        return f"'{self.name or next(filter(None, self.outputs), '?')}' ({self.op_type})"


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order.  `inputs` leaves out names that `initializers` also defines (IR below 4)."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    initializers: Mapping[str, Array]
    #: Types of intermediate values that the file states or shape inference found.
    types: Mapping[str, TensorType] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
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
    #: What reading and the steps since decided on the user's behalf, one sentence each.
    notes: tuple[str, ...] = ()
