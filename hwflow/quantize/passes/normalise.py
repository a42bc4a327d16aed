"""Passes that bring an ONNX graph into the one form that the rest of the quantizer reads.  Each keeps the meaning."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from hwflow.onnx import convert_opset, infer, simplify
from hwflow.onnx.errors import ConversionError
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import CLAMPS, LAYOUT, MAX_POOLS, QUANTIZERS
from hwflow.quantize.graphs import (
    Additions,
    Names,
    attribute,
    consumers,
    dynamic_inputs,
    label_of,
    producers,
    shape_of,
    with_graph,
)
from hwflow.quantize.problems import Problem, raise_all

#: Constants up to this many elements are compared by value.
_SMALL = 64


def matrix_to_gemm(model: Model) -> Model:
    """MatMul and Gemm become Gemm(x [1, K], weights [N, K], bias [N]) with transB = 1; a Conv gets a bias."""
    graph = model.graph
    added = Additions(graph)
    nodes = added.nodes
    for node in graph.nodes:
        weights = graph.initializers.get(node.input(1))
        base = label_of(node)
        if node.op_type == "Conv" and weights is not None and (len(node.inputs) < 3 or not node.inputs[2]):
            bias = added.constant(f"{base}.bias", np.zeros(weights.shape[0], np.float32))
            nodes.append(replace(node, inputs=(*node.inputs[:2], bias)))
        elif node.op_type == "Gemm" and weights is not None and not attribute(node, "transA", 0):
            w, b = _gemm_constants(node, graph, weights)
            inputs = (node.inputs[0], added.constant(f"{base}.weight", w), added.constant(f"{base}.bias", b))
            nodes.append(replace(node, inputs=inputs, attributes={"transB": 1}))
        elif node.op_type == "MatMul" and weights is not None and weights.ndim == 2:
            _write_matmul(node, weights, added)
        else:
            nodes.append(node)
    return added.into(model)


def _gemm_constants(node: Node, graph: Graph, weights: Array) -> tuple[Array, Array]:
    w = np.asarray(weights if attribute(node, "transB", 0) else weights.T, np.float64) * attribute(node, "alpha", 1.0)
    bias = graph.initializers.get(node.inputs[2]) if node.input(2) else np.zeros(1)
    if bias is None:
        return w.astype(np.float32), np.zeros(w.shape[0], np.float32)  # reported by the check of operators
    b = np.broadcast_to(np.asarray(bias, np.float64).reshape(-1), (w.shape[0],)) * attribute(node, "beta", 1.0)
    return w.astype(np.float32), b.astype(np.float32)


def _write_matmul(node: Node, weights: Array, added: Additions) -> None:
    """A Gemm, between two Reshapes where the input is not of rank 2 but has one row."""
    base, shape = label_of(node), shape_of(added.graph, node.inputs[0])
    if shape is None or int(np.prod(shape[:-1])) != 1:
        added.nodes.append(node)
        return
    w = added.constant(f"{base}.weight", np.ascontiguousarray(weights.T))
    b = added.constant(f"{base}.bias", np.zeros(weights.shape[1], np.float32))
    gemm = replace(node, op_type="Gemm", attributes={"transB": 1})
    if len(shape) == 2:
        added.nodes.append(replace(gemm, inputs=(node.inputs[0], w, b)))
        return
    row = added.reshaped(node.inputs[0], (1, shape[-1]), f"{base}.row")
    result = added.new(f"{base}.result")
    added.nodes.append(replace(gemm, inputs=(row, w, b), outputs=(result,)))
    added.reshaped(result, (*shape[:-1], weights.shape[1]), result, node.outputs[0], result)


def max_pool_last(model: Model) -> Model:
    """A Relu, Clip or QuantizeLinear right behind a MaxPool moves in front of it: all are monotonous, so they commute.

    Where several such nodes read a MaxPool, each gets one of its own.  They stay where the MaxPool, or one
    before it, already reads integers (through a DequantizeLinear).  A GlobalMaxPool that may now read integers,
    which ONNX has not, is written as a MaxPool over the whole frame.
    """
    graph = model.graph
    nodes, names = list(graph.nodes), Names(graph)
    makers, read = producers(graph), consumers(graph)
    gone = set[int]()
    k = 0
    while k < len(nodes):
        pool = nodes[k]
        followers = () if id(pool) in gone else _monotonous_followers(pool, graph, makers, read)
        if not followers:
            k += 1
            continue
        pairs = list[Node]()
        for number, follower in enumerate(followers):
            between = names.new(f"{pool.inputs[0]}.{follower.op_type}")
            pairs.append(replace(follower, inputs=(pool.inputs[0], *follower.inputs[1:]), outputs=(between,)))
            name = names.new(f"{pool.name}.{number + 1}") if number and pool.name else pool.name
            pairs.append(replace(_of_integers(pool, graph), inputs=(between,), outputs=follower.outputs, name=name))
            read[between] = pairs[-1:]
        gone.update(map(id, followers))
        makers.update((node.outputs[0], node) for node in pairs)
        at = read[pool.inputs[0]].index(pool)
        read[pool.inputs[0]][at : at + 1] = pairs[::2]
        nodes[k : k + 1] = pairs
        before = makers.get(pool.inputs[0])
        if before is not None and before.op_type in MAX_POOLS:  # now the followers stand behind that one
            k = next(at for at, node in enumerate(nodes) if node is before)
    return with_graph(model, [node for node in nodes if id(node) not in gone])


def _of_integers(pool: Node, graph: Graph) -> Node:
    """The pool in the form that ONNX has for integers, too."""
    shape = shape_of(graph, pool.inputs[0])
    if pool.op_type != "GlobalMaxPool" or shape is None:
        return pool
    return replace(pool, op_type="MaxPool", attributes={"kernel_shape": shape[2:]})


def _monotonous_followers(
    pool: Node, graph: Graph, makers: dict[str, Node], read: dict[str, list[Node]]
) -> tuple[Node, ...]:
    """All readers of `pool` where each can move in front of it; else nothing."""
    if pool.op_type not in MAX_POOLS or any(v.name == pool.outputs[0] for v in graph.outputs):
        return ()
    source = makers.get(pool.inputs[0])
    while source is not None and source.op_type in MAX_POOLS:
        source = makers.get(source.inputs[0])
    if len(list(filter(None, pool.outputs))) > 1 or (source is not None and source.op_type == "DequantizeLinear"):
        return ()
    followers = read.get(pool.outputs[0], [])
    movable = all(
        node.op_type in CLAMPS | {"QuantizeLinear"} and dynamic_inputs(node, graph) == pool.outputs[:1]
        for node in followers
    )
    return tuple(followers) if movable else ()


def layout_before_dequantize(model: Model) -> Model:
    """DequantizeLinear then Reshape, Transpose, ... becomes the layout on the integers, then DequantizeLinear.

    Only per tensor: one scale is the same for every element, wherever it stands.  What the layout does to a model's
    input then stays on the host, in front of the first integer that the hardware sees.  Other readers of the
    DequantizeLinear keep it.
    """
    graph = model.graph
    names, nodes = Names(graph), list[Node]()
    read, outputs = consumers(graph), {value.name for value in graph.outputs}
    dequantized: dict[str, Node] = {}
    for node in graph.nodes:
        source = dequantized.get(node.inputs[0]) if node.op_type in LAYOUT else None
        if source is not None:
            between, result = names.new(f"{node.outputs[0]}.integers"), node.outputs[0]
            nodes.append(replace(node, inputs=(source.inputs[0], *node.inputs[1:]), outputs=(between,)))
            inputs = (between, *source.inputs[1:])
            node = replace(source, inputs=inputs, outputs=(result,), name=f"{result}.dequantize")
        scale = graph.initializers.get(node.inputs[1]) if node.op_type == "DequantizeLinear" else None
        if scale is not None and scale.size == 1:
            dequantized[node.outputs[0]] = node
            readers = read.get(node.outputs[0], [])
            if readers and all(n.op_type in LAYOUT for n in readers) and node.outputs[0] not in outputs:
                continue
        nodes.append(node)
    return with_graph(model, nodes)


def merge_equal(model: Model) -> Model:
    """Nodes that quantize, dequantize or move the same tensor in the same way become one."""
    graph = model.graph
    outputs = {value.name for value in graph.outputs}
    renamed: dict[str, str] = {}
    seen: dict[object, str] = {}
    nodes = list[Node]()
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        if node.op_type not in LAYOUT | QUANTIZERS | CLAMPS or node.domain:
            nodes.append(node)
            continue
        rest = tuple(_identity(graph, name) for name in node.inputs[1:])
        key = (node.op_type, node.inputs[0], rest, repr(sorted(node.attributes.items())))
        known = seen.setdefault(key, node.outputs[0])
        if known == node.outputs[0] or node.outputs[0] in outputs:
            nodes.append(node)
        else:
            renamed[node.outputs[0]] = known
    return with_graph(model, nodes)


def _identity(graph: Graph, name: str) -> object:
    """A small constant by its value, anything else by its name."""
    value = graph.initializers.get(name)
    if value is None or value.size > _SMALL:
        return name
    return value.dtype.name, value.shape, value.tobytes()


def name_nodes(model: Model) -> Model:
    """A node without a name, or with one that others have too, is called like its first output."""
    count = Counter(node.name for node in model.graph.nodes)
    nodes = []
    for node in model.graph.nodes:
        taken = not node.name or count[node.name] > 1
        result = next(filter(None, node.outputs), "")
        wish = result
        while taken and count[wish]:
            wish += "_"
        if taken:
            count[wish] += 1
            node = replace(node, name=wish)
        nodes.append(node)
    return with_graph(model, nodes)


#: The operator set that older models are converted to: the first with per-channel quantization.
OPSET = 13


def convert_old(model: Model) -> Model:
    """A model of an older operator set in that one, every shape known; others as they are.

    Of `model` types and shapes are known.  HwflowError: every node that has no form with the same meaning there.
    """
    return model if model.opsets.get("", OPSET) >= OPSET else simplify(infer(in_opset(model, OPSET)))


def in_opset(model: Model, opset: int) -> Model:
    """The model in an operator set.  HwflowError: every node that has no form with the same meaning there."""
    try:
        return convert_opset(model, opset)
    except ConversionError as error:
        raise_all(Problem(node.label, node.why, node.remedy) for node in error.nodes)
        raise
