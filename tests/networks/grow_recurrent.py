"""Adds a recurrent layer to a random network: a convolution that makes its gate sums, and the loop."""

from __future__ import annotations

import numpy as np

from hwflow.layers import Frame, IntFormat, Recurrent, Requantize
from tests.networks.grow import Elements, Growing
from tests.networks.numbers import integers

CELLS = {"rnn": 1, "gru": 3, "lstm": 4}


def recurrent(grown: Growing, x: str) -> str:
    """Few units, a few steps, and functions that reach over all of their range."""
    rng = grown.rng
    cell = str(rng.choice(list(CELLS)))
    steps, hidden = min(3, grown.frame(x).width), int(rng.integers(1, 5))
    sums = IntFormat(int(rng.integers(10, 15)), signed=True)
    x = grown.conv(x, Frame(1, steps, CELLS[cell] * hidden), Elements(sums, 0))
    return grown.put(Recurrent, (x,), like := grown.elements(bipolar=False), **fields(rng, cell, hidden, sums, like))


def fields(rng: np.random.Generator, cell: str, hidden: int, sums: IntFormat, like: Elements) -> dict:
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
