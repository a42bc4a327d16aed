"""Products of two computed tensors: MatMul and Gemm, over any batch axes, which are the heads of a layer.

And rows of a constant table, chosen by integers that the host makes: products with rows that have a single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import Embedding, Frame, IntFormat, Layer, MatMul, Tensor
from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Rescale
from hwflow.onnx.model import Array, Graph, Node
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT, POOLS, QUANTIZERS
from hwflow.quantize.graphs import attribute, consumers, is_embedding, shape_of
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import Accumulator, affine, rescale
from hwflow.quantize.importer.inputs import raster
from hwflow.quantize.importer.kinds.matrix import dense
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import (
    Entry,
    Held,
    LayerAnchor,
    LayerTask,
    OnHost,
    Parameters,
    TensorState,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.importer.steps import Function, uniform, varies
from hwflow.quantize.importer.threshold_search import quantized, search


@dataclass(frozen=True)
class Rows(LayerAnchor):
    """Rows of `table` [rows, width], float32; what follows element by element is computed of the table."""

    table: npt.NDArray[np.float32]

    def layer(self, task: LayerTask) -> Layer:
        (x,) = task.xs
        integers = quantized(Function(task.unrounded, task.opsets)(self.table), task.parameters)
        return Embedding(task.name, (x.name,), task.y.name, x.format, integers)


def embedding(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState | None:
    """A Gather from a constant table: of reals it waits for its QuantizeLinear, of integers it is a layer at once.

    The pixels are the numbers in their order, and the channels the rest of the table in its order.
    """
    if not is_embedding(node, context.graph):
        return None
    table, axis = context.graph.initializers[node.inputs[0]], attribute(node, "axis", 0)
    axis %= table.ndim
    held = numbers_of(context, node, node.inputs[1], table.shape[axis])
    count, rest = context.tensors[held.tensor].frame.elements, (*table.shape[:axis], *table.shape[axis + 1 :])
    rows = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
    frame = Frame(1, count, rows.shape[1])
    places = np.arange(frame.elements, dtype=np.int64).reshape(count, *rest)
    index = np.moveaxis(places, 0, axis).reshape(*rest[:axis], *held.index.shape, *rest[axis:])
    if table.dtype.kind == "f":
        return Unrounded.of(Rows(node, node.outputs[0], frame, (held,), rows.astype(np.float32)), index)
    return _of_integers(context, node, held, rows, Held("", index, real=False))


def numbers_of(context: NodeContext, node: Node, name: str, rows: int) -> Held:
    """The numbers `name` of rows, up to `rows`, as an input of the layer graph, of pixels with one channel."""
    shape, state = shape_of(context.graph, name), context.states[name]
    if not isinstance(state, OnHost) or state.in_epilogue or shape is None:
        raise Refusal(
            f"the numbers '{name}' that choose rows of '{node.inputs[0]}' must come from the host",
            "make them an input of the model, or run the part up to here as a model of its own"
        )
    p = Parameters(1.0, 0, IntFormat.covering(0, max(1, rows - 1)), 0, rows - 1)
    return context.inputs.enter(Entry(name, raster(shape), p), Frame(1, int(np.prod(shape)), 1))


def _of_integers(context: NodeContext, node: Node, held: Held, rows: Array, result: Held) -> Held:
    """A layer that gives the table's integers."""
    integers = rows.astype(np.int64)
    if rows.dtype.kind not in "iu" or rows.dtype.itemsize > 2:
        raise Refusal(
            f"its table '{node.inputs[0]}' must hold reals, or integers of up to 16 bits, not {rows.dtype}",
            "store the table as float32 or quantized to 8 bits"
        )
    format = IntFormat(8 * rows.dtype.itemsize, rows.dtype.kind == "i")
    x, name = context.tensors[held.tensor], context.building.tensor_name(node.outputs[0])
    layer = Embedding(context.building.name_of(node), (x.name,), name, x.format, integers)
    y = Tensor(name, layer.output_frame(x.frame), format, 1.0, 0)
    return context.building.made(layer, y, node.outputs[0], result.index, result.real)


#: Axes of a matrix.
_MATRIX = 2


