"""RNN, GRU and LSTM against onnxruntime: directions, activations, lengths, states, peepholes, every version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.onnx.neural import Case, agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


def layer(op: str, opset: int = 14, given: tuple[str, ...] = (), **attributes: Any) -> Case:
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
    names = ("B", "lengths", "h", "c", "P")[: 5 if op == "LSTM" else 3]
    inputs += [optional[n].astype(optional[n].dtype) if n in given else None for n in names]
    while inputs[-1] is None:
        inputs.pop()
    return case(op, opset, *inputs, outputs=1 + STATES[op], hidden_size=HIDDEN, attributes=attributes)


EVERYTHING = ("B", "lengths", "h", "c", "P")
OPS = list(GATES)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", [(), ("B",), ("lengths",), ("h",), ("B", "h", "c"), EVERYTHING])
def test_directions_and_inputs(oracle, op, direction, given) -> None:
    agree(layer(op, 14, given, direction=direction), oracle)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("opset", [7, 14, 22])
def test_versions(oracle, op, opset) -> None:
    agree(layer(op, opset, EVERYTHING, direction="bidirectional"), oracle)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("opset", [1, 3, 6])
def test_first_versions(op, opset) -> None:
    """As version 7: its only change was to drop 'output_sequence', which said whether Y is an output."""
    expected = evaluated(layer(op, 7, EVERYTHING))
    for number in (0, 1):
        found = evaluated(layer(op, opset, EVERYTHING, output_sequence=number))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_misspelt_default_of_gru() -> None:
    np.testing.assert_array_equal(
        evaluated(layer("GRU", 1, direction="foward"))[0], evaluated(layer("GRU", 7, direction="forward"))[0]
    )


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(
    ("name", "alpha", "beta"),
    [
        ("Relu", None, None),
        ("Tanh", None, None),
        ("Sigmoid", None, None),
        ("Softsign", None, None),
        ("Softplus", None, None),
        ("Affine", 0.8, 0.1),
        ("LeakyRelu", 0.2, None),
        ("LeakyRelu", None, None),
        ("ThresholdedRelu", 0.3, None),
        ("ScaledTanh", 0.7, 1.2),
        ("HardSigmoid", 0.3, 0.4),
        ("HardSigmoid", None, None),
        ("Elu", 0.7, None),
        ("Elu", None, None),
    ],
)
def test_activations(oracle, op, direction, name, alpha, beta) -> None:
    if (op, name) == ("LSTM", "Softplus"):
        direction = "forward"  # backward, onnxruntime gives not-a-number
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * (2 if direction == "bidirectional" else 1)
    attributes = {"activations": [name] * count, "direction": direction}
    if alpha is not None:
        attributes["activation_alpha"] = [alpha] * count
    if beta is not None:
        attributes["activation_beta"] = [beta] * count
    agree(layer(op, 14, ("B",), **attributes), oracle)


def test_case_of_names_does_not_matter() -> None:
    a, b = (evaluated(layer("RNN", 14, activations=[name]))[0] for name in ("Tanh", "tANH"))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("op", OPS)
def test_mixed_activations(oracle, op) -> None:
    """Numbers go to those functions that have the parameter, in order."""
    names = {"RNN": ["LeakyRelu"], "GRU": ["HardSigmoid", "Elu"], "LSTM": ["Sigmoid", "ScaledTanh", "LeakyRelu"]}[op]
    alphas = {"RNN": [0.3], "GRU": [0.25, 0.6], "LSTM": [0.9, 0.3]}[op]
    betas = {"RNN": [], "GRU": [0.45], "LSTM": [1.1]}[op]
    agree(layer(op, 14, ("B",), activations=names, activation_alpha=alphas, activation_beta=betas or None), oracle)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("clip", [0.2, 1.0])
def test_clip(oracle, op, clip) -> None:
    agree(layer(op, 14, ("B",), clip=clip), oracle)


@pytest.mark.parametrize("given", [("B",), EVERYTHING])
def test_input_forget(oracle, given) -> None:
    agree(layer("LSTM", 14, given, input_forget=1), oracle)


@pytest.mark.parametrize("given", [("B",), ("B", "lengths", "h")])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("opset", [3, 7, 14])
def test_linear_before_reset(oracle, opset, given, direction) -> None:
    wanted = layer("GRU", 7, given, linear_before_reset=1, direction=direction)
    agree(wanted, oracle)
    found = evaluated(layer("GRU", opset, given, linear_before_reset=1, direction=direction))
    np.testing.assert_array_equal(found[0], evaluated(wanted)[0])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_batch_first(op, direction) -> None:
    """'layout' 1 swaps the axes of X, Y and the states; onnxruntime does not support it."""
    first = layer(op, 14, EVERYTHING, direction=direction)
    swapped = list(first.inputs)
    for i in (0, *range(5, 5 + STATES[op])):
        swapped[i] = np.ascontiguousarray(swapped[i].swapaxes(0, 1))
    y, *states = evaluated(Case(op, 14, tuple(swapped), {**first.attributes, "layout": 1}, 1 + STATES[op]))
    expected, *last = evaluated(first)
    np.testing.assert_array_equal(y, expected.transpose(2, 0, 1, 3))
    for a, b in zip(states, last, strict=True):
        np.testing.assert_array_equal(a, b.swapaxes(0, 1))


def test_lstm_by_the_equations() -> None:
    """The equations of the specification, written out for one direction with peepholes."""
    wanted = layer("LSTM", 14, ("B", "h", "c", "P"))
    x, w, r, b, _, h, c, p = (None if a is None else a.astype(np.float64) for a in wanted.inputs)
    w_i, w_o, w_f, w_c = w[0].reshape(4, HIDDEN, INPUTS)
    r_i, r_o, r_f, r_c = r[0].reshape(4, HIDDEN, HIDDEN)
    b_i, b_o, b_f, b_c = b[0].reshape(2, 4, HIDDEN).sum(0)
    p_i, p_o, p_f = p[0].reshape(3, HIDDEN)
    h, c, rows = h[0], c[0], []
    for t in range(STEPS):
        i = 1 / (1 + np.exp(-(x[t] @ w_i.T + h @ r_i.T + b_i + p_i * c)))
        f = 1 / (1 + np.exp(-(x[t] @ w_f.T + h @ r_f.T + b_f + p_f * c)))
        c = f * c + i * np.tanh(x[t] @ w_c.T + h @ r_c.T + b_c)
        o = 1 / (1 + np.exp(-(x[t] @ w_o.T + h @ r_o.T + b_o + p_o * c)))
        h = o * np.tanh(c)
        rows.append(h)
    y, y_h, y_c = evaluated(wanted)
    np.testing.assert_allclose(y[:, 0], np.stack(rows), atol=1e-5)
    np.testing.assert_allclose(y_h[0], h, atol=1e-5)
    np.testing.assert_allclose(y_c[0], c, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types(dtype) -> None:
    wanted = layer("LSTM", 14, ("B",))
    inputs = tuple(None if a is None else a.astype(dtype) for a in wanted.inputs)
    for a, b in zip(evaluated(Case("LSTM", 14, inputs, wanted.attributes, 3)), evaluated(wanted), strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a.astype(np.float64), b, atol=5e-3 if dtype is np.float16 else 1e-6)


def test_only_the_last_state(oracle) -> None:
    wanted = layer("GRU", 14, ("B",))
    agree(Case("GRU", 14, wanted.inputs, wanted.attributes, (False, True)), oracle)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (layer("GRU", direction="both"), "'direction' must be forward, reverse or bidirectional, not 'both'"),
        (case("RNN", 14, draw(5, 3, 4), draw(1, 6, 3), draw(1, 6, 6)),
         "the input 'W' must have the shape [1, 6, 4], not [1, 6, 3]"),
        (case("RNN", 14, draw(5, 3, 4), draw(1, 6, 4), draw(1, 6, 6), hidden_size=7),
         "'hidden_size' must be that of the weights, 6, not 7"),
        (case("RNN", 14, draw(5, 3, 4), draw(1, 6, 4), draw(1, 6, 6), None, np.array([1, 2, 9], np.int32)),
         "'sequence_lens' must be 0 to 5, not [1, 2, 9]"),
        (layer("RNN", activations=["Swish"]),
         "'activations' must be 1 names of affine, elu, hardsigmoid, leakyrelu, relu, scaledtanh, sigmoid, softplus, "
         "softsign, tanh, thresholdedrelu (case does not matter), not Swish"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message
