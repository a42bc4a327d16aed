"""The inputs of the layer graph: integer tensors that the host makes, and the frames that hardware reads of them.

`FirstReaders` knows what the first layers behind an input want its frame to be: so that no layer has to put its
elements in place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hwflow.layers import Tensor
from hwflow.layers.formats import BIPOLAR, Frame, IntArray, IntFormat
from hwflow.onnx import operators
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import BEST, ELEMENTWISE, LAYOUT, MATRIX, QUANTIZERS, SAME, SUMS, named
from hwflow.onnx.traits import Trait
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import apply, consumers, dynamic_inputs, is_computed, producers, shape_of
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.element_places import frame_of
from hwflow.quantize.importer.states import Entry, Held, Parameters, Rounded, Unrounded, Unsupported, image_index
from hwflow.quantize.problems import Cause

_INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16")


def parameters(node: Node, graph: Graph, constants: Mapping[str, Quantity]) -> Parameters:
    """The parameters of a QuantizeLinear or DequantizeLinear of an activation."""
    scale = constants[node.inputs[1]].real
    zero_name = node.input(2)
    if scale.size != 1:
        raise Unsupported(
            "activations must have one scale per tensor, not one per channel",
            "quantize the model with per-tensor activations",
        )
    zero = graph.initializers.get(zero_name)
    dtype = zero.dtype if zero is not None else _integer_dtype(node, graph)
    if dtype.name not in _INTEGERS:
        raise Unsupported(f"activations must be {', '.join(_INTEGERS)}, not {dtype.name}", "quantize to int8")
    format = _format(dtype)
    point = int(zero.astype(np.int64).reshape(())) if zero is not None else 0
    return Parameters(float(scale.reshape(())), point, format, format.low, format.high)


def _format(dtype: np.dtype[np.generic]) -> IntFormat:
    return IntFormat(element_type_of(dtype, "an activation").bits, not dtype.name.startswith("u"))


def _integer_dtype(node: Node, graph: Graph) -> np.dtype[np.generic]:
    name = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
    known = graph.tensor_type(name)
    return known.dtype if known is not None else np.dtype(np.uint8)


def integer_limits(node: Node, constants: Mapping[str, Quantity], p: Parameters) -> tuple[int, int]:
    """The limits of integers after a Relu or Clip on integers, inside the limits of `p`."""
    if node.op_type == "Relu":
        low, high = 0.0, math.inf
    else:
        names = (*node.inputs[1:], "", "")[:2]
        low, high = (
            float(constants[name].real.reshape(())) if name else default
            for name, default in zip(names, (-math.inf, math.inf), strict=True)
        )
    ends = [int(min(max(min(max(end, low), high), p.low), p.high)) for end in (p.low, p.high)]
    return ends[0], ends[1]


def selection(node: Node, unrounded: Unrounded, constants: Mapping[str, Quantity]) -> Rounded | None:
    """Where(x >= 0, 1, -1) of integer constants is integer without a QuantizeLinear; None for any other node."""
    values = [constants[name] for name in node.inputs[1:] if name in constants]
    if node.op_type != "Where" or not values or any(value.dtype.kind == "f" or value.is_quantized for value in values):
        return None
    integers = np.concatenate([value.real.ravel() for value in values]).astype(np.int64)
    if values[0].dtype.name not in _INTEGERS or not len(integers):
        raise Unsupported(f"must select 8-bit integers, not {values[0].dtype.name}", "make its constants int8")
    low, high = int(integers.min()), int(integers.max())
    stated = _format(values[0].dtype)
    bipolar = len(values) == 2 and sorted(set(integers.tolist())) == [-1, 1]
    p = Parameters(1.0, 0, BIPOLAR if bipolar else stated, low, high)
    return Rounded(unrounded, node, node.outputs[0], p, unrounded.index)


_OF_IMAGES = named(Trait.IMAGE)

#: A frame, and the place in it of each element of a tensor.
Layout: TypeAlias = tuple[Frame, IntArray]


def raster(shape: tuple[int, ...]) -> IntArray:
    """The numbers of the elements of a tensor in their order."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


