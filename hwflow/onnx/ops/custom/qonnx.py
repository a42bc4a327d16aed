"""QONNX: quantization to any number of bits, carried in floats (Pappalardo et al., arXiv:2206.07527).

The definitions: https://github.com/fastmachinelearning/qonnx/tree/main/docs/qonnx-custom-ops.  Exporters write them in
one of three domains.  All operators give float32.

Older exporters write the zero point as an integer: it is added to the quotient in float64, as the reference package
does with numpy 2; a zero point of 0 makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Operator, Table
from hwflow.onnx.ops.shapes import of_type

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")

FLOAT32 = np.dtype(np.float32)


def _away(x: Arr) -> Arr:
    return np.asarray(np.copysign(np.ceil(np.abs(x)), x))


def _half_away(x: Arr) -> Arr:
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


def _half_to_zero(x: Arr) -> Arr:
    return np.asarray(np.copysign(np.ceil(np.abs(x) - 0.5), x))


#: UP and DOWN mean away from and towards zero; two modes have a second name.
_ROUNDING: Mapping[str, Callable[[Arr], Arr]] = {
    "ROUND": np.rint,
    "HALF_EVEN": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": _away,
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "HALF_UP": _half_away,
    "HALF_DOWN": _half_to_zero,
}


def _rounding(call: Call) -> Callable[[Arr], Arr]:
    mode = call.text("rounding_mode")
    if mode.upper() not in _ROUNDING:
        raise call.error(
            f"'rounding_mode' must be one of {', '.join(_ROUNDING)}, not {mode!r}", "export the model again"
        )
    return _ROUNDING[mode.upper()]


def _range(call: Call, bits: Arr) -> tuple[Arr, Arr]:
    """The lowest and the highest integer of so many bits: 'narrow' leaves out one at the end that has one more."""
    if bits.size and not (np.all(bits >= 1) and np.all(bits <= 64) and np.all(bits == np.rint(bits))):
        raise call.error(f"the bit width must be a whole number of 1 to 64, not {bits.reshape(-1)[0]}")
    signed, narrow = bool(call.integer("signed")), bool(call.integer("narrow"))
    count = np.exp2(bits.astype(np.float64))
    if signed:
        return -count / 2 + narrow, count / 2 - 1
    return np.zeros_like(count), count - 1 - narrow


def _quant(call: Call, x: Arr, scale: Arr, zero: Arr, bits: Arr) -> Arr:
    """(limited and rounded x / scale + zero point, minus the zero point) * scale; the parameters broadcast to x."""
    rounding = _rounding(call)
    low, high = _range(call, bits)
    y = x / scale + zero
    if call.integer("signed") and bits.size == 1 and bits.reshape(()) == 1:
        whole = np.where(y >= 0, 1, -1)  # one signed bit means -1 and 1
    else:
        whole = rounding(np.clip(y, low.astype(y.dtype), high.astype(y.dtype)))
    return _fitting(call, np.asarray((whole - zero) * scale), x)


def _fitting(call: Call, y: Arr, x: Arr) -> Arr:
    if y.shape != x.shape:
        raise call.error(f"the parameters must broadcast to the input {list(x.shape)}, not make it {list(y.shape)}")
    return y.astype(FLOAT32, copy=False)


def _bipolar_quant(call: Call, x: Arr, scale: Arr) -> Arr:
    """The scale with the sign of x; that of 0 is positive."""
    return _fitting(call, np.asarray(np.where(x >= 0, x.dtype.type(1), x.dtype.type(-1)) * scale), x)


def _trunc_1(call: Call, x: Arr, scale: Arr, zero: Arr, in_bits: Arr, out_bits: Arr) -> Arr:
    """Drops the lowest bits of the integer that x stands for, and keeps the scale."""
    whole = np.rint(x / scale + zero)
    rounded = _rounding(call)(whole / np.exp2(in_bits.astype(np.float32) - out_bits.astype(np.float32)))
    return _fitting(call, np.asarray((rounded - zero) * scale), x)


def _trunc_2(call: Call, x: Arr, scale: Arr, zero: Arr, in_bits: Arr, out_scale: Arr, out_bits: Arr) -> Arr:
    """Goes over to another scale, a power of two times the first, and to fewer bits."""
    rounding = _rounding(call)
    low, high = _range(call, out_bits)
    step = np.exp2(np.rint(np.log2(out_scale / scale)))
    y = np.rint(x / scale + zero) / step
    rounded = rounding(np.clip(y, low.astype(y.dtype), high.astype(y.dtype)))
    return _fitting(call, np.asarray((rounded - zero / step) * out_scale), x)


def _float_quant(call: Call, x: Arr, scale: Arr, exponent: Arr, mantissa: Arr, bias: Arr, largest: Arr) -> Arr:
    """Rounded to a float of so many bits, limited to its largest value or the one given if that is smaller."""
    rounding = _rounding(call)
    scaled = x / scale
    tiny = np.finfo(scaled.dtype).tiny
    step = np.floor(np.log2(np.abs(scaled) + tiny)) - mantissa
    step = np.exp2(np.maximum(step, 1 - bias - mantissa))
    limit = (2 - np.exp2(-mantissa)) * np.exp2(np.exp2(exponent) - 1 - bias)
    limit = np.minimum(limit, largest)
    return _fitting(call, np.asarray(np.clip(rounding(scaled / step) * step, -limit, limit) * scale), x)


def _multi_threshold(call: Call, x: Arr, thresholds: Arr) -> Arr:
    """The number of thresholds [channels or 1, steps] that x reaches, times 'out_scale' plus 'out_bias'.

    Channels are axis 1 of inputs with 2 or 4 axes, unless 'data_layout' is NHWC, and else the last axis.
    """
    if x.ndim < 2 or thresholds.ndim != 2:
        raise call.error(
            f"the input must have channels and the thresholds two axes, not the shapes {list(x.shape)} "
            f"and {list(thresholds.shape)}"
        )
    axis = 1 if x.ndim in (2, 4) and call.text("data_layout") != "NHWC" else x.ndim - 1
    if len(thresholds) not in (1, x.shape[axis]):
        raise call.error(f"the thresholds must be for 1 or {x.shape[axis]} channels, not {len(thresholds)}")
    call.check_size(x.shape, np.dtype(np.int64))
    planes = np.moveaxis(x, axis, 0)
    counts = np.empty(planes.shape, np.float64)
    rows = np.sort(thresholds, axis=1)
    for channel, plane in enumerate(planes):
        counts[channel] = np.searchsorted(rows[channel if len(rows) > 1 else 0], plane, side="right")
    counts[np.isnan(planes)] = 0
    y = counts * call.number("out_scale") + call.number("out_bias")
    return np.moveaxis(y, 0, axis).astype(FLOAT32)


_FLOATS = of_type(FLOAT32)

_VERSIONS: Mapping[str, tuple[Operator, ...]] = {
    "Quant": (Operator(1, _quant, _FLOATS),),
    "IntQuant": (Operator(1, _quant, _FLOATS),),
    "BipolarQuant": (Operator(1, _bipolar_quant, _FLOATS),),
    "Trunc": (Operator(1, _trunc_1, _FLOATS), Operator(2, _trunc_2, _FLOATS)),
    "FloatQuant": (Operator(1, _float_quant, _FLOATS),),
    "MultiThreshold": (Operator(1, _multi_threshold, _FLOATS),),
}

#: The other two domains have no second version.
OPERATORS: Table = {
    (domain, name): versions if domain == DOMAINS[0] else versions[:1]
    for domain in DOMAINS
    for name, versions in _VERSIONS.items()
}
