"""Convolution over any number of spatial axes, as one matrix product per group and block of output rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.precision import working_type
from hwflow.onnx.ops.windows import Windows, windows_of

#: The matrix of all windows (kernel elements times outputs) is made in parts of about this many bytes.  Parts that stay
#: in the cache are faster: 4 MiB took 65 ms for a network of large planes that took 105 ms with 64 MiB.
BLOCK_BYTES = 1 << 22


def conv_windows(call: Call, x: Arr | Known, w: Arr | Known) -> Windows:
    """The windows of x [n, c, *sizes] under weights [m, c / groups, *kernel]."""
    groups = call.integer("group")
    if x.ndim < 3 or w.ndim != x.ndim:
        raise call.error(
            f"input and weights must have the same rank of 3 or more, not be {list(x.shape)} and {list(w.shape)}"
        )
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise call.error(
            f"{groups} groups must divide the channels, not input {list(x.shape)} and weights {list(w.shape)}"
        )
    return windows_of(call, x.shape[2:], kernel_of(call, w))


def kernel_of(call: Call, w: Arr | Known) -> tuple[int, ...]:
    """The kernel's size, from the weights; the attribute must agree."""
    kernel = w.shape[2:]
    if call.integers("kernel_shape", kernel) != kernel:
        raise call.error(
            f"'kernel_shape' must be that of the weights, {list(kernel)}, not {list(call.integers('kernel_shape'))}"
        )
    if min(kernel, default=1) < 1:
        raise call.error(f"the kernel must have elements, not the size {list(kernel)}")
    return kernel


def check_bias(call: Call, b: Arr | Known | None, channels: int) -> None:
    """Refuse a bias that is not one number per output channel."""
    if b is not None and b.shape != (channels,):
        raise call.error(f"the bias must have the shape [{channels}], not {list(b.shape)}")


def convolve(call: Call, x: Arr, w: Arr, fill: object = 0) -> Arr:
    """x [n, c, *sizes], w [m, c / groups, *kernel] of the same type to [n, m, *outputs]; `fill` is the padding."""
    windows, groups = conv_windows(call, x, w), call.integer("group")
    shape = (x.shape[0], w.shape[0], *windows.outputs)
    call.check_size(shape, x.dtype)
    call.work(math.prod(shape) * math.prod(w.shape[1:]))
    if groups == 1 < w.shape[0] and w.strides[0] == 0:  # one filter in all channels: ConstantOfShape gives such views
        return np.repeat(convolve(call, x, w[:1], fill), w.shape[0], axis=1)
    padded = windows.pad(call, x, fill)
    if x.shape[1] == groups > 1 and w.shape[0] <= 4 * groups:
        return _depthwise(windows, padded, w)
    taps = math.prod(w.shape[1:])
    rows, columns = w.reshape(groups, -1, taps), windows.gather(padded)
    copied = columns.size * columns.itemsize if max(windows.kernel + windows.strides) > 1 else 0
    if copied <= BLOCK_BYTES:
        return np.asarray(np.matmul(rows, columns.reshape(x.shape[0], groups, taps, -1))).reshape(shape)
    y = np.empty(shape, x.dtype)
    for target, part in _blocks(windows, columns, y):
        target[...] = np.matmul(rows, part.reshape(groups, taps, -1)).reshape(target.shape)
    return y


def _blocks(windows: Windows, columns: Arr, y: Arr) -> Iterator[tuple[Arr, Arr]]:
    """Some output rows of one sample each time, and the windows [c, *kernel, *outputs] that give them."""
    size = math.prod(columns.shape[1:]) * columns.itemsize
    step = max(1, windows.outputs[0] * BLOCK_BYTES // max(1, size))
    axes_before = (slice(None),) * (1 + len(windows.kernel))
    for sample, target in zip(columns, y, strict=True):
        for row in range(0, windows.outputs[0], step):
            part = slice(row, row + step)
            yield target[:, part], sample[(*axes_before, part)]


def _depthwise(windows: Windows, padded: Arr, w: Arr) -> Arr:
    """One multiplication of whole planes per tap: a matrix product of one row would be slower."""
    n, c = padded.shape[:2]
    flat = w.reshape(c, -1, math.prod(windows.kernel))
    ones = (1,) * len(windows.outputs)
    y = np.zeros((n, c, flat.shape[1], *windows.outputs), padded.dtype)
    product = np.empty_like(y)
    for tap, plane in enumerate(windows.taps(padded)):
        np.multiply(plane[:, :, None], flat[:, :, tap].reshape(c, -1, *ones), out=product)
        y += product
    return y.reshape(n, -1, *windows.outputs)


def convolution(call: Call, x: Arr, w: Arr, b: Arr | None = None) -> Arr:
    """x [n, c, *sizes], w [m, c / groups, *kernel], b [m] to [n, m, *outputs]."""
    wide = working_type(x.dtype)
    y = convolve(call, x.astype(wide, copy=False), w.astype(wide, copy=False))
    if b is not None:
        check_bias(call, b, w.shape[0])
        y += b.astype(wide, copy=False).reshape(-1, *(1,) * (x.ndim - 2))
    return y.astype(x.dtype, copy=False)


def conv_shapes(call: Call, x: Known, w: Known, b: Known | None = None) -> Known:
    """The type of a convolution's output in the type of its input."""
    windows = conv_windows(call, x, w)
    check_bias(call, b, w.shape[0])
    return Known(x.dtype, (x.shape[0], w.shape[0], *windows.outputs))


OPERATORS: Table = {
    ("", "Conv"): (Operator(1, convolution, conv_shapes),),
}
