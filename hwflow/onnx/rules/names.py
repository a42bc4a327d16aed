"""Rules about names: every value is defined once, before it is read, and seen from where it is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import AGAIN, Finding, Nearest, Rule, error, lenient, quoted, warning
from hwflow.onnx.rules.walk import START, NodePlace, Scope, Table, initializer_names, nodes_in, scopes, tables

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SORT = "sort the nodes, as `hwflow onnx convert MODEL sorted.onnx` does"
#: So many places where a graph is not sorted are reported one by one.
_MOST = 8


def names_are_identifiers(document: Document) -> Iterator[Finding]:
    """NM-01: one finding a scope, because hardly an exporter follows the rule."""
    for scope, nodes in nodes_in(document):
        names = list(_defined_names(scope, nodes))
        wrong = [name for name in names if not _IDENTIFIER.fullmatch(name)]
        if wrong:
            text = f"names must be C identifiers, not {quoted(wrong[0])}"
            text += f" ({len(wrong)} of {len(names)} are not)" if len(names) > 1 else ""
            yield lenient("NM-01", "W-name", scope.path, text, "nothing to do for hwflow; rename them for other tools")


def _defined_names(scope: Scope, nodes: Sequence[NodePlace]) -> Iterator[str]:
    proto = scope.proto
    if isinstance(proto, pb.FunctionProto):
        yield from proto.input
    else:
        yield from (value.name for value in proto.input)
        yield from initializer_names(proto)
    yield from filter(None, [proto.name])
    for node in nodes:
        yield from filter(None, (node.name, *node.outputs))


def nodes_distinct(document: Document) -> Iterator[Finding]:
    """NM-03: names of nodes are unique in a graph; nodes without a name are fine (ND-01)."""
    for _, nodes in nodes_in(document):
        seen: dict[str, int] = {}
        for place in nodes:
            name = place.name
            if name and seen.setdefault(name, place.number) != place.number:
                text = f"the name of the node must be its own, not that of node[{seen[name]}] too"
                remedy = "rename one of them; onnxruntime refuses the model"
                yield lenient("NM-03", "W-dup-node", place.path, text, remedy)


def defined_once(document: Document) -> Iterator[Finding]:
    """NM-05, NM-06: single assignment."""
    for table in tables(document):
        for index, name in table.again:
            rule = "NM-05" if table.order[name] == START else "NM-06"
            text = f"{quoted(name)} must be written once, not also by {table.definition(name)}"
            yield error(rule, table.node(index).path, text)


def nothing_hidden(document: Document) -> Iterator[Finding]:
    """NM-07, NM-08: a subgraph gives no outer name another meaning.  Siblings may use the same names (NM-09)."""
    for table in tables(document):
        if table.outer is None:
            continue
        for name, index in table.order.items():
            if not table.sees(name):
                continue
            outer = f"{quoted(name)} must be a name of its own, not that of an outer value"
            remedy = "rename the inner value"
            if table.scope.kind == "algorithm":
                yield lenient("TR-09", "W-training-name", table.scope.path, outer, remedy)
            elif index == START:
                yield lenient("NM-08", "W-shadow", table.scope.path, outer, f"{remedy}; the inner one counts")
            else:
                yield error("NM-07", table.node(index).path, outer, remedy)


def inputs_of_subgraphs(document: Document) -> Iterator[Finding]:
    """NM-11: the operator that holds the graph gives its inputs, so they have no default."""
    if document.proto.ir_version < 4:  # there each initializer had to be an input as well
        return
    for scope in scopes(document):
        if scope.kind != "subgraph" or not isinstance(scope.proto, pb.GraphProto):
            continue
        initialized = set(initializer_names(scope.proto))
        for index, value in enumerate(scope.proto.input):
            if value.name in initialized:
                text = f"{quoted(value.name)} must be an input or an initializer of a subgraph, not both"
                yield error("NM-11", f"{scope.path}/input[{index}]", text, "remove one of them")


def defined_before_use(document: Document) -> Iterator[Finding]:
    """GR-01, GR-04, GR-05, NM-10, NM-14, ND-06, ND-07: nodes are sorted and read what is there.

    In the body of a function an undefined name is a violation of FN-04: it sees its own values only.
    """
    nearest = Nearest()
    for table in tables(document):
        late: dict[int, list[str]] = {}
        for index, node in enumerate(table.nodes):
            for name in filter(None, node.inputs):
                order = table.order.get(name)
                if order is None:
                    if not table.sees(name):
                        yield _undefined(table, index, name, nearest)
                elif order >= index:
                    late.setdefault(index, []).append(name)
        if late:
            yield from _unsorted(table, late)


def _undefined(table: Table, index: int, name: str, nearest: Nearest) -> Finding:
    path = table.node(index).path
    if later := table.later(name):
        text = f"the outer value {quoted(name)} must be written before the node that holds this graph, not by {later}"
        return error("NM-10", path, text, _SORT)
    guess = nearest.guess(name, _visible_names(table))
    remedy = f"{guess}{AGAIN}"
    if table.scope.outermost.kind == "function":
        return error("FN-04", path, f"{quoted(name)} must be a value of the function, not undefined", remedy)
    return error("NM-14", path, f"{quoted(name)} must be a value of the graph, not undefined", remedy)


def _visible_names(table: Table) -> Iterable[str]:
    around: Table | None = table
    while around is not None:
        yield from around.order
        around = around.outer


def _unsorted(table: Table, late: dict[int, list[str]]) -> Iterator[Finding]:
    in_cycle: dict[int, int] = {}
    for number, cycle in enumerate(find_cycles(table)):
        in_cycle.update(dict.fromkeys(cycle, number))
        yield error("GR-01", table.node(cycle[0]).path, f"the graph must have no cycle, not {_shown(table, cycle)}")
    places = [(index, name) for index, names in late.items() for name in names]
    places = [(index, name) for index, name in places
              if index not in in_cycle or in_cycle[index] != in_cycle.get(table.order[name])]  # fmt: skip
    for number, (index, name) in enumerate(places):
        if number == _MOST:
            text = f"values must be written before they are read, and {len(places) - _MOST} more are not"
            yield error("GR-04", table.node(index).path, text, _SORT)
            return
        text = f"{quoted(name)} must be written before it is read, not later by {table.node(table.order[name]).path}"
        yield error("GR-04", table.node(index).path, text, _SORT)


def _shown(table: Table, cycle: list[int]) -> str:
    """A text like "a -> b -> a", from a node to one that reads from it."""
    nodes = [table.nodes[index] for index in cycle]
    labels = [quoted(node.name or next(filter(None, node.outputs), "?"))[1:-1] for node in nodes]
    if len(labels) > 10:
        labels = [*labels[:6], f"({len(labels) - 8} more)", *labels[-2:]]
    return " -> ".join([*labels, labels[0]])


def outputs_defined(document: Document) -> Iterator[Finding]:
    """GR-14, NM-12: each output is a value of its own graph."""
    nearest = Nearest()
    for table in tables(document):
        scope = table.scope
        if not isinstance(scope.proto, pb.GraphProto):
            continue
        seen: set[str] = set()
        for index, value in enumerate(scope.proto.output):
            name, path = value.name, f"{scope.path}/output[{index}]"
            if name and name not in table.order:
                yield _undefined_output(table, path, name, nearest)
            if name and name in seen:
                text = f"{quoted(name)} should be one output, not two"
                yield warning("GR-14", "W-dup-output", path, text, "remove one of them, or copy it with Identity")
            seen.add(name)


def _undefined_output(table: Table, path: str, name: str, nearest: Nearest) -> Finding:
    if table.sees(name):
        if table.scope.kind == "algorithm":
            text = f"{quoted(name)} should be a value of the algorithm, not of the main graph"
            return warning("TR-09", "W-training-output", path, text, "copy it with Identity")
        text = f"the output {quoted(name)} must be written in the subgraph, not outside of it"
        return error("NM-12", path, text, "copy the outer value with Identity")
    guess = nearest.guess(name, table.order)
    return error("GR-14", path, f"{quoted(name)} must be a value of the graph, not undefined", f"{guess}{AGAIN}")


def find_cycles(table: Table) -> list[list[int]]:
    """Cycles that share no node, as numbers of nodes, each from the writer of a value to a reader of it.

    One of them at least where there are any; breaking those that are found may show others.
    """
    sources = [
        [order for name in node.inputs if (order := table.order.get(name, START)) != START]
        for node in table.nodes
    ]
    alive = _cannot_be_sorted(sources)
    return _walk_backwards(sources, alive)


def _cannot_be_sorted(sources: list[list[int]]) -> list[bool]:
    """Nodes that are in a cycle or behind one."""
    readers: list[list[int]] = [[] for _ in sources]
    for index, names in enumerate(sources):
        for source in names:
            readers[source].append(index)
    missing = [len(names) for names in sources]
    ready = [index for index, count in enumerate(missing) if not count]
    while ready:
        for reader in readers[ready.pop()]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return [count > 0 for count in missing]


def _walk_backwards(sources: list[list[int]], alive: list[bool]) -> list[list[int]]:
    """From each such node to one it reads from: the walk ends in a cycle, or in what was walked before."""
    cycles = []
    walk_of = [-1] * len(sources)
    for start, there in enumerate(alive):
        walk, index = [], start
        while there and walk_of[index] < 0:
            walk_of[index] = start
            walk.append(index)
            index = next(source for source in sources[index] if alive[source])
        if walk and walk_of[index] == start:
            cycle = walk[walk.index(index) :][::-1]
            first = cycle.index(min(cycle))
            cycles.append([*cycle[first:], *cycle[:first]])
    return cycles


RULES: tuple[Rule, ...] = (
    names_are_identifiers,
    nodes_distinct,
    defined_once,
    nothing_hidden,
    inputs_of_subgraphs,
    defined_before_use,
    outputs_defined,
)
