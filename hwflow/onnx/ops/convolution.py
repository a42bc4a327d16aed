"""Convolution over any number of spatial axes, as one matrix product per group."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import INT, INTS, STRING, Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.windows import Windows, windows_of

__all__ = ["OPERATORS"]


def _windows(call: Call, x: Arr | Known, w: Arr | Known) -> Windows:
    groups = call.integer("group", 1)
    if x.ndim < 3 or w.ndim != x.ndim:
        raise call.error(
            f"input and weights must have the same rank of 3 or more, not be {list(x.shape)} and {list(w.shape)}"
        )
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise call.error(
            f"{groups} groups must divide the channels, not input {list(x.shape)} and weights {list(w.shape)}"
        )
    kernel = w.shape[2:]
    if call.integers("kernel_shape", kernel) != kernel:
        raise call.error(
            f"'kernel_shape' must be that of the weights, {list(kernel)}, not {list(call.integers('kernel_shape'))}"
        )
    return windows_of(call, x.shape[2:], kernel)


def _conv(call: Call, x: Arr, w: Arr, b: Arr | None = None) -> Arr:
    """x [n, c, *sizes], w [m, c / groups, *kernel], b [m] to [n, m, *outputs]."""
    windows, groups = _windows(call, x, w), call.integer("group", 1)
    n, c, m = x.shape[0], x.shape[1], w.shape[0]
    padded = windows.pad(x, 0)
    if c == groups == m:
        y = _depthwise(windows, padded, w)
    else:
        taps, pixels = c // groups * math.prod(windows.kernel), math.prod(windows.outputs)
        columns = windows.gather(padded).reshape(n, groups, taps, pixels)
        y = np.matmul(w.reshape(groups, m // groups, taps), columns).reshape(n, m, *windows.outputs)
    if b is not None:
        y = y + b.reshape(-1, *(1,) * len(windows.outputs))
    return y.astype(x.dtype, copy=False)


def _depthwise(windows: Windows, padded: Arr, w: Arr) -> Arr:
    """One multiplication of whole planes per tap: a matrix product of one row would be slower."""
    flat = w.reshape(w.shape[0], -1)
    ones = (1,) * len(windows.outputs)
    y = np.zeros((*padded.shape[:2], *windows.outputs), padded.dtype)
    for tap, plane in enumerate(windows.taps(padded)):
        y += plane * flat[:, tap].reshape(-1, *ones)
    return y


def _conv_shapes(call: Call, x: Known, w: Known, b: Known | None = None) -> Known:
    windows = _windows(call, x, w)
    if b is not None and b.shape != (w.shape[0],):
        raise call.error(f"the bias must have the shape [{w.shape[0]}], not {list(b.shape)}")
    return Known(x.dtype, (x.shape[0], w.shape[0], *windows.outputs))


OPERATORS: Table = {
    ("", "Conv"): (
        Operator(
            1,
            _conv,
            _conv_shapes,
            inputs=(2, 3),
            attributes={
                "auto_pad": STRING,
                "dilations": INTS,
                "group": INT,
                "kernel_shape": INTS,
                "pads": INTS,
                "strides": INTS,
            },
        ),
    ),
}
