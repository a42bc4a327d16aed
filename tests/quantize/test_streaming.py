"""States that are inputs and outputs of a model belong to their layers; what is no such state is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hwflow import HwflowError, onnx
from hwflow.data.shapes import shapes_of_data
from hwflow.onnx.model import Array, Model
from hwflow.onnx.run.sequences import KEY, in_order, inputs_of_rows, outputs_of_rows, state_names, with_state_rows
from hwflow.quantize.passes.streaming import keep_states
from tests.quantize.recurrent_models import Layer, apart, packed


def step_by_step(model: Model, states: dict[str, str], rows: Array) -> list[dict[str, Array]]:
    """The outputs of a model as its file has it, fed with its own states."""
    made, state = [], {}
    for value in model.graph.inputs:
        if value.name in states:
            assert value.tensor is not None
            state[value.name] = np.zeros(value.tensor.shape, np.float32)  # type: ignore[arg-type]
    for row in rows:
        made.append(onnx.evaluate(model, {"x": row, **state}))
        state = {name: made[-1][output] for name, output in states.items()}
    return made


@pytest.mark.parametrize(
    ("model", "states"),
    [(packed(), {"state": "next"}), (apart("LSTM"), {"h0": "hn", "c0": "cn"}), (apart("GRU", layout=1), {"h0": "hn"})],
)
def test_states_belong_to_their_layer(model: Model, states: dict[str, str]) -> None:
    kept = keep_states(model)
    assert ([v.name for v in inputs_of_rows(kept)], [v.name for v in outputs_of_rows(kept)]) == (["x"], ["out"])
    assert state_names(kept) == states
    assert len(kept.notes) == len(model.notes) + len(states)
    assert keep_states(kept) is kept
    cell = next(node for node in kept.graph.nodes if node.name == "cell")
    count = 2 if cell.op_type == "LSTM" else 1
    assert json.loads(kept.metadata[KEY]) == dict(
        zip(cell.inputs[5 : 5 + count], cell.outputs[1 : 1 + count], strict=True)
    )
    (x,) = inputs_of_rows(kept)
    assert x.tensor is not None
    rows = np.random.default_rng(1).normal(0, 1, (9, *x.tensor.shape)).astype(np.float32)  # type: ignore[misc]
    expected = step_by_step(model, states, rows)
    np.testing.assert_array_equal(in_order(kept, {"x": rows})["out"], [made["out"] for made in expected])
    whole = with_state_rows(kept, {"x": rows})
    assert not any(whole[name][0].any() for name in whole if name != "x")
    again = [onnx.evaluate(kept, {name: array[k] for name, array in whole.items()})["out"] for k in range(9)]
    np.testing.assert_array_equal(again, [made["out"] for made in expected])


def also_read(m: Layer) -> None:
    m.b.output(m.b.node("Relu", "state", name="other"), np.float32)


@pytest.mark.parametrize(
    ("make", "asked", "message"),
    [
        (lambda: packed(order=(1, 0)), {},
         "input 'state' is a state, the initial_h of 'cell' (LSTM) and initial_c of 'cell' (LSTM), so an output of the "
         "model must give its next value, the Y_h of 'cell' (LSTM) and Y_c of 'cell' (LSTM) in the same places, but "
         "none does (of its shape [2, 1, 6] there is 'next'); export the model with that output, or with a constant "
         "initial state"),
        (lambda: packed(scale=True), {},
         "initial_h of 'cell' (LSTM) must be constant, or an input of the model whose elements only move on their way"),
        (lambda: packed(also_read), {}, "stays in the layer, so nothing else may read it, and 'other' (Relu) "),
        (lambda: apart("LSTM"), {"x": "hn"},
         "--state x=hn must name an input and an output of the same type and shape, not float32 [3, 1, 5] and float32 "
         "[1, 1, 6]"),
        (lambda: apart("LSTM"), {"h0": "nothing"}, "--state h0=nothing must name an output of the model: hn, cn, out"),
        (lambda: apart("LSTM"), {"h0": "cn"}, "--state h0=cn must name an output that gives the next value of 'h0'"),
    ],
)  # fmt: skip
def test_what_is_no_state_is_refused(make: Callable[[], Model], asked: dict[str, str], message: str) -> None:
    with pytest.raises(HwflowError, match=re.escape(message)):
        keep_states(make(), asked)


def test_an_lstm_with_one_of_its_states() -> None:
    m = Layer("LSTM")
    x, h = m.b.input("x", np.float32, (1, 1, 5)), m.b.input("h0", np.float32, (1, 1, 6))
    m.cell(x, "", h, outputs=("Y", "hn"))
    m.b.output("hn", np.float32)
    with pytest.raises(HwflowError, match=re.escape("so initial_c of 'cell' (LSTM) must be one, too")):
        keep_states(m.model())


def test_sizes_of_states_that_are_open(tmp_path: Path) -> None:
    """The batch of h0 is that of x; a data file has no states."""
    m = Layer("GRU")
    x, h = m.b.input("x", np.float32, ("batch", "steps", 5)), m.b.input("h0", np.float32, (1, "batch", 6))
    m.cell(m.b.node("Transpose", x, perm=(1, 0, 2)), "", h, outputs=("Y", "hn"))
    m.b.output("hn", np.float32)
    m.b.output("Y", np.float32)
    np.savez(tmp_path / "rows.npz", in_x=np.zeros((3, 1, 4, 5), np.float32))
    found = shapes_of_data(tmp_path / "rows.npz", m.b.model(opset=17), {})
    assert found == {"x": (1, 4, 5), "h0": (1, 1, 6)}
