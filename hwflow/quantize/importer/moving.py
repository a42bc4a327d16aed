"""Elements that change places: how they become a frame of their own, and the three tables of a Rearrange."""

from __future__ import annotations

import numpy as np

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.rearrange import Offsets
from hwflow.onnx.model import Graph, Node
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.geometry import frame_of
from hwflow.quantize.importer.states import image_index


def padding_of(node: Node, graph: Graph) -> float:
    """The value of a moving node's result where it holds no element of the input."""
    if node.op_type == "Resize":
        return attribute(node, "extrapolation_value", 0.0)
    if node.op_type != "Pad":
        return 0.0
    fill = graph.initializers.get((*node.inputs, "", "")[2])
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
    found = np.empty(frame.elements, np.int64)
    found[own.ravel()] = index.ravel()
    return frame, found.reshape(frame.height, frame.width, frame.channels), own


def _by_axes(shape: tuple[int, ...], pixels: tuple[int, ...]) -> tuple[Frame, IntArray]:
    """A frame of one row whose pixels are the elements along the axes `pixels`, and the index of a tensor in it."""
    order = (*(k for k in range(len(shape)) if k not in pixels), *pixels)
    width = int(np.prod([shape[k] for k in pixels], dtype=np.int64))
    raster = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(width, -1)
    own = raster.T.reshape([shape[k] for k in order]).transpose(np.argsort(order))
    return Frame(1, width, raster.shape[1]), np.ascontiguousarray(own)


def offsets(wanted: IntArray) -> Offsets | None:
    """The tables that give `wanted` [h, w, c], whose entries are places of the source or -1; None where none do."""
    there = wanted >= 0
    along = [np.asarray(there.any(axis=axes)) for axes in ((1, 2), (0, 2), (0, 1))]
    if not there.any():
        return Offsets(*(np.full(size, -1, np.int64) for size in wanted.shape))
    r, c, k = (int(np.argmax(valid)) for valid in along)
    columns, channels = wanted[r, :, k].copy(), wanted[r, c].copy()
    columns -= columns[along[1]].min()  # no entry is below 0, because -1 stands for padding
    channels -= channels[along[2]].min()
    rows = wanted[:, c, k] - columns[c] - channels[k]
    rows, columns, channels = (
        np.where(valid, line, -1) for valid, line in zip(along, (rows, columns, channels), strict=True)
    )
    inside = along[0][:, None, None] & along[1][:, None] & along[2]
    made = np.where(inside, rows[:, None, None] + columns[:, None] + channels, -1)
    return Offsets(rows, columns, channels) if np.array_equal(made, wanted) else None
