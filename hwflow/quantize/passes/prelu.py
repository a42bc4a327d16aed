"""The pass that writes a PRelu whose slopes differ by channel with Relu and sums.

PRelu(x) = Relu(x) - slope * Relu(-x).  No table for all elements holds one function per channel.  Limits of a product's
sums do, but only of functions that rise: where no slope is negative.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Graph, Model, Node
from hwflow.quantize.graphs import Additions, consumers, is_layer, label_of, producers, shape_of, with_graph

Floats = npt.NDArray[np.float64]


def prelu_to_relu(model: Model) -> Model:
    """A Conv or Gemm in front gives x and -x of every channel, a Relu follows, and a layer adds both up again.

    A PRelu with one slope or with slopes by place stays as it is, and so does one behind a Conv or Gemm of its own
    where no slope is negative.
    """
    graph = model.graph
    added = Additions(graph)
    read, made = consumers(graph), producers(graph)
    outputs = {value.name for value in graph.outputs}
    nodes = {id(node): [node] for node in graph.nodes}

    for node in graph.nodes:
        slopes = _slopes(node, graph) if node.op_type == "PRelu" else None
        if slopes is None:
            continue
        source, base = node.inputs[0], label_of(node)
        before = made.get(source)
        alone = len(read[source]) == 1 and source not in outputs
        own = before if before is not None and is_layer(before, graph.initializers) and alone else None
        if own is not None and slopes.min() >= 0:
            continue
        both, positive = added.new(f"{base}.both"), added.new(f"{base}.positive")
        if own is not None:
            nodes[id(own)] = [_doubled(own, both, graph, added)]
            first = []
        else:
            first = [_split(source, both, len(slopes), len(shape_of(graph, source) or ()), added)]
        last = _added(positive, slopes, len(shape_of(graph, source) or ()), base, added)
        nodes[id(node)] = [
            *first,
            Node("Relu", (both,), (positive,), name=positive),
            replace(last, outputs=node.outputs, name=base),
        ]
    return with_graph(model, [new for node in graph.nodes for new in nodes[id(node)]], added.initializers)


def _slopes(node: Node, graph: Graph) -> Floats | None:
    """One slope per channel (axis 1); None for other PRelu nodes."""
    shape, slope = shape_of(graph, node.inputs[0]), graph.initializers.get(node.inputs[1])
    if shape is None or len(shape) < 2 or slope is None or slope.size == 1:
        return None
    full = np.moveaxis(np.broadcast_to(np.asarray(slope, np.float64), shape), 1, 0).reshape(shape[1], -1)
    return full[:, 0].copy() if np.all(full == full[:, :1]) else None


def _doubled(node: Node, result: str, graph: Graph, added: Additions) -> Node:
    """`node` with outputs x0, -x0, x1, -x1, ..."""
    weights, bias = (np.asarray(graph.initializers[name], np.float64) for name in node.inputs[1:3])
    signs = np.tile([1.0, -1.0], len(bias))
    signed = np.repeat(weights, 2, axis=0) * signs.reshape(-1, *[1] * (weights.ndim - 1))
    inputs = (
        node.inputs[0],
        added.float32(f"{node.inputs[1]}.both", signed),
        added.float32(f"{node.inputs[2]}.both", np.repeat(bias, 2) * signs),
    )
    return replace(node, inputs=inputs, outputs=(result,))


def _split(source: str, result: str, channels: int, rank: int, added: Additions) -> Node:
    """x0, -x0, x1, -x1, ... of a tensor."""
    signs = np.tile([1.0, -1.0], channels)
    bias = added.float32(f"{result}.bias", np.zeros(2 * channels))
    if rank == 2:
        weights = np.repeat(np.eye(channels), 2, axis=0) * signs[:, None]
        inputs = (source, added.float32(f"{result}.weight", weights), bias)
        return Node("Gemm", inputs, (result,), {"transB": 1}, result)
    kernel = signs.reshape(-1, 1, *[1] * (rank - 2))
    inputs = (source, added.float32(f"{result}.weight", kernel), bias)
    return Node("Conv", inputs, (result,), {"group": channels}, result)


def _added(source: str, slopes: Floats, rank: int, base: str, added: Additions) -> Node:
    """Relu(x) - slope * Relu(-x) of each pair of channels."""
    channels = len(slopes)
    pairs = np.stack([np.ones(channels), -slopes], axis=1)
    bias = added.float32(f"{base}.bias", np.zeros(channels))
    if rank == 2:
        weights = np.zeros((channels, channels, 2))
        weights[np.arange(channels), np.arange(channels)] = pairs
        inputs = (source, added.float32(f"{base}.weight", weights.reshape(channels, -1)), bias)
        return Node("Gemm", inputs, (), {"transB": 1})
    inputs = (source, added.float32(f"{base}.weight", pairs.reshape(channels, 2, *[1] * (rank - 2))), bias)
    return Node("Conv", inputs, (), {"group": channels})
