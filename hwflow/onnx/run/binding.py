"""Binding: from the nodes of graphs and functions to steps that can run.

Each node gets its operator; the graphs in its attributes and the function that it calls become inner programs (`Body`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np

from hwflow.onnx.errors import EvaluationError, LimitError, Unsupported
from hwflow.onnx.limits import Limits, Meter
from hwflow.onnx.model import Array, Attribute, DType, Function, Graph, Node, Operand
from hwflow.onnx.ops.base import Call, GraphRunner, Operator
from hwflow.onnx.run.calls import check_types, find, run_quietly
from hwflow.onnx.run.functions import Functions, function_path, graphs_of, instantiate
from hwflow.onnx.run.operands import constants_of, size_of
from hwflow.onnx.schemas import Schema

#: The values of a scope by name.
Values: TypeAlias = dict[str, Operand]

#: Called with a node and the name and value of one of its outputs; gives the value that the nodes after it read.
Watch: TypeAlias = Callable[[Node, str, Operand], Operand]


@dataclass
class NodeStep:
    """One node: `where` is its place for messages, `reads` its inputs and what its graphs take from around them."""

    node: Node
    where: str
    path: str
    opset: int
    schema: Schema | None
    operator: Operator | None
    reads: tuple[str, ...]
    bodies: Mapping[str, Body]
    function: Body | None
    #: Element types of inputs that were compared with the schema already.
    seen: set[tuple[DType | type, ...]] = field(default_factory=set)

    def run(self, values: Values, meter: Meter) -> tuple[Operand, ...]:
        meter.node(self.where)
        operands = [values[name] if name else None for name in self.node.inputs]
        if self.function is not None:
            return self.function.run(operands, {}, meter)
        assert self.operator is not None  # Binder.require_complete
        call = Call(self.node, self.opset, self.path, self.schema, meter, self._runner(values, meter))
        key = tuple(v.dtype if isinstance(v, np.ndarray) else type(v) for v in operands)
        if key not in self.seen:
            check_types(call, operands)
            if list not in key and dict not in key:  # those do not tell the types of their elements
                self.seen.add(key)
        return run_quietly(call, self.operator, operands)

    def _runner(self, values: Values, meter: Meter) -> GraphRunner | None:
        if not self.bodies:
            return None

        def run_graph(name: str, inputs: Sequence[Operand]) -> tuple[Operand, ...]:
            return self.bodies[name].run(inputs, values, meter)

        return run_graph


@dataclass(frozen=True)
class Steps:
    """The steps that some values depend on, in order, each with the names of the values that end with it."""

    ordered: tuple[tuple[NodeStep, tuple[str, ...]], ...]
    reads: frozenset[str]

    @classmethod
    def of(cls, steps: Sequence[NodeStep], names: Iterable[str]) -> Self:
        """`steps` in their order, to compute `names`.

        Any other value ends with the last step that reads it, or with the one that makes it where none does.
        """
        alive = set(names)
        last_use: dict[str, int] = {}
        for index, step in enumerate(steps):
            last_use.update((name, index) for name in step.node.outputs if name)
            last_use.update((name, index) for name in step.reads if name in last_use)
        ends: list[list[str]] = [[] for _ in steps]
        for name, index in last_use.items():
            if name not in alive:
                ends[index].append(name)
        reads = {name for step in steps for name in step.reads} | alive
        return cls(tuple(zip(steps, map(tuple, ends), strict=True)), frozenset(reads))

    def run(self, values: Values, meter: Meter, watch: Watch | None = None) -> None:
        for step, last_uses in self.ordered:
            for name, result in zip(step.node.outputs, step.run(values, meter), strict=False):
                if name:
                    values[name] = result if watch is None else watch(step.node, name, result)
                    size = size_of(result)
                    if size > meter.limits.tensor_bytes and isinstance(result, np.ndarray):
                        meter.tensor(result.shape, result.dtype, step.where)
                    meter.hold(size, step.where)
            for name in last_uses:
                meter.hold(-size_of(values.pop(name)), step.where)


@dataclass(frozen=True)
class Body:
    """A graph in an attribute, or a function: `captures` are the names that it reads from the graph around it."""

    path: str
    inputs: tuple[str, ...]
    required: int  # how many of the inputs must be given
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    steps: Steps
    captures: tuple[str, ...]
    computed: tuple[str, ...]  # outputs that nodes of the body make

    def run(self, inputs: Sequence[Operand], outer: Mapping[str, Operand], meter: Meter) -> tuple[Operand, ...]:
        """The outputs for inputs by position.  Those that a function's call leaves off are left out inside too."""
        if not self.required <= len(inputs) <= len(self.inputs):
            raise EvaluationError(
                f"the inputs must be {len(self.inputs)}, not {len(inputs)}", "export the model again", where=self.path
            )
        values: Values = {name: outer[name] for name in self.captures}
        values.update(self.constants)
        values.update(zip(self.inputs, inputs, strict=False))
        for name in self.inputs[len(inputs) :]:
            values.setdefault(name)
        self.steps.run(values, meter)
        for name in self.computed:
            meter.hold(-size_of(values[name]), self.path)
        return tuple(values[name] for name in self.outputs)


@dataclass(frozen=True)
class Scope:
    """The scope of nodes: `given` are the names that are there before any node; an inner scope sees those around it."""

    path: str
    opsets: Mapping[str, int]
    given: frozenset[str]
    kind: str
    is_inner: bool = False


