"""A part of a model as a model of its own: what stands between some tensors and some others."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hwflow_base.errors import HwflowError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.inference.infer_types import infer_types
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Function, Graph, Model, Node, TensorType, Value, ValueType
from hwflow.onnx.operators import having
from hwflow.onnx.rewrite.renaming import Fresh, all_names, fresh_names, reads
from hwflow.onnx.rules.finding import Nearest, quoted
from hwflow.onnx.run.functions import graphs_of
from hwflow.onnx.traits import Trait

#: What a network is made of: a part without any of them is of no use.
_LAYERS = frozenset(name for _, name in having(Trait.NETWORK))

#: A part with less than the whole's work divided by this is of no use; and what is far more work.
LEAST_SHARE, FAR_MORE = 10, 4

#: Names that a message lists at most.
MOST = 8


def extract(
    model: Model,
    inputs: Iterable[str] | None = None,
    outputs: Iterable[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Model:
    """The nodes that compute the tensors `outputs` from the tensors `inputs`, as a model with these interfaces.

    None for `outputs` are those of the model; None for `inputs` are those inputs of the model that the outputs depend
    on.  Tensors that become inputs or outputs have the types that the file states or that follow from it.  Initializers
    and functions that are not used are left out, training too; operator sets and metadata stay.  HwflowError for a name
    that the graph does not have, an input that no output depends on, and where the outputs depend on other inputs too.
    """
    graph = model.graph
    starts = None if inputs is None else tuple(dict.fromkeys(inputs))
    ends = tuple(dict.fromkeys(value.name for value in graph.outputs) if outputs is None else dict.fromkeys(outputs))
    _require_tensors(graph, starts or (), ends)
    nodes, needed = _between(graph, set(starts or ()), ends)
    own = {value.name for value in graph.inputs}
    if starts is None:
        starts = tuple(value.name for value in graph.inputs if value.name in needed)
    else:
        _require_whole(graph, starts, ends, nodes, needed, own)
    types = infer_types(model, limits=limits).values
    stated = {value.name: value for value in (*graph.inputs, *graph.overridable, *graph.outputs)}
    part = _graph(graph, nodes, needed, [_value(name, stated, types) for name in starts],
                  [_value(name, stated, types) for name in ends])  # fmt: skip
    functions = tuple(_called(model.functions, part.nodes))
    return replace(model, graph=part, functions=functions, training=())


def _between(graph: Graph, starts: set[str], ends: Sequence[str]) -> tuple[list[Node], set[str]]:
    """The nodes that `ends` depend on, up to `starts`, and every name that they read, `ends` included."""
    needed, todo, nodes = set(ends), set(ends) - starts, list[Node]()
    for node in reversed(graph.nodes):
        if todo.intersection(filter(None, node.outputs)):
            nodes.append(node)
            names = set(reads(node))
            needed |= names
            todo |= names - starts
    return nodes[::-1], needed


def _require_tensors(graph: Graph, starts: Sequence[str], ends: Sequence[str]) -> None:
    """Every name is that of a tensor of the graph; outputs are computed, and none is an input as well."""
    computed = dict.fromkeys(name for node in graph.nodes for name in node.outputs if name)
    inputs_there = dict.fromkeys(value.name for value in (*graph.inputs, *graph.overridable))
    known = {**inputs_there, **computed, **dict.fromkeys([*graph.initializers, *graph.sparse_initializers])}
    near = Nearest()
    if not ends:
        raise HwflowError("a part of a model must have at least one output", "name its tensor")
    for name in (*starts, *ends):
        if name not in known:
            raise HwflowError(f"the graph must have the tensor {quoted(name)} to be cut there, and does not",
                              f"{_meant(graph, name, near, known)}")  # fmt: skip
    for name in ends:
        if name in starts:
            raise HwflowError(f"{quoted(name)} must be an input or an output of the part, not both")
        if name not in computed:
            what = "an input" if name in inputs_there else "a constant"
            raise HwflowError(f"an output of the part must be the result of a node, and {quoted(name)} is {what} of "
                              "the model", "name a tensor after it")  # fmt: skip


def _meant(graph: Graph, name: str, near: Nearest, known: Mapping[str, object]) -> str:
    """Names that the user may mean with a name that no tensor has."""
    node = next((node for node in graph.nodes if node.name == name), None)
    if node is not None:
        results = ", ".join(quoted(result) for result in node.outputs[:MOST] if result)
        return f"a node has that name, and its results are {results}"
    inside = next((node for node in graph.nodes for _, inner in graphs_of(node) if name in set(all_names(inner))), None)
    if inside is not None:
        return f"it is inside of the node {inside.label}, which can only be cut as a whole"
    return f"{near.guess(name, known)}see the names with `hwflow info`"


def _require_whole(
    graph: Graph, starts: Sequence[str], ends: Sequence[str], nodes: Sequence[Node], needed: set[str], own: set[str]
) -> None:
    """Every input is needed, and nothing else is that the caller of the part would have to give."""
    idle = [name for name in starts if name not in needed]
    if idle:
        raise HwflowError(f"an input of the part must be in front of an output: no output of {_listed(ends)} depends "
                          f"on {_listed(idle)}, or only through the other inputs")  # fmt: skip
    missing = [value.name for value in graph.inputs if value.name in needed and value.name not in starts]
    if missing:
        name = missing[0]
        reader = next(node for node in nodes if name in set(reads(node)))
        raise HwflowError(f"the inputs of the part must be all that its outputs depend on, and {_listed(missing)} "
                          f"{'is' if len(missing) == 1 else 'are'} missing (the node {reader.label} reads "
                          f"{quoted(name)})", f"cut there too: {_words('--from', missing)}")  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(map(quoted, names[:MOST])) + more


def _value(name: str, stated: Mapping[str, Value], types: Mapping[str, ValueType]) -> Value:
    """The value with its type; HwflowError where that cannot be told."""
    value = stated.get(name)
    if value is not None and value.type is not None:
        return value
    type_ = types.get(name)
    if type_ is None:
        raise HwflowError(f"the type of {quoted(name)} must be known to cut there, and neither the file states it nor "
                          "does it follow from the operators", "cut at another tensor")  # fmt: skip
    if isinstance(type_, TensorType) and type_.shape is not None:  # "2*n" is no name of a size
        dims = tuple(None if isinstance(dim, str) and not dim.isidentifier() else dim for dim in type_.shape)
        type_ = TensorType(type_.dtype, dims)
    return Value(name, type_) if value is None else replace(value, type=type_)


def _graph(graph: Graph, part: Sequence[Node], needed: set[str], inputs: Sequence[Value], outputs: Sequence[Value]
           ) -> Graph:  # fmt: skip
    """The part: a result of its nodes that became an input gets another name, which nobody reads."""
    starts = {value.name for value in inputs}
    fresh = fresh_names([*all_names(graph), *needed])
    nodes = [_without(node, starts, fresh) if starts.intersection(node.outputs) else node for node in part]
    defaults = tuple(value for value in graph.overridable if value.name in needed and value.name not in starts)
    written = {name for node in nodes for name in node.outputs}
    there = needed | written
    return replace(
        graph,
        nodes=tuple(nodes),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        initializers={n: array for n, array in graph.initializers.items() if n in needed and n not in starts},
        sparse_initializers={n: a for n, a in graph.sparse_initializers.items() if n in needed and n not in starts},
        overridable=defaults,
        types={name: type_ for name, type_ in graph.types.items() if name in there},
        extra=_annotations_of(graph.extra, there),
    )


def _without(node: Node, starts: set[str], fresh: Fresh) -> Node:
    return replace(node, outputs=tuple(fresh(f"{name}_unused") if name in starts else name for name in node.outputs))


def _annotations_of(extra: bytes, there: set[str]) -> bytes:
    """The texts and annotations of the graph, without the annotations of tensors that are gone."""
    if not extra:
        return extra
    proto = pb.GraphProto.FromString(extra)
    annotations = [entry for entry in proto.quantization_annotation
            if there.issuperset([entry.tensor_name, *(e.value for e in entry.quant_parameter_tensor_names)])]
    del proto.quantization_annotation[:]
    proto.quantization_annotation.extend(annotations)
    return proto.SerializeToString()


def _called(functions: Iterable[Function], nodes: Iterable[Node]) -> Iterator[Function]:
    """The functions that the nodes call, and those that these call, in the order of the model."""
    functions = tuple(functions)
    bodies = {function.key: function for function in functions}
    used, todo = set[tuple[str, str, str]](), list(nodes)
    while todo:
        node = todo.pop()
        todo += (inner for _, graph in graphs_of(node) for inner in graph.nodes)
        key = (node.domain, node.op_type, node.overload)
        if key in bodies and key not in used:
            used.add(key)
            todo += bodies[key].nodes
    return (function for function in functions if function.key in used)


class Cuts:
    """The commands that cut `graph` at its nodes, where a part is left that is worth it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._computed = {name for node in graph.nodes if any(reads(node)) for name in node.outputs if name}
        self._last = {value.name for value in graph.outputs}
        self._is_network = any(node.op_type in _LAYERS for node in graph.nodes)
        self._whole = self._work(graph.nodes)

    def command(self, node: Node) -> str:
        """The command that makes a model of what is in front of `node`, or of what is behind it where by far the most
        of the network's work is there; "" where nothing is on either side, or a small share of the work alone.

        "`hwflow onnx extract MODEL front.onnx --to conv1_out`"
        """
        before = [name for name in dict.fromkeys(reads(node)) if name in self._computed]
        behind = [name for name in node.outputs if name and name not in self._last]
        front = self._work(_between(self._graph, set(), before)[0]) if before else 0
        rest = self._work(self._behind(behind)) if behind else 0
        if not max(front, rest) or max(front, rest) * LEAST_SHARE < self._whole:
            return ""
        if front * FAR_MORE >= rest:
            return f"`hwflow onnx extract MODEL front.onnx {_words('--to', before)}`"
        return f"`hwflow onnx extract MODEL rest.onnx {_words('--from', behind)}`"

    def _work(self, nodes: Iterable[Node]) -> int:
        """The numbers that the layers among `nodes` multiply with, 1 for a layer whose weights are computed: a measure
        that needs no shapes.  Of a model without a layer, the number of nodes."""
        if not self._is_network:
            return len(list(nodes))
        constants = {**self._graph.initializers, **self._graph.sparse_initializers}
        return sum(max(1, sum(getattr(constants.get(name), "size", 0) for name in node.inputs[1:]))
                   for node in nodes if node.op_type in _LAYERS)  # fmt: skip

    def _behind(self, names: Iterable[str]) -> Iterator[Node]:
        """The nodes that depend on these tensors."""
        reached = set(names)
        for node in self._graph.nodes:
            if reached.intersection(reads(node)):
                reached.update(filter(None, node.outputs))
                yield node


def _words(option: str, names: Iterable[str]) -> str:
    return " ".join(f"{option} {shlex.quote(name)}" for name in names)
