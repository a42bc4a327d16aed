"""Passes that make a model smaller without changing what it computes.  Each takes a model and returns one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx.model import Model, Node
from hwflow.onnx.rewrite.renaming import reads, renamed


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
    """Without nodes that change nothing (`unchanged`); their readers read their input.

    A node stays where it joins an input or a constant to an output of the graph, because both names must exist, and
    where its mask is read.  Graphs in attributes read what takes the place of a node, but keep their own nodes.
    """
    graph = model.graph
    read = {name for node in graph.nodes for name in reads(node)} | {value.name for value in graph.outputs}
    outputs = {value.name for value in graph.outputs}
    computed = {name for node in graph.nodes for name in node.outputs}
    names: dict[str, str] = {}
    left: list[Node] = []
    for node in graph.nodes:
        node = renamed(node, names) if any(name in names for name in reads(node)) else node
        source, result = unchanged(node, model), node.outputs[0]
        if source is None or any(name in read for name in node.outputs[1:] if name):
            left.append(node)
            continue
        if result not in outputs:
            names[result] = source
        elif source in computed and source not in outputs:
            # The producer takes the output's name over; so do its other readers.
            left = [renamed(other, {source: result}) for other in left]
            names = {name: result if target == source else target for name, target in names.items()}
            names[source] = result
            computed.add(result)
        else:
            left.append(node)
    types = {name: type_ for name, type_ in graph.types.items() if name not in names}
    return replace(model, graph=replace(graph, nodes=tuple(left), types=types))


def unchanged(node: Node, model: Model) -> str | None:
    """The input that comes out of a node of the main graph as it is; None where it may change."""
    return node.inputs[0] if is_identity(node, model) else _within_no_limit(node, model)


def _within_no_limit(node: Node, model: Model) -> str | None:
    """The other input of a Max with -inf or a Min with inf, a single element, as exporters write a missing limit."""
    if node.domain or node.op_type not in ("Max", "Min") or len(node.inputs) != 2:
        return None
    graph = model.graph
    fed = {value.name for value in graph.overridable}
    limit = -np.inf if node.op_type == "Max" else np.inf
    for name, other in (node.inputs, node.inputs[::-1]):
        array, type_ = graph.initializers.get(name), graph.tensor_type(other)
        if array is None or name in fed or type_ is None or type_.shape is None:
            continue
        if array.dtype.kind == "f" and array.size == 1 and array.item() == limit and array.ndim <= len(type_.shape):
            return other
    return None


#: Operators of one input or more, which give it back where it is alone.
_OF_ANY = frozenset({"Concat", "Max", "Mean", "Min", "Sum"})


def is_identity(node: Node, model: Model) -> bool:
    """True for a node of the main graph whose first output is its first input.

    These are Identity, what joins or adds one tensor alone, a Cast to the type that its input is known to have, and
    Dropout in inference: before operator
    set 7 it drops unless `is_test` says otherwise; from 12 on it does where its third input is true, which only a
    constant excludes.
    """
    if not node.domain and node.op_type in ("Cast", "CastLike"):
        return _keeps_type(node, model)
    if node.domain or node.op_type != "Dropout":
        return not node.domain and (node.op_type == "Identity" or (node.op_type in _OF_ANY and len(node.inputs) == 1))
    if model.opsets.get("", 0) < 7:
        return bool(node.attributes.get("is_test"))
    if len(node.inputs) < 3 or not node.inputs[2]:
        return True
    training = model.graph.initializers.get(node.inputs[2])
    fed = any(value.name == node.inputs[2] for value in model.graph.overridable)
    return training is not None and not fed and not training.any()


def _keeps_type(node: Node, model: Model) -> bool:
    """Whether input and output of a Cast are known, and of one element type."""
    before, after = (model.graph.tensor_type(name) for name in (node.inputs[0], node.outputs[0]))
    return before is not None and after is not None and before.dtype == after.dtype


def remove_unused(model: Model) -> Model:
    """Without nodes, initializers and types that no output depends on.  Inputs stay: they are the interface."""
    graph = model.graph
    live = {value.name for value in graph.outputs}
    left: list[Node] = []
    for node in reversed(graph.nodes):
        if any(name in live for name in node.outputs):
            left.append(node)
            live.update(reads(node))
    live |= {value.name for value in graph.overridable} | _state(model)
    written = {name for node in left for name in node.outputs} | {value.name for value in graph.inputs}
    return replace(
        model,
        graph=replace(
            graph,
            nodes=tuple(reversed(left)),
            initializers={name: array for name, array in graph.initializers.items() if name in live},
            sparse_initializers={name: array for name, array in graph.sparse_initializers.items() if name in live},
            types={name: t for name, t in graph.types.items() if name in written or name in live},
        ),
    )


def _state(model: Model) -> set[str]:
    """Names that training reads and writes of the main graph."""
    names: set[str] = set()
    for training in model.training:
        names.update(training.initialization_binding, training.update_binding)
        for graph in (training.initialization, training.algorithm):
            if graph is not None:
                names.update(name for node in graph.nodes for name in reads(node))
    return names


#: In the order in which `simplify` runs them.
PASSES: tuple[Pass, ...] = (
    Pass("remove-identities", "Leave out Identity, Dropout in inference, and limits at infinity.", remove_identities),
    Pass("remove-unused", "Leave out what no output depends on.", remove_unused),
)
