"""Element types: those that kernels compute in, and conversions between all of them.

Floats of fewer than 32 bits are computed in float32 and rounded once at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import ml_dtypes
import numpy as np

from hwflow.onnx.dtypes import ELEMENT_TYPES, element_type
from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Formula, Known, Operator, Table, Working
from hwflow.onnx.ops.shapes import of_type

#: Floats that numpy computes slowly or not at all; those of `ml_dtypes` have a kind of their own in numpy.
SMALL_FLOATS = frozenset(
    e.dtype
    for e in ELEMENT_TYPES
    if e.dtype.itemsize < 4 and (e.dtype.kind == "f" or (e.dtype.kind == "V" and "float" in e.dtype.name))
)

#: Integers below a byte, one to a byte in memory.
SMALL_INTEGERS = frozenset(e.dtype for e in ELEMENT_TYPES if e.bits < 8 and e.dtype not in SMALL_FLOATS)


def is_float(dtype: DType) -> bool:
    """True for float types of any width."""
    return dtype.kind == "f" or dtype in SMALL_FLOATS


def is_integer(dtype: DType) -> bool:
    """True for integers of any size, bool not among them."""
    return dtype.kind in "iu" or dtype in SMALL_INTEGERS


def working_type(dtype: DType) -> Working:
    """float32 for narrower floats; other types stay."""
    return np.dtype(np.float32) if dtype in SMALL_FLOATS else dtype


def widened(x: Arr) -> Arr:
    """The same values in the working type: the array itself where that is its own."""
    return x.astype(working_type(x.dtype), copy=False)


def in_float32(function: Formula) -> Callable[..., Arr]:
    """`function` of arrays, computed in float32 for smaller floats; a float result gets the small type back."""

    @functools.wraps(function)
    def computed(*operands: Arr, **how: object) -> Arr:
        small = next((x.dtype for x in operands if x.dtype in SMALL_FLOATS), None)
        if small is None:
            return np.asarray(function(*operands, **how))
        result = np.asarray(function(*(widened(x) for x in operands), **how))
        return result.astype(small) if result.dtype == np.float32 else result

    return computed


def float_attribute(call: Call, name: str, default: DType) -> DType:
    """The float type that an attribute gives as a number of `TensorProto.DataType`; `default` for 0 or none."""
    code = call.integer(name, 0)
    if not code:
        return default
    dtype = element_type(code, f"'{name}' of {call.node.label}").dtype
    if not is_float(dtype) or dtype.itemsize < 2:
        raise call.error(
            f"'{name}' must be a float type of 16 bits or more, not {dtype.name}", "export the model again"
        )
    return dtype


#: Floats of 8 bits and the largest number of each.
_FLOAT8 = {
    np.dtype(ml_dtypes.float8_e4m3fn): 448.0,
    np.dtype(ml_dtypes.float8_e4m3fnuz): 240.0,
    np.dtype(ml_dtypes.float8_e5m2): 57344.0,
    np.dtype(ml_dtypes.float8_e5m2fnuz): 57344.0,
}
_EXPONENT_ONLY = np.dtype(ml_dtypes.float8_e8m0fnu)
_ROUND_MODES = ("up", "down", "nearest")


def convert(x: Arr, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Arr:
    """The elements as another type, by the tables in the specification of Cast.

    Floats lose their fraction on the way to integers, integers their upper bits.  `saturate` (the largest number in
    place of infinity) is for floats of 8 bits, `round_mode` for float8_e8m0fnu.  Texts are read as numbers (ValueError
    for other texts), numbers written without exponent.
    """
    if dtype.kind == "O":
        return x if x.dtype.kind in "OU" else _written(x)
    if x.dtype.kind in "OU":
        x = _read(x, dtype)
    x = x.astype(np.int8) if x.dtype in SMALL_INTEGERS else widened(x)  # not all small types convert to each other
    if dtype == _EXPONENT_ONLY:
        return _powers_of_two(x.astype(np.float64), saturate, round_mode)
    if dtype in _FLOAT8:
        x = x if x.dtype.kind == "f" else x.astype(np.float64)
        return (np.clip(x, -_FLOAT8[dtype], _FLOAT8[dtype]) if saturate else x).astype(dtype)
    if dtype in SMALL_INTEGERS and x.dtype.kind == "f":
        return x.astype(np.int32).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(x != 0)
    return x.astype(dtype)


def _written(x: Arr) -> Arr:
    texts = [_text(v) for v in widened(x).reshape(-1)]
    return np.array(texts, np.object_).reshape(x.shape)


def _text(value: object) -> str:
    if isinstance(value, np.bool_):
        return "1" if value else "0"
    if not isinstance(value, np.floating):
        return str(value)
    if np.isfinite(value):
        return np.format_float_positional(value, trim="-")  # the fewest digits that give the same number again
    return "NaN" if np.isnan(value) else "INF" if value > 0 else "-INF"


def _read(x: Arr, dtype: DType) -> Arr:
    """The numbers that texts stand for; int64 (uint64) where an integer type is wanted."""
    texts = [str(v) for v in x.reshape(-1)]
    if dtype.kind not in "iu" and dtype not in SMALL_INTEGERS:
        return np.array([float(v) for v in texts], np.float64).reshape(x.shape)
    wide = np.uint64 if dtype == np.uint64 else np.int64
    return np.array([_whole(v) for v in texts], wide).reshape(x.shape)


def _whole(text: str) -> int:
    """An integer, or what is left of 100.5 and 1e3 without fraction."""
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _powers_of_two(x: Arr, saturate: bool, round_mode: str) -> Arr:
    """float8_e8m0fnu: the exponent alone, -127 to 127; 0 becomes the smallest power, what is negative not-a-number."""
    fraction, exponent = np.frexp(x)  # x = fraction * 2**exponent, 0.5 <= fraction < 1
    limit = {"down": np.inf, "up": 0.5, "nearest": np.nextafter(0.75, 0)}[round_mode]
    exponent = np.where(x == 0, -128, exponent - 1 + (fraction > limit)).astype(np.int64)
    outside = (exponent < -127) | (exponent > 127) | np.isinf(x)
    exponent = np.where(np.isposinf(x), 127, np.clip(exponent, -127, 127))
    invalid = np.isnan(x) | (x < 0) | (outside if not saturate else np.isinf(x) & (x < 0))
    return np.where(invalid, 255, exponent + 127).astype(np.uint8).view(_EXPONENT_ONLY)


def _checked(call: Call, x: Arr, dtype: DType) -> Arr:
    mode = call.text("round_mode", "up")
    if mode not in _ROUND_MODES:
        raise call.error(f"attribute 'round_mode' must be one of {', '.join(_ROUND_MODES)}, not '{mode}'")
    call.check_size(x.shape, dtype)
    try:
        return convert(x, dtype, bool(call.integer("saturate", 1)), mode)
    except (ValueError, OverflowError) as error:
        if x.dtype.kind not in "OU":
            raise
        raise call.error(f"the texts must be numbers that {dtype.name} holds ({error})") from None


def _target(call: Call) -> DType:
    return element_type(call.integer("to"), f"the output of {call.node.label}").dtype


def _cast(call: Call, x: Arr) -> Arr:
    return _checked(call, x, _target(call))


#: What version 1 calls the types.
_NAMES = {
    "BOOL": 9, "DOUBLE": 11, "FLOAT": 1, "FLOAT16": 10, "INT8": 3, "INT16": 5, "INT32": 6, "INT64": 7,
    "UINT8": 2, "UINT16": 4, "UINT32": 12, "UINT64": 13,
}  # fmt: skip


def _target_1(call: Call) -> DType:
    code = _NAMES.get(call.text("to").upper())
    if code is None:
        raise call.error(f"attribute 'to' must be one of {', '.join(_NAMES)}, not '{call.text('to')}'")
    return element_type(code, f"the output of {call.node.label}").dtype


def _cast_1(call: Call, x: Arr) -> Arr:
    return _checked(call, x, _target_1(call))


def _cast_like(call: Call, x: Arr, target: Arr) -> Arr:
    return _checked(call, x, np.dtype(np.object_) if target.dtype.kind == "U" else target.dtype)


def _cast_like_shapes(call: Call, x: Known, target: Known) -> Known:
    return Known(target.dtype, x.shape)


OPERATORS: Table = {
    ("", "Cast"): (Operator(1, _cast_1, of_type(_target_1)), Operator(6, _cast, of_type(_target))),
    ("", "CastLike"): (Operator(15, _cast_like, _cast_like_shapes),),
}
