"""Random small recurrent layers."""

from __future__ import annotations

import numpy as np

from hwflow.layers import IntFormat, Requantize
from hwflow.layers.recurrent import GATES, Recurrent

Rng = np.random.Generator


def function(rng: Rng, bits: int, low: int, high: int) -> np.ndarray:
    """A table: a slope that ends in both limits, upwards or downwards, or anything."""
    if rng.random() < 0.3:
        return rng.integers(low, high + 1, 1 << bits)
    slope = np.linspace(low * 1.3, high * 1.3, 1 << bits).clip(low, high).round().astype(np.int64)
    return slope if rng.random() < 0.8 else slope[::-1].copy()


def scaled(rng: Rng, rows: int, magnitude: int, y: IntFormat) -> Requantize:
    """Ratios that bring sums of `magnitude` a little over the range of `y`; ties are among them."""
    shift = max(0, magnitude.bit_length() - y.bits) + 9
    return Requantize(
        bias=rng.integers(-magnitude // 3 - 1, magnitude // 3 + 2, rows),
        multiplier=np.where(rng.random(rows) < 0.3, 512, rng.integers(200, 1400, rows)),
        shift=np.full(rows, shift), zero_point=0, low=y.low, high=y.high)


def random_layer(rng: Rng, *, cell: str | None = None, hidden: int | None = None, y: IntFormat | None = None,
                 sums: IntFormat | None = None, streaming: bool = False, after: bool | None = None) -> Recurrent:
    """A layer from 'x' to 'y'; `after`: its linear_before_reset."""
    cell = cell or str(rng.choice(list(GATES)))
    hidden = hidden or int(rng.integers(1, 7))
    y = y or IntFormat(int(rng.integers(4, 17)), signed=True)
    lstm, gates = cell == "lstm", len(GATES[cell])
    weight, sums = IntFormat(int(rng.integers(3, 9)), True), sums or IntFormat(int(rng.integers(8, 19)), True)
    state, memory = IntFormat(int(rng.integers(6, 17)), True), IntFormat(int(rng.integers(8, 25)), True)
    bits, table_fraction = int(rng.integers(3, 9)), int(rng.integers(0, 5))
    # Sums use the table, and the cell state its table, over about their whole range.
    gate_fraction = table_fraction + max(0, sums.bits - bits) - int(rng.integers(0, min(2, max(1, sums.bits - bits))))
    cell_fraction = table_fraction + max(0, memory.bits - bits - int(rng.integers(0, 2)))
    weights = rng.integers(weight.low, weight.high + 1, (gates * hidden, hidden))
    magnitude = max(1, int(np.abs(weights).sum(axis=1).max()) << (state.bits - 2))
    initial = np.stack([rng.integers(f.low, f.high + 1, hidden) for f in [state, memory][:1 + lstm]])
    out = Requantize(np.array([int(rng.integers(-9, 10))]), np.array([int(rng.choice([1, 3, 181, 256]))]),
                     np.array([max(0, state.bits - y.bits) + int(rng.integers(0, 9))]), int(rng.integers(-3, 4)),
                     y.low, y.high)
    limit = (-32768, 32767)
    ends = limit if rng.random() < 0.2 else (0, 32767)
    empty = np.zeros(0, np.int64)
    return Recurrent(
        name="loop", inputs=("x",), output="y", cell=cell, input_format=sums, hidden_weights=weights,
        weight_format=weight, hidden_rescale=scaled(rng, gates * hidden, magnitude, sums),
        gate_fraction=gate_fraction, gate_table=empty if cell == "rnn" else function(rng, bits, *ends),
        candidate_table=function(rng, bits, *(limit if lstm else (state.low, state.high))),
        output_table=function(rng, bits, *limit) if lstm else empty, table_fraction=table_fraction,
        hidden_bits=state.bits, hidden_fraction=state.bits - 1, cell_bits=memory.bits if lstm else 0,
        cell_fraction=cell_fraction if lstm else 0,
        candidate_fraction=cell_fraction + int(rng.integers(-3, 4)) if lstm else 0,
        initial=np.zeros_like(initial) if rng.random() < 0.5 else initial, requantize=out,
        linear_before_reset=cell == "gru" and (bool(rng.integers(2)) if after is None else after),
        streaming=streaming)
