"""Transposed convolution: every input element adds a scaled kernel to the output."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.convolution import check_bias, kernel_of
from hwflow.onnx.ops.precision import working_type
from hwflow.onnx.ops.windows import Windows, per_axis


def _windows(call: Call, x: Arr | Known, w: Arr | Known) -> Windows:
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
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise call.error(f"'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {auto!r}")
    added = per_axis(call, "output_padding", rank, 0)
    full = [
        (n - 1) * s + (k - 1) * d + 1 + a
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
    odd = 0 if auto == "SAME_UPPER" else 1
    begins = [(max(0, t) + odd) // 2 for t in totals]
    return sizes, tuple((b, t - b) for b, t in zip(begins, totals, strict=True))


def _output_shape(call: Call, rank: int) -> tuple[int, ...]:
    """The attribute 'output_shape'; some exporters put batch and channels in front."""
    shape = call.integers("output_shape")
    if len(shape) not in (rank, rank + 2) or min(shape) < 1:
        raise call.error(f"'output_shape' must be {rank} numbers of 1 or more, not {list(shape)}")
    return shape[-rank:]


def _conv_transpose(call: Call, x: Arr, w: Arr, b: Arr | None = None) -> Arr:
    """x [n, c, *sizes], w [c, m / groups, *kernel], b [m] to [n, m, *outputs]."""
    windows, groups, wide = _windows(call, x, w), call.integer("group"), working_type(x.dtype)
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


def _shapes(call: Call, x: Known, w: Known, b: Known | None = None) -> Known:
    windows, channels = _windows(call, x, w), w.shape[1] * call.integer("group")
    check_bias(call, b, channels)
    return Known(x.dtype, (x.shape[0], channels, *windows.sizes))


OPERATORS: Table = {
    ("", "ConvTranspose"): (Operator(1, _conv_transpose, _shapes),),
}
