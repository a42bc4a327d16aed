"""A model written for other operator sets: the walk over its graphs, node by node and version by version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from hwflow.onnx.conversion import bodies, elementwise, layers, ml, moving, reductions, resize, sequences
from hwflow.onnx.conversion.node_conversion import Facts, NodeConversion, Refusal, Scope, constant_of
from hwflow.onnx.conversion.steps import SAME, Step, Steps, narrow, not_there
from hwflow.onnx.errors import ConversionError, Unconverted
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Attribute, AttributeRef, Function, Graph, Model, Node, SparseTensor, Training
from hwflow.onnx.operators import OPERATORS
from hwflow.onnx.rewrite.renaming import Fresh, all_names, fresh_names, reads
from hwflow.onnx.run.functions import Functions, function_path, graphs_of
from hwflow.onnx.schemas import (
    NEWEST,
    AttributeKind,
    Option,
    Parameter,
    Schema,
    canonical_domain,
    find_schema,
    versions_of,
)
from hwflow.onnx.versioning.numbers import first_release, least_ir

#: The operator sets whose versions are converted.
DOMAINS = ("", "ai.onnx.ml")

#: (domain, operator) to {version: step}.
_Table: TypeAlias = Mapping[tuple[str, str], Mapping[int, Step]]

_FAMILIES = (elementwise, layers, moving, reductions, resize, sequences)


def _unchanged(domain: str) -> Steps:
    """Steps that keep nodes as they are."""
    return {name: dict.fromkeys(row.same, SAME) for (of, name), row in OPERATORS.items() if of == domain}


def _table(parts: Mapping[str, Iterable[Steps]]) -> _Table:
    """One table of the parts of each domain.  No step stands in two parts."""
    table: dict[tuple[str, str], dict[int, Step]] = {}
    for domain, tables in parts.items():
        for steps in tables:
            for name, versions in steps.items():
                row = table.setdefault((domain, name), {})
                assert not row.keys() & versions.keys(), f"{name}: two steps for {row.keys() & versions.keys()}"
                row.update(versions)
    return table


#: The step from the version before.  A version that takes the operator away counts as one.
UP: _Table = _table({"": (_unchanged(""), *(family.UP for family in _FAMILIES)),
                     "ai.onnx.ml": (_unchanged("ai.onnx.ml"), ml.UP)})  # fmt: skip

#: The step to the version before, or to operator sets without the operator, where it is a special one.
_DOWN: _Table = _table({"": (bodies.DOWN, *(family.DOWN for family in _FAMILIES)), "ai.onnx.ml": (ml.DOWN,)})


def step_up(schema: Schema) -> Step:
    """The step from a version of an operator to the next one."""
    since = next(newer.since for newer in versions_of(schema.domain, schema.name) if newer.since > schema.since)
    return UP[schema.domain, schema.name][since]


def step_down(schema: Schema) -> Step:
    """The step to the version before; a version that the table does not have is kept if that one can express the node.

    Below the first version of its operator, a node is refused.
    """
    special = _DOWN.get((schema.domain, schema.name), {}).get(schema.since)
    if special is not None:
        return special
    first = versions_of(schema.domain, schema.name)[0].since
    return not_there if schema.since == first else narrow


#: The version of the file format since which a model says which operator sets it imports.
_NAMED_SETS = 3

#: The version of the file format since which an initializer need not be an input.
_PLAIN_INITIALIZERS = 4


def convert_opset(model: Model, target: int | Mapping[str, int], limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model of other operator sets that computes the same.

    `target` is the version of the default operator set, or versions by domain ("" or "ai.onnx", and "ai.onnx.ml");
    domains that the model does not import are passed over.  Nodes whose operator means the same in both sets stay the
    same objects; every value of the model keeps its name and its meaning.  The version of the file format grows to one
    that has the operator sets.

    Raises ConversionError, which names every node that has no form of its meaning in `target`, and for versions that
    hwflow does not know.
    """
    targets = _wanted(target)
    sets = (imported_sets(model), *(function.opsets for function in model.functions))
    if all(opsets.get(domain, version) == version for opsets in sets for domain, version in targets.items()):
        return model
    conversion = _Conversion(replace(model, opsets=imported_sets(model)), targets, limits)
    converted = conversion.model_converted()
    if conversion.problems:
        raise ConversionError(_message(conversion.problems, targets), nodes=tuple(conversion.problems))
    return converted


