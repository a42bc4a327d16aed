"""Which elements of a tensor something computes with; the others are cut off, and their values do not matter.

A transposed convolution computes whole rows of pixels and then cuts off its pads.  What is cut off may be far larger
than what stays, and would make the steps of all integers coarser.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Model, Node
from hwflow.onnx.rewrite.renaming import reads
from hwflow.quantize.graphs import dynamic_inputs, moves, shape_of
from hwflow.quantize.importer.moving import moved
from hwflow.quantize.operators import ELEMENTWISE, LAYOUT

__all__ = ["used_elements"]

#: True for the elements of a tensor that are used, in its shape.
Mask: TypeAlias = npt.NDArray[np.bool_]


def used_elements(model: Model, tensors: Iterable[str]) -> dict[str, Mask]:
    """The used elements of those of `tensors` that have others, too."""
    graph, used = model.graph, dict[str, Mask]()
    for value in graph.outputs:
        _use(used, value.name, None, model)
    for node in reversed(graph.nodes):
        if not any(used[name].any() for name in node.outputs if name in used):
            continue
        for name in reads(node):
            if name in graph.initializers:
                continue
            if (name,) == node.inputs[:1] and _only_moves(node, model):
                _use(used, name, _moved_back(node, used, model), model)
            else:
                _use(used, name, _computed_back(node, name, used, model), model)
    found = {name: used[name] for name in tensors if name in used}
    return {name: mask for name, mask in found.items() if mask.any() and not mask.all()}


def _only_moves(node: Node, model: Model) -> bool:
    """True where constants say which element of the first input stands where."""
    layout = node.op_type in LAYOUT and not node.domain and len(node.outputs) == 1
    return moves(node, model.graph) or (layout and dynamic_inputs(node, model.graph) == node.inputs[:1])


def _use(used: dict[str, Mask], name: str, mask: Mask | None, model: Model) -> None:
    """Elements of a tensor are used, by one reader more; None: all of them."""
    shape = shape_of(model.graph, name)
    if shape is None:
        return
    before = used.get(name, np.zeros(shape, np.bool_))
    used[name] = np.ones(shape, np.bool_) if mask is None else before | mask


def _moved_back(node: Node, used: dict[str, Mask], model: Model) -> Mask | None:
    """The elements that stand in used places of the results of `node`."""
    shape = shape_of(model.graph, node.inputs[0])
    if shape is None:
        return None
    index = np.arange(int(np.prod(shape)), dtype=np.int64)
    mask = np.zeros(len(index), np.bool_)
    for name, places in moved(node, index.reshape(shape), model.graph, model.opsets).items():
        if name in used:
            read = places[used[name]]
            mask[read[read >= 0]] = True
    return mask.reshape(shape)


def _computed_back(node: Node, name: str, used: dict[str, Mask], model: Model) -> Mask | None:
    """The elements of `name` that used results are made of."""
    made = used.get(node.outputs[0])
    alike = made is not None and made.shape == shape_of(model.graph, name)
    return made if node.op_type in ELEMENTWISE and not node.domain and alike else None
