"""Files that are quantized in part: what carries no quantizer gets one, and the rest keeps its own integers."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import golden
from hwflow.onnx import infer
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from tests.quantize.dialects.cases import QONNX, Maker
from tests.quantize.models import Qdq, kinds, runtime

RANDOM = np.random.default_rng(5)
SHAPE = (40, 1, 4, 6, 6)
NOISE = {"input": RANDOM.standard_normal(SHAPE).astype(np.float32)}


def raw_input() -> Model:
    """The first convolution reads the input as it is."""
    return Qdq(SHAPE[1:]).conv((8, 4, 3, 3)).node("Relu").qdq(0.05, -128).conv((3, 8, 1, 1)).qdq(0.1, 0).model()


def raw_middle() -> Model:
    """Between two convolutions stands no quantizer."""
    return Qdq(SHAPE[1:]).qdq(0.03, 0).conv((8, 4, 3, 3)).node("Relu").conv((3, 8, 1, 1)).qdq(0.5, 0).model()


def raw_weights() -> Model:
    """The head has weights of reals, as where a quantizer leaves the last layer out."""
    m = Qdq(SHAPE[1:]).qdq(0.03, 0).conv((8, 4, 3, 3)).node("Relu").qdq(0.05, -128).node("Flatten")
    return m.node("MatMul", m.constant("head", RANDOM.normal(0, 0.1, (128, 5)).astype(np.float32))).model()


def branches() -> Model:
    """A sum of what is quantized and what is not."""
    m = Qdq(SHAPE[1:])
    x = m.x
    m.qdq(0.03, 0).conv((4, 4, 1, 1)).qdq(0.05, 0)
    return m.node("Add", x).node("Relu").qdq(0.05, -128).model()


def raw_function() -> Model:
    """Quantizers leave functions in floats that they do not know, and then the mean behind them."""
    m = Qdq(SHAPE[1:]).qdq(0.03, 0).conv((4, 4, 3, 3)).qdq(0.1, 0)
    return m.node("Elu").node("ReduceMean", axes=(2, 3), keepdims=0).qdq(0.1, 0).matmul(4, 3).qdq(0.1, 0).model()


def raw_operand() -> Model:
    """One operand of a sum is the result of a convolution as it is."""
    m = Qdq(SHAPE[1:]).qdq(0.03, 0).conv((4, 4, 3, 3)).qdq(0.1, 0)
    first = m.x
    m.conv((4, 4, 1, 1))
    m.x = m.b.node("Add", first, m.x, name="join")
    return m.qdq(0.1, 0).conv((4, 4, 2, 2)).qdq(0.2, 0).model()


def error_of(model: Model, quantized: Quantized, rows: dict[str, np.ndarray]) -> float:
    """The root mean square of the error over that of the values, against the file's model in onnxruntime."""
    name = model.graph.outputs[0].name
    found, expected = golden.predict(quantized, rows)[name], runtime(model, rows)
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


@pytest.mark.parametrize(("make", "layers", "note"), [
    (raw_input, ["conv", "conv"], "tensors without a quantizer got 8 bits, with ranges from the data: input"),
    (raw_middle, ["conv", "conv"], "tensors without a quantizer got 8 bits, with ranges from the data: relu"),
    (raw_weights, ["conv", "dense"], "constants of reals got 8 bits: head"),
    (raw_function, ["conv", "lookup", "average_pool", "dense"], "ranges from the data: elu"),
    (raw_operand, ["conv", "conv", "add", "conv"], "ranges from the data: conv"),
    (branches, ["conv", "add"], "tensors without a quantizer got 8 bits, with ranges from the data: input")])
def test_what_carries_no_quantizer_is_calibrated(make, layers, note) -> None:
    model = make()
    quantized = quantize(model, NOISE)
    assert kinds(quantized) == layers
    notes = [text for text in quantized.notes if "in part" in text]
    assert len(notes) == 1
    assert note in notes[0]
    assert error_of(model, quantized, NOISE) < 0.03


def test_without_data() -> None:
    (note,) = (text for text in quantize(raw_input()).notes if "in part" in text)
    assert note.endswith("with ranges from made-up data, and the accuracy will suffer; give real inputs with --data: "
                         "input")


@pytest.mark.parametrize(("values", "format"), [((0, 1), "uint1"), ((-1, 1), "int2"), ((0, 200), "uint8")])
def test_small_integers_are_kept(values: tuple[int, int], format: str) -> None:
    """What the first layer reads is exact, so its integers are those of onnxruntime, but for ties."""
    rows = {"input": RANDOM.choice(values, SHAPE).astype(np.float32)}
    model = raw_input()
    quantized = quantize(model, rows)
    (name,) = quantized.graph.inputs
    assert (str(quantized.graph.tensors[name].format), quantized.graph.tensors[name].scale) == (format, 1.0)
    assert any(f"inputs of small integers keep them exactly: input ({min(values[0], 0)} to {values[1]})" in text
               for text in quantized.notes)  # fmt: skip
    found, expected = golden.predict(quantized, rows)[model.graph.outputs[0].name], runtime(model, rows)
    assert np.mean(np.abs(found - expected) < 0.01) > 0.999


def test_the_rest_keeps_its_integers() -> None:
    model = raw_input()
    scales = {tensor.scale for tensor in quantize(model, NOISE).graph.tensors.values()}
    assert {np.float32(0.05), np.float32(0.1)} <= {np.float32(scale) for scale in scales}


def test_a_whole_file_gets_nothing() -> None:
    whole = Qdq(SHAPE[1:]).qdq(0.03, 0).conv((8, 4, 3, 3)).node("Relu").qdq(0.05, -128).model()
    assert not any("in part" in text for text in quantize(whole, NOISE).notes)


def test_qonnx_with_signs_as_input() -> None:
    """Binarized features without a quantizer of their own, as older QONNX files have them."""
    m = Maker((1, 12))
    y = m.node("MatMul", m.x, m.quant(RANDOM.normal(0, 1, (12, 6)), 0.25), name="hidden")
    model = infer(m.model(m.quant(y, 0.5, 0, 4), domains={QONNX: 1}))
    (name,) = (value.name for value in model.graph.inputs)
    rows = {name: RANDOM.choice((-1, 1), (30, 1, 12)).astype(np.float32)}
    quantized = quantize(model, rows)
    assert [str(quantized.graph.tensors[name].format) for name in quantized.graph.inputs] == ["int2"]
    assert any("keep them exactly" in text for text in quantized.notes)
