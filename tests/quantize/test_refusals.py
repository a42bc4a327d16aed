"""Models that cannot become hardware: one message with everything, its exact text pinned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.models import Qdq, assert_agrees, kinds
from tests.quantize.test_float import Float


def refusal(model: Model) -> list[str]:
    """The lines of the message, without indentation."""
    with pytest.raises(HwflowError) as caught:
        quantize(model)
    assert caught.value.exit_code == 2
    return [line.strip() for line in str(caught.value).splitlines()]


def test_everything_is_reported_at_once() -> None:
    m = Float((1, 2, 8, 8)).conv(6, 2, 3, 3)
    first = m.x
    m.do("Relu").do("LRN", size=3).do("Add", first)
    m.do("LogSoftmax").conv(4, 6, 3, 3)
    m.b.node("Conv", m.x, m.x, name="square", output="y")
    m.x = "y"
    assert refusal(m.model()) == [
        "3 parts of the model cannot become hardware:",
        "'lrn5' (LRN): operator LRN has no hardware, and the host cannot run it because 'conv10' (Conv) follows",
        "train the model with BatchNormalization in its place, or cut the model in front of it and run the rest on "
        "the host",
        "'logsoftmax7' (LogSoftmax): LogSoftmax runs on the host, but layers after it need hardware",
        "remove it, or end the model with it and run the rest as a model of its own",
        "'square' (Conv): weights and bias must be constants, not computed ('conv10_out')",
        "export the model for inference with its weights as initializers",
    ]


def test_weights_that_are_inputs() -> None:
    b = Builder("dynamic")
    x, w = b.input("x", np.float32, (1, 4, 5)), b.input("w", np.float32, (3, 4, 2))
    b.output(b.node("Conv", x, w, name="fc"))
    assert refusal(b.model())[1:] == [
        "'fc' (Conv): weights and bias must be constants, not computed ('w')",
        "export the model for inference with its weights as initializers",
    ]


def test_weights_that_are_infinite() -> None:
    m = Float((1, 4))
    w = np.ones((4, 3), np.float32)
    w[2, 1] = np.inf
    m.do("Gemm", m.b.constant("fc.weight", w))
    assert refusal(m.model())[1:] == [
        "tensor 'fc.weight': weights must be finite, not inf at [2, 1] (1 such entries; in 'gemm1' (Gemm))",
        "train or export the model again",
    ]


def test_weights_that_are_no_numbers() -> None:
    m = Float((1, 4))
    m.do("Gemm", m.b.constant("fc.weight", np.full((4, 3), np.nan, np.float32)))
    m.b.output(m.x)
    with pytest.raises(HwflowError, match=r"tensor 'fc\.weight': weights must be finite, not nan at \[0, 0\]"):
        quantize(m.b.model())


@pytest.mark.parametrize("value", [0.0, -0.5, np.inf])
def test_scales_that_are_no_scales(value: float) -> None:
    m = Qdq((1, 4)).qdq(value, 0).matmul(4, 3).qdq(0.1, 0)
    m.b.output(m.x)
    with pytest.raises(HwflowError, match=r"the scale 'scale1' must be positive and finite, not"):
        quantize(m.b.model())


def test_a_transpose_that_cannot_be_absorbed_is_a_layer() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.1, 0).conv((4, 3, 3, 3)).qdq(0.1, 0)
    m.node("Transpose", perm=(0, 1, 3, 2)).conv((4, 4, 2, 2)).qdq(0.5, 0)
    assert kinds(assert_agrees(m.model(), 0.5, share=0.99)) == ["conv", "rearrange", "conv"]


def test_a_quantizer_per_channel_on_an_activation() -> None:
    m = Qdq((1, 3, 6, 6))
    p = m.constant("s", np.ones(3, np.float32)), m.constant("z", np.zeros(3, np.int8))
    m.node("QuantizeLinear", *p, axis=1).node("DequantizeLinear", *p, axis=1).conv((4, 3, 3, 3)).qdq(0.1, 0)
    assert refusal(m.model())[1].endswith("activations must have one scale per tensor, not one per channel")


def test_a_dequantizer_with_other_parameters() -> None:
    m = Qdq((1, 4)).qdq(0.5, 0).matmul(4, 3).quantize(0.25, 1)
    integers = m.x
    m.dequantize(0.25, 1).matmul(3, 3).quantize(0.5, 0)
    m.b.output(m.x)
    m.x = integers
    m.dequantize(0.125, 1).matmul(3, 3).qdq(0.5, 0)
    assert refusal(m.model())[1].endswith(
        "scale and zero point must be those of the QuantizeLinear before it (0.25, 1), not 0.125, 1"
    )


def test_nothing_for_the_hardware() -> None:
    b = Builder("host")
    b.output(b.node("Softmax", b.input("x", np.float32, (1, 4))))
    with pytest.raises(HwflowError, match=r"must have a layer that becomes hardware|on the host alone"):
        quantize(b.model())


def test_constants_that_are_computed_behind_their_dequantizer() -> None:
    m = Qdq((1, 4)).qdq(0.5, 0)
    w, _ = m.weights((4, 3))
    m.node("MatMul", m.b.node("Mul", w, m.constant("two", np.float32(2)), name="double")).qdq(0.5, 0)
    assert refusal(m.model())[1:] == [
        "'double' (Mul): computes with constants alone, which the quantizer cannot fold",
        "fold it into the constants before the model is quantized",
    ]


def test_a_scale_per_block() -> None:
    m = Qdq((1, 4)).qdq(0.5, 0)
    q = m.constant("w", np.ones((4, 3), np.int8))
    s = m.constant("s", np.ones((2, 3), np.float32))
    m.node("MatMul", m.b.node("DequantizeLinear", q, s, name="blocks", axis=0, block_size=2)).qdq(0.5, 0)
    assert refusal(m.model(opset=21))[1:] == [
        "'blocks' (DequantizeLinear): constants must have one scale per tensor or axis, not per block",
        "quantize per channel (onnxruntime.quantization.quantize_static with per_channel=True)",
    ]


def test_scales_out_of_proportion() -> None:
    m = Qdq((1, 4)).qdq(1e6, 0).matmul(4, 3).qdq(1e-6, 0)
    lines = refusal(m.model())
    assert "a ratio of scales must be below 2**18, not" in lines[1]
    assert lines[2] == "quantize the model again; a scale is out of proportion"


def test_the_models_survive_their_file(tmp_path: Path) -> None:
    model = Qdq((1, 4)).qdq(0.1, 0).matmul(4, 3).qdq(0.1, 0).model()
    onnx.save(model, tmp_path / "model.onnx")
    assert quantize(onnx.load(tmp_path / "model.onnx")).graph == quantize(model).graph


def test_a_product_of_columns_that_is_scaled() -> None:
    m = Qdq((4, 1)).qdq(0.5, 0)
    w, _ = m.weights((4, 5))
    m.node("Gemm", w, transA=1, alpha=0.5)
    assert refusal(m.qdq(0.5, 0).model())[1:] == [
        "'gemm11' (Gemm): transA has no hardware where alpha or beta scale quantized weights",
        "export the model with the batch as the first axis",
    ]


def test_dropout_in_training() -> None:
    b = Builder()
    x = b.node("Dropout", b.input("x", np.float32, (1, 4)), "", b.constant("t", np.array(True)), name="d")
    b.output(b.node("Gemm", x, b.constant("w", np.ones((4, 5), np.float32))), np.float32, (1, 5))
    assert refusal(b.model())[1:] == [
        "'d' (Dropout): drops elements at random, as in training",
        "export the model for inference",
    ]


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_scales_that_are_computed_and_no_scales(value: float) -> None:
    m = Qdq((1, 4))
    scale = m.b.node("Mul", m.constant("half", np.float32(0.5)), m.constant("whole", np.float32(value)), name="scale")
    m.node("QuantizeLinear", scale, m.constant("zero", np.int8(0)))
    m.node("DequantizeLinear", scale, m.constant("zero", np.int8(0))).matmul(4, 3).qdq(0.1, 0)
    with pytest.raises(HwflowError, match=rf"the scale '{scale}' must be positive and finite, not {value * 0.5}"):
        quantize(m.model())


def test_a_scale_per_channel_with_a_zero_in_it() -> None:
    m = Qdq((1, 4)).qdq(0.1, 0)
    w = m.constant("w", np.ones((4, 3), np.int8))
    scales = m.b.node("Mul", m.constant("a", np.array([1, 0, 2], np.float32)), m.constant("b", np.float32(1)), name="s")
    m.node("MatMul", m.b.node("DequantizeLinear", w, scales, name="dq", axis=1)).qdq(0.1, 0)
    with pytest.raises(HwflowError, match=rf"the scale '{scales}' must be positive and finite, not 0.0"):
        quantize(m.model())


def test_weights_that_are_all_zero_are_legal() -> None:
    m = Qdq((1, 4)).qdq(0.1, 0)
    w = m.b.node(
        "DequantizeLinear", m.constant("w", np.zeros((4, 3), np.int8)), m.constant("s", np.float32(1)), name="d"
    )
    q = quantize(m.node("MatMul", w).node("Add", m.constant("b", np.float32(0.2))).qdq(0.1, 0).model())
    made = next(iter(golden.predict(q, {"input": np.ones((3, 1, 4), np.float32)}).values()))
    np.testing.assert_allclose(made, 0.2, rtol=1e-6)


def test_a_sum_with_a_transpose() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.1, 0).conv((4, 3, 3, 3)).qdq(0.1, 0)
    other = m.b.node("Transpose", m.x, perm=(0, 1, 3, 2), name="turn")
    m.x = m.b.node("Add", m.x, other, name="join")
    q = assert_agrees(m.qdq(0.1, 0).conv((4, 4, 2, 2)).qdq(0.5, 0).model(), 0.5, share=0.99)
    assert kinds(q) == ["conv", "rearrange", "add", "conv"]


def test_a_power_of_two_tensors() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.1, 0).conv((4, 3, 3, 3)).qdq(0.1, 0)
    first = m.x
    m.conv((4, 4, 1, 1)).qdq(0.1, 0)
    m.x = m.b.node("Pow", first, m.x, name="join")
    assert refusal(m.qdq(0.1, 0).conv((4, 4, 2, 2)).qdq(0.1, 0).model())[1:] == [
        "'join' (Pow): joins two computed tensors; only Add, Sub, Mul and Concat of two have an integer form",
        "compute it from one of them, or with Add, Sub and Mul",
    ]


def test_concat_of_frames_of_different_size() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.1, 0).conv((4, 3, 3, 3)).qdq(0.1, 0)
    first = m.b.node("Flatten", m.x, name="first")
    m.conv((4, 4, 2, 2)).qdq(0.1, 0).node("Flatten")
    m.x = m.b.node("Concat", first, m.x, axis=1, name="join")
    q = assert_agrees(m.matmul(100, 3).qdq(1.0, 0).model(), 1.0, share=0.95)
    assert kinds(q) == ["conv", "conv", "rearrange", "rearrange", "concat", "dense"]
