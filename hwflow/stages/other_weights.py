"""Hardware for other weights: room in its widths, and other constants put into it.

`with_room` gives a graph whose stages depend on formats and on a few widths, no longer on each constant; `fitted` puts
the weights and constants of a retrained model into such a graph, or says what has no room in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hwflow_rtl.rescale.ranges import RequantizerRoom

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.conv import Conv
from hwflow.layers.dense import Dense
from hwflow.layers.formats import IntFormat
from hwflow.layers.recurrent import Recurrent
from hwflow.layers.rescale import BLOCK_BITS, MAX_SHIFT, Requantize, RoomyRequantize, RoomyThresholds, Thresholds
from hwflow.stages.rescalers import room_of

#: A ratio may be rounded to fewer bits than a multiplier has where no result moves by more than this part of a step.
SMALLEST_ERROR = Fraction(1, 16)


def with_room(graph: LayerGraph) -> LayerGraph:
    """The same function in hardware for other weights, too.

    Sums have a bit more than these weights need, multipliers 18 bits or all those of the widest, ratios may be twice as
    large, and shifts reach to the next power of two.
    """
    return replace(graph, layers=tuple(map(layer_with_room, graph.layers)))


def layer_with_room(layer: Layer) -> Layer:
    """Make room in a layer: of a recurrent one the elements of the output leave no room: they are made of states, not
    of sums."""
    if isinstance(layer, Conv | Dense):
        return replace(layer, requantize=roomy(layer.requantize, layer.accumulator))
    if isinstance(layer, Recurrent):
        made = roomy(layer.hidden_rescale, layer.accumulator)
        assert isinstance(made, Requantize)
        return replace(layer, hidden_rescale=made)
    return layer


def without_room(rescale: Requantize | Thresholds) -> Requantize | Thresholds:
    """The same constants, whatever the hardware has room for."""
    kind = Thresholds if isinstance(rescale, Thresholds) else Requantize
    return kind(**{f.name: getattr(rescale, f.name) for f in fields(kind)})


def with_rescale_of(source: LayerGraph, graph: LayerGraph) -> LayerGraph:
    """`graph` with the constants that make elements of sums in `source`, a graph of the same structure."""
    layers = []
    for layer, made in zip(graph.layers, source.layers, strict=True):
        constants = {name: without_room(value) for name in ("requantize", "hidden_rescale")
                     if isinstance(value := getattr(made, name, None), Requantize | Thresholds)}
        layers.append(replace(layer, **constants))  # type: ignore[type-var]
    return replace(graph, layers=tuple(layers))


def roomy(rescale: Requantize | Thresholds, accumulator: IntFormat) -> Requantize | Thresholds:
    """`rescale` for sums of a bit more than `accumulator`."""
    room = IntFormat(accumulator.bits + 1, signed=True)
    if isinstance(rescale, Thresholds):
        return RoomyThresholds(rescale.values, rescale.low, room=room)
    own = {f.name: getattr(rescale, f.name) for f in fields(Requantize)}
    used = [(int(m), int(k)) for m, k in zip(rescale.multiplier, rescale.shift, strict=True) if m]
    powers = all(m & (m - 1) == 0 and m.bit_length() <= k + 1 for m, k in used)
    if powers and not rescale.outward and used and len(used) == len(rescale.multiplier):
        shifts, bits = [k - m.bit_length() + 1 for m, k in used], 0
    else:
        bits = max([BLOCK_BITS, *(m.bit_length() for m, _ in used)])
        shifts = [k + (0 if rescale.outward else bits - m.bit_length()) for m, k in used] or [MAX_SHIFT]
    base = min(max(min(shifts) - 1, 0), MAX_SHIFT)
    extra = min((1 << (min(max(shifts), MAX_SHIFT) - base).bit_length()) - 1, MAX_SHIFT - base)
    made = RoomyRequantize(**own, room=room, factor_bits=bits, base=base, extra=extra)
    return in_room(made, rescale)


def in_room(made: RoomyRequantize, rescale: Requantize) -> RoomyRequantize:
    """`made` with the constants of `rescale`, in other terms where needed.  ValueError where they do not fit."""
    room = room_of(made)
    assert room is not None
    reach = 1 << (room.bias_bits - 1)
    if rescale.bias.min() < -reach or rescale.bias.max() >= reach:
        raise ValueError(f"biases must be from {-reach} to {reach - 1}, not {rescale.bias.min()} to "
                         f"{rescale.bias.max()}")
    largest = reach + (max(-made.room.low, made.room.high) << made.fraction)
    pairs = [expressed(room, int(m), int(k), largest, made.high - made.low + 1)
             for m, k in zip(rescale.multiplier, rescale.shift, strict=True)]
    return replace(made, bias=rescale.bias, multiplier=np.array([m for m, _ in pairs], np.int64),
                   shift=np.array([k for _, k in pairs], np.int64))


def expressed(room: RequantizerRoom, multiplier: int, shift: int, largest: int, steps: int) -> tuple[int, int]:
    """A multiplier and a shift that the room has and that make the same of sums up to `largest`, or nearly.

    ValueError where the ratio is too large for the room, or would be rounded by more than `SMALLEST_ERROR` of a step in
    results that are not clamped; these are within `2 * steps` of 0.
    """
    try:
        return room.expressed(multiplier, shift, moves=shift > room.outward.bit_length() > 0)
    except ValueError:
        if not room.factor_bits or room.outward:
            raise
    ratio, place = Fraction(multiplier, 1 << shift), room.base + room.extra
    nearest = round(ratio * (1 << place))
    error = abs(Fraction(nearest, 1 << place) / ratio - 1) * min(largest * ratio, Fraction(2 * steps))
    if nearest >> room.factor_bits or error > SMALLEST_ERROR:
        raise ValueError(f"ratios must be from about 2**{5 - place} to 2**{room.factor_bits - room.base}, not "
                         f"{float(ratio):.3g}")
    return room.expressed(nearest, place)


def fitted(new: LayerGraph, base: LayerGraph) -> tuple[LayerGraph, list[str]]:
    """`base` with the weights and constants of `new`, and a line for each thing that does not fit.

    Names are those of `base`; scales, which hardware does not know, are those of `new`.  Where there are lines, the
    graph is not what `new` is.
    """
    if [layer.kind for layer in new.layers] != [layer.kind for layer in base.layers]:
        kinds = [[layer.kind for layer in graph.layers] for graph in (base, new)]
        return base, [f"the layers must be {', '.join(kinds[0])}, not {', '.join(kinds[1])}"]
    problems: list[str] = []
    if (len(new.inputs), len(new.outputs)) != (len(base.inputs), len(base.outputs)):
        problems.append(f"inputs and outputs must be {len(base.inputs)} and {len(base.outputs)}, not {len(new.inputs)} "
                        f"and {len(new.outputs)}")
    places = {name: k for k, name in enumerate(new.computed)}
    others = {name: k for k, name in enumerate(base.computed)}
    tensors = dict(base.tensors)
    for old_name, name in zip(base.computed, new.computed, strict=False):
        ours, theirs = base.tensors[old_name], new.tensors[name]
        for what in ("frame", "format", "zero_point"):
            if getattr(ours, what) != getattr(theirs, what):
                problems.append(f"tensor '{old_name}': {what.replace('_', ' ')} must be {getattr(ours, what)}, not "
                                f"{getattr(theirs, what)}")
        tensors[old_name] = replace(ours, scale=theirs.scale)
    layers = []
    for old, layer in zip(base.layers, new.layers, strict=True):
        if [places[name] for name in layer.inputs] != [others[name] for name in old.inputs]:
            problems.append(f"layer '{old.name}': must read what it did ({', '.join(old.inputs)}), not "
                            f"{', '.join(layer.inputs)}")
        changes = dict(changed(old, layer, problems))
        layers.append(replace(old, **changes))  # type: ignore[type-var]
    graph = replace(base, tensors=tensors, layers=tuple(layers))
    if not problems:
        try:
            graph.check()
        except ValueError as error:
            problems.append(str(error))
    return graph, problems


def changed(old: Layer, new: Layer, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """The fields of `old` that hold other constants in `new`; what must be the same and is not goes to `problems`."""
    for field in fields(old):  # type: ignore[arg-type]
        if field.name in ("name", "inputs", "output"):
            continue
        ours, theirs = getattr(old, field.name), getattr(new, field.name)
        if isinstance(ours, np.ndarray):
            if ours.shape != np.shape(theirs):
                problems.append(f"layer '{old.name}': {field.name} must be {list(ours.shape)}, not "
                                f"{list(np.shape(theirs))}")
            yield field.name, theirs
        elif isinstance(ours, Requantize | Thresholds):
            try:
                yield field.name, with_constants(ours, theirs)
            except ValueError as error:
                problems.append(f"layer '{old.name}': {error}")
        elif ours != theirs:
            problems.append(f"layer '{old.name}': {field.name.replace('_', ' ')} must be {ours}, not {theirs}")


def with_constants(old: Requantize | Thresholds, new: Requantize | Thresholds) -> Requantize | Thresholds:
    """`old` with the constants of `new`.  ValueError for what its hardware has no room for."""
    if isinstance(old, Thresholds) != isinstance(new, Thresholds):
        words = {False: "multiplication", True: "thresholds"}
        raise ValueError(f"results must be made by {words[isinstance(old, Thresholds)]}, not by "
                         f"{words[isinstance(new, Thresholds)]}; set output_stage in the settings of the first model")
    if isinstance(old, Thresholds):
        assert isinstance(new, Thresholds)
        if (old.values.shape, old.low) != (new.values.shape, new.low):
            raise ValueError(f"thresholds must be {list(old.values.shape)} from {old.low} on, not "
                             f"{list(new.values.shape)} from {new.low} on")
        return replace(old, values=new.values)
    assert isinstance(new, Requantize)
    for name in ("zero_point", "low", "high", "fraction", "rounding", "outward"):
        if getattr(old, name) != getattr(new, name):
            raise ValueError(f"{name.replace('_', ' ')} must be {getattr(old, name)}, not {getattr(new, name)}")
    if len(old.bias) != len(new.bias):
        raise ValueError(f"channels must be {len(old.bias)}, not {len(new.bias)}")
    if isinstance(old, RoomyRequantize):
        return in_room(old, new)
    return replace(old, bias=new.bias, multiplier=new.multiplier, shift=new.shift)
