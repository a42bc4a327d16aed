"""Geometry of sliding windows, shared by convolution and pooling of any number of spatial axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwflow.onnx.ops.base import Arr, Call

__all__ = ["Windows", "windows_of"]


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

    def pad(self, x: Arr, fill: object) -> Arr:
        """x [..., *sizes] with padding and extra elements of the value `fill`."""
        widths = [(begin, end + extra) for (begin, end), extra in zip(self.pads, self.extra, strict=True)]
        if not any(map(any, widths)):
            return x
        lead = x.ndim - len(widths)
        return np.pad(x, [(0, 0)] * lead + widths, constant_values=fill)  # type: ignore[call-overload,no-any-return]

    def taps(self, padded: Arr) -> Iterator[Arr]:
        """For each position in the kernel, a view [..., *outputs] of the elements that meet it."""
        for position in np.ndindex(*self.kernel):
            index: tuple[Any, ...] = tuple(
                slice(p * d, p * d + (o - 1) * s + 1, s)
                for p, d, o, s in zip(position, self.dilations, self.outputs, self.strides, strict=True)
            )
            yield padded[(..., *index)]

    def gather(self, padded: Arr) -> Arr:
        """All windows as a view [..., *kernel, *outputs] of a padded array."""
        rank = len(self.kernel)
        lead, steps = padded.shape[:-rank], padded.strides[-rank:]
        inner = tuple(step * d for step, d in zip(steps, self.dilations, strict=True))
        outer = tuple(step * s for step, s in zip(steps, self.strides, strict=True))
        return np.lib.stride_tricks.as_strided(
            padded, lead + self.kernel + self.outputs, padded.strides[:-rank] + inner + outer, writeable=False
        )


def windows_of(call: Call, sizes: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows that a node's attributes describe: strides, dilations, pads or auto_pad, ceil_mode."""
    rank = len(sizes)
    strides = _per_axis(call, "strides", rank)
    dilations = _per_axis(call, "dilations", rank)
    auto = call.text("auto_pad", "NOTSET")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = [_same(n, e, s, auto) for n, e, s in zip(sizes, extents, strides, strict=True)]
    elif auto in ("NOTSET", "VALID"):
        given = call.integers("pads", (0,) * (2 * rank)) if auto == "NOTSET" else (0,) * (2 * rank)
        if len(given) != 2 * rank or min(given) < 0:
            raise call.error(f"'pads' must be {2 * rank} numbers of 0 or more, not {list(given)}")
        pads = list(zip(given[:rank], given[rank:], strict=True))
    else:
        raise call.error(f"'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {auto!r}")
    ceil = bool(call.integer("ceil_mode", 0))
    outputs = tuple(_output(n, e, s, p, ceil) for n, e, s, p in zip(sizes, extents, strides, pads, strict=True))
    if min(outputs, default=1) < 1:
        raise call.error(f"the kernel {list(kernel)} must fit into the padded input, not exceed its size {list(sizes)}")
    return Windows(tuple(sizes), tuple(kernel), strides, dilations, tuple(pads), outputs)


def _per_axis(call: Call, name: str, rank: int) -> tuple[int, ...]:
    values = call.integers(name, (1,) * rank)
    if len(values) != rank or min(values) < 1:
        raise call.error(f"'{name}' must be {rank} numbers of 1 or more, not {list(values)}")
    return values


def _same(size: int, extent: int, stride: int, auto: str) -> tuple[int, int]:
    """Padding for an output of ceil(size / stride); an odd element goes to the end, or with SAME_LOWER to the front."""
    total = max(0, (-(-size // stride) - 1) * stride + extent - size)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def _output(size: int, extent: int, stride: int, pads: tuple[int, int], ceil: bool) -> int:
    room = size + sum(pads) - extent
    if not ceil or room < 0:
        return room // stride + 1
    count = -(-room // stride) + 1
    # A window must start on the input or its padding in front, not in the padding behind.
    return count - 1 if (count - 1) * stride >= size + pads[0] else count
