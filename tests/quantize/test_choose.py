"""Choices by noise on rows that are held back: what is chosen, that it is better on other rows, and when none is made.

The oracle is onnxruntime on the float model; hwflow's integers come from the golden model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.calibrate.choose import Choice, choose
from hwflow.quantize.calibrate.noise import Judge, Noise
from hwflow.quantize.post_training import prepare
from hwflow.quantize.settings import (
    ActivationSettings,
    Effort,
    LayerSettings,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
    settings_of_bits,
)
from hwflow.quantize.settings_file import settings_from_yaml
from tests.quantize.models import runtime

DEFAULTS = QuantizationSettings(effort=Effort.NORMAL)
Make = Callable[[np.random.Generator], Model]


def dense(generator: np.random.Generator) -> Model:
    """Three layers of random weights, whose biases nothing averages out."""
    b = Builder("dense")
    x = b.input("x", np.float32, (1, 16))
    for k, (fan_in, fan_out) in enumerate(((16, 24), (24, 24), (24, 6))):
        weights = generator.standard_normal((fan_out, fan_in)).astype(np.float32) * np.float32(fan_in**-0.5)
        bias = generator.standard_normal(fan_out).astype(np.float32)
        name = "y" if k == 2 else f"dense{k}"
        x = b.node("Gemm", x, b.constant(f"w{k}", weights), b.constant(f"b{k}", bias), transB=1, name=name, output=name)
        x = x if k == 2 else b.node("Relu", x)
    b.output(x)
    return onnx.infer(b.model(opset=13))


def conv(generator: np.random.Generator) -> Model:
    """Two convolutions and a mean, the second one depthwise."""
    b = Builder("conv")
    x = b.input("x", np.float32, (1, 3, 8, 8))
    w0 = b.constant("w0", generator.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5)
    b0 = b.constant("b0", generator.standard_normal(8).astype(np.float32))
    w1 = b.constant("w1", generator.standard_normal((8, 1, 3, 3)).astype(np.float32) / 3)
    x = b.node("Relu", b.node("Conv", x, w0, b0, pads=(1, 1, 1, 1), name="first"))
    x = b.node("Relu", b.node("Conv", x, w1, group=8, name="second"))
    x = b.node("GlobalAveragePool", x, name="mean", output="y")
    b.output(x)
    return onnx.infer(b.model(opset=13))


def rows_of(model: Model, count: int, seed: int) -> dict[str, Array]:
    """Skewed values, as pictures and spectra have."""
    values = np.random.default_rng(seed).gamma(1.5, 0.4, (count, *model.graph.inputs[0].tensor.shape))
    return {"x": values.astype(np.float32)}


def with_effort(effort: Effort, settings: QuantizationSettings = DEFAULTS) -> QuantizationSettings:
    return replace(settings, effort=effort)


def decibels(model: Model, quantized: Quantized, rows: dict[str, Array]) -> float:
    wanted = runtime(model, rows).astype(np.float64)
    error = golden.predict(quantized, rows)["y"].reshape(wanted.shape) - wanted
    return float(10 * np.log10(np.square(wanted).sum() / np.square(error).sum()))


def notes_of(quantized: Quantized) -> list[str]:
    return [note for note in quantized.notes if note.startswith("chosen on")]


@pytest.mark.parametrize("bits", [(8, 8), (4, 8), (4, 4)])
@pytest.mark.parametrize("make", [dense, conv])
def test_what_is_chosen_is_better_on_rows_that_nobody_saw(make: Make, bits: tuple[int, int]) -> None:
    gains = []
    for seed in range(2):
        model = make(np.random.default_rng(seed))
        seen, unseen = rows_of(model, 60, seed), rows_of(model, 200, 100 + seed)
        settings = settings_of_bits(*bits)
        found = [decibels(model, quantize(model, seen, settings=with_effort(effort, settings)), unseen)
                 for effort in (Effort.QUICK, Effort.NORMAL)]
        gains.append(found[1] - found[0])
    assert min(gains) > -0.1
    assert bits != (8, 8) or np.mean(gains) > 0.3  # with few bits the defaults try hard already


def test_the_same_rows_give_the_same_choices_and_the_settings_reproduce_them() -> None:
    model = conv(np.random.default_rng(1))
    seen = rows_of(model, 40, 1)
    first, second = (quantize(model, seen, settings=with_effort(Effort.BEST)) for _ in range(2))
    assert first.settings == second.settings
    assert first.graph == second.graph
    assert len(notes_of(first)) == 1
    said = with_effort(Effort.BEST, settings_from_yaml(first.settings, "q.yaml", model))
    again = quantize(model, seen, settings=said)
    assert again.graph == first.graph
    assert not notes_of(again)  # nothing is left to choose


def test_nothing_is_chosen_on_few_rows_with_quick_or_where_all_is_said() -> None:
    model = dense(np.random.default_rng(2))
    said = QuantizationSettings(LayerSettings(
        WeightSettings(rounding=WeightRounding.NEAREST, bias_correction=False),
        ActivationSettings(method=RangeMethod.MINMAX)))  # fmt: skip
    quick = quantize(model, rows_of(model, 40, 1), settings=with_effort(Effort.QUICK))
    assert not notes_of(quick)
    assert quantize(model, rows_of(model, 40, 1), settings=with_effort(Effort.BEST, said)).graph == quick.graph
    few = quantize(model, rows_of(model, 8, 1), settings=DEFAULTS)
    assert not notes_of(few)
    assert sum(note.startswith("nothing is compared on 8 calibration rows") for note in few.notes) == 1
    assert notes_of(quantize(model, rows_of(model, 9, 1), settings=DEFAULTS))
    assert not notes_of(quantize(model, settings=DEFAULTS))  # made-up rows
    alike = {"x": np.repeat(rows_of(model, 1, 1)["x"], 20, axis=0)}
    assert quantize(model, alike, settings=DEFAULTS).graph.layers  # equal rows get a warning elsewhere, and a design


def test_what_the_user_says_stays() -> None:
    model = conv(np.random.default_rng(3))
    asked = QuantizationSettings(
        layers={"first": LayerSettings(WeightSettings(rounding=WeightRounding.NEAREST, bias_correction=False),
                                       ActivationSettings(range=(0.0, 3.0)))},
        inputs={"x": ActivationSettings(method=RangeMethod.PERCENTILE, percentile=95.0)},
        effort=Effort.BEST)  # fmt: skip
    made = settings_from_yaml(quantize(model, rows_of(model, 40, 1), settings=asked).settings, "q.yaml", model)
    assert made.layers["first"].output.range == (0.0, 3.0)
    assert made.layers["first"].weights.rounding is WeightRounding.NEAREST
    assert made.layers["first"].weights.bias_correction is False
    assert made.inputs["x"].method is RangeMethod.PERCENTILE
    assert made.inputs["x"].percentile == 95.0


def test_a_range_is_cut_where_outliers_do_not_matter() -> None:
    """A few large values meet weights of zero: what they cost in steps, nothing gives back."""
    b = Builder("outliers")
    x = b.input("x", np.float32, (1, 1024))
    weights = np.random.default_rng(0).standard_normal((4, 1024)).astype(np.float32)
    weights[:, 0] = 0
    b.output(b.node("Gemm", x, b.constant("w", weights), b.constant("b", np.zeros(4, np.float32)), transB=1,
                    name="y", output="y"))  # fmt: skip
    model = onnx.infer(b.model(opset=13))
    seen = np.random.default_rng(1).standard_normal((60, 1, 1024)).astype(np.float32)
    seen[::20, 0, 0] = 300
    made = settings_from_yaml(quantize(model, {"x": seen}, settings=DEFAULTS).settings, "q.yaml", model)
    assert made.inputs["x"].range is not None
    assert made.inputs["x"].range[1] < 30


def test_the_judge_sees_the_noise_that_the_integers_have() -> None:
    model = conv(np.random.default_rng(4))
    seen = rows_of(model, 60, 1)
    prepared = prepare(model, seen, DEFAULTS, [])
    assert prepared.trial is not None
    choice = choose(prepared, DEFAULTS)
    assert isinstance(choice, Choice)
    made = quantize(model, prepared.trial.rows, settings=with_effort(Effort.QUICK, choice.settings))
    assert abs(decibels(model, made, dict(prepared.trial.held)) - choice.noise.decibels) < 0.5


def test_noise_is_better_only_on_the_whole_and_on_most_rows() -> None:
    signal = np.ones((1, 4))
    one, few, most = (Noise(signal, np.array([errors])) for errors in
                      ([1e-2, 1e-2, 1e-2, 1e-2], [1e-4, 1e-2, 1e-2, 1e-2], [1e-3, 1e-3, 1e-3, 5e-2]))  # fmt: skip
    assert not few.beats(one)  # one row of four
    assert not most.beats(one)  # most rows, but worse over all
    assert Noise(signal, np.full((1, 4), 5e-3)).beats(one)
    assert not one.beats(one)


def test_a_softmax_of_the_host_is_not_judged() -> None:
    """What leaves the layers is: a shift of all scores, which shares do not show, is no noise either."""
    b = Builder("scores")
    x = b.input("x", np.float32, (1, 8))
    weights = b.constant("w", np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32))
    y = b.node("Gemm", x, weights, b.constant("b", np.full(4, 50, np.float32)), transB=1, name="scores")
    b.output(b.node("Softmax", y, output="y"))
    model = onnx.infer(b.model(opset=13))
    prepared = prepare(model, rows_of(model, 12, 1), DEFAULTS, [])
    judge = Judge.of(prepared.twin, prepared.points, rows_of(model, 3, 2))
    assert judge is not None
    (wanted,) = judge.wanted.values()
    assert np.allclose(wanted.mean(axis=1), 0)
    assert np.abs(wanted).max() > 1
