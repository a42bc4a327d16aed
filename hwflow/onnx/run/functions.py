"""Functions of a model: which node calls which, what a call makes of a body, and how large all of it gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Attribute, AttributeRef, Function, Graph, Node
from hwflow.onnx.run.calls import find


def function_path(function: Function) -> str:
    """How messages name a function's body, as "function 'com.acme.Scale'"."""
    overload = f":{function.overload}" if function.overload else ""
    return f"function '{function.domain or 'ai.onnx'}.{function.name}{overload}'"


def graphs_of(node: Node) -> Iterator[tuple[str, Graph]]:
    """The graphs in a node's attributes with the attributes' names."""
    for name, value in node.attributes.items():
        if isinstance(value, Graph):
            yield name, value
        elif isinstance(value, tuple):
            yield from ((name, entry) for entry in value if isinstance(entry, Graph))


def instantiate(function: Function, call: Node) -> tuple[Node, ...]:
    """The nodes of a body for one call: each reference to an attribute has the call's value, or else its default.

    An attribute that neither gives is left out of the body's nodes too.
    """
    attributes = {n: v for n, v in call.attributes.items() if n in function.attributes or n in function.defaults}
    return _substituted(function.nodes, {**function.defaults, **attributes})


def _substituted(nodes: tuple[Node, ...], values: Mapping[str, Attribute]) -> tuple[Node, ...]:
    """Nodes without a reference stay the same objects."""
    return tuple(_node(node, values) if any(map(_refers, node.attributes.values())) else node for node in nodes)


def _node(node: Node, values: Mapping[str, Attribute]) -> Node:
    attributes = {}
    for name, value in node.attributes.items():
        if isinstance(value, AttributeRef):
            if value.name in values:
                attributes[name] = values[value.name]
        elif isinstance(value, Graph):
            attributes[name] = _graph(value, values)
        elif isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
            attributes[name] = tuple(_graph(v, values) for v in value if isinstance(v, Graph))
        else:
            attributes[name] = value
    return replace(node, attributes=attributes)


def _graph(graph: Graph, values: Mapping[str, Attribute]) -> Graph:
    return replace(graph, nodes=_substituted(graph.nodes, values))


def _refers(value: Attribute) -> bool:
    if isinstance(value, AttributeRef):
        return True
    graphs = value if isinstance(value, tuple) else (value,)
    return any(
        _refers(inner)
        for graph in graphs if isinstance(graph, Graph)
        for node in graph.nodes
        for inner in node.attributes.values()
    )  # fmt: skip


class Functions:
    """The functions of one model by domain, name and overload."""

    def __init__(self, functions: Iterable[Function], limits: Limits) -> None:
        self._by_key = {function.key: function for function in functions}
        self._limits = limits
        self._sizes: dict[tuple[str, str, str], tuple[int, int] | None] = {}

    def called(self, node: Node, opsets: Mapping[str, int]) -> Function | None:
        """The function that a node calls.  An operator that hwflow has itself wins over a function of its name."""
        function = self._by_key.get((node.domain, node.op_type, node.overload))
        return function if function is not None and find(node, opsets)[1] is None else None

    def require_bounded(self, nodes: Iterable[Node], opsets: Mapping[str, int], what: str) -> None:
        """Raise LimitError where calls nest too deeply or all bodies together have too many nodes, each time counted.

        The count costs one visit of each function, however often it is called.  Raises InvalidModel for recursion.
        """
        count, _ = self._size(nodes, opsets, 0, what)
        if count > self._limits.nodes:
            raise LimitError(
                f"{what} must have at most {self._limits.nodes:,} nodes (nodes) with the bodies of the functions "
                f"that it calls, not {count:,}", "if you trust the model, raise it with --limit nodes=NUMBER"
            )

    def _size(self, nodes: Iterable[Node], opsets: Mapping[str, int], depth: int, what: str) -> tuple[int, int]:
        """Number of nodes and levels of graphs and functions below."""
        if depth > self._limits.depth:
            raise self._too_deep(what, depth)
        count = height = 0
        for node in nodes:
            count += 1
            inner = [self._size(graph.nodes, opsets, depth + 1, what) for _, graph in graphs_of(node)]
            function = self.called(node, opsets)
            if function is not None:
                inner.append(self._function_size(function, depth + 1))
            for size, below in inner:
                count, height = count + size, max(height, below + 1)
        if depth + height > self._limits.depth:
            raise self._too_deep(what, depth + height)
        return count, height

    def _function_size(self, function: Function, depth: int) -> tuple[int, int]:
        path = function_path(function)
        if function.key not in self._sizes:
            self._sizes[function.key] = None  # while it is being counted
            self._sizes[function.key] = self._size(function.nodes, function.opsets, depth, path)
        size = self._sizes[function.key]
        if size is None:
            raise InvalidModel(f"{path} must not call itself, directly or through others", "export the model again")
        return size

    def _too_deep(self, what: str, depth: int) -> LimitError:
        return LimitError(
            f"graphs and functions must be at most {self._limits.depth} deep in each other (depth), "
            f"not {depth} or more", "if you trust the model, raise it with --limit depth=NUMBER", where=what
        )
