"""Where each node of a model would run: in hardware, on the host, nowhere, or not at all because it is a constant."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hwflow_base.errors import HwflowError

from hwflow.stages.kinds import hardware_problems, layer_problems

from ..layers.base import LayerGraph
from ..onnx import Model, simplify
from ..onnx.limits import DEFAULT_LIMITS
from ..onnx.model import Graph, Node
from ..onnx.operators import HOST_AFTER, HOST_BEFORE, HOST_ONLY, LAYOUT, QUANTIZERS
from ..onnx.run.calls import find
from ..onnx.run.functions import Functions, graphs_of
from ..quantize import Quantized
from ..quantize.graphs import host_prefix, host_suffix
from ..quantize.passes.floats import floats_to_float32
from ..quantize.passes.normalise import convert_old
from ..quantize.support import operators_without_hardware, unsupported


class Where(enum.Enum):
    """HOST: hwflow evaluates it.  NOWHERE: it has no such operator.  CONSTANT: done before anything runs."""

    HARDWARE = "hardware"
    HOST = "host"
    NOWHERE = "nowhere"
    CONSTANT = "constant"


@dataclass(frozen=True)
class Place:
    """Where a node would run, and why not in hardware (empty where it does)."""

    where: Where
    reason: str = ""


@dataclass(frozen=True)
class Places:
    """One entry per node of the main graph.  `problem` says why the model as a whole is no hardware; None if it is.

    `golden`: it becomes integers, so that the golden model runs it, with hardware or without.
    """

    nodes: tuple[Place, ...]
    problem: str | None
    golden: bool = False


def places(source: Model, static: Callable[[], Model], trial: Callable[[], Quantized]) -> Places:
    """`source` as the file has it; `static` makes the model with static shapes, `trial` quantizes it.

    Where these raise HwflowError the model cannot become hardware; its nodes still get what can be said of them.
    """
    look = _Missing(source)
    try:
        look.functions.require_bounded(source.graph.nodes, source.opsets, "graph")
    except HwflowError as error:
        return Places(tuple(Place(Where.NOWHERE, str(error)) for _ in source.graph.nodes), str(error))
    missing = nodes_without_operator(source)
    try:
        known = convert_old(simplify(static()))
        model = floats_to_float32(known)
    except HwflowError as error:
        problem = error.without_file
        return Places(_without_shapes(source, missing), problem)
    forms = {name: node.op_type for node in known.graph.nodes for name in node.outputs}
    try:
        quantized = trial()
    except HwflowError as error:
        return Places(_with_shapes(source, model, missing, None, forms), error.without_file)
    where = _with_shapes(source, model, missing, quantized, forms)
    return Places(where, without_hardware(quantized.graph), golden=True)


def without_hardware(graph: LayerGraph) -> str | None:
    """The reasons that keep integers that the golden model runs from becoming hardware, a line for each; None where
    nothing."""
    problems = "".join(f"\n  {problem}" for problem in hardware_problems(graph))
    return f"it runs in the golden model; no hardware yet for:{problems}" if problems else None


def layers_without_hardware(graph: LayerGraph) -> dict[str, str]:
    """The layers that cannot become a stage, named like their nodes, and why."""
    return {problem.layer: problem.why or f"{problem.kind} has no hardware yet" for problem in layer_problems(graph)}


def nodes_without_operator(model: Model) -> dict[int, str]:
    """The nodes of the main graph, by number, that hwflow cannot evaluate, and why."""
    look = _Missing(model)
    reasons = {index: look.reason(node, model.opsets) for index, node in enumerate(model.graph.nodes)}
    return {index: reason for index, reason in reasons.items() if reason}


class _Missing:
    """Why nodes cannot be evaluated.  Each function is looked at once, however often it is called."""

    def __init__(self, source: Model) -> None:
        self.functions = Functions(source.functions, DEFAULT_LIMITS)
        self.bodies: dict[tuple[str, str, str], str] = {}

    def reason(self, node: Node, opsets: Mapping[str, int]) -> str:
        """Empty where the node can be evaluated."""
        function = self.functions.called(node, opsets)
        if function is not None:
            if function.key not in self.bodies:
                self.bodies[function.key] = ""  # while it is being looked at
                self.bodies[function.key] = self.first(function.nodes, function.opsets)
            return self.bodies[function.key]
        if find(node, opsets)[1] is None:
            version = opsets.get(node.domain, "?")
            return f"hwflow has no operator {node.domain or 'ai.onnx'}.{node.op_type} of operator set {version}"
        return next((inner for _, graph in graphs_of(node) if (inner := self.first(graph.nodes, opsets))), "")

    def first(self, nodes: Iterable[Node], opsets: Mapping[str, int]) -> str:
        return next((inner for node in nodes if (inner := self.reason(node, opsets))), "")


def _without_shapes(source: Model, missing: Mapping[int, str]) -> tuple[Place, ...]:
    """The places of a model whose shapes are not known: only the operators tell."""
    without = {problem.where: problem.why for problem in operators_without_hardware(source)}
    where = []
    for index, node in enumerate(source.graph.nodes):
        if index in missing:
            where.append(Place(Where.NOWHERE, missing[index]))
        else:
            where.append(Place(Where.HOST, without.get(node.label, "hardware needs static shapes")))
    return tuple(where)


def _with_shapes(
    source: Model, model: Model, missing: Mapping[int, str], quantized: Quantized | None, forms: Mapping[str, str]
) -> tuple[Place, ...]:
    graph = model.graph
    outputs = {name for node in graph.nodes for name in node.outputs if name}
    reasons = {problem.where: problem.why for problem in unsupported(model)}
    layers = {} if quantized is None else {
        where.layer: where.why or f"{where.kind} has no hardware yet; the golden model runs it"
        for where in layer_problems(quantized.graph)}
    host = made_on_host(model, quantized)
    where = []
    for index, (node, names) in enumerate(zip(source.graph.nodes, result_names(source.graph, forms), strict=True)):
        if index in missing:
            where.append(Place(Where.NOWHERE, missing[index]))
        elif not outputs.intersection(names) and not _calls(node, source):
            where.append(Place(Where.CONSTANT, "constants, or names for the same value"))
        elif node.label in reasons:
            where.append(Place(Where.HOST, reasons[node.label]))
        elif node.name and node.name in layers:
            where.append(Place(Where.HOST, layers[node.name]))
        elif any((forms.get(name, node.op_type), name) in host for name in names):
            where.append(Place(Where.HOST, "around the hardware"))
        else:
            where.append(Place(Where.HARDWARE))
    return tuple(where)


def result_names(graph: Graph, forms: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The results of each node of `graph` in the simplified model, whose operators by their results are `forms`.

    Where an Identity went, its name is that of the node in front of it, and the Identity has no results.
    """
    renamed = dict[str, list[str]]()
    for node in reversed(graph.nodes):
        if node.op_type == "Identity" and forms.get(name := node.outputs[0]) != "Identity":
            renamed.setdefault(node.inputs[0], []).extend([name, *renamed.pop(name, ())])
    gone = {name for names in renamed.values() for name in names}
    return [tuple(known for name in node.outputs if name not in gone for known in (name, *renamed.get(name, ())))
            for node in graph.nodes]  # fmt: skip


