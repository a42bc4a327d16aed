"""Several convolutions that each read a part of a frame's rows and channels, joined, are one convolution.

Exporters write a depthwise convolution whose channels have windows of unlike lengths as one for each length, between a
split and a Concat.  The weights of the whole have zeros where a shorter window does not reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.conv import Conv
from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Requantize, Rescale, RoomyRequantize, RoomyThresholds, Thresholds

#: Fields of rescalers with an entry for each channel; the others must be equal.
_OF_CHANNELS = frozenset({"bias", "multiplier", "shift", "values"})
#: Of so many weights at least one must be of the convolutions, not a zero.
MOST_ZEROS = 2


def joined_window(graph: LayerGraph, parts: Sequence[Conv], places: Mapping[str, IntArray], rows: int, name: str,
                  output: str) -> Conv | None:
    """The convolution over `rows` rows of equally many channels whose results are those of `parts`, one after another.

    Each of `parts` has one window over its whole frame; `places` has for its input the place of each element in the
    rows, and one element more than all of them have as `""`.  None where no convolution is all that, or one that would
    mostly multiply by 0.
    """
    count = int(places[""].size)
    first = parts[0]
    if any((each.weight_format, each.input_format) != (first.weight_format, first.input_format) or any(each.pads)
           or each.window.positions(graph.tensors[each.inputs[0]].frame) != (1, 1) for each in parts):
        return None
    requantize = joined_rescale([each.requantize for each in parts])
    if requantize is None:
        return None
    shape = (-1, rows, count // rows)
    ones = [_spread(each, np.ones_like(each.weights), places, count) for each in parts]
    reached = np.concatenate(ones).reshape(shape)
    weights = np.concatenate([_spread(each, each.weights, places, count) for each in parts]).reshape(shape)
    taps = np.flatnonzero(reached.any(axis=(0, 2)))
    apart = max(1, math.gcd(*(rows - 1 - taps).tolist()))
    used = np.arange(rows - 1, int(taps[0]) - 1, -apart)[::-1]
    groups = _groups(reached)
    kept = _of_groups(weights[:, used], groups)
    zeros = kept.size - int(reached.sum())
    if rows - 1 not in taps or MOST_ZEROS * zeros > kept.size:
        return None
    if zeros and not first.weight_format.contains(np.zeros(1, np.int64)):
        return None
    made = Conv(name, first.inputs, output, kept[:, :, None], first.weight_format, first.input_format, requantize,
                dilations=(apart, 1), groups=groups)
    try:  # a sum of one with a multiplier of another may be too large
        requantize.check(len(kept), made.accumulator, graph.tensors[output].format)
    except ValueError:
        return None
    return made


def _spread(layer: Conv, weights: IntArray, places: Mapping[str, IntArray], count: int) -> IntArray:
    """`weights` of a layer with one window at the places of the elements that they multiply, [outputs, count]."""
    outputs, height, width, depth = weights.shape
    at = places[layer.inputs[0]][::layer.dilations[0], ::layer.dilations[1]][:height, :width]
    spread = np.zeros((outputs, count), np.int64)
    for k, of_output in enumerate(weights):
        first = k // (outputs // layer.groups) * depth
        spread[k, at[:, :, first:first + depth]] = of_output
    return spread


def _groups(reached: IntArray) -> int:
    """The most groups of outputs and of channels so that no output reads another group's channels."""
    outputs, _, channels = reached.shape
    for groups in (n for n in range(math.gcd(outputs, channels), 0, -1) if math.gcd(outputs, channels) % n == 0):
        if int(_of_groups(reached, groups).sum()) == int(reached.sum()):
            return groups
    raise AssertionError("one group has all channels")


def _of_groups(weights: IntArray, groups: int) -> IntArray:
    """Of [outputs, rows, channels] those of each output's own group, [outputs, rows, channels / groups]."""
    outputs, rows, channels = weights.shape
    apart = weights.reshape(groups, outputs // groups, rows, groups, channels // groups)
    own = np.stack([apart[k, :, :, k] for k in range(groups)])
    return own.reshape(outputs, rows, channels // groups)


def joined_rescale(parts: Sequence[Rescale]) -> Rescale | None:
    """What rescales the channels of all `parts`; None where they differ in more than constants of channels."""
    kinds = {type(each) for each in parts}
    if len(kinds) != 1:
        return None
    first = parts[0]
    own = {field.name for field in fields(Thresholds if isinstance(first, Thresholds) else Requantize)}
    if any(getattr(each, name) != getattr(first, name) for each in parts for name in own - _OF_CHANNELS):
        return None
    if len({each.values.shape[1] for each in parts if isinstance(each, Thresholds)}) > 1:
        return None
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in parts]) for name in own & _OF_CHANNELS}
    return replace(first, **joined, **_room(parts))


def _room(parts: Sequence[Rescale]) -> dict[str, Any]:
    """The fields of a rescaler with room for what each of `parts` has room for."""
    roomy = [each for each in parts if isinstance(each, RoomyRequantize)]
    rooms = [each.room for each in parts if isinstance(each, RoomyRequantize | RoomyThresholds)]
    if not rooms:
        return {}
    room: dict[str, Any] = {"room": max(rooms, key=lambda each: each.bits)}
    if not roomy:
        return room
    base = min(each.base for each in roomy)
    reach = max(each.base + each.extra for each in roomy) - base
    return {**room, "factor_bits": max(each.factor_bits for each in roomy), "base": base,
            "extra": (1 << reach.bit_length()) - 1}
