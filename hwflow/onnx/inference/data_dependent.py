"""Outputs whose shape depends on data: what is known all the same (the rank, the axes that keep their size)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from hwflow.onnx.inference.facts import TensorFact
from hwflow.onnx.inference.schema_types import attribute_dtype
from hwflow.onnx.inference.worlds import Size, Worlds
from hwflow.onnx.operators import REDUCTIONS
from hwflow.onnx.ops.base import Call

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)
Operands: TypeAlias = Sequence[TensorFact | None]
#: Takes the call, its tensors, and the worlds; gives outputs, or None where only the schema helps.
Partial: TypeAlias = Callable[[Call, Operands, Worlds], "list[TensorFact] | None"]


def _operand(operands: Operands, position: int) -> TensorFact | None:
    return operands[position] if position < len(operands) else None


def _length(operand: TensorFact | None) -> int | None:
    """The number of elements of a 1-D tensor of constant size."""
    if operand is None or operand.shape is None or len(operand.shape) != 1 or not isinstance(operand.shape[0], int):
        return None
    return operand.shape[0] if operand.shape[0] <= 64 else None


def _constants(operand: TensorFact | None) -> list[int] | None:
    """The elements of an integer tensor that has the same ones at any size."""
    if operand is None or not isinstance(operand.elements, np.ndarray) or operand.elements.dtype.kind not in "iu":
        return None
    return [int(n) for n in operand.elements.reshape(-1)[:64]]


def _fresh(rank: int, worlds: Worlds) -> tuple[Size, ...]:
    return tuple(worlds.fresh() for _ in range(rank))


def _axis(call: Call, x: TensorFact | None, default: int = 0) -> int | None:
    """Attribute `axis` from the front; None where the rank is unknown or too small."""
    axis = call.node.attributes.get("axis", default)
    if x is None or x.shape is None or not isinstance(axis, int) or not -len(x.shape) <= axis < len(x.shape):
        return None
    return axis % len(x.shape)


def _open_axes(x: TensorFact, axes: Sequence[int] | None, worlds: Worlds) -> TensorFact:
    """`x` with unknown sizes in the axes (in all of them for None)."""
    if x.shape is None:
        return TensorFact(x.dtype, None)
    rank = len(x.shape)
    chosen = range(rank) if axes is None else {a % rank for a in axes if rank}
    return TensorFact(x.dtype, tuple(worlds.fresh() if i in chosen else d for i, d in enumerate(x.shape)))


def _reshape(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x, shape = operands[0], _operand(operands, 1)
    if x is None or shape is None:
        return None
    sizes = _constants(shape)
    if sizes is not None:
        lowest = 0 if call.node.attributes.get("allowzero") else 1
        return [TensorFact(x.dtype, tuple(d if d >= lowest else worlds.fresh() for d in sizes))]
    length = _length(shape)
    return None if length is None else [TensorFact(x.dtype, _fresh(length, worlds))]


def _expand(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x, length = operands[0], _length(_operand(operands, 1))
    if x is None or x.shape is None or length is None:
        return None
    rank = max(len(x.shape), length)
    padded = (1,) * (rank - len(x.shape)) + x.shape
    is_kept = (axis < rank - length or (isinstance(d, int) and d > 1) for axis, d in enumerate(padded))
    return [TensorFact(x.dtype, tuple(d if keep else worlds.fresh() for d, keep in zip(padded, is_kept, strict=True)))]


def _constant_of_shape(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    value = call.node.attributes.get("value")
    dtype = value.dtype if isinstance(value, np.ndarray) else np.dtype(np.float32)
    length = _length(_operand(operands, 0))
    return [TensorFact(dtype, None if length is None else _fresh(length, worlds))]


def _same_rank(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    return None if x is None else [_open_axes(x, None, worlds)]


def _unchanged(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    return None if x is None else [TensorFact(x.dtype, x.shape)]


def _cast_like(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x, like = operands[0], _operand(operands, 1)
    return [TensorFact(like.dtype if like else None, x.shape if x else None)]


def _resize(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x, axes = operands[0], call.node.attributes.get("axes")
    named = [a for a in axes if isinstance(a, int)] if isinstance(axes, tuple) else None
    return None if x is None else [_open_axes(x, named, worlds)]


def _affine_grid(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    theta, rank = operands[0], _length(_operand(operands, 1))
    return None if theta is None or rank is None else [TensorFact(theta.dtype, (*_fresh(rank - 1, worlds), rank - 2))]


def _col2im(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x, image = operands[0], _length(_operand(operands, 1))
    if x is None or x.shape is None or len(x.shape) != 3 or image is None:
        return None
    return [TensorFact(x.dtype, (x.shape[0], *_fresh(image + 1, worlds)))]


def _dft(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    """The last axis holds real and imaginary parts; another one changes by the length or where one side is left out."""
    x, onesided = operands[0], bool(call.node.attributes.get("onesided"))
    if x is None or x.shape is None or not x.shape:
        return None
    keeps_size = _operand(operands, 1) is None and not onesided
    rest = x.shape[:-1] if keeps_size else _fresh(len(x.shape) - 1, worlds)
    parts = 1 if onesided and call.node.attributes.get("inverse") else 2
    return [TensorFact(x.dtype, (*rest, parts))]


def _by_axes_input(position: int) -> Partial:
    """Slice, Pad and their like: the axes named by an input change, all of them where it is left out."""

    def rule(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
        x, axes = operands[0], _operand(operands, position)
        if x is None:
            return None
        named = _constants(axes)
        if axes is None and call.node.op_type == "Slice" and (count := _length(_operand(operands, 1))) is not None:
            named = list(range(count))
        return [_open_axes(x, named, worlds)]

    return rule


def _ranked(step: int) -> Partial:
    """Squeeze and Unsqueeze with unknown axes: the rank changes by their number."""

    def rule(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
        x, length = operands[0], _length(_operand(operands, 1))
        if x is None or x.shape is None or length is None or len(x.shape) + step * length < 0:
            return None
        return [TensorFact(x.dtype, _fresh(len(x.shape) + step * length, worlds))]

    return rule


def _top_k(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    axis = _axis(call, x, -1)
    if x is None or axis is None:
        return None
    y = _open_axes(x, [axis], worlds)
    return [y, TensorFact(_INT64, y.shape)]


def _range(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    return [TensorFact(operands[0].dtype if operands[0] else None, _fresh(1, worlds))]


def _one_hot(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x, values = operands[0], _operand(operands, 2)
    axis = call.node.attributes.get("axis", -1)
    if x is None or x.shape is None or values is None or not isinstance(axis, int):
        return None
    rank = len(x.shape) + 1
    if not -rank <= axis < rank:
        return None
    place = axis % rank
    return [TensorFact(values.dtype, (*x.shape[:place], worlds.fresh(), *x.shape[place:]))]


def _split(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    axis = _axis(call, x)
    if x is None or axis is None:
        return None
    return [_open_axes(x, [axis], worlds) for _ in call.node.outputs]


def _non_zero(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    rank: Size = worlds.fresh() if x is None or x.shape is None else len(x.shape)
    return [TensorFact(_INT64, (rank, worlds.fresh()))]


def _compress(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    if x is None:
        return None
    if "axis" not in call.node.attributes:
        return [TensorFact(x.dtype, _fresh(1, worlds))]
    axis = _axis(call, x)
    return None if axis is None else [_open_axes(x, [axis], worlds)]


def _unique(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    facts = _compress(call, operands, worlds)
    if facts is None:
        return None
    count = _fresh(1, worlds)
    if "axis" not in call.node.attributes:
        facts = [TensorFact(facts[0].dtype, count)]
    return [*facts, TensorFact(_INT64, count), TensorFact(_INT64, _fresh(1, worlds)), TensorFact(_INT64, count)]


def _boxes(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    return [TensorFact(_INT64, (worlds.fresh(), 3))]


def _reduce(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    if x is None or not call.node.attributes.get("keepdims", 1):
        return None
    return [_open_axes(x, None, worlds)]


def _shape(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    return [TensorFact(_INT64, _fresh(1, worlds))]


def _size(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    return [TensorFact(_INT64, ())]


def _cast(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    return [TensorFact(attribute_dtype(call, "to"), x.shape if x else None)]


def _string_split(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    if x is None or x.shape is None:
        return None
    return [TensorFact(x.dtype, (*x.shape, worlds.fresh())), TensorFact(_INT64, x.shape)]


def _normalized_strings(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    x = operands[0]
    if x is None or x.shape is None or not x.shape:
        return None
    return [_open_axes(x, [-1], worlds)]


def _image(call: Call, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    gray = call.node.attributes.get("pixel_format") == "Grayscale"
    return [TensorFact(np.dtype(np.uint8), (worlds.fresh(), worlds.fresh(), 1 if gray else 3))]


#: By operator of the default domain.
DATA_DEPENDENT: Mapping[str, Partial] = {
    "AffineGrid": _affine_grid,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Col2Im": _col2im,
    "Compress": _compress,
    "ConstantOfShape": _constant_of_shape,
    "CumProd": _unchanged,
    "CumSum": _unchanged,
    "DFT": _dft,
    "Expand": _expand,
    "ImageDecoder": _image,
    "NonMaxSuppression": _boxes,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Pad": _by_axes_input(3),
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Size": _size,
    "Slice": _by_axes_input(3),
    "Split": _split,
    "Squeeze": _ranked(-1),
    "StringNormalizer": _normalized_strings,
    "StringSplit": _string_split,
    "Tile": _same_rank,
    "TopK": _top_k,
    "Unique": _unique,
    "Unsqueeze": _ranked(1),
    "Upsample": _same_rank,
    **dict.fromkeys(REDUCTIONS, _reduce),
}
