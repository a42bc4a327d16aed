"""Operators that give the same elements another shape or order."""

from __future__ import annotations

import math

from hwflow.onnx.ops.base import Arr, Call, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import as_first, by_running, checked_axes, integers


def _identity(call: Call, x: Arr) -> Arr:
    return x


def _flatten(call: Call, x: Arr) -> Arr:
    """Two axes: those before `axis` and those from it on.  `axis` may be the rank itself."""
    axis = call.integer("axis")
    if axis != x.ndim:
        axis = axis_in(call, axis, x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _reshape_1(call: Call, x: Arr) -> Arr:
    """The shape is an attribute; left out it is that of a scalar."""
    return _reshaped(call, x, call.integers("shape", ()))


def _reshape(call: Call, x: Arr, shape: Arr) -> Arr:
    return _reshaped(call, x, integers(shape))


def _reshaped(call: Call, x: Arr, shape: tuple[int, ...]) -> Arr:
    """-1 is computed; 0 keeps the input's dim, or with allowzero is a 0."""
    sizes = list(shape)
    if not call.integer("allowzero", 0):
        if 0 in sizes[x.ndim :]:
            raise call.error(f"0 in the new shape must stand for a dim of {list(x.shape)}, not be in {sizes}")
        sizes = [x.shape[i] if d == 0 else d for i, d in enumerate(sizes)]
    known = math.prod(d for d in sizes if d != -1)
    open_dims = sizes.count(-1)
    fits = known > 0 and x.size % known == 0 if open_dims else known == x.size
    if open_dims > 1 or min(sizes, default=0) < -1 or not fits:
        raise call.error(f"the new shape must keep {x.size} elements, not be {sizes} for an input of {list(x.shape)}")
    return x.reshape(sizes)


def _transpose(call: Call, x: Arr) -> Arr:
    perm = call.integers("perm", tuple(reversed(range(x.ndim))))
    if sorted(perm) != list(range(x.ndim)):
        raise call.error(f"'perm' must hold 0 to {x.ndim - 1} once each, not {list(perm)}")
    return x.transpose(perm)


def _given_axes(call: Call, axes: Arr | None) -> tuple[int, ...] | None:
    """The axes of the attribute (before operator set 13) or of the second input."""
    if axes is not None:
        return integers(axes)
    return call.integers("axes") if call.has("axes") else None


def _squeeze(call: Call, x: Arr, axes: Arr | None = None) -> Arr:
    """Without axes, every axis of one element goes; an empty list of axes removes none."""
    stated = _given_axes(call, axes)
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    chosen = set(ones if stated is None else checked_axes(call, stated, x.ndim))
    if any(x.shape[a] != 1 for a in chosen):
        raise call.error(f"the axes to remove must have 1 element, not the axes {sorted(chosen)} of {list(x.shape)}")
    return x.reshape([d for i, d in enumerate(x.shape) if i not in chosen])


def _unsqueeze(call: Call, x: Arr, axes: Arr | None = None) -> Arr:
    stated = _given_axes(call, axes)
    if stated is None:
        raise call.error("attribute 'axes' must be given, not left out", "export the model again")
    rank = x.ndim + len(stated)
    chosen = set(checked_axes(call, stated, rank))
    rest = iter(x.shape)
    return x.reshape([1 if i in chosen else next(rest) for i in range(rank)])


def _blocks(call: Call, x: Arr) -> tuple[int, bool]:
    """The size of the blocks, and whether the depth in the blocks comes before their position (DCR)."""
    size, mode = call.integer("blocksize"), call.text("mode", "DCR")
    if x.ndim != 4 or size < 1 or mode not in ("DCR", "CRD"):
        raise call.error(
            f"the input must be [N, C, H, W] with a 'blocksize' of 1 or more and mode DCR or CRD, "
            f"not {list(x.shape)} with {size} and {mode!r}"
        )
    return size, mode == "DCR"


def _depth_to_space(call: Call, x: Arr) -> Arr:
    size, depth_first = _blocks(call, x)
    n, c, h, w = x.shape
    if c % size**2:
        raise call.error(f"the channels must be a multiple of {size**2}, not {c}")
    inner = c // size**2
    if depth_first:
        moved = x.reshape(n, size, size, inner, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(n, inner, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(n, inner, h * size, w * size)


def _space_to_depth(call: Call, x: Arr) -> Arr:
    """The inverse of DepthToSpace."""
    size, depth_first = _blocks(call, x)
    n, c, h, w = x.shape
    if h % size or w % size:
        raise call.error(f"the height and width must be multiples of {size}, not {h} and {w}")
    split = x.reshape(n, c, h // size, size, w // size, size)
    moved = split.transpose(0, 3, 5, 1, 2, 4) if depth_first else split.transpose(0, 1, 3, 5, 2, 4)
    return moved.reshape(n, c * size**2, h // size, w // size)


OPERATORS: Table = {
    ("", "Identity"): (Operator(1, _identity, as_first),),
    ("", "Flatten"): (Operator(1, _flatten, by_running(_flatten)),),
    ("", "Reshape"): (
        Operator(1, _reshape_1, by_running(_reshape_1)),
        Operator(5, _reshape, by_running(_reshape), constant=(1,)),
    ),
    ("", "Transpose"): (Operator(1, _transpose, by_running(_transpose)),),
    ("", "Squeeze"): (
        Operator(1, _squeeze, by_running(_squeeze)),
        Operator(13, _squeeze, by_running(_squeeze), constant=(1,)),
    ),
    ("", "Unsqueeze"): (
        Operator(1, _unsqueeze, by_running(_unsqueeze)),
        Operator(13, _unsqueeze, by_running(_unsqueeze), constant=(1,)),
    ),
    ("", "DepthToSpace"): (Operator(1, _depth_to_space, by_running(_depth_to_space)),),
    ("", "SpaceToDepth"): (Operator(1, _space_to_depth, by_running(_space_to_depth)),),
}
