"""Adds random layers of rows and trees to a graph: products of two computed matrices, recurrent layers, trees."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from hwflow.layers import Frame, IntFormat, MatMul, Rearrange, Recurrent, Requantize, Trees, WriteRow
from tests.networks.meaning_matmul import sums_of
from tests.strategies.numbers import Elements, Rng, integers

if TYPE_CHECKING:
    from tests.strategies.layers import Growing

#: Bits of an element whose difference to its zero point every multiplier takes.
WIDEST = 14
#: Gates of a cell.
CELLS = {"rnn": 1, "gru": 3, "lstm": 4}


def matmul(grown: Growing, x: str) -> str:
    """`x` times itself or times another tensor, as any matrices that fit; a table where none do."""
    rng, most = grown.rng, grown.taste
    narrow = sorted(name for name, t in grown.tensors.items() if t.format.bits <= WIDEST)
    if x not in narrow:
        return grown.rearrange(x)
    other = x if rng.random() < 0.3 else str(rng.choice(narrow))
    pair = (x, other) if rng.integers(2) else (other, x)
    counts = [grown.frame(name).elements for name in pair]
    common = gcd(*counts)
    sizes = [(heads, counts[0] // shared, shared // heads, counts[1] // shared)
             for shared in range(1, common + 1) if common % shared == 0
             for heads in range(1, min(shared, 4) + 1) if shared % heads == 0]
    room = most.side * most.side * most.channels
    possible = [(h, m, k, n) for h, m, k, n in sizes if h * m * k * n <= most.multiplications and h * m * n <= room
                and n <= 2 * most.channels]
    if not possible:
        return grown.lookup(x)
    heads, rows, depth, columns = possible[int(rng.integers(len(possible)))]
    interleaved = bool(rng.integers(2))
    order = str(rng.choice(["hnk", "hkn", "nhk", "khn"] if interleaved else ["hnk", "hkn"]))
    frame = Frame(rows, heads, columns) if interleaved else Frame(heads, rows, columns)
    fields = {"heads": heads, "rows": rows, "depth": depth, "columns": columns, "interleaved": interleaved,
              "order": order, "frame": frame}
    one = np.ones(1, np.int64)
    plain = MatMul("sums", pair, "sums", **fields, requantize=Requantize(0 * one, one, 0 * one, 0, 0, 0))
    sums = sums_of(grown.graph, plain, *(grown.samples[name] for name in pair))
    like = grown.elements()
    places = rng.random() < 0.25
    made = grown.rescale(sums.reshape(-1, rows * columns if places else 1), like)
    return grown.put(MatMul, pair, like, **fields, requantize=made)


def write_row(grown: Growing, x: str) -> str:
    """`x` as rows; one, which a dense layer chooses, becomes some of its elements.  A table of one element."""
    rng, t = grown.rng, grown.tensors[x]
    count = t.frame.elements
    sizes = [(blocks, rows) for rows in range(2, count + 1) if count % rows == 0
             for blocks in (1, 2, 3) if count // rows % blocks == 0]
    if not sizes:
        return grown.lookup(x)
    blocks, rows = sizes[int(rng.integers(len(sizes)))]
    like, bits = Elements(t.format, t.zero_point), min(3, rows.bit_length() - 1)
    begin = int(rng.integers(count - count // rows + 1))
    one, new = np.zeros(1, np.int64), np.arange(begin, begin + count // rows)
    row = grown.put(Rearrange, (x,), like, input_format=t.format, rows=one, columns=one, channels=new,
                    padding=t.format.low)
    position = grown.dense(x, 1, Elements(IntFormat(bits, signed=False), 0))
    return grown.put(WriteRow, (x, row, position), like, blocks=blocks, rows=rows)


def recurrent(grown: Growing, x: str) -> str:
    """Few units, a few steps, and functions that reach over all of their range."""
    rng = grown.rng
    cell = str(rng.choice(list(CELLS)))
    steps, hidden = min(3, grown.frame(x).width), int(rng.integers(1, 5))
    sums = IntFormat(int(rng.integers(10, 15)), signed=True)
    x = grown.conv(x, Frame(1, steps, CELLS[cell] * hidden), Elements(sums, 0))
    return grown.put(Recurrent, (x,), like := grown.elements(bipolar=False), **fields(rng, cell, hidden, sums, like))


def fields(rng: Rng, cell: str, hidden: int, sums: IntFormat, like: Elements) -> dict:
    """A hidden state of about the range of the elements."""
    lstm, rows = cell == "lstm", CELLS[cell] * hidden
    bits, state = int(rng.integers(4, 8)), IntFormat(int(rng.integers(8, 17)), signed=True)
    weight = IntFormat(int(rng.integers(2, 9)), signed=True)
    weights = integers(rng, weight, (rows, hidden))
    drop = sums.bits - bits
    # A sum of products of the usual size is about a fourth of a gate sum's range.
    reach = max(1, int(np.abs(weights).sum(axis=1).max())) << (state.bits - 1)
    shift = max(0, reach.bit_length() - sums.bits + 12)
    ends = -(1 << 15), (1 << 15) - 1
    empty, one = np.zeros(0, np.int64), np.ones(1, np.int64)
    return {
        "cell": cell, "input_format": sums, "hidden_weights": weights, "weight_format": weight,
        "hidden_rescale": Requantize(
            rng.integers(-reach // 8 - 1, reach // 8 + 2, rows), rng.integers(500, 1500, rows),
            np.full(rows, shift), 0, sums.low, sums.high),
        "gate_fraction": drop, "table_fraction": 0,
        "gate_table": empty if cell == "rnn" else slope(bits, 0, ends[1]),
        "candidate_table": slope(bits, *ends) if lstm else slope(bits, state.low, state.high),
        "output_table": slope(bits, *ends) if lstm else empty,
        "hidden_bits": state.bits, "hidden_fraction": state.bits - 1,
        "cell_bits": bits + 8 if lstm else 0, "cell_fraction": 8 if lstm else 0, "candidate_fraction": 15 - bits + 8
        if lstm else 0,
        "initial": integers(rng, state, (1 + lstm, hidden)) // 256 * int(rng.integers(0, 2)),
        "requantize": Requantize(0 * one, int(rng.integers(1, 256)) * one,
                                 (max(0, state.bits - like.format.bits) + 7) * one, like.zero_point, like.format.low,
                                 like.format.high),
        "linear_before_reset": cell == "gru" and bool(rng.integers(2)), "streaming": False}


def slope(bits: int, low: int, high: int) -> np.ndarray:
    """A line that ends in both limits."""
    return np.linspace(1.3 * low, 1.3 * high, 1 << bits).clip(low, high).round().astype(np.int64)


def trees(grown: Growing, x: str) -> str:
    """Trees of up to three levels over the channels of each pixel; a table where elements are no numbers."""
    rng, tensor = grown.rng, grown.tensors[x]
    if tensor.format.bipolar:
        return grown.lookup(x)
    nodes: list[tuple[int, int, int]] = []
    children: list[list[int]] = []
    leaves = 0

    def node(depth: int) -> int:
        nonlocal leaves
        if depth == 0:
            leaves += 1
            return -leaves
        own = len(nodes)
        threshold = int(rng.integers(tensor.format.low, tensor.format.high + 2))
        nodes.append((int(rng.integers(tensor.frame.channels)), threshold, int(rng.random() < 0.1)))
        children.append([0, 0])
        children[own] = [node(depth - 1 if rng.random() < 0.8 else 0) for _ in range(2)]
        return own

    roots = [node(int(rng.integers(1, 4))) for _ in range(int(rng.integers(1, 9)))]
    targets = int(rng.integers(1, min(4, grown.taste.channels) + 1))
    votes = rng.integers(-3, 4, (leaves, targets))
    features, thresholds, equal = np.array(nodes).T
    aggregate = str(rng.choice(["sum", "min", "max"]))
    most = 3 * len(roots)
    format = IntFormat.covering(-most, most)
    return grown.put(Trees, (x,), Elements(format, 0), input_format=tensor.format, features=features,
                     thresholds=thresholds, equal=equal, children=np.array(children), roots=np.array(roots),
                     leaves=votes, aggregate=aggregate)
