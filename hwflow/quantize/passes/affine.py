"""The pass that folds a * x + b with constants per channel (batch normalization, bias, scaling) into float weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import (
    Names,
    attribute,
    constants,
    consumers,
    dynamic_inputs,
    host_prefix,
    host_suffix,
    producers,
    with_graph,
)
from hwflow.quantize.operators import AFFINE, HOST_AFTER, HOST_BEFORE
from hwflow.quantize.passes.normalise import shape_of

__all__ = ["fold_affine"]

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Affine:
    """y = factor * x + offset, one entry per channel."""

    factor: Floats
    offset: Floats


def fold_affine(model: Model) -> Model:
    """Fold Add, Sub, Mul, Div and BatchNormalization with constants into the Conv or Gemm before them.

    Where there is none, a Gemm right behind takes it; else one with a constant per channel becomes a depthwise
    convolution with a 1x1 kernel, and one with a single constant stays and becomes a table.  What stands at the very
    beginning or end stays for the host.
    """
    graph = model.graph
    on_host, at_the_end = host_prefix(graph, HOST_BEFORE), host_suffix(graph, HOST_AFTER)
    kept = {value.name for value in graph.outputs}
    nodes, extra, names = list(graph.nodes), dict[str, Array](), Names(graph)

    def constant(wish: str, value: Floats) -> str:
        name = names.new(wish)
        extra[name] = value.astype(np.float32)
        return name

    for node in graph.nodes:
        if node.op_type not in AFFINE or len(dynamic_inputs(node, graph)) != 1 or node.outputs[0] in on_host:
            continue
        current = replace(graph, nodes=tuple(nodes), initializers={**graph.initializers, **extra})
        source = dynamic_inputs(node, graph)[0]
        matrix = _matrix_before(source, current, kept)
        affine = _affine(node, current, source, last=matrix is not None and matrix.op_type == "Gemm")
        if affine is None:
            continue
        if matrix is not None:
            nodes[nodes.index(matrix)] = _folded(matrix, affine, current, constant)
            nodes.remove(node)
            nodes = [replace(n, outputs=node.outputs[:1]) if source in n.outputs else n for n in nodes]
        elif (behind := _gemm_behind(node, current, kept)) is not None:
            nodes[nodes.index(behind)] = _folded_ahead(behind, source, affine, current, constant)
            nodes.remove(node)
        elif not _is_scalar(node, graph) and node.outputs[0] not in at_the_end:
            at = nodes.index(node)
            nodes[at : at + 1] = _standalone(node, source, affine, current, constant, extra)
    return with_graph(model, nodes, extra)


def _matrix_before(source: str, graph: Graph, kept: set[str]) -> Node | None:
    """The Conv or Gemm that makes `source` and nothing else; a Reshape of one row may stand between."""
    made, read = producers(graph), consumers(graph)
    name = source
    while name in made and name not in kept and len(read[name]) == 1:
        node = made[name]
        if _has_float_weights(node, graph):
            return node
        shape = shape_of(graph, name)
        if node.op_type != "Reshape" or shape is None or int(np.prod(shape)) != shape[-1]:
            return None
        name = node.inputs[0]
        if name in made and made[name].op_type != "Gemm":
            return None
    return None


def _gemm_behind(node: Node, graph: Graph, kept: set[str]) -> Node | None:
    """The Gemm that alone reads the result of `node`."""
    readers = consumers(graph).get(node.outputs[0], [])
    if node.outputs[0] in kept or len(readers) != 1 or readers[0].op_type != "Gemm":
        return None
    return readers[0] if _has_float_weights(readers[0], graph) else None


def _has_float_weights(node: Node, graph: Graph) -> bool:
    if node.op_type not in ("Conv", "Gemm") or len(node.inputs) < 3:
        return False
    return all(name in graph.initializers for name in node.inputs[1:3])


def _is_scalar(node: Node, graph: Graph) -> bool:
    """True where a table can hold it: the same single constants for every element."""
    return node.op_type != "BatchNormalization" and all(value.size == 1 for value in constants(node, graph))


def _affine(node: Node, graph: Graph, source: str, last: bool) -> _Affine | None:
    """The node's meaning per channel, which is the last axis or axis 1; None where it has no such form."""
    shape = shape_of(graph, source)
    if shape is None or len(shape) < 2 or shape_of(graph, node.outputs[0]) not in (shape, None):
        return None
    axis = len(shape) - 1 if last and node.op_type != "BatchNormalization" else 1
    values = [_per_channel(graph.initializers[n], shape, axis, node) for n in node.inputs if n in graph.initializers]
    if any(value is None for value in values):
        return None
    c = [value for value in values if value is not None]
    one, zero = np.ones(shape[axis]), np.zeros(shape[axis])
    if node.op_type == "BatchNormalization":
        scale, offset, mean, variance = c
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        return _Affine(factor, offset - mean * factor)
    first = node.inputs[0] == source
    forms: dict[str, Callable[[], _Affine | None]] = {
        "Add": lambda: _Affine(one, c[0]),
        "Sub": lambda: _Affine(one, -c[0]) if first else _Affine(-one, c[0]),
        "Mul": lambda: _Affine(c[0], zero),
        "Div": lambda: _Affine(1 / c[0], zero) if first and np.all(c[0] != 0) else None,
    }
    return forms[node.op_type]()


