"""Operators that put pieces back into images: MaxUnpool and Col2Im."""

from __future__ import annotations

import itertools
import math

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.elements import checked_indices, filled, integers


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
    ("", "MaxUnpool"): (Operator(9, _unpool, _unpool_shapes, constant=(2,)),),
    ("", "Col2Im"): (Operator(18, _col2im, _col2im_shapes, constant=(1, 2)),),
}
