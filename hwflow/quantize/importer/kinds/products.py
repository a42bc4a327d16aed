"""Products of two computed tensors: MatMul and Gemm, over any batch axes, which are the heads of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers import Frame, MatMul, Tensor
from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Rescale
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT, POOLS, QUANTIZERS
from hwflow.quantize.graphs import attribute, consumers, shape_of
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import Accumulator, affine, rescale
from hwflow.quantize.importer.kinds.matrix import dense
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import (
    Entry,
    Held,
    LayerAnchor,
    Parameters,
    Pending,
    State,
    Unsupported,
)
from hwflow.quantize.importer.steps import Function, uniform, varies
from hwflow.quantize.importer.threshold_search import search
from hwflow.quantize.settings import OutputStage

#: Axes of a matrix.
_MATRIX = 2


def matmul(site: Site, node: Node, dynamic: list[str]) -> State:
    """A MatMul or Gemm; with one constant operand it is a dense layer."""
    if dynamic[0] != node.inputs[0] or node.inputs[1] not in dynamic:
        return dense(site, node, dynamic)
    if len(node.inputs) > _MATRIX and node.inputs[2]:
        raise Unsupported("adds to a product of two computed tensors", "write a MatMul and an Add")
    return Pending.of(*_anchor(site, node))


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

    def layer(
        self,
        pending: Pending,
        xs: tuple[Tensor, ...],
        y: Tensor,
        name: str,
        p: Parameters,
        stage: OutputStage,
        opsets: Mapping[str, int],
    ) -> MatMul:
        a, b = xs
        unit = self.factor * Fraction(a.scale) * Fraction(b.scale)
        made = self._rescale(pending, unit, _sums(self.depth, a, b), y, p, stage, opsets)
        return MatMul(name, (a.name, b.name), y.name, self.heads, self.rows, self.depth, self.columns,
                      self.interleaved, self.order, y.frame, made)

    def _rescale(
        self, pending: Pending, unit: Fraction, sums: Accumulator, y: Tensor, p: Parameters, stage: OutputStage,
        opsets: Mapping[str, int],
    ) -> Rescale:  # fmt: skip
        """One constant where the steps have no others; else one for each place of a head."""
        places = self.constants if varies(pending) else 1
        pending = pending if places > 1 else uniform(pending)
        sums = Accumulator(*(np.repeat(end, places) for end in (sums.zero, sums.low, sums.high)))
        start = Form.linear((unit,) * places)
        form = form_of(pending, start)
        made: Rescale
        if form is None or (form.rounding is not None and p.scale != 1):
            sign, made = search(start, sums, Function(pending, opsets), p)
            positive = bool(np.all(sign > 0))
        else:
            positive = all(part > 0 for part in form.unit)
            form = form if positive else start
            made = rescale(affine(form, sums, p), sums, y.format, stage)
        if not positive:
            raise Refusal("a product of two computed tensors must not be negated or made constant before its "
                          "QuantizeLinear", "negate one of its operands")
        return made


def _sums(depth: int, a: Tensor, b: Tensor) -> Accumulator:
    """The ends of the sums of products of elements less their zero points."""
    ends = [(x.format.low - x.zero_point, x.format.high - x.zero_point) for x in (a, b)]
    found = [depth * p * q for p, q in product(*ends)]
    return Accumulator(np.zeros(1, np.int64), np.array([min(found)]), np.array([max(found)]))


def _anchor(site: Site, node: Node) -> tuple[Products, IntArray]:
    """The anchor of `node`, and the index of its result."""
    (a, f), (b, g) = (_operand(site, name) for name in node.inputs[:2])
    factor = f * g
    one, two = a.index, b.index
    if node.op_type == "Gemm":
        one = one.T if attribute(node, "transA", 0) else one
        two = two.T if attribute(node, "transB", 0) else two
        factor *= Fraction(attribute(node, "alpha", 1.0))
    vectors = one.ndim < _MATRIX, two.ndim < _MATRIX
    one, two = one[None] if vectors[0] else one, two[:, None] if vectors[1] else two
    batch = np.broadcast_shapes(one.shape[:-2], two.shape[:-2])
    if int(np.prod(two.shape[:-2])) == 1:  # all rows of all batches meet the same matrix
        rows, heads = one.reshape(1, -1, one.shape[-1]), 1
        two = two.reshape(1, *two.shape[-2:])
    else:
        heads = int(np.prod(batch))
        rows, two = (np.broadcast_to(index, (*batch, *index.shape[-2:])).reshape(heads, *index.shape[-2:])
                     for index in (one, two))
    (_, count, depth), columns = rows.shape, two.shape[2]
    of_a, of_b = (_order(index, letters, orders) for index, letters, orders in (
        (rows, "hmk", ("hmk", "mhk")), (two, "hkn", ("hkn", "hnk", "khn", "nhk"))))
    of_a = of_a or ("mhk" if of_b in ("khn", "nhk") else "hmk")
    of_b = of_b if of_b is not None and (of_a == "mhk" or of_b[0] == "h") else "hkn"
    a, b = (_in_order(site, held, index, letters, order, name) for held, index, letters, order, name in (
        (a, rows, "hmk", of_a, node.inputs[0]), (b, two, "hkn", of_b, node.inputs[1])))
    interleaved = of_a == "mhk"
    made = (count, heads, columns) if interleaved else (heads, count, columns)
    index = np.arange(heads * count * columns, dtype=np.int64).reshape(made)
    index = index.transpose(1, 0, 2) if interleaved else index
    shape = [*batch, *(() if vectors[0] else one.shape[-2:-1]), *(() if vectors[1] else (columns,))]
    frame = _frame_for_reader(site.graph, node, made)
    anchor = Products(node, node.outputs[0], frame, (a, b), factor, heads, count, depth, columns, interleaved, of_b)
    return anchor, index.reshape(shape)


def _operand(site: Site, name: str) -> tuple[Held, Fraction]:
    """A matrix, and the constant that it is multiplied with; one that the host makes enters row by row."""
    state = site.states[name]
    if isinstance(state, Entry):
        last = state.shape[-1]
        return site.inputs.enter(state, Frame(1, int(np.prod(state.shape)) // last, last)), Fraction(1)
    return site.operand(name)


def _order(index: IntArray, letters: str, orders: Sequence[str]) -> str | None:
    """The first of `orders` of its axes in which the elements of a matrix, whose axes are `letters`, follow each other
    in their frame, other elements between them or not; None where there is none."""
    for order in orders:
        if np.all(np.diff(index.transpose([letters.index(letter) for letter in order]).ravel()) > 0):
            return order
    return None


def _in_order(site: Site, held: Held, index: IntArray, letters: str, order: str, name: str) -> Held:
    """The matrix `name`, whose elements are at the places `index` of `held`, as a frame of nothing but them."""
    wanted = index.transpose([letters.index(letter) for letter in order])
    if np.array_equal(wanted.ravel(), np.arange(site.tensors[held.tensor].frame.elements)):
        return held
    return site.movement.chosen(held, name, wanted.reshape(-1, wanted.shape[2]))


def _frame_for_reader(graph: Graph, node: Node, made: tuple[int, int, int]) -> Frame:
    """The frame of a product whose raster has the sizes `made`: with as many channels as its reader wants.

    A Softmax wants the columns, a projection (a Conv of one pixel) the columns of all heads.  Another frame costs a
    Rearrange, and is no error.
    """
    first, second, columns = made
    name = node.outputs[0]
    readers = consumers(graph)
    while len(readers.get(name, ())) == 1 and readers[name][0].op_type in LAYOUT | QUANTIZERS | ELEMENTWISE:
        name = readers[name][0].outputs[0]
    shape = shape_of(graph, name) or ()
    is_image = len(shape) > _MATRIX and any(reader.op_type in POOLS | {"Conv"} for reader in readers.get(name, ()))
    if shape and shape[1 if is_image else -1] == second * columns:
        return Frame(1, first, second * columns)
    return Frame(first, second, columns)
