"""Convolutions: plain, transposed and deformable."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.element_types import working_type
from hwflow.onnx.ops.windows import Windows, per_axis, require_known, windows_of
from hwflow.onnx.window import extent_of, halves

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


def _transposed_windows(call: Call, x: Arr | Known, w: Arr | Known) -> Windows:
    """The windows of the output that input elements add to: `outputs` are the input's sizes, `sizes` the output's."""
    groups = call.integer("group")
    if x.ndim < 3 or w.ndim != x.ndim:
        raise call.error(
            f"input and weights must have the same rank of 3 or more, not be {list(x.shape)} and {list(w.shape)}"
        )
    if groups < 1 or x.shape[1] != w.shape[0] or w.shape[0] % groups:
        raise call.error(
            f"{groups} groups must divide the channels, not input {list(x.shape)} and weights {list(w.shape)}"
        )
    inputs, kernel = x.shape[2:], kernel_of(call, w)
    if min(inputs) < 1:
        raise call.error(f"the input must have spatial axes with elements, not the shape {list(x.shape)}")
    rank = len(inputs)
    windows = Windows(
        sizes=(0,) * rank,
        kernel=kernel,
        strides=per_axis(call, "strides", rank, 1),
        dilations=per_axis(call, "dilations", rank, 1),
        pads=((0, 0),) * rank,
        outputs=inputs,
    )
    sizes, pads = _sizes_and_pads(call, windows)
    if min(sizes) < 1:
        raise call.error(f"the padding must leave something of the output, not its size {list(sizes)}")
    return replace(windows, sizes=sizes, pads=pads)


def _sizes_and_pads(call: Call, windows: Windows) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The output's sizes and what is cut away in front and behind; a negative cut behind adds zeros."""
    rank = len(windows.kernel)
    auto = call.text("auto_pad")
    require_known(call, auto)
    added = per_axis(call, "output_padding", rank, 0)
    full = [
        (n - 1) * s + extent_of(k, d) + a
        for n, s, k, d, a in zip(
            windows.outputs, windows.strides, windows.kernel, windows.dilations, added, strict=True
        )
    ]
    if call.has("output_shape"):
        sizes = _output_shape(call, rank)
    elif auto.startswith("SAME"):
        sizes = tuple(n * s for n, s in zip(windows.outputs, windows.strides, strict=True))
    else:
        cut = per_axis(call, "pads", 2 * rank, 0) if auto == "NOTSET" else (0,) * (2 * rank)
        pads = tuple(zip(cut[:rank], cut[rank:], strict=True))
        return tuple(f - sum(p) for f, p in zip(full, pads, strict=True)), pads
    totals = [f - s for f, s in zip(full, sizes, strict=True)]
    begins = [halves(max(0, t), auto)[0] for t in totals]
    return sizes, tuple((b, t - b) for b, t in zip(begins, totals, strict=True))


def _output_shape(call: Call, rank: int) -> tuple[int, ...]:
    """The attribute 'output_shape'; some exporters put batch and channels in front."""
    shape = call.integers("output_shape")
    if len(shape) not in (rank, rank + 2) or min(shape) < 1:
        raise call.error(f"'output_shape' must be {rank} numbers of 1 or more, not {list(shape)}")
    return shape[-rank:]