#: What the quantizer writes with other operators, which the host runs.
REWRITTEN_FOR_HOST = frozenset({("ai.onnx.ml", "Scaler")})


def made_on_host(model: Model, quantized: Quantized | None) -> set[tuple[str, str]]:
    """Operator and result of the nodes of `model` around the hardware; `quantized` is None where it is not known.

    What only a Cast gives the type of the file counts as made by the node in front of the Cast.
    """
    if quantized is None:
        graph = model.graph
        inside = host_prefix(graph, HOST_BEFORE & (QUANTIZERS | HOST_ONLY))
        inside |= host_suffix(graph, HOST_AFTER & (LAYOUT | HOST_ONLY))
        return {(node.op_type, name) for node in graph.nodes for name in node.outputs if name in inside}
    moved = set[tuple[str, str]]()
    for program in (quantized.prologue, quantized.epilogue):
        makers = {name: node for node in program.graph.nodes for name in node.outputs if name}
        for node in program.graph.nodes:
            moved.update((node.op_type, name) for name in node.outputs)
            if node.op_type == "Cast" and node.inputs[0] in makers:
                moved.update((makers[node.inputs[0]].op_type, name) for name in node.outputs)
    results = {name for _, name in moved}
    moved |= {(node.op_type, name) for node in model.graph.nodes for name in node.outputs
              if (node.domain, node.op_type) in REWRITTEN_FOR_HOST and name in results}
    return moved


def _calls(node: Node, source: Model) -> bool:
    return any(function.key == (node.domain, node.op_type, node.overload) for function in source.functions)
