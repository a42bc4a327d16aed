"""Passes that make a model smaller without changing what it computes.  Each takes a model and returns one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hwflow.onnx.model import Graph, Model, Node

__all__ = ["PASSES", "Pass", "remove_identities", "remove_unused", "simplify"]


@dataclass(frozen=True)
class Pass:
    """A named rewriting step."""

    name: str
    description: str
    run: Callable[[Model], Model]


def simplify(model: Model) -> Model:
    """All passes in order."""
    for step in PASSES:
        model = step.run(model)
    return model


def remove_identities(model: Model) -> Model:
    """Without Identity nodes and Dropout nodes (which do nothing in inference); their readers read their input.

    A node stays where it joins an input or a constant to an output of the graph, because both names must exist, and
    where its mask is read.
    """
    graph = model.graph
    read = {name for node in graph.nodes for name in node.inputs} | {value.name for value in graph.outputs}
    outputs = {value.name for value in graph.outputs}
    computed = {name for node in graph.nodes for name in node.outputs}
    renamed: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        if not _does_nothing(node, read):
            kept.append(replace(node, inputs=inputs))
            continue
        source, result = inputs[0], node.outputs[0]
        if result not in outputs:
            renamed[result] = source
        elif source in computed and source not in outputs:
            # The producer takes the output's name over; so do its other readers.
            kept = [_renamed(other, {source: result}) for other in kept]
            renamed = {name: result if target == source else target for name, target in renamed.items()}
            renamed[source] = result
            computed.add(result)
        else:
            kept.append(replace(node, inputs=inputs))
    types = {name: type_ for name, type_ in graph.types.items() if name not in renamed}
    return replace(model, graph=replace(graph, nodes=tuple(kept), types=types))


def _does_nothing(node: Node, read: set[str]) -> bool:
    if node.domain or node.op_type not in ("Identity", "Dropout"):
        return False
    return not any(name in read for name in node.outputs[1:] if name)


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
    )


def remove_unused(model: Model) -> Model:
    """Without nodes, initializers and types that no output depends on.  Inputs stay: they are the interface."""
    graph = model.graph
    live = {value.name for value in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(name in live for name in node.outputs):
            kept.append(node)
            live.update(node.inputs)
    written = {name for node in kept for name in node.outputs} | {value.name for value in graph.inputs}
    return replace(
        model,
        graph=Graph(
            name=graph.name,
            nodes=tuple(reversed(kept)),
            inputs=graph.inputs,
            outputs=graph.outputs,
            initializers={name: array for name, array in graph.initializers.items() if name in live},
            types={name: t for name, t in graph.types.items() if name in written or name in live},
        ),
    )


#: In the order in which `simplify` runs them.
PASSES: tuple[Pass, ...] = (
    Pass("remove-identities", "Leave out Identity and Dropout.", remove_identities),
    Pass("remove-unused", "Leave out what no output depends on.", remove_unused),
)
