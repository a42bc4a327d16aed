"""Forms of RNN, GRU and LSTM: directions, activations, lengths, states, peepholes, layouts, every version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.elementwise import logistic
from tests.onnx.forms.form import Case, case, draw

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
EVERYTHING = ("B", "lengths", "h", "c", "P")
DIRECTIONS = ("forward", "reverse", "bidirectional")

#: Names, alpha and beta.
ACTIVATIONS: list[tuple[str, float | None, float | None]] = [
    ("Relu", None, None), ("Tanh", None, None), ("Sigmoid", None, None), ("Softsign", None, None),
    ("Softplus", None, None), ("Affine", 0.8, 0.1), ("LeakyRelu", 0.2, None), ("LeakyRelu", None, None),
    ("ThresholdedRelu", 0.3, None), ("ScaledTanh", 0.7, 1.2), ("HardSigmoid", 0.3, 0.4), ("HardSigmoid", None, None),
    ("Elu", 0.7, None), ("Elu", None, None),
]  # fmt: skip
#: Numbers go to those functions that have the parameter, in order.
MIXED: dict[str, dict[str, Any]] = {
    "RNN": {"activations": ["LeakyRelu"], "activation_alpha": [0.3]},
    "GRU": {"activations": ["HardSigmoid", "Elu"], "activation_alpha": [0.25, 0.6], "activation_beta": [0.45]},
    "LSTM": {"activations": ["Sigmoid", "ScaledTanh", "LeakyRelu"], "activation_alpha": [0.9, 0.3],
             "activation_beta": [1.1]},
}  # fmt: skip


def layer(op: str, opset: int = 14, given: tuple[str, ...] = (), like: int = 0, **attributes: Any) -> Case:
    """A case with the optional inputs whose letters are given: B, lengths, h, c, P."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[op] * HIDDEN
    x = draw(STEPS, BATCH, INPUTS)
    w, r = draw(directions, rows, INPUTS) * 0.4, draw(directions, rows, HIDDEN) * 0.4
    optional = {
        "B": draw(directions, 2 * rows) * 0.3,
        "lengths": np.array([5, 2, 4], np.int32),
        "h": draw(directions, BATCH, HIDDEN),
        "c": draw(directions, BATCH, HIDDEN, seed=1),
        "P": draw(directions, 3 * HIDDEN) * 0.3,
    }
    inputs = [x, w.astype(np.float32), r.astype(np.float32)]
    names = EVERYTHING[: 5 if op == "LSTM" else 3]
    inputs += [optional[n].astype(optional[n].dtype) if n in given else None for n in names]
    while inputs[-1] is None:
        inputs.pop()
    return case(op, opset, *inputs, outputs=1 + STATES[op], hidden_size=HIDDEN, attributes=attributes, like=like)


def cases() -> Iterator[Case]:
    """Version 7 dropped 'output_sequence', which said whether Y is an output: older ones are as 7 is."""
    for op in GATES:
        for schema in versions_of("", op):
            since = schema.since
            like = 7 if since < 7 else 0
            for given, direction in ((EVERYTHING, "bidirectional"), (EVERYTHING, "forward"), ((), "reverse"),
                                     (("B",), "forward")):  # fmt: skip
                yield layer(op, since, given, like, direction=direction)
            if like:
                yield from (layer(op, since, EVERYTHING, like, output_sequence=n) for n in (0, 1))
            if since >= 14:
                yield from (layer(op, since, ("B",), clip=clip) for clip in (0.2, 0.5, 1.0))
        for given in ((), ("B",), ("lengths",), ("h",), ("B", "h", "c"), EVERYTHING):
            yield from (layer(op, 14, given, direction=direction) for direction in DIRECTIONS)
        yield layer(op, 14, ("B",), **MIXED[op])
        yield from _activations(op)
        yield from _batch_first(op)
    yield from _gru()
    yield from _lstm()
    one = layer("RNN", 14, activations=["tANH"])  # the case of names does not matter
    yield replace(one, expected=by_equations(one))


def _activations(op: str) -> Iterator[Case]:
    for name, alpha, beta in ACTIVATIONS:
        for direction in ("forward", "bidirectional"):
            if (op, name) == ("LSTM", "Softplus"):
                direction = "forward"  # backward, onnxruntime gives not-a-number
            count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * (2 if direction == "bidirectional" else 1)
            how: dict[str, Any] = {"activations": [name] * count, "direction": direction}
            how |= {} if alpha is None else {"activation_alpha": [alpha] * count}
            how |= {} if beta is None else {"activation_beta": [beta] * count}
            yield layer(op, 14, ("B",), **how)


