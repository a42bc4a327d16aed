"""Where the elements of an ONNX tensor are in its frame.

Elements that change places become a frame of their own, by the three tables of a Rearrange.  For channels in another
order between layers no element moves: the next layer's weights are put into that order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.rearrange import Offsets
from hwflow.layers.window import Window
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.window import count_of, extent_of, same_pads
from hwflow.quantize.graphs import as_ints, attribute
from hwflow.quantize.importer.states import image_index

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


def padding_of(node: Node, graph: Graph) -> float:
    """The value of a moving node's result where it holds no element of the input."""
    if node.op_type == "Resize":
        return attribute(node, "extrapolation_value", 0.0)
    if node.op_type != "Pad":
        return 0.0
    fill = graph.initializers.get(node.input(2))
    return attribute(node, "value", 0.0) if fill is None or not fill.size else float(fill.reshape(-1)[0])


def is_whole(index: IntArray, frame: Frame) -> bool:
    """True if `index` has every element of the frame once."""
    flat = index.ravel()
    if flat.size != frame.elements or (flat < 0).any():
        return False
    return bool((np.bincount(flat, minlength=frame.elements) == 1).all())


def in_vectors(index: IntArray, frame: Frame) -> bool:
    """True if the elements along some axis of a tensor with `index` are the channels of a pixel, in any order."""
    return any(
        size == frame.channels
        and (np.ptp(np.moveaxis(index, axis, -1).reshape(-1, size) // size, axis=1) == 0).all()
        for axis, size in enumerate(index.shape)
    )


def places(
    index: IntArray, flat: bool = False, pixels: tuple[int, ...] | None = None
) -> tuple[Frame, IntArray, IntArray]:
    """How a tensor with `index` becomes a frame of its own.

    The frame: that of an image [1, C, H, W], [1, C, W] or [1, C], else one row (`flat`: in any case, and then in the
    order of the image's raster; `pixels`: the elements along these axes are the pixels, and those along the others the
    channels); the element at each of its places [h, w, c]; and the index that the tensor then has.
    """
    frame = frame_of(index.shape)
    if pixels is not None:
        frame, own = _by_axes(index.shape, pixels)
    elif frame is None:
        frame = Frame(1, 1, index.size)
        own = np.arange(index.size, dtype=np.int64).reshape(index.shape)
    else:
        own = image_index(frame, index.ndim)
    if flat:
        frame = Frame(1, 1, index.size)
    order = np.empty(frame.elements, np.int64)
    order[own.ravel()] = index.ravel()
    return frame, order.reshape(frame.height, frame.width, frame.channels), own


def _by_axes(shape: tuple[int, ...], pixels: tuple[int, ...]) -> tuple[Frame, IntArray]:
    """A frame of one row whose pixels are the elements along the axes `pixels`, and the index of a tensor in it."""
    order = (*(k for k in range(len(shape)) if k not in pixels), *pixels)
    width = int(np.prod([shape[k] for k in pixels], dtype=np.int64))
    raster = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(width, -1)
    own = raster.T.reshape([shape[k] for k in order]).transpose(np.argsort(order))
    return Frame(1, width, raster.shape[1]), np.ascontiguousarray(own)


def offsets(order: IntArray) -> Offsets | None:
    """The tables that give `order` [h, w, c], whose entries are places of the source or -1; None where none do."""
    there = order >= 0
    along = [np.asarray(there.any(axis=axes)) for axes in ((1, 2), (0, 2), (0, 1))]
    if not there.any():
        return Offsets(*(np.full(size, -1, np.int64) for size in order.shape))
    r, c, k = (int(np.argmax(valid)) for valid in along)
    columns, channels = order[r, :, k].copy(), order[r, c].copy()
    columns -= columns[along[1]].min()  # no entry is below 0, because -1 stands for padding
    channels -= channels[along[2]].min()
    rows = order[:, c, k] - columns[c] - channels[k]
    rows, columns, channels = (
        np.where(valid, line, -1) for valid, line in zip(along, (rows, columns, channels), strict=True)
    )
    inside = along[0][:, None, None] & along[1][:, None] & along[2]
    result = np.where(inside, rows[:, None, None] + columns[:, None] + channels, -1)
    return Offsets(rows, columns, channels) if np.array_equal(result, order) else None


def channel_order(frame: Frame, index: IntArray) -> IntArray:
    """For each channel of an ONNX image [1, C, W] or [1, C, H, W] with this `index`, the channel of the frame.

    ValueError where it is no such image, or elements other than whole channels have changed places.
    """
    if index.ndim not in (3, 4) or (index.ndim == 3 and frame.height != 1):
        raise ValueError(f"its input must be [1, C, H, W] or [1, C, W], not {list(index.shape)}")
    straight = image_index(frame, index.ndim)
    if index.shape == straight.shape:
        order: IntArray = index.reshape(frame.channels, -1)[:, 0] % frame.channels
        if np.array_equal(index, straight[:, order]) and len(np.unique(order)) == frame.channels:
            return order
    raise Refusal(
        f"its input is a frame {frame} whose elements a Transpose or Reshape has put into another order "
        f"({list(index.shape)})", "between such layers the order must stay [1, C, H, W]"
    )


def pixel_places(frame: Frame, index: IntArray) -> tuple[IntArray, IntArray] | None:
    """For each channel of an ONNX tensor [1, C, ...] the channel of `frame`, and for each of its places the pixel.

    None where it does not have every element of the frame once, in whole pixels.
    """
    if index.ndim < 2 or index.shape[:2] != (1, frame.channels) or index.size != frame.elements:
        return None
    flat = index.reshape(frame.channels, -1)
    order, pixels = flat[:, 0] % frame.channels, flat[0] // frame.channels
    whole = np.array_equal(flat, pixels * frame.channels + order[:, None])
    once = len(np.unique(order)) == len(order) and len(np.unique(pixels)) == len(pixels)
    return (order, pixels) if whole and once and flat.min() >= 0 else None


def ordered_weights(weights: IntArray, groups: int, order: IntArray) -> tuple[IntArray, int, IntArray]:
    """Weights [cout, kh, kw, cin / groups] of a Conv whose input channel c is channel order[c] of its frame.

    The weights in the order of the frame, their groups, and the place of each output channel.  Depthwise ones take
    their outputs along; other groups become one, with zeros, because their channels may be anywhere.
    """
    cout, height, width, depth = weights.shape
    straight = np.arange(cout, dtype=np.int64)
    if np.array_equal(order, np.arange(len(order))):
        return weights, groups, straight
    per = cout // groups
    if depth == 1 and groups > 1:
        places = order[straight // per] * per + straight % per
        moved = np.empty_like(weights)
        moved[places] = weights
        return moved, groups, places
    whole: npt.NDArray[np.int64] = np.zeros((cout, height, width, len(order)), np.int64)
    for group in range(groups):
        rows = slice(group * per, (group + 1) * per)
        whole[rows][..., order[group * depth : (group + 1) * depth]] = weights[rows]
    return whole, 1, straight
