"""Small questions and answers about ONNX graphs, for the passes and the importer, and what passes write with."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate_nodes
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node
from hwflow.onnx.operators import (
    COMPUTED,
    HOST_AFTER,
    HOST_BEFORE,
    HOST_ONLY,
    KNOWN,
    MOVES,
    NEVER_ON_HOST,
    PADS,
    RESIZES,
)
from hwflow.onnx.rewrite.renaming import reads

_T = TypeVar("_T")


def with_graph(model: Model, nodes: Iterable[Node], initializers: Mapping[str, Array] | None = None) -> Model:
    """`model` with other nodes and, where given, more initializers."""
    graph = model.graph
    merged = {**graph.initializers, **(initializers or {})}
    return replace(model, graph=replace(graph, nodes=tuple(nodes), initializers=merged))


def consumers(graph: Graph) -> dict[str, list[Node]]:
    """Tensor name to the nodes that read it, in order.  A tensor that nobody reads is not there."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(filter(None, node.inputs)):
            readers.setdefault(name, []).append(node)
    return readers


def producers(graph: Graph) -> dict[str, Node]:
    """Tensor name to the node that makes it."""
    return {name: node for node in graph.nodes for name in node.outputs if name}


def ancestors(graph: Graph, names: Iterable[str]) -> list[Node]:
    """The nodes that the tensors `names` depend on, in the order of the graph."""
    return leading_to(graph.nodes, names)


def leading_to(nodes: Sequence[Node], names: Iterable[str]) -> list[Node]:
    """Those of `nodes` that the tensors `names` depend on, in their order."""
    needed, leading = set(names), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            leading.append(node)
            needed.update(reads(node))
    return leading[::-1]


def shape_of(graph: Graph, name: str) -> tuple[int, ...] | None:
    """The static shape of a tensor; None where it is not known."""
    if name in graph.initializers:
        return graph.initializers[name].shape
    kind = graph.tensor_type(name)
    if kind is None or kind.shape is None or not kind.is_static:
        return None
    return tuple(size for size in kind.shape if isinstance(size, int))


def label_of(node: Node) -> str:
    """The name of a node in settings and new tensors: its name; the name of its first output where it has none."""
    return node.name or node.outputs[0]


def is_layer(node: Node, constants: Container[str]) -> bool:
    """True for a Conv or Gemm whose weights and bias both are among `constants`."""
    named = node.inputs[1:3]
    return node.op_type in ("Conv", "Gemm") and len(named) == 2 and all(name in constants for name in named)


def is_computed(node: Node) -> bool:
    """True for what becomes a layer of its own between layers: `operators.COMPUTED`, and what interpolates."""
    return (node.domain, node.op_type) in COMPUTED or interpolates(node)


def interpolates(node: Node) -> bool:
    """True for a Resize or Upsample whose result lies on lines between elements."""
    return not node.domain and node.op_type in RESIZES and _mode(node) in ("linear", "bilinear")


def is_embedding(node: Node, graph: Graph) -> bool:
    """True for a Gather that chooses rows of a constant table by computed numbers: a layer, wherever it stands.

    Integers in one axis are no table of rows; that is how numbers are brought into range (`passes/tables.py`).
    """
    if node.domain or node.op_type != "Gather" or node.inputs[1] in graph.initializers:
        return False
    table = graph.initializers.get(node.inputs[0])
    return table is not None and table.size > 0 and (table.ndim > 1 or (table.ndim == 1 and table.dtype.kind == "f"))


def chosen_rows(node: Node, graph: Graph) -> tuple[int, int]:
    """Which input of `node` has numbers of rows, and how many rows there are; 0 where it has none."""
    if is_embedding(node, graph):
        return 1, graph.initializers[node.inputs[0]].shape[attribute(node, "axis", 0)]
    cache = shape_of(graph, node.inputs[0]) if node.op_type == "TensorScatter" and node.input(2) else None
    return 2, cache[attribute(node, "axis", -2)] if cache is not None else 0


def numbers_read(node: Node, graph: Graph) -> tuple[str, ...]:
    """The input of `node` that is numbers of rows, and no values."""
    place, rows = chosen_rows(node, graph)
    return node.inputs[place : place + 1] if rows else ()


