"""Windows without weights: maxima and means."""

from __future__ import annotations

from dataclasses import replace

from hwflow.layers import Frame, MaxPool
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import as_ints, attribute
from hwflow.quantize.importer.anchors import average
from hwflow.quantize.importer.element_places import channel_order
from hwflow.quantize.importer.geometry import window_of
from hwflow.quantize.importer.kinds.matrix import padded
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import Held, TensorState, Unsupported, image_index


def average_pool(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """An AveragePool or GlobalAveragePool."""
    held = context.image(dynamic[0], real=False)
    return padded(context, node, average(node, held, context.tensors[held.tensor].frame))


def max_pool(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A MaxPool or GlobalMaxPool, of integers or reals."""
    if len([name for name in node.outputs if name]) > 1:
        raise Unsupported("the second output (indices) has no hardware", "use MaxPool without its indices")
    held = context.image(dynamic[0], real=False)
    x, rank = context.tensors[held.tensor], held.index.ndim
    frame = x.frame
    spatial = (frame.height, frame.width)[4 - rank :]
    kernel = spatial if node.op_type == "GlobalMaxPool" else as_ints(node.attributes["kernel_shape"])
    if attribute(node, "storage_order", 0):
        raise Unsupported("storage_order must be 0", "export the model with storage_order 0")
    window = window_of(node, kernel, frame)
    result = Frame(*window.positions(frame), frame.channels)
    y = replace(x, name=context.building.tensor_name(node.outputs[0]), frame=result)
    sizes = (window.kernel, window.strides, window.dilations, window.pads)
    layer = MaxPool(context.building.name_of(node), (x.name,), y.name, x.format, *sizes)
    context.building.add(layer, y)
    index = image_index(y.frame, rank)[:, channel_order(frame, held.index)]
    context.building.sources[y.name] = (node.outputs[0], index)
    return Held(y.name, index, held.real)
