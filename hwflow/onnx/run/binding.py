"""Binding: from the nodes of graphs and functions to steps that can run.

Each node gets its operator; the graphs in its attributes and the function that it calls become inner programs (`Body`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwflow.onnx.errors import EvaluationError, LimitError, Unsupported
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, Attribute, Function, Graph, Node
from hwflow.onnx.run.calls import find
from hwflow.onnx.run.functions import Functions, function_path, graphs_of, instantiate
from hwflow.onnx.run.operands import constants_of
from hwflow.onnx.run.steps import Body, NodeStep, Steps


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
