"""Geometry of sliding windows, shared by convolution and pooling of any number of spatial axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np

from hwflow.onnx.ops.base import Arr, Call
from hwflow.onnx.window import AUTO_PADS, count_of, extent_of, same_pads


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial axes; one entry per axis in each field.

    `pads` are the (begin, end) that count as padding; `extra` is what rounding up the output size adds behind them.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]

    @property
    def extra(self) -> tuple[int, ...]:
        """Elements that the last window needs beyond size and padding, at least 0."""
        return tuple(
            max(0, (o - 1) * s + (k - 1) * d + 1 - (n + sum(p)))
            for n, k, s, d, p, o in zip(
                self.sizes, self.kernel, self.strides, self.dilations, self.pads, self.outputs, strict=True
            )
        )

    def pad(self, call: Call, x: Arr, fill: object) -> Arr:
        """x [..., *sizes] with padding and extra elements of the value `fill`."""
        widths = [(begin, end + extra) for (begin, end), extra in zip(self.pads, self.extra, strict=True)]
        if not any(map(any, widths)):
            return x
        lead = x.shape[: x.ndim - len(widths)]
        shape = (*lead, *(n + sum(w) for n, w in zip(self.sizes, widths, strict=True)))
        call.check_size(shape, x.dtype)
        padded = np.full(shape, fill, x.dtype)
        inner = (slice(w[0], w[0] + n) for n, w in zip(self.sizes, widths, strict=True))
        index: tuple[EllipsisType | slice, ...] = (..., *inner)
        padded[index] = x
        return padded

    def taps(self, padded: Arr, positions: Sequence[range] = ()) -> Iterator[Arr]:
        """For each position in the kernel (or each of `positions`), a view [..., *outputs] of the elements it meets."""
        for position in itertools.product(*(positions or map(range, self.kernel))):
            index: tuple[EllipsisType | slice, ...] = (..., *(self.along(axis, p) for axis, p in enumerate(position)))
            yield padded[index]

    @property
    def meeting(self) -> tuple[range, ...]:
        """The positions in the kernel that meet the input at all, at least one of each axis; others meet padding."""
        ranges = []
        for n, k, s, d, (begin, _), o in zip(
            self.sizes, self.kernel, self.strides, self.dilations, self.pads, self.outputs, strict=True
        ):
            first = max(0, -(((o - 1) * s - begin) // d))
            last = min(k - 1, (begin + n - 1) // d)
            ranges.append(range(first, last + 1) if first <= last else range(1))
        return tuple(ranges)

    def along(self, axis: int, position: int) -> slice:
        """The elements of one padded axis that meet a position of the kernel, one for each output."""
        start = position * self.dilations[axis]
        return slice(start, start + (self.outputs[axis] - 1) * self.strides[axis] + 1, self.strides[axis])

    def reduce(self, function: np.ufunc, padded: Arr) -> Arr:
        """All windows reduced to [..., *outputs], axis by axis, by a function that the padding does not change."""
        rank = len(self.kernel)
        for axis, (first, *others) in enumerate(self.meeting):
            planes = np.moveaxis(padded, padded.ndim - rank + axis, 0)
            result = planes[self.along(axis, first)]
            for position in others:
                result = function(result, planes[self.along(axis, position)])
            padded = np.moveaxis(result, 0, padded.ndim - rank + axis)
        return padded

    def gather(self, padded: Arr) -> Arr:
        """All windows as a view [..., *kernel, *outputs] of a padded array (of a copy where it is not contiguous)."""
        padded = np.ascontiguousarray(padded)
        rank = len(self.kernel)
        steps = padded.strides[-rank:]
        inner = tuple(step * d for step, d in zip(steps, self.dilations, strict=True))
        outer = tuple(step * s for step, s in zip(steps, self.strides, strict=True))
        shape = padded.shape[:-rank] + self.kernel + self.outputs
        # The constructor checks that the view stays inside of the array.
        return np.ndarray(shape, padded.dtype, padded.data, strides=padded.strides[:-rank] + inner + outer)

    def counts(self, *, padding: bool) -> Arr:
        """How many elements of the input (and its padding) each window holds, as float64[*outputs]."""
        total = np.ones((), np.int64)
        for axis, (n, (begin, end)) in enumerate(zip(self.sizes, self.pads, strict=True)):
            low, high = (0, begin + n + end) if padding else (begin, begin + n)
            starts = np.arange(self.outputs[axis]) * self.strides[axis]
            first = np.maximum(0, -((starts - low) // self.dilations[axis]))
            last = np.minimum(self.kernel[axis] - 1, (high - 1 - starts) // self.dilations[axis])
            total = np.multiply.outer(total, np.maximum(0, last - first + 1))
        return np.asarray(total, np.float64)


def windows_of(call: Call, sizes: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows that a node's attributes describe: strides, dilations, pads or auto_pad, ceil_mode."""
    rank = len(sizes)
    strides = per_axis(call, "strides", rank, 1)
    dilations = per_axis(call, "dilations", rank, 1)
    extents = [extent_of(k, d) for k, d in zip(kernel, dilations, strict=True)]
    auto = call.text("auto_pad", "NOTSET")
    require_known(call, auto)
    if auto.startswith("SAME"):
        pads = [same_pads(n, e, s, auto) for n, e, s in zip(sizes, extents, strides, strict=True)]
    else:
        begins_ends = per_axis(call, "pads", 2 * rank, 0) if auto == "NOTSET" else (0,) * (2 * rank)
        pads = list(zip(begins_ends[:rank], begins_ends[rank:], strict=True))
    ceil = bool(call.integer("ceil_mode", 0))
    outputs = tuple(count_of(n, e, s, p, ceil) for n, e, s, p in zip(sizes, extents, strides, pads, strict=True))
    if min(outputs, default=1) < 1:
        raise call.error(f"the kernel {list(kernel)} must fit into the padded input, not exceed its size {list(sizes)}")
    return Windows(tuple(sizes), tuple(kernel), strides, dilations, tuple(pads), outputs)


def require_known(call: Call, auto_pad: str) -> None:
    """Refuse an `auto_pad` that ONNX does not have."""
    if auto_pad not in AUTO_PADS:
        raise call.error(f"'auto_pad' must be {', '.join(AUTO_PADS[:-1])} or {AUTO_PADS[-1]}, not {auto_pad!r}")


def per_axis(call: Call, name: str, count: int, low: int) -> tuple[int, ...]:
    """An attribute of `count` numbers, each `low` (the default) or more; an empty list counts as none."""
    values = call.integers(name, ()) or (low,) * count
    if len(values) != count or min(values) < low:
        raise call.error(f"'{name}' must be {count} numbers of {low} or more, not {list(values)}")
    return values
