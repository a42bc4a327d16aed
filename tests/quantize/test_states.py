"""States between frames: which pairs they are, what they mean in floats and in integers, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwflow import HwflowError, golden, onnx
from hwflow.layers.store import load_graph, save_graph
from hwflow.onnx.model import Array, Model
from hwflow.onnx.run.sequences import INITIAL_KEY, KEY, in_order, state_pairs
from hwflow.quantize import quantize
from hwflow.quantize.passes.streaming import keep_states
from tests.quantize.state_models import (
    F,
    Streaming,
    fsmn,
    gated,
    lstm_gates,
    packed,
    running_sum,
    shift_cache,
    sliding,
)

#: Models, the pairs that must be asked for, and how far the golden model may be from the floats.
MODELS: list[tuple[Callable[[], Model], dict[str, str], float]] = [
    (shift_cache, {}, 0.03),
    (lambda: shift_cache(taps=2, steps=1, dilation=2), {"cache0": "cache0_out"}, 0.03),
    (lambda: shift_cache(steps=5, layers=1), {}, 0.03),
    (fsmn, {}, 0.03),
    (gated, {}, 0.03),
    (sliding, {}, 0.03),
    (packed, {}, 0.03),
    (running_sum, {"sum": "sum_out"}, 0.03),
    (lstm_gates, {"h_in": "h_out", "c_in": "c_out"}, 0.03),
]


def rows_of(model: Model, count: int, seed: int = 0) -> dict[str, Array]:
    (x,) = (value for value in model.graph.inputs if value.name == "x")
    assert x.tensor is not None
    return {"x": np.random.default_rng(seed).normal(0, 1, (count, *x.tensor.shape)).astype(F)}  # type: ignore[misc]


def step_by_step(model: Model, states: dict[str, Array], pairs: dict[str, str], rows: Array, tmp_path: Path) -> Array:
    """The output y of a model as its file has it, run by onnxruntime, which is fed with its own states."""
    runtime = pytest.importorskip("onnxruntime")
    onnx.save(model, tmp_path / "model.onnx")
    session, made = runtime.InferenceSession(tmp_path / "model.onnx"), []
    names = [value.name for value in model.graph.outputs]
    for row in rows:
        outputs = dict(zip(names, session.run(names, {"x": row, **states}), strict=True))
        states = {name: outputs[output] for name, output in pairs.items()}
        made.append(outputs["y"])
    return np.stack(made)


@pytest.mark.parametrize(("make", "asked", "error"), MODELS)
def test_a_sequence(make: Callable[[], Model], asked: dict[str, str], error: float, tmp_path: Path) -> None:
    model = make()
    kept = keep_states(model, asked)
    pairs = state_pairs(kept)
    assert pairs == {v.name: pairs[v.name] for v in model.graph.inputs if v.name != "x"}  # every other input is one
    assert kept.graph.kept == {*pairs, *pairs.values()}
    rows = rows_of(model, 50)
    zeros = {v.name: np.zeros(v.tensor.shape, F) for v in model.graph.inputs if v.name in pairs and v.tensor}  # type: ignore[arg-type]
    expected = step_by_step(model, zeros, pairs, rows["x"], tmp_path)
    np.testing.assert_allclose(in_order(kept, rows)["y"], expected, rtol=1e-4, atol=1e-5)
    quantized = quantize(kept, rows)
    assert [value.name for value in quantized.prologue.graph.inputs] == ["x"]
    assert [value.name for value in quantized.epilogue.graph.outputs] == ["y"]
    ours = golden.predict(quantized, rows)["y"]
    assert np.sqrt(np.mean((ours - expected) ** 2) / np.mean(expected**2)) < error
    again = quantize(keep_states(quantized.qdq))
    assert again.graph == quantized.graph
    save_graph(quantized.graph, tmp_path)
    assert load_graph(tmp_path) == quantized.graph


@pytest.mark.parametrize("value", [0.5, [0.5, -0.25, 1, 0, 2]])
def test_initial_values(value: object, tmp_path: Path) -> None:
    """The metadata says what frame 0 finds, also after the trip through a QDQ file."""
    model = running_sum()
    metadata = {KEY: json.dumps({"sum": "sum_out"}), INITIAL_KEY: json.dumps({"sum": value})}
    model, rows = keep_states(replace(model, metadata=metadata)), rows_of(model, 20)
    initial = {"sum": np.broadcast_to(np.array(value, F), (1, 5))}
    expected = step_by_step(model, initial, {"sum": "sum_out"}, rows["x"], tmp_path)
    np.testing.assert_allclose(in_order(model, rows)["y"], expected, rtol=1e-4, atol=1e-5)
    quantized = quantize(model, rows)
    (state,) = quantized.graph.states
    tensor = quantized.graph.tensors[state.read]
    np.testing.assert_array_equal(state.initial.ravel() - tensor.zero_point,
                                  np.rint(np.float32(initial["sum"][0]) / np.float32(tensor.scale)))
    assert quantize(keep_states(quantized.qdq)).graph == quantized.graph


def delayed() -> Model:
    """The state is the input of the frame before, or none: nothing of what it was stays."""
    m = Streaming("delay")
    x, before = m.b.input("x", F, (1, 4)), m.b.input("last_x", F, (1, 4))
    m.b.output(m.b.node("Identity", x, output="next_x"), F)
    m.b.output(m.linear(m.b.node("Sub", x, before), 4, 2), F)
    return m.model()


def test_a_delay() -> None:
    """Asked for, it is a state; it is proposed by its names alone."""
    (note,) = keep_states(delayed()).notes
    assert "give --state last_x=next_x" in note
    model = keep_states(delayed(), {"last_x": "next_x"})
    rows = rows_of(model, 30)
    quantized = quantize(model, rows)
    (state,) = quantized.graph.states
    assert state.write in quantized.graph.computed
    ours, floats = golden.predict(quantized, rows), in_order(model, rows)
    name = next(iter(floats))
    assert np.sqrt(np.mean((ours[name] - floats[name]) ** 2) / np.mean(floats[name] ** 2)) < 0.03


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"nothing": "h_out"}, "--state nothing=h_out must name an input of the model: x, h_in, c_in"),
        ({"h_in": "nothing"}, "--state h_in=nothing must name an output of the model: h_out, c_out, y"),
        ({"x": "h_out"}, "--state x=h_out must name an input and an output of the same type and shape, not float32 "
                         "[1, 3] and float32 [1, 4]"),
        ({"h_in": "h_out", "c_in": "h_out"}, "output 'h_out' must be the next value of one state, not of 'h_in' and "
                                             "'c_in'; give each state an output of its own"),
    ],
)  # fmt: skip
def test_what_is_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(HwflowError, match=re.escape(message)):
        keep_states(lstm_gates(), asked)


@pytest.mark.parametrize("initial", ['{"sum": "no"}', '{"sum": [1, 2]}', "[", '{"sum": [[1], [2]]}', '{"sum": 1e999}'])
def test_initial_values_that_are_none(initial: str) -> None:
    metadata = {KEY: json.dumps({"sum": "sum_out"}), INITIAL_KEY: initial}
    with pytest.raises(HwflowError, match=re.escape(f"the model's metadata '{INITIAL_KEY}' must be a JSON object")):
        keep_states(replace(running_sum(), metadata=metadata))


def test_inputs_that_are_no_states() -> None:
    """A picture of which a part is made anew, and one that comes out as it went in."""
    m = Streaming("inpainting")
    x, edge = m.b.input("x", F, (1, 2, 4, 4)), m.b.input("other", F, (1, 2, 4, 4))
    y = m.b.node("Conv", x, m.weights(2, 2, 1, 1))
    m.b.output(m.b.node("Relu", y, output="y"), F)
    m.b.output(m.b.node("Identity", edge, output="seen"), F)
    model = m.model()
    assert keep_states(model) is model or not state_pairs(keep_states(model))