def imported_sets(model: Model) -> Mapping[str, int]:
    """The operator sets of a model; files before IR version 3 name none and mean the first one of ONNX."""
    return model.opsets or ({"": 1} if model.ir_version < _NAMED_SETS else {})


def _wanted(target: int | Mapping[str, int]) -> dict[str, int]:
    stated = {"": target} if isinstance(target, int) else target
    targets = {canonical_domain(domain): version for domain, version in stated.items()}
    for domain, version in targets.items():
        shown = domain or "ai.onnx"
        if domain not in DOMAINS:
            raise ConversionError(
                f"the operator set to convert must be {' or '.join(d or 'ai.onnx' for d in DOMAINS)}, not '{shown}'; "
                f"other operator sets have one version only"
            )
        if not 1 <= version <= NEWEST[domain]:
            raise ConversionError(
                f"the version of {shown} must be 1 to {NEWEST[domain]}, not {version}", "choose one that hwflow knows"
            )
    return targets


def _message(problems: Sequence[Unconverted], targets: Mapping[str, int]) -> str:
    sets = " and ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in targets.items())
    count = "1 node has" if len(problems) == 1 else f"{len(problems)} nodes have"
    lines = [f"  {p.path}: {p.why}\n    {p.remedy}" for p in problems]
    return "\n".join([f"{count} no form with the same meaning in {sets}:", *lines])


