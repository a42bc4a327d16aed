"""The pass that folds Pad nodes into the windows behind them; exporters write padding that no window has in that form.

PyTorch's ZeroPad2d, Keras's ZeroPadding2D and strided SAME convolutions of TensorFlow are Pad nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT, MAX_POOLS, MOVES, QUANTIZERS, UNARY, named
from hwflow.onnx.traits import Trait
from hwflow.onnx.window import extent_of, same_pads
from hwflow.quantize.graphs import (
    Names,
    apply,
    as_ints,
    attribute,
    consumers,
    dynamic_inputs,
    producers,
    shape_of,
    with_graph,
)

#: Values below this do not show behind a maximum of anything else.
_LOWEST = float(np.finfo(np.float32).min)

#: What gives no negative value.
_NOT_NEGATIVE = named(Trait.NOT_NEGATIVE)


@dataclass(frozen=True)
class _Padding:
    """A constant Pad of `source`: elements before and behind, one entry per axis, and their value."""

    node: Node
    source: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    value: float

    @property
    def is_spatial(self) -> bool:
        return not any((*self.begins[:2], *self.ends[:2])) and min((*self.begins, *self.ends)) >= 0

    @property
    def axes(self) -> tuple[bool, ...]:
        """For each axis, whether it is padded."""
        return tuple(bool(begin or end) for begin, end in zip(self.begins, self.ends, strict=True))

    def is_like(self, other: _Padding, graph: Graph) -> bool:
        """True where both give axes of the same sizes the same elements before and behind."""
        sizes = [shape_of(graph, padding.source) for padding in (self, other)]
        if None in sizes or (self.begins, self.ends) != (other.begins, other.ends):
            return False
        mine, others = (np.array(size)[list(self.axes)] for size in sizes)
        return np.array_equal(mine, others)


def fold_pads(model: Model) -> Model:
    """Pad with zeros and the Conv or AveragePool that reads it become one node with `pads`.

    So do Pad and MaxPool where the padding can never be the largest value, or is 0 like the smallest.  A quantizer
    between them moves in front.  Any other Pad stays as it is.
    """
    if not any(node.op_type == "Pad" for node in model.graph.nodes):
        return model
    model = _behind_quantizers(_with_plain_values(model))
    graph = model.graph
    nodes, makers = list(graph.nodes), producers(graph)
    for k, node in enumerate(nodes):
        while (padding := _padding(makers.get(node.inputs[0]) if node.inputs else None, graph)) is not None:
            folded = _folded(node, padding, graph)
            if folded is None:
                break
            nodes[k] = node = folded
    graph = replace(graph, nodes=tuple(nodes))
    read, outputs = consumers(graph), {value.name for value in graph.outputs}
    left = [n for n in nodes if n.op_type != "Pad" or any(name in read or name in outputs for name in n.outputs)]
    return simplify(infer(with_graph(model, left)))


def _padding(node: Node | None, graph: Graph) -> _Padding | None:
    """The padding of a Pad, in whatever way its operator set says it; None for other nodes, modes and computed numbers.
    """
    if node is None or node.op_type != "Pad" or node.domain or attribute(node, "mode", "constant") != "constant":
        return None
    shape, value = shape_of(graph, node.inputs[0]), attribute(node, "value", 0.0)
    stated = [graph.initializers.get(name) for name in node.inputs[1:]]
    if shape is None or any(name and array is None for name, array in zip(node.inputs[1:], stated, strict=True)):
        return None
    pads, fill, axes = (*stated, None, None, None)[:3]
    numbers = as_ints(node.attributes["pads"] if pads is None else pads)
    if fill is not None:
        value = float(fill.reshape(-1)[0])
    places = range(len(shape)) if axes is None else [axis % len(shape) for axis in as_ints(axes)]
    half = len(numbers) // 2
    begins, ends = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(places):
        begins[axis], ends[axis] = numbers[place], numbers[half + place]
    return _Padding(node, node.inputs[0], tuple(begins), tuple(ends), value)


def _with_plain_values(model: Model) -> Model:
    """Values that stand behind a DequantizeLinear, as quantizers write them, become constants."""
    graph, nodes, extra = model.graph, list[Node](), dict[str, Array]()
    makers, names = producers(graph), Names(graph)
    for node in graph.nodes:
        source = makers.get(node.input(2))
        if node.op_type == "Pad" and source is not None and source.op_type == "DequantizeLinear":
            inputs = {name: graph.initializers[name] for name in source.inputs if name in graph.initializers}
            if len(inputs) == len(list(filter(None, source.inputs))):
                value = names.new(f"{node.inputs[2]}.value")
                extra[value] = apply(source, model.opsets, inputs)
                node = replace(node, inputs=(*node.inputs[:2], value, *node.inputs[3:]))
        nodes.append(node)
    return with_graph(model, nodes, extra)


def _behind_quantizers(model: Model) -> Model:
    """Pad then QuantizeLinear, DequantizeLinear, Transpose or a function of elements becomes Pad behind it.

    It pads with what the node makes of the padding.  Every such reader of a Pad gets one of its own.  Between a layer
    and its quantizer functions are those of several tensors, too, if all of them are padded alike.
    """
    nodes, extra, names = list(model.graph.nodes), dict[str, Array](), Names(model.graph)
    quantized, done = any(node.op_type in QUANTIZERS for node in nodes), False
    while not done:
        graph = replace(model.graph, nodes=tuple(nodes), initializers={**model.graph.initializers, **extra})
        makers, done = producers(graph), True
        for k, node in enumerate(nodes):
            paddings = {name: _padding(makers.get(name), graph) for name in dynamic_inputs(node, graph)}
            sources = [padding.source for padding in paddings.values() if padding is not None]
            unfinished = quantized and not all(_is_dequantized(name, makers) for name in sources)
            functions = ELEMENTWISE if unfinished else UNARY
            moved = _moved(node, paddings, replace(model, graph=graph), functions, names, extra)
            if moved is not None:
                nodes[k : k + 1], done = moved, False
                break
        if not done:
            model = infer(with_graph(model, nodes, extra))
            nodes = list(model.graph.nodes)
    return model


def _is_dequantized(name: str, makers: Mapping[str, Node]) -> bool:
    """True for a tensor that a quantizer made, and that only moved since."""
    while name in makers and makers[name].op_type in LAYOUT | MOVES | MAX_POOLS:
        name = makers[name].inputs[0]
    return name in makers and makers[name].op_type == "DequantizeLinear"


def _moved(
    node: Node, paddings: Mapping[str, _Padding | None], model: Model, functions: frozenset[str], names: Names,
    extra: dict[str, Array],
) -> tuple[Node, Node] | None:  # fmt: skip
    """`node` on what `paddings`, those of its inputs, pad, and then the Pad; None where that changes values."""
    known = {name: padding for name, padding in paddings.items() if padding is not None}
    if not known or len(known) < len(paddings):
        return None
    padding, *others = known.values()
    if any(not padding.is_like(other, model.graph) for other in others):
        return None
    order = range(len(padding.begins))
    if node.op_type == "Transpose":
        order = as_ints(node.attributes.get("perm", tuple(reversed(order))))  # type: ignore[assignment]
        value = model.graph.initializers.get(padding.node.input(2), np.array(padding.value, np.float32))
    elif node.domain or node.op_type not in functions | QUANTIZERS:
        return None
    else:
        result = _behind(node, known, model)
        if result is None:
            return None
        value = result
    inside = tuple(known[name].source if name in known else name for name in node.inputs)
    first = replace(node, inputs=inside, outputs=(names.new(f"{node.outputs[0]}.inside"),))
    numbers = (*(padding.begins[k] for k in order), *(padding.ends[k] for k in order))
    if "pads" in padding.node.attributes:  # before operator set 11
        attributes = {**padding.node.attributes, "pads": numbers, "value": float(value)}
        return first, replace(padding.node, inputs=first.outputs, outputs=node.outputs, attributes=attributes)
    pads, fill = names.new(f"{node.outputs[0]}.pads"), names.new(f"{node.outputs[0]}.padding")
    extra[pads], extra[fill] = np.array(numbers, np.int64), value
    return first, replace(padding.node, inputs=(*first.outputs, pads, fill), outputs=node.outputs, attributes={})


def _behind(node: Node, paddings: Mapping[str, _Padding], model: Model) -> Array | None:
    """The padding behind `node`, a quantizer or a function of elements; None where that is not one value."""
    graph = model.graph
    parameters = {name: graph.initializers[name] for name in node.inputs if name in graph.initializers}
    padded = next(iter(paddings.values())).axes
    if not all(_is_even(value, node, padded) for value in parameters.values()):
        return None
    feeds = dict(parameters)
    for name, padding in paddings.items():
        kind, shape = graph.tensor_type(padding.source), shape_of(graph, padding.source)
        if kind is None or shape is None:
            return None
        sizes = [1 if pads else size for pads, size in zip(padded, shape, strict=True)]
        feeds[name] = np.full(sizes, padding.value, kind.dtype)
    with np.errstate(all="ignore"):
        result = apply(node, model.opsets, feeds)
    value = result.reshape(-1)[0]
    if not np.all(result == value):
        return None  # it differs from channel to channel
    if node.op_type == "DequantizeLinear" and value != 0:
        return None  # an integer says exactly what stands there
    return np.asarray(value) if np.isfinite(value) else None


def _is_even(value: Array, node: Node, padded: tuple[bool, ...]) -> bool:
    """True where a constant is the same along the axes that are `padded`."""
    if value.size == 1:
        return value.ndim <= len(padded)
    if node.op_type in QUANTIZERS:
        return False
    if node.op_type == "BatchNormalization":
        return not padded[1]
    if value.ndim > len(padded):
        return False
    there = padded[len(padded) - value.ndim :]
    return not any(pads and size > 1 for pads, size in zip(there, value.shape, strict=True))


def _folded(node: Node, padding: _Padding, graph: Graph) -> Node | None:
    """`node`, which reads the Pad, as one that reads what it pads; None where no window does the same."""
    if node.op_type not in ("Conv", "MaxPool", "AveragePool") or not padding.is_spatial or len(node.outputs) > 1:
        return None
    own = _own_pads(node, padding, graph)
    if own is None or attribute(node, "ceil_mode", 0):
        return None
    attributes = {key: value for key, value in node.attributes.items() if key != "auto_pad"}
    pads = tuple(a + b for a, b in zip(own, (*padding.begins[2:], *padding.ends[2:]), strict=True))
    if node.op_type != "Conv":
        kernel = as_ints(node.attributes["kernel_shape"])
        if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)):
            return None
    if node.op_type == "AveragePool":
        if any(own) and not attribute(node, "count_include_pad", 0):
            return None
        attributes["count_include_pad"] = 1
    fits = _is_lowest(padding, graph) if node.op_type == "MaxPool" else padding.value == 0
    if not fits:
        return None
    return replace(node, inputs=(padding.source, *node.inputs[1:]), attributes={**attributes, "pads": pads})


def _own_pads(node: Node, padding: _Padding, graph: Graph) -> tuple[int, ...] | None:
    """The pads of `node` itself, around what the Pad makes; None where its kernel is not known."""
    rank = len(padding.begins) - 2
    weights = graph.initializers.get(node.inputs[1]) if node.op_type == "Conv" else None
    stated = node.attributes.get("kernel_shape") or (weights is not None and weights.shape[2:])
    mode = attribute(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        return as_ints(node.attributes.get("pads", (0,) * (2 * rank)))
    if mode == "VALID":
        return (0,) * (2 * rank)
    shape = shape_of(graph, padding.node.outputs[0])
    if shape is None or not stated:
        return None
    strides, dilations = (as_ints(node.attributes.get(key, (1,) * rank)) for key in ("strides", "dilations"))
    begins, ends = zip(*(
        same_pads(size, extent_of(kernel, dilation), stride, mode)
        for size, kernel, stride, dilation in zip(shape[2:], as_ints(stated), strides, dilations, strict=True)
    ), strict=True)
    return (*begins, *ends)


def _is_lowest(padding: _Padding, graph: Graph) -> bool:
    """True where nothing is smaller than the padding."""
    kind = graph.tensor_type(padding.source)
    if kind is not None and kind.dtype.kind in "iu":
        return padding.value <= _least(kind.dtype)
    return padding.value <= _LOWEST or (padding.value <= 0 and _is_not_negative(padding.source, graph))


def _least(dtype: np.dtype[np.generic]) -> int:
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else 1  # type: ignore[type-var]


def _is_not_negative(name: str, graph: Graph) -> bool:
    """True where the nodes that make a tensor show it."""
    makers = producers(graph)
    while name in makers:
        node = makers[name]
        if node.op_type in _NOT_NEGATIVE:
            return True
        if node.op_type == "Clip":
            low = graph.initializers.get(node.input(1))
            least = attribute(node, "min", -1.0) if low is None else low.item()
            return bool(least >= 0) or _is_not_negative(node.inputs[0], graph)
        if node.op_type == "DequantizeLinear":
            zero = graph.initializers.get(node.input(2))
            if zero is not None and zero.size == 1 and zero.item() == _least(zero.dtype):
                return True
        elif node.op_type not in LAYOUT | MAX_POOLS | {"QuantizeLinear"}:  # each gives a value of its input
            return False
        name = node.inputs[0]
    return False