def _batch_first(op: str) -> Iterator[Case]:
    """'layout' 1 swaps the axes of X, Y and the states; onnxruntime does not support it."""
    for direction in DIRECTIONS:
        first = layer(op, 14, ("B", "h", "c"), layout=1, direction=direction)
        swapped = list(first.inputs)
        for i in (0, *range(5, 5 + STATES[op])):
            swapped[i] = np.ascontiguousarray(swapped[i].swapaxes(0, 1))
        y, *ends = by_equations(first)
        answers = [y.transpose(2, 0, 1, 3), *(end.swapaxes(0, 1) for end in ends)]
        yield replace(first, inputs=tuple(swapped), expected=answers)


def by_equations(one: Case) -> list[np.ndarray]:
    """The answers to a case without lengths, by the equations of the specification."""
    x, w, r, b, _, *others = (None if a is None else a.astype(np.float64) for a in (*one.inputs, *[None] * 5)[:8])
    states, peepholes = others[: STATES[one.op]], others[2:3] if one.op == "LSTM" else []
    direction, parts = one.attributes.get("direction", "forward"), []
    for k in range(len(w)):
        way = -1 if direction == "reverse" or k == 1 else 1
        starts = (np.zeros((BATCH, HIDDEN)) if s is None else s[k] for s in states)
        bias = np.zeros(2 * len(w[k])) if b is None else b[k]
        gates = (p if p is None else p[k] for p in peepholes)
        y, *ends = EQUATIONS[one.op](x[::way], w[k], r[k], bias, *starts, *gates)
        parts.append((y[::way], *ends))
    y, *ends = (np.stack(column, axis) for column, axis in zip(zip(*parts, strict=True), (1, 0, 0), strict=False))
    return [a.astype(one.inputs[0].dtype) for a in (y, *ends)]


def rnn(x: Any, w: Any, r: Any, b: Any, h: Any) -> tuple[np.ndarray, ...]:
    """[steps, batch, hidden] and the last state."""
    rows = []
    for step in x:
        h = np.tanh(step @ w.T + h @ r.T + b.reshape(2, -1).sum(0))
        rows.append(h)
    return np.stack(rows), h


def gru(x: Any, w: Any, r: Any, b: Any, h: Any) -> tuple[np.ndarray, ...]:
    (w_z, w_r, w_h), (r_z, r_r, r_h) = np.split(w, 3), np.split(r, 3)
    (b_z, b_r, b_h), rows = b.reshape(2, 3, -1).sum(0), []
    for step in x:
        z, reset = logistic(step @ w_z.T + h @ r_z.T + b_z), logistic(step @ w_r.T + h @ r_r.T + b_r)
        h = (1 - z) * np.tanh(step @ w_h.T + (reset * h) @ r_h.T + b_h) + z * h
        rows.append(h)
    return np.stack(rows), h


def lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, p: Any = None) -> tuple[np.ndarray, ...]:
    (w_i, w_o, w_f, w_c), (r_i, r_o, r_f, r_c) = np.split(w, 4), np.split(r, 4)
    (b_i, b_o, b_f, b_c), rows = b.reshape(2, 4, -1).sum(0), []
    p_i, p_o, p_f = (0, 0, 0) if p is None else p.reshape(3, -1)
    for step in x:
        i = logistic(step @ w_i.T + h @ r_i.T + b_i + p_i * c)
        f = logistic(step @ w_f.T + h @ r_f.T + b_f + p_f * c)
        c = f * c + i * np.tanh(step @ w_c.T + h @ r_c.T + b_c)
        h = logistic(step @ w_o.T + h @ r_o.T + b_o + p_o * c) * np.tanh(c)
        rows.append(h)
    return np.stack(rows), h, c


EQUATIONS = {"RNN": rnn, "GRU": gru, "LSTM": lstm}


def _gru() -> Iterator[Case]:
    for given in (("B",), ("B", "lengths", "h")):
        for direction in ("forward", "bidirectional"):
            for since in (3, 7, 14):
                yield layer("GRU", since, given, 7, linear_before_reset=1, direction=direction)
    misspelt = layer("GRU", 1, direction="foward")  # the default of version 1
    yield replace(misspelt, asked={"opset": 7, "attributes": {"hidden_size": HIDDEN, "direction": "forward"}})
    yield replace(layer("GRU", 14, ("B",)), outputs=(False, True))


def _lstm() -> Iterator[Case]:
    yield from (layer("LSTM", 14, given, input_forget=1) for given in (("B",), EVERYTHING))
    one = layer("LSTM", 14, ("B", "h", "c", "P"))
    yield replace(one, expected=by_equations(one))
    for dtype in (np.float16, np.float64):
        other = replace(one, inputs=tuple(None if a is None else a.astype(dtype) for a in one.inputs))
        yield replace(other, expected=by_equations(other))
