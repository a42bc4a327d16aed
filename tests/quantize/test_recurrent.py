"""RNN, GRU and LSTM from ONNX to integers: every form that exporters write, states that stay, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwflow import HwflowError, golden, onnx
from hwflow.accuracy.metrics import signal_to_noise
from hwflow.api import load, measure_accuracy, quantize_model, read_data
from hwflow.layers.recurrent import Recurrent
from hwflow.onnx.model import Array, Model
from hwflow.onnx.run.sequences import KEY as STATES
from hwflow.onnx.run.sequences import in_order, with_state_rows
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.calibrate.recurrent import KEY, reaches
from hwflow.quantize.passes.streaming import keep_states
from hwflow.quantize.settings import settings_of_bits
from tests.quantize.recurrent_models import Layer, apart, packed, sequence, stacked

#: Decibels between float and integer outputs, at least: those of a row of products of 8 bits.
CLEAN = 28.0


def rows_of(model: Model, count: int, seed: int = 3) -> dict[str, Array]:
    x = model.graph.inputs[0]
    assert x.tensor is not None
    shape = tuple(int(size) for size in x.tensor.shape or ())  # type: ignore[arg-type]
    return {x.name: np.random.default_rng(seed).normal(0, 1, (count, *shape)).astype(np.float32)}


def loops(quantized: Quantized) -> list[Recurrent]:
    return [layer for layer in quantized.graph.layers if isinstance(layer, Recurrent)]


def noise(quantized: Quantized, model: Model, rows: dict[str, Array]) -> float:
    found = signal_to_noise(golden.evaluate_rows(model, rows), golden.predict(quantized, rows))
    assert found is not None
    return found


FORMS = ("last", "all", "layout", "lengths", "initial", "reverse", "both")
#: The other forms of the other operators take the same code.
QUICK = {("GRU", form) for form in FORMS} | {("LSTM", "initial"), ("LSTM", "both"), ("RNN", "last")}


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    ("op", "form"),
    [pytest.param(op, form, marks=() if (op, form) in QUICK else pytest.mark.slow)
     for op in ("RNN", "GRU", "LSTM") for form in FORMS],
)  # fmt: skip
def test_forms_of_exporters(op: str, form: str) -> None:
    model = sequence(op, form)
    rows = rows_of(model, 40)
    quantized = quantize(model, rows)
    assert len(loops(quantized)) == (2 if form == "both" else 1)
    assert not quantized.graph.streaming
    assert noise(quantized, model, rows) > CLEAN
    again = quantize(quantized.qdq)  # as other runtimes have it
    assert again.graph.layers == quantized.graph.layers


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("GRU", {"linear_before_reset": 1}), ("RNN", {"activations": ["Relu"]}), ("LSTM", {"clip": 1.5}),
     ("LSTM", {"activations": ["HardSigmoid", "Softsign", "Tanh"], "activation_alpha": [0.25]})],
)  # fmt: skip
def test_attributes(op: str, attributes: dict[str, object]) -> None:
    model = sequence(op, **attributes)
    rows = rows_of(model, 40)
    assert noise(quantize(model, rows), model, rows) > CLEAN


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "model", [packed(), apart("LSTM"), apart("GRU", linear_before_reset=1), apart("RNN", steps=1), stacked()]
)
def test_states_stay_over_more_rows_than_the_golden_model_takes_at_once(model: Model) -> None:
    rows, kept = rows_of(model, 150), keep_states(model)
    quantized = quantize(model, rows)
    assert all(layer.streaming for layer in loops(quantized))
    assert len(loops(quantized)) == len(json.loads(kept.metadata[STATES])) - (kept.graph.name == "lstm")
    assert [len(program.graph.inputs) for program in (quantized.prologue, quantized.epilogue)] == [1, 1]
    expected, found = in_order(kept, rows), golden.predict(quantized, rows)
    snr = signal_to_noise(expected, found)
    assert snr is not None
    assert snr > CLEAN
    assert quantize(quantized.qdq).graph.layers == quantized.graph.layers
    alone = golden.predict(quantized, {name: array[100:] for name, array in rows.items()})
    assert not np.array_equal(alone["out"], found["out"][100:])  # the state of the rows before counts


def test_weights_that_stayed_float_beside_quantizers() -> None:
    model = sequence("GRU")
    rows = rows_of(model, 40)
    quantized = quantize(model, rows)
    graph = quantized.qdq.graph
    cell = next(n for n in model.graph.nodes if n.op_type == "GRU")
    real = {"W": cell.inputs[1], "R": cell.inputs[2]}
    nodes = tuple(
        replace(n, inputs=(n.inputs[0], real["W"], real["R"], *n.inputs[3:])) if n.op_type == "GRU" else n
        for n in graph.nodes
    )
    constants = {**graph.initializers, **{name: model.graph.initializers[name] for name in real.values()}}
    mixed = replace(quantized.qdq, graph=replace(graph, nodes=nodes, initializers=constants), metadata={})
    found = quantize(mixed, rows)
    (loop,) = loops(found)
    np.testing.assert_array_equal(loop.hidden_weights, loops(quantized)[0].hidden_weights)
    assert noise(found, model, rows) > CLEAN


def test_the_reach_of_what_is_inside() -> None:
    """Against the states that the model itself gives, step by step."""
    model = keep_states(apart("LSTM", steps=1))
    whole = with_state_rows(model, rows_of(model, 60))
    (reach,) = reaches(model, whole).values()
    names = [value.name for value in model.graph.outputs if value.name in ("hn", "cn")]
    made = [onnx.evaluate(model, {name: array[k] for name, array in whole.items()}) for k in range(60)]
    largest = [max(float(np.abs(row[name]).max()) for row in made) for name in names]
    assert reach.hidden == pytest.approx(largest[0], rel=1e-6)
    assert reach.cell == pytest.approx(largest[1], rel=1e-5)
    sums = [row[0] @ w.T for w, row in zip([model.graph.initializers["W"][0]], [whole["x"][0]], strict=True)]
    assert reach.gates is not None
    assert reach.gates >= float(np.abs(sums[0]).max()) - 1


def test_the_cell_of_a_long_sequence_has_room() -> None:
    """Without data the cell can become as large as there are steps; with data as large as twice what was seen."""
    (free,) = loops(quantize(sequence("LSTM", steps=40)))
    quantized = quantize(sequence("LSTM", steps=40), rows_of(sequence("LSTM", steps=40), 30))
    (seen,) = loops(quantized)
    reach = json.loads(quantized.qdq.metadata[KEY])["cell"]["cell"]
    assert 2 * reach <= 2.0 ** (seen.cell_bits - 1 - seen.cell_fraction) <= 40.0 or reach > 20
    assert 2.0 ** (free.cell_bits - 1 - free.cell_fraction) <= 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"form": "last", "activations": ["Relu", "Tanh"]}, "'cell' (GRU): the function of its gates must stay inside"),
        ({"form": "last", "activations": ["Sigmoid", "Affine"]}, "'cell' (GRU): its function 'affine' has no hardware"),
    ],
)
def test_functions_without_hardware(change: dict[str, object], message: str) -> None:
    model = sequence("GRU", **change)  # type: ignore[arg-type]
    with pytest.raises(HwflowError, match=re.escape(message)):
        quantize(model, rows_of(model, 5))


def test_a_backward_direction_keeps_no_state() -> None:
    model = apart("GRU", direction="reverse")
    with pytest.raises(HwflowError, match="a backward direction begins at the end of the sequence"):
        quantize(model, rows_of(model, 5))


def test_what_comes_out_of_the_cell_is_refused() -> None:
    m = Layer("LSTM")
    x = m.b.input("x", np.float32, (3, 1, 5))
    m.cell(x, outputs=("Y", "", "Y_c"))
    m.b.output("Y_c", np.float32)
    m.head(m.b.node("Reshape", "Y", m.ints("flat", 1, -1)), 3 * m.hidden)
    model = m.model()
    with pytest.raises(HwflowError, match="its output Y_c, the last cell state 'Y_c' has no hardware"):
        quantize(model, rows_of(model, 5))


def test_sequences_that_are_not_whole() -> None:
    m = Layer("GRU")
    x = m.b.input("x", np.float32, (4, 1, 5))
    m.cell(x, m.b.constant("lengths", np.array([3], np.int32)))
    m.head(m.b.node("Reshape", "Y", m.ints("flat", 1, -1)), 4 * m.hidden)
    model = m.model()
    with pytest.raises(HwflowError, match="its sequences must have all steps: sequence_lens has no hardware"):
        quantize(model, rows_of(model, 5))


@pytest.mark.parametrize("name", ["vowels_gru", "vowels_gru_dynamo"])
def test_vowels(models_dir: Path, name: str) -> None:
    """As two exporters write the same network; no more than half a point of accuracy is lost."""
    model = load(models_dir / "models" / f"{name}.onnx")
    data = read_data(models_dir / "data" / f"{name}.npz", model)
    found = measure_accuracy(model, quantize_model(model, data), data).headline
    assert found is not None
    assert found.lost is not None
    assert found.lost <= 0.5


def test_the_voice_detector_on_its_audio(models_dir: Path) -> None:
    """Step by step, with the states of 40 frames; the file's states say that they are one sequence."""
    place = models_dir / "data" / "pypi_silero_vad_16k.npz"
    model = load(models_dir / "models" / "pypi_silero_vad_16k.onnx")
    data = read_data(place, model)
    with np.load(place) as archive:
        np.testing.assert_allclose(in_order(model, data.inputs)["output"], archive["out_output"], atol=1e-5)
    quantized = quantize_model(model, data)
    assert quantized.graph.streaming
    assert measure_accuracy(model, quantized, data).outputs[0].largest_error < 0.02


def test_weights_of_one_bit() -> None:
    model = sequence("GRU")
    (loop,) = loops(quantize(model, rows_of(model, 5), settings=settings_of_bits(1)))
    assert np.unique(loop.hidden_weights).tolist() == [-1, 1]
    assert not loop.weight_format.bipolar  # the unit has no such products
