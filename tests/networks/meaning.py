"""What each kind of layer means, from the real numbers: exact, and nothing shared with `hwflow.layers`.

Elements are looked at as reals without their zero point, so that padding is nothing; sums are int64, products and
divisions behind them Python's integers, which never overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hwflow.layers import (
    Add,
    AveragePool,
    Concat,
    Conv,
    Dense,
    Embedding,
    Interpolate,
    Layer,
    LayerGraph,
    Lookup,
    MatMul,
    MaxPool,
    Multiply,
    Normalize,
    Rearrange,
    Recurrent,
    RunningSum,
    Segments,
    Softmax,
    TopK,
    Trees,
    WriteRow,
)
from tests.layers import recurrent_reference, reference
from tests.networks.meaning_matmul import sums_of
from tests.networks.meaning_trees import trees
from tests.networks.rounding import rescaled, round_exactly

Ints = np.ndarray


def meaning(graph: LayerGraph, layer: Layer, *inputs: Ints) -> Ints:
    """The output [n, h, w, c] of `layer` for frames [n, h, w, c]."""
    return MEANINGS[type(layer)](graph, layer, *inputs)


def taps(x: Ints, kernel: Any, strides: Any, dilations: Any, pads: Any, outside: float) -> Ints:
    """For every window of `x` [n, h, w, c] its taps, `outside` where there is padding: [n, oh, ow, taps, c]."""
    found = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = np.arange(-pads[0] + i * dilations[0],
                             x.shape[1] + pads[2] - (kernel[0] - 1 - i) * dilations[0], strides[0])
            columns = np.arange(-pads[1] + j * dilations[1],
                                x.shape[2] + pads[3] - (kernel[1] - 1 - j) * dilations[1], strides[1])
            inside = np.outer((rows >= 0) & (rows < x.shape[1]), (columns >= 0) & (columns < x.shape[2]))
            part = x[:, rows.clip(0, x.shape[1] - 1)][:, :, columns.clip(0, x.shape[2] - 1)]
            found.append(np.where(inside[..., None], part, outside))
    return np.stack(found, axis=3)


def conv(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    zero = graph.tensors[layer.inputs[0]].zero_point
    outputs, height, width, depth = layer.weights.shape
    windows = taps(x - zero, (height, width), layer.strides, layer.dilations, layer.pads, 0).astype(np.int64)
    weights = layer.weights.reshape(layer.groups, outputs // layer.groups, height * width, depth)
    parts = windows.reshape(*windows.shape[:4], layer.groups, depth)
    sums = np.einsum("nhwtgd,gotd->nhwgo", parts, weights).reshape(*windows.shape[:3], outputs)
    return rescaled(layer.requantize, sums + zero * layer.weights.reshape(outputs, -1).sum(axis=1))


def dense(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    sums = np.einsum("nk,ok->no", x.reshape(len(x), -1), layer.weights)
    return rescaled(layer.requantize, sums[:, None, None])


def max_pool(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    never, best = (np.inf, np.min) if layer.smallest else (-np.inf, np.max)
    windows = taps(x.astype(np.float64), layer.kernel, layer.strides, layer.dilations, layer.pads, never)
    return best(windows, axis=3).astype(np.int64)


def average_pool(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    zero = 0 if layer.row_classes else graph.tensors[layer.inputs[0]].zero_point
    windows = taps(x - zero, layer.kernel, layer.strides, layer.dilations, layer.pads, 0).astype(np.int64)
    sums = windows.sum(axis=3) + zero * windows.shape[3]
    if not layer.row_classes:
        return rescaled(layer.requantize, sums)
    columns, channels = max(layer.column_classes) + 1, x.shape[3]
    made = np.zeros_like(sums)
    for y, row in enumerate(layer.row_classes):
        for k, column in enumerate(layer.column_classes):
            own = slice((row * columns + column) * channels, (row * columns + column + 1) * channels)
            made[:, y, k] = rescaled(part_of(layer.requantize, own), sums[:, y, k])
    return made


def part_of(q: Any, part: slice) -> Any:
    """The constants of some of the channels."""
    names = ("values",) if hasattr(q, "values") else ("bias", "multiplier", "shift")
    return replace(q, **{name: getattr(q, name)[part] for name in names})


def lookup(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    format = graph.tensors[layer.inputs[0]].format
    known = dict(zip(range(format.low, format.high + 1, format.step), layer.table.tolist(), strict=True))
    return np.array([known[value] for value in x.reshape(-1).tolist()], np.int64).reshape(x.shape)


def segments(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    """Number by number, in Python's integers."""

    def result(value: int) -> int:
        bits = layer.fraction_bits
        if layer.octaves:
            below = value < layer.origin
            magnitude = layer.origin - 1 - value if below else value - layer.origin
            level = int(f"{magnitude:b}"[1:].ljust(layer.index_bits + bits, "0")[:layer.index_bits + bits] or "0", 2)
            format = graph.tensors[layer.inputs[0]].format
            most = max(format.high - layer.origin, layer.origin - 1 - format.low, 1)
            block = below * (1 << most.bit_length().bit_length()) + magnitude.bit_length()
            block = block * (1 << layer.index_bits) + level // (1 << bits)
        else:
            level = value - graph.tensors[layer.inputs[0]].format.low
            block = level // (1 << bits)
        start, zoom = layer.blocks[block].tolist()
        segment, rest = divmod(level % (1 << bits) * 2**zoom, 1 << bits)
        base, slope = layer.lines[start + segment].tolist()
        return (base + slope * rest // 2**bits) // 2**layer.shift

    return np.array([result(value) for value in x.reshape(-1).tolist()], np.int64).reshape(x.shape)


def embedding(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    rows = [layer.table[number].tolist() for number in x.reshape(-1).tolist()]
    return np.array(rows, np.int64).reshape(*x.shape[:-1], -1)


def joined(graph: LayerGraph, layer: Any, a: Ints, b: Ints, combine: Callable[[Ints, Ints], Ints]) -> Ints:
    zeros = (graph.tensors[name].zero_point for name in layer.inputs)
    one, two = ((x - zero).astype(object) for x, zero in zip((a, b), zeros, strict=True))
    made = round_exactly(combine(one, two), layer.shift) + layer.zero_point
    return np.clip(made, layer.low, layer.high).astype(np.int64)


def add(graph: LayerGraph, layer: Any, a: Ints, b: Ints) -> Ints:
    return joined(graph, layer, a, b, lambda x, y: x * layer.multipliers[0] + y * layer.multipliers[1])


def multiply(graph: LayerGraph, layer: Any, a: Ints, b: Ints) -> Ints:
    return joined(graph, layer, a, b, lambda x, y: x * y * layer.multiplier)


def matmul(graph: LayerGraph, layer: Any, a: Ints, b: Ints) -> Ints:
    sums, q = sums_of(graph, layer, a, b), layer.requantize
    count = len(q.values if hasattr(q, "values") else q.bias)  # one for all, or one for each place of a head
    places = rescaled(q, sums.reshape(*sums.shape[:2], -1, count)).reshape(sums.shape)
    frame = layer.frame
    made = places.transpose(0, 2, 1, 3) if layer.interleaved else places
    return made.reshape(len(a), frame.height, frame.width, frame.channels)


def concat(graph: LayerGraph, layer: Any, *inputs: Ints) -> Ints:
    return np.concatenate(inputs, axis=3)


def rearrange(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    raster = x.reshape(len(x), -1)
    made = np.full((len(x), len(layer.rows), len(layer.columns), len(layer.channels)), layer.padding, np.int64)
    for place in np.ndindex(made.shape[1:]):
        parts = [int(table[k]) for table, k in zip((layer.rows, layer.columns, layer.channels), place, strict=True)]
        if min(parts) >= 0:
            made[(slice(None), *place)] = raster[:, sum(parts)]
    return made


def rank(layer: Any, pixel: list[int], c: int) -> tuple[int, int]:
    """Lower comes first."""
    return -pixel[c] if layer.largest else pixel[c], -c if layer.last_index else c


def top_k(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    made = np.zeros((*x.shape[:3], layer.k), np.int64)
    for place in np.ndindex(x.shape[:3]):
        pixel = x[place].tolist()
        ranked = sorted(range(len(pixel)), key=partial(rank, layer, pixel))
        made[place] = [c if layer.gives_indices else pixel[c] for c in ranked[:layer.k]]
    return made


def running_sum(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    made, zero_point = np.zeros(x.shape, np.int64), graph.tensors[layer.inputs[0]].zero_point
    for place in np.ndindex(x.shape):
        last = place[3] + (not layer.exclusive)
        made[place] = sum(int(x[(*place[:3], channel)]) - zero_point for channel in range(last))
    return made


def rows(layer: Any, x: Ints, row_of: Callable[[Any, list[int], int], list[int]]) -> Ints:
    """`row_of` of each row, with its number in the frame."""
    frames = x.reshape(len(x), -1, layer.elements)
    made = [[row_of(layer, row, r) for r, row in enumerate(frame)] for frame in frames.tolist()]
    return np.array(made, np.int64).reshape(x.shape)


def softmax(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    return rows(layer, x, lambda q, pixel, _: reference.softmax(q, pixel))


def normalize(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    return rows(layer, x, reference.normalize)


def recurrent(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    """Frames that begin anew each."""
    return recurrent_reference.recurrent(replace(layer, streaming=False), x)[0]


def write_row(graph: LayerGraph, layer: Any, x: Ints, row: Ints, position: Ints) -> Ints:
    made = x.copy()
    for old, new, number in zip(made, row, position.reshape(-1).tolist(), strict=True):
        for block, values in enumerate(new.reshape(layer.blocks, -1)):
            old.reshape(layer.blocks, layer.rows, -1)[block, number] = values
    return made


def interpolate(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    """Along one axis and then along the other."""
    sums = x.astype(np.int64)
    for axis, (places, weights, total) in enumerate(layer.between, 1):
        lines = []
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            line = (total - weight) * sums.take(place, axis)
            lines.append(line + weight * sums.take(place + 1, axis) if weight else line)
        sums = np.stack(lines, axis)
    return rescaled(layer.requantize, sums)


MEANINGS: dict[type[Layer], Callable[..., Ints]] = {
    Conv: conv, Dense: dense, MaxPool: max_pool, AveragePool: average_pool, Lookup: lookup, Segments: segments,
    Embedding: embedding,
    Add: add, Multiply: multiply, Concat: concat, Rearrange: rearrange, TopK: top_k, MatMul: matmul,
    RunningSum: running_sum,
    Softmax: softmax, Normalize: normalize,
    Recurrent: recurrent, Trees: trees, WriteRow: write_row, Interpolate: interpolate}
