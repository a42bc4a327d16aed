"""Pooling over windows and over whole planes: the largest element, the mean, the p-norm."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Formula, Kernel, Known, Operator, ShapeRule, Table
from hwflow.onnx.ops.element_types import is_float, widened
from hwflow.onnx.ops.shapes import checked_indices, filled, integers
from hwflow.onnx.ops.windows import Windows, windows_of


def pool_windows(call: Call, x: Arr | Known) -> Windows:
    """The windows over x [n, c, *sizes] that the attributes of a pool describe."""
    kernel = call.integers("kernel_shape")
    if x.ndim < 3 or x.ndim != len(kernel) + 2 or min(kernel) < 1:
        raise call.error(f"'kernel_shape' must be {max(1, x.ndim - 2)} numbers of 1 or more, not {list(kernel)}")
    return windows_of(call, x.shape[2:], kernel)


def _prepared(call: Call, x: Arr) -> Windows:
    """The windows over x, when the output and the work are within the limits."""
    windows = pool_windows(call, x)
    shape = (*x.shape[:2], *windows.outputs)
    call.check_size(shape, x.dtype)
    # A step over few elements costs as much as about a hundred thousand multiplications.
    call.work(max(math.prod(shape), 100_000) * math.prod(map(len, windows.meeting)))
    return windows


def window_sums(call: Call, x: Arr) -> tuple[Arr, Windows]:
    """The sum of each window, in the order of its elements: quantized networks tell other orders of rounding apart."""
    windows = _prepared(call, x)
    padded = windows.pad(call, x, 0)
    if math.prod(windows.outputs) == 1 and math.prod(windows.kernel) <= x.size:  # sums that keep the order, in one step
        elements = windows.gather(padded).reshape(*x.shape[:2], -1)
        return np.add.accumulate(elements, axis=2)[..., -1].reshape(*x.shape[:2], *windows.outputs), windows
    taps = windows.taps(padded, windows.meeting)
    total = next(taps).copy()
    for plane in taps:
        total += plane
    return total, windows


def _lowest(dtype: DType) -> float:
    return -np.inf if is_float(dtype) else np.iinfo(dtype.name).min


def _max_pool(call: Call, x: Arr) -> Arr | tuple[Arr, Arr]:
    windows = _prepared(call, x)
    if call.wants(1):
        return _max_with_indices(call, windows, x)
    return windows.reduce(np.maximum, windows.pad(call, x, _lowest(x.dtype)))


def _max_with_indices(call: Call, windows: Windows, x: Arr) -> tuple[Arr, Arr]:
    """The largest elements and where in the flattened input they stand; of equal ones the first."""
    order = "F" if call.integer("storage_order", 0) else "C"
    inside = np.arange(math.prod(windows.sizes), dtype=np.int64).reshape(windows.sizes, order=order)  # type: ignore[call-overload]
    values = windows.taps(windows.pad(call, x, _lowest(x.dtype)), windows.meeting)
    places = windows.taps(windows.pad(call, inside, -1), windows.meeting)
    best, best_places = next(values).copy(), np.broadcast_to(next(places), (*x.shape[:2], *windows.outputs)).copy()
    for value, place in zip(values, places, strict=True):
        # Padding (place -1) never wins, not even against the lowest value.
        better = ((value > best) | (best_places < 0)) & (place >= 0)
        best = np.where(better, value, best)
        best_places = np.where(better, place, best_places)
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape(*x.shape[:2], *(1,) * len(windows.sizes))
    return best, best_places + planes * inside.size


def _max_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    pooled = _pool_shapes(call, x)
    return pooled, Known(np.dtype(np.int64), pooled.shape)


def _average(call: Call, x: Arr) -> Arr:
    """The mean of each window of x, in the type of x.

    The padding counts in the divisor only with count_include_pad; what ceil_mode adds never does.
    """
    total, windows = window_sums(call, widened(x))
    counts = windows.counts(padding=bool(call.integer("count_include_pad", 0)))
    return np.asarray(total / counts.astype(total.dtype)).astype(x.dtype, copy=False)


def _lp_pool(call: Call, x: Arr) -> Arr:
    """The p-norm of each window."""
    if not call.has("kernel_shape"):  # opset 1 states no default and does not require it
        raise call.error("attribute 'kernel_shape' must be given, not left out", "export the model again")
    powers, p = _powers(call, x)
    total, _ = window_sums(call, powers)
    return np.asarray(total ** (1 / p)).astype(x.dtype, copy=False)


def _powers(call: Call, x: Arr) -> tuple[Arr, float]:
    """The absolute values of x to the power p, and p: a number in operator set 1, an integer from 2 on."""
    p = call.number("p") if call.opset < 2 else call.integer("p")
    if not p > 0:
        raise call.error(f"'p' must be more than 0, not {p}", "export the model again")
    wide = np.abs(widened(x))
    return np.square(wide) if p == 2 else wide**p, p


def _pool_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (*x.shape[:2], *pool_windows(call, x).outputs))


def _global(function: Formula) -> tuple[Kernel, ShapeRule]:
    def kernel(call: Call, x: Arr) -> Arr:
        wide = widened(x)
        return np.asarray(function(wide, axis=_spatial(call, x), keepdims=True)).astype(x.dtype, copy=False)

    return kernel, _global_shapes


def _global_lp(call: Call, x: Arr) -> Arr:
    powers, p = _powers(call, x)
    total = np.sum(powers, axis=_spatial(call, x), keepdims=True)
    return np.asarray(total ** (1 / p)).astype(x.dtype, copy=False)


def _spatial(call: Call, x: Arr | Known) -> tuple[int, ...]:
    if x.ndim < 3 or not math.prod(x.shape[2:]):
        raise call.error(f"the input must have spatial axes with elements, not the shape {list(x.shape)}")
    return tuple(range(2, x.ndim))


def _global_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (*x.shape[:2], *(1 for _ in _spatial(call, x))))


def _unpooled_shape(call: Call, x: Arr | Known, ignore_pads: bool) -> tuple[int, ...]:
    """The shape that a MaxPool of these attributes has made `x` of."""
    kernel, rank = call.integers("kernel_shape"), x.ndim - 2
    strides = call.integers("strides", (1,) * rank)
    pads = (0,) * (2 * rank) if ignore_pads else call.integers("pads", (0,) * (2 * rank))
    if rank < 1 or not len(kernel) == len(strides) == rank or len(pads) != 2 * rank or min(kernel + strides) < 1:
        raise call.error(
            f"'kernel_shape' and 'strides' must be {rank} numbers above 0, one per axis after N and C, "
            f"and 'pads' twice as many, not {list(kernel)}, {list(strides)} and {list(pads)}"
        )
    spatial = (
        (d - 1) * stride - pads[i] - pads[i + rank] + size
        for i, (d, stride, size) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    )
    return (*x.shape[:2], *spatial)


def _unpool_shapes(call: Call, x: Known, indices: Known, output_shape: Known | None = None) -> Known:
    if indices.shape != x.shape:
        raise call.error(f"the indices must have the shape of the input {list(x.shape)}, not {list(indices.shape)}")
    inner = _unpooled_shape(call, x, ignore_pads=output_shape is not None)
    call.check_size(inner, x.dtype)
    if output_shape is None:
        return Known(x.dtype, inner)
    assert output_shape.value is not None  # `constant` of the operator
    outer = integers(output_shape.value)
    if len(outer) != len(inner) or any(o < i for o, i in zip(outer, inner, strict=True)):
        raise call.error(f"the output shape must be {list(inner)} or larger in any axis, not {list(outer)}")
    call.check_size(outer, x.dtype)
    return Known(x.dtype, outer)


def _unpool(call: Call, x: Arr, indices: Arr, output_shape: Arr | None = None) -> Arr:
    """The elements go where the indices say; a larger output shape adds zeros behind the last of each axis."""
    known = None if output_shape is None else Known(output_shape.dtype, output_shape.shape, output_shape)
    shape = _unpool_shapes(call, Known(x.dtype, x.shape), Known(indices.dtype, indices.shape), known).shape
    inner = filled(call, _unpooled_shape(call, x, ignore_pads=output_shape is not None), x.dtype)
    if indices.size and int(indices.min()) < 0:
        raise call.error(f"the indices must be 0 to {inner.size - 1}, not {indices.min()} to {indices.max()}")
    inner.reshape(-1)[checked_indices(call, indices, inner.size).reshape(-1)] = x.reshape(-1)
    if shape == inner.shape:
        return inner
    result = filled(call, shape, x.dtype)
    result[tuple(slice(d) for d in inner.shape)] = inner
    return result


def _col2im_shapes(call: Call, x: Known, image: Known, block: Known) -> Known:
    assert image.value is not None  # `constant` of the operator
    assert block.value is not None
    sizes, kernel = integers(image.value), integers(block.value)
    strides, dilations, pads = _steps(call, len(sizes))
    if not len(sizes) == len(kernel) == len(strides) == len(dilations) or len(pads) != 2 * len(sizes):
        raise call.error(
            f"image shape, block shape, strides and dilations must have one number per axis and pads two, "
            f"not {list(sizes)}, {list(kernel)}, {list(strides)}, {list(dilations)} and {list(pads)}"
        )
    numbers = kernel + strides + dilations
    blocks, elements = math.prod(_counts(call, sizes, kernel)), math.prod(kernel)
    if x.ndim != 3 or min(numbers, default=1) < 1 or x.shape[1] % elements or x.shape[2] != blocks:
        raise call.error(
            f"the input must be [N, C * {elements}, {blocks}] for an image of {list(sizes)} in blocks of "
            f"{list(kernel)}, not {list(x.shape)}"
        )
    shape = (x.shape[0], x.shape[1] // elements, *sizes)
    call.check_size(shape, x.dtype)
    return Known(x.dtype, shape)


def _steps(call: Call, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    ones, zeros = (1,) * rank, (0,) * (2 * rank)
    return call.integers("strides", ones), call.integers("dilations", ones), call.integers("pads", zeros)


def _counts(call: Call, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> list[int]:
    """The number of blocks in each axis of the padded image."""
    strides, dilations, pads = _steps(call, len(sizes))
    rank = len(sizes)
    room = [n + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1 for i, n in enumerate(sizes)]
    return [max(0, r // max(s, 1) + 1) for r, s in zip(room, strides, strict=True)]


def _col2im(call: Call, x: Arr, image: Arr, block: Arr) -> Arr:
    """Blocks [N, C * block, number] added up where they lie over each other in the image."""
    known = (Known(a.dtype, a.shape, a) for a in (x, image, block))
    shape = _col2im_shapes(call, *known).shape
    if x.dtype.kind == "O":
        raise call.error("the elements must be numbers, not texts: what lies over each other is added")
    if 0 in x.shape:
        return filled(call, shape, x.dtype)
    kernel, sizes, rank = integers(block), shape[2:], len(shape) - 2
    counts = _counts(call, sizes, kernel)
    strides, dilations, pads = _steps(call, rank)
    padded = filled(call, (*shape[:2], *(n + pads[i] + pads[i + rank] for i, n in enumerate(sizes))), x.dtype)
    call.work(x.size)
    columns = x.reshape(*shape[:2], math.prod(kernel), *counts)
    for number, offset in enumerate(itertools.product(*map(range, kernel))):
        begins = [o * d for o, d in zip(offset, dilations, strict=True)]
        place = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, counts, strides, strict=True)]
        padded[(slice(None), slice(None), *place)] += columns[:, :, number]
    return padded[(slice(None), slice(None), *(slice(pads[i], pads[i] + n) for i, n in enumerate(sizes)))]


OPERATORS: Table = {
    ("", "MaxPool"): (Operator(1, _max_pool, _max_shapes),),
    ("", "AveragePool"): (Operator(1, _average, _pool_shapes),),
    ("", "LpPool"): (Operator(1, _lp_pool, _pool_shapes),),
    ("", "GlobalAveragePool"): (Operator(1, *_global(np.mean)),),
    ("", "GlobalMaxPool"): (Operator(1, *_global(np.max)),),
    ("", "GlobalLpPool"): (Operator(1, _global_lp, _global_shapes),),
    ("", "MaxUnpool"): (Operator(9, _unpool, _unpool_shapes, constant=(2,)),),
    ("", "Col2Im"): (Operator(18, _col2im, _col2im_shapes, constant=(1, 2)),),
}
