"""One node while it is written for a neighbouring version of its operator: what a step sees and writes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.inference import infer_types
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import (
    Array,
    Attribute,
    AttributeLike,
    AttributeRef,
    DType,
    Graph,
    Model,
    Node,
    TensorType,
    Value,
    ValueType,
)
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.rewrite.renaming import Fresh
from hwflow.onnx.run.evaluate import evaluate
from hwflow.onnx.schemas import Schema
from hwflow.onnx.types import notation

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


#: Elements of the constants that are computed at once instead of by a node.
_FOLDED = 1 << 12

#: The operator set since which Constant takes lists and numbers, and with them a reference to a function's attribute.
_PLAIN_CONSTANTS = 12
_CONSTANT_OF_KIND = {1: "value_float", 2: "value_int", 3: "value_string", 6: "value_floats", 7: "value_ints"}

INLINE = "inline the model's functions first (hwflow.onnx.inline_functions)"


class Refusal(Exception):
    """Why one node cannot be written as wanted, and what to do; `convert` collects them."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


@dataclass
class NodeConversion:
    """The place of `node`, which is written as `schema` has it, in a graph that is converted.

    A step adds what takes its place, in order.  The new nodes are of the operator sets `opsets`: of those in which
    `wanted` (None for an operator that is not there any more, or not yet) is valid.  Nodes that mean something else in
    the operator sets `targets` are converted further.  Graphs in attributes of `node` are those of `targets` already.
    """

    node: Node
    schema: Schema
    wanted: Schema | None
    opsets: dict[str, int]
    targets: dict[str, int]
    scope: Scope
    fresh: Fresh
    #: Gives nodes of `opsets` the form of `targets`, for bodies that a step makes.
    finished: Callable[[Sequence[Node], NodeConversion], tuple[Node, ...]]
    made: list[Node] = field(default_factory=list)

    @property
    def opset(self) -> int:
        """The version of the node's own operator set in which the new nodes are."""
        return self.opsets[self.node.domain]

    @property
    def upward(self) -> bool:
        """Whether a newer version is wanted."""
        return self.opset > self.schema.since

    def refuse(self, why: str, remedy: str) -> Refusal:
        """The exception to raise where the meaning cannot be kept."""
        return Refusal(why, remedy)

    # ---- what the node says

    def has(self, name: str) -> bool:
        """Whether the node states an attribute."""
        return name in self.node.attributes

    def input(self, position: int) -> str:
        """The name of an input; empty where it is left out."""
        return self.node.input(position)

    def reads(self, position: int) -> bool:
        return bool(self.input(position))

    def names(self, position: int) -> bool:
        """Whether the node names an output."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])

    def attribute(self, name: str) -> Any:
        """An attribute, or its default, or None where there is neither."""
        stated = self.schema.attributes.get(name)
        value = self.node.attributes.get(name, None if stated is None else stated.default)
        if isinstance(value, AttributeRef):
            raise self.refuse(
                f"attribute '{name}' is what each call of the function gives ('{value.name}'), and the form of the "
                f"node depends on it",
                INLINE,
            )
        return value

    def attributes(self, *without: str, **more: Attribute) -> dict[str, Attribute]:
        """The node's attributes without some and with others."""
        return {**{key: value for key, value in self.node.attributes.items() if key not in without}, **more}

    # ---- what is known of values

    def value(self, name: str) -> Arr | None:
        """The elements of a constant; None where they are computed or may be fed."""
        return self.scope.constant(name)

    def tensor(self, name: str) -> TensorType | None:
        type_ = self.scope.type_of(name)
        return type_ if isinstance(type_, TensorType) else None

    def dtype(self, name: str) -> DType | None:
        tensor = self.tensor(name)
        return None if tensor is None else tensor.dtype

    def rank(self, name: str) -> int | None:
        tensor = self.tensor(name)
        return None if tensor is None or tensor.shape is None else len(tensor.shape)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape where all of it is known."""
        tensor = self.tensor(name)
        if tensor is None or tensor.shape is None or not tensor.is_static:
            return None
        return tuple(int(d) for d in tensor.shape if d is not None)

    def needs_rank(self, name: str) -> int:
        """The rank; a refusal where it is not known."""
        rank = self.rank(name)
        if rank is None:
            raise self.refuse(
                f"the number of axes of '{name}' decides what the node means, and the file does not give it",
                "state the shapes of the model's inputs, or export the model again",
            )
        return rank

    def needs_dtype(self, name: str) -> DType:
        """The element type; a refusal where it is not known."""
        dtype = self.dtype(name)
        if dtype is None:
            raise self.refuse(
                f"the element type of '{name}' decides how the node is written, and the file does not give it",
                "state the types of the model's inputs and of the function's values, or export the model again",
            )
        return dtype

    def require_types(self) -> None:
        """Refuse operands of types that the wanted version does not have yet."""
        if self.wanted is None:
            return
        pairs = [(name, self.wanted.input(i), "input") for i, name in enumerate(self.node.inputs)]
        pairs += [(name, self.wanted.output(i), "output") for i, name in enumerate(self.node.outputs)]
        for name, parameter, kind in pairs:
            type_ = self.scope.type_of(name) if name and parameter is not None else None
            if type_ is None or parameter is None:
                continue
            text, allowed = notation(type_), self.wanted.allowed(parameter)
            if "?" not in text and text not in allowed and f"optional({text})" not in allowed:
                raise self.refuse(
                    f"{kind} '{name}' is {text}, which version {self.wanted.since} of the operator does not take",
                    f"convert to operator set {self.schema.since} or newer, or insert a Cast",
                )

    # ---- what is written

    def keep(self, **changes: Any) -> None:
        """The node itself, with `changes` of its fields."""
        self.made.append(replace(self.node, **changes) if changes else self.node)

    def result(self, op_type: str, *inputs: str, domain: str = "", **attributes: AttributeLike) -> None:
        """The node that gives the outputs: under the name of the old one."""
        self.made.append(
            replace(self.node, op_type=op_type, domain=domain, inputs=tuple(inputs), attributes=_stated(attributes))
        )

    def add(self, op_type: str, *inputs: str, domain: str = "", **attributes: AttributeLike) -> str:
        """The name of the output of a new node; of a constant where its inputs are small constants."""
        return self.add_all(op_type, *inputs, count=1, domain=domain, **attributes)[0]

    def add_all(
        self, op_type: str, *inputs: str, count: int, domain: str = "", **attributes: AttributeLike
    ) -> tuple[str, ...]:
        """The same as `add`, for a node of `count` outputs."""
        base = next(filter(None, self.node.outputs), self.node.op_type)
        names = tuple(self.fresh(f"{base}.{op_type.lower()}") for _ in range(count))
        node = Node(op_type, tuple(inputs), names, _stated(attributes), names[0], domain)
        folded = self._computed(node) if count == 1 else None
        if folded is not None:
            return (self._constant(folded, names[0]),)
        self.write(node)
        return names

    def write(self, node: Node) -> None:
        """A node as it is given, of the operator sets `opsets`."""
        self.made.append(node)
        constant = constant_of(node)
        if constant is not None:
            self.scope.constants[node.outputs[0]] = constant
        elif len(list(filter(None, node.outputs))) == 1:
            self.scope.made[node.outputs[0]] = (node, dict(self.opsets))

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        """The name of a new constant."""
        base = next(filter(None, self.node.outputs), self.node.op_type)
        return self._constant(np.asarray(value, dtype), self.fresh(f"{base}.constant"))

    def _constant(self, array: Array, name: str) -> str:
        self.write(Node("Constant", (), (name,), {"value": array}, name))
        return name

    def _computed(self, node: Node) -> Array | None:
        """The output of a node for small constants."""
        constants = [array for name in filter(None, node.inputs) if (array := self.value(name)) is not None]
        if not constants or sum(array.size for array in constants) > _FOLDED:
            return None
        results = self.results(node, self.opsets)
        return None if results is None else results[node.outputs[0]]

    def results(self, node: Node, opsets: Mapping[str, int]) -> dict[str, Array] | None:
        """The outputs of a node of constants, as far as they are small tensors; None for any other node."""
        names = {*filter(None, node.inputs)}
        values = {name: array for name in names if (array := self.value(name)) is not None}
        if len(values) != len(names):
            return None
        outputs = tuple(Value(name, None) for name in node.outputs if name)
        model = Model(Graph("one node", (node,), (), outputs, values), self.scope.facts.model.ir_version, opsets)
        with suppress(HwflowError):  # the node itself then says what is wrong with it
            results = evaluate(model, {}, limits=DEFAULT_LIMITS)
            tensors = {name: array for name, array in results.items() if isinstance(array, np.ndarray)}
            if len(tensors) == len(outputs) and all(array.size <= _FOLDED for array in tensors.values()):
                return tensors
        return None

    def node_for(self, result: str, op_type: str, *inputs: str, domain: str = "", **attributes: AttributeLike) -> None:
        """A node that gives the output `result` of the old one."""
        self.write(Node(op_type, tuple(inputs), (result,), _stated(attributes), result, domain))

    def inner(self, inputs: Sequence[Value], build: Callable[[], Sequence[str]]) -> Graph:
        """A graph for an attribute: `build` adds its nodes and gives the names of its outputs."""
        outside, self.made = self.made, []
        outputs = build()
        nodes, self.made = self.finished(self.made, self), outside
        return Graph("body", nodes, tuple(inputs), tuple(Value(name, None) for name in outputs), {})

    def shape_value(self, name: str) -> str:
        """The shape of a value as an int64 tensor: a constant where it is known."""
        known = self.shape(name)
        return self.add("Shape", name) if known is None else self.constant(known, np.int64)

    def moved(self, name: str, dtype: npt.DTypeLike = np.int64) -> str:
        """The value of an attribute as an input: empty where the node does not state it, nor its schema a default."""
        value = self.node.attributes.get(name)
        if isinstance(value, AttributeRef) and self.opsets.get("", 0) >= _PLAIN_CONSTANTS:
            base = next(filter(None, self.node.outputs), self.node.op_type)
            value_name = self.fresh(f"{base}.{name}")
            self.write(Node("Constant", (), (value_name,), {_CONSTANT_OF_KIND[value.kind]: value}, value_name))
            return value_name
        value = self.attribute(name)
        return "" if value is None else self.constant(value, dtype)

    def cast(self, name: str, dtype: npt.DTypeLike) -> str:
        """The value with another element type; itself where it has that type."""
        target = np.dtype(dtype)
        if self.dtype(name) == target:
            return name
        return self.add("Cast", name, to=element_type_of(target, f"'{name}'").code)

    def later(self, version: int, why: str) -> None:
        """Write the new nodes for a later version of the node's operator set; refused beyond the one that is wanted."""
        if version > self.targets[self.node.domain]:
            raise self.refuse(why, f"convert to operator set {version} or newer")
        self.opsets[self.node.domain] = max(version, self.opset)


def _stated(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """Without those that are None; numpy's scalars and lists as a model holds them."""
    return {
        key: tuple(value) if isinstance(value, list) else value.item() if isinstance(value, np.generic) else value
        for key, value in attributes.items()
        if value is not None
    }