def matmul(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A MatMul or Gemm; with one constant operand it is a dense layer."""
    if dynamic[0] != node.inputs[0] or node.inputs[1] not in dynamic:
        return dense(context, node, dynamic)
    if len(node.inputs) > _MATRIX and node.inputs[2]:
        raise Unsupported("adds to a product of two computed tensors", "write a MatMul and an Add")
    return Unrounded.of(*_anchor(context, node))


@dataclass(frozen=True)
class Products(LayerAnchor):
    """factor * a @ b; the fields are those of the layer."""

    factor: Fraction
    heads: int
    rows: int
    depth: int
    columns: int
    interleaved: bool
    order: str

    @property
    def constants(self) -> int:
        """One for each place of a head."""
        return self.rows * self.columns

    def constant_of(self, index: IntArray) -> IntArray:
        if not self.interleaved:
            return index % self.constants
        row, column = index // (self.heads * self.columns), index % self.columns
        place: IntArray = row * self.columns + column
        return place

    def layer(self, task: LayerTask) -> MatMul:
        a, b = task.xs
        unit = self.factor * Fraction(a.scale) * Fraction(b.scale)
        rescaling = self._rescale(unit, _sums(self.depth, a, b), task)
        return MatMul(task.name, (a.name, b.name), task.y.name, self.heads, self.rows, self.depth, self.columns,
                      self.interleaved, self.order, task.y.frame, rescaling)

    def _rescale(self, unit: Fraction, sums: Accumulator, task: LayerTask) -> Rescale:
        """One constant where the steps have no others; else one for each place of a head."""
        unrounded, p = task.unrounded, task.parameters
        places = self.constants if varies(unrounded) else 1
        unrounded = unrounded if places > 1 else uniform(unrounded)
        sums = Accumulator(*(np.repeat(end, places) for end in (sums.zero, sums.low, sums.high)))
        start = Form.linear((unit,) * places)
        form = form_of(unrounded, start)
        rescaling: Rescale
        if form is None or (form.rounding is not None and p.scale != 1):
            sign, rescaling = search(start, sums, Function(unrounded, task.opsets), p)
            positive = bool(np.all(sign > 0))
        else:
            positive = all(part > 0 for part in form.unit)
            form = form if positive else start
            rescaling = rescale(affine(form, sums, p), sums, task.y.format, task.stage)
        if not positive:
            raise Refusal("a product of two computed tensors must not be negated or made constant before its "
                          "QuantizeLinear", "negate one of its operands")
        return rescaling


def _sums(depth: int, a: Tensor, b: Tensor) -> Accumulator:
    """The ends of the sums of products of elements less their zero points."""
    ends = [(x.format.low - x.zero_point, x.format.high - x.zero_point) for x in (a, b)]
    ends_of_sums = [depth * p * q for p, q in product(*ends)]
    return Accumulator(np.zeros(1, np.int64), np.array([min(ends_of_sums)]), np.array([max(ends_of_sums)]))


def _anchor(context: NodeContext, node: Node) -> tuple[Products, IntArray]:
    """The anchor of `node`, and the index of its result."""
    (a, factor_a), (b, factor_b) = (_operand(context, name) for name in node.inputs[:2])
    matrices = _Matrices.of(node, a.index, b.index)
    rows, columns = matrices.rows, matrices.columns
    order_a, order_b = _orders(rows, columns)
    sources = (_in_order(context, a, rows, ("hmk", order_a), node.inputs[0]),
               _in_order(context, b, columns, ("hkn", order_b), node.inputs[1]))
    (heads, count, depth), width = rows.shape, columns.shape[2]
    interleaved = order_a == "mhk"
    raster = (count, heads, width) if interleaved else (heads, count, width)
    index = np.arange(heads * count * width, dtype=np.int64).reshape(raster)
    index = index.transpose(1, 0, 2) if interleaved else index
    factor = factor_a * factor_b * (Fraction(attribute(node, "alpha", 1.0)) if node.op_type == "Gemm" else 1)
    frame = _frame_for_reader(context.graph, node, raster)
    anchor = Products(
        node, node.outputs[0], frame, sources, factor, heads, count, depth, width, interleaved, order_b)
    return anchor, index.reshape(matrices.shape)


@dataclass(frozen=True)
class _Matrices:
    """The places of the elements of both operands in their frames, and the shape of the result in ONNX.

    `rows` [heads, rows, depth], `columns` [heads, depth, columns].
    """

    rows: IntArray
    columns: IntArray
    shape: tuple[int, ...]

    @staticmethod
    def of(node: Node, a: IntArray, b: IntArray) -> _Matrices:
        """`a` and `b` are the indices of the operands, of their ONNX shapes."""
        if node.op_type == "Gemm":
            a = a.T if attribute(node, "transA", 0) else a
            b = b.T if attribute(node, "transB", 0) else b
        ends = (*(a.shape[-2:-1] if a.ndim >= _MATRIX else ()), *(b.shape[-1:] if b.ndim >= _MATRIX else ()))
        a, b = a if a.ndim >= _MATRIX else a[None], b if b.ndim >= _MATRIX else b[:, None]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if int(np.prod(b.shape[:-2])) == 1:  # all rows of all batches meet the same matrix
            rows, columns = a.reshape(1, -1, a.shape[-1]), b.reshape(1, *b.shape[-2:])
        else:
            rows, columns = (np.broadcast_to(index, (*batch, *index.shape[-2:])).reshape(-1, *index.shape[-2:])
                             for index in (a, b))
        return _Matrices(rows, columns, (*batch, *ends))


def _orders(rows: IntArray, columns: IntArray) -> tuple[str, str]:
    """The orders of axes in which the layer reads the elements of both operands: heads h, rows m, depth k, columns n.

    Those that they have; where an operand has none that the layer can read, one that fits the other.
    """
    order_a = _order(rows, "hmk", ("hmk", "mhk"))
    order_b = _order(columns, "hkn", ("hkn", "hnk", "khn", "nhk"))
    if order_a is None:
        order_a = "mhk" if order_b in ("khn", "nhk") else "hmk"
    if order_b is None or (order_a == "hmk" and order_b[0] != "h"):
        order_b = "hkn"
    return order_a, order_b


def _operand(context: NodeContext, name: str) -> tuple[Held, Fraction]:
    """A matrix, and the constant that it is multiplied with; one that the host makes enters row by row."""
    state = context.states[name]
    if isinstance(state, Entry):
        last = state.shape[-1]
        return context.inputs.enter(state, Frame(1, int(np.prod(state.shape)) // last, last)), Fraction(1)
    return context.operand(name)


def _order(index: IntArray, letters: str, orders: Sequence[str]) -> str | None:
    """The first of `orders` of its axes in which the elements of a matrix, whose axes are `letters`, follow each other
    in their frame, other elements between them or not; None where there is none."""
    for order in orders:
        if np.all(np.diff(index.transpose([letters.index(letter) for letter in order]).ravel()) > 0):
            return order
    return None


def _in_order(context: NodeContext, held: Held, index: IntArray, axes: tuple[str, str], name: str) -> Held:
    """The matrix `name`, whose elements are at the places `index` of `held`, as a frame of nothing but them.

    `axes`: those of `index`, and in which order the elements follow each other in the frame.
    """
    letters, order = axes
    places = index.transpose([letters.index(letter) for letter in order])
    if np.array_equal(places.ravel(), np.arange(context.tensors[held.tensor].frame.elements)):
        return held
    return context.movement.chosen(held, name, places.reshape(-1, places.shape[2]))


def _frame_for_reader(graph: Graph, node: Node, raster: tuple[int, int, int]) -> Frame:
    """The frame of a product whose raster has the sizes `raster`: with as many channels as its reader wants.

    A Softmax wants the columns, a projection (a Conv of one pixel) the columns of all heads.  Another frame costs a
    Rearrange, and is no error.
    """
    first, second, columns = raster
    name = node.outputs[0]
    readers = consumers(graph)
    while len(readers.get(name, ())) == 1 and readers[name][0].op_type in LAYOUT | QUANTIZERS | ELEMENTWISE:
        name = readers[name][0].outputs[0]
    shape = shape_of(graph, name) or ()
    is_image = len(shape) > _MATRIX and any(reader.op_type in POOLS | {"Conv"} for reader in readers.get(name, ()))
    if shape and shape[1 if is_image else -1] == second * columns:
        return Frame(1, first, second * columns)
    return Frame(first, second, columns)
