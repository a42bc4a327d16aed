"""A type for every value of a model, as far as it follows from the operators; open sizes are fine."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from hwflow_base.by_value import ByValue

from hwflow.onnx.errors import LimitError, Unsupported
from hwflow.onnx.inference.by_rule import Contradiction, by_rule
from hwflow.onnx.inference.claims import contradiction, is_column, loose_name, named, shown
from hwflow.onnx.inference.control import CONTROL, SEQUENCES
from hwflow.onnx.inference.data_dependent import DATA_DEPENDENT
from hwflow.onnx.inference.facts import UNKNOWN, Fact, TensorFact, fact_of, refined
from hwflow.onnx.inference.schema_types import by_schema, is_map_of_doubles, mismatch, spelled
from hwflow.onnx.inference.worlds import Worlds
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits, Meter
from hwflow.onnx.model import Function, Graph, Model, Node, TensorType, ValueType
from hwflow.onnx.ops.base import Call, Operator
from hwflow.onnx.ops.custom.qonnx import DOMAINS as QONNX_DOMAINS
from hwflow.onnx.rules.finding import AGAIN, Finding, error, lenient, warning
from hwflow.onnx.run.calls import find
from hwflow.onnx.run.functions import Functions, function_path, instantiate
from hwflow.onnx.schemas import Option, Schema

#: What decides the outputs of a node; None where that cannot be compared.
Key: TypeAlias = tuple[Hashable, ...] | None


class Repeats:
    """The outputs of earlier nodes.

    Outputs with a size that is related to no other are not to be kept: each node has its own.
    """

    def __init__(self) -> None:
        # The operands are kept because keys have the identity of their elements.
        self._found: dict[Key, tuple[Sequence[Fact], Sequence[Fact | None]]] = {}

    def key(self, node: Node, opset: int, operands: Sequence[Fact | None], worlds: Worlds) -> Key:
        """None for operands that are no tensors, and for attributes that are tensors or graphs."""
        parts: list[Hashable] = [node.op_type, node.domain, node.overload, opset, len(worlds.alive)]
        for operand in operands:
            if isinstance(operand, TensorFact):
                parts += (operand.dtype, operand.shape, id(operand.elements))
            elif operand is None:
                parts.append(None)
            else:
                return None
        if any(isinstance(entry, Graph) for value in node.attributes.values()
               for entry in (value if isinstance(value, tuple) else (value,))):
            return None  # a body reads tensors from around it, too
        parts.append(tuple(map(bool, node.outputs)))
        parts += ((name, type(value), value) for name, value in node.attributes.items())
        key = tuple(parts)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def find(self, key: Key) -> Sequence[Fact] | None:
        """The outputs of an earlier node with this key."""
        facts = self._found.get(key)
        return None if facts is None else facts[0]

    def keep(self, key: Key, operands: Sequence[Fact | None], outputs: Sequence[Fact]) -> None:
        """Remember the outputs for nodes with the same key."""
        if key is not None:
            self._found[key] = outputs, operands


@dataclass(frozen=True, eq=False)
class Types(ByValue):
    """Types by name of the value; values of which nothing is known have no entry.

    A dim is a number, a symbol or expression of the inputs' symbols ("2*batch", "n + 1"), or None.  `inner` has those
    of graphs in attributes and of function bodies at each call, by path as findings show it.
    """

    values: Mapping[str, ValueType]
    inner: Mapping[str, Mapping[str, ValueType]]
    findings: tuple[Finding, ...]

    def __getitem__(self, name: str) -> ValueType | None:
        return self.values.get(name)


def infer_types(
    model: Model,
    input_shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Types:
    """Types of all values of a model, open sizes carried as symbols.  Nothing is evaluated but small constants.

    `input_shapes` replaces the stated shapes of inputs.  What contradicts itself or the file is in `findings`; the
    types are then those that the operators give.  The model need not pass `check`, but its nodes must stand in order.
    Raises LimitError where graphs and functions unfold beyond `limits`, InvalidModel for functions that call
    themselves.
    """
    functions = Functions(model.functions, limits)
    graphs = {"graph": model.graph, **_training_graphs(model)}
    for path, graph in graphs.items():
        functions.require_bounded(graph.nodes, model.opsets, path)
    nodes = sum(len(graph.nodes) for graph in graphs.values())
    walk = _Inference(functions, Meter(limits), limits.inlined_nodes + 16 * nodes)
    facts = walk.main(model.graph, model.opsets, input_shapes or {})
    for path, graph in _training_graphs(model).items():
        walk.training(graph, facts if path.endswith("algorithm") else {}, path, model.opsets)
    claims = _claims(model.graph)
    return Types(_shown(facts, claims, walk.worlds), walk.inner_types(), tuple(dict.fromkeys(walk.findings)))


def _integer_zero(node: Node, schema: Schema, operands: Sequence[Fact | None], path: str) -> Iterator[Finding]:
    """Zero points of QONNX that are integers, as older exporters write them."""
    for position, operand in enumerate(operands):
        parameter = schema.input(position)
        if parameter is None or parameter.name != "zeropt" or not isinstance(operand, TensorFact):
            continue
        if operand.dtype is not None and operand.dtype.kind in "iu":
            what = f"input {position} (zeropt) '{node.inputs[position]}'"
            message = f"{what} must be tensor(float), not {spelled(operand)}; it counts as that number"
            yield lenient("ND-05", "W-integer-zero", path, message, "nothing needs to be done")


def _training_graphs(model: Model) -> dict[str, Graph]:
    """The types of all graphs by path; an algorithm continues the main graph [TR-09]."""
    by_path = {}
    for index, training in enumerate(model.training):
        graphs = {"initialization": training.initialization, "algorithm": training.algorithm}
        by_path.update({f"training_info[{index}]/{kind}": graph for kind, graph in graphs.items() if graph is not None})
    return by_path


def _claims(graph: Graph | Function) -> dict[str, ValueType]:
    if isinstance(graph, Function):
        return dict(graph.types)
    stated = {value.name: value.type for value in (*graph.outputs, *graph.overridable) if value.type is not None}
    return {**graph.types, **stated}


def _shown(facts: Mapping[str, Fact], claims: Mapping[str, ValueType], worlds: Worlds) -> dict[str, ValueType]:
    types = ((name, shown(fact, claims.get(name), worlds)) for name, fact in facts.items())
    return {name: type_ for name, type_ in types if type_ is not None}


@dataclass(frozen=True)
class _Scope:
    """Where nodes stand: the facts so far (inner scopes see those around them), what the file claims, the place."""

    facts: MutableMapping[str, Fact]
    claims: Mapping[str, ValueType]
    outputs: frozenset[str]
    path: str
    opsets: Mapping[str, int]


def _lacks(schema: Schema, operands: Sequence[Fact | None]) -> bool:
    """Whether an input is left out that the operator needs."""
    if len(operands) < schema.input_limits[0]:
        return True
    missing = [schema.input(position) for position, operand in enumerate(operands) if operand is None]
    return any(parameter is not None and parameter.option is not Option.OPTIONAL for parameter in missing)


@dataclass
class _Inference:
    functions: Functions
    meter: Meter
    budget: int
    worlds: Worlds = field(default_factory=Worlds)
    findings: list[Finding] = field(default_factory=list)
    visits: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    inner: dict[str, tuple[Mapping[str, Fact], Mapping[str, ValueType]]] = field(default_factory=dict)

    def main(
        self, graph: Graph, opsets: Mapping[str, int], shapes: Mapping[str, Sequence[int | str | None]]
    ) -> Mapping[str, Fact]:
        facts: dict[str, Fact] = {}
        for value in graph.inputs:
            type_ = value.type
            if value.name in shapes and isinstance(type_, TensorType):
                type_ = TensorType(type_.dtype, tuple(shapes[value.name]))
            facts[value.name] = fact_of(type_, self.worlds)
        self.worlds.given.update(self.worlds.symbols)
        scope = self.scope(graph, facts, "graph", opsets)
        for value in graph.inputs:
            if value.name in scope.claims:
                self.define(value.name, facts[value.name], scope, "GR-21", f"input '{value.name}'")
        self.visit_all(graph.nodes, scope)
        return facts

    def training(self, graph: Graph, facts: Mapping[str, Fact], path: str, opsets: Mapping[str, int]) -> None:
        """A training graph, which may see the facts of the main graph."""
        own: dict[str, Fact] = {value.name: fact_of(value.type, self.worlds) for value in graph.inputs}
        scope = self.scope(graph, ChainMap(own, dict(facts)), path, opsets)
        self.visit_all(graph.nodes, scope)
        self.inner[path] = own, scope.claims

    def inner_types(self) -> dict[str, dict[str, ValueType]]:
        return {path: _shown(facts, claims, self.worlds) for path, (facts, claims) in self.inner.items()}

    def scope(self, graph: Graph, facts: MutableMapping[str, Fact], path: str, opsets: Mapping[str, int]) -> _Scope:
        """The scope of a graph whose inputs are in `facts`, its constants added."""
        outputs = frozenset(value.name for value in graph.outputs)
        scope = _Scope(facts, _claims(graph), outputs, path, opsets)
        for name, array in graph.initializers.items():
            self.define(name, TensorFact(array.dtype, array.shape, array), scope, "GR-12", f"initializer '{name}'")
        for name, sparse in graph.sparse_initializers.items():
            fact = TensorFact(sparse.values.dtype, tuple(sparse.shape))
            self.define(name, fact, scope, "GR-12", f"sparse_initializer '{name}'")
        return scope

    def define(self, name: str, fact: Fact, scope: _Scope, rule: str, place: str) -> None:
        """A value has its fact, compared with what the file claims of it."""
        claim = scope.claims.get(name)
        if claim is None:
            scope.facts[name] = fact
            return
        named(fact, claim, self.worlds)
        wrong = contradiction(fact, claim, self.worlds)
        path = f"{scope.path}/{place}"
        if wrong is not None:
            message = f"the type of '{name}' must be {wrong}"
            found = error(rule, path, message)
            if rule == "GR-21" and is_column(fact, claim):
                found = lenient(rule, "W-column", path, message, "nothing needs to be done: it is a column")
            self.findings.append(found)
            scope.facts[name] = fact
            return
        loose = loose_name(fact, claim, self.worlds)
        if loose is not None:
            message = f"the dim '{loose[0]}' of '{name}' must be one size everywhere, not also {loose[1]}"
            self.findings.append(warning("SH-09", "W-dim-name", path, message, "give it a name of its own"))
        scope.facts[name] = refined(fact, fact_of(claim, self.worlds), self.worlds)

    def visit_all(self, nodes: Sequence[Node], scope: _Scope) -> None:
        for index, node in enumerate(nodes):
            self.visits += 1
            if self.visits > self.budget:
                raise LimitError(
                    f"{scope.path}: the functions and loops that inference unfolds must have at most {self.budget:,} "
                    "nodes (inlined_nodes)", "if you trust the model, raise it with --limit inlined_nodes=NUMBER"
                )
            where = f"node[{index}] {node.label}"
            results = self.visit(node, scope, f"{scope.path}/node[{index}]", f"{scope.path}/{where}")
            for position, name in enumerate(node.outputs):
                if name:
                    fact = results[position] if position < len(results) else UNKNOWN
                    self.define(name, fact, scope, "GR-21" if name in scope.outputs else "GR-16", where)

    def visit(self, node: Node, scope: _Scope, place: str, path: str) -> Sequence[Fact]:
        """The facts of a node's outputs."""
        operands = [scope.facts.get(name, UNKNOWN) if name else None for name in node.inputs]
        function = self.functions.called(node, scope.opsets)
        if function is not None:
            return self.in_function(function, node, operands, path)
        key = self.repeats.key(node, scope.opsets.get(node.domain, 0), operands, self.worlds)
        facts = self.repeats.find(key)
        if facts is None:
            before = self.worlds.made, len(self.findings)
            facts = self.of_node(node, operands, scope, place, path)
            if before == (self.worlds.made, len(self.findings)):
                self.repeats.keep(key, operands, facts)
        return facts

    def of_node(
        self, node: Node, operands: Sequence[Fact | None], scope: _Scope, place: str, path: str
    ) -> Sequence[Fact]:
        schema, operator = find(node, scope.opsets)
        call = Call(node, scope.opsets.get(node.domain, 0), place, schema, self.meter)
        if schema is not None and (wrong := mismatch(schema, node.inputs, operands)) is not None:
            if not is_map_of_doubles(node, operands):
                self.findings.append(error("ND-05", path, wrong, "insert a Cast, or export the model again"))
                return []
            self.findings.append(lenient("ND-05", "W-double-map", path, wrong, "nothing needs to be done"))
        if node.domain in QONNX_DOMAINS and schema is not None:
            self.findings.extend(_integer_zero(node, schema, operands, path))
        control = None if node.domain else CONTROL.get(node.op_type)
        if control is not None:
            earlier = len(self.findings)

            def body(name: str, graph: Graph, inputs: Sequence[Fact]) -> list[Fact]:
                place = f"{path}/attribute '{name}'"
                self.forget(earlier, place)
                return self.in_graph(graph, inputs, scope, place)

            facts = control(call, operands, self.worlds, body)
            return facts if facts is not None else by_schema(call, operands, len(node.outputs))
        return self.of_operator(call, schema, operator, operands, path)

    def of_operator(
        self, call: Call, schema: Schema | None, operator: Operator | None, operands: Sequence[Fact | None], path: str
    ) -> list[Fact]:
        node = call.node
        if node.op_type == "Identity" and not node.domain and len(operands) == 1:
            return [operands[0] or UNKNOWN]
        fallback = by_schema(call, operands, len(node.outputs))
        if schema is not None and _lacks(schema, operands):
            return fallback
        try:
            facts = self.by_operator(call, operator, operands)
        except Contradiction as wrong:
            message = wrong.why if wrong.where in ("", call.where) else f"{wrong.where}: {wrong.why}"
            self.findings.append(error("SH-08", path, message, wrong.remedy or AGAIN))
            facts = None
        if facts is None:
            return fallback
        return [refined(a, b, self.worlds) for a, b in zip(facts, fallback, strict=False)]

    def by_operator(
        self, call: Call, operator: Operator | None, operands: Sequence[Fact | None]
    ) -> Sequence[Fact] | None:
        """None where nothing but the schema helps.  Raises Contradiction where no sizes suit the operator."""
        node = call.node
        holder = SEQUENCES.get((node.domain, node.op_type))
        if holder is not None:
            return holder(call, operands, self.worlds)
        tensors = [o for o in operands if o is None or isinstance(o, TensorFact)]
        if len(tensors) != len(operands):
            return None
        facts = None
        with suppress(Unsupported):
            facts = by_rule(call, operator, tensors, self.worlds) if operator is not None else None
        if facts is None and not node.domain and node.op_type in DATA_DEPENDENT and tensors:
            facts = DATA_DEPENDENT[node.op_type](call, tensors, self.worlds)
        return facts

    def forget(self, count: int, path: str) -> None:
        """Drop what an earlier round found in the graph at `path`, which is behind the first `count` findings."""
        self.findings[count:] = [f for f in self.findings[count:] if not f.path.startswith(f"{path}/")]

    def in_graph(self, graph: Graph, inputs: Sequence[Fact], outer: _Scope, path: str) -> list[Fact]:
        """The outputs of a graph in an attribute for the facts of its inputs."""
        facts: dict[str, Fact] = {}
        for value, fact in zip(graph.inputs, inputs, strict=False):
            if (wrong := contradiction(fact, value.type, self.worlds)) is not None:
                where = f"{path}/input '{value.name}'"
                self.findings.append(error("GR-16", where, f"the type of '{value.name}' must be {wrong}"))
            facts[value.name] = refined(fact, fact_of(value.type, self.worlds), self.worlds)
        for value in graph.inputs[len(inputs) :]:
            facts[value.name] = fact_of(value.type, self.worlds)
        scope = self.scope(graph, ChainMap(facts, outer.facts), path, outer.opsets)
        self.visit_all(graph.nodes, scope)
        self.inner[path] = facts, scope.claims
        return [scope.facts.get(value.name, UNKNOWN) for value in graph.outputs]

    def in_function(
        self, function: Function, node: Node, operands: Sequence[Fact | None], path: str
    ) -> list[Fact]:
        """The outputs of a function for the operands of one call."""
        place = f"{path}/{function_path(function)}"
        facts: dict[str, Fact] = {n: f for n, f in zip(function.inputs, operands, strict=False) if f is not None}
        scope = _Scope(facts, _claims(function), frozenset(), place, function.opsets)
        self.visit_all(instantiate(function, node), scope)
        self.inner[place] = facts, scope.claims
        return [facts.get(name, UNKNOWN) for name in function.outputs]
