"""Windows of Conv and pooling nodes: kernel, strides, dilations and pads as numbers, however the node says them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers.formats import Frame
from hwflow.layers.window import Window
from hwflow.onnx.model import Node
from hwflow.onnx.window import count_of, extent_of, same_pads
from hwflow.quantize.graphs import as_ints, attribute

#: Elements of a window along one axis, and what they count in the divisor of its mean.
Count: TypeAlias = tuple[int, int]


def frame_of(shape: tuple[int, ...]) -> Frame | None:
    """The frame of an ONNX tensor [1, C], [1, C, W] or [1, C, H, W]; None for other ranks or more than one row."""
    if not 2 <= len(shape) <= 4 or shape[0] != 1:
        return None
    height, width = (1, 1, *shape[2:])[-2:]
    return Frame(height, width, shape[1])


def window_of(node: Node, kernel: tuple[int, ...], frame: Frame) -> Window:
    """The window of `node` over `frame`.  ValueError, in words for the user, where it has none."""
    rank = len(kernel)

    def numbers(key: str, default: int) -> tuple[int, ...]:
        stated = as_ints(node.attributes.get(key, (default,) * rank))
        return (1,) * (2 - rank) + stated

    full = (1,) * (2 - rank) + kernel
    strides, dilations = numbers("strides", 1), numbers("dilations", 1)
    pads = _pads(node, full, strides, dilations, frame, rank)
    if min(pads) < 0:
        raise ValueError(f"pads must not be negative, not {list(pads)}")
    window = Window(_pair(full), _pair(strides), _pair(dilations), (pads[0], pads[1], pads[2], pads[3]))
    window.positions(frame)
    return window


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]


def _pads(
    node: Node, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], frame: Frame, rank: int
) -> tuple[int, ...]:
    """(top, left, bottom, right), with the rows and columns that ceil_mode adds at the end."""
    mode = attribute(node, "auto_pad", "NOTSET")
    stated = as_ints(node.attributes.get("pads", (0,) * (2 * rank)))
    begins, ends = [0] * (2 - rank) + list(stated[:rank]), [0] * (2 - rank) + list(stated[rank:])
    for axis, size in enumerate((frame.height, frame.width)):
        extent, stride = extent_of(kernel[axis], dilations[axis]), strides[axis]
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            begins[axis], ends[axis] = same_pads(size, extent, stride, mode)
        elif mode == "VALID":
            begins[axis] = ends[axis] = 0
        if attribute(node, "ceil_mode", 0):
            pads = begins[axis], ends[axis]
            last = (count_of(size, extent, stride, pads, ceil=True) - 1) * stride
            ends[axis] += max(last + extent - size - sum(pads), 0)
    return (*begins, *ends)


def counts(node: Node, window: Window, frame: Frame) -> tuple[list[Count], list[Count]]:
    """The counts of the mean of each window of an AveragePool, for each row and each column of the result: (elements,
    divisor).

    The elements of a window are those inside the frame; the divisor counts the padding, too, with count_include_pad 1,
    but never what ceil_mode adds.  ValueError where a window has no element.
    """
    stated = replace(node, attributes={**node.attributes, "ceil_mode": 0})
    rank = len(as_ints(node.attributes["kernel_shape"]))
    pads = _pads(stated, window.kernel, window.strides, window.dilations, frame, rank)
    include = bool(attribute(node, "count_include_pad", 0))
    axes = []
    for axis, (size, positions) in enumerate(zip((frame.height, frame.width), window.positions(frame), strict=True)):
        starts = np.arange(positions)[:, None] * window.strides[axis] - window.pads[axis]
        taps = starts + np.arange(window.kernel[axis]) * window.dilations[axis]
        elements = ((taps >= 0) & (taps < size)).sum(axis=1)
        divisor = (taps < size + pads[axis + 2]).sum(axis=1) if include else elements
        if not elements.all():
            raise Refusal("a window lies in the padding alone, and has no mean", "use smaller pads")
        axes.append([(int(e), int(d)) for e, d in zip(elements, divisor, strict=True)])
    return axes[0], axes[1]
