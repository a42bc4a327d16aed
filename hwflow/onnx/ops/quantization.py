"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: per tensor, per axis and per block.

`y = saturate(round_half_even(x / scale) + zero_point)` and `x = (y - zero_point) * scale`.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from hwflow.onnx.dtypes import element_type, type_name
from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.element_types import float_attribute, is_float, working_type

#: Integer types of a quantized tensor, with their lowest and highest values.
_RANGES: dict[DType, tuple[int, int]] = {
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


def saturated(rounded: Arr, zero: Arr | int, dtype: DType) -> Arr:
    """Whole numbers (as floats) plus an integer zero point, limited to the integer type.

    ONNX does not say which integer not-a-number becomes; here it is 0.
    """
    low, high = _RANGES[dtype]
    # Floats that hold every value of the type and of the zero point; limits come first, so that sums are exact.
    real, whole = (np.float64, np.int64) if dtype.itemsize > 2 else (np.float32, np.int32)
    shift = np.asarray(zero, real)
    limited = np.clip(rounded.astype(real, copy=False), low - shift, high - shift)
    invalid = np.isnan(limited)
    if invalid.any():
        limited = np.where(invalid, np.negative(shift), limited)
    return np.asarray(limited.astype(whole) + np.asarray(zero, whole)).astype(dtype)


def quantized(x: Arr, scale: Arr, zero: Arr | int, dtype: DType) -> Arr:
    """x in the integer type, for a scale and a zero point that broadcast to it; divides in the type of the scale."""
    return saturated(np.rint(x / scale), zero if isinstance(zero, int) else zero.astype(np.int32), dtype)


def dequantized(x: Arr, scale: Arr, zero: Arr | None) -> Arr:
    """The numbers that integers stand for, in the type of the scale."""
    wide = x.astype(np.int64 if x.dtype.itemsize > 2 else np.int32)
    if zero is not None:
        wide = wide - zero.astype(wide.dtype)
    return np.asarray(wide.astype(scale.dtype) * scale)


def _axis(call: Call, parameter: Arr | Known, x: Arr | Known) -> int | None:
    """The axis along which a scale or zero point changes, None for one of the whole tensor; checks its shape."""
    block = call.integer("block_size", 0)
    if math.prod(parameter.shape) == 1 and not block:
        return None
    axis = axis_in(call, call.integer("axis", 1) if x.ndim != 1 else 0, x.ndim)
    expected = _parameter_shape(call, x, axis, block)
    if parameter.shape != expected:
        where = f" of axis {axis}" if not block else ""
        raise call.error(
            f"scale and zero point must have the shape {list(expected)}{where}, not {list(parameter.shape)}"
        )
    return axis


def _spread(call: Call, parameter: Arr, x: Arr | Known) -> Arr:
    """A scale or zero point in a shape that broadcasts to x."""
    axis = _axis(call, parameter, x)
    if axis is None:
        return parameter.reshape(())
    block = call.integer("block_size", 0)
    if block:
        call.check_size((*x.shape[:axis], parameter.shape[axis] * block, *x.shape[axis + 1 :]), parameter.dtype)
        repeated: Arr = np.repeat(parameter, block, axis=axis)
        cut: Arr = repeated[tuple(slice(0, d) for d in x.shape)]
        return cut
    aligned: Arr = parameter.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return aligned


def _parameter_shape(call: Call, x: Arr | Known, axis: int, block: int) -> tuple[int, ...]:
    if block < 0 or block > max(1, *x.shape):
        raise call.error(f"'block_size' must be 0 to the size of axis {axis}, not {block}", "quantize the model again")
    if block:
        return tuple(-(-d // block) if i == axis else d for i, d in enumerate(x.shape))
    return (x.shape[axis],)


def _require_axes(call: Call, x: Known, *parameters: Known | None) -> None:
    for parameter in parameters:
        if parameter is not None:
            _axis(call, parameter, x)


def _quantized_type(call: Call, dtype: DType) -> DType:
    if dtype not in _RANGES and not (is_float(dtype) and dtype.itemsize == 1):
        known = ", ".join(d.name for d in _RANGES)
        raise call.error(
            f"the quantized type must be one of {known} or a float of 8 bits or fewer, not {type_name(dtype)}",
            "quantize the model to int8"
        )
    return dtype


def _output_type(call: Call, zero: Arr | Known | None) -> DType:
    code = call.integer("output_dtype", 0)
    named = element_type(code, f"the output of {call.node.label}").dtype if code else None
    if zero is not None and named is not None and zero.dtype != named:
        raise call.error(
            f"'output_dtype' must be the type of the zero point, {type_name(zero.dtype)}, not {type_name(named)}"
        )
    return _quantized_type(call, zero.dtype if zero is not None else named or np.dtype(np.uint8))


def _quantize(call: Call, x: Arr, scale: Arr, zero: Arr | None = None) -> Arr:
    """The division is made in the type of the scale, unless 'precision' names another."""
    dtype = _output_type(call, zero)
    wide = scale.dtype if is_float(scale.dtype) and scale.dtype.itemsize > 1 else np.dtype(np.float32)
    wide = float_attribute(call, "precision", wide)
    step = _spread(call, scale, x).astype(wide, copy=False)
    x = x.astype(wide, copy=False)
    at = None if zero is None else _spread(call, zero, x)
    if dtype in _RANGES:
        return quantized(x, step, 0 if at is None else at, dtype)
    y = (x / step).astype(working_type(wide))
    if at is not None:
        y = y + at.astype(y.dtype)
    return _narrow_float(call, y, dtype)


def _narrow_float(call: Call, y: Arr, dtype: DType) -> Arr:
    """y in a float type of 8 bits or fewer, beyond its range the largest value; with 'saturate' 0 what the type has."""
    if call.integer("saturate", 1):
        largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        y = np.clip(y, -largest, largest)
    return np.asarray(y).astype(dtype)


def _quantize_shapes(call: Call, x: Known, scale: Known, zero: Known | None = None) -> Known:
    dtype = _output_type(call, zero)
    _require_axes(call, x, scale, zero)
    return Known(dtype, x.shape)


def _dequantize(call: Call, x: Arr, scale: Arr, zero: Arr | None = None) -> Arr:
    """The product is made in float32 at least, then rounded once to the output's type."""
    out = _real_type(call, scale)
    dtype = _quantized_type(call, x.dtype)
    factor = _spread(call, scale, x).astype(working_type(out))
    at = None if zero is None else _spread(call, zero, x)
    if dtype in _RANGES:
        return dequantized(x, factor, at).astype(out, copy=False)
    wide = x.astype(factor.dtype)
    if at is not None:
        wide = wide - at.astype(factor.dtype)
    return np.asarray(wide * factor).astype(out, copy=False)


def _real_type(call: Call, scale: Arr | Known) -> DType:
    dtype = float_attribute(call, "output_dtype", scale.dtype)
    if not is_float(dtype) or dtype.itemsize < 2:
        raise call.error(
            f"'output_dtype' must be given for a scale of type {type_name(dtype)}", "export the model again"
        )
    return dtype


def _dequantize_shapes(call: Call, x: Known, scale: Known, zero: Known | None = None) -> Known:
    _quantized_type(call, x.dtype)
    _require_axes(call, x, scale, zero)
    return Known(_real_type(call, scale), x.shape)


def _dynamic_quantize(call: Call, x: Arr) -> tuple[Arr, Arr, Arr]:
    """To uint8 over the range of x and 0; for an x of zeros alone, where that is empty, the scale is 1."""
    return dynamic_quantized(x)


def dynamic_quantized(x: Arr) -> tuple[Arr, Arr, Arr]:
    """x in uint8, its scale and its zero point."""
    low, high = np.float32(np.min(x, initial=0)), np.float32(np.max(x, initial=0))
    scale = (high - low) / np.float32(255) or np.float32(1)
    dtype = np.dtype(np.uint8)
    zero = saturated(np.rint(np.clip(-low / scale, 0, 255)), 0, dtype)
    return quantized(x, np.asarray(scale), zero, dtype), np.asarray(scale, np.float32), zero


def _dynamic_shapes(call: Call, x: Known) -> tuple[Known, Known, Known]:
    dtype = np.dtype(np.uint8)
    return Known(dtype, x.shape), Known(np.dtype(np.float32), ()), Known(dtype, ())


OPERATORS: Table = {
    ("", "QuantizeLinear"): (Operator(10, _quantize, _quantize_shapes),),
    ("", "DequantizeLinear"): (Operator(10, _dequantize, _dequantize_shapes),),
    ("", "DynamicQuantizeLinear"): (Operator(11, _dynamic_quantize, _dynamic_shapes),),
}
