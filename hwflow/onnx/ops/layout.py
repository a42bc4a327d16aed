"""Operators that give the same elements another shape or order."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import ANY, FLOAT, INT, INTS, Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import as_first, by_running

__all__ = ["OPERATORS"]


def _identity(call: Call, x: Arr) -> Arr:
    return x


def _dropout(call: Call, x: Arr, ratio: Arr | None = None, training: Arr | None = None) -> Arr | tuple[Arr, Arr]:
    """Inference: the input unchanged, and a mask that keeps everything."""
    if training is not None and bool(training.any()):
        raise call.error("'training_mode' must be false, not true; export the model for inference")
    if not call.wants(1):
        return x
    return x, np.broadcast_to(np.ones((), np.bool_ if call.opset >= 10 else x.dtype), x.shape)


def _dropout_shapes(call: Call, x: Known, *others: Known | None) -> tuple[Known, ...]:
    mask = Known(np.dtype(np.bool_) if call.opset >= 10 else x.dtype, x.shape)
    return (Known(x.dtype, x.shape), mask) if call.wants(1) else (Known(x.dtype, x.shape),)


def _flatten(call: Call, x: Arr) -> Arr:
    """Two axes: those before `axis` and those from it on.  `axis` may be the rank itself."""
    axis = call.integer("axis", 1)
    if axis != x.ndim:
        axis = axis_in(call, axis, x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _reshape(call: Call, x: Arr, shape: Arr) -> Arr:
    """-1 is computed; 0 keeps the input's dim, or with allowzero is a 0."""
    wanted = [int(d) for d in shape.reshape(-1)]
    if not call.integer("allowzero", 0):
        wanted = [x.shape[i] if d == 0 and i < x.ndim else d for i, d in enumerate(wanted)]
    known = math.prod(d for d in wanted if d != -1)
    open_dims = wanted.count(-1)
    fits = known > 0 and x.size % known == 0 if open_dims else known == x.size
    if open_dims > 1 or min(wanted, default=0) < -1 or not fits:
        raise call.error(f"the new shape must keep {x.size} elements, not be {wanted} for an input of {list(x.shape)}")
    return x.reshape(wanted)


def _transpose(call: Call, x: Arr) -> Arr:
    perm = call.integers("perm", tuple(reversed(range(x.ndim))))
    if sorted(perm) != list(range(x.ndim)):
        raise call.error(f"'perm' must hold 0 to {x.ndim - 1} once each, not {list(perm)}")
    return x.transpose(perm)


def _given_axes(call: Call, axes: Arr | None) -> tuple[int, ...] | None:
    """The axes of the attribute (before operator set 13) or of the second input."""
    if axes is not None:
        return tuple(int(a) for a in axes.reshape(-1))
    return call.integers("axes") if call.has("axes") else None


def _squeeze(call: Call, x: Arr, axes: Arr | None = None) -> Arr:
    given = _given_axes(call, axes)
    chosen = {axis_in(call, a, x.ndim) for a in given} if given else {i for i, d in enumerate(x.shape) if d == 1}
    if any(x.shape[a] != 1 for a in chosen):
        raise call.error(f"the axes to remove must have 1 element, not the axes {sorted(chosen)} of {list(x.shape)}")
    return x.reshape([d for i, d in enumerate(x.shape) if i not in chosen])


def _unsqueeze(call: Call, x: Arr, axes: Arr | None = None) -> Arr:
    given = _given_axes(call, axes)
    if given is None:
        raise call.error("attribute 'axes' must be given, not left out; export the model again")
    rank = x.ndim + len(given)
    chosen = {axis_in(call, a, rank) for a in given}
    if len(chosen) != len(given):
        raise call.error(f"'axes' must name each axis once, not be {list(given)}")
    rest = iter(x.shape)
    return x.reshape([1 if i in chosen else next(rest) for i in range(rank)])


