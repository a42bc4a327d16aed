"""The settings file: what it may say, what it must not, and that the one that is written reproduces the run."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from hwflow.quantize.settings import (
    ActivationSettings,
    LayerSettings,
    OutputStage,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)
from hwflow.quantize.settings_file import settings_from_yaml, settings_to_yaml
from tests.quantize.models import Qdq, rows
from tests.quantize.test_float import Float


def network() -> Model:
    m = Float((1, 2, 8, 8)).conv(6, 2, 3, 3).norm(6).do("Relu").conv(4, 6, 3, 3).do("Sigmoid").conv(3, 4, 3, 3)
    return m.do("Flatten").model()


def conv_names(model: Model) -> list[str]:
    return [node.name for node in model.graph.nodes if node.op_type == "Conv"]


def read(text: str) -> QuantizationSettings:
    return settings_from_yaml(text, "q.yaml", network())


def test_what_is_left_out_is_as_in_default() -> None:
    first, second, _ = conv_names(network())
    settings = read(f"""
        default: {{weights: {{bits: 4, rounding: nearest}}, output: {{bits: 6, method: entropy}}}}
        equalize: false
        inputs: {{input: {{bits: 8, range: [-1, 2.5]}}}}
        layers:
          {first}: {{weights: {{bits: 8, bias_correction: false}}, output_stage: multiply}}
          {second}: {{output: {{symmetric: true, method: percentile, percentile: 99}}}}
    """)
    assert settings.equalize is False
    assert settings.default.weights == WeightSettings(4, rounding=WeightRounding.NEAREST)
    assert settings.inputs == {"input": ActivationSettings(8, method=RangeMethod.ENTROPY, range=(-1.0, 2.5))}
    assert settings.layer(first) == LayerSettings(
        WeightSettings(8, rounding=WeightRounding.NEAREST, bias_correction=False),
        ActivationSettings(6, method=RangeMethod.ENTROPY),
        OutputStage.MULTIPLY,
    )
    assert settings.layer(second).output == ActivationSettings(6, True, RangeMethod.PERCENTILE, 99.0)
    assert settings.layer("another") == settings.default


@pytest.mark.parametrize("text", ["", "# nothing", "{}", "null"])
def test_nothing_chosen(text: str) -> None:
    assert read(text) == QuantizationSettings()


REFUSED = {
    "layers: {conv1: {weights: {bits: 0}}}": "layers/conv1/weights/bits must be a whole number from 1 to 16, not 0",
    "default: {output: {bits: 17}}": "default/output/bits must be a whole number from 1 to 16, not 17",
    "default: {output: {bits: 4.5}}": "default/output/bits must be a whole number from 1 to 16, not 4.5",
    "default: {output: {bits: true}}": "default/output/bits must be a whole number from 1 to 16, not True",
    "default: {output: {bit: 4}}": "default/output must have no key 'bit', only .*; did you mean 'bits'",
    "layer: {}": "the file must have no key 'layer', only default, equalize, hardware_argmax, inputs, joint_steps, "
                 "layers; did you mean 'layers'",
    "equalize: maybe": "equalize must be auto, true or false, not 'maybe'",
    "equalize: 1": "equalize must be auto, true or false, not 1",
    "default: {weights: {method: entropy}}": "default/weights/method must be auto, minmax or mse, not 'entropy'",
    "default: {output: {percentile: 49}}": "default/output/percentile must be a number from 50 to 100, not 49",
    "default: {output: {percentile: .nan}}": "default/output/percentile must be a finite number, not nan",
    "inputs: {input: {range: [2, 1]}}": r"inputs/input/range must be two numbers, the smaller first, not \[2, 1\]",
    "inputs: {input: {range: [1]}}": r"inputs/input/range must be two numbers, the smaller first, not \[1\]",
    "inputs: {input: {range: [0, .inf]}}": "inputs/input/range/1 must be a finite number, not inf",
    "inputs: {inptu: {bits: 4}}": "inputs/inptu must name an input of the model; did you mean 'input'",
    "layers: {conv_3: {}}": "layers/conv_3 must name a node of the model; did you mean 'conv3'",
    "layers: {xyz: {}}": "layers/xyz must name a node of the model; there are conv3, ",
    "layers: {input: }": "layers/input must be a mapping with the keys weights, output, output_stage and rescale_bits, "
    "not nothing",
    "default: {rescale_bits: 17}": "default/rescale_bits must be auto, or a whole number from 18 to 32, not 17",
    "layers: {input: {rescale_bits: 33}}": "layers/input/rescale_bits must be auto, or a whole number from 18 to 32",
    "default: {rescale_bits: wide}": "default/rescale_bits must be auto, or a whole number from 18 to 32, not 'wide'",
    "[1, 2]": "the file must be a mapping with the keys default, equalize, hardware_argmax, inputs, joint_steps and "
              "layers, not",
    "just text": "the file must be a mapping with the keys",
    "default: {}\ndefault: {}": "line 2: must be plain YAML: the key 'default' must be given once, not twice",
    "default: &a {}\nlayers: *a": r"line 2: must be plain YAML: references \(\*\) are not read here",
    "? [1]\n: 2": "must be plain YAML: a key must be a name",
    "default: {output: {bits: ": "must be plain YAML",
    "default: !!python/object:os.system {}": "must be plain YAML: could not determine a constructor",
    "default: 2020-99-99": "must be plain YAML: month must be in 1..12",
    "default: !!timestamp x": "must be plain YAML: a value is not of the type of its tag",
    "default: !!bool x": "must be plain YAML: a value is not of the type of its tag",
    "a" * 1000 + ": 1": "the file must have no key 'a{57}\\.\\.\\.', only",
    "[" * 20_000: "must be plain YAML: it is nested too deeply",
    "#" * 2_000_000: "must be at most 1048576 characters, not 2000000",
    "default: \x00": "must be plain YAML",
}


@pytest.mark.parametrize("text", REFUSED, ids=[text[:40] for text in REFUSED])
def test_refused(text: str) -> None:
    with pytest.raises(HwflowError, match=f"^settings q.yaml.*{REFUSED[text]}") as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bits", [0, 17, -1, 4.0, True])
def test_widths_in_code(bits: int) -> None:
    for kind in (ActivationSettings, WeightSettings):
        with pytest.raises(HwflowError, match=f"must be a whole number from 1 to 16, not {bits}"):
            kind(bits)


def test_other_choices_in_code() -> None:
    with pytest.raises(HwflowError, match="the percentile of an activation must be 50 to 100, not nan"):
        ActivationSettings(percentile=float("nan"))
    for ends in ((2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)):
        with pytest.raises(HwflowError, match="the range of an activation must be two numbers, the smaller first, not"):
            ActivationSettings(range=ends)
    with pytest.raises(HwflowError, match="the method of weights must be auto, minmax or mse, not entropy"):
        WeightSettings(method=RangeMethod.ENTROPY)
    model = network()
    settings = QuantizationSettings(layers={"conv33": LayerSettings(WeightSettings(4))})
    with pytest.raises(HwflowError, match=r"layers/conv33 must be a layer with .* did you mean 'conv3'"):
        quantize(model, rows(model, 2), settings=settings)


def test_a_name_may_look_like_a_number() -> None:
    m = Qdq((1, 4))  # for its builder alone
    m.x = m.b.node("Gemm", m.x, m.b.constant("w", np.ones((4, 4), np.float32)), name="90")
    settings = settings_from_yaml("layers: {90: {weights: {bits: 3}}}", "q.yaml", m.model())
    assert settings.layer("90").weights.bits == 3


def test_a_part_of_another_layer_has_no_settings() -> None:
    model = network()
    (relu,) = (node.name for node in model.graph.nodes if node.op_type == "Relu")
    settings = settings_from_yaml(f"layers: {{{relu}: {{output: {{bits: 4}}}}}}", "q.yaml", model)
    with pytest.raises(HwflowError, match=f"layers/{relu} must be a layer with integers of its own, not .*; there are"):
        quantize(model, rows(model, 4), settings=settings)


def test_widths_of_a_quantized_model_cannot_be_chosen() -> None:
    m = Qdq((1, 8)).qdq(0.1, 0)
    model = m.matmul(8, 4).qdq(0.5, 0).model()
    with pytest.raises(HwflowError, match="stages and bits of rescaling alone, not default/weights; its widths"):
        quantize(model, settings=QuantizationSettings(LayerSettings(WeightSettings(4))))
    with pytest.raises(HwflowError, match="stages and bits of rescaling alone, not inputs/input; its widths"):
        quantize(model, settings=QuantizationSettings(inputs={"input": ActivationSettings(7)}))


def test_settings_survive_the_file() -> None:
    first, second, third = conv_names(network())
    settings = QuantizationSettings(
        LayerSettings(WeightSettings(3, False, RangeMethod.MSE, WeightRounding.ADAPTIVE, True)),
        {
            first: LayerSettings(output=ActivationSettings(1, True, RangeMethod.MSE, 99.9, (-1 / 3, 1e-30))),
            second: LayerSettings(output_stage=OutputStage.THRESHOLDS, rescale_bits=None),
            third: LayerSettings(WeightSettings(bias_correction=False), rescale_bits=27),
        },
        {"input": ActivationSettings(2, method=RangeMethod.ENTROPY)},
        equalize=True,
    )
    assert read(settings_to_yaml(settings)) == settings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "default: {output: {method: entropy}}",
        "default: {weights: {bits: 6, bias_correction: false, rounding: nearest, method: minmax}, output: {bits: 5}}",
        "default: {weights: {per_channel: false, bias_correction: false}, output: {bits: 6, symmetric: true, "
        "method: percentile}}",
    ],
)
def test_the_file_reproduces_the_graph_without_data(text: str) -> None:
    model = network()
    made = quantize(model, rows(model, 20), settings=read(text))
    again = quantize(model, settings=settings_from_yaml(made.settings, "q.yaml", model))
    assert again.graph == made.graph
    assert again.settings == made.settings
    assert not any("calibration" in note for note in again.notes)
    assert made.settings.count("range: [") == 5
    assert "method: auto" not in made.settings
    assert "rounding: auto" not in made.settings
    assert "bias_correction: auto" not in made.settings
    assert "equalize: auto" not in made.settings


def test_the_file_reproduces_the_graph_with_data() -> None:
    model = network()
    settings = read("default: {weights: {bits: 3, rounding: adaptive, bias_correction: true}, output: {bits: 4}}")
    made = quantize(model, rows(model, 20), settings=settings)
    again = quantize(model, rows(model, 20), settings=settings_from_yaml(made.settings, "q.yaml", model))
    assert again.graph == made.graph
    with pytest.raises(HwflowError, match="without calibration data"):
        quantize(model, settings=settings_from_yaml(made.settings, "q.yaml", model))


@pytest.mark.parametrize("bits", [8, 4])
def test_the_file_reproduces_a_run_without_data(bits: int) -> None:
    model = network()
    made = quantize(model, settings=QuantizationSettings(LayerSettings(WeightSettings(bits))))
    assert made.notes[0].startswith("no calibration data: ranges come from 64 rows")
    again = quantize(model, settings=settings_from_yaml(made.settings, "q.yaml", model))
    assert again.graph == made.graph
    assert not any("calibration" in note for note in again.notes)