def _conv_transpose(call: Call, x: Arr, w: Arr, b: Arr | None = None) -> Arr:
    """x [n, c, *sizes], w [c, m / groups, *kernel], b [m] to [n, m, *outputs]."""
    windows, groups, wide = _transposed_windows(call, x, w), call.integer("group"), working_type(x.dtype)
    n, m = x.shape[0], w.shape[1] * groups
    check_bias(call, b, m)
    taps, pixels = math.prod(windows.kernel), math.prod(windows.outputs)
    call.work(n * w.size * pixels)
    # Every element of the full sum that the kept part covers, then the cuts.
    full = tuple(
        max((i - 1) * s + (k - 1) * d + 1, begin + size)
        for i, s, k, d, (begin, _), size in zip(
            windows.outputs,
            windows.strides,
            windows.kernel,
            windows.dilations,
            windows.pads,
            windows.sizes,
            strict=True,
        )
    )
    call.check_size((n, m, *full), wide)
    call.check_size((m, taps, pixels), wide)
    total = np.zeros((n, m, *full), wide)
    rows = w.astype(wide, copy=False).reshape(groups, -1, m // groups * taps).swapaxes(1, 2)
    columns = x.astype(wide, copy=False).reshape(n, groups, -1, pixels)
    for sample in range(n):
        products = np.matmul(rows, columns[sample]).reshape(m, taps, *windows.outputs)
        for tap, target in enumerate(windows.taps(total[sample])):
            np.add(target, products[:, tap], out=target)
    keep = tuple(slice(begin, begin + size) for (begin, _), size in zip(windows.pads, windows.sizes, strict=True))
    y = total[(slice(None), slice(None), *keep)]
    if b is not None:
        y = y + b.astype(wide, copy=False).reshape(-1, *(1,) * len(keep))
    return np.ascontiguousarray(y).astype(x.dtype, copy=False)


def _transposed_shapes(call: Call, x: Known, w: Known, b: Known | None = None) -> Known:
    windows, channels = _transposed_windows(call, x, w), w.shape[1] * call.integer("group")
    check_bias(call, b, channels)
    return Known(x.dtype, (x.shape[0], channels, *windows.sizes))


def _deformed_windows(
    call: Call, x: Arr | Known, w: Arr | Known, offset: Arr | Known, mask: Arr | Known | None
) -> Windows:
    windows, groups = conv_windows(call, x, w), call.integer("offset_group")
    if groups < 1 or x.shape[1] % groups:
        raise call.error(f"'offset_group' must divide the {x.shape[1]} channels, not be {groups}")
    taps = groups * math.prod(windows.kernel)
    for name, operand, channels in (("offset", offset, taps * len(windows.kernel)), ("mask", mask, taps)):
        full = (x.shape[0], channels, *windows.outputs)
        if operand is not None and operand.shape != full:
            raise call.error(f"the input '{name}' must have the shape {list(full)}, not {list(operand.shape)}")
    return windows


def _deform_conv(
    call: Call, x: Arr, w: Arr, offset: Arr, b: Arr | None = None, mask: Arr | None = None
) -> Arr:
    """x [n, c, *sizes], w [m, c / groups, *kernel], offset [n, offset groups * taps * axes, *outputs],
    mask [n, offset groups * taps, *outputs] to [n, m, *outputs]."""
    windows, wide = _deformed_windows(call, x, w, offset, mask), working_type(x.dtype)
    check_bias(call, b, w.shape[0])
    (n, c), rank, parts = x.shape[:2], len(windows.kernel), call.integer("offset_group")
    taps, pixels = math.prod(windows.kernel), math.prod(windows.outputs)
    call.check_size((n, w.shape[0], pixels), wide)
    call.check_size((c, taps, pixels), np.dtype(np.float64))
    call.work(n * pixels * taps * (math.prod(w.shape[:2]) + (c << rank)))
    rows = w.astype(wide, copy=False).reshape(call.integer("group"), -1, w.shape[1] * taps)
    still = _places(windows)
    y = np.empty((n, w.shape[0], *windows.outputs), wide)
    for sample in range(n):
        moved = offset[sample].reshape(parts, taps, rank, pixels).astype(np.float64)
        weight = np.ones((parts, taps, pixels)) if mask is None else mask[sample].reshape(parts, taps, pixels)
        planes = x[sample].astype(wide, copy=False).reshape(parts, c // parts, -1)
        read = np.stack(
            [_sample(planes[g], windows.sizes, still + moved[g].swapaxes(0, 1), weight[g]) for g in range(parts)]
        )
        columns = read.astype(wide, copy=False).reshape(len(rows), -1, pixels)
        y[sample] = np.matmul(rows, columns).reshape(y.shape[1:])
    if b is not None:
        y += b.astype(wide, copy=False).reshape(-1, *(1,) * rank)
    return y.astype(x.dtype, copy=False)


def _places(windows: Windows) -> Arr:
    """Where each kernel element stands at each output without offsets: [axes, taps, pixels]."""
    rank = len(windows.kernel)
    places = []
    for axis in range(rank):
        tap = np.arange(windows.kernel[axis]) * windows.dilations[axis] - windows.pads[axis][0]
        at = np.arange(windows.outputs[axis]) * windows.strides[axis]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = len(tap), len(at)
        grid = np.broadcast_to((tap[:, None] + at).reshape(shape), windows.kernel + windows.outputs)
        places.append(grid.reshape(math.prod(windows.kernel), -1))
    return np.stack(places)


def _sample(planes: Arr, sizes: tuple[int, ...], at: Arr, weight: Arr) -> Arr:
    """Linear interpolation of planes [c, elements] at places [axes, taps, pixels], 0 outside, times the weight."""
    low = np.floor(at)
    share = at - low
    total = np.zeros((len(planes), *weight.shape), planes.dtype)
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        index, factor = np.zeros(weight.shape, np.int64), weight
        for axis, (step, size) in enumerate(zip(corner, sizes, strict=True)):
            place = low[axis] + step
            inside = (place >= 0) & (place < size)
            index = index * size + np.where(inside, place, 0).astype(np.int64)
            factor = factor * np.where(inside, share[axis] if step else 1 - share[axis], 0)
        total += planes[:, index] * factor.astype(planes.dtype)
    return total


def _deformed_shapes(
    call: Call, x: Known, w: Known, offset: Known, b: Known | None = None, mask: Known | None = None
) -> Known:
    windows = _deformed_windows(call, x, w, offset, mask)
    check_bias(call, b, w.shape[0])
    return Known(x.dtype, (x.shape[0], w.shape[0], *windows.outputs))


OPERATORS: Table = {
    ("", "Conv"): (Operator(1, convolution, conv_shapes),),
    ("", "ConvTranspose"): (Operator(1, _conv_transpose, _transposed_shapes),),
    ("", "DeformConv"): (Operator(19, _deform_conv, _deformed_shapes),),
}
