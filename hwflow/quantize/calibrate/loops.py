"""Integer weights of RNN, GRU and LSTM by calibration data, as those of Conv and Gemm get them.

The sums in front of the gates are products of two matrices: of W with the input of a step, of R with the hidden state
before it.  Each matrix is a layer with as many positions as all rows have steps, and the error of its integers is the
same quadratic form in mean products.  R makes up for the error of W, where both products are only added.  What an
error of one step does to the steps behind it is not in that form; so R is made for the states of the float model, then
for those that the loop reaches with these integers; the loop is run with both, and the best are kept, the nearest ones
among them.

Measured at the outputs of a GRU of 32 states (vowels), on rows that were not used, against the nearest integers with
the smallest squared error: 6 bits +6 dB, 5 bits +7, 4 bits +11, 3 bits +6, 2 bits +4; W4A4 +1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx.model import Array, Node
from hwflow.quantize.calibrate.recurrent import functions_of
from hwflow.quantize.calibrate.rounding import solved
from hwflow.quantize.calibrate.streams import Rows, measure
from hwflow.quantize.calibrate.weights import WeightForm, needs_data, needs_products, weight_form
from hwflow.quantize.graphs import attribute
from hwflow.quantize.settings import WeightSettings

#: Of the inputs of a recurrent node: the bias, and the hidden state before the first step.
_BIAS, _INITIAL = 3, 5

#: How often R is made for the states that the loop reaches; first for those of the float model.
_ROUNDS = 2


@dataclass(frozen=True)
class LoopForm:
    """Integers of W and of R, with the rows of all directions one behind the other.

    `bias` [directions, 2 * rows] is that of the node, None where it stays as it is.
    """

    w: WeightForm
    r: WeightForm
    bias: Array | None = None


@dataclass(frozen=True)
class LoopRows:
    """What a loop reads and gives in each calibration row.

    `inputs` are [steps, batch, elements], `results` [steps, directions, batch, hidden], and `starts`, the hidden states
    before the first step, [directions, batch, hidden].
    """

    inputs: Rows
    results: Rows
    starts: Rows


@dataclass(frozen=True)
class _Direction:
    """One direction of a loop, its sequences in the order in which it reads them.

    `inputs` are [steps, batch, elements], `before` the hidden states before each step.
    """

    inputs: Rows
    before: Rows

    @staticmethod
    def of(loop: Loop, d: int, rows: LoopRows) -> _Direction:
        backward = d == 1 or attribute(loop.node, "direction", "forward") == "reverse"
        turn = slice(None, None, -1 if backward else 1)
        before = [np.concatenate([start[d][None], result[turn, d][:-1]])
                  for start, result in zip(rows.starts, rows.results, strict=True)]  # fmt: skip
        return _Direction([x[turn] for x in rows.inputs], before)


@dataclass(frozen=True)
class Loop:
    """A recurrent `node` with weights `w` [directions, rows, elements], `r` [directions, rows, hidden] and biases `b`
    [directions, 2 * rows]; `start` are its hidden states before the first step, None where they are zero or no
    constant.
    """

    node: Node
    w: Array
    r: Array
    b: Array
    opsets: Mapping[str, int]
    start: Array | None = None

    @staticmethod
    def of(node: Node, constants: Mapping[str, Array], opsets: Mapping[str, int]) -> Loop:
        """The loop of `node`, whose weights, and bias if it has one, are among `constants`."""
        w, r = (constants[name] for name in node.inputs[1:3])
        b = constants[node.inputs[_BIAS]] if node.input(_BIAS) else np.zeros((len(w), 2 * w.shape[1]), np.float32)
        return Loop(node, w, r, b, opsets, constants.get(node.input(_INITIAL)))

    @property
    def is_reset_after(self) -> bool:
        """Whether the reset gate is multiplied with the products of the states, not with the states."""
        return self.node.op_type == "GRU" and bool(attribute(self.node, "linear_before_reset", 0))

    def nearest(self, settings: WeightSettings) -> LoopForm:
        """Integers without a look at data, where `settings` ask for none."""
        w, r = (weight_form(matrix.reshape(-1, matrix.shape[-1]), settings) for matrix in (self.w, self.r))
        return LoopForm(w, r)

    def reals(self, form: LoopForm) -> dict[str, Array]:
        """What the integers mean, by the names of the inputs of the node."""
        return {name: whole.reals.reshape(matrix.shape) for name, whole, matrix in
                zip(self.node.inputs[1:3], (form.w, form.r), (self.w, self.r), strict=True)}  # fmt: skip

    def written(self, form: LoopForm, bias: str) -> tuple[Node, dict[str, Array]]:
        """The node with what the integers mean, and constants for that by name; a new bias gets the name `bias`."""
        constants = self.reals(form)
        if form.bias is None:
            return self.node, constants
        inputs = (*self.node.inputs[:_BIAS], bias, *self.node.inputs[_BIAS + 1 :])
        return replace(self.node, inputs=inputs), {**constants, bias: form.bias}

    def rows(self, values: Mapping[str, Rows], results: Rows) -> LoopRows:
        """What the loop reads of the tensors `values`, and gives."""
        inputs = values[self.node.inputs[0]]
        zeros = np.zeros(self.r.shape[2], np.float32) if self.start is None else self.start
        starts = values.get(self.node.input(_INITIAL)) or [
            np.broadcast_to(zeros, (len(self.r), x.shape[1], self.r.shape[2])) for x in inputs]
        return LoopRows(inputs, results, starts)

    def form(self, settings: WeightSettings, real: LoopRows, play: Callable[[LoopForm], LoopRows]) -> LoopForm:
        """The integers for resolved `settings`: by data, or the nearest, whichever bring the results nearer to `real`.

        `real` are rows of the float model; `play` runs the loop with integers on what they read.
        """
        best = nearest = self.nearest(settings)
        if not needs_data(settings):
            return nearest
        directions, begun = range(len(self.w)), play(nearest)
        exact = [_Direction.of(self, d, real) for d in directions]
        inputs = [self._of_inputs(d, settings, nearest.w, exact[d], begun) for d in directions]
        half = self._joined(inputs, [(_rows_of(nearest.r, self.r, d), None) for d in directions])
        least, reached = _apart(begun.results, real.results), LoopRows(begun.inputs, real.results, real.starts)
        for _ in range(_ROUNDS):
            found = self._joined(inputs, [self._of_states(d, settings, half, exact[d], reached) for d in directions])
            reached = play(found)
            error = _apart(reached.results, real.results)
            best, least = (found, error) if error < least else (best, least)
        return best

    def _of_inputs(self, d: int, settings: WeightSettings, nearest: WeightForm, real: _Direction, reached: LoopRows
                   ) -> tuple[WeightForm, Array | None]:  # fmt: skip
        """Integers of W for the inputs in `reached`, and the bias of its products."""
        weights, bias = self.w[d], self.b[d][: len(self.w[d])]
        wanted = [x @ weights.T + bias for x in real.inputs]
        inputs = _Direction.of(self, d, reached).inputs
        return self._solved(settings, weights, bias, _rows_of(nearest, self.w, d), inputs, wanted)

    def _of_states(self, d: int, settings: WeightSettings, half: LoopForm, real: _Direction, reached: LoopRows
                   ) -> tuple[WeightForm, Array | None]:  # fmt: skip
        """Integers of R for the states in `reached`, and the bias of its products; `half` has those of W.

        Wanted is what real weights make of the same states: no weights bring states back that went astray.
        """
        integer = _Direction.of(self, d, reached)
        weights, bias, rows = self.r[d], self.b[d][len(self.r[d]) :], len(self.r[d])
        nearest, w = _rows_of(half.r, self.r, d), self.reals(half)[self.node.inputs[1]][d]
        first = (self.b if half.bias is None else half.bias)[d][:rows]
        wanted = [x @ self.w[d].T + self.b[d][:rows] - y @ w.T - first
                  for x, y in zip(real.inputs, integer.inputs, strict=True)]  # fmt: skip
        apart = rows - weights.shape[1] if self.node.op_type == "GRU" else rows  # its candidate reads something else
        parts = []
        for own, states in ((slice(0, apart), integer.before), (slice(apart, rows), self._reset(d, integer))):
            if own.start == own.stop:
                continue
            added = own.start == 0 or not self.is_reset_after
            targets = [h @ weights[own].T + bias[own] + (left[..., own] if added else 0)
                       for h, left in zip(states, wanted, strict=True)]  # fmt: skip
            form = WeightForm(nearest.integers[own], nearest.scales[own], nearest.bits)
            parts.append(self._solved(settings, weights[own], bias[own], form, states, targets))
        return _stacked(parts)

    def _reset(self, d: int, rows: _Direction) -> Rows:
        """What the weights of a GRU's candidate are multiplied with: the states, or what the reset gate leaves of them.
        """
        if self.is_reset_after or self.node.op_type != "GRU":
            return rows.before
        hidden, biases = self.r.shape[2], self.b[d].reshape(2, -1).sum(0)
        own = slice(hidden, 2 * hidden)
        gate = functions_of(self.node, d)[0]
        return [h * gate(x @ self.w[d][own].T + h @ self.r[d][own].T + biases[own]).astype(np.float32)
                for x, h in zip(rows.inputs, rows.before, strict=True)]  # fmt: skip

    def _solved(self, settings: WeightSettings, weights: Array, bias: Array, nearest: WeightForm, inputs: Rows,
                wanted: Rows) -> tuple[WeightForm, Array | None]:  # fmt: skip
        """Integers for `weights` [rows, elements], which make products `wanted`, bias included, of the `inputs`."""
        layer = Node("Gemm", ("x", "w", "b"), ("y",), {"transB": 1}, self.node.name)
        moments = measure(layer, weights, self.opsets, inputs, wanted, needs_products(settings))
        return solved(layer, weights, bias, settings, nearest, moments)

    def _joined(self, of_inputs: Sequence[tuple[WeightForm, Array | None]],
                of_states: Sequence[tuple[WeightForm, Array | None]]) -> LoopForm:  # fmt: skip
        """Both matrices with all directions."""
        bias, rows = self.b.copy(), self.w.shape[1]
        for d, ((_, of_w), (_, of_r)) in enumerate(zip(of_inputs, of_states, strict=True)):
            bias[d, :rows] = bias[d, :rows] if of_w is None else of_w
            bias[d, rows:] = bias[d, rows:] if of_r is None else of_r
        changed = not np.array_equal(bias, self.b)
        (w, _), (r, _) = _stacked(of_inputs), _stacked(of_states)
        return LoopForm(w, r, bias if changed else None)


def _rows_of(form: WeightForm, matrix: Array, d: int) -> WeightForm:
    """The part of direction number `d` of a matrix [directions, rows, columns]."""
    own = slice(d * matrix.shape[1], (d + 1) * matrix.shape[1])
    return WeightForm(form.integers[own], form.scales[own], form.bits)


def _stacked(parts: Sequence[tuple[WeightForm, Array | None]]) -> tuple[WeightForm, Array | None]:
    """Parts of a matrix, one behind the other, and of its bias where all have one."""
    forms, biases = [form for form, _ in parts], [bias for _, bias in parts if bias is not None]
    whole = WeightForm(np.concatenate([form.integers for form in forms]),
                       np.concatenate([form.scales for form in forms]), forms[0].bits)  # fmt: skip
    return whole, np.concatenate(biases) if len(biases) == len(parts) else None


def _apart(results: Rows, wanted: Rows) -> float:
    """The sum of squared differences."""
    return sum(float(np.square(a.astype(np.float64) - b.astype(np.float64)).sum())
               for a, b in zip(results, wanted, strict=True))  # fmt: skip
