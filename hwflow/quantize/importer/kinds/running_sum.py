"""Sums of the elements so far along an axis."""

from __future__ import annotations

import numpy as np

from hwflow.layers import RunningSum, Tensor
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import Held, TensorState, Unsupported


def running_sum(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A CumSum: the elements along its axis become the channels of pixels, in the order in which they are summed."""
    if node.inputs[1] not in context.constants:
        raise Unsupported(f"its axis '{node.inputs[1]}' must be constant", "export the model with a constant axis")
    axis = int(context.constants[node.inputs[1]].real.item())
    if attribute(node, "reverse", 0):
        held, index = from_the_end(context, node.inputs[0], axis)
    else:
        held = context.rows(node.inputs[0], axis)
        index = held.index
    if index.shape[axis] == 1:
        raise Unsupported("it sums over an axis of one element, as the batch is", "sum along another axis")
    x = context.tensors[held.tensor]
    y = Tensor(context.building.tensor_name(node.outputs[0]), x.frame, RunningSum.sums_of(x), x.scale, 0)
    exclusive = bool(attribute(node, "exclusive", 0))
    layer = RunningSum(context.building.name_of(node), (x.name,), y.name, x.format, exclusive)
    context.building.add(layer, y)
    context.building.sources[y.name] = (node.outputs[0], index)
    return Held(y.name, index, True)


def from_the_end(context: NodeContext, name: str, axis: int) -> tuple[Held, IntArray]:
    """The tensor `name` as pixels whose channels are its elements along `axis`, the last one first, and its index."""
    held = context.held(name)
    rows = np.moveaxis(held.index, axis, -1)
    turned = context.movement.chosen(held, name, rows.reshape(-1, rows.shape[-1])[:, ::-1])
    return turned, np.moveaxis(turned.index.reshape(rows.shape)[..., ::-1], -1, axis)
