"""Windows without weights: maxima and means."""

from __future__ import annotations

from dataclasses import replace

from hwflow.layers import Frame, MaxPool
from hwflow.layers.formats import IntArray
from hwflow.layers.window import Window
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import as_ints, attribute
from hwflow.quantize.importer.element_places import channel_order
from hwflow.quantize.importer.geometry import counts, window_of
from hwflow.quantize.importer.kinds.matrix import padded
from hwflow.quantize.importer.layer_anchors import Average
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import Held, TensorState, Unrounded, Unsupported, image_index


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


def average(node: Node, held: Held, frame: Frame) -> Unrounded:
    """An AveragePool or GlobalAveragePool of the image `held`."""
    if not held.real:
        raise ValueError("its input must be dequantized first (DequantizeLinear)")
    if node.op_type == "AveragePool":
        window = window_of(node, as_ints(node.attributes["kernel_shape"]), frame)
        result = Frame(*window.positions(frame), frame.channels)
        index = image_index(result, held.index.ndim)[:, channel_order(frame, held.index)]
        rows, columns = counts(node, window, frame)
        divisors = {divisor for _, divisor in rows}, {divisor for _, divisor in columns}
        if divisors == ({window.kernel[0]}, {window.kernel[1]}):  # padding counts as the zero that it is
            rows, columns = [], []
        return Unrounded.of(Average(node, node.outputs[0], result, (held,), window, tuple(rows), tuple(columns)), index)
    index = channel_order(frame, held.index).reshape(1, frame.channels, *(1,) * (held.index.ndim - 2))
    return _whole_mean(node, held, frame, index)


def _whole_mean(node: Node, held: Held, frame: Frame, index: IntArray) -> Unrounded:
    whole = Window((frame.height, frame.width))
    return Unrounded.of(Average(node, node.outputs[0], Frame(1, 1, frame.channels), (held,), whole), index)
