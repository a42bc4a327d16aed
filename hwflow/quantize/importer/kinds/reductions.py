"""Reductions over any axes: the largest and the smallest element, sums, means, and norms.

    over height and width, or one of them     a window
    over the channels, alone or with these    sums: a convolution with weights of 1; the largest: a ranking
    over anything else                        one of both, once a Rearrange has made pixels of the elements

The norms are sums of a table and a function of the sum: the table's integers are exact, so only the result is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers import Frame, IntFormat, Lookup, MaxPool, RunningSum, Tensor, TopK
from hwflow.layers.elementwise import Multiply
from hwflow.layers.formats import IntArray
from hwflow.layers.window import Window
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.operators import row_of
from hwflow.onnx.traits import Total
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import as_ints, attribute, label_of
from hwflow.quantize.importer.element_places import channel_order, counts, frame_of, window_of
from hwflow.quantize.importer.kinds.matrix import padded
from hwflow.quantize.importer.layer_anchors import TABLE_BITS, Average, Matrix, TensorAnchor
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.segment_fit import fitted
from hwflow.quantize.importer.states import Entry, Held, Step, TensorState, Unrounded, Unsupported, image_index
from hwflow.quantize.importer.steps import Function, uniform, varies

#: Height, width and channels of a frame.
_HEIGHT, _WIDTH, _CHANNELS = range(3)


#: By the p of a norm.
_NORMS = {p: row_of("", name).total for p, name in ((1, "ReduceL1"), (2, "ReduceL2"))}


@dataclass(frozen=True)
class _Reduced:
    """A tensor of the graph whose frame is reduced along `axes` (of height, width, channels).

    `index`: the place of each element of ONNX's result in the frame that then has one element along these axes.
    """

    held: Held
    frame: Frame
    axes: tuple[int, ...]
    index: IntArray

    @property
    def kernel(self) -> tuple[int, int]:
        """The kernel of the window over the pixels."""
        height, width = self.frame.height, self.frame.width
        return height if _HEIGHT in self.axes else 1, width if _WIDTH in self.axes else 1

    @property
    def over_channels(self) -> bool:
        return _CHANNELS in self.axes

    @property
    def pixels(self) -> Frame:
        """The frame once the pixels are reduced."""
        return Frame(*Window(self.kernel).positions(self.frame), self.frame.channels)

    @property
    def made(self) -> Frame:
        """The frame of the result."""
        return replace(self.pixels, channels=1) if self.over_channels else self.pixels

    @property
    def count(self) -> int:
        """The elements that become one."""
        return self.frame.elements // self.made.elements


def reduce_best(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A ReduceMax or ReduceMin, of integers or reals: pixels first, then channels."""
    reduced = _reduced(context, node, dynamic[0], real=False)
    smallest, building = node.op_type == "ReduceMin", context.building
    if reduced.made == reduced.frame:
        return replace(reduced.held, index=reduced.index)
    x = context.tensors[reduced.held.tensor]
    y, output = x, building.tensor_name(node.outputs[0])
    if reduced.pixels != reduced.frame or not reduced.over_channels:
        name = building.names.new(f"{output}.pixels") if reduced.over_channels else output
        y = replace(x, name=name, frame=reduced.pixels)
        building.add(MaxPool(
            building.name_of(node), (x.name,), name, x.format, reduced.kernel, smallest=smallest), y)  # fmt: skip
    if reduced.over_channels:
        name = building.name_of(node)
        layer = TopK(name, (y.name,), output, x.format, largest=not smallest, gives_indices=False)
        y = replace(y, name=output, frame=reduced.made)
        building.add(layer, y)
    building.sources[y.name] = (node.outputs[0], reduced.index)
    return Held(y.name, reduced.index, reduced.held.real)


