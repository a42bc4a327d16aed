"""What the first layers behind an input want its frame to be: so that no layer has to put its elements in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from hwflow.layers.formats import Frame, IntArray
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import BEST, ELEMENTWISE, LAYOUT, MATRIX, MAX_POOLS, QUANTIZERS, SUMS
from hwflow.quantize.graphs import apply, consumers, dynamic_inputs, is_computed, shape_of
from hwflow.quantize.importer.geometry import frame_of
from hwflow.quantize.importer.states import image_index

#: They read an image whose channels are axis 1.
_OF_IMAGES = MAX_POOLS | {"AveragePool", "Conv", "GlobalAveragePool", "GlobalLpPool", "LpPool"}

#: A frame, and the place in it of each element of a tensor.
Layout: TypeAlias = tuple[Frame, IntArray]


def raster(shape: tuple[int, ...]) -> IntArray:
    """The numbers of the elements of a tensor in their order."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


def laid_out(node: Node, index: IntArray, graph: Graph, opsets: Mapping[str, int]) -> IntArray:
    """`index` behind a node that keeps all elements."""
    if node.op_type in ("Identity", "Dropout"):
        return index
    given = {name: graph.initializers[name] for name in node.inputs[1:] if name}
    return np.asarray(apply(node, opsets, {node.inputs[0]: index, **given}), np.int64)


class Ahead:
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
    found = np.empty(index.size, np.int64)
    found[index.ravel()] = places.ravel()
    return found.reshape(shape)
