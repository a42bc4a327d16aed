"""Passes that bring an ONNX graph into the one form that the rest of the quantizer reads.  Each keeps the meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import Names, as_ints, attribute, consumers, dynamic_inputs, producers, with_graph
from hwflow.quantize.operators import CLAMPS, LAYOUT

__all__ = ["OPSET", "layout_before_dequantize", "matrix_to_gemm", "max_pool_last", "raise_opset", "shape_of"]

#: The operator set that every model is raised to: the first with per-channel quantization.
OPSET = 13


def shape_of(graph: Graph, name: str) -> tuple[int, ...] | None:
    """The static shape of a tensor; None where it is not known."""
    if name in graph.initializers:
        return graph.initializers[name].shape
    kind = graph.tensor_type(name)
    if kind is None or kind.shape is None or not kind.is_static:
        return None
    return tuple(size for size in kind.shape if isinstance(size, int))


def raise_opset(model: Model) -> Model:
    """Write the operators that changed their form before operator set 13 the way that set writes them."""
    if model.opsets.get("", OPSET) >= OPSET:
        return model
    names, extra = Names(model.graph), dict[str, Array]()

    def moved_to_input(node: Node, attributes: tuple[str, ...], dtype: type[np.generic]) -> Node:
        inputs = list(node.inputs[:1])
        for key in attributes:
            value = node.attributes.get(key)
            name = "" if value is None else names.new(f"{node.outputs[0]}.{key}")
            if name:
                extra[name] = np.array(value, dtype)
            inputs.append(name)
        kept = {key: value for key, value in node.attributes.items() if key not in attributes}
        return replace(node, inputs=tuple(inputs), attributes=kept)

    def raised(node: Node) -> Node:
        if node.op_type in ("Squeeze", "Unsqueeze") and "axes" in node.attributes:
            return moved_to_input(node, ("axes",), np.int64)
        if node.op_type == "Clip" and model.opsets[""] < 11:
            return moved_to_input(node, ("min", "max"), np.float32)
        if node.op_type in ("Softmax", "LogSoftmax", "Hardmax"):
            # Before 13 the axes from `axis` (default 1) on were one; of rank 2 that is the same.
            return replace(node, attributes={**node.attributes, "axis": attribute(node, "axis", 1)})
        if node.op_type == "BatchNormalization":
            return replace(node, attributes={k: v for k, v in node.attributes.items() if k in ("epsilon", "momentum")})
        return node

    nodes = [raised(node) for node in model.graph.nodes]
    return replace(with_graph(model, nodes, extra), opsets={**model.opsets, "": OPSET})


def matrix_to_gemm(model: Model) -> Model:
    """MatMul and Gemm become Gemm(x [1, K], weights [N, K], bias [N]) with transB = 1; a Conv gets a bias."""
    graph = model.graph
    names, extra, nodes = Names(graph), dict[str, Array](), list[Node]()

    def constant(wish: str, value: Array) -> str:
        name = names.new(wish)
        extra[name] = value
        return name

    for node in graph.nodes:
        weights = graph.initializers.get(node.inputs[1]) if len(node.inputs) > 1 else None
        base = node.name or node.outputs[0]
        if node.op_type == "Conv" and weights is not None and (len(node.inputs) < 3 or not node.inputs[2]):
            bias = constant(f"{base}.bias", np.zeros(weights.shape[0], np.float32))
            nodes.append(replace(node, inputs=(*node.inputs[:2], bias)))
        elif node.op_type == "Gemm" and weights is not None and not attribute(node, "transA", 0):
            w, b = _gemm_constants(node, graph, weights)
            inputs = (node.inputs[0], constant(f"{base}.weight", w), constant(f"{base}.bias", b))
            nodes.append(replace(node, inputs=inputs, attributes={"transB": 1}))
        elif node.op_type == "MatMul" and weights is not None and weights.ndim == 2:
            nodes.extend(_matmul(node, graph, weights, names, extra))
        else:
            nodes.append(node)
    return with_graph(model, nodes, extra)


def _gemm_constants(node: Node, graph: Graph, weights: Array) -> tuple[Array, Array]:
    w = np.asarray(weights if attribute(node, "transB", 0) else weights.T, np.float64) * attribute(node, "alpha", 1.0)
    bias = graph.initializers.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    if bias is None:
        return w.astype(np.float32), np.zeros(w.shape[0], np.float32)  # reported by the check of operators
    b = np.broadcast_to(np.asarray(bias, np.float64).reshape(-1), (w.shape[0],)) * attribute(node, "beta", 1.0)
    return w.astype(np.float32), b.astype(np.float32)


def _matmul(node: Node, graph: Graph, weights: Array, names: Names, extra: dict[str, Array]) -> list[Node]:
    """A Gemm, between two Reshapes where the input is not of rank 2 but has one row."""
    base, shape = node.name or node.outputs[0], shape_of(graph, node.inputs[0])
    if shape is None or int(np.prod(shape[:-1])) != 1:
        return [node]
    w, b = names.new(f"{base}.weight"), names.new(f"{base}.bias")
    extra[w], extra[b] = np.ascontiguousarray(weights.T), np.zeros(weights.shape[1], np.float32)
    gemm = replace(node, op_type="Gemm", attributes={"transB": 1})
    if len(shape) == 2:
        return [replace(gemm, inputs=(node.inputs[0], w, b))]
    row, result = names.new(f"{base}.row"), names.new(f"{base}.result")
    row_shape, out_shape = names.new(f"{row}.shape"), names.new(f"{result}.shape")
    extra[row_shape] = np.array([1, shape[-1]], np.int64)
    extra[out_shape] = np.array([*shape[:-1], weights.shape[1]], np.int64)
    return [
        Node("Reshape", (node.inputs[0], row_shape), (row,), name=row),
        replace(gemm, inputs=(row, w, b), outputs=(result,)),
        Node("Reshape", (result, out_shape), node.outputs, name=result),
    ]


def max_pool_last(model: Model) -> Model:
    """A Relu, Clip or QuantizeLinear right behind a MaxPool moves in front of it: all are monotonous, so they commute.

    A QuantizeLinear stays where the MaxPool already reads integers (through a DequantizeLinear).
    """
    graph = model.graph
    nodes, names = list(graph.nodes), Names(graph)
    moved = True
    while moved:
        moved = False
        current = replace(graph, nodes=tuple(nodes))
        made, read = producers(current), consumers(current)
        for k, pool in enumerate(nodes):
            follower = _monotonous_follower(pool, current, made, read)
            if follower is None:
                continue
            between = names.new(f"{pool.inputs[0]}.{follower.op_type}")
            first = replace(follower, inputs=(pool.inputs[0], *follower.inputs[1:]), outputs=(between,))
            second = replace(pool, inputs=(between,), outputs=follower.outputs)
            nodes = [n for n in nodes if n is not follower]
            nodes[k : k + 1] = [first, second]
            moved = True
            break
    return with_graph(model, nodes)


def _monotonous_follower(pool: Node, graph: Graph, made: dict[str, Node], read: dict[str, list[Node]]) -> Node | None:
    if pool.op_type not in ("MaxPool", "GlobalMaxPool") or any(v.name == pool.outputs[0] for v in graph.outputs):
        return None
    followers = read.get(pool.outputs[0], [])
    if len(followers) != 1 or len(dynamic_inputs(followers[0], graph)) != 1:
        return None
    source = made.get(pool.inputs[0])
    quantized = source is not None and source.op_type == "DequantizeLinear"
    if followers[0].op_type in CLAMPS and not quantized:
        return followers[0]
    return followers[0] if followers[0].op_type == "QuantizeLinear" and not quantized else None


def layout_before_dequantize(model: Model) -> Model:
    """DequantizeLinear then Reshape, Transpose, ... becomes the layout on the integers, then DequantizeLinear.

    Only per tensor: one scale is the same for every element, wherever it stands.  What the layout does to a model's
    input then stays on the host, in front of the first integer that the hardware sees.
    """
    graph = model.graph
    nodes, names = list(graph.nodes), Names(graph)
    for _ in range(len(nodes)):
        read = consumers(replace(graph, nodes=tuple(nodes)))
        for k, node in enumerate(nodes):
            followers = read.get(node.outputs[0], [])
            movable = node.op_type == "DequantizeLinear" and len(followers) == 1 and followers[0].op_type in LAYOUT
            scale = graph.initializers.get(node.inputs[1]) if movable else None
            if scale is None or scale.size != 1 or any(v.name == node.outputs[0] for v in graph.outputs):
                continue
            layout = followers[0]
            if layout.inputs[0] != node.outputs[0]:
                continue
            between = names.new(f"{layout.outputs[0]}.integers")
            nodes[nodes.index(layout)] = replace(node, inputs=(between, *node.inputs[1:]), outputs=layout.outputs[:1])
            moved = replace(layout, inputs=(node.inputs[0], *layout.inputs[1:]), outputs=(between,))
            nodes[k] = moved
            break
        else:
            return with_graph(model, nodes)
    return with_graph(model, nodes)


def reduced_axes(node: Node, graph: Graph, rank: int) -> tuple[int, ...]:
    """The axes of a reduction, not negative; all of them where the node names none."""
    stated = node.attributes.get("axes")
    if stated is None and len(node.inputs) > 1 and node.inputs[1]:
        stated = graph.initializers[node.inputs[1]]
    axes = range(rank) if stated is None else as_ints(stated)
    return tuple(sorted(axis % rank for axis in axes))
