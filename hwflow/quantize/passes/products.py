"""Passes around products, of two computed tensors and of rows with constants.

Of two computed tensors constant factors go behind the product, and a bias becomes a sum.

`rows_to_conv` writes products of several rows with constants as 1x1 convolutions.  A sequence [1, T, C] times [C, N]
is a convolution of the image [1, C, T] with a kernel of one pixel: the rows are the pixels, what is summed over are
the channels.  Transposes around it make the image; they cost nothing where the layers beside it look at elements in
any order.  So products of rows get everything that convolutions have: bias, weights with a scale for each channel,
tuning.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import LAYOUT, PADS
from hwflow.quantize.graphs import (
    Additions,
    attribute,
    consumers,
    fixed_names,
    is_product,
    label_of,
    leading_to,
    moves,
    producers,
    scales,
    shape_of,
    with_graph,
)

#: Inputs of a Gemm that has no bias.
_FACTORS = 2


def gemm_of_two(model: Model) -> Model:
    """A Gemm of two computed tensors with a bias, or with a computed one, becomes a Gemm without one, and a sum."""
    graph = model.graph
    added, fixed = Additions(graph), fixed_names(graph)
    for node in graph.nodes:
        biases = [name for name in node.inputs[_FACTORS:] if name]
        computed = is_product(node, fixed) or any(name not in fixed for name in biases)
        if node.op_type != "Gemm" or not computed or not biases:
            added.nodes.append(node)
            continue
        base, bias = label_of(node), node.inputs[_FACTORS]
        product = added.new(f"{base}.product")
        added.nodes.append(replace(node, inputs=node.inputs[:_FACTORS], outputs=(product,)))
        if attribute(node, "beta", 1.0) != 1:
            beta = added.float32(f"{base}.beta", attribute(node, "beta", 1.0))
            bias = added.emit("Mul", bias, beta, wish=f"{base}.bias")
        added.emit("Add", product, bias, output=node.outputs[0], name=f"{base}.sum")
    return model if len(added.nodes) == len(graph.nodes) else infer(added.into(model))


def factors_behind_products(model: Model) -> Model:
    """A constant above 0 that multiplies an operand of such a product multiplies its result, where it costs nothing.

    Attention scales both operands with the root of its scale.
    """
    graph = model.graph
    fixed = fixed_names(graph)
    if not any(is_product(node, fixed) for node in graph.nodes):
        return model
    walk = _Walk(graph, fixed)
    for node in graph.nodes:
        walk.write(node)
    # The copies of the nodes of chains took their place.
    nodes = leading_to(walk.added.nodes, walk.outputs)
    return infer(with_graph(model, nodes, walk.added.initializers)) if walk.changed else model


@dataclass(frozen=True)
class _Chain:
    """From an operand of a product back: the nodes that only move elements, last one first, and the factor in front."""

    moving: Sequence[Node]
    source: str
    factor: float


class _Walk:
    """Rewrites the nodes of a graph one by one; `changed` says whether any was."""

    def __init__(self, graph: Graph, fixed: Container[str]) -> None:
        self.fixed = fixed
        self.graph, self.added = graph, Additions(graph)
        self.made, self.read = producers(graph), consumers(graph)
        self.outputs = {value.name for value in graph.outputs}
        self.changed = False

    def write(self, node: Node) -> None:
        chains = {}
        if is_product(node, self.fixed):
            chains = {name: chain for name in node.inputs[:2] if (chain := self._chain(name)) is not None}
        if not chains:
            self.added.nodes.append(node)
            return
        self.changed = True
        base, factor = label_of(node), 1.0
        for name in node.inputs[:2]:
            factor *= chains[name].factor if name in chains else 1.0
        renamed = dict[str, str]()
        for name, chain in chains.items():
            last = chain.source
            for moving in reversed(chain.moving):  # what they make has other values, and so another name
                last = self.added.emit_like(moving, last, wish=f"{moving.outputs[0]}.unscaled")
            renamed[name] = last
        unscaled = self.added.new(f"{base}.unscaled")
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        by = self.added.float32(f"{base}.factor", factor)
        self.added.nodes.append(replace(node, inputs=inputs, outputs=(unscaled,)))
        self.added.emit("Mul", unscaled, by, output=node.outputs[0], name=f"{base}.scaled")

    def _chain(self, name: str) -> _Chain | None:
        moving: list[Node] = []
        while self._is_read_once(name):
            node = self.made[name]
            if scales(node, self.graph):
                return _Chain(moving, *self._scaled(node))
            is_move = node.op_type in LAYOUT or (moves(node, self.graph) and node.op_type not in PADS)
            if not is_move or len(node.outputs) != 1:
                return None
            moving.append(node)
            name = node.inputs[0]
        return None

    def _is_read_once(self, name: str) -> bool:
        """Whether one node alone reads it; that may read it twice."""
        return name in self.made and name not in self.outputs and len(self.read.get(name, ())) == 1

    def _scaled(self, node: Node) -> tuple[str, float]:
        """The tensor that `node` scales, and the factor."""
        constants = self.graph.initializers
        (source,) = (name for name in node.inputs if name not in constants)
        (value,) = (float(constants[name].reshape(-1)[0]) for name in node.inputs if name in constants)
        return source, value if node.op_type == "Mul" else 1 / value


def vectors_to_matrices(model: Model) -> Model:
    """A MatMul with a constant vector [K] becomes one with a matrix of one column, or row, and a Reshape behind it."""
    graph = model.graph
    added, constant = Additions(graph), fixed_names(graph)
    for node in graph.nodes:
        sides = [name in constant for name in node.inputs[:2]]
        at = sides.index(True) if sides.count(True) == 1 else 0
        shape, result = shape_of(graph, node.inputs[at]) if any(sides) else None, shape_of(graph, node.outputs[0])
        if node.op_type != "MatMul" or node.domain or shape is None or len(shape) != 1 or result is None:
            added.nodes.append(node)
            continue
        base = label_of(node)
        matrix = added.reshaped(node.inputs[at], (-1, 1) if at else (1, -1), f"{base}.matrix")
        product = added.new(f"{base}.product")
        operands = (node.inputs[0], matrix) if at else (matrix, node.inputs[1])
        added.nodes.append(replace(node, inputs=operands, outputs=(product,)))
        added.reshaped(product, result, f"{base}.shaped", node.outputs[0])
    return model if len(added.nodes) == len(graph.nodes) else simplify(infer(added.into(model)))


#: Axes of pixels that an image has.
_PIXEL_AXES = 2


def rows_to_conv(model: Model) -> Model:
    """MatMul and Gemm with a constant factor, on either side, become a Conv where they have more than one row.

    Also with a constant matrix for each of several batches: these are groups of channels.  A product of one row stays
    as it is, and so does one of which a shape is not known.
    """
    graph = model.graph
    added, constant, changed = Additions(graph), fixed_names(graph), False
    for node in graph.nodes:
        product = _product(node, graph, constant)
        if product is None:
            added.nodes.append(node)
        else:
            changed = True
            _Writer(node, product, added).write()
    return simplify(infer(added.into(model))) if changed else model


@dataclass(frozen=True)
class _Product:
    """x times a constant, or a constant times x: summed over one axis of each, `depth` of x.

    `sizes` are those of x and `matrix` those of the constant `weights`, with equally many batch axes in front of the
    last two; `row` and `column` are the axes of x and of the constant, among these two, that the result has.
    """

    x: str
    weights: str
    sizes: tuple[int, ...]
    matrix: tuple[int, ...]
    depth: int
    row: int
    column: int

    @property
    def groups(self) -> tuple[int, ...]:
        """Axes along which x and the constant have a matrix each."""
        return tuple(k for k, (size, own) in enumerate(self._batches) if own > 1 and size > 1)

    @property
    def repeats(self) -> tuple[int, ...]:
        """Axes that the constant alone has: each of its matrices meets the same rows."""
        return tuple(k for k, (size, own) in enumerate(self._batches) if own > 1 and size == 1)

    @property
    def rows(self) -> tuple[int, ...]:
        """Axes of x that the pixels are made of."""
        batches = (k for k, (_, own) in enumerate(self._batches) if own == 1)
        return tuple(k for k in (*batches, self.row) if self.sizes[k] > 1)

    @property
    def _batches(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes, self.matrix, strict=True))[:-2]


def _product(node: Node, graph: Graph, constant: set[str]) -> _Product | None:
    """The product that `node` is, None where it is no product of several rows with a constant."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain:
        return None
    a, b = shape_of(graph, node.inputs[0]), shape_of(graph, node.inputs[1])
    sides = [name in constant for name in node.inputs[:2]]
    if a is None or b is None or min(len(a), len(b)) < 2 or sides[0] == sides[1] or not _plain(node, graph, constant):
        return None
    rank = max(len(a), len(b))
    shapes = [(1,) * (rank - len(shape)) + shape for shape in (a, b)]
    at = sides.index(False)
    #: The axes of both operands that are summed over, and those that the result has.
    summed = [rank - 2 if attribute(node, "transA", 0) else rank - 1,
              rank - 1 if attribute(node, "transB", 0) else rank - 2]  # fmt: skip
    free = [2 * rank - 3 - axis for axis in summed]
    product = _Product(
        node.inputs[at], node.inputs[1 - at], shapes[at], shapes[1 - at], summed[at], free[at], free[1 - at])
    row = at == 0 and not attribute(node, "transA", 0) and not product.rows and math.prod(product.matrix[:-2]) == 1
    return None if row else product  # one row is a dense layer


