"""Names of values across nodes and the graphs in their attributes: which are read, which are there; new names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hwflow.onnx.model import Attribute, Graph, Node, Value
from hwflow.onnx.run.functions import graphs_of

#: Gives a name that nothing in the model has, from one that it resembles.
Fresh: TypeAlias = Callable[[str], str]


def reads(node: Node) -> Iterator[str]:
    """The values that a node reads, those that graphs in its attributes take from around it included."""
    yield from filter(None, node.inputs)
    for _, graph in graphs_of(node):
        yield from _free(graph)


def _free(graph: Graph) -> Iterator[str]:
    own = {value.name for value in graph.inputs} | graph.initializers.keys() | graph.sparse_initializers.keys()
    for node in graph.nodes:
        for name in reads(node):
            if name not in own:
                yield name
        own.update(node.outputs)
    for value in graph.outputs:
        if value.name not in own:
            yield value.name


def all_names(graph: Graph) -> Iterator[str]:
    """Every name of a value in a graph and below, some of them more than once."""
    for value in (*graph.inputs, *graph.outputs):
        yield value.name
    yield from graph.initializers
    yield from graph.sparse_initializers
    for node in graph.nodes:
        yield from filter(None, (*node.inputs, *node.outputs))
        for _, inner in graphs_of(node):
            yield from all_names(inner)


def fresh_names(taken: Iterable[str]) -> Fresh:
    """A source of names that are not among those taken, nor given before.  The same for the same calls."""
    used = set(taken)
    counts: dict[str, int] = {}

    def fresh(wish: str) -> str:
        name = wish
        while name in used:
            counts[wish] = counts.get(wish, 0) + 1
            name = f"{wish}_{counts[wish]}"
        used.add(name)
        return name

    return fresh


def renamed(node: Node, names: Mapping[str, str], fresh: Fresh | None = None) -> Node:
    """The node with its values renamed, inside of graphs in its attributes too, as far as they mean the same values.

    With `fresh` the values that such graphs define for themselves get new names as well.
    """
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
        attributes={key: _attribute(value, names, fresh) for key, value in node.attributes.items()},
    )


def _attribute(value: Attribute, names: Mapping[str, str], fresh: Fresh | None) -> Attribute:
    if isinstance(value, Graph):
        return _graph(value, names, fresh)
    if isinstance(value, tuple) and any(isinstance(entry, Graph) for entry in value):
        return tuple(_graph(entry, names, fresh) for entry in value if isinstance(entry, Graph))
    return value


def _graph(graph: Graph, names: Mapping[str, str], fresh: Fresh | None) -> Graph:
    inputs = {value.name for value in (*graph.inputs, *graph.overridable)}
    own = [*inputs, *graph.initializers, *graph.sparse_initializers]
    own += [name for node in graph.nodes for name in node.outputs if name]
    local = {name: name if fresh is None else fresh(name) for name in dict.fromkeys(own)}
    inner = {**names, **local}
    return replace(
        graph,
        nodes=tuple(renamed(node, inner, fresh) for node in graph.nodes),
        inputs=_values(graph.inputs, inner),
        outputs=_values(graph.outputs, inner),
        overridable=_values(graph.overridable, inner),
        initializers={inner[name]: array for name, array in graph.initializers.items()},
        sparse_initializers={inner[name]: sparse for name, sparse in graph.sparse_initializers.items()},
        types={inner.get(name, name): type_ for name, type_ in graph.types.items()},
    )


def _values(values: Iterable[Value], names: Mapping[str, str]) -> tuple[Value, ...]:
    return tuple(replace(value, name=names.get(value.name, value.name)) for value in values)


def spliced(
    nodes: Sequence[Node], outer_names: Mapping[str, str], results: Iterable[tuple[str, str]], fresh: Fresh, prefix: str
) -> tuple[list[Node], dict[str, str]]:
    """Nodes of another scope as nodes of this one, and what became of their names.

    `outer_names` names the values of this scope that names of the nodes stand for.  `results` pairs a name of the nodes
    with the name that it must have here; where the value already has a name here, an Identity node joins the two.
    """
    names = dict(outer_names)
    ends = [(inner, outer) for inner, outer in results if outer]
    written = [name for node in nodes for name in node.outputs if name]
    for inner, outer in ends:
        if inner in written and inner not in names:
            names[inner] = outer
    for name in written:
        if name not in names:
            names[name] = fresh(f"{prefix}/{name}")
    here = [_prefixed(renamed(node, names, lambda name: fresh(f"{prefix}/{name}")), prefix) for node in nodes]
    for inner, outer in ends:
        if names.get(inner, inner) != outer:
            here.append(Node("Identity", (names.get(inner, inner),), (outer,), name=f"{prefix}/{outer}"))
    return here, names


def _prefixed(node: Node, prefix: str) -> Node:
    return replace(node, name=f"{prefix}/{node.name}") if node.name else node
