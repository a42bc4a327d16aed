"""Operators that move, choose, repeat or pad elements, in the form of any operator set, with random numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.opsets import numbers
from tests.opsets.growing import Array, Growing, T


def _listed(net: Growing, since: int, **values: tuple[int, ...] | None) -> tuple[list[Array | None], dict[str, Any]]:
    """Lists of integers: attributes before operator set `since`, inputs from it on; None is left out."""
    if net.opset < since:
        return [], {key: value for key, value in values.items() if value is not None}
    return [None if value is None else np.array(value, np.int64) for value in values.values()], {}


def axis_of(net: Growing, axis: int, rank: int) -> int:
    """`axis`, from operator set 11 on also counted from the end."""
    return axis - rank if net.opset >= 11 and net.chance(0.3) else axis


def sliced(net: Growing, t: T) -> T:
    """Attributes before 10, inputs and steps from then on; ends behind the last element, and from the end."""
    axis = net.number(1, t.rank - 1)
    n = t.shape[axis]
    start = net.number(0, n - 1)
    end = net.number(start + 1, n)
    step = net.pick(1, 1, 2, -1) if net.opset >= 10 else 1
    picked = slice(start, end, step) if step > 0 else slice(end - 1, start - 1 if start else None, step)
    low, high = (start, end) if step > 0 else (end - 1, start - 1 if start else -n - 1)
    if step > 0:
        low = low - n if net.chance(0.3) else low
        high = net.pick(high, high - n if high < n else n + 5, np.iinfo(np.int32).max if high == n else high)
    whole = tuple(picked if k == axis else slice(None) for k in range(t.rank))
    meaning = lambda x, *_: x[whole]  # noqa: E731
    axes = (axis - t.rank,) if net.opset >= 11 and net.chance(0.3) else (axis,)
    if step != 1 or (net.opset >= 10 and net.chance(0.3)):
        values, _ = _listed(net, 10, starts=(low,), ends=(high,), axes=axes, steps=(step,))
        return net.node("Slice", meaning, t, *values)
    values, stated = _listed(net, 10, starts=(low,), ends=(high,), axes=axes)
    return net.node("Slice", meaning, t, *values, **stated)


def split(net: Growing, t: T, axis: int = 1) -> tuple[T, ...]:
    """Sizes: an input or attribute in 1, an attribute from 2, an input from 13, num_outputs from 18; or equal parts."""
    n = t.shape[axis]
    equal = n % 2 == 0 and net.chance(0.5)
    sizes: tuple[int, ...] | None = None if equal else (1, n - 1)
    cut = n // 2 if equal else 1
    attributes: dict[str, Any] = {"axis": axis} if axis or net.chance(0.5) else {}
    if sizes is None and net.opset >= 18:
        values: list[Any] = []
        attributes["num_outputs"] = 2
    elif sizes is not None and net.opset < 2 and net.chance(0.5):
        values = [np.array(sizes, np.float32)]
    else:
        values, stated = _listed(net, 13, split=sizes)
        attributes.update(stated)
    meaning = lambda x, *_: np.split(x, [cut], axis)  # noqa: E731
    return net.several("Split", meaning, t, *values, outputs=2, **attributes)


def pad(net: Growing, t: T, modes: tuple[str, ...] = ("constant", "constant", "reflect", "edge")) -> T:
    """paddings in 1, pads in 2, inputs from 11, axes from 18, wrap from 19."""
    mode = net.pick(*modes, *(["wrap"] if net.opset >= 19 else []))
    rank = t.rank
    limit = [1 if mode in ("constant", "edge") else min(1, n - 1) for n in t.shape]
    pads = [net.number(0, limit[k % rank]) if k % rank > 1 else 0 for k in range(2 * rank)]
    value = 0.0 if mode != "constant" or net.chance(0.7) else 0.5
    stated = {} if mode == "constant" and net.chance(0.5) else {"mode": mode}
    meaning = lambda x, *_: numbers.padded(x, pads, mode, value)  # noqa: E731
    if net.opset < 11:
        extra = {"value": value} if value or net.chance(0.3) else {}
        name = "paddings" if net.opset < 2 else "pads"
        return net.node("Pad", meaning, t, **{name: tuple(pads)}, **extra, **stated)
    filling = np.array(value, np.float32) if value or net.chance(0.3) else None
    if net.opset >= 18 and net.chance(0.4):
        axes = list(range(2, rank))
        some = np.array([pads[k] for k in axes] + [pads[k + rank] for k in axes], np.int64)
        return net.node("Pad", meaning, t, some, filling, np.array(axes, np.int64), **stated)
    return net.node("Pad", meaning, t, np.array(pads, np.int64), filling, **stated)


def resized(net: Growing, t: T, linear: bool = False) -> T:
    """Upsample with width_scale and height_scale (1), scales (7), an input (9); Resize (10), with coordinates (11)."""
    spatial = [net.pick(1.0, 2.0, 2.0, 3.0, 1.5, 2.5) for _ in t.shape[2:]]
    if linear:
        spatial = [net.pick(1.0, 2.0, 3.0) for _ in spatial]
    scales = [1.0, 1.0, *spatial]
    mode = "linear" if linear else "nearest"
    meaning = lambda x, *_: (numbers.linear_upsampled if linear else numbers.nearest)(x, scales)  # noqa: E731
    stated: dict[str, Any] = {"mode": mode} if linear or net.chance(0.5) else {}
    values = np.array(scales, np.float32)
    if net.opset < 7:
        stated = {"mode": "bilinear"} if linear else stated
        return net.node("Upsample", meaning, t, height_scale=spatial[0], width_scale=spatial[1], **stated)
    if net.opset < 9:
        return net.node("Upsample", meaning, t, scales=tuple(scales), **stated)
    if net.opset < 11:
        return net.node("Upsample" if net.opset == 9 else "Resize", meaning, t, values, **stated)
    stated.update(coordinate_transformation_mode="asymmetric", **({} if linear else {"nearest_mode": "floor"}))
    if net.opset >= 18 and net.chance(0.4):
        axes = tuple(range(2, t.rank))
        return net.node("Resize", meaning, t, None, values[2:], axes=axes, **stated)
    roi = np.zeros(0, np.float32) if net.opset < 13 else None
    return net.node("Resize", meaning, t, roi, values, **stated)


def blocks(net: Growing, t: T) -> T:
    """DepthToSpace where the channels allow it (mode from 11 on), else SpaceToDepth where the sizes do."""
    n, c, h, w = t.shape
    if c % 4 == 0 and net.chance(0.7):
        mode = net.pick("DCR", "CRD") if net.opset >= 11 else "DCR"
        stated = {} if mode == "DCR" and (net.opset < 11 or net.chance(0.5)) else {"mode": mode}

        def deep(x: Array) -> Array:
            if mode == "DCR":
                return x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)
            return x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)

        return net.node("DepthToSpace", deep, t, blocksize=2, **stated)
    if h % 2 or w % 2:
        return identity(net, t)
    return net.node("SpaceToDepth", lambda x: x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(
        n, 4 * c, h // 2, w // 2), t, blocksize=2)  # fmt: skip


def transposed(net: Growing, t: T, perm: tuple[int, ...] | None = None) -> T:
    order = perm or tuple(range(t.rank))[::-1]
    return net.node("Transpose", lambda x: x.transpose(order), t, **({} if perm is None else {"perm": perm}))


def reshaped(net: Growing, t: T, shape: tuple[int, ...]) -> T:
    """An attribute before 5, an input from then on; 0 copies a size, -1 is what is left."""
    stated = list(shape)
    for k in range(min(len(shape), t.rank)):
        if shape[k] == t.shape[k] and net.chance(0.3):
            stated[k] = 0
    if net.chance(0.3):
        stated[net.number(0, len(stated) - 1)] = -1
    values, attributes = _listed(net, 5, shape=tuple(stated))
    extra = {"allowzero": 0} if net.opset >= 14 and net.chance(0.2) else net.consumed() if net.opset < 5 else {}
    return net.node("Reshape", lambda x, *_: x.reshape(shape), t, *values, **attributes, **extra)


def flatten(net: Growing, t: T, axis: int = 1) -> T:
    if axis == 1 and net.chance(0.4):
        return reshaped(net, t, (1, int(np.prod(t.shape))))
    first = int(np.prod(t.shape[:axis]))
    stated = {} if axis == 1 and net.chance(0.5) else {"axis": axis_of(net, axis, t.rank) if axis < t.rank else axis}
    return net.node("Flatten", lambda x: x.reshape(first, -1), t, **stated)


def shuffled(net: Growing, t: T) -> T:
    """Channels of two groups take turns, through rank 5."""
    if t.channels % 2:
        return identity(net, t)
    y = reshaped(net, t, (1, 2, t.channels // 2, *t.shape[2:]))
    y = transposed(net, y, (0, 2, 1, *range(3, y.rank)))
    return reshaped(net, y, t.shape)


def squeezed(net: Growing, t: T) -> T:
    """Without its axes of one element but the first; axes are an attribute before 13."""
    axes = tuple(k for k in range(1, t.rank) if t.shape[k] == 1)
    given = tuple(axis_of(net, k, t.rank) for k in axes)
    values, stated = _listed(net, 13, axes=given)
    return net.node("Squeeze", lambda x, *_: x.squeeze(axes), t, *values, **stated) if axes else t


def unsqueezed(net: Growing, t: T, axes: tuple[int, ...]) -> T:
    given = tuple(axis_of(net, k, t.rank + len(axes)) for k in axes)
    values, stated = _listed(net, 13, axes=given)
    return net.node("Unsqueeze", lambda x, *_: np.expand_dims(x, axes), t, *values, **stated)


def gather(net: Growing, t: T) -> T:
    axis = net.number(1, t.rank - 1)
    n = t.shape[axis]
    order = net.rng.integers(-n if net.opset >= 11 else 0, n, net.number(1, n + 1))
    return net.node("Gather", lambda x, i: x.take(i, axis), t, order, axis=axis_of(net, axis, t.rank))


def tiled(net: Growing, t: T) -> T:
    """Version 1 repeats along one axis and has its numbers in the type of the data."""
    axis = net.number(1, t.rank - 1)
    repeats = tuple(2 if k == axis else 1 for k in range(t.rank))
    meaning = lambda x, *_: np.tile(x, repeats)  # noqa: E731
    if net.opset < 6:
        return net.node("Tile", meaning, t, np.array([2], np.float32), np.array([axis], np.float32))
    return net.node("Tile", meaning, t, np.array(repeats, np.int64))


def identity(net: Growing, t: T) -> T:
    return net.node("Identity", lambda x: x, t)


def dropout(net: Growing, t: T) -> T:
    """is_test before 7, nothing from 7 on, inputs from 12 on; a mask may be asked for."""
    stated: dict[str, Any] = {} if net.chance(0.5) or net.opset >= 12 else {"ratio": 0.3}
    if net.opset < 7:
        stated.update(is_test=1, **net.consumed())
    values: list[Array | None] = []
    if net.opset >= 12 and net.chance(0.6):
        values = [np.array(0.3, np.float32), *([np.array(False)] if net.chance(0.4) else [])]
    y = net.several("Dropout", lambda x, *_: (x,), t, *values, outputs=net.pick(1, 1, 2) if net.opset >= 7 else 1,
                    named=1, **stated)[0]
    return replace(y, made=t.made)
