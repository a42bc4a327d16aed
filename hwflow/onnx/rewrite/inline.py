"""Calls of model-local functions replaced by the functions' bodies, as the specification says a call may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Attribute, Function, Graph, Model, Node, Training
from hwflow.onnx.rewrite.renaming import Fresh, all_names, fresh_names, spliced
from hwflow.onnx.run.functions import Functions, function_path, graphs_of, instantiate
from hwflow.onnx.schemas import find_schema

#: Names of inlined values start with the end of the call's name, so that calls in calls do not make endless names.
_PREFIX = 60


def inline_functions(model: Model, limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model without functions; operator sets that only bodies use are imported by the model.

    A function of the name of an operator that hwflow has is not called, so it just goes.
    Raises LimitError for more than `limits.inlined_nodes` nodes, before any is made, InvalidModel for a function that
    calls itself and for a body whose operators mean something else under the model's operator sets.
    """
    if not model.functions:
        return model
    functions = Functions(model.functions, limits)
    graphs = [model.graph, *(g for t in model.training for g in (t.initialization, t.algorithm) if g is not None)]
    for graph in graphs:
        functions.require_bounded(graph.nodes, model.opsets, "graph")
    _require_few(graphs, functions, model, limits)
    names = (name for graph in graphs for name in all_names(graph))
    inliner = _Inliner(functions, dict(model.opsets), fresh_names(names))
    return replace(
        model,
        graph=inliner.graph(model.graph),
        training=tuple(inliner.training(training) for training in model.training),
        functions=(),
        opsets=inliner.opsets,
    )


def _require_few(graphs: Iterable[Graph], functions: Functions, model: Model, limits: Limits) -> None:
    """Count what calls become, each function once however often it is called."""
    sizes: dict[tuple[str, str, str], int] = {}

    def size(nodes: Iterable[Node], opsets: Mapping[str, int]) -> int:
        total = 0
        for node in nodes:
            function = functions.called(node, opsets)
            if function is None:
                total += 1
            else:
                if function.key not in sizes:
                    sizes[function.key] = size(function.nodes, function.opsets)
                total += sizes[function.key]
            total += sum(size(graph.nodes, opsets) for _, graph in graphs_of(node))
        return total

    count = sum(size(graph.nodes, model.opsets) for graph in graphs)
    allowed = limits.inlined_nodes + sum(len(graph.nodes) for graph in graphs)
    if count > allowed:
        raise LimitError(
            f"the model must have at most {allowed:,} nodes once its functions are inlined (inlined_nodes), "
            f"not {count:,}", f"if you trust the model, raise it with --limit inlined_nodes={count}"
        )


@dataclass
class _Inliner:
    functions: Functions
    opsets: dict[str, int]
    fresh: Fresh

    def training(self, training: Training) -> Training:
        initialization, algorithm = training.initialization, training.algorithm
        return replace(
            training,
            initialization=None if initialization is None else self.graph(initialization),
            algorithm=None if algorithm is None else self.graph(algorithm),
        )

    def graph(self, graph: Graph) -> Graph:
        return replace(graph, nodes=tuple(self.nodes(graph.nodes)))

    def nodes(self, nodes: Iterable[Node]) -> list[Node]:
        inlined: list[Node] = []
        for node in nodes:
            function = self.functions.called(node, self.opsets)
            if function is None:
                inlined.append(self.inside(node))
            else:
                inlined.extend(self.nodes(self.body(function, node)))
        return inlined

    def inside(self, node: Node) -> Node:
        """The node with the calls in its graphs inlined."""
        if not any(True for _ in graphs_of(node)):
            return node
        return replace(node, attributes={name: self.attribute(value) for name, value in node.attributes.items()})

    def attribute(self, value: Attribute) -> Attribute:
        if isinstance(value, Graph):
            return self.graph(value)
        if isinstance(value, tuple) and any(isinstance(entry, Graph) for entry in value):
            return tuple(self.graph(entry) for entry in value if isinstance(entry, Graph))
        return value

    def body(self, function: Function, call: Node) -> list[Node]:
        """The nodes that a call stands for, in the names of the caller."""
        self.adopt(function, call)
        _require_fit(call, "inputs", len(call.inputs), len(function.inputs))
        _require_fit(call, "outputs", len(call.outputs), len(function.outputs))
        names_of_caller = dict.fromkeys(function.inputs, "") | dict(zip(function.inputs, call.inputs, strict=False))
        results = zip(function.outputs, call.outputs, strict=False)
        prefix = (call.name or next(filter(None, call.outputs), function.name))[-_PREFIX:]
        nodes, _ = spliced(instantiate(function, call), names_of_caller, results, self.fresh, prefix)
        return nodes

    def adopt(self, function: Function, call: Node) -> None:
        """Import the operator sets of a body, which must agree with those of the model on each operator in it."""
        for node in _every(function.nodes):
            own = function.opsets.get(node.domain)
            if own is None:
                continue
            version = self.opsets.setdefault(node.domain, own)
            here, there = (find_schema(node.domain, node.op_type, v) for v in (version, own))
            if version != own and here is not None and there is not None and here.since != there.since:
                raise InvalidModel(
                    f"{function_path(function)}/{node.label}: the operator must mean the same in operator set {own} of "
                    f"the function and {version} of the model, not version {there.since} and {here.since}",
                    "export the model with one operator set [FN-07]"
                )
        self.opsets.setdefault("", function.opsets.get("", 1))  # for Identity nodes that join names


def _require_fit(call: Node, kind: str, count: int, taken: int) -> None:
    if count > taken:
        raise InvalidModel(
            f"{call.label}: the number of {kind} must be at most the {taken} of the function that it calls, "
            f"not {count}", "export the model again"
        )


def _every(nodes: Iterable[Node]) -> Iterable[Node]:
    for node in nodes:
        yield node
        for _, graph in graphs_of(node):
            yield from _every(graph.nodes)
