"""What can be narrower in a model, and the settings that widths stand for."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.quantize.calibrate.prepared import Prepared
from hwflow.quantize.post_training import prepare
from hwflow.quantize.settings import (
    ActivationSettings,
    LayerSettings,
    QuantizationSettings,
    WeightRounding,
    WeightSettings,
)
from hwflow.search.widths.knobs import Knob, KnobKind, bits_text, knobs_of, settings_with

F = np.float32
ALL = tuple(range(8, 0, -1))


def model() -> onnx.Model:
    """image -> conv -> Relu -> MaxPool, beside it side; Concat of both; fc."""
    rng = np.random.default_rng(0)
    b = Builder()
    x = b.input("image", F, (1, 2, 4, 4))
    conv = b.node("Conv", x, b.constant("w", rng.normal(size=(2, 2, 1, 1)).astype(F)), name="conv")
    a = b.node("MaxPool", b.node("Relu", conv, name="relu"), kernel_shape=[2, 2], strides=[2, 2], name="pool")
    weights = b.constant("v", rng.normal(size=(2, 2, 2, 2)).astype(F))
    c = b.node("Conv", x, weights, strides=[2, 2], name="side")
    flat = b.node("Flatten", b.node("Concat", a, c, axis=1, name="both"))
    b.output(b.node("Gemm", flat, b.constant("u", rng.normal(size=(16, 3)).astype(F)), name="fc"))
    return onnx.simplify(onnx.infer(b.model()))


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    rows = {"image": np.random.default_rng(1).normal(size=(8, 1, 2, 4, 4)).astype(F)}
    return prepare(model(), rows, QuantizationSettings(), [])


def test_inputs_weights_and_results_can_be_narrower_and_concat_ties_its_operands(prepared):
    found = {(knob.kind, knob.name): knob for knob in knobs_of(prepared, QuantizationSettings())}
    assert next(iter(found)) == (KnobKind.INPUT, "image")
    weights = [name for kind, name in found if kind is KnobKind.WEIGHTS]
    assert weights == ["conv", "side", "fc"]
    results = [name for kind, name in found if kind is KnobKind.OUTPUT]
    assert "pool" not in results, "MaxPool keeps the width of what it reads"
    assert "relu" not in results, "a Relu is a part of the layer before it"
    tied = [knob for knob in found.values() if knob.also]
    assert [{name for _, name in knob.places} for knob in tied] == [{"conv", "side", "both"}]
    assert all(knob.widths == ALL for knob in found.values())


def test_the_widths_of_the_settings_are_the_widest(prepared):
    base = QuantizationSettings(
        default=LayerSettings(output=ActivationSettings(bits=6)),
        layers={"fc": LayerSettings(weights=WeightSettings(bits=1), output=ActivationSettings(bits=4))},
        inputs={"image": ActivationSettings(bits=3)},
    )
    found = {(knob.kind, knob.name): knob.widths for knob in knobs_of(prepared, base)}
    assert found[KnobKind.INPUT, "image"] == (3, 2, 1)
    assert found[KnobKind.OUTPUT, "conv"] == (6, 5, 4, 3, 2, 1)
    assert found[KnobKind.WEIGHTS, "conv"] == ALL
    assert (KnobKind.WEIGHTS, "fc") not in found, "one bit cannot be narrower"


KNOBS = (
    Knob(KnobKind.INPUT, "image", ALL),
    Knob(KnobKind.WEIGHTS, "conv", ALL),
    Knob(KnobKind.OUTPUT, "conv", ALL, also=((KnobKind.OUTPUT, "side"),)),
    Knob(KnobKind.WEIGHTS, "fc", ALL),
)


def test_settings_say_the_widths_and_keep_every_other_choice():
    base = QuantizationSettings(
        default=LayerSettings(WeightSettings(per_channel=False)),
        layers={"fc": LayerSettings(output=ActivationSettings(symmetric=True))},
    )
    made = settings_with(base, KNOBS, (7, 4, 5, 3), tuned=True)
    assert made.inputs == {"image": ActivationSettings(bits=7)}
    assert made.layers == {
        "conv": LayerSettings(WeightSettings(bits=4, per_channel=False), ActivationSettings(bits=5)),
        "side": LayerSettings(WeightSettings(per_channel=False), ActivationSettings(bits=5)),
        "fc": LayerSettings(WeightSettings(bits=3), ActivationSettings(symmetric=True)),
    }
    assert made.default == base.default


def test_what_is_not_tuned_rounds_to_the_nearest():
    made = settings_with(QuantizationSettings(), KNOBS, (8, 4, 4, 4), tuned=False)
    rounded = [made.default, *made.layers.values()]
    assert {layer.weights.rounding for layer in rounded} == {WeightRounding.NEAREST}
    assert made.layers["conv"].weights.bits == 4


def test_widths_as_text():
    assert bits_text(KNOBS, (8, 4, 5, 3)) == "8 4/5 3/."