@dataclass
class _Conversion:
    model: Model
    targets: dict[str, int]
    limits: Limits
    problems: list[Unconverted] = field(default_factory=list)
    holds_constants: bool = False

    def __post_init__(self) -> None:
        model = self.model
        graphs = [model.graph, *(g for t in model.training for g in (t.initialization, t.algorithm) if g is not None)]
        names = [name for graph in graphs for name in all_names(graph)]
        names += [name for function in model.functions for name in _names_of(function)]
        self.fresh: Fresh = fresh_names(names)
        self.functions = Functions(model.functions, self.limits)
        self.facts = Facts(model, self.limits)
        self.imported: dict[str, int] = {}

    def model_converted(self) -> Model:
        model = self.model
        scope = Scope("graph", self.facts)
        graph = self.graph(model.graph, model.opsets, scope)
        training = tuple(self.training(t, f"training_info[{i}]", scope) for i, t in enumerate(model.training))
        opsets = {**self.imported, **self.converted_sets(model.opsets)}
        functions = tuple(map(self.function, model.functions))
        needed = max((least_ir(domain, version) or 0 for domain, version in opsets.items()), default=0)
        if self.holds_constants:
            needed = max(needed, _PLAIN_INITIALIZERS)
        ir_version = max(model.ir_version, needed, _NAMED_SETS)
        return replace(
            model, graph=graph, training=training, functions=functions, opsets=opsets, ir_version=ir_version
        )

    def converted_sets(self, opsets: Mapping[str, int]) -> dict[str, int]:
        return {domain: self.targets.get(domain, version) for domain, version in opsets.items()}

    def training(self, training: Training, path: str, main: Scope) -> Training:
        first, steps = training.initialization, training.algorithm
        opsets = self.model.opsets
        if first is not None:
            first = self.graph(first, opsets, Scope(f"{path}/initialization", self.facts))
        if steps is not None:
            steps = self.graph(steps, opsets, Scope(f"{path}/algorithm", self.facts, main))
        return replace(training, initialization=first, algorithm=steps)

    def function(self, function: Function) -> Function:
        scope = Scope(function_path(function), self.facts)
        self.imported = {}
        nodes = self.nodes(function.nodes, function.opsets, scope)
        opsets = {**self.imported, **self.converted_sets(function.opsets)}
        return replace(function, nodes=nodes, opsets=opsets)

    def graph(self, graph: Graph, opsets: Mapping[str, int], scope: Scope) -> Graph:
        """The graph with its nodes converted; the same object where none of them changes."""
        fed = {value.name for value in (*graph.inputs, *graph.overridable)}
        scope.constants.update((name, array) for name, array in graph.initializers.items() if name not in fed)
        nodes = self.nodes(graph.nodes, opsets, scope)
        unchanged = len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True))
        if unchanged:
            return graph
        self.holds_constants |= bool(scope.initializers)
        converted = replace(graph, nodes=nodes, initializers={**graph.initializers, **scope.initializers})
        return converted if self.model.training else without_unread(graph, converted)

    def nodes(self, nodes: Sequence[Node], opsets: Mapping[str, int], scope: Scope) -> tuple[Node, ...]:
        written: list[Node] = []
        for index, node in enumerate(nodes):
            constant = constant_of(node)
            if constant is not None:
                scope.constants[node.outputs[0]] = constant
            where = f"{scope.path}/node[{index}] {node.label}"
            inner = self.inside(node, opsets, scope, where)
            written += _without_unused(list(self.rewritten((inner,), opsets, scope, where)), node)
        return tuple(written)

    def inside(self, node: Node, opsets: Mapping[str, int], scope: Scope, where: str) -> Node:
        """The node with the graphs in its attributes converted."""
        if not any(True for _ in graphs_of(node)):
            return node

        def converted(name: str, value: Attribute) -> Attribute:
            path = f"{where}/attribute '{name}'"
            if isinstance(value, Graph):
                return self.graph(value, opsets, Scope(path, self.facts, scope))
            if isinstance(value, tuple) and any(isinstance(entry, Graph) for entry in value):
                return tuple(
                    self.graph(e, opsets, Scope(path, self.facts, scope)) for e in value if isinstance(e, Graph)
                )
            return value

        attributes = {name: converted(name, value) for name, value in node.attributes.items()}
        same = all(attributes[name] is value for name, value in node.attributes.items())
        return node if same else replace(node, attributes=attributes)

    def rewritten(
        self, nodes: Iterable[Node], opsets: Mapping[str, int], scope: Scope, where: str
    ) -> Iterator[Node]:
        """The nodes in the form of the targets; what cannot be written so goes into `problems`."""
        todo = [(node, opsets) for node in nodes][::-1]
        while todo:
            node, sets = todo.pop()
            try:
                site = self.site(node, sets, scope, where)
                if site is None:
                    yield node
                    continue
                upward = site.opset >= site.schema.since
                _run(step_up(site.schema) if upward else step_down(site.schema), site)
            except Refusal as refusal:
                operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
                place = f"{where}, {operator} of operator set {sets.get(node.domain, 0)}"
                self.problems.append(Unconverted(place, node.label, refusal.why, refusal.remedy))
                continue
            for domain, version in site.opsets.items():
                if domain not in opsets:
                    self.imported[domain] = self.targets.get(domain, version)
            todo += [(node_made, dict(site.opsets)) for node_made in reversed(site.made)]

    def site(self, node: Node, opsets: Mapping[str, int], scope: Scope, where: str) -> NodeConversion | None:
        """Where the next step of a node takes place; None for a node that is as wanted."""
        domain = node.domain
        target, version = self.targets.get(domain), opsets.get(domain)
        if target is None or version is None or target == version:
            return None
        here, there = (find_schema(domain, node.op_type, number) for number in (version, target))
        if self.functions.called(node, opsets) is not None:
            self.require_function(node, there, target)
            return None
        if here is None or (here.deprecated and _next(here, upward=True) is None):
            raise Refusal(
                f"operator set {version} has no operator of this name", "export the model again with the right version"
            )
        if there is not None and here.since == there.since:
            return None
        if (wrong := broken_rule(node, here)) is not None:
            raise Refusal(wrong, "the file breaks a rule of ONNX, see `hwflow check`; export the model again")
        next_version = _next(here, target > version)
        since = next_version.since if next_version is not None and target > version else here.since - 1
        known = None if next_version is None or next_version.deprecated else next_version
        sets = {**opsets, domain: since}
        if "" not in sets:  # steps of ai.onnx.ml write nodes of the default operator set too
            release = first_release(domain, target)
            sets[""] = self.targets.get("", release.opset if release is not None else NEWEST[""])

        def finished(nodes: Sequence[Node], site: NodeConversion) -> tuple[Node, ...]:
            return tuple(self.rewritten(nodes, site.opsets, scope, where))

        return NodeConversion(node, here, known, sets, self.targets, scope, self.fresh, finished)

    def require_function(self, node: Node, there: Schema | None, target: int) -> None:
        if there is not None and not node.overload:
            raise Refusal(
                f"the name of this function of the model is that of an operator in operator set {target}",
                "give the function another name or domain, or inline it (hwflow.onnx.inline_functions)",
            )


