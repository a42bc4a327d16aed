"""Recurrent layers: the loop of an RNN, GRU or LSTM over the steps of a sequence, in integers.

docs/integer-functions.md defines it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import accumulator_format, errors_of, exact_type, require
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import Requantize, accumulator_of, shift_right
from hwflow.layers.rescale_planes import PlanesRescaler

#: The gates of each cell in the order of the rows of its weights.
GATES = {"rnn": ("h",), "gru": ("r", "z", "n"), "lstm": ("i", "f", "c", "o")}

#: What tables give.
VALUE = IntFormat(16, signed=True)

#: The values of gates (of r, z, i, f and o) count in steps of 2**-15, so 1 is 32767.
ONE_FRACTION = 15

_MOST_GATE_BITS, _MOST_HIDDEN_BITS, _MOST_CELL_BITS, _MOST_TABLE_BITS = 18, 16, 24, 14


@dataclass(frozen=True, eq=False)
class Recurrent(Layer):
    """One direction of a recurrent layer over Frame(1, steps, gates * hidden); gives Frame(1, steps, hidden).

    The input holds for each step the products of the layer's input with its weights and biases, as gate sums: integers
    of `input_format` in units of 2**-gate_fraction, for all units of the first gate, then those of the next gate
    (`GATES`).  A Conv of 1 x 1 makes them.  A backward direction reads and writes rearranged sequences.

    hidden_weights
        int64 [gates * hidden, hidden] of `weight_format`, times the hidden state of the step before.
    hidden_rescale
        Requantize with a row for each of these sums, to gate sums of `input_format`.
    gate_table, candidate_table, output_table
        int64 [2**bits]: the function of a sum of 2**-table_fraction times (index - 2**(bits - 1)).  Of the gates (units
        of 2**-15; empty for an rnn); of n, of c and of the rnn's sum; of an lstm's cell state (else empty), in units of
        the hidden state.
    hidden_bits, hidden_fraction
        The hidden state: signed, in units of 2**-hidden_fraction.  Candidates of rnn and gru have the same format.
    cell_bits, cell_fraction, candidate_fraction
        The same of an lstm's cell state; the units of its candidate's table are 2**-candidate_fraction.  Else 0.
    initial
        int64 [1, hidden], or of an lstm [2, hidden] with the cell state: before the first step.
    requantize
        Requantize with one row, from hidden states to elements of the output.
    linear_before_reset
        Of a gru: r is multiplied with the recurrent sum of n, else with the hidden state in front of the product.
    streaming
        Frames are parts of one sequence: the state goes on from frame to frame, from `initial` at the first.  Else each
        frame begins with `initial`.
    """

    kind: ClassVar[str] = "recurrent"

    name: str
    inputs: tuple[str, ...]
    output: str
    cell: str
    input_format: IntFormat
    hidden_weights: IntArray
    weight_format: IntFormat
    hidden_rescale: Requantize
    gate_fraction: int
    gate_table: IntArray
    candidate_table: IntArray
    output_table: IntArray
    table_fraction: int
    hidden_bits: int
    hidden_fraction: int
    cell_bits: int
    cell_fraction: int
    candidate_fraction: int
    initial: IntArray
    requantize: Requantize
    linear_before_reset: bool
    streaming: bool

    @property
    def keeps_state(self) -> bool:
        return self.streaming

    @property
    def hidden(self) -> int:
        """Units of the layer."""
        return int(self.hidden_weights.shape[1])

    @property
    def gates(self) -> tuple[str, ...]:
        return GATES[self.cell]

    @property
    def hidden_format(self) -> IntFormat:
        return IntFormat(self.hidden_bits, signed=True)

    @property
    def cell_format(self) -> IntFormat:
        """The format of an lstm's cell state."""
        return IntFormat(self.cell_bits, signed=True)

    @cached_property
    def accumulator(self) -> IntFormat:
        """The format of the exact recurrent sums; with room for other weights as wide as that room."""
        needed = accumulator_format(self.hidden_weights, self.hidden_rescale.whole_bias, self.hidden_format)
        return accumulator_of(self.hidden_rescale, needed)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.cell not in GATES:
            raise ValueError(f"layer '{self.name}': cell must be one of {', '.join(GATES)}, not '{self.cell}'")
        rows = len(self.gates) * self.hidden
        if frame.height != 1 or frame.channels != rows:
            raise ValueError(f"layer '{self.name}': the input must be one row of pixels with {rows} channels, the gate "
                             f"sums of {self.hidden} units, not {frame}")
        return Frame(1, frame.width, self.hidden)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        with errors_of(self.name):
            for problem in self._problems():
                raise ValueError(problem)
            require("hidden weights", self.hidden_weights, self.weight_format)
            require("the initial hidden state", self.initial[:1], self.hidden_format)
            require("the initial cell state", self.initial[1:], IntFormat(max(1, self.cell_bits), signed=True))
            for name, table, format in self._tables():
                if table.dtype != np.int64 or table.shape != (1 << max(0, len(table).bit_length() - 1),):
                    raise ValueError(f"{name} must be int64 [2**bits], not {table.dtype} {list(table.shape)}")
                require(name, table, format)
            self.hidden_rescale.check(len(self.hidden_weights), self.accumulator, self.input_format)
            self.requantize.check(1, self.hidden_format, graph.tensors[self.output].format)

    def _problems(self) -> Iterator[str]:
        """List what contradicts, beside tables and rescaling."""
        lstm = self.cell == "lstm"
        if not self.input_format.signed or self.input_format.bits > _MOST_GATE_BITS:
            yield f"gate sums must be signed, of at most {_MOST_GATE_BITS} bits, not {self.input_format}"
        if not 2 <= self.hidden_bits <= _MOST_HIDDEN_BITS:
            yield f"the hidden state must have 2 to {_MOST_HIDDEN_BITS} bits, not {self.hidden_bits}"
        if not (2 if lstm else 0) <= self.cell_bits <= (_MOST_CELL_BITS if lstm else 0):
            yield f"the cell state must have 2 to {_MOST_CELL_BITS} bits in an lstm, else 0, not {self.cell_bits}"
        if not 0 <= self.table_fraction <= self.gate_fraction <= self.input_format.bits + _MOST_GATE_BITS:
            yield (f"fractions must be 0 <= table_fraction <= gate_fraction, not {self.table_fraction} and "
                   f"{self.gate_fraction}")
        if lstm and not self.table_fraction <= self.cell_fraction <= 2 * _MOST_CELL_BITS:
            yield f"cell_fraction must be at least table_fraction, {self.table_fraction}, not {self.cell_fraction}"
        if abs(self.candidate_fraction - self.cell_fraction) > _MOST_CELL_BITS:
            yield (f"candidate_fraction must be within {_MOST_CELL_BITS} of cell_fraction, {self.cell_fraction}, not "
                   f"{self.candidate_fraction}")
        if self.weight_format.bipolar:
            yield "hidden weights of -1 and 1 must have two bits: the loop has none that are bipolar"
        if self.linear_before_reset and self.cell != "gru":
            yield f"linear_before_reset must be of cell gru, not {self.cell}"
        if self.hidden_weights.shape != (len(self.gates) * self.hidden, self.hidden):
            yield (f"hidden weights must be [{len(self.gates)} * hidden, hidden], not "
                   f"{list(self.hidden_weights.shape)}")
        if self.initial.dtype != np.int64 or self.initial.shape != (1 + lstm, self.hidden):
            yield (f"the initial state must be int64 [{1 + lstm}, {self.hidden}], not {self.initial.dtype} "
                   f"{list(self.initial.shape)}")

    def _tables(self) -> Iterator[tuple[str, IntArray, IntFormat]]:
        """The tables that the cell has, and the formats of their entries.  ValueError for a wrong number of entries."""
        lstm = self.cell == "lstm"
        wanted = (("gate_table", self.cell != "rnn", VALUE), ("output_table", lstm, VALUE),
                  ("candidate_table", True, VALUE if lstm else self.hidden_format))
        for name, there, format in wanted:
            table = getattr(self, name)
            if not there and len(table):
                raise ValueError(f"{name} must be empty for cell {self.cell}, not have {len(table)} entries")
            if there and not 2 <= len(table) <= 1 << _MOST_TABLE_BITS:
                raise ValueError(f"{name} must have 2 to {1 << _MOST_TABLE_BITS} entries, not {len(table)}")
            if there:
                yield name, table, format

    def multiplications(self, graph: LayerGraph) -> int:
        return graph.tensors[self.inputs[0]].frame.width * self.hidden_weights.size

    def states(self, sums: IntArray) -> IntArray:
        """The states [n, steps + 1, 1 or 2, hidden] of frames of gate sums [n, 1, steps, gates * hidden], each of which
        begins with `initial`, that one included."""
        walk = _Steps(self, self.initial, len(sums))
        found = [walk.state]
        for step in np.moveaxis(sums[:, 0], 1, 0):
            walk.take(step.T)
            found.append(walk.state)
        return np.moveaxis(np.stack(found), -1, 0)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        return self.resume(graph, None, *inputs)[0]

    def resume(self, graph: LayerGraph, state: IntArray | None, *inputs: Planes) -> tuple[Planes, IntArray | None]:
        (x,) = inputs
        rows, _, steps, count = x.shape
        output = graph.tensors[self.output].format
        if self.streaming:  # one sequence of all frames
            x = x.transpose(0, 1, 3, 2).reshape(rows, 1, count * steps, 1)
        begin = self.initial if state is None else state
        walk = _Steps(self, begin, x.shape[3])
        made = np.empty((self.hidden, 1, *x.shape[2:]), compact(output))
        rescale = PlanesRescaler(_rows(self.requantize, self.hidden), self.hidden_format, np.int64, output)
        for step in range(x.shape[2]):
            made[:, 0, step] = rescale(walk.take(x[:, 0, step].astype(np.int64)))
        if not self.streaming:
            return made, None
        frames = made.reshape(self.hidden, 1, count, steps).transpose(0, 1, 3, 2)
        return np.ascontiguousarray(frames), walk.state[:, :, 0]


