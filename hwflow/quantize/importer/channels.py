"""Channels in another order between layers: no element moves; the next layer's weights are put into that order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.formats import Frame, IntArray
from hwflow.quantize.importer.states import image_index


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
