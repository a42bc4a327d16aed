"""A model of one row as a model of many: every tensor gets one more axis in front, the rows.

For models of operators that treat the rows alike, element by element or along axes that can be counted one further,
the new model computes on all rows at once exactly what the old one computes on each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.operators import OPERATORS, QUANTIZERS, named
from hwflow.onnx.schemas import find_schema
from hwflow.onnx.traits import Trait

#: Operators without axes, of one tensor; other inputs are constants that fit each element.
_UNARY = named(Trait.FUNCTION | Trait.ELEMENT)

#: Operators of several tensors whose shapes are matched from the last axis on.
_BROADCAST = frozenset(name for (domain, name), row in OPERATORS.items() if row.broadcasts and not domain)

_RESHAPE = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})

#: Operators that work along one axis.
_AXIS = named(Trait.AXIS)


@dataclass(frozen=True)
class _Facts:
    """The model of one row: its operator set, the values of all tensors, and which of them depend on the row."""

    opset: int
    values: Mapping[str, Array]
    dynamic: frozenset[str]

    def rank(self, name: str) -> int:
        return np.ndim(self.values[name])

    def constants_behind(self, node: Node) -> bool:
        """True where the node's first input alone depends on the row."""
        return node.inputs[0] in self.dynamic and not self.dynamic.intersection(node.inputs[1:])


def over_rows(model: Model, values: Mapping[str, Array]) -> Model | None:
    """The model of many rows; None where `model` has operators for which there is no rule.

    `values` holds a row, and every tensor that `model` computes of it, for the shapes; those must not depend on the
    row.
    """
    graph = model.graph
    if any(name and name not in values for node in graph.nodes for name in node.outputs):
        return None
    dynamic = {value.name for value in graph.inputs}
    nodes, constants = list[Node](), dict(graph.initializers)
    for node in graph.nodes:
        if dynamic.intersection(node.inputs):
            dynamic.update(node.outputs)
    if not dynamic.issuperset(value.name for value in graph.outputs) or graph.sparse_initializers:
        return None
    facts = _Facts(model.opsets.get("", 0), {**values, **graph.initializers}, frozenset(dynamic))
    for node in graph.nodes:
        lifted = _lifted(node, facts, constants) if dynamic.intersection(node.inputs) else node
        if lifted is None:
            return None
        nodes.append(lifted)
    inputs = tuple(replace(value, type=_lifted_type(value)) for value in graph.inputs)
    outputs = tuple(Value(value.name, None) for value in graph.outputs)
    return replace(model, graph=Graph(graph.name, tuple(nodes), inputs, outputs, constants))


def _lifted_type(value: Value) -> TensorType | None:
    if value.tensor is None or value.tensor.shape is None:
        return None
    return TensorType(value.tensor.dtype, (None, *value.tensor.shape))


def _lifted(node: Node, facts: _Facts, constants: dict[str, Array]) -> Node | None:
    """The node for many rows; new constants go into `constants`."""
    if node.domain or len(node.outputs) != 1 or facts.opset < 7:
        return None
    if node.op_type in _RESHAPE:
        return _reshape(node, facts, constants)
    rules: dict[str, Callable[[Node, _Facts], Node | None]] = {
        "Transpose": _transpose,
        **dict.fromkeys(_UNARY, _unary),
        **dict.fromkeys(_BROADCAST, _broadcast),
        **dict.fromkeys(_AXIS, _axis),
    }
    rule = rules.get(node.op_type)
    return rule(node, facts) if rule is not None else None


def _unary(node: Node, facts: _Facts) -> Node | None:
    scalars = all(facts.rank(name) == 0 for name in node.inputs[1:] if name)
    return node if scalars and facts.constants_behind(node) else None


def _broadcast(node: Node, facts: _Facts) -> Node | None:
    """With the rank of the result, no operand that depends on the row is stretched by an axis in front."""
    rank = facts.rank(node.outputs[0])
    whole = all(facts.rank(name) == rank for name in node.inputs if name in facts.dynamic)
    return node if whole else None


def _transpose(node: Node, facts: _Facts) -> Node:
    order = node.attributes.get("perm", tuple(reversed(range(facts.rank(node.inputs[0])))))
    assert isinstance(order, tuple)
    return replace(node, attributes={"perm": (0, *(int(axis) + 1 for axis in order))})  # type: ignore[arg-type]


def _reshape(node: Node, facts: _Facts, constants: dict[str, Array]) -> Node | None:
    shape = np.shape(facts.values[node.outputs[0]])
    if 0 in shape or not facts.constants_behind(node):
        return None
    name = f"{node.outputs[0]}.shape_of_rows"
    while name in facts.values or name in constants:
        name += "_"
    constants[name] = np.array([0, *shape], np.int64)  # 0: as many as there are
    return Node("Reshape", (node.inputs[0], name), node.outputs, {}, node.name)


def _axis(node: Node, facts: _Facts) -> Node | None:
    if not facts.constants_behind(node) or node.attributes.get("block_size"):
        return None
    if node.op_type in QUANTIZERS and facts.rank(node.inputs[1]) == 0:
        return node
    schema = find_schema("", node.op_type, facts.opset)
    stated = None if schema is None else schema.attributes.get("axis")
    axis = node.attributes.get("axis", 1 if stated is None else stated.default)
    assert isinstance(axis, int)
    return replace(node, attributes={**node.attributes, "axis": axis + (axis >= 0)})