class Binder:
    """Binds nodes.  What is missing is collected, so that one message names all of it."""

    def __init__(self, functions: Functions, limits: Limits) -> None:
        self.functions = functions
        self._limits = limits
        self._missing: list[str] = []
        self._bound = 0
        self._bodies: dict[Hashable, tuple[Body, Node]] = {}

    def require_complete(self) -> None:
        """Raise Unsupported where operators are missing."""
        if self._missing:
            names, self._missing = sorted(set(self._missing), key=_position), []
            more = f" and {len(names) - 20} more" if len(names) > 20 else ""
            raise Unsupported(
                f"the operators must be ones that hwflow evaluates, not those of {', '.join(names[:20])}{more}",
                "`hwflow check` says more"
            )

    def needed(
        self, nodes: Sequence[Node], names: Iterable[str], scope: Scope, steps: dict[int, NodeStep]
    ) -> tuple[list[int], tuple[str, ...]]:
        """The nodes that names depend on, in order, bound into `steps`; and the names that come from around."""
        producer = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
        todo, needed, captures = list(names), set[int](), dict[str, None]()
        while todo:
            name = todo.pop()
            index = producer.get(name)
            if name in scope.given or index in needed:
                continue
            if index is None:
                captures[name] = None
                continue
            if index not in steps:
                steps[index] = self._step(nodes[index], scope.opsets, f"{scope.path}/node[{index}]")
            needed.add(index)
            todo.extend(steps[index].reads)
        if captures and not scope.is_inner:
            listed = ", ".join(f"'{name}'" for name in captures)
            raise EvaluationError(
                f"{listed} must be a tensor of the {scope.kind}, not an unknown name", "`hwflow info` lists them"
            )
        order = sorted(needed)
        _require_order([steps[index] for index in order], producer, scope.given)
        return order, tuple(captures)

    def _step(self, node: Node, opsets: Mapping[str, int], path: str) -> NodeStep:
        where = f"{path} {node.label}"
        schema, operator = find(node, opsets)
        function = self.functions.called(node, opsets) if operator is None else None
        if operator is None and function is None:
            self._missing.append(where)
        bodies = {}
        if operator is not None:
            bodies = {name: self._graph(g, opsets, f"{where}/attribute '{name}'") for name, g in graphs_of(node)}
        captured = (name for body in bodies.values() for name in body.captures)
        reads = dict.fromkeys((*filter(None, node.inputs), *captured))
        if function is not None and len(node.outputs) > len(function.outputs):
            raise EvaluationError(
                f"{where}: the outputs must be at most {len(function.outputs)}, as {function_path(function)} has, "
                f"not {len(node.outputs)}", "export the model again"
            )
        inner = self._function(function, node) if function is not None else None
        return NodeStep(node, where, path, opsets.get(node.domain, 0), schema, operator, tuple(reads), bodies, inner)

    def _graph(self, graph: Graph, opsets: Mapping[str, int], path: str) -> Body:
        constants = constants_of(graph, path, self._limits)
        inputs = tuple(value.name for value in (*graph.inputs, *graph.overridable))
        outputs = tuple(value.name for value in graph.outputs)
        scope = Scope(path, opsets, frozenset((*inputs, *constants)), "graph", is_inner=True)
        return self._body(graph.nodes, inputs, len(graph.inputs), outputs, constants, scope)

    def _function(self, function: Function, call: Node) -> Body:
        """The body for one call; calls with the same attributes share it."""
        key = (function.key, *((name, id(value)) for name, value in sorted(call.attributes.items(), key=_name)))
        if key not in self._bodies:
            path = function_path(function)
            nodes = instantiate(function, call)
            self._bound += len(nodes)
            if self._bound > self._limits.inlined_nodes:
                raise LimitError(
                    f"{path}: the bodies of functions must have at most {self._limits.inlined_nodes:,} nodes "
                    f"(inlined_nodes) in all their forms, not {self._bound:,}",
                    "if you trust the model, raise it with --limit inlined_nodes=NUMBER"
                )
            scope = Scope(path, function.opsets, frozenset(function.inputs), "function")
            body = self._body(nodes, function.inputs, 0, function.outputs, {}, scope)
            self._bodies[key] = body, call  # the call keeps the attributes alive whose ids make the key
        return self._bodies[key][0]

    def _body(
        self, nodes: tuple[Node, ...], inputs: tuple[str, ...], required: int, outputs: tuple[str, ...],
        constants: Mapping[str, Array], scope: Scope,
    ) -> Body:  # fmt: skip
        steps: dict[int, NodeStep] = {}
        needed, captures = self.needed(nodes, outputs, scope, steps)
        ordered = Steps.of([steps[index] for index in needed], outputs)
        inner_names = {name for index in needed for name in nodes[index].outputs}
        computed = tuple(name for name in dict.fromkeys(outputs) if name in inner_names)
        return Body(scope.path, inputs, required, outputs, constants, ordered, captures, computed)


def _name(item: tuple[str, Attribute]) -> str:
    return item[0]


def _position(where: str) -> tuple[list[int], str]:
    """The order of the file for places like "graph/node[12] 'conv1' (Conv)"; functions after graphs."""
    return [int(where.startswith("function")), *map(int, re.findall(r"/node\[(\d+)\] ", where))], where


def _require_order(steps: Sequence[NodeStep], producer: Mapping[str, int], fed: frozenset[str]) -> None:
    """Raise EvaluationError where a node reads what a node after it computes."""
    computed: set[str] = set()
    for step in steps:
        late = [name for name in step.reads if name in producer and name not in computed and name not in fed]
        if late:
            raise EvaluationError(
                f"{step.where}: '{late[0]}' must be computed before it is read, not after it", "export the model again"
            )
        computed.update(step.node.outputs)
