"""The numbers of QuantizeLinear and DequantizeLinear nodes, and what else makes integers of reals."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from hwflow.layers.formats import BIPOLAR, IntFormat
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Graph, Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.importer.states import Parameters, Rounded, Unrounded, Unsupported

_INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16")


def parameters(node: Node, graph: Graph, constants: Mapping[str, Quantity]) -> Parameters:
    """The parameters of a QuantizeLinear or DequantizeLinear of an activation."""
    scale = constants[node.inputs[1]].real
    zero_name = node.inputs[2] if len(node.inputs) > 2 else ""
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