def _expand(call: Call, x: Arr, shape: Arr) -> Arr:
    wanted = tuple(int(d) for d in shape.reshape(-1))
    try:
        result = np.broadcast_shapes(x.shape, wanted)
    except ValueError:
        raise call.error(f"the shape must be one that {list(x.shape)} broadcasts to, not {list(wanted)}") from None
    call.check_size(result, x.dtype)
    return np.broadcast_to(x, result)


def _concat(call: Call, *parts: Arr) -> Arr:
    _concat_shapes(call, *(Known(p.dtype, p.shape) for p in parts))
    return np.concatenate(parts, axis=call.integer("axis"))


def _concat_shapes(call: Call, *parts: Known) -> Known:
    first = parts[0]
    axis = axis_in(call, call.integer("axis"), first.ndim)
    rests = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts}
    if len(rests) != 1 or any(p.ndim != first.ndim for p in parts):
        listed = " and ".join(str(list(p.shape)) for p in parts)
        raise call.error(f"the shapes must be equal except in axis {axis}, not {listed}")
    total = sum(p.shape[axis] for p in parts)
    return Known(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _split(call: Call, x: Arr, sizes: Arr | None = None) -> tuple[Arr, ...]:
    """Into parts of the given sizes (attribute before operator set 13), else into equal ones, the last the smallest."""
    axis = axis_in(call, call.integer("axis", 0), x.ndim)
    given = [int(s) for s in sizes.reshape(-1)] if sizes is not None else list(call.integers("split", ()))
    count = len(call.node.outputs)
    if not given:
        part = -(-x.shape[axis] // count)
        given = [max(0, min(part, x.shape[axis] - i * part)) for i in range(count)]
    if len(given) != count or sum(given) != x.shape[axis] or min(given) < 0:
        raise call.error(f"the parts must be {count} sizes that add up to {x.shape[axis]}, not {given}")
    return tuple(np.split(x, np.cumsum(given)[:-1].tolist(), axis=axis))


_AXES = {"axes": INTS}

OPERATORS: Table = {
    ("", "Identity"): (Operator(1, _identity, as_first),),
    ("", "Dropout"): (
        Operator(7, _dropout, _dropout_shapes, attributes={"ratio": FLOAT}, outputs=(1, 2)),
        Operator(12, _dropout, _dropout_shapes, (1, 3), {"seed": INT}, outputs=(1, 2)),
    ),
    ("", "Flatten"): (Operator(1, _flatten, by_running(_flatten), attributes={"axis": INT}),),
    ("", "Reshape"): (
        Operator(5, _reshape, by_running(_reshape), (2, 2), constant=(1,)),
        Operator(14, _reshape, by_running(_reshape), (2, 2), {"allowzero": INT}, constant=(1,)),
    ),
    ("", "Transpose"): (Operator(1, _transpose, by_running(_transpose), attributes={"perm": INTS}),),
    ("", "Squeeze"): (
        Operator(1, _squeeze, by_running(_squeeze), attributes=_AXES),
        Operator(13, _squeeze, by_running(_squeeze), (1, 2), constant=(1,)),
    ),
    ("", "Unsqueeze"): (
        Operator(1, _unsqueeze, by_running(_unsqueeze), attributes=_AXES, required=("axes",)),
        Operator(13, _unsqueeze, by_running(_unsqueeze), (2, 2), constant=(1,)),
    ),
    ("", "Expand"): (Operator(8, _expand, by_running(_expand), (2, 2), constant=(1,)),),
    ("", "Concat"): (Operator(4, _concat, _concat_shapes, (1, ANY), {"axis": INT}, ("axis",)),),
    ("", "Split"): (
        Operator(2, _split, by_running(_split), (1, 1), {"axis": INT, "split": INTS}, outputs=(1, ANY)),
        Operator(13, _split, by_running(_split), (1, 2), {"axis": INT}, outputs=(1, ANY), constant=(1,)),
        Operator(
            18, _split, by_running(_split), (1, 2), {"axis": INT, "num_outputs": INT}, outputs=(1, ANY), constant=(1,)
        ),
    ),
}
