"""Rules about graphs: their names, inputs, outputs, initializers, and the types that they state."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, Rule, error, lenient, quoted, warning
from hwflow.onnx.rules.walk import Scope, initializer_names, nodes, scopes, tables


def _graphs(document: Document) -> Iterator[tuple[Scope, pb.GraphProto]]:
    for scope in scopes(document):
        if isinstance(scope.proto, pb.GraphProto):
            yield scope, scope.proto


def named(document: Document) -> Iterator[Finding]:
    """GR-02: each graph has a name; many tools do without."""
    for scope, graph in _graphs(document):
        if not graph.name:
            yield lenient("GR-02", "W-graph-name", scope.path, "the graph must have a name, not none", "give it one")


def nodes_connected(document: Document) -> Iterator[Finding]:
    """GR-03: a node without inputs and outputs does nothing."""
    for place in nodes(document):
        if not any(place.inputs) and not any(place.outputs):
            text = "the node must have an input or an output, not neither"
            yield error("GR-03", place.path, text, "remove it")


def initializers_distinct(document: Document) -> Iterator[Finding]:
    """GR-11: initializers have names, each its own, the sparse ones among them."""
    for scope, graph in _graphs(document):
        seen: set[str] = set()
        for index, name in enumerate(initializer_names(graph)):
            path = f"{scope.path}/initializer[{index}]"
            if not name:
                yield error("GR-11", path, "the initializer must have a name, not none", "name it or remove it")
            elif name in seen:
                yield error("GR-11", path, f"{quoted(name)} must be one initializer, not two", "remove one of them")
            seen.add(name)


def initializers_are_inputs(document: Document) -> Iterator[Finding]:
    """GR-10: before IR version 4 there were no constants, only inputs with defaults."""
    ir = document.proto.ir_version
    if not 1 <= ir < 4:
        return
    for scope, graph in _graphs(document):
        inputs = {value.name for value in graph.input}
        for name in initializer_names(graph):
            if name and name not in inputs:
                text = f"the initializer must be an input too in IR version {ir}, not a constant"
                path = f"{scope.path}/initializer {quoted(name)}"
                yield lenient("GR-10", "W-init-no-input", path, text, "state IR version 4 or later")


def weights_overridable(document: Document) -> Iterator[Finding]:
    """GR-09: what a caller may change is no constant; hardware takes it as one."""
    proto = document.proto
    if proto.ir_version < 4:
        return
    initialized = set(initializer_names(proto.graph))
    both = [value.name for value in proto.graph.input if value.name in initialized]
    if both:
        text = f"{len(both)} of {len(initialized)} initializers are inputs too, not constants: {quoted(both[0])}"
        text += ", ..." if len(both) > 1 else ""
        remedy = "remove them from the inputs, unless callers override them; hardware takes them as constants"
        yield warning("GR-09", "W-overridable-init", "graph", text, remedy)


def inputs_distinct(document: Document) -> Iterator[Finding]:
    """GR-15, GR-20: inputs have names, each its own."""
    for scope, graph in _graphs(document):
        rule = "GR-20" if scope.kind == "subgraph" else "GR-15"
        seen: set[str] = set()
        for index, value in enumerate(graph.input):
            path = f"{scope.path}/input[{index}]"
            if not value.name:
                yield error(rule, path, "the input must have a name, not none")
            elif value.name in seen:
                yield error("GR-15", path, f"{quoted(value.name)} must be one input, not two")
            seen.add(value.name)
        for index, value in enumerate(graph.output):
            if not value.name:
                rule = "GR-20" if scope.kind == "subgraph" else "GR-14"
                yield error(rule, f"{scope.path}/output[{index}]", "the output must have a name, not none")


def stated_types_of_values(document: Document) -> Iterator[Finding]:
    """GR-16: value_info speaks of values of the graph, of each once."""
    for table in tables(document):
        scope, seen = table.scope, set[str]()
        for index, value in enumerate(scope.proto.value_info):
            path = f"{scope.path}/value_info[{index}]"
            if value.name not in table.order:
                text = f"a stated type must be that of a value of the graph, not of {quoted(value.name)}"
                yield warning("GR-16", "W-value-info-unknown", path, text, "remove it; it has no effect")
            if value.name in seen:
                text = f"the type of {quoted(value.name)} must be stated once, not twice"
                yield warning("GR-16", "W-value-info-twice", path, text, "remove one of them")
            seen.add(value.name)


def main_graph_typed(document: Document) -> Iterator[Finding]:
    """GR-17, GR-18: who calls the model knows types and ranks of what it takes and gives."""
    graph = document.proto.graph
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for index, value in enumerate(values):
            path = f"graph/{kind}[{index}]"
            name = f"the {kind} {quoted(value.name)}"
            stated = value.type.WhichOneof("value")
            if stated is None:
                yield error("GR-17", path, f"{name} must have a type, not none", "state it")
            elif stated == "tensor_type":
                tensor = value.type.tensor_type
                if not tensor.elem_type:
                    yield error("GR-17", path, f"{name} must have an element type, not an undefined one", "state it")
                if not tensor.HasField("shape"):
                    text = f"{name} must have a rank, not an unknown shape"
                    yield lenient("GR-18", "W-no-rank", path, text, "state a shape; its dims may be open")


def not_empty(document: Document) -> Iterator[Finding]:
    """GR-23: a graph without outputs computes nothing."""
    graph = document.proto.graph
    if document.proto.HasField("graph") and not graph.output:
        text = "the graph should have an output, not none"
        yield warning("GR-23", "W-no-outputs", "graph", text, "list what it computes as outputs")


RULES: tuple[Rule, ...] = (
    named,
    nodes_connected,
    inputs_distinct,
    main_graph_typed,
    not_empty,
    initializers_distinct,
    initializers_are_inputs,
    weights_overridable,
    stated_types_of_values,
)
