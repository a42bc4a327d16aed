"""Weights of recurrent layers by calibration data: the QDQ model that comes of it, run by onnxruntime on other rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from hwflow.quantize.calibrate.weights import weight_form
from hwflow.quantize.passes.streaming import keep_states
from hwflow.quantize.settings import (
    LayerSettings,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)
from tests.quantize.recurrent_models import F, Layer, apart, sequence

ROWS = 48
NEAREST = {"rounding": WeightRounding.NEAREST, "bias_correction": False, "method": RangeMethod.MINMAX}


def rows_of(model: Model, seed: int, rows: int = ROWS) -> dict[str, Array]:
    """Sequences whose neighbours resemble each other, with a mean of their own in each element."""
    rng, (x,) = np.random.default_rng(seed), [value for value in model.graph.inputs if value.name == "x"]
    assert x.tensor is not None
    shape = [int(size) for size in x.tensor.shape or ()]
    noise = rng.normal(0, 1, (rows, *shape))
    mixed = noise @ np.random.default_rng(5).normal(0, 0.6, (shape[-1], shape[-1]))
    return {"x": (mixed + np.linspace(-1, 1, shape[-1])).astype(F)}


def settings(bits: int, **weights: object) -> QuantizationSettings:
    """So many bits for the recurrent layer alone."""
    cell = LayerSettings(WeightSettings(bits, **weights))  # type: ignore[arg-type]
    return QuantizationSettings(layers={"cell": cell})


def outputs(model: Model, rows: Mapping[str, Array], folder: Path) -> Array:
    """The output "out" for each row by onnxruntime; states are handed on, and begin with zeros."""
    runtime = pytest.importorskip("onnxruntime")
    onnx.save(model, folder / "model.onnx")
    session, made = runtime.InferenceSession(folder / "model.onnx"), []
    names = [value.name for value in model.graph.outputs]
    states = {value.name: np.zeros(value.shape, F) for value in session.get_inputs() if value.name != "x"}
    for x in rows["x"]:
        found = dict(zip(names, session.run(names, {"x": x, **states}), strict=True))
        states = {name: found[name.replace("0", "n")] for name in states}
        made.append(found["out"])
    return np.stack(made)


def gained(model: Model, bits: int, folder: Path, **weights: object) -> float:
    """How many decibels less noise integers have that are tuned, on rows that they were not tuned on."""
    calibration, unseen = rows_of(model, 1), rows_of(model, 2)
    real, noise = outputs(model, unseen, folder), []
    for chosen in (settings(bits, **NEAREST), settings(bits, **weights)):
        made = quantize(keep_states(model), calibration, settings=chosen).qdq
        noise.append(np.square(outputs(made, unseen, folder) - real).sum())
    return float(10 * np.log10(noise[0] / noise[1]))


CELLS = {
    "lstm": sequence("LSTM"), "rnn": sequence("RNN"), "both": sequence("GRU", "both"),
    "streaming": apart("LSTM", 1), "reset after": sequence("GRU", linear_before_reset=1),
}
MORE = {"gru": sequence("GRU"), "both": sequence("LSTM", "both"), "reverse": sequence("GRU", "reverse"),
        "initial": sequence("LSTM", "initial"), "steps": apart("GRU", 3, linear_before_reset=1)}  # fmt: skip


@pytest.mark.parametrize("model", [
    *(pytest.param(model, id=name) for name, model in CELLS.items()),
    *(pytest.param(model, id=name, marks=pytest.mark.slow) for name, model in MORE.items())])
def test_two_bits(model: Model, tmp_path: Path) -> None:
    assert gained(model, 2, tmp_path) > 1


@pytest.mark.slow
@pytest.mark.parametrize("model", CELLS.values(), ids=CELLS)
def test_more_bits(model: Model, tmp_path: Path) -> None:
    assert gained(model, 4, tmp_path) > 1
    assert gained(model, 6, tmp_path) > 0


def test_a_layer_without_a_bias_gets_one(tmp_path: Path) -> None:
    m = Layer("GRU")
    x = m.b.node("Transpose", m.b.input("x", F, (1, 7, m.inputs)), perm=(1, 0, 2))
    m.b.nodes("GRU", x, "W", "R", outputs=("Y", "Y_h"), name="cell", hidden_size=m.hidden, linear_before_reset=1)
    m.head(m.b.node("Squeeze", "Y_h", m.ints("axis", 0)), m.hidden)
    model = m.model()
    assert gained(model, 2, tmp_path) > 1
    (cell,) = (node for node in quantize(model, rows_of(model, 1), settings=settings(4)).qdq.graph.nodes
               if node.op_type == "GRU")  # fmt: skip
    assert cell.inputs[3]


def test_the_nearest_stay_where_nothing_is_asked_or_known() -> None:
    """Eight bits, and few bits without data."""
    model = sequence("LSTM")
    for chosen, rows in ((settings(8), rows_of(model, 1)), (settings(4), None)):
        graph = quantize(model, rows, settings=chosen).qdq.graph
        for name in ("W", "R"):
            weights, bits = model.graph.initializers[name], chosen.layer("cell").weights.bits
            wanted = weight_form(weights.reshape(-1, weights.shape[-1]), WeightSettings(bits)).integers
            (found,) = (array for key, array in graph.initializers.items() if key == f"{name}_quantized")
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_more_than_eight_bits(tmp_path: Path) -> None:
    """They are integers of 16 bits in the file, and do not run over."""
    model, rows, noise = sequence("LSTM"), rows_of(sequence("LSTM"), 1), []
    for bits in (8, 12):
        made = quantize(model, rows, settings=settings(bits))
        for name in ("W", "R"):
            weights = model.graph.initializers[name]
            wanted = weight_form(weights.reshape(-1, weights.shape[-1]), WeightSettings(bits)).integers
            found = made.qdq.graph.initializers[f"{name}_quantized"]
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
        real = np.stack([onnx.evaluate(model, {"x": x})["out"] for x in rows["x"]])
        noise.append(float(np.square(golden.predict(made, rows)["out"] - real).sum()))
    assert noise[1] < noise[0]


def test_the_same_data_give_the_same_integers() -> None:
    model = apart("LSTM")
    first, second = (quantize(keep_states(model), rows_of(model, 1), settings=settings(3)) for _ in range(2))
    assert first.graph == second.graph
    assert quantize(keep_states(first.qdq)).graph == first.graph
    again = quantize(keep_states(model), rows_of(model, 1), settings=settings(3))
    assert again.settings == first.settings
