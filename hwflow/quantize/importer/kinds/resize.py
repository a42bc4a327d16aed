"""Resize and Upsample that compute between elements.

What each element of the result is made of is not read from attributes: the node is evaluated on a ramp along each axis,
where a mean of two neighbours is the place between them.  The places are fractions of small denominators; whether they
say all of the node, its result on random elements tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import Frame
from hwflow.layers.formats import IntArray
from hwflow.layers.interpolate import MOST_TOTAL, Between
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import apply, interpolates
from hwflow.quantize.importer.element_places import channel_order
from hwflow.quantize.importer.layer_anchors import Resized
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import (
    Held,
    Moved,
    Parameters,
    Rounded,
    TensorState,
    Unrounded,
    Unsupported,
    image_index,
)

Floats = npt.NDArray[np.float64]

#: Places are this part of the axis exact: a scale is a float of 32 bits.
_PLACE = 2.0**-23
#: How far apart results on elements from -1 to 1 are that mean the same.
_SAME = 1e-3
#: Axes of an image, and those of it that may change.
_IMAGE, _MOST_AXES = 4, 2


def resize(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState | None:
    """One that interpolates along one or two axes, of reals or of integers, which are rounded; None for another."""
    if not interpolates(node):
        return None
    if len(dynamic) > 1:
        raise Unsupported(f"its size '{dynamic[1]}' must be constant", "export the model with fixed sizes")
    held = context.held(node.inputs[0], real=False)
    old = held.index.shape
    made = _Evaluated(context, node, old)
    axes = made.axes
    between = [_between(made.places(axis), old[axis]) for axis in axes]
    if not made.is_meant(between):
        raise Unsupported(
            "each element of its result must lie between two neighbours along each axis that it resizes",
            "resize without antialias, exclude_outside and elements from outside (tf_crop_and_resize)"
        )
    whole = Between(np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
    rows, columns = (*(whole,) * (_MOST_AXES - len(between)), *between)
    held, others = _as_image(context, held, node.inputs[0], axes)
    x = context.tensors[held.tensor].frame
    frame = Frame(len(rows.places), len(columns.places), x.channels)
    index = image_index(frame, held.index.ndim)[:, channel_order(x, held.index)]
    sizes = [*(old[k] for k in others), *(len(each.places) for each in between)]
    index = np.transpose(index.reshape(sizes), np.argsort([*others, *axes]))
    made_of = Unrounded.of(Resized(node, node.outputs[0], frame, (held,), rows, columns), index)
    if held.real:
        return made_of
    return Rounded(made_of, node, node.outputs[0], Parameters.of(context.tensors[held.tensor]), index)


class _Evaluated:
    """What `node` makes of tensors of the shape `old`."""

    def __init__(self, context: NodeContext, node: Node, old: tuple[int, ...]) -> None:
        self._opsets, self._node, self.old = context.opsets, node, old
        self._parameters = {name: context.graph.initializers[name] for name in node.inputs[1:] if name}
        self._random = np.random.default_rng(len(old)).uniform(-1, 1, old)
        self._of_random = self.of(self._random)

    def of(self, x: Floats) -> Floats:
        return np.asarray(apply(self._node, self._opsets, {self._node.inputs[0]: x, **self._parameters}), np.float64)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes whose size changes, of an image both.  Unsupported where these are more than an image has."""
        axes = tuple(k for k, size in enumerate(self._of_random.shape) if size != self.old[k])
        if len(self.old) == _IMAGE and {2, 3}.issuperset(axes):
            return 2, 3
        if len(axes) > _MOST_AXES:
            raise Unsupported(
                f"it must resize at most {_MOST_AXES} axes, not {len(axes)}", "resize one axis after the other"
            )
        return axes

    def places(self, axis: int) -> Floats:
        """Where the entries of the result lie along `axis`."""
        shape = [-1 if k == axis else 1 for k in range(len(self.old))]
        ramp = np.broadcast_to(np.arange(self.old[axis], dtype=np.float64).reshape(shape), self.old)
        found = np.moveaxis(self.of(ramp), axis, 0)
        return found.reshape(len(found), -1)[:, 0]

    def is_meant(self, between: Sequence[Between]) -> bool:
        """Whether `between`, for each of the `axes`, is what the node computes."""
        made = self._random
        for axis, each in zip(self.axes, between, strict=True):
            shape = [-1 if k == axis else 1 for k in range(made.ndim)]
            share = (each.weights / each.total).reshape(shape)
            first, second = (np.take(made, np.minimum(each.places + k, made.shape[axis] - 1), axis) for k in (0, 1))
            made = (1 - share) * first + share * second
        return made.shape == self._of_random.shape and bool((np.abs(made - self._of_random) < _SAME).all())


def _between(places: Floats, size: int) -> Between:
    """Fractions of the least denominator that are these `places` on an axis of `size` entries.  Refusal where it is too
    large.
    """
    inside = np.clip(places, 0, size - 1)
    for total in range(1, MOST_TOTAL + 1):
        parts = inside * total
        if np.abs(parts - np.rint(parts)).max() <= _PLACE * size * total:
            whole = np.rint(parts).astype(np.int64)
            first = np.minimum(whole // total, size - 2 if total > 1 else size - 1)
            return Between(first, whole - first * total, total)
    raise Refusal(
        f"places between elements must be fractions with a denominator of at most {MOST_TOTAL}",
        "choose a scale that is a ratio of small numbers, or state sizes"
    )


def _as_image(
    context: NodeContext, held: Held, name: str, axes: tuple[int, ...]
) -> tuple[Held, tuple[int, ...]]:
    """`held` as an image [1, C, H, W] or [1, C, W] of the elements along `axes`, and the other axes, which are the
    channels.
    """
    others = tuple(k for k in range(held.index.ndim) if k not in axes)
    index: IntArray = np.transpose(held.index, (*others, *axes))
    image = index.reshape(1, -1, *index.shape[len(others):])
    if image.shape == held.index.shape and others == (0, 1):
        return context.movement.image(held, name), others
    by = held.moved or Moved(context.movement.maker(name), name)
    return context.movement.image(replace(held, index=image, moved=replace(by, computed=True)), name), others
