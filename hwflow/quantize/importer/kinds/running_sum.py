"""Sums of the elements so far along an axis."""

from __future__ import annotations

import numpy as np

from hwflow.layers import RunningSum, Tensor
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import Held, State, Unsupported


def running_sum(site: Site, node: Node, dynamic: list[str]) -> State:
    """A CumSum: the elements along its axis become the channels of pixels, in the order in which they are summed."""
    if node.inputs[1] not in site.constants:
        raise Unsupported(f"its axis '{node.inputs[1]}' must be constant", "export the model with a constant axis")
    axis = int(site.constants[node.inputs[1]].real.item())
    if attribute(node, "reverse", 0):
        held, index = from_the_end(site, node.inputs[0], axis)
    else:
        held = site.rows(node.inputs[0], axis)
        index = held.index
    if index.shape[axis] == 1:
        raise Unsupported("it sums over an axis of one element, as the batch is", "sum along another axis")
    x = site.tensors[held.tensor]
    y = Tensor(site.building.tensor_name(node.outputs[0]), x.frame, RunningSum.sums_of(x), x.scale, 0)
    layer = RunningSum(site.building.name_of(node), (x.name,), y.name, x.format, bool(attribute(node, "exclusive", 0)))
    site.building.add(layer, y)
    site.building.sources[y.name] = (node.outputs[0], index)
    return Held(y.name, index, True)


def from_the_end(site: Site, name: str, axis: int) -> tuple[Held, IntArray]:
    """The tensor `name` as pixels whose channels are its elements along `axis`, the last one first, and its index."""
    held = site.held(name)
    rows = np.moveaxis(held.index, axis, -1)
    turned = site.movement.chosen(held, name, rows.reshape(-1, rows.shape[-1])[:, ::-1])
    return turned, np.moveaxis(turned.index.reshape(rows.shape)[..., ::-1], -1, axis)