def _without_unused(nodes: list[Node], node: Node) -> list[Node]:
    """The nodes that took the place of `node`, without constants that a later step computed with or left out."""
    if len(nodes) < 2:
        return nodes
    read = {name for other in nodes for name in reads(other)} | set(node.outputs)
    return [other for other in nodes if other.op_type != "Constant" or read.intersection(other.outputs)]


def _names_of(function: Function) -> Iterator[str]:
    yield from (*function.inputs, *function.outputs)
    yield from all_names(Graph(function.name, function.nodes, (), (), {}))


def _next(here: Schema, upward: bool) -> Schema | None:
    """The neighbouring version of an operator."""
    versions = versions_of(here.domain, here.name)
    index = next(i for i, schema in enumerate(versions) if schema.since == here.since) + (1 if upward else -1)
    return versions[index] if 0 <= index < len(versions) else None


def _run(step: Step, site: NodeConversion) -> None:
    """A step; a refusal where the numbers of the node are none that the operator can work with."""
    try:
        step(site)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise Refusal(
            f"what it states must suit the operator ({str(error) or type(error).__name__})",
            "the file breaks a rule of ONNX; export the model again",
        ) from error


#: What an attribute of each kind holds, lists by their elements.
_HELD: Mapping[AttributeKind, type] = {
    AttributeKind.FLOAT: float,
    AttributeKind.INT: int,
    AttributeKind.STRING: str,
    AttributeKind.TENSOR: np.ndarray,
    AttributeKind.GRAPH: Graph,
    AttributeKind.SPARSE_TENSOR: SparseTensor,
    AttributeKind.FLOATS: float,
    AttributeKind.INTS: int,
    AttributeKind.STRINGS: str,
    AttributeKind.TENSORS: np.ndarray,
}


def broken_rule(node: Node, schema: Schema) -> str | None:
    """The fault in the form of a node; None for one that is as its schema has it."""
    return next(_broken(node, schema), None)


def _broken(node: Node, schema: Schema) -> Iterator[str]:
    sides = (("input", node.inputs, schema.inputs, schema.input_limits),
             ("output", node.outputs, schema.outputs, schema.output_limits))  # fmt: skip
    for kind, names, parameters, (low, high) in sides:
        if not low <= len(names) <= high:
            yield f"it has {len(names)} {kind}s, and version {schema.since} of the operator {_count(low, high)}"
        yield from _left_out(kind, names, parameters)
    for name, stated in schema.attributes.items():
        if name not in node.attributes:
            if stated.required:
                yield f"it must have the attribute '{name}'"
        elif not _holds(node.attributes[name], stated.kind):
            yield f"attribute '{name}' must be of the kind {stated.kind.value}"


def _count(low: int, high: int) -> str:
    return f"has {low}" if low == high else f"has {low} or more" if high > 1 << 20 else f"has {low} to {high}"


def _left_out(kind: str, names: Sequence[str], parameters: Sequence[Parameter]) -> Iterator[str]:
    for name, parameter in zip(names, parameters, strict=False):
        if not name and kind == "input" and parameter.option is Option.SINGLE:
            yield f"its input '{parameter.name}' must be given"


def _holds(value: Attribute, kind: AttributeKind) -> bool:
    held = _HELD.get(kind)
    if held is None or isinstance(value, AttributeRef):
        return True
    if kind.is_list:
        return isinstance(value, tuple) and all(isinstance(entry, held) for entry in value)
    return isinstance(value, held)


def without_unread(before: Graph, after: Graph) -> Graph:
    """`after` without the initializers and Constant nodes that nodes of `before` read and its own do not."""
    fed = {value.name for value in (*before.inputs, *before.overridable)}
    unread = set(_read(before)) - set(_read(after)) - fed

    def stays(node: Node) -> bool:
        return constant_of(node) is None or node.outputs[0] not in unread

    return replace(
        after,
        nodes=tuple(filter(stays, after.nodes)),
        initializers={name: array for name, array in after.initializers.items() if name not in unread},
    )


def _read(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        yield from reads(node)
    for value in graph.outputs:
        yield value.name