def reduce_sum(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A ReduceSum, ReduceMean, or norm."""
    total = row_of("", node.op_type).total
    assert total is not None
    squared = _squared(context, dynamic[0]) if total == Total() else None
    if squared is not None:
        axes, keeps = _axes(node, context.graph, squared.index.ndim), bool(attribute(node, "keepdims", 1))
        return _summed(context, node, _of(context, squared, dynamic[0], axes, keeps), Total(2, is_magnitude=True))
    return _summed(context, node, _reduced(context, node, dynamic[0]), total)


def _squared(context: NodeContext, name: str) -> Held | None:
    """The tensor of the graph whose squares no quantizer made integers yet, and are the tensor `name`; else None."""
    state = context.states[name]
    if not isinstance(state, Unrounded) or not isinstance(state.anchor, TensorAnchor) or varies(state):
        return None
    x = np.linspace(-8, 8, 257, dtype=np.float32)
    values = Function(uniform(state), context.opsets)(x[:, None])[:, 0]
    source = state.anchor.source
    return replace(source, index=state.index, moved=state.moved) if np.array_equal(values, x * x) else None


def global_norm(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A GlobalLpPool: over all pixels of an image."""
    held = context.held(dynamic[0])
    axes = tuple(range(2, held.index.ndim))
    return _summed(context, node, _of(context, held, dynamic[0], axes, keeps=True), _norm(node))


def norm_pool(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """An LpPool: padding counts as 0."""
    total, held = _norm(node), context.image(dynamic[0])
    held = _mapped(context, node, held, total)
    frame = context.tensors[held.tensor].frame
    window = window_of(node, as_ints(node.attributes["kernel_shape"]), frame)
    result = Frame(*window.positions(frame), frame.channels)
    index = image_index(result, held.index.ndim)[:, held.index.reshape(frame.channels, -1)[:, 0] % frame.channels]
    counts = [((size, 1),) * positions for size, positions in
              zip(window.kernel, (result.height, result.width), strict=True)]  # fmt: skip
    anchor = Average(node, f"{node.outputs[0]}.sum", result, (held,), window, counts[0], counts[1])
    return _behind(padded(context, node, Unrounded.of(anchor, index)), node, total)


def _norm(node: Node) -> Total:
    p = attribute(node, "p", 2)
    total = _NORMS.get(p)
    if total is None:
        raise Refusal(f"p must be 1 or 2 in hardware, not {p}", "use one of these norms, or an AveragePool of a power")
    return total


def _reduced(context: NodeContext, node: Node, name: str, real: bool = True) -> _Reduced:
    """The tensor and axes that `node` reduces.  Its elements are put in place where they do not stand along axes of the
    frame.
    """
    state = context.states[name]
    as_row = isinstance(state, Entry) and frame_of(state.shape) is None
    held = context.flat(name) if as_row else context.held(name, real)
    axes = _axes(node, context.graph, held.index.ndim)
    return _of(context, held, name, axes, keeps=bool(attribute(node, "keepdims", 1)))


def _axes(node: Node, graph: Graph, rank: int) -> tuple[int, ...]:
    """The axes of a reduction of a tensor of `rank`, in order and not negative; all of them where the node names none.

    None at all where it says that an empty list means that.
    """
    stated = node.attributes.get("axes")
    if stated is None and node.input(1):
        stated = graph.initializers[node.inputs[1]]
    axes = () if stated is None else as_ints(stated)
    if not axes and not attribute(node, "noop_with_empty_axes", 0):
        axes = tuple(range(rank))
    return tuple(sorted(axis % rank for axis in axes))


def _of(context: NodeContext, held: Held, name: str, axes: tuple[int, ...], keeps: bool) -> _Reduced:
    held = context.movement.whole(held, name)
    reduced = _along(held, context.tensors[held.tensor].frame, axes)
    if reduced is None:
        held = context.movement.pixels(held, name, axes)
        reduced = _along(held, context.tensors[held.tensor].frame, axes)
    if reduced is None:  # otherwise the elements along the axes are the pixels of the frame now
        raise Refusal(f"the batch must be 1, not {held.index.shape[0]}", "export the model with a batch of 1")
    shape = [1 if k in axes else size for k, size in enumerate(held.index.shape)]
    if not keeps:
        shape = [size for k, size in enumerate(held.index.shape) if k not in axes]
    return replace(reduced, index=reduced.index.reshape(shape))


def _along(held: Held, frame: Frame, axes: tuple[int, ...]) -> _Reduced | None:
    """Where the elements along `axes` of the tensor are all those along some axes of its frame; else None."""
    shape = held.index.shape
    others = tuple(k for k in range(len(shape)) if k not in axes)
    count = int(np.prod([shape[k] for k in axes], dtype=np.int64))
    lines = np.transpose(held.index, (*others, *axes)).reshape(-1, count)
    sizes = (frame.height, frame.width, frame.channels)
    places = np.unravel_index(lines, sizes)
    for number in range(4):
        for axes_of_frame in combinations(range(3), number):
            left = [k for k in range(3) if k not in axes_of_frame]
            whole = int(np.prod([sizes[k] for k in axes_of_frame], dtype=np.int64)) == count
            if whole and all((places[k] == places[k][:, :1]).all() for k in left):
                one = [1 if k in axes_of_frame else sizes[k] for k in range(3)]
                first = [np.zeros(len(lines), np.int64) if k in axes_of_frame else places[k][:, 0] for k in range(3)]
                index = np.ravel_multi_index(first, one).astype(np.int64)
                return _Reduced(held, frame, axes_of_frame, index)
    return None


def _summed(context: NodeContext, node: Node, reduced: _Reduced, total: Total) -> Unrounded:
    held = _mapped(context, node, reduced.held, total)
    key, kernel = f"{node.outputs[0]}.sum", reduced.kernel
    if reduced.over_channels:
        weights = np.ones((1, *kernel, reduced.frame.channels), np.int64)
        unrounded = Unrounded.of(
            Matrix(node, key, reduced.made, (held,), weights, np.ones(1), Window(kernel), 1), reduced.index)
    else:
        rows, columns = ((kernel[0], 1),) * reduced.made.height, ((kernel[1], 1),) * reduced.made.width
        average = Average(node, key, reduced.made, (held,), Window(kernel), rows, columns)
        unrounded = Unrounded.of(average, reduced.index)
    if node.op_type == "ReduceMean":
        count = Quantity.plain(np.array(reduced.count, np.float32))
        unrounded = unrounded.then(Step(Node("Div", (key, ""), (node.outputs[0],), {}, label_of(node)), (key, count)))
    return _behind(unrounded, node, total)


def _behind(unrounded: Unrounded, node: Node, total: Total) -> Unrounded:
    """The function of the sums."""
    if not total.function:
        return unrounded
    key = unrounded.anchor.key
    return unrounded.then(Step(Node(total.function, (key,), node.outputs[:1], {}, label_of(node)), (key,)))


def _mapped(context: NodeContext, node: Node, held: Held, total: Total) -> Held:
    """The magnitudes, or the squares, of the elements of `held`: exact integers, in a format of their own."""
    x = context.tensors[held.tensor]
    if not total.is_magnitude or (total.power == 1 and x.format.low >= x.zero_point == 0):
        return held
    if x.format.bits > TABLE_BITS:
        return _wide(context, node, held, total)
    codes = np.arange(x.format.low, x.format.high + 1, x.format.step)
    table = np.abs(codes - x.zero_point) ** total.power
    building = context.building
    y = Tensor(
        building.names.new(f"{node.outputs[0]}.power"), x.frame, IntFormat.covering(0, int(table.max())),
        x.scale**total.power, 0)
    building.add(Lookup(building.name_of(node), (x.name,), y.name, x.format, table.astype(np.int64)), y)
    return replace(held, tensor=y.name)


def _wide(context: NodeContext, node: Node, held: Held, total: Total) -> Held:
    """The same of many bits: products of the tensor with itself, or straight segments, which are exact here."""
    x, building = context.tensors[held.tensor], context.building
    farthest = max(x.format.high - x.zero_point, x.zero_point - x.format.low)
    format = IntFormat.covering(0, farthest**total.power)
    y = Tensor(building.names.new(f"{node.outputs[0]}.power"), x.frame, format, x.scale**total.power, 0)
    name = building.name_of(node)
    if total.power == 2:
        building.add_checked(Multiply(name, (x.name, x.name), y.name, 1, 0, 0, 0, farthest**2), y)
    else:
        ends = (0, farthest)
        building.add_checked(fitted(name, x, y, lambda codes: np.abs(codes - x.zero_point) * 1.0, ends, exact=True), y)
    return replace(held, tensor=y.name)


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
    return context.building.made(layer, y, node.outputs[0], index)


def from_the_end(context: NodeContext, name: str, axis: int) -> tuple[Held, IntArray]:
    """The tensor `name` as pixels whose channels are its elements along `axis`, the last one first, and its index."""
    held = context.held(name)
    rows = np.moveaxis(held.index, axis, -1)
    turned = context.movement.chosen(held, name, rows.reshape(-1, rows.shape[-1])[:, ::-1])
    return turned, np.moveaxis(turned.index.reshape(rows.shape)[..., ::-1], -1, axis)


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
    index = image_index(y.frame, rank)[:, channel_order(frame, held.index)]
    return context.building.made(layer, y, node.outputs[0], index, held.real)


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
