"""The pass that folds a * x + b with constants per channel (batch normalization, bias, scaling) into float weights."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import AFFINE, HOST_AFTER, HOST_BEFORE, RANKINGS
from hwflow.quantize.graphs import (
    Additions,
    attribute,
    constants,
    dynamic_inputs,
    host_prefix,
    host_suffix,
    is_layer,
    label_of,
    shape_of,
    with_graph,
)

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
    return _folded(model, host_suffix(model.graph, HOST_AFTER))


def fold_affine_before_rankings(model: Model) -> Model:
    """`fold_affine` where an ArgMax, ArgMin or TopK at the end is in hardware, and so is what it reads."""
    return _folded(model, host_suffix(model.graph, HOST_AFTER, never=RANKINGS))


def _folded(model: Model, at_the_end: set[str]) -> Model:
    """`at_the_end`: tensors that the host makes of results."""
    graph = model.graph
    on_host = host_prefix(graph, HOST_BEFORE)
    work = _Work(graph)
    for at, node in enumerate(graph.nodes):
        if node.op_type not in AFFINE or len(dynamic_inputs(node, graph)) != 1 or node.outputs[0] in on_host:
            continue
        source = dynamic_inputs(node, graph)[0]
        before = work.matrix_before(source)
        of_gemm = before is not None and work.slots[before][-1].op_type == "Gemm"
        affine = _affine(node, graph, source, last=of_gemm)
        if affine is None:
            continue
        if before is not None:
            work.fold_back(before, at, source, affine)
        elif (behind := work.gemm_behind(node)) is not None:
            work.fold_ahead(behind, at, source, affine)
        elif not _is_scalar(node, graph) and node.outputs[0] not in at_the_end:
            work.slots[at] = _standalone(node, source, affine, work)
    return with_graph(model, [node for slot in work.slots for node in slot], work.added.initializers)


class _Work:
    """A graph while affine nodes go: `slots` has what stands in place of each node, `constants` all initializers.

    `made` and `read` give the places of a tensor's maker and readers.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.added = graph, Additions(graph)
        self.constants = ChainMap(self.added.initializers, dict(graph.initializers))
        self.slots: list[tuple[Node, ...]] = [(node,) for node in graph.nodes]
        self.made: dict[str, int] = {}
        self.read: dict[str, list[int]] = {}
        for at, node in enumerate(graph.nodes):
            self.made.update((name, at) for name in node.outputs if name)
            for name in dict.fromkeys(node.inputs):
                self.read.setdefault(name, []).append(at)
        self.kept = {value.name for value in graph.outputs}

    def matrix_before(self, source: str) -> int | None:
        """The Conv or Gemm that makes `source` and nothing else; a Reshape of one row may stand between."""
        name = source
        while name in self.made and name not in self.kept and len(self.read[name]) == 1:
            node = self.slots[self.made[name]][-1]
            if is_layer(node, self.constants):
                return self.made[name]
            shape = shape_of(self.graph, name)
            if node.op_type != "Reshape" or shape is None or int(np.prod(shape)) != shape[-1]:
                return None
            name = node.inputs[0]
            if name in self.made and self.slots[self.made[name]][-1].op_type != "Gemm":
                return None
        return None

    def gemm_behind(self, node: Node) -> int | None:
        """The Gemm that alone reads the result of `node`."""
        readers = self.read.get(node.outputs[0], [])
        if node.outputs[0] in self.kept or len(readers) != 1:
            return None
        behind = self.slots[readers[0]][-1]
        return readers[0] if behind.op_type == "Gemm" and is_layer(behind, self.constants) else None

    def fold_back(self, matrix: int, at: int, source: str, affine: _Affine) -> None:
        """The node `at` becomes a part of `matrix`; what makes its `source` makes its result."""
        node, maker = self.slots[at][0], self.made[source]
        weights, bias = self._weights(matrix)
        factor = affine.factor.reshape(-1, *[1] * (weights.ndim - 1))
        self._rewrite(matrix, weights * factor, bias * affine.factor + affine.offset)
        self._rename(matrix, maker)
        self.slots[maker] = (replace(self.slots[maker][0], outputs=node.outputs[:1]),)
        self.slots[at] = ()
        self.made[node.outputs[0]] = maker

    def _rename(self, matrix: int, maker: int) -> None:
        """New names for what `matrix` and the Reshapes after it make, up to the input of `maker`: it has new values."""
        while maker != matrix:
            reader, name = self.slots[maker][-1], self.slots[maker][-1].inputs[0]
            new, before = self.added.new(f"{name}.folded"), self.made[name]
            self.slots[maker] = (*self.slots[maker][:-1], replace(reader, inputs=(new, *reader.inputs[1:])))
            source = self.slots[before][-1]
            self.slots[before] = (*self.slots[before][:-1], replace(source, outputs=(new, *source.outputs[1:])))
            self.made[new], self.read[new] = before, self.read[name]
            maker = before

    def fold_ahead(self, gemm: int, at: int, source: str, affine: _Affine) -> None:
        """`gemm` reads `source` itself: W (a x + b) + c = (W a) x + (W b + c)."""
        weights, bias = self._weights(gemm)
        self._rewrite(gemm, weights * affine.factor, bias + weights @ affine.offset, source)
        self.slots[at] = ()
        self.read[source] = [gemm if reader == at else reader for reader in self.read[source]]

    def _weights(self, at: int) -> tuple[Floats, Floats]:
        weights, bias = (np.asarray(self.constants[name], np.float64) for name in self.slots[at][0].inputs[1:3])
        return weights, bias

    def _rewrite(self, at: int, weights: Floats, bias: Floats, source: str = "") -> None:
        node = self.slots[at][0]
        base = label_of(node)
        constants = self.added.float32(f"{base}.weight", weights), self.added.float32(f"{base}.bias", bias)
        self.slots[at] = (replace(node, inputs=(source or node.inputs[0], *constants)),)


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


def _standalone(node: Node, source: str, affine: _Affine, work: _Work) -> tuple[Node, ...]:
    """A depthwise 1x1 convolution that does the same; of rank 2 it runs between two Reshapes."""
    shape = shape_of(work.graph, source)
    assert shape is not None
    base, rank = label_of(node), max(len(shape), 3)
    channels = len(affine.factor)
    weights = work.added.float32(f"{base}.weight", affine.factor.reshape(channels, 1, *[1] * (rank - 2)))
    bias = work.added.float32(f"{base}.bias", affine.offset)
    conv = Node("Conv", (source, weights, bias), node.outputs[:1], {"group": channels}, base)
    if len(shape) > 2:
        return (conv,)
    wide, flat = work.added.new(f"{base}.wide"), work.added.new(f"{base}.flat")
    wide_shape = work.added.int64(f"{wide}.shape", [*shape, 1])
    flat_shape = work.added.int64(f"{flat}.shape", shape)
    return (
        Node("Reshape", (source, wide_shape), (wide,), name=wide),
        replace(conv, inputs=(wide, weights, bias), outputs=(flat,)),
        Node("Reshape", (flat, flat_shape), node.outputs[:1], name=flat),
    )
