"""The inputs of the layer graph: integer tensors that the host makes, and the frames that hardware reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hwflow.layers import Frame, Tensor
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Graph, Node
from hwflow.quantize import operators
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import producers, shape_of
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.geometry import frame_of
from hwflow.quantize.importer.quantizers import integer_limits, parameters
from hwflow.quantize.importer.states import Entry, Held, Unsupported, image_index
from hwflow.quantize.problems import Cause

__all__ = ["Inputs"]


class Inputs:
    """`entries` has, by the name of each input of the layer graph, the ONNX tensor of integers that feeds it."""

    def __init__(self, graph: Graph, constants: Mapping[str, Quantity], building: Building) -> None:
        self.graph, self.constants, self.building = graph, constants, building
        self.entries: dict[str, Entry] = {}
        self._made = producers(graph)

    def read_by(self, node: Node) -> Entry:
        """The integers that `node`, a DequantizeLinear, reads from the host, with the limits of Clips before it."""
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
        return Entry(node.inputs[0], shape, p)

    def enter(self, entry: Entry, frame: Frame | None) -> Held:
        """The entry as an input of the layer graph: as an image, or as `frame` in the order of its elements.

        Where another layer has entered it already, its frame is taken as it is.
        """
        name, tensors = f"{entry.integers}.frame", self.building.tensors
        if name in self.entries and frame is not None:
            return Held(name, self.building.sources[name][1], real=True)
        index: IntArray
        if frame is None:
            frame = _image(entry)
            index = image_index(frame, len(entry.shape))
        else:
            index = np.arange(frame.elements, dtype=np.int64).reshape(entry.shape)
        if name in self.entries and tensors[name].frame != frame:
            name = f"{entry.integers}.image"
        p = entry.parameters
        if name not in self.entries:
            self.entries[name] = entry
            tensors[name] = Tensor(name, frame, p.narrow, p.scale, p.zero_point)
            self.building.sources[name] = (entry.integers, index)
        elif (tensors[name].scale, tensors[name].zero_point) != (p.scale, p.zero_point):
            raise Unsupported("dequantizes an input with another scale than its first reader", "use one scale")
        return Held(name, index, real=True)


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