def fixed_names(graph: Graph) -> set[str]:
    """Names of what depends on initializers alone, weights behind a DequantizeLinear for example."""
    names = set(graph.initializers)
    for node in graph.nodes:
        if all(name in names for name in node.inputs if name):
            names.update(filter(None, node.outputs))
    return names


def is_product(node: Node, fixed: Container[str]) -> bool:
    """True for a MatMul or Gemm of two computed tensors; `fixed` are the names that are not computed."""
    return not node.domain and node.op_type in ("MatMul", "Gemm") and not any(x in fixed for x in node.inputs[:2])


def scales(node: Node, graph: Graph) -> bool:
    """True for a node that multiplies with one constant above 0, or divides by it."""
    if node.domain or node.op_type not in ("Mul", "Div"):
        return False
    factors = constants(node, graph)
    is_reciprocal = node.op_type == "Div" and node.inputs[0] in graph.initializers
    return not is_reciprocal and len(factors) == 1 and factors[0].size == 1 and bool(factors[0].min() > 0)


def dynamic_inputs(node: Node, graph: Graph) -> tuple[str, ...]:
    """The inputs of `node` that are not initializers."""
    return tuple(name for name in node.inputs if name and name not in graph.initializers)


def constants(node: Node, graph: Graph) -> tuple[Array, ...]:
    """The initializers among the inputs of `node`, in order."""
    return tuple(graph.initializers[name] for name in node.inputs if name in graph.initializers)


def attribute(node: Node, name: str, default: _T) -> _T:
    """The attribute, or `default` where the node does not have it; of the type of `default`."""
    value = node.attributes.get(name, default)
    assert isinstance(value, type(default)), f"{node.label}: attribute {name} is a {type(value).__name__}"
    return value


def as_ints(value: object) -> tuple[int, ...]:
    """A list attribute or a small integer array as a tuple."""
    if isinstance(value, np.ndarray):
        return tuple(int(v) for v in value.ravel())
    assert isinstance(value, Sequence)
    return tuple(int(v) for v in value)


def apply(node: Node, opsets: Mapping[str, int], inputs: Mapping[str, Array]) -> Array:
    """The first output of one node, all of whose inputs are in `inputs`."""
    first = node.outputs[0]
    return evaluate_nodes([replace(node, outputs=(first,))], inputs, [first], opsets)[first]


def moves(node: Node, graph: Graph) -> bool:
    """True where `node` only says, by constants, which element of its first input stands where in its results."""
    if node.domain or node.op_type not in MOVES or dynamic_inputs(node, graph) != node.inputs[:1]:
        return False
    return node.op_type not in RESIZES or _mode(node) == "nearest"


def _mode(node: Node) -> str:
    return attribute(node, "mode", "nearest")


def moved_indices(node: Node, index: IntArray, graph: Graph, opsets: Mapping[str, int]) -> dict[str, IntArray]:
    """The index of each result of a node that moves elements of a tensor with `index`; -1 where it pads."""
    parameters = {name: graph.initializers[name] for name in node.inputs[1:] if name}
    if node.op_type in PADS:  # what pads counts as 0, and elements from 1 on
        node = replace(node, inputs=tuple("" if k == 2 else name for k, name in enumerate(node.inputs)))
    plain = {key: value for key, value in node.attributes.items() if key not in ("value", "extrapolation_value")}
    node = replace(node, attributes=plain)
    moved = evaluate_nodes([node], {node.inputs[0]: index + 1}, filter(None, node.outputs), opsets, parameters)
    return {name: np.asarray(array, np.int64) - 1 for name, array in moved.items()}


def needs_host(node: Node, graph: Graph) -> bool:
    """True for an operator that has no hardware and is light enough for the host, which evaluates all of ONNX."""
    if node.domain not in ("", "ai.onnx.ml") or node.op_type in NEVER_ON_HOST:
        return False
    if node.op_type in MOVES and not node.domain:
        return not moves(node, graph) and not is_embedding(node, graph)
    return bool(node.domain) or node.op_type not in KNOWN or node.op_type in HOST_ONLY


