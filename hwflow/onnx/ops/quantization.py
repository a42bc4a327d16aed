"""QuantizeLinear and DequantizeLinear: per tensor, per axis and per block.

`y = saturate(round_half_even(x / scale) + zero_point)` and `x = (y - zero_point) * scale`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.dtypes import element_type
from hwflow.onnx.ops.base import INT, Arr, Call, Known, Operator, Table, axis_in

__all__ = ["OPERATORS", "integer_range"]

#: Integer types of a quantized tensor, with their lowest and highest values.
_RANGES: dict[np.dtype[Any], tuple[int, int]] = {
    np.dtype(np.int8): (-128, 127),
    np.dtype(np.uint8): (0, 255),
    np.dtype(np.int16): (-(1 << 15), (1 << 15) - 1),
    np.dtype(np.uint16): (0, (1 << 16) - 1),
    np.dtype(np.int32): (-(1 << 31), (1 << 31) - 1),
    np.dtype(ml_dtypes.int4): (-8, 7),
    np.dtype(ml_dtypes.uint4): (0, 15),
    np.dtype(ml_dtypes.int2): (-2, 1),
    np.dtype(ml_dtypes.uint2): (0, 3),
}


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Lowest and highest value of a quantized type; KeyError for one that is none."""
    return _RANGES[np.dtype(dtype)]


def _spread(call: Call, parameter: Arr, x: Arr | Known) -> Arr:
    """A scale or zero point in a shape that broadcasts to x."""
    block = call.integer("block_size", 0)
    if parameter.size == 1 and not block:
        return parameter.reshape(())
    axis = axis_in(call, call.integer("axis", 1), x.ndim)
    if block:
        blocks = tuple(-(-d // block) if i == axis else d for i, d in enumerate(x.shape))
        if parameter.shape != blocks:
            raise call.error(f"scale and zero point must have the shape {list(blocks)}, not {list(parameter.shape)}")
        repeated: Arr = np.repeat(parameter, block, axis=axis)
        cut: Arr = repeated[tuple(slice(0, d) for d in x.shape)]
        return cut
    if parameter.shape != (x.shape[axis],):
        raise call.error(
            f"scale and zero point must have the shape [{x.shape[axis]}] of axis {axis}, not {list(parameter.shape)}"
        )
    aligned: Arr = parameter.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return aligned


def _integers(call: Call, dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype not in _RANGES:
        known = ", ".join(d.name for d in _RANGES)
        raise call.error(f"the quantized type must be one of {known}, not {dtype.name}; quantize the model to int8")
    return _RANGES[dtype]


def _output_type(call: Call, zero: Arr | Known | None) -> np.dtype[Any]:
    if zero is not None:
        return zero.dtype
    code = call.integer("output_dtype", 0)
    return element_type(code, f"the output of {call.node.label}").dtype if code else np.dtype(np.uint8)


def _quantize(call: Call, x: Arr, scale: Arr, zero: Arr | None = None) -> Arr:
    dtype = _output_type(call, zero)
    low, high = _integers(call, dtype)
    rounded = np.rint(x / _spread(call, scale, x).astype(x.dtype if x.dtype.kind == "f" else scale.dtype))
    if zero is not None:
        rounded = rounded + _spread(call, zero.astype(np.int32), x)
    clipped = np.clip(rounded, low, high)
    # ONNX does not say which integer not-a-number becomes; here it is 0.
    return np.asarray(np.where(np.isnan(clipped), 0, clipped)).astype(np.int32).astype(dtype)


def _quantize_shapes(call: Call, x: Known, scale: Known, zero: Known | None = None) -> Known:
    dtype = _output_type(call, zero)
    _integers(call, dtype)
    return Known(dtype, x.shape)


def _dequantize(call: Call, x: Arr, scale: Arr, zero: Arr | None = None) -> Arr:
    _integers(call, x.dtype)
    wide = x.astype(np.int32)
    if zero is not None:
        wide = wide - _spread(call, zero.astype(np.int32), x)
    return np.asarray(wide.astype(scale.dtype) * _spread(call, scale, x)).astype(_real_type(call, scale))


def _real_type(call: Call, scale: Arr | Known) -> np.dtype[Any]:
    code = call.integer("output_dtype", 0)
    return element_type(code, f"the output of {call.node.label}").dtype if code else scale.dtype


def _dequantize_shapes(call: Call, x: Known, scale: Known, zero: Known | None = None) -> Known:
    _integers(call, x.dtype)
    return Known(_real_type(call, scale), x.shape)


_AXIS = {"axis": INT}
_FLOAT8 = {"axis": INT, "saturate": INT}  # `saturate` concerns float8 alone, which is not supported
_BLOCKS = {**_FLOAT8, "block_size": INT, "output_dtype": INT}

OPERATORS: Table = {
    ("", "QuantizeLinear"): (
        Operator(10, _quantize, _quantize_shapes, (2, 3)),
        Operator(13, _quantize, _quantize_shapes, (2, 3), _AXIS),
        Operator(19, _quantize, _quantize_shapes, (2, 3), _FLOAT8),
        Operator(21, _quantize, _quantize_shapes, (2, 3), _BLOCKS),
        Operator(23, _quantize, _quantize_shapes, (2, 3), {**_BLOCKS, "precision": INT}),
    ),
    ("", "DequantizeLinear"): (
        Operator(10, _dequantize, _dequantize_shapes, (2, 3)),
        Operator(13, _dequantize, _dequantize_shapes, (2, 3), _AXIS),
        Operator(21, _dequantize, _dequantize_shapes, (2, 3), {"axis": INT, "block_size": INT}),
        Operator(23, _dequantize, _dequantize_shapes, (2, 3), {"axis": INT, "block_size": INT, "output_dtype": INT}),
    ),
}
