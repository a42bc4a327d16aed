"""Constants of a QDQ graph: plain ones, and integers with a scale behind a DequantizeLinear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array, Graph, Node
from hwflow.onnx.operators import LAYOUT
from hwflow.quantize.graphs import apply, attribute


@dataclass(frozen=True)
class Quantity:
    """A constant: real value = scale * integers, all three of the tensor's shape.

    `integers` has the zero point subtracted already.  `is_quantized` is False for a constant that stands in the file
    without a scale (then `integers` and `scale` are empty and only `real` means anything).  `dtype` is what ONNX sees.
    """

    real: npt.NDArray[np.float64]
    integers: IntArray
    scale: npt.NDArray[np.float64]
    is_quantized: bool
    dtype: np.dtype[np.generic]

    @staticmethod
    def plain(value: Array) -> Quantity:
        """A constant without a scale; NaN where it is no number."""
        real = np.asarray(value, np.float64) if value.dtype.kind in "fiub" else np.full(value.shape, np.nan)
        return Quantity(real, np.zeros(0, np.int64), np.zeros(0), False, value.dtype)

    def moved(self, move: Callable[[Array], Array]) -> Quantity:
        """The elements in another order or shape."""
        real = np.asarray(move(self.real), np.float64)
        if not self.is_quantized:
            return replace(self, real=real)
        integers, scale = np.asarray(move(self.integers), np.int64), np.asarray(move(self.scale), np.float64)
        return replace(self, real=real, integers=integers, scale=scale)


def _dequantized(node: Node, initializers: Mapping[str, Array]) -> Quantity:
    q, scale = (initializers[name] for name in node.inputs[:2])
    zero = initializers[node.inputs[2]] if node.input(2) else np.zeros((), q.dtype)

    def full(parameter: Array) -> Array:
        """Per tensor or per axis, spread over the whole shape."""
        if parameter.size == 1:
            return np.broadcast_to(parameter.reshape(()), q.shape)
        axis = attribute(node, "axis", 1) % q.ndim
        return np.broadcast_to(parameter.reshape([-1 if k == axis else 1 for k in range(q.ndim)]), q.shape)

    integers = q.astype(np.int64) - full(zero).astype(np.int64)
    scales = full(scale).astype(np.float64)
    return Quantity(scales * integers, integers, scales, True, scale.dtype)


def quantities(graph: Graph, opsets: Mapping[str, int]) -> dict[str, Quantity]:
    """Every constant of the graph by name: initializers, dequantized ones, and those behind a change of layout."""
    constants = {name: Quantity.plain(value) for name, value in graph.initializers.items()}
    for node in graph.nodes:
        if node.op_type == "DequantizeLinear" and all(name in graph.initializers for name in node.inputs if name):
            constants[node.outputs[0]] = _dequantized(node, graph.initializers)
        elif node.op_type in LAYOUT and all(name in constants for name in node.inputs if name):
            parameters = {name: graph.initializers[name] for name in node.inputs[1:] if name in graph.initializers}

            def move(array: Array, node: Node = node, parameters: dict[str, Array] = parameters) -> Array:
                return apply(node, opsets, {node.inputs[0]: array, **parameters})

            constants[node.outputs[0]] = constants[node.inputs[0]].moved(move)
    return constants
