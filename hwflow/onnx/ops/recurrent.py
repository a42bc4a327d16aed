"""Recurrent layers: RNN, GRU and LSTM, forward, backward and both.

The products of all time steps' inputs with the weights are one matrix product; only those with the state are made step
by step.  Arrays are [time, batch, ...] inside; 'layout' 1 swaps the first two axes of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, ShapeRule, Table
from hwflow.onnx.ops.cells import Activation, activations_of
from hwflow.onnx.ops.element_types import working_type

_Optional: TypeAlias = Arr | Known | None


@dataclass(frozen=True)
class _Layer:
    """Sizes of a call; `gates` is how many matrices [hidden, ...] stand above each other in W and R."""

    steps: int
    batch: int
    hidden: int
    directions: tuple[bool, ...]  # True where it runs backward
    gates: int
    batch_first: bool


@dataclass(frozen=True)
class _Weights:
    """The parameters of one direction.

    w [gates * hidden, inputs], r [gates, hidden, hidden], the biases [gates * hidden], peepholes [3, hidden].
    """

    w: Arr
    r: Arr
    w_bias: Arr
    r_bias: Arr
    peepholes: Arr


#: Takes the input products [gates, batch, hidden] of one step and the states, gives the new states; the first is h.
Step: TypeAlias = Callable[[Arr, tuple[Arr, ...]], tuple[Arr, ...]]

#: Makes the steps of one direction.
Cell: TypeAlias = Callable[[Call, _Weights, tuple[Activation, ...], Activation], Step]


@dataclass(frozen=True)
class _Variant:
    """One of the operators: the cell, its default activations, the numbers of gates and of states."""

    cell: Cell
    functions: tuple[str, ...]
    gates: int
    states: int


_DIRECTIONS = {
    "forward": (False,),
    "foward": (False,),  # the misspelt default of GRU in version 1
    "reverse": (True,),
    "bidirectional": (False, True),
}


def _layer(call: Call, gates: int, x: Arr | Known, w: Arr | Known, r: Arr | Known) -> _Layer:
    direction = call.text("direction")
    if direction not in _DIRECTIONS:
        raise call.error(f"'direction' must be forward, reverse or bidirectional, not {direction!r}")
    directions, batch_first = _DIRECTIONS[direction], bool(call.integer("layout", 0))
    hidden = r.shape[-1] if r.ndim else 0
    if call.integer("hidden_size", hidden) != hidden:
        raise call.error(f"'hidden_size' must be that of the weights, {hidden}, not {call.integer('hidden_size')}")
    if x.ndim != 3:
        raise call.error(f"the input must have three axes, not the shape {list(x.shape)}")
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    _require(call, "W", w, (len(directions), gates * hidden, x.shape[2]))
    _require(call, "R", r, (len(directions), gates * hidden, hidden))
    return _Layer(steps, batch, hidden, directions, gates, batch_first)


def _require(call: Call, name: str, operand: Arr | Known | None, shape: tuple[int, ...]) -> None:
    if operand is not None and operand.shape != shape:
        raise call.error(f"the input '{name}' must have the shape {list(shape)}, not {list(operand.shape)}")


def _check(
    call: Call, layer: _Layer, b: _Optional, lengths: _Optional, states: tuple[_Optional, ...], p: _Optional
) -> None:
    d, h = len(layer.directions), layer.hidden
    _require(call, "B", b, (d, 2 * layer.gates * h))
    _require(call, "sequence_lens", lengths, (layer.batch,))
    for name, state in zip(("initial_h", "initial_c"), states, strict=False):
        _require(call, name, state, (layer.batch, d, h) if layer.batch_first else (d, layer.batch, h))
    _require(call, "P", p, (d, 3 * h))


def _run(call: Call, kind: _Variant, operands: tuple[Arr | None, ...]) -> tuple[Arr, ...]:
    """Y [steps, directions, batch, hidden] and the last states [directions, batch, hidden] of any recurrent operator.

    `operands` are X, W, R, B, sequence_lens, one initial state each, and P.
    """
    padded = [*operands, *[None] * (6 + kind.states - len(operands))]
    (x, w, r, b, lengths), rest = padded[:5], padded[5:]
    assert x is not None
    assert w is not None
    assert r is not None
    initial, p = tuple(rest[: kind.states]), rest[kind.states]
    layer = _layer(call, kind.gates, x, w, r)
    _check(call, layer, b, lengths, initial, p)
    wide = working_type(x.dtype)
    call.check_size((len(layer.directions), layer.steps, layer.batch, kind.gates * layer.hidden), wide)
    call.work(layer.steps * max(1000, layer.batch * (w.size + r.size)))
    functions = activations_of(call, kind.functions, len(layer.directions))
    values = (x.swapaxes(0, 1) if layer.batch_first else x).astype(wide, copy=False)
    counts = _lengths(call, layer, lengths)
    y = np.zeros((layer.steps, len(layer.directions), layer.batch, layer.hidden), wide)
    last = []
    for index, backward in enumerate(layer.directions):
        weights = _weights(layer, index, wide, (w, r, b, p))
        start = tuple(_initial(layer, s, index, wide) for s in initial)
        direction = _Direction(layer, weights, kind.cell(call, weights, functions[index], _clip(call)), backward)
        last.append(direction.run(values, start, counts, y[:, index]))
    return _outputs(layer, x.dtype, y, [np.stack(states) for states in zip(*last, strict=True)])


def _weights(layer: _Layer, index: int, wide: DType, operands: tuple[Arr | None, ...]) -> _Weights:
    """The parameters W, R, B, P of direction number `index`; those left out are 0."""
    w, r, b, p = (None if a is None else a[index].astype(wide, copy=False) for a in operands)
    assert w is not None
    assert r is not None
    gates, hidden = layer.gates, layer.hidden
    biases = np.zeros((2, gates * hidden), wide) if b is None else b.reshape(2, -1)
    peepholes = np.zeros((3, hidden), wide) if p is None else p.reshape(3, hidden)
    return _Weights(w, r.reshape(gates, hidden, hidden), biases[0], biases[1], peepholes)


def _outputs(layer: _Layer, dtype: DType, y: Arr, states: list[Arr]) -> tuple[Arr, ...]:
    if layer.batch_first:
        y, states = y.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in states]
    return tuple(a.astype(dtype, copy=False) for a in (y, *states))


def _lengths(call: Call, layer: _Layer, lengths: Arr | None) -> Arr | None:
    """How many steps each sequence of the batch has; None where all have all."""
    if lengths is None or bool(np.all(lengths == layer.steps)):
        return None
    if np.any((lengths < 0) | (lengths > layer.steps)):
        raise call.error(f"'sequence_lens' must be 0 to {layer.steps}, not {lengths.tolist()[:8]}")
    return lengths


def _initial(layer: _Layer, state: Arr | None, index: int, wide: DType) -> Arr:
    if state is None:
        return np.zeros((layer.batch, layer.hidden), wide)
    return (state[:, index] if layer.batch_first else state[index]).astype(wide, copy=False)


def _clip(call: Call) -> Activation:
    """Limits what goes into the activations to -clip .. clip."""
    if not call.has("clip") or not call.number("clip") > 0:
        return lambda x: x
    bound = call.number("clip")
    return lambda x: np.clip(x, -bound, bound)


@dataclass(frozen=True)
class _Direction:
    """The time steps of a layer in one direction."""

    layer: _Layer
    weights: _Weights
    step: Step
    backward: bool

    def run(self, values: Arr, states: tuple[Arr, ...], counts: Arr | None, y: Arr) -> tuple[Arr, ...]:
        """Fill y [steps, batch, hidden] and return the last states.

        A sequence that is over keeps its state, and its outputs stay 0.  Backward, sequences start at their own last
        step, so the steps behind it come first and are passed over.
        """
        layer, weights = self.layer, self.weights
        flat = values.reshape(-1, values.shape[2]) @ weights.w.T + weights.w_bias
        products = flat.reshape(layer.steps, layer.batch, layer.gates, layer.hidden).swapaxes(1, 2)
        for t in range(layer.steps)[:: -1 if self.backward else 1]:
            new = self.step(products[t], states)
            if counts is None:
                states, y[t] = new, new[0]
            else:
                alive = (t < counts)[:, None]
                y[t] = np.where(alive, new[0], 0)
                states = tuple(np.where(alive, n, s) for n, s in zip(new, states, strict=True))
        return states


def _rnn_cell(call: Call, weights: _Weights, functions: tuple[Activation, ...], clip: Activation) -> Step:
    """h = f(x W + h R + biases)."""
    (f,), r = functions, weights.r[0].T
    bias = weights.r_bias

    def step(x: Arr, states: tuple[Arr, ...]) -> tuple[Arr, ...]:
        return (f(clip(x[0] + states[0] @ r + bias)),)

    return step


def _gru_cell(call: Call, weights: _Weights, functions: tuple[Activation, ...], clip: Activation) -> Step:
    """Gates z (update), r (reset); the candidate sees the reset state, before or after its product with R."""
    f, g = functions
    hidden = weights.r.shape[1]
    gates = np.ascontiguousarray(weights.r[:2].reshape(-1, hidden).T)
    candidate, bias = weights.r[2].T, weights.r_bias.reshape(3, hidden)
    after = bool(call.integer("linear_before_reset", 0))

    def step(x: Arr, states: tuple[Arr, ...]) -> tuple[Arr, ...]:
        (h,) = states
        recurrent = h @ gates
        z = f(clip(x[0] + recurrent[:, :hidden] + bias[0]))
        r = f(clip(x[1] + recurrent[:, hidden:] + bias[1]))
        from_state = r * (h @ candidate + bias[2]) if after else (r * h) @ candidate + bias[2]
        new = g(clip(x[2] + from_state))
        return ((1 - z) * new + z * h,)

    return step


def _lstm_cell(call: Call, weights: _Weights, functions: tuple[Activation, ...], clip: Activation) -> Step:
    """Gates i (input), o (output), f (forget), c (cell); with peepholes the gates see the cell too."""
    f, g, h = functions
    hidden = weights.r.shape[1]
    r = np.ascontiguousarray(weights.r.reshape(-1, hidden).T)
    p_i, p_o, p_f = weights.peepholes
    coupled = bool(call.integer("input_forget"))

    def step(x: Arr, states: tuple[Arr, ...]) -> tuple[Arr, ...]:
        state, cell = states
        total = (state @ r + weights.r_bias).reshape(len(state), 4, hidden).swapaxes(0, 1) + x
        i = f(clip(total[0] + p_i * cell))
        forget = 1 - i if coupled else f(clip(total[2] + p_f * cell))
        new = forget * cell + i * g(clip(total[3]))
        o = f(clip(total[1] + p_o * new))
        return o * h(new), new

    return step


def _operator(kind: _Variant) -> Operator:
    def kernel(call: Call, *operands: Arr | None) -> tuple[Arr, ...]:
        return _run(call, kind, operands)

    return Operator(1, kernel, _shapes(kind))


def _shapes(kind: _Variant) -> ShapeRule:
    def rule(
        call: Call,
        x: Known,
        w: Known,
        r: Known,
        b: Known | None = None,
        lengths: Known | None = None,
        *rest: Known | None,
    ) -> tuple[Known, ...]:
        layer = _layer(call, kind.gates, x, w, r)
        padded = (*rest, *(None,) * (kind.states + 1 - len(rest)))
        _check(call, layer, b, lengths, padded[: kind.states], padded[kind.states])
        d = len(layer.directions)
        if layer.batch_first:
            y, last = (layer.batch, layer.steps, d, layer.hidden), (layer.batch, d, layer.hidden)
        else:
            y, last = (layer.steps, d, layer.batch, layer.hidden), (d, layer.batch, layer.hidden)
        return (Known(x.dtype, y), *(Known(x.dtype, last),) * kind.states)

    return rule


OPERATORS: Table = {
    ("", "RNN"): (_operator(_Variant(_rnn_cell, ("Tanh",), 1, 1)),),
    ("", "GRU"): (_operator(_Variant(_gru_cell, ("Sigmoid", "Tanh"), 3, 1)),),
    ("", "LSTM"): (_operator(_Variant(_lstm_cell, ("Sigmoid", "Tanh", "Tanh"), 4, 2)),),
}
