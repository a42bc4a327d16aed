"""The QuantizeLinear and DequantizeLinear nodes that the rules put around standard operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.onnx.model import Attribute, Node
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.rewriting import PER_TENSOR, Refused, Rewriting


@dataclass(frozen=True)
class Scaled:
    """An integer tensor with its scale (float32) and zero point (of the tensor's type), both [] or [n] along an axis.

    `axis` is None where both are one number.
    """

    tensor: str
    scale: Arr
    zero: Arr
    axis: int | None = None


def given(node: Node, position: int) -> str:
    """The input at `position`, "" where it is left out."""
    return node.inputs[position] if position < len(node.inputs) else ""


def scaled(
    rewriting: Rewriting, node: Node, at: tuple[int, int, int], what: str, axis: int | None = None
) -> Scaled:
    """The operand whose tensor, scale and zero point are the inputs at these positions; the zero point may be left out.

    `axis` is where a scale per channel lies; None refuses one.  Refused: parameters of another shape, or computed.
    """
    tensor, scale_name, zero_name = (given(node, position) for position in at)
    dtype = rewriting.dtype(tensor)
    if axis is None:
        scale = rewriting.one_scale(scale_name, f"the scale of {what}")
    else:
        scale = rewriting.scale(scale_name, f"the scale of {what}")
    zero = np.zeros((), dtype)
    if zero_name:
        zero = rewriting.parameter(zero_name, f"the zero point of {what}")
    return _aligned(rewriting, Scaled(tensor, scale, zero, axis), zero_name or scale_name, what)


def _aligned(rewriting: Rewriting, operand: Scaled, name: str, what: str) -> Scaled:
    """Scale and zero point in one shape: [] or [n]."""
    scale, zero = (array.reshape(-1) for array in (operand.scale, operand.zero))
    count = max(scale.size, zero.size)
    if not scale.size or not zero.size:
        raise Refused(f"scale and zero point of {what} ('{name}') must have elements, not none")
    if count == 1:
        return Scaled(operand.tensor, scale.reshape(()), zero.reshape(()))
    if operand.axis is None:
        raise Refused(
            f"the zero point '{name}' of {what} must be one number, not {count}: an activation has none per channel",
            PER_TENSOR,
        )
    shape = rewriting.shape(operand.tensor)
    axis = operand.axis % max(1, len(shape))
    if axis >= len(shape) or {scale.size, zero.size} - {1, shape[axis]}:
        raise Refused(
            f"scale and zero point of {what} ('{name}') must be one number or one per channel of {list(shape)} "
            f"along axis {axis}, not {scale.size} and {zero.size}",
        )
    return Scaled(operand.tensor, np.broadcast_to(scale, (count,)), np.broadcast_to(zero, (count,)), axis)


def dequantize(rewriting: Rewriting, operand: Scaled, wish: str, output: str = "") -> str:
    """A DequantizeLinear of the operand; the name of the real tensor."""
    parts = (("scale", operand.scale), ("zero_point", operand.zero))
    names = (rewriting.constant(f"{wish}.{what}", value.copy()) for what, value in parts)
    along: dict[str, Attribute] = {} if operand.axis is None else {"axis": operand.axis}
    return rewriting.emit("DequantizeLinear", operand.tensor, *names, wish=wish, output=output, attributes=along)


def quantize(rewriting: Rewriting, real: str, scale: Arr, zero: Arr, wish: str, output: str = "") -> str:
    """A QuantizeLinear with one scale and zero point; the name of the integer tensor, of the zero point's type."""
    names = (rewriting.constant(f"{wish}.scale", scale), rewriting.constant(f"{wish}.zero_point", zero))
    return rewriting.emit("QuantizeLinear", real, *names, wish=wish, output=output)
