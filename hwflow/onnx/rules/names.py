"""Rules about names: every value is defined once, before it is read."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow.onnx.model import Model
from hwflow.onnx.rules.finding import Finding, Severity

__all__ = ["graph_name", "inputs_typed", "outputs_defined", "values_defined_before_use", "values_defined_once"]

_AGAIN = "export the model again"


def _error(rule: str, path: str, message: str, remedy: str = _AGAIN) -> Finding:
    return Finding(Severity.ERROR, rule, path, message, remedy)


def graph_name(model: Model) -> Iterator[Finding]:
    """The graph has a name."""
    if not model.graph.name:
        yield _error("graph-name", "graph", "the graph must have a name, not an empty one", "give it one")


def values_defined_once(model: Model) -> Iterator[Finding]:
    """Single assignment: no two inputs, initializers or node outputs share a name."""
    graph = model.graph
    owner: dict[str, str] = {}
    for index, value in enumerate(graph.inputs):
        if value.name in owner:
            yield _error("value-once", f"graph/input[{index}]", f"'{value.name}' must be one input, not two")
        owner[value.name] = f"input '{value.name}'"
    for name in graph.initializers:
        owner[name] = f"initializer '{name}'"
    for index, node in enumerate(graph.nodes):
        path = f"graph/node[{index}] {node.label}"
        for name in filter(None, node.outputs):
            if name in owner:
                yield _error("value-once", path, f"'{name}' must be written once, not also by {owner[name]}")
            else:
                owner[name] = path


def values_defined_before_use(model: Model) -> Iterator[Finding]:
    """Nodes stand in topological order and read only what is defined."""
    graph = model.graph
    defined = {value.name for value in graph.inputs} | graph.initializers.keys()
    later = {name: index for index, node in reversed(list(enumerate(graph.nodes))) for name in node.outputs if name}
    for index, node in enumerate(graph.nodes):
        path = f"graph/node[{index}] {node.label}"
        for name in filter(None, node.inputs):
            if name in defined:
                continue
            if name in later:
                source = graph.nodes[later[name]].label
                message = f"'{name}' must be written before it is read, not later by node[{later[name]}] {source}"
                yield _error("value-order", path, message, "sort the nodes; where that fails the graph has a cycle")
            else:
                yield _error("value-defined", path, f"'{name}' must be a value of the graph, not undefined")
        defined.update(filter(None, node.outputs))


def outputs_defined(model: Model) -> Iterator[Finding]:
    """The graph has outputs, each listed once and written by something."""
    graph = model.graph
    if not graph.outputs:
        yield _error("output-defined", "graph", "the graph must have an output, not none")
    written = {name for node in graph.nodes for name in node.outputs}
    written |= {value.name for value in graph.inputs} | graph.initializers.keys()
    seen: set[str] = set()
    for index, value in enumerate(graph.outputs):
        path = f"graph/output[{index}]"
        if not value.name or value.name not in written:
            yield _error("output-defined", path, f"'{value.name}' must be a value of the graph, not undefined")
        if value.name in seen:
            yield _error("output-once", path, f"'{value.name}' must be one output, not two")
        seen.add(value.name)


def inputs_typed(model: Model) -> Iterator[Finding]:
    """The graph's inputs are tensors of a stated element type."""
    for index, value in enumerate(model.graph.inputs):
        if value.type is None:
            message = f"'{value.name}' must be a tensor of a known type, not another kind"
            remedy = "state its element type, or export the model without it"
            yield _error("input-type", f"graph/input[{index}]", message, remedy)