def halved(values: IntArray, times: int) -> IntArray:
    """values / 2**times, rounded half to even."""
    return shift_right(values, np.asarray(times, np.int64))


def _rows(requantize: Requantize, count: int) -> Requantize:
    """The constants of the only row for `count` rows."""
    bias, multiplier, shift = (np.repeat(values, count) for values in (
        requantize.bias, requantize.multiplier, requantize.shift))
    return replace(requantize, bias=bias, multiplier=multiplier, shift=shift)


class _Steps:
    """A layer's `state`, int64 [1 or 2, hidden, sequences], and what a step does to it."""

    def __init__(self, layer: Recurrent, begin: IntArray, sequences: int):
        self.layer = layer
        self.state = np.repeat(begin[:, :, None], sequences, axis=2)
        dtype = exact_type(layer.accumulator)
        self.weights = np.split(layer.hidden_weights.astype(dtype), len(layer.gates))
        constants = [np.split(values, len(layer.gates)) for values in (
            layer.hidden_rescale.bias, layer.hidden_rescale.multiplier, layer.hidden_rescale.shift)]
        self.rescalers = [
            PlanesRescaler(replace(layer.hidden_rescale, bias=bias, multiplier=multiplier, shift=shift),
                           layer.accumulator, dtype, layer.input_format)
            for bias, multiplier, shift in zip(*constants, strict=True)]

    def take(self, sums: IntArray) -> IntArray:
        """The hidden state, int64 [hidden, sequences], after a step with the gate sums [gates * hidden, sequences]."""
        x = np.split(sums, len(self.layer.gates))
        step = {"rnn": self.rnn, "gru": self.gru, "lstm": self.lstm}[self.layer.cell]
        self.state = step(x)
        hidden: IntArray = self.state[0]
        return hidden

    def recurrent(self, gate: int, hidden: IntArray) -> IntArray:
        """Gate sums of the product with `hidden`."""
        weights = self.weights[gate]
        # Exact: every partial sum is inside of the accumulator, whose integers the floats hold.
        return self.rescalers[gate](weights @ hidden.astype(weights.dtype)).astype(np.int64)

    def looked_up(self, table: IntArray, sums: IntArray, fraction: int) -> IntArray:
        """The function in `table` of sums in units of 2**-fraction."""
        half = len(table) // 2
        steps = halved(sums, fraction - self.layer.table_fraction)
        return table[np.clip(steps, -half, half - 1) + half]

    def gate(self, sums: IntArray) -> IntArray:
        return self.looked_up(self.layer.gate_table, sums, self.layer.gate_fraction)

    def candidate(self, sums: IntArray) -> IntArray:
        return self.looked_up(self.layer.candidate_table, sums, self.layer.gate_fraction)

    def saturated(self, values: IntArray, format: IntFormat) -> IntArray:
        return np.clip(values, format.low, format.high)

    def rnn(self, x: list[IntArray]) -> IntArray:
        return self.candidate(x[0] + self.recurrent(0, self.state[0]))[None]

    def gru(self, x: list[IntArray]) -> IntArray:
        layer, (hidden,) = self.layer, self.state
        r = self.gate(x[0] + self.recurrent(0, hidden))
        z = self.gate(x[1] + self.recurrent(1, hidden))
        if layer.linear_before_reset:
            own = halved(r * self.recurrent(2, hidden), ONE_FRACTION)
        else:
            kept = halved(r * hidden, ONE_FRACTION)
            own = self.recurrent(2, self.saturated(kept, layer.hidden_format))
        n = self.candidate(x[2] + own)
        moved = n + halved(z * (hidden - n), ONE_FRACTION)
        return self.saturated(moved, layer.hidden_format)[None]

    def lstm(self, x: list[IntArray]) -> IntArray:
        layer, (hidden, cell) = self.layer, self.state
        sums = [part + self.recurrent(k, hidden) for k, part in enumerate(x)]
        i, f, o = (self.gate(sums[k]) for k in (0, 1, 3))
        finer = layer.candidate_fraction - layer.cell_fraction
        total = (f * cell << max(0, finer)) + (i * self.candidate(sums[2]) << max(0, -finer))
        cell = self.saturated(halved(total, ONE_FRACTION + max(0, finer)), layer.cell_format)
        shown = self.looked_up(layer.output_table, cell, layer.cell_fraction)
        made = self.saturated(halved(o * shown, ONE_FRACTION), layer.hidden_format)
        return np.stack([made, cell])
