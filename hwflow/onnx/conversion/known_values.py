"""Knowledge of the values around a node that is converted: their types, and the elements of constants."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.inference import infer_types
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, AttributeRef, Graph, Model, Node, TensorType, Value, ValueType

#: Types by name.
_Types = Mapping[str, ValueType]

#: The attributes of Constant that hold its elements, and their types.
_PLAIN = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
_TEXTS = ("value_string", "value_strings")


@dataclass
class Facts:
    """Inferred types of a whole model by the path of each graph; inferred when the first one is asked for."""

    model: Model
    limits: Limits

    @cached_property
    def _inner(self) -> Mapping[str, _Types]:
        types = infer_types(self.model, limits=self.limits)
        return {"graph": types.values, **types.inner}

    def types(self, path: str) -> _Types:
        """The types of a graph by its path.  In a body of a function (its path starts with "function "): what all calls
        share.
        """
        if not path.startswith("function "):
            return self._inner.get(path, {})
        calls = [types for place, types in self._inner.items() if place.endswith(f"/{path}")]
        names = {name for types in calls for name in types}
        shared = {name: _shared([types.get(name) for types in calls]) for name in names}
        return {name: type_ for name, type_ in shared.items() if type_ is not None}


def _shared(types: list[ValueType | None]) -> ValueType | None:
    first = types[0]
    if all(other == first for other in types):
        return first
    tensors = [t for t in types if isinstance(t, TensorType)]
    if len(tensors) != len(types) or len({t.dtype for t in tensors}) != 1:
        return None
    shapes = [t.shape for t in tensors if t.shape is not None]
    if len(shapes) != len(types) or len({len(shape) for shape in shapes}) != 1:
        return TensorType(tensors[0].dtype, None)
    dims = (column[0] if len(set(column)) == 1 else None for column in zip(*shapes, strict=True))
    return TensorType(tensors[0].dtype, tuple(dims))


@dataclass
class Scope:
    """The values that nodes of one graph see.

    `made` has the nodes that conversion added, by the names of their outputs, with their operator sets.
    """

    path: str
    facts: Facts
    outer: Scope | None = None
    constants: dict[str, Array] = field(default_factory=dict)
    made: dict[str, tuple[Node, Mapping[str, int]]] = field(default_factory=dict)
    #: Constants that no node of the wanted operator set can hold.
    initializers: dict[str, Array] = field(default_factory=dict)
    _found: dict[str, ValueType | None] = field(default_factory=dict)

    @cached_property
    def _types(self) -> _Types:
        return self.facts.types(self.path)

    def constant(self, name: str) -> Array | None:
        """The elements of a value that is the same in every run."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.constants:
                return scope.constants[name]
            scope = scope.outer
        return None

    def type_of(self, name: str) -> ValueType | None:
        """The type of a value, as far as it is known."""
        constant = self.constant(name)
        if constant is not None:
            return TensorType(constant.dtype, constant.shape)
        if name in self.made:
            if name not in self._found:
                self._found[name] = self._inferred(*self.made[name])
            return self._found[name]
        if name in self._types:
            return self._types[name]
        return self.outer.type_of(name) if self.outer is not None else None

    def _inferred(self, node: Node, opsets: Mapping[str, int]) -> ValueType | None:
        """The type of the first output of a node that was added."""
        names = list(dict.fromkeys(filter(None, node.inputs)))
        constants = {name: array for name in names if (array := self.constant(name)) is not None}
        inputs = tuple(Value(name, self.type_of(name)) for name in names if name not in constants)
        graph = Graph("one node", (node,), inputs, tuple(Value(name, None) for name in node.outputs if name), constants)
        with suppress(HwflowError):
            return infer_types(Model(graph, self.facts.model.ir_version, opsets), limits=self.facts.limits)[
                node.outputs[0]
            ]
        return None


def constant_of(node: Node) -> Array | None:
    """The elements of a Constant, as far as it holds them as a dense tensor."""
    if node.domain or node.op_type != "Constant" or len(node.attributes) != 1:
        return None
    ((key, value),) = node.attributes.items()
    if isinstance(value, AttributeRef):
        return None
    if isinstance(value, np.ndarray):
        return value
    if key in _PLAIN:
        return np.array(value, _PLAIN[key])
    return np.array(value, np.object_) if key in _TEXTS else None