def laid_out(node: Node, index: IntArray, graph: Graph, opsets: Mapping[str, int]) -> IntArray:
    """`index` behind a node that keeps all elements."""
    if node.op_type in SAME:
        return index
    parameters = {name: graph.initializers[name] for name in node.inputs[1:] if name}
    return np.asarray(apply(node, opsets, {node.inputs[0]: index, **parameters}), np.int64)


class FirstReaders:
    """Looks from tensors that the host makes to the first layers that read them."""

    def __init__(self, model: Model) -> None:
        self.graph, self._opsets, self._read = model.graph, model.opsets, consumers(model.graph)
        self._known: dict[str, Layout | None] = {}

    def of(self, name: str) -> Layout | None:
        """The frame that the tensor `name` should have, and the places in it of its elements; None where all do.

        That of the first convolution or pool that reads it, through changes of layout and functions of elements; where
        there is none, rows along the last axis for the first layer that computes with rows.
        """
        if name not in self._known:
            self._known[name] = self._found(name)
        return self._known[name]

    def _found(self, name: str) -> Layout | None:
        shape = shape_of(self.graph, name)
        if shape is None:
            return None
        todo, seen, rows = [(name, raster(shape))], {name}, None
        for source, index in todo:  # which grows
            for node in self._read.get(source, []):
                if source != node.inputs[0] and node.op_type not in ELEMENTWISE:
                    continue
                if node.op_type in _OF_IMAGES and not node.domain:
                    frame = frame_of(index.shape) if index.ndim > 2 else None
                    if frame is not None:
                        return frame, _placed(index, image_index(frame, index.ndim), shape)
                elif rows is None and self._reads_rows(node) and index.ndim > 1:
                    frame = Frame(1, index.size // index.shape[-1], index.shape[-1])
                    rows = frame, _placed(index, raster(index.shape), shape)
                elif node.outputs[0] not in seen and self._passes(node, index):
                    seen.add(node.outputs[0])
                    laid = laid_out(node, index, self.graph, self._opsets) if node.op_type in LAYOUT else index
                    todo.append((node.outputs[0], laid))
        return rows

    def _reads_rows(self, node: Node) -> bool:
        """True for an operator with vectors along its last axis."""
        products = node.op_type in MATRIX and len(dynamic_inputs(node, self.graph)) > 1
        if node.op_type in BEST | SUMS and not node.domain:
            return False  # they find their axes in any frame
        return is_computed(node) or (products and not node.domain)

    def _passes(self, node: Node, index: IntArray) -> bool:
        """True where the elements behind `node` stand where those in front of it do, or in another layout."""
        if node.domain or len(list(filter(None, node.outputs))) != 1:
            return False
        if node.op_type in LAYOUT:
            return all(name in self.graph.initializers for name in node.inputs[1:] if name)
        same = shape_of(self.graph, node.outputs[0]) == index.shape
        return same and node.op_type in ELEMENTWISE | QUANTIZERS


def _placed(index: IntArray, places: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Where the elements of a tensor of `shape` are, of whose view `index` these are the places."""
    positions = np.empty(index.size, np.int64)
    positions[index.ravel()] = places.ravel()
    return positions.reshape(shape)


class Inputs:
    """`entries` has, by the name of each input of the layer graph, the ONNX tensor of integers that feeds it."""

    def __init__(self, model: Model, constants: Mapping[str, Quantity], building: Building) -> None:
        self.graph, self.constants, self.building = model.graph, constants, building
        self.entries: dict[str, Entry] = {}
        self._opsets, self._made = model.opsets, producers(model.graph)
        self._first_readers = FirstReaders(model)
        #: Integers of the host to how often they are dequantized in another layout.
        self._views = Counter(self._root(name) for name in dict.fromkeys(
            node.inputs[0] for node in model.graph.nodes if node.op_type == "DequantizeLinear"))  # fmt: skip
        #: Name of an input of the layer graph to the places in its frame that the elements of its integers have.
        self.placed: dict[str, IntArray] = {}

    @property
    def of_states(self) -> dict[str, str]:
        """The entries that are states of the graph, by name, each with the input of the model that it is."""
        made_of = {name: self._origin(entry.integers) for name, entry in self.entries.items()}
        return {name: origin for name, origin in made_of.items() if origin in self.graph.kept}

    @property
    def of_the_host(self) -> tuple[str, ...]:
        """The names of the other entries."""
        states = self.of_states
        return tuple(name for name in self.entries if name not in states)

    def _origin(self, name: str) -> str:
        """The tensor that `name` is another layout or the integers of."""
        while name in self._made and self._made[name].op_type in operators.LAYOUT | {"Clip", "QuantizeLinear"}:
            name = self._made[name].inputs[0]
        return name

    def read_by(self, node: Node) -> Entry:
        """The integers that `node`, a DequantizeLinear, reads from the host, with the limits of Clips before it.

        Where others read the same integers in another layout, those in front of both layouts.
        """
        shape = shape_of(self.graph, node.inputs[0])
        if shape is None:
            raise Unsupported("the shape of its input must be known", "fix the model's input shape with --input-shape")
        p, name = parameters(node, self.graph, self.constants), node.inputs[0]
        while name in self._made and self._made[name].op_type in operators.LAYOUT | {"Clip"}:
            before = self._made[name]
            if before.op_type == "Clip":
                low, high = integer_limits(before, self.constants, p)
                p = replace(p, low=low, high=high)
            name = before.inputs[0]
        root = self._root(node.inputs[0])
        own = shape_of(self.graph, root) if self._views[root] > 1 else None
        if own is None:
            return Entry(node.inputs[0], raster(shape), p)
        return Entry(root, self._index_of(node.inputs[0], raster(own)), p)

    def _index_of(self, name: str, index: IntArray) -> IntArray:
        """The index of a layout of integers whose own index is `index`."""
        steps = []
        while name in self._made and self._made[name].op_type in operators.LAYOUT:
            steps.append(self._made[name])
            name = steps[-1].inputs[0]
        for step in reversed(steps):
            index = laid_out(step, index, self.graph, self._opsets)
        return index

    def _root(self, name: str) -> str:
        """The tensor that `name` is another layout of."""
        while name in self._made and self._made[name].op_type in operators.LAYOUT:
            name = self._made[name].inputs[0]
        return name

    def enter(self, entry: Entry, frame: Frame | None) -> Held:
        """The entry as an input of the layer graph.

        Its frame is the one that its first layers want (`FirstReaders`); else it is an image, or `frame` in the order
        of its elements.  Where another layer has entered it already, its frame is taken as it is.
        """
        name, tensors = f"{entry.integers}.frame", self.building.tensors
        layout = self._first_readers.of(entry.integers)
        if name in self.entries and (frame is not None or layout is not None):
            return self._held(name, entry)
        placed: IntArray
        if layout is not None:
            frame, placed = layout
        elif frame is None:
            frame = _image(entry)
            placed = self._placed_as(entry, image_index(frame, len(entry.shape)))
        else:
            placed = self._placed_as(entry, raster(entry.shape))
        if name in self.entries and tensors[name].frame != frame:
            name = f"{entry.integers}.image"
        p = entry.parameters
        if name not in self.entries:
            self.entries[name], self.placed[name] = entry, placed
            tensors[name] = Tensor(name, frame, p.narrow, p.scale, p.zero_point)
            self.building.sources[name] = (entry.integers, placed)
        return self._held(name, entry)

    def _placed_as(self, entry: Entry, index: IntArray) -> IntArray:
        """The places of the elements of the integers, of those of the view."""
        places = np.empty(index.size, np.int64)
        places[entry.index.ravel()] = index.ravel()
        return places.reshape(shape_of(self.graph, entry.integers) or ())

    def _held(self, name: str, entry: Entry) -> Held:
        x, p = self.building.tensors[name], entry.parameters
        if (x.scale, x.zero_point) != (p.scale, p.zero_point):
            raise Unsupported("dequantizes an input with another scale than its first reader", "use one scale")
        return Held(name, self.placed[name].ravel()[entry.index], real=True)


def _image(entry: Entry) -> Frame:
    """The frame of an entry that is an image or a signal."""
    frame = frame_of(entry.shape)
    if frame is None:
        raise Unsupported(
            f"the first layer must read [1, C], [1, C, W] or [1, C, H, W], not {list(entry.shape)}",
            "fix the batch to 1, or reshape the input on the host",
            Cause.NEIGHBOUR,
        )
    return frame
