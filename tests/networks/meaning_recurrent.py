"""What a recurrent layer means, in Python's integers, step by step; nothing shared with `hwflow.layers`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.layers import LayerGraph
from tests.networks.rounding import rescaled, round_exactly

Ints = np.ndarray


def recurrent(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    """Frames that begin anew each."""
    sums = x[:, 0].astype(object)
    state = [np.repeat(row[None].astype(object), len(x), axis=0) for row in layer.initial]
    made = []
    for step in range(x.shape[2]):
        state = {"rnn": rnn, "gru": gru, "lstm": lstm}[layer.cell](layer, sums[:, step], *state)
        made.append(rescaled(layer.requantize, state[0].astype(np.int64)[..., None])[..., 0])
    return np.stack(made, axis=1)[:, None]


def half_even(values: Ints, bits: int) -> Ints:
    return round_exactly(np.asarray(values, object), bits)


def limited(values: Ints, bits: int) -> Ints:
    return np.minimum(np.maximum(values, -(2 ** (bits - 1))), 2 ** (bits - 1) - 1)


def function(layer: Any, table: Ints, values: Ints, fraction: int) -> Ints:
    half = len(table) // 2
    index = np.minimum(np.maximum(half_even(values, fraction - layer.table_fraction), -half), half - 1) + half
    return table.astype(object)[index.astype(int)]


def product(layer: Any, hidden: Ints) -> Ints:
    """[n, rows], of all gates."""
    return rescaled(layer.hidden_rescale, np.einsum("nh,rh->nr", hidden.astype(np.int64), layer.hidden_weights)).astype(
        object)


def rnn(layer: Any, x: Ints, hidden: Ints) -> list[Ints]:
    return [function(layer, layer.candidate_table, x + product(layer, hidden), layer.gate_fraction)]


def gru(layer: Any, x: Ints, hidden: Ints) -> list[Ints]:
    (xr, xz, xn), own = np.split(x, 3, axis=1), product(layer, hidden)
    r, z = (function(layer, layer.gate_table, a + b, layer.gate_fraction)
            for a, b in zip((xr, xz), np.split(own, 3, axis=1), strict=False))
    if layer.linear_before_reset:
        last = half_even(r * np.split(own, 3, axis=1)[2], 15)
    else:
        last = np.split(product(layer, limited(half_even(r * hidden, 15), layer.hidden_bits)), 3, axis=1)[2]
    n = function(layer, layer.candidate_table, xn + last, layer.gate_fraction)
    return [limited(n + half_even(z * (hidden - n), 15), layer.hidden_bits)]


def lstm(layer: Any, x: Ints, hidden: Ints, cell: Ints) -> list[Ints]:
    i, f, c, o = np.split(x + product(layer, hidden), 4, axis=1)
    i, f, o = (function(layer, layer.gate_table, sums, layer.gate_fraction) for sums in (i, f, o))
    c = function(layer, layer.candidate_table, c, layer.gate_fraction)
    fine = max(layer.cell_fraction, layer.candidate_fraction)
    total = f * cell * 2 ** (fine - layer.cell_fraction) + i * c * 2 ** (fine - layer.candidate_fraction)
    cell = limited(half_even(total, 15 + fine - layer.cell_fraction), layer.cell_bits)
    shown = function(layer, layer.output_table, cell, layer.cell_fraction)
    return [limited(half_even(o * shown, 15), layer.hidden_bits), cell]
