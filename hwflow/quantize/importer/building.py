"""The layer graph while it grows: names, tensors, and the layers that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hwflow_base.errors import reason_of

from hwflow.layers import Frame, IntFormat, Layer, LayerGraph, Lookup, Tensor
from hwflow.layers.concat import Concat
from hwflow.layers.formats import IntArray
from hwflow.layers.rearrange import Offsets, Rearrange, picked
from hwflow.onnx.model import Model, Node
from hwflow.quantize.graphs import Names, label_of, read_by_host
from hwflow.quantize.importer.element_places import is_whole, offsets, places
from hwflow.quantize.importer.layer_anchors import TABLE_BITS, TensorAnchor, behind_sums
from hwflow.quantize.importer.per_element import PerElement, first_per_element, has_constants_per_element
from hwflow.quantize.importer.states import (
    Held,
    Joined,
    Lacking,
    LayerAnchor,
    LayerTask,
    Moved,
    Parameters,
    Rounded,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.importer.steps import of_part
from hwflow.quantize.importer.threshold_search import Levels, Turns
from hwflow.quantize.settings import LayerSettings

_BEHIND = "put a QuantizeLinear and DequantizeLinear after it"

#: A format of at most so many bits takes the place of one that does not have the integer that pads.
_WIDENED_BITS = 16


class Building:
    """`tensors` and `layers` of the graph; `sources` gives the ONNX tensor of each and its index (as in `Held`)."""

    def __init__(self, model: Model, suffix: set[str], chosen: Callable[[Node], LayerSettings]) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.layers: list[Layer] = []
        self.sources: dict[str, tuple[str, IntArray]] = {}
        #: What each layer stands for, by its name, that one operator is.
        self.anchors: dict[str, LayerAnchor] = {}
        self._opsets, self._chosen = model.opsets, chosen
        self._taken: set[str] = set()
        self.names = Names(model.graph)
        self._made: dict[str, str] = {}
        self._read_as_real: set[str] = set()
        #: Result of a Concat or Rearrange to the tensors that it puts elsewhere, which mean what it means.
        self._parts: dict[str, tuple[str, ...]] = {}
        #: What a Rearrange does to which tensor, or the integer that a wider format has, to the result.
        self._arranged: dict[object, str] = {}
        self._host_reads = read_by_host(model.graph, suffix)

    def add(self, layer: Layer, tensor: Tensor) -> None:
        self.layers.append(layer)
        self.tensors[tensor.name] = tensor

    def add_checked(self, layer: Layer, tensor: Tensor) -> None:
        """The same.  ValueError where the layer does not fit its tensors."""
        layer.check(LayerGraph("", {**self.tensors, tensor.name: tensor}, (), (), ()))
        self.add(layer, tensor)

    def made(self, layer: Layer, tensor: Tensor, output: str, index: IntArray, real: bool = True) -> Held:
        """The ONNX tensor `output`, which a new layer makes as `tensor`."""
        self.add(layer, tensor)
        self.sources[tensor.name] = (output, index)
        return Held(tensor.name, index, real)

    def tensor_name(self, output: str) -> str:
        """The layer graph's name of an ONNX tensor: the same, except where the host may read that very tensor.

        Frames and the ONNX tensor that the host makes of them differ in layout, so they must differ in name.
        """
        return f"{output}.frame" if output in self._host_reads else output

    def name_of(self, node: Node) -> str:
        """A layer's name: the node's, made unique."""
        return self.unique(label_of(node))

    def unique(self, wish: str) -> str:
        """A name for a layer, or a tensor that ONNX does not have, that no other layer has."""
        name, count = wish, 1
        while name in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._taken.add(name)
        return name

    def dequantize(self, tensor: str, p: Parameters) -> None:
        """Give the integers of `tensor` the meaning that their first DequantizeLinear states.  Unsupported: another."""
        x = self.tensors[tensor]
        same = (x.scale, x.zero_point) == (p.scale, p.zero_point)
        if not same and (tensor in self._read_as_real or not x.format.low <= p.zero_point <= x.format.high):
            raise Unsupported(
                f"scale and zero point must be those of the QuantizeLinear before it ({x.scale}, {x.zero_point}), "
                f"not {p.scale}, {p.zero_point}",
                "quantize the model again",
            )
        self._read_as_real.add(tensor)
        self._give_meaning(tensor, p)

    def _give_meaning(self, tensor: str, p: Parameters) -> None:
        """A Concat's parts mean what the whole means."""
        todo = [tensor]
        while todo:
            name = todo.pop()
            self.tensors[name] = replace(self.tensors[name], scale=p.scale, zero_point=p.zero_point)
            todo += self._parts.get(name, ())

    def held(self, rounded: Rounded) -> Held:
        """The tensor that `rounded` is, with its layer made at the first call."""
        if rounded.output not in self._made:
            try:
                self._made[rounded.output] = self._make(rounded)
            except (ValueError, OverflowError) as error:
                why, remedy = reason_of(error)
                if isinstance(error, Turns) and not isinstance(rounded.unrounded.anchor, TensorAnchor):
                    raise Lacking(why, (rounded.unrounded.anchor.key,), remedy=remedy) from None
                raise Unsupported(why, remedy or "quantize the model again; a scale is out of proportion") from None
        return Held(self._made[rounded.output], rounded.index, False, rounded.moved)

    def _make(self, rounded: Rounded) -> str:
        unrounded, p = rounded.unrounded, rounded.parameters
        anchor = unrounded.anchor
        own = is_whole(unrounded.index, anchor.frame)  # else ONNX sees its elements only after the nodes that move them
        name = self.tensor_name(rounded.output) if own else self.names.new(f"{rounded.output}.before")
        y = Tensor(name, anchor.frame, p.narrow, p.scale, p.zero_point)
        if isinstance(anchor, Joined):
            layer: Layer = self._concat(rounded, anchor, name)
        else:
            layer = self._layer(rounded, y)
        self.add_checked(layer, y)
        if own:
            self.sources[name] = (rounded.output, unrounded.index)
        return name

    def _layer(self, rounded: Rounded, y: Tensor) -> Layer:
        """The last layer of those that make `y`; others in front of it are added."""
        unrounded, anchor = rounded.unrounded, rounded.unrounded.anchor
        assert isinstance(anchor, LayerAnchor)
        differs = has_constants_per_element(unrounded)
        node = anchor.node if differs else anchor.node_of(rounded)
        chosen = self._chosen(node)
        task = LayerTask(
            unrounded, tuple(self.tensors[held.tensor] for held in anchor.sources), y,
            self.name_of(first_per_element(unrounded) if differs else node),
            replace(rounded.parameters, rescale_bits=chosen.rescale_bits), chosen.output_stage, self._opsets)
        if not differs:
            self.anchors[task.name] = anchor
            try:
                return anchor.layer(task)
            except (Levels, Turns):
                parts = behind_sums(task, self.unique, self.names.new)
                if parts is None:
                    raise
            *before, (last, _) = parts
            self._add_all(before)
            return last
        *before, (last, _) = PerElement(task, self.unique, self.names.new).layers()
        self._add_all(before)
        return last

    def _add_all(self, layers: list[tuple[Layer, Tensor]]) -> None:
        for layer, tensor in layers:
            self.add_checked(layer, tensor)

    def _concat(self, rounded: Rounded, anchor: Joined, name: str) -> Concat:
        """A Concat that makes `name`.  Where a part is a tensor of its own, the meaning of all is fixed."""
        before = {*self.tensors}
        parts = tuple(self._part(rounded, anchor, k) for k in range(len(anchor.parts)))
        self._parts[name] = parts
        if (before | self._read_as_real).intersection(parts):
            self._read_as_real.add(name)
        return Concat(self.name_of(anchor.node), parts, name)

    def _part(self, rounded: Rounded, anchor: Joined, number: int) -> str:
        """The tensor of one part of a Concat, with the functions after the Concat applied, quantized like the whole."""
        part, p = anchor.parts[number], rounded.parameters
        start = sum(other.anchor.frame.channels for other in anchor.parts[:number])
        unrounded = part
        for step in rounded.unrounded.steps:
            unrounded = unrounded.then(of_part(step, anchor, part, start))
        if isinstance(part.anchor, TensorAnchor) and not unrounded.steps:
            x = self.tensors[part.anchor.source.tensor]
            inside = p.low <= x.format.low and x.format.high <= p.high
            if inside and (x.format, x.scale, x.zero_point) == (p.narrow, p.scale, p.zero_point):
                return x.name
        output = f"{rounded.output}.part{number}"
        quantized = Rounded(unrounded, rounded.node, output, p, unrounded.index)
        name = self.held(quantized).tensor
        plain = isinstance(part.anchor, TensorAnchor) and not part.steps
        source = self.sources.get(part.anchor.key) if plain else (part.result, part.index)
        if source is not None and not rounded.unrounded.steps:
            self.sources[name] = source
        else:  # a row of elements in place is no tensor of ONNX's; or a second attempt, after one of another reader
            self.sources.pop(name, None)
        return name

    def joined(self, unrounded: Unrounded) -> Held:
        """A Concat of tensors of one scale, as reals.  Unsupported where they differ."""
        anchor = unrounded.anchor
        assert isinstance(anchor, Joined)
        if anchor.key not in self._made:
            tensors = [self._plain(part, anchor.key) for part in anchor.parts]
            kinds = {(x.format, x.scale, x.zero_point) for x in tensors}
            if len(kinds) > 1:
                raise Lacking(
                    f"joins tensors of different scales ({', '.join(f'{x.name!r}: {x.scale}' for x in tensors)})",
                    (anchor.key,), remedy=_BEHIND
                )
            name = self.tensor_name(anchor.key)
            layer = Concat(self.name_of(anchor.node), tuple(x.name for x in tensors), name)
            self.add(layer, replace(tensors[0], name=name, frame=anchor.frame))
            self.sources[name] = (anchor.key, anchor.index)
            self._read_as_real.add(name)
            self._made[anchor.key] = name
        return Held(self._made[anchor.key], unrounded.index, True, unrounded.moved)

    def arranged(self, held: Held, by: Moved, flat: bool = False, pixels: tuple[int, ...] | None = None) -> Held:
        """The elements of `held` as a frame of their own, in the order of the image that ONNX sees; `flat`: as one row;
        `pixels`: as a row of pixels, which are the elements along these axes.

        One Rearrange layer, or two where rows, columns and channels do not move on their own: over one row.  It is
        named like `by` where nothing has moved elements before.
        """
        _, order, own = places(held.index, flat, pixels)
        return self.ordered(held, order, own, by, ".row" if flat else "")

    def ordered(self, held: Held, order: IntArray, own: IntArray, by: Moved, called: str = "") -> Held:
        """A frame with the elements of `held` at the places `order` [h, w, c], of which -1 is padding and some may come
        again; `own` is the index that the tensor then has.

        `called` ends the name of a frame that is no tensor of ONNX's.
        """
        frame, x = Frame(*order.shape), self.tensors[held.tensor]
        padding = None
        if (order < 0).any():
            padding = self._padding(held, x)
            x = self._holding(x, padding, (held.moved or by).node)
        if frame == x.frame and np.array_equal(order.ravel(), np.arange(frame.elements)):
            return replace(held, index=own, moved=None)
        by = held.moved or by
        tables = offsets(order)
        if tables is None:
            row = Offsets(np.zeros(1, np.int64), np.zeros(1, np.int64), order.ravel())
            x = self._rearrange(x, row, padding, by, f"{by.output}.row")
            tables, padding = picked(frame), None
        suffix = called or ".before" * by.computed
        y = self._rearrange(x, tables, padding, by, f"{by.output}{suffix}")
        if not suffix:
            self.sources.setdefault(y.name, (by.output, own))
        return Held(y.name, own, held.real)

    def _rearrange(self, x: Tensor, to: Offsets, padding: int | None, by: Moved, wish: str) -> Tensor:
        """A Rearrange of `x`, or the same one again; `wish` is the name of its result."""
        key = (x.name, padding, by.output, *(table.tobytes() for table in to))
        if key in self._arranged:
            return self.tensors[self._arranged[key]]
        if padding is None:
            padding = x.zero_point if x.format.contains(np.array([x.zero_point])) else x.format.low
        own = self.tensor_name(wish)
        name = own if wish == by.output and own not in self.tensors else self.names.new(wish)
        layer = Rearrange(self.name_of(by.node), (x.name,), name, x.format, *to, padding)
        y = replace(x, name=name, frame=to.frame)
        self.add_checked(layer, y)
        self._arranged[key], self._parts[name] = name, (x.name,)
        if x.name in self._read_as_real:
            self._read_as_real.add(name)
        return y

    def _padding(self, held: Held, x: Tensor) -> int:
        """The integer that pads.  Unsupported where none means the value."""
        assert held.moved is not None
        value = held.moved.padding
        steps = np.rint(np.float64(value) / x.scale) + x.zero_point if held.real else np.float64(value)
        exact = not held.real or np.float32((steps - x.zero_point) * x.scale) == np.float32(value)
        if not exact or not (x.format.contains(np.array([steps])) or _can_hold(x.format, int(steps))):
            raise Unsupported(
                f"pads '{x.name}' ({x.format}, scale {x.scale}, zero point {x.zero_point}) with "
                f"{value}, which none of its integers means",
                "put a QuantizeLinear and DequantizeLinear after it whose range holds the value"
            )
        return int(steps)

    def holding_zero(self, held: Held, node: Node) -> Held:
        """`held`, which `node` pads with zeros, in a format that has one."""
        x = self.tensors[held.tensor]
        return replace(held, tensor=self._holding(x, x.zero_point, node).name)

    def _holding(self, x: Tensor, integer: int, node: Node) -> Tensor:
        """`x` as it is, or where its format does not have `integer` the same integers in one that has."""
        if x.format.contains(np.array([integer])):
            return x
        key = (x.name, integer)
        if key not in self._arranged:
            codes = np.arange(x.format.low, x.format.high + 1, x.format.step)
            y = replace(x, name=self.names.new(f"{x.name}.wide"), format=_with(x.format, integer))
            layer = Lookup(self.name_of(node), (x.name,), y.name, x.format, codes)
            self.add_checked(layer, y)
            self._arranged[key], self._parts[y.name] = y.name, (x.name,)
            if x.name in self._read_as_real:
                self._read_as_real.add(y.name)
            if x.name in self.sources:
                self.sources[y.name] = self.sources[x.name]
        return self.tensors[self._arranged[key]]

    def _plain(self, part: Unrounded, whole: str) -> Tensor:
        if not isinstance(part.anchor, TensorAnchor) or part.steps:
            why = f"joins the result of {part.anchor.node.label}, which no QuantizeLinear made integer"
            raise Lacking(why, (whole,), remedy=_BEHIND)
        return self.tensors[part.anchor.source.tensor]


def _with(format: IntFormat, integer: int) -> IntFormat:
    """The narrowest format that has the integers of `format` and this one."""
    return IntFormat.covering(min(format.low, integer), max(format.high, integer))


def _can_hold(format: IntFormat, integer: int) -> bool:
    """Whether a table can give integers of `format` a format that has `integer`, too."""
    return format.bits <= TABLE_BITS and _with(format, integer).bits <= _WIDENED_BITS