def _plain(node: Node, graph: Graph, constant: set[str]) -> bool:
    """True where all but one factor is constant, and known where something scales it."""
    others = [name for name in node.inputs[2:3] if name]
    scaled = any(attribute(node, key, 1.0) != 1 for key in ("alpha", "beta"))
    known = set(graph.initializers) if scaled else constant
    return all(name in known for name in others) and (not scaled or node.inputs[1] in known)


class _Writer:
    """Writes the nodes that stand in place of one product: an image, a Conv, and the order that the result had."""

    def __init__(self, node: Node, product: _Product, added: Additions) -> None:
        self.node, self.product, self.graph, self.added = node, product, added.graph, added
        self.base = label_of(node)

    def write(self) -> None:
        p, rank = self.product, len(self.product.sizes)
        channels = (*p.groups, p.depth)
        order = (*(k for k in range(rank) if k not in (*channels, *p.rows)), *channels, *p.rows)
        pixels = [p.sizes[k] for k in p.rows] or [1]
        if len(pixels) > _PIXEL_AXES:
            pixels = [math.prod(pixels)]
        x = self._reshaped(p.x, shape_of(self.graph, p.x), p.sizes, "rows")
        x = self._transposed(x, p.sizes, order, "channels_first")
        image = (1, math.prod(p.sizes[k] for k in channels), *pixels)
        x = self._reshaped(x, tuple(p.sizes[k] for k in order), image, "image")
        weights, (bias, behind) = self._weights(len(pixels)), self._bias()
        inputs = (x, weights, bias) if bias else (x, weights)
        groups = math.prod(p.sizes[k] for k in p.groups)
        result = self.added.emit("Conv", *inputs, wish=f"{self.base}.result", name=self.base,
                                 attributes={"group": groups} if groups > 1 else {})
        result = self._placed(result, (1, self._outputs, *pixels))
        if behind:
            self.added.emit("Add", result, behind, wish=f"{self.base}.biased")
        self.added.nodes[-1] = replace(self.added.nodes[-1], outputs=self.node.outputs)

    @property
    def _outputs(self) -> int:
        """Channels of the Conv's result: those of all groups and repeats."""
        p = self.product
        return math.prod(p.matrix[k] for k in (*p.groups, *p.repeats, p.column))

    def _placed(self, name: str, shape: tuple[int, ...]) -> str:
        """The result of the Conv with the axes of the product."""
        p, rank = self.product, len(self.product.sizes)
        channels = (*p.groups, *p.repeats)
        left = [k for k in range(rank - 2) if k not in (*channels, *p.rows)]
        rows = [k for k in p.rows if k != p.row]
        #: Where each axis of the result stands: batches by their number, then the row of x and the column.
        stands = [*left, *channels, "column", *rows, "row"]
        sizes = [*(1 for _ in left), *(p.matrix[k] for k in channels), p.matrix[p.column],
                 *(p.sizes[k] for k in rows), p.sizes[p.row]]  # fmt: skip
        name = self._reshaped(name, shape, tuple(sizes), "axes")
        ends = ["row", "column"] if self.node.inputs[0] == p.x else ["column", "row"]
        order = tuple(stands.index(axis) for axis in (*range(rank - 2), *ends))
        name = self._transposed(name, tuple(sizes), order, "placed")
        own = shape_of(self.graph, self.node.outputs[0])
        return self._reshaped(name, tuple(sizes[k] for k in order), own, "shaped")

    def _weights(self, pixel_axes: int) -> str:
        """The constant as the weights of a Conv [outputs, depth, 1, ...]."""
        p, rank, name = self.product, len(self.product.sizes), self.product.weights
        depth = 2 * rank - 3 - p.column
        order = (*(k for k in range(rank - 2) if p.matrix[k] == 1), *p.groups, *p.repeats, p.column, depth)
        shape = (self._outputs, p.matrix[depth], *(1,) * pixel_axes)
        known = self.graph.initializers.get(name)
        if known is not None:
            factor = attribute(self.node, "alpha", 1.0)
            array = known.reshape(p.matrix).transpose(order).reshape(shape)
            return self.added.constant(f"{self.base}.kernel", _scaled(array, factor))
        name = self._reshaped(name, shape_of(self.graph, name), p.matrix, "weights_axes")
        name = self._transposed(name, p.matrix, order, "weights_order")
        return self._reshaped(name, tuple(p.matrix[k] for k in order), shape, "kernel")

    def _bias(self) -> tuple[str, str]:
        """The third input of a Gemm as the bias of a Conv; or as what must be added behind it."""
        name = next(iter(self.node.inputs[2:3]), "")
        count, shape = self._outputs, shape_of(self.graph, name) if name else None
        if shape is None:
            return "", ""
        known, along = self.graph.initializers.get(name), -1 if self.node.inputs[0] == self.product.x else -2
        is_row = math.prod(shape) == count == ((1, 1, *shape)[along])
        if known is not None:
            array = _scaled(known, attribute(self.node, "beta", 1.0))
            if is_row or array.size == 1:
                return self.added.constant(f"{self.base}.bias", np.broadcast_to(array.ravel(), (count,)).copy()), ""
            return "", self.added.constant(f"{self.base}.bias", array)
        return (self._reshaped(name, shape, (count,), "bias"), "") if is_row else ("", name)

    def _reshaped(self, name: str, shape: tuple[int, ...] | None, to: tuple[int, ...] | None, wish: str) -> str:
        """`name`, of `shape`, with another one."""
        return name if shape == to or to is None else self.added.reshaped(name, to, f"{self.base}.{wish}")

    def _transposed(self, name: str, sizes: Sequence[int], order: tuple[int, ...], wish: str) -> str:
        """`name`, of `sizes`, with its axes in another order."""
        if order == tuple(range(len(sizes))):
            return name
        return self.added.emit("Transpose", name, wish=f"{self.base}.{wish}", perm=order)


def _scaled(array: Array, factor: float) -> Array:
    return array if factor == 1 else (array.astype(np.float64) * factor).astype(np.float32)
