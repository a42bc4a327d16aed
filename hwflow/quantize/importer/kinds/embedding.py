"""Rows of a constant table, chosen by integers that the host makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import Embedding, Frame, IntFormat, Layer, Tensor
from hwflow.onnx.model import Array, Node
from hwflow.quantize.graphs import attribute, is_embedding, shape_of
from hwflow.quantize.importer.inputs import raster
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
)
from hwflow.quantize.importer.steps import Function
from hwflow.quantize.importer.threshold_search import quantized


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
    held = _numbers(context, node, table.shape[axis])
    count, rest = context.tensors[held.tensor].frame.elements, (*table.shape[:axis], *table.shape[axis + 1 :])
    rows = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
    frame = Frame(1, count, rows.shape[1])
    places = np.arange(frame.elements, dtype=np.int64).reshape(count, *rest)
    index = np.moveaxis(places, 0, axis).reshape(*rest[:axis], *held.index.shape, *rest[axis:])
    if table.dtype.kind == "f":
        return Unrounded.of(Rows(node, node.outputs[0], frame, (held,), rows.astype(np.float32)), index)
    return _of_integers(context, node, held, rows, Held("", index, real=False))


def _numbers(context: NodeContext, node: Node, rows: int) -> Held:
    """The numbers of rows as an input of the layer graph, of pixels with one channel."""
    name = node.inputs[1]
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
    context.building.add(layer, y)
    context.building.sources[name] = (node.outputs[0], result.index)
    return Held(name, result.index, result.real)