def host_prefix(graph: Graph, allowed: frozenset[str] = frozenset()) -> set[str]:
    """Names of the tensors that the host makes in front of the hardware, the model's inputs included.

    Only nodes of `allowed` separate them from the inputs, or nodes that need the host and what they depend on; none of
    them reads a state.
    """
    names, front = {value.name for value in graph.inputs}, _front(graph)
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        there = all(n in names and n not in graph.kept for n in dynamic) and not is_embedding(node, graph)
        if there and ((node.op_type in allowed and not node.domain) or front.intersection(node.outputs)):
            names.update(filter(None, node.outputs))
    return names


def on_host(graph: Graph) -> set[str]:
    """Names of the tensors that the host makes, in front of the hardware or behind it, as far as operators decide."""
    return host_prefix(graph, HOST_BEFORE) | host_suffix(graph, HOST_AFTER)


def _front(graph: Graph) -> set[str]:
    """The results of nodes that need the host and do not stand at the end, and of everything in front of them.

    Only where nothing in front of such a node is a layer.  What is true or false and depends on inputs of
    integers alone is made there, too, and what it decides: numbers enter the hardware.
    """
    light, makers, names = _of_the_host(graph), producers(graph), set[str]()
    todo, at_the_end, of_tables = list[str](), host_suffix(graph, HOST_AFTER), set[str]()
    whole = {value.name for value in graph.inputs if value.tensor is not None and value.tensor.dtype.kind in "biu"}
    whole &= light
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        if not dynamic or node.op_type in NEVER_ON_HOST or not light.issuperset(dynamic):
            continue
        light.update(filter(None, node.outputs))
        if is_embedding(node, graph) or of_tables.intersection(dynamic):
            of_tables.update(filter(None, node.outputs))
            if is_computed(node):  # a layer can read a table's rows; what is none brings the table to the host
                continue
        if whole.issuperset(dynamic) and not is_embedding(node, graph):
            whole.update(filter(None, node.outputs))
        of_flags = any(is_boolean(name, graph) for name in (*dynamic, *node.outputs) if name in whole)
        if (of_flags or needs_host(node, graph)) and not at_the_end.intersection(node.outputs):
            todo += filter(None, node.outputs)
    while todo:
        name = todo.pop()
        if name in makers and name not in names:
            names.update(filter(None, makers[name].outputs))
            todo += dynamic_inputs(makers[name], graph)
    return names


def is_boolean(name: str, graph: Graph) -> bool:
    """Whether the elements of a tensor are true or false."""
    kind = graph.tensor_type(name)
    return kind is not None and kind.dtype.kind == "b"


def _of_the_host(graph: Graph) -> set[str]:
    """The inputs that the host gives: all but states that stay on the chip."""
    return {value.name for value in graph.inputs} - graph.kept


def host_suffix(graph: Graph, allowed: frozenset[str], never: frozenset[str] = frozenset()) -> set[str]:
    """Names of the tensors made by nodes of `allowed`, or that need the host, with only such nodes behind them.

    So are all that read what the host has made of a result of a layer: nothing comes back from there.
    Nodes of `never` are none of these, nor are those that a result of a layer is joined with and that depend on inputs
    alone: behind the hardware there are no inputs.  Next values of states stay in the hardware, too.
    """
    names: set[str] = set()
    read, beside, late = consumers(graph), _beside_layers(graph), behind_host(graph)
    for node in reversed(graph.nodes):
        followers = [n for name in node.outputs for n in read.get(name, [])]
        fits = (node.op_type in allowed and not node.domain) or needs_host(node, graph)
        fits = fits or (node.op_type not in NEVER_ON_HOST and not late.isdisjoint(node.inputs))
        fits = fits and (node.op_type not in never or bool(node.domain))
        fits = fits and not (beside | graph.kept).intersection(node.outputs)
        if fits and all(names.intersection(n.outputs) for n in followers):
            names.update(filter(None, node.outputs))
    return names


