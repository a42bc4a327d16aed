"""One walk over everything in a file: graphs, graphs in attributes, function bodies, training graphs, their tensors.

The walk is iterative, in the order of the file, and the places carry the path that findings show.  Nesting ends at
protobuf's own limit of 100 messages, which is 32 graphs deep; `Document` holds nothing deeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeVar, Union

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import quoted
from hwflow.onnx.schemas import canonical_domain

T = TypeVar("T")


@dataclass(frozen=True)
class Scope:
    """A graph or the body of a function, with what is around it.

    `outer` is the scope whose node `at` holds this graph in an attribute; None for a main graph, a training graph and a
    function.  `opsets` are the operator sets in force, "ai.onnx" written as "".  `kind` is "graph", "function",
    "initialization" or "algorithm" for the outermost scope and "subgraph" below.
    """

    proto: Union[pb.GraphProto, pb.FunctionProto]
    path: str
    kind: str
    opsets: Mapping[str, int]
    outer: Scope | None = None
    at: int = -1

    @property
    def outermost(self) -> Scope:
        scope = self
        while scope.outer is not None:
            scope = scope.outer
        return scope


class NodePlace(NamedTuple):
    """Node number `number` of a scope.

    What many rules ask for is read from the message once: `name`, `inputs`, `outputs`, `op_type`, `domain` ("ai.onnx"
    written as ""), and `opset`, the version of the node's operator set, None where it is not imported.
    """

    scope: Scope
    number: int
    proto: pb.NodeProto
    name: str
    op_type: str
    domain: str
    opset: int | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def path(self) -> str:
        """A place like "graph/node[12] 'conv1' (Conv)"; a node without a name goes by its first output."""
        return _node_path(self.scope, self.number, self.proto)


@dataclass(frozen=True)
class TensorPlace:
    """A TensorProto anywhere in the file: initializers, attributes, and both parts of sparse tensors."""

    proto: pb.TensorProto
    path: str
    is_initializer: bool = False


def _place(scope: Scope, index: int, node: pb.NodeProto) -> NodePlace:
    domain = canonical_domain(node.domain)
    opset = scope.opsets.get(domain)
    names = tuple(node.input), tuple(node.output)
    return NodePlace(scope, index, node, node.name, node.op_type, domain, opset, *names)


def _node_path(scope: Scope, index: int, node: pb.NodeProto) -> str:
    label = node.name or next(filter(None, node.output), "?")
    return f"{scope.path}/node[{index}] {quoted(label)} ({quoted(node.op_type)[1:-1]})"


def _imports(entries: Iterable[pb.OperatorSetIdProto]) -> dict[str, int]:
    return {canonical_domain(entry.domain): entry.version for entry in entries}


@dataclass(frozen=True)
class _Walk:
    """The findings of one walk over a document."""

    document: Document
    scopes: tuple[Scope, ...]
    nodes: tuple[tuple[NodePlace, ...], ...]
    tensors: tuple[TensorPlace, ...]
    derived: dict[str, Any] = field(default_factory=dict)


_REMEMBERED: ContextVar[_Walk | None] = ContextVar("walk", default=None)


@contextmanager
def remembered(document: Document) -> Iterator[None]:
    """Inside, all rules share one walk over the document, which must not change meanwhile."""
    scopes = tuple(_scopes(document))
    walk = _Walk(document, scopes, tuple(map(_nodes, scopes)), tuple(_tensors(scopes)))
    token = _REMEMBERED.set(walk)
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


def _walk(document: Document) -> _Walk | None:
    walk = _REMEMBERED.get()
    return walk if walk is not None and walk.document is document else None


def derived(document: Document, make: Callable[[Document], T]) -> T:
    """The findings of `make` in a document, which the rules that need it share."""
    walk = _walk(document)
    if walk is None:
        return make(document)
    name = f"{make.__module__}.{make.__qualname__}"
    if name not in walk.derived:
        walk.derived[name] = make(document)
    findings: T = walk.derived[name]
    return findings


def scopes(document: Document) -> Iterable[Scope]:
    """Every scope, outer ones before inner ones."""
    walk = _walk(document)
    return walk.scopes if walk else _scopes(document)


def nodes(document: Document) -> Iterable[NodePlace]:
    """Every node of every scope."""
    return chain.from_iterable(places for _, places in nodes_in(document))


def nodes_in(document: Document) -> Iterable[tuple[Scope, tuple[NodePlace, ...]]]:
    """Every scope with its nodes."""
    walk = _walk(document)
    return zip(walk.scopes, walk.nodes, strict=True) if walk else ((s, _nodes(s)) for s in _scopes(document))


def with_attributes(document: Document) -> Sequence[NodePlace]:
    """Every node that has attributes."""
    return derived(document, _with_attributes)


def _with_attributes(document: Document) -> Sequence[NodePlace]:
    return [place for place in nodes(document) if place.proto.attribute]


def tensors(document: Document) -> Iterable[TensorPlace]:
    """Every tensor of the file."""
    walk = _walk(document)
    return walk.tensors if walk else _tensors(_scopes(document))


def _scopes(document: Document) -> Iterator[Scope]:
    proto = document.proto
    opsets = _imports(proto.opset_import)
    if not opsets and 1 <= proto.ir_version < 3:  # there was one operator set, in one version, and no way to name it
        opsets = {"": 1}
    waiting = [Scope(proto.graph, "graph", "graph", opsets)] if proto.HasField("graph") else []
    for function in proto.functions:
        path = f"function {quoted((canonical_domain(function.domain) or 'ai.onnx') + '.' + function.name)}"
        waiting.append(Scope(function, path, "function", _imports(function.opset_import)))
    for index, training in enumerate(proto.training_info):
        for kind in ("initialization", "algorithm"):
            if training.HasField(kind):
                waiting.append(Scope(getattr(training, kind), f"training_info[{index}]/{kind}", kind, opsets))
    waiting.reverse()
    while waiting:
        scope = waiting.pop()
        yield scope
        waiting.extend(reversed(list(_inner(scope))))


def _inner(scope: Scope) -> Iterator[Scope]:
    for index, node in enumerate(scope.proto.node):
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else []
            for number, graph in enumerate((*graphs, *attribute.graphs)):
                place = _node_path(scope, index, node)
                entry = "" if attribute.HasField("g") and number == 0 else f"[{number - len(graphs)}]"
                path = f"{place}/attribute {quoted(attribute.name)}{entry}"
                yield Scope(graph, path, "subgraph", scope.opsets, scope, index)


def _nodes(scope: Scope) -> tuple[NodePlace, ...]:
    return tuple(_place(scope, index, node) for index, node in enumerate(scope.proto.node))


def _tensors(scopes: Iterable[Scope]) -> Iterator[TensorPlace]:
    for scope in scopes:
        if isinstance(scope.proto, pb.GraphProto):
            for tensor in scope.proto.initializer:
                yield TensorPlace(tensor, f"{scope.path}/initializer {quoted(tensor.name)}", True)
            for sparse in scope.proto.sparse_initializer:
                yield from _parts(sparse, f"{scope.path}/sparse_initializer {quoted(sparse.values.name)}")
        else:
            for default in scope.proto.attribute_proto:
                yield from _in_attribute(default, f"{scope.path}/attribute_proto {quoted(default.name)}")
        for index, node in enumerate(scope.proto.node):
            for attribute in node.attribute:
                if any(attribute.HasField(field) for field in ("t", "sparse_tensor")) or (
                    attribute.tensors or attribute.sparse_tensors
                ):
                    place = _node_path(scope, index, node)
                    yield from _in_attribute(attribute, f"{place}/attribute {quoted(attribute.name)}")


def _in_attribute(attribute: pb.AttributeProto, path: str) -> Iterator[TensorPlace]:
    if attribute.HasField("t"):
        yield TensorPlace(attribute.t, path)
    for index, tensor in enumerate(attribute.tensors):
        yield TensorPlace(tensor, f"{path}[{index}]")
    if attribute.HasField("sparse_tensor"):
        yield from _parts(attribute.sparse_tensor, path)
    for index, sparse in enumerate(attribute.sparse_tensors):
        yield from _parts(sparse, f"{path}[{index}]")


def _parts(sparse: pb.SparseTensorProto, path: str) -> Iterator[TensorPlace]:
    yield TensorPlace(sparse.values, f"{path}/values")
    yield TensorPlace(sparse.indices, f"{path}/indices")


#: Order of a value that is there before the first node.
START = -1


@dataclass(frozen=True)
class Table:
    """The values of one scope.

    `order` gives the node that defines a value first, START for inputs and initializers.  `again` are nodes that define
    a value once more.  Of `outer`, the values that are defined before node `before` are visible here.
    """

    scope: Scope
    nodes: Sequence[NodePlace]
    order: dict[str, int] = field(default_factory=dict)
    again: list[tuple[int, str]] = field(default_factory=list)
    outer: Table | None = None
    before: int = 0

    def _around(self) -> Iterator[tuple[Table, int]]:
        table = self
        while table.outer is not None:
            yield table.outer, table.before
            table = table.outer

    def sees(self, name: str) -> bool:
        """Whether an outer scope defines the value before this scope starts."""
        return any(table.order.get(name, before) < before for table, before in self._around())

    def later(self, name: str) -> str | None:
        """The place that defines the value in an outer scope, but too late."""
        return next((table.definition(name) for table, _ in self._around() if name in table.order), None)

    def definition(self, name: str) -> str:
        """The definition of a value of this scope, for messages."""
        index = self.order[name]
        return f"input or initializer {quoted(name)}" if index == START else self.node(index).path

    def node(self, index: int) -> NodePlace:
        return self.nodes[index]


def initializer_names(graph: pb.GraphProto) -> Iterator[str]:
    """Names of dense and sparse initializers, as often as they are there."""
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)


def tables(document: Document) -> list[Table]:
    """One for each scope, in the order of the walk.  A training algorithm continues the main graph (TR-09)."""
    return derived(document, _tables)


def _tables(document: Document) -> list[Table]:
    tables: dict[int, Table] = {}
    main: Table | None = None
    for scope, nodes in nodes_in(document):
        if scope.outer is not None:
            table = Table(scope, nodes, outer=tables[id(scope.outer)], before=scope.at)
        elif scope.kind == "algorithm" and main is not None:
            table = Table(scope, nodes, outer=main, before=len(main.nodes))
        else:
            table = Table(scope, nodes)
        _fill(table)
        tables[id(scope)] = table
        main = table if scope.kind == "graph" else main
    return list(tables.values())


def _fill(table: Table) -> None:
    proto, order = table.scope.proto, table.order
    if isinstance(proto, pb.FunctionProto):
        order.update(dict.fromkeys(proto.input, START))
    else:
        order.update(dict.fromkeys((value.name for value in proto.input), START))
        order.update(dict.fromkeys(initializer_names(proto), START))
    order.pop("", None)
    for index, node in enumerate(table.nodes):
        for name in filter(None, node.outputs):
            if name in order:
                table.again.append((index, name))
            else:
                order[name] = index
