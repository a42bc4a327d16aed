"""The pass that writes a PRelu whose slopes differ by channel with Relu and sums.

PRelu(x) = Relu(x) - slope * Relu(-x).  No table for all elements holds one function per channel.  Limits of a product's
sums do, but only of functions that rise: where no slope is negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import Names, consumers, producers, with_graph
from hwflow.quantize.passes.normalise import shape_of

__all__ = ["prelu_to_relu"]

Floats = npt.NDArray[np.float64]
Constant = Callable[[str, Floats], str]


def prelu_to_relu(model: Model) -> Model:
    """A Conv or Gemm in front gives x and -x of every channel, a Relu follows, and a layer adds both up again.

    A PRelu with one slope or with slopes by place stays as it is, and so does one behind a Conv or Gemm of its own
    where no slope is negative.
    """
    graph = model.graph
    names, extra = Names(graph), dict[str, Array]()
    read, made = consumers(graph), producers(graph)
    outputs = {value.name for value in graph.outputs}
    nodes = {id(node): [node] for node in graph.nodes}

    def constant(wish: str, value: Floats) -> str:
        name = names.new(wish)
        extra[name] = value.astype(np.float32)
        return name

    for node in graph.nodes:
        slopes = _slopes(node, graph) if node.op_type == "PRelu" else None
        if slopes is None:
            continue
        source, base = node.inputs[0], node.name or node.outputs[0]
        before = made.get(source)
        alone = len(read[source]) == 1 and source not in outputs
        own = before if before is not None and _may_double(before, graph) and alone else None
        if own is not None and slopes.min() >= 0:
            continue
        both, positive = names.new(f"{base}.both"), names.new(f"{base}.positive")
        if own is not None:
            nodes[id(own)] = [_doubled(own, both, graph, constant)]
            first = []
        else:
            first = [_split(source, both, len(slopes), len(shape_of(graph, source) or ()), constant)]
        last = _added(positive, slopes, len(shape_of(graph, source) or ()), base, constant)
        nodes[id(node)] = [
            *first,
            Node("Relu", (both,), (positive,), name=positive),
            replace(last, outputs=node.outputs, name=base),
        ]
    return with_graph(model, [new for node in graph.nodes for new in nodes[id(node)]], extra)


def _slopes(node: Node, graph: Graph) -> Floats | None:
    """One slope per channel (axis 1); None for other PRelu nodes."""
    shape, slope = shape_of(graph, node.inputs[0]), graph.initializers.get(node.inputs[1])
    if shape is None or len(shape) < 2 or slope is None or slope.size == 1:
        return None
    full = np.moveaxis(np.broadcast_to(np.asarray(slope, np.float64), shape), 1, 0).reshape(shape[1], -1)
    return full[:, 0].copy() if np.all(full == full[:, :1]) else None


def _may_double(node: Node, graph: Graph) -> bool:
    if node.op_type not in ("Conv", "Gemm") or len(node.inputs) < 3:
        return False
    return all(name in graph.initializers for name in node.inputs[1:3])


def _doubled(node: Node, result: str, graph: Graph, constant: Constant) -> Node:
    """`node` with outputs x0, -x0, x1, -x1, ..."""
    weights, bias = (np.asarray(graph.initializers[name], np.float64) for name in node.inputs[1:3])
    signs = np.tile([1.0, -1.0], len(bias))
    signed = np.repeat(weights, 2, axis=0) * signs.reshape(-1, *[1] * (weights.ndim - 1))
    inputs = (
        node.inputs[0],
        constant(f"{node.inputs[1]}.both", signed),
        constant(f"{node.inputs[2]}.both", np.repeat(bias, 2) * signs),
    )
    return replace(node, inputs=inputs, outputs=(result,))


def _split(source: str, result: str, channels: int, rank: int, constant: Constant) -> Node:
    """x0, -x0, x1, -x1, ... of a tensor."""
    signs = np.tile([1.0, -1.0], channels)
    if rank == 2:
        weights = np.repeat(np.eye(channels), 2, axis=0) * signs[:, None]
        inputs = (source, constant(f"{result}.weight", weights), constant(f"{result}.bias", np.zeros(2 * channels)))
        return Node("Gemm", inputs, (result,), {"transB": 1}, result)
    kernel = signs.reshape(-1, 1, *[1] * (rank - 2))
    inputs = (source, constant(f"{result}.weight", kernel), constant(f"{result}.bias", np.zeros(2 * channels)))
    return Node("Conv", inputs, (result,), {"group": channels}, result)


def _added(source: str, slopes: Floats, rank: int, base: str, constant: Constant) -> Node:
    """Relu(x) - slope * Relu(-x) of each pair of channels."""
    channels = len(slopes)
    pairs = np.stack([np.ones(channels), -slopes], axis=1)
    bias = constant(f"{base}.bias", np.zeros(channels))
    if rank == 2:
        weights = np.zeros((channels, channels, 2))
        weights[np.arange(channels), np.arange(channels)] = pairs
        inputs = (source, constant(f"{base}.weight", weights.reshape(channels, -1)), bias)
        return Node("Gemm", inputs, (), {"transB": 1})
    inputs = (source, constant(f"{base}.weight", pairs.reshape(channels, 2, *[1] * (rank - 2))), bias)
    return Node("Conv", inputs, (), {"group": channels})