def behind_host(graph: Graph) -> set[str]:
    """Results of nodes that need the host and have a layer in front of them, and of all behind those."""
    behind, late = set[str](), set[str]()
    for node in graph.nodes:
        results, of_layers = set(filter(None, node.outputs)), not behind.isdisjoint(node.inputs)
        if not late.isdisjoint(node.inputs) or (of_layers and needs_host(node, graph)):
            late |= results
        if of_layers or node.op_type in NEVER_ON_HOST:
            behind |= results
    return late


def _beside_layers(graph: Graph) -> set[str]:
    """Results of nodes without a layer in front of them that lead to a node with one."""
    light, beside, read = _of_the_host(graph), set[str](), consumers(graph)
    for node in graph.nodes:
        if node.op_type not in NEVER_ON_HOST and light.issuperset(dynamic_inputs(node, graph)):
            light.update(filter(None, node.outputs))
    for node in reversed(graph.nodes):
        results = set(filter(None, node.outputs))
        behind = [set(n.outputs) for name in results for n in read.get(name, []) if n.op_type not in NEVER_ON_HOST]
        if results <= light and any(beside & names or not names <= light | {""} for names in behind):
            beside |= results
    return beside


def read_by_host(graph: Graph, suffix: set[str]) -> set[str]:
    """Tensors that the epilogue may make or read.

    The epilogue computes outputs from results of the hardware, even where a layer reads the same function of them.
    """
    makers, todo = producers(graph), [value.name for value in graph.outputs]
    tensors = {*todo, *(name for node in graph.nodes if suffix.intersection(node.outputs) for name in node.inputs)}
    while todo:
        node = makers.pop(todo.pop(), None)  # each once
        if node is not None and node.op_type not in NEVER_ON_HOST | {"QuantizeLinear"}:
            todo += node.inputs
            tensors.update(node.inputs)
    return tensors


class Names:
    """Makes names that a graph does not use yet, always the same ones for the same graph."""

    def __init__(self, graph: Graph) -> None:
        self._used = {value.name for value in (*graph.inputs, *graph.outputs)} | set(graph.initializers)
        for node in graph.nodes:
            self._used.update(node.inputs, node.outputs)

    def new(self, wish: str) -> str:
        name, count = wish, 1
        while name in self._used:
            count += 1
            name = f"{wish}_{count}"
        self._used.add(name)
        return name


class Additions(Names):
    """Additions of a pass to a graph: names, constants under such names, and the nodes of the graph that it makes."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.graph = graph
        self.initializers: dict[str, Array] = {}
        self.nodes: list[Node] = []

    def constant(self, wish: str, value: Array) -> str:
        """A new initializer, and what it is called."""
        name = self.new(wish)
        self.initializers[name] = value
        return name

    def float32(self, wish: str, value: npt.ArrayLike) -> str:
        """A new initializer of that type."""
        return self.constant(wish, np.asarray(value).astype(np.float32))

    def int64(self, wish: str, value: npt.ArrayLike) -> str:
        """A new initializer of that type."""
        return self.constant(wish, np.asarray(value).astype(np.int64))

    def emit(self, op: str, *inputs: str, wish: str = "", output: str = "", name: str = "",
             attributes: Mapping[str, Attribute] | None = None, **stated: Attribute) -> str:
        """A new node of the default domain, and its output: the tensor `output`, or a new one called like `wish`.

        It has the `attributes` and those that are stated one by one.
        """
        output = output or self.new(wish)
        self.nodes.append(Node(op, inputs, (output,), {**(attributes or {}), **stated}, name or output))
        return output

    def emit_like(self, node: Node, *inputs: str, wish: str = "", output: str = "", name: str = "") -> str:
        """The same for a node that is `node` but for its first inputs, as many as are given, and its only output."""
        output = output or self.new(wish)
        self.nodes.append(replace(node, inputs=(*inputs, *node.inputs[len(inputs) :]), outputs=(output,),
                                  name=name or output))
        return output

    def reshaped(self, x: str, shape: Iterable[int], wish: str, output: str = "", name: str = "") -> str:
        """A Reshape of the tensor `x`."""
        return self.emit("Reshape", x, self.int64(f"{wish}.shape", list(shape)), wish=wish, output=output, name=name)

    def into(self, model: Model) -> Model:
        """`model` with these nodes, and with more initializers."""
        return with_graph(model, self.nodes, self.initializers)
