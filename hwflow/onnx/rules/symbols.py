"""Which values each scope defines and which outer ones it sees.

Definition sites are inputs, initializers and node outputs; node inputs and graph outputs are uses (NM-04).  Values have
a namespace of their own: a node, an attribute or a dim may have the name of a value (NM-02).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import quoted
from hwflow.onnx.rules.walk import NodePlace, Scope, derived, nodes_in

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
