"""QONNX quantizers of constants: weights and biases become integer initializers behind a DequantizeLinear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.operators import LAYOUT, MATRIX
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.quantizers import Scaled, dequantize
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.dialects.widths import Width, whole, width_of
from hwflow.quantize.graphs import apply, label_of

#: Bits of a constant: biases have the type int32.
_WIDTHS = range(1, 33)

_ONE_AXIS = "quantize weights with one scale per tensor or per output channel"


def quantized_constant(rewriting: Rewriting, node: Node, data: Arr) -> None:
    """Quant of the constant `data`: its integers in int8, uint8 or, where they are wider and a bias, int32."""
    _, scale_name, zero_name, bits_name = node.inputs
    width = width_of(rewriting, node, bits_name, _WIDTHS)
    scale = rewriting.scale(scale_name)
    wide = width.bits > 8
    _require_finite(node, data)
    zero = whole(rewriting, zero_name, np.dtype(np.int32) if wide else width.dtype)
    is_integer = rewriting.parameter(zero_name, "the zero point").dtype.kind in "iu"
    _along_one_axis(node, data, scale, zero)
    with np.errstate(over="ignore", under="ignore"):
        units = np.asarray(data.astype(np.float32) / scale)
    operands: dict[str, Arr] = {
        "units": units,
        "one": np.ones((), np.float32),
        "zero": zero if is_integer else zero.astype(np.float32),
        "bits": np.array(width.bits, np.float32),
    }
    # Of scale 1 the operator itself gives the integers, less their zero point.
    found = apply(replace(node, inputs=tuple(operands)), rewriting.model.opsets, operands)
    integers = np.rint(found.astype(np.float64)).astype(np.int64)
    if wide:
        zero, dtype = np.zeros((), np.int64), _dtype_of_wide(rewriting, node, integers, width, bits_name)
    else:
        dtype = width.dtype
    _store(rewriting, node, integers + zero, scale, zero, dtype)


def bipolar_constant(rewriting: Rewriting, node: Node, data: Arr) -> None:
    """BipolarQuant of the constant `data`: its signs, that of 0 positive."""
    _require_finite(node, data)
    signs = np.where(data >= 0, 1, -1).astype(np.int64)
    _store(rewriting, node, signs, rewriting.scale(node.inputs[1]), np.zeros((), np.int64), np.dtype(np.int8))


def _require_finite(node: Node, data: Arr) -> None:
    bad = data[~np.isfinite(data)]
    if bad.size:
        why = f"the constant '{node.inputs[0]}' must be finite, not {bad[0]} ({bad.size} such entries)"
        raise Refused(why, "train or export the model again")


def _dtype_of_wide(
    rewriting: Rewriting, node: Node, integers: Arr, width: Width, bits_name: str
) -> np.dtype[np.generic]:
    """int8 where all integers fit, else int32; refused for weights."""
    if not integers.size or (integers.min() >= -128 and integers.max() <= 127):
        return np.dtype(np.int8)
    reader = _multiplying_reader(rewriting, node.outputs[0])
    if reader is not None:
        raise Refused(
            f"the bit width '{bits_name}' of the weights of {reader.label} must be 1 to 8, not {width.bits}",
            "train the model again with weights of 1 to 8 bits",
        )
    return np.dtype(np.int32)


def _multiplying_reader(rewriting: Rewriting, name: str) -> Node | None:
    """A node that multiplies by the tensor, however it is laid out; as a bias it may be wide."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for reader in rewriting.read.get(name, []):
            if reader.op_type in MATRIX | {"ConvTranspose"} and name in reader.inputs[:2]:
                return reader
            if reader.op_type in LAYOUT and reader.outputs[0] not in seen:
                waiting.append(reader.outputs[0])
    return None


def _store(
    rewriting: Rewriting, node: Node, integers: Arr, scale: Arr, zero: Arr, dtype: np.dtype[np.generic]
) -> None:
    base = label_of(node)
    scales, zeros, axis = _along_one_axis(node, integers, scale, zero)
    name = rewriting.constant(f"{base}.integers", integers.astype(dtype))
    dequantize(rewriting, Scaled(name, scales, zeros.astype(dtype), axis), base, node.outputs[0])


def _along_one_axis(node: Node, data: Arr, scale: Arr, zero: Arr) -> tuple[Arr, Arr, int | None]:
    """Scale and zero point, which broadcast to the data, as one number each or as one per index of an axis."""
    try:
        shape = np.broadcast_shapes(scale.shape, zero.shape)
        fits = np.broadcast_shapes(shape, data.shape) == data.shape
    except ValueError:
        fits = False
    if not fits:
        raise Refused(
            f"scale '{node.inputs[1]}' and zero point must broadcast to {list(data.shape)}, "
            f"not have the shapes {list(scale.shape)} and {list(zero.shape)}",
            _ONE_AXIS,
        )
    first = data.ndim - len(shape)
    axes = [first + k for k, size in enumerate(shape) if size > 1]
    if not axes:
        return scale.reshape(()), zero.reshape(()), None
    if len(axes) > 1:
        raise Refused(f"scale '{node.inputs[1]}' must vary along one axis, not have the shape {list(shape)}", _ONE_AXIS)
    spread = (np.broadcast_to(parameter, shape).reshape(-1) for parameter in (scale, zero))
    scales, zeros = spread
    return scales, zeros, axes[0]
