"""Models made in code.

b = Builder("digits")
x = b.input("input", np.float32, ("batch", 64))
y = b.node("Gemm", x, b.constant("w", w), b.constant("b", bias), transB=1, output="output")
b.output(y, np.float32, ("batch", 10))
model = b.model(opset=17)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, AttributeLike, Dim, Graph, Model, Node, TensorType, Value
from hwflow.onnx.versioning.numbers import least_ir

#: Version of the operator set that models made in code have by default, and the least one of the file format.
OPSET, IR_VERSION = 17, 8


def tensor_type(dtype: npt.DTypeLike, shape: Iterable[Dim] | None = None) -> TensorType:
    """A tensor type; `shape` None means unknown rank."""
    return TensorType(np.dtype(dtype), None if shape is None else tuple(shape))


def make_node(
    op_type: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    *,
    name: str = "",
    domain: str = "",
    **attributes: AttributeLike,
) -> Node:
    """A node.  Attributes that are None are left out; lists become tuples and numpy scalars plain numbers."""
    cleaned = {key: _attribute(value) for key, value in attributes.items() if value is not None}
    return Node(op_type, tuple(inputs), tuple(outputs), cleaned, name, domain)


def _attribute(value: Any) -> Any:
    """An Attribute: texts, numbers and arrays as they are, everything else in the nearest type that a file has."""
    if isinstance(value, (list, tuple)):
        return tuple(_attribute(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return int(value) if isinstance(value, bool) else value


def make_graph(
    nodes: Iterable[Node],
    inputs: Iterable[Value],
    outputs: Iterable[Value],
    initializers: Mapping[str, Array] | None = None,
    name: str = "graph",
) -> Graph:
    """A graph of nodes in topological order."""
    return Graph(name, tuple(nodes), tuple(inputs), tuple(outputs), dict(initializers or {}))


def make_model(
    graph: Graph,
    *,
    opset: int = OPSET,
    opsets: Mapping[str, int] | None = None,
    ir_version: int | None = None,
    producer_name: str = "hwflow",
    metadata: Mapping[str, str] | None = None,
) -> Model:
    """A model.  `opsets` adds other operator sets to version `opset` of the default one.

    `ir_version` None is the least one that has these operator sets, but at least 8.
    """
    imports = {"": opset, **(opsets or {})}
    if ir_version is None:
        ir_version = max(IR_VERSION, *(least_ir(domain, version) or 0 for domain, version in imports.items()))
    return Model(
        graph=graph,
        ir_version=ir_version,
        opsets=imports,
        producer_name=producer_name,
        metadata=dict(metadata or {}),
    )


class Builder:
    """Collects the parts of a graph; every method returns the name of the value that it adds."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._nodes: list[Node] = []
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._constants: dict[str, Array] = {}

    def input(self, name: str, dtype: npt.DTypeLike, shape: Iterable[Dim] | None) -> str:
        """An input of the graph."""
        self._inputs.append(Value(name, tensor_type(dtype, shape)))
        return name

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """An initializer."""
        self._constants[name] = np.asarray(array)
        return name

    def node(
        self,
        op_type: str,
        *inputs: str,
        name: str = "",
        output: str = "",
        domain: str = "",
        **attributes: AttributeLike,
    ) -> str:
        """A node with one output, which is called `output`, else like the node, else by its number."""
        return self.nodes(op_type, *inputs, outputs=(output,), name=name, domain=domain, **attributes)[0]

    def nodes(
        self,
        op_type: str,
        *inputs: str,
        outputs: Iterable[str],
        name: str = "",
        domain: str = "",
        **attributes: AttributeLike,
    ) -> tuple[str, ...]:
        """A node with several outputs; an empty name in `outputs` is made up."""
        label = name or f"{op_type}_{len(self._nodes)}"
        names = tuple(output or (f"{label}_out" if i == 0 else f"{label}_out{i}") for i, output in enumerate(outputs))
        self._nodes.append(make_node(op_type, inputs, names, name=label, domain=domain, **attributes))
        return names

    def output(self, value: str, dtype: npt.DTypeLike | None = None, shape: Iterable[Dim] | None = None) -> str:
        """Make a value an output of the graph; `dtype` None leaves its type to be inferred."""
        self._outputs.append(Value(value, None if dtype is None else tensor_type(dtype, shape)))
        return value

    def graph(self) -> Graph:
        return make_graph(self._nodes, self._inputs, self._outputs, self._constants, self.name)

    def model(self, **options: Any) -> Model:
        """The model; `options` are those of `make_model`."""
        return make_model(self.graph(), **options)