def _per_channel(value: Array, shape: tuple[int, ...], axis: int, node: Node) -> Floats | None:
    """`value`, broadcast to `shape`, as one number per channel; None where it differs inside a channel."""
    array = np.asarray(value, np.float64)
    if node.op_type == "BatchNormalization":
        return array
    try:
        full = np.moveaxis(np.broadcast_to(array, shape), axis, 0).reshape(shape[axis], -1)
    except ValueError:
        return None
    return full[:, 0].copy() if np.all(full == full[:, :1]) else None


def _folded(matrix: Node, affine: _Affine, graph: Graph, constant: Callable[[str, Floats], str]) -> Node:
    """`matrix` with new weights and bias."""
    weights, bias = (np.asarray(graph.initializers[name], np.float64) for name in matrix.inputs[1:3])
    factor = affine.factor.reshape(-1, *[1] * (weights.ndim - 1))
    base = matrix.name or matrix.outputs[0]
    inputs = (
        matrix.inputs[0],
        constant(f"{base}.weight", weights * factor),
        constant(f"{base}.bias", bias * affine.factor + affine.offset),
    )
    return replace(matrix, inputs=inputs)


def _folded_ahead(
    gemm: Node, source: str, affine: _Affine, graph: Graph, constant: Callable[[str, Floats], str]
) -> Node:
    """`gemm` reading `source` itself: W (a x + b) + c = (W a) x + (W b + c)."""
    weights, bias = (np.asarray(graph.initializers[name], np.float64) for name in gemm.inputs[1:3])
    base = gemm.name or gemm.outputs[0]
    inputs = (
        source,
        constant(f"{base}.weight", weights * affine.factor),
        constant(f"{base}.bias", bias + weights @ affine.offset),
    )
    return replace(gemm, inputs=inputs)


def _standalone(
    node: Node,
    source: str,
    affine: _Affine,
    graph: Graph,
    constant: Callable[[str, Floats], str],
    extra: dict[str, Array],
) -> list[Node]:
    """A depthwise 1x1 convolution that does the same; of rank 2 it runs between two Reshapes."""
    shape = shape_of(graph, source)
    assert shape is not None
    base, rank = node.name or node.outputs[0], max(len(shape), 3)
    channels = len(affine.factor)
    weights = constant(f"{base}.weight", affine.factor.reshape(channels, 1, *[1] * (rank - 2)))
    bias = constant(f"{base}.bias", affine.offset)
    conv = Node("Conv", (source, weights, bias), node.outputs[:1], {"group": channels}, base)
    if len(shape) > 2:
        return [conv]
    names = Names(replace(graph, initializers={**graph.initializers, **extra}))
    wide, flat = names.new(f"{base}.wide"), names.new(f"{base}.flat")
    wide_shape, flat_shape = names.new(f"{wide}.shape"), names.new(f"{flat}.shape")
    extra[wide_shape] = np.array([*shape, 1], np.int64)
    extra[flat_shape] = np.array(shape, np.int64)
    return [
        Node("Reshape", (source, wide_shape), (wide,), name=wide),
        replace(conv, inputs=(wide, weights, bias), outputs=(flat,)),
        Node("Reshape", (flat, flat_shape), node.outputs[:1], name=flat),
    ]
