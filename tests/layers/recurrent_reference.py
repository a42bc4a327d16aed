"""What a recurrent layer means, in plain loops over Python integers: nothing shared with `hwflow.layers`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.layers.reference import Ints, clamp, rescale, rounded


def shifted(value: int, bits: int) -> int:
    return rounded(Fraction(value, 2**bits), "half_even")


def ends(bits: int) -> tuple[int, int]:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def looked_up(layer: Any, table: Ints, value: int, fraction: int) -> int:
    half = len(table) // 2
    return int(table[clamp(shifted(value, fraction - layer.table_fraction), -half, half - 1) + half])


def product(layer: Any, row: int, hidden: list[int]) -> int:
    total = sum(int(w) * h for w, h in zip(layer.hidden_weights[row], hidden, strict=True))
    return rescale(layer.hidden_rescale, total, row)


def rnn(layer: Any, x: list[int], state: list[list[int]]) -> list[list[int]]:
    return [[looked_up(layer, layer.candidate_table, x[u] + product(layer, u, state[0]), layer.gate_fraction)
             for u in range(len(state[0]))]]


def gru(layer: Any, x: list[int], state: list[list[int]]) -> list[list[int]]:
    (hidden,) = state
    count, made = len(hidden), []
    low, high = ends(layer.hidden_bits)
    r = [looked_up(layer, layer.gate_table, x[u] + product(layer, u, hidden), layer.gate_fraction)
         for u in range(count)]
    kept = [clamp(shifted(r[u] * hidden[u], 15), low, high) for u in range(count)]
    for u in range(count):
        z = looked_up(layer, layer.gate_table, x[count + u] + product(layer, count + u, hidden), layer.gate_fraction)
        row = 2 * count + u
        own = shifted(r[u] * product(layer, row, hidden), 15) if layer.linear_before_reset else product(
            layer, row, kept)
        n = looked_up(layer, layer.candidate_table, x[row] + own, layer.gate_fraction)
        made.append(clamp(n + shifted(z * (hidden[u] - n), 15), low, high))
    return [made]


def lstm(layer: Any, x: list[int], state: list[list[int]]) -> list[list[int]]:
    hidden, cell = state
    count, made, cells = len(hidden), [], []
    unit = Fraction(1, 2**layer.cell_fraction)
    for u in range(count):
        i, f, o, g = (looked_up(layer, table, x[k * count + u] + product(layer, k * count + u, hidden),
                                layer.gate_fraction)
                      for k, table in ((0, layer.gate_table), (1, layer.gate_table), (3, layer.gate_table),
                                       (2, layer.candidate_table)))
        exact = Fraction(f, 2**15) * cell[u] * unit + Fraction(i, 2**15) * Fraction(g, 2**layer.candidate_fraction)
        cells.append(clamp(rounded(exact / unit, "half_even"), *ends(layer.cell_bits)))
        shown = looked_up(layer, layer.output_table, cells[u], layer.cell_fraction)
        made.append(clamp(shifted(o * shown, 15), *ends(layer.hidden_bits)))
    return [made, cells]


def recurrent(layer: Any, frames: Ints, state: list[list[int]] | None = None) -> tuple[Ints, list[list[int]]]:
    """Frames [n, 1, steps, channels] through the loop: what leaves, and the state after the last frame."""
    y = np.zeros((*frames.shape[:3], layer.hidden_weights.shape[1]), np.int64)
    begin: list[list[int]] = layer.initial.tolist()
    state = begin if state is None else state
    for n, frame in enumerate(frames):
        state = state if layer.streaming else begin
        for t, sums in enumerate(frame[0].tolist()):
            state = {"rnn": rnn, "gru": gru, "lstm": lstm}[layer.cell](layer, sums, state)
            y[n, 0, t] = [rescale(layer.requantize, h, 0) for h in state[0]]
    return y, state
