"""The steps of recurrent layers against ONNX's formulas: each one from the integer state before it.

A whole sequence has no bound: what the steps before have rounded goes on by the weights of the loop.  One step has.
So the formulas are evaluated for each step on its own, from the state that the integer loop has in front of it, and
with intervals in place of numbers: each rounding of docs/integer-functions.md widens an interval by what it can be off
at most, and a format that saturates limits it.  The integer state behind the step must be inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.layers.recurrent import ONE_FRACTION, Recurrent
from hwflow.onnx.model import Node
from hwflow.quantize.calibrate.recurrent import Function, functions_of
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import attribute

Floats = npt.NDArray[np.float64]

_STATES = ("hidden", "cell")
#: How far the multiplier of a rescaling is from the ratio, of 1, and weights in float32 from their reals.
_RATIO = 2.0**-17
#: Part of a bound that floats may be off.
_FLOATS = 1e-6
#: By how much a function that is flat has changed beyond its table (`cell_functions`).
_FLAT_CHANGE = 2.0**-11


class Interval(NamedTuple):
    """Reals from `low` to `high`, element by element."""

    low: Floats
    high: Floats

    @staticmethod
    def of(value: Floats, radius: Floats | float = 0.0) -> Interval:
        return Interval(value - radius, value + radius)

    def wider(self, by: Floats | float) -> Interval:
        return Interval(self.low - by, self.high + by)

    def plus(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def times(self, other: Interval) -> Interval:
        ends = [a * b for a in self for b in other]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def limited(self, low: float, high: float) -> Interval:
        return Interval(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def mapped(self, function: Function) -> Interval:
        """All values of `function` inside."""
        inside = [np.clip(bend, *self) for bend in function.bends]
        values = [function(x) for x in (*self, *inside)]
        return Interval(np.minimum.reduce(values), np.maximum.reduce(values))


@dataclass(frozen=True)
class Weights:
    """W, R and B of one direction, in the order of ONNX: [gates * hidden, inputs], [gates * hidden, hidden] and
    [2, gates * hidden]; `w_steps` and `r_steps` [gates * hidden] are the scales of their rows."""

    w: Floats
    r: Floats
    b: Floats
    w_steps: Floats
    r_steps: Floats

    @staticmethod
    def of(node: Node, direction: int, constants: Mapping[str, Quantity]) -> Weights:
        w, r = (constants[name] for name in node.inputs[1:3])
        name = node.input(3)
        b = constants[name].real[direction] if name else np.zeros(2 * r.real.shape[1])
        return Weights(
            w.real[direction], r.real[direction], b.reshape(2, -1), w.scale[direction, :, 0], r.scale[direction, :, 0]
        )


@dataclass(frozen=True)
class Formulas:
    """ONNX's formulas of direction number `direction` of the recurrent `node`, and the roundings of `layer`.

    `x` [n, steps, inputs] are the reals of `n` sequences that the node reads, in steps of `x_step`; `start` [1 or 2,
    hidden] are the states before the first step.
    """

    node: Node
    direction: int
    layer: Recurrent
    weights: Weights
    x: Floats
    x_step: float
    start: Floats

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        return functions_of(self.node, self.direction)

    @property
    def _is_backward(self) -> bool:
        return self.direction == 1 or attribute(self.node, "direction", "forward") == "reverse"

    def problem(self, states: IntArray) -> str:
        """Words on the first integer state that no step can give; empty where all can be.

        `states` are [n, steps + 1, 1 or 2, hidden] in the order in which the loop makes them, from the initial one on.
        """
        fractions = (self.layer.hidden_fraction, self.layer.cell_fraction)[: states.shape[2]]
        for row, (start, fraction) in enumerate(zip(self.start, fractions, strict=True)):
            off = np.abs(states[:, 0, row] * _step(fraction) - start)
            if (off > _step(fraction) * (0.5 + _FLOATS)).any():
                return f"steps from another {_STATES[row]} state than that of the model, by up to {off.max():.4g}"
        reals = [states[:, :, row] * _step(fraction) for row, fraction in enumerate(fractions)]
        before, after = (
            [np.reshape(array[:, part], (-1, self.layer.hidden)) for array in reals]
            for part in (slice(None, -1), slice(1, None))
        )
        for row, bounds in enumerate(self._after(before, after)):
            states_after, room = after[row], _FLOATS * (1 + np.abs(bounds.high))
            wrong = np.argwhere((states_after < bounds.low - room) | (states_after > bounds.high + room))
            if len(wrong):
                k, unit = wrong[0]
                return (
                    f"steps to a {_STATES[row]} state of {states_after[k, unit]:.4g} in unit {unit} of step "
                    f"{k % self.x.shape[1]}, where the formulas give {bounds.low[k, unit]:.4g} to "
                    f"{bounds.high[k, unit]:.4g}"
                )
        return ""

    def output(self, states: IntArray) -> Floats:
        """The results of the node for these `states`: [n, steps, hidden], in its own order of the steps."""
        hidden = np.asarray(states[:, 1:, 0] * _step(self.layer.hidden_fraction), np.float64)
        return hidden[:, ::-1] if self._is_backward else hidden

    def _after(self, before: list[Floats], after: list[Floats]) -> tuple[Interval, ...]:
        """The states that may stand `after` each step, of the states `before` it; an LSTM's hidden state is one of its
        integer cell state.
        """
        layer, x, own = self.layer, self._inputs(), self._sums(before[0])
        if layer.cell == "rnn":
            return (self._candidate(x[0].plus(own[0])),)
        if layer.cell == "gru":
            return (self._gru(before[0], x, own),)
        i, o, f, g = (a.plus(b) for a, b in zip(x, own, strict=True))
        return self._shown(o, after[1]), self._cell((i, f, g), before[1])

    def _gru(self, before: Floats, x: list[Interval], own: list[Interval]) -> Interval:
        """ONNX has z, r, h."""
        layer, unit = self.layer, _step(self.layer.hidden_fraction)
        z, reset = (self._gate(a.plus(b)) for a, b in zip(x[:2], own[:2], strict=True))
        if layer.linear_before_reset:
            part = reset.times(own[2]).wider(_step(layer.gate_fraction) / 2)
        else:
            reset_state = reset.times(Interval.of(before)).wider(unit / 2)
            part = self._sums((reset_state.low + reset_state.high) / 2, (reset_state.high - reset_state.low) / 2)[2]
        n = self._candidate(x[2].plus(part))
        ends = [new + share * (before - new) for new in n for share in z]
        return self._in_state(Interval(np.minimum.reduce(ends), np.maximum.reduce(ends)).wider(unit / 2))

    def _cell(self, sums: tuple[Interval, Interval, Interval], cell: Floats) -> Interval:
        """The cell state of the sums of i, f and c, and of the cell state before."""
        layer, unit = self.layer, _step(self.layer.cell_fraction)
        i, f = self._gate(sums[0]), self._gate(sums[1])
        g = self._looked_up(1, sums[2], layer.candidate_table)
        total = f.times(Interval.of(cell)).plus(i.times(g.wider(_step(layer.candidate_fraction)))).wider(unit / 2)
        end = 2.0 ** (layer.cell_bits - 1) * unit
        return total.limited(-end, end - unit)

    def _shown(self, sums: Interval, cell: Floats) -> Interval:
        """The hidden state of the sums of o, and of the cell state behind the step."""
        layer, unit = self.layer, _step(self.layer.hidden_fraction)
        shown = self._looked_up(2, Interval.of(cell), layer.output_table, layer.cell_fraction).wider(unit)
        return self._in_state(self._gate(sums).times(self._in_state(shown)).wider(unit / 2))

    # Their parts.

    def _inputs(self) -> list[Interval]:
        """The input's part of the sums of each gate, for each step in the order of the loop."""
        weights, hidden = self.weights, self.layer.hidden
        bias = weights.b.sum(axis=0)
        if self.layer.linear_before_reset:  # r is multiplied with the other part's, its bias included
            bias[-hidden:] = weights.b[0, -hidden:]
        x = (self.x[:, ::-1] if self._is_backward else self.x).reshape(-1, self.x.shape[2])
        off = _RATIO * (np.abs(x) @ np.abs(weights.w.T) + np.abs(bias)) + self.x_step * weights.w_steps / 2
        return self._saturated(Interval.of(x @ weights.w.T + bias, off))

    def _sums(self, state: Floats, radius: Floats | None = None) -> list[Interval]:
        """The part of `state`, of which each element is off by up to `radius`, of the sums of each gate."""
        weights, hidden = self.weights, self.layer.hidden
        bias = np.zeros(len(weights.r))
        if self.layer.linear_before_reset:
            bias[-hidden:] = weights.b[1, -hidden:]
        sizes = np.abs(weights.r.T)
        off = _RATIO * (np.abs(state) @ sizes + np.abs(bias))
        off += weights.r_steps * _step(self.layer.hidden_fraction) / 2
        if radius is not None:
            off += radius @ sizes
        return self._saturated(Interval.of(state @ weights.r.T + bias, off))

    def _saturated(self, sums: Interval) -> list[Interval]:
        """Rounded to gate sums, and gate by gate."""
        layer, unit = self.layer, _step(self.layer.gate_fraction)
        low, high = sums.wider(unit / 2).limited(layer.input_format.low * unit, layer.input_format.high * unit)
        count = low.shape[1] // layer.hidden
        return [Interval(a, b) for a, b in zip(np.split(low, count, 1), np.split(high, count, 1), strict=True)]

    def _gate(self, sums: Interval) -> Interval:
        layer = self.layer
        values = self._looked_up(0, sums, layer.gate_table)
        return values.wider(_step(ONE_FRACTION)).limited(0.0, 1.0)

    def _candidate(self, sums: Interval) -> Interval:
        """The candidate of an RNN or GRU."""
        layer = self.layer
        values = self._looked_up(int(layer.cell == "gru"), sums, layer.candidate_table)
        return self._in_state(values.wider(_step(layer.hidden_fraction)))

    def _looked_up(self, number: int, sums: Interval, table: IntArray, fraction: int | None = None) -> Interval:
        """The results that the `table` of function `number` gives for gate sums, or for cells in steps of 2**-fraction.

        Its index is rounded, and beyond the last entry that one stands.  Sums end where the table does, but no sooner
        than their parts: a table of a function that goes on must reach so far.
        """
        layer, function = self.layer, self.functions[number]
        step = _step(layer.table_fraction)
        last = (len(table) // 2 - 1) * step
        if fraction is None:
            fraction = layer.gate_fraction
            end = max(2.0 ** (layer.input_format.bits - 1 - fraction), last + step)
            sums = sums.limited(-end, end)
        rounded = sums.wider(step / 2 if fraction > layer.table_fraction else 0.0)
        low = np.where(sums.high > last, np.minimum(rounded.low, sums.low - step), rounded.low)
        return Interval(low, rounded.high).mapped(function).wider(_FLAT_CHANGE if function.flat <= last + step else 0.0)

    def _in_state(self, interval: Interval) -> Interval:
        """With the ends of the hidden state."""
        layer, unit = self.layer, _step(self.layer.hidden_fraction)
        return interval.limited(layer.hidden_format.low * unit, layer.hidden_format.high * unit)


def _step(fraction: int) -> float:
    return 2.0**-fraction
