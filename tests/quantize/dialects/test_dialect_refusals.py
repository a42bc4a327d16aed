"""What has no standard form is refused by name, with a remedy, all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.dialects.cases import QONNX, Maker, standard
from tests.quantize.dialects.test_microsoft import MS
from tests.quantize.dialects.test_qoperator import whole

PER_TENSOR = "quantize activations per tensor; weights may have a scale and zero point per output channel"
RECALIBRATE = "quantize the model again, statically: its scales and zero points must be constants"
TRAIN = "train the model again with quantizers of 1 to 8 bits"


def quant(scale: Any = 0.5, zero: Any = 0.0, bits: Any = 4.0, folded: bool = False, **attributes: Any) -> Model:
    """A QONNX quantizer.  `folded`: its parameters are results of nodes, which the checker does not read itself."""
    m = Maker((1, 3))
    for name, value in (("scale", scale), ("zero", zero), ("bits", bits)):
        array = np.asarray(value, np.float32)
        if folded:
            m.b.node("Neg", m.b.constant(f"-{name}", -array), output=name)
        else:
            m.b.constant(name, array)
    return m.model(m.node("Quant", m.x, "scale", "zero", "bits", domain=QONNX, name="q", **attributes))


def weights(bits: float = 4, scale: Any = 0.5, shape: tuple[int, ...] = (3, 4)) -> Model:
    m = Maker((1, 3))
    m.b.constant("scale", np.asarray(scale, np.float32))
    m.b.constant("bits", np.float32(bits))
    w = m.node("Quant", np.full(shape, 100.0), "scale", 0.0, "bits", domain=QONNX, name="q")
    return m.model(m.node("MatMul", m.x, w, name="product"))


def refusal(model: Model) -> str:
    with pytest.raises(HwflowError) as raised:
        standard(model)
    return str(raised.value)


WIDTH = "the bit width 'bits' must be a whole number, 1 to 8, or 16, not"
INTEGERS = "quantize the model again; a zero point is one of the integers of its type"
SCALES = "quantize weights with one scale per tensor or per output channel"
#: All of the node 'q' (Quant).
QUANTIZERS: list[tuple[Model, str, str]] = [
    *((quant(bits=bits), f"{WIDTH} {bits}", TRAIN) for bits in (0, 9, 2.5)),
    (quant(bits=[2, 3, 4]), "the bit width 'bits' must be one number, not 3 different ones", TRAIN),
    (quant(bits=1, signed=0, narrow=1), "one unsigned bit ('bits') must not be narrow: nothing but 0 is left", TRAIN),
    (quant(bits=16, narrow=1), "integers of 16 bits ('bits') must not be narrow", TRAIN),
    (quant(zero=200), "the zero point 'zero' must be a whole number from -128 to 127, not 200", INTEGERS),
    (quant(zero=0.5, folded=True), "the zero point 'zero' must be a whole number from -128 to 127, not 0.5", INTEGERS),
    (quant(zero=1, bits=1), "the zero point 'zero' of one signed bit must be 0, not 1",
     "train the model again with a bipolar quantizer around 0"),
    (quant(scale=[1, 2, 3]), "scale 'scale' must be one number, not 3: an activation has no scale per channel",
     PER_TENSOR),
    (quant(rounding_mode="TIE"), "'rounding_mode' must be one of ROUND, FLOOR, CEIL, UP, DOWN, HALF_UP, HALF_DOWN, "
     "HALF_EVEN, ROUND_TO_ZERO, not 'TIE'", "export the model again"),
    (weights(bits=16, scale=0.1), "the bit width 'bits' of the weights of 'product' (MatMul) must be 1 to 8, not 16",
     "train the model again with weights of 1 to 8 bits"),
    (weights(bits=0), "the bit width 'bits' must be a whole number, 1 to 32, not 0", TRAIN),
    (weights(scale=np.ones((3, 4))), "scale 'scale' must vary along one axis, not have the shape [3, 4]", SCALES),
    (weights(scale=np.ones(3)),
     "scale 'scale' and zero point must broadcast to [3, 4], not have the shapes [3] and []", SCALES),
]  # fmt: skip


@pytest.mark.parametrize(("model", "why", "remedy"), QUANTIZERS)
def test_quantizers(model: Model, why: str, remedy: str) -> None:
    assert refusal(model) == f"1 part of the model cannot become hardware:\n  'q' (Quant): {why}\n    {remedy}"


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, 1e-42])
def test_scales_must_be_positive(scale) -> None:
    message = refusal(quant(scale, folded=True))
    assert f"'q' (Quant): scale 'scale' must be finite and positive, not {np.float32(scale)}" in message


def computed(part: str) -> Model:
    """A quantizer one of whose parameters depends on the data."""
    m = Maker((1, 3))
    mean = m.node("ReduceMean", m.node("Abs", m.x), keepdims=0, name="mean")
    parameters = {"scale": 1.0, "zero": 0.0, "bits": 4.0, part: mean}
    return m.model(m.node("Quant", m.x, *parameters.values(), domain=QONNX, name="q"))


@pytest.mark.parametrize(
    ("part", "what"), [("scale", "scale"), ("zero", "the zero point"), ("bits", "the bit width")]
)
def test_computed_parameters(part, what) -> None:
    why = f"'q' (Quant): {what} 'mean.out' must be constant, not computed by the model\n    {RECALIBRATE}"
    assert why in refusal(computed(part))


def test_float_quant() -> None:
    m = Maker((1, 3))
    y = m.node("FloatQuant", m.x, 1.0, 4.0, 3.0, 7.0, 448.0, domain=QONNX, name="small")
    message = refusal(m.model(y))
    assert "'small' (FloatQuant): rounds 'x' to floats of a few bits" in message
    assert "train the model again with integer quantizers" in message


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"out_bias": 0.3}, "'out_bias' must be minus a multiple of 'out_scale' 1 from 0 to 255, not 0.3"),
        ({"out_scale": -1.0}, "'out_scale' must be finite and positive, not -1.0"),
    ],
)
def test_multi_threshold(attributes, why) -> None:
    m = Maker((1, 3))
    y = m.node("MultiThreshold", m.x, np.zeros((1, 2)), domain=QONNX, out_dtype="INT2", **attributes)
    assert why in refusal(m.model(y))


@pytest.mark.parametrize("thresholds", [np.zeros((2, 2)), np.zeros(3), np.zeros((1, 0)), np.zeros((1, 256))])
def test_shapes_of_thresholds(thresholds) -> None:
    m = Maker((1, 3))
    y = m.node("MultiThreshold", m.x, thresholds, domain=QONNX, out_dtype="INT2", name="t")
    wanted = "'t' (MultiThreshold): the thresholds 'c1' must have the shape [1 or 3, 1 to 255], not"
    assert f"{wanted} {list(thresholds.shape)}" in refusal(m.model(y))


@pytest.mark.parametrize("op", ["Quant", "BipolarQuant"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_constants_must_be_finite(op, value) -> None:
    m = Maker((1, 3))
    parameters = (0.5, 0.0, 4.0) if op == "Quant" else (0.5,)
    w = m.node(op, np.float32([[1], [value], [3]]), *parameters, domain=QONNX, name="q")
    message = refusal(m.model(m.node("MatMul", m.x, w)))
    assert f"'q' ({op}): the constant 'c1' must be finite, not {value} (1 such entries)" in message


def test_parameters_without_elements() -> None:
    m = Maker((1, 3), np.uint8)
    inputs = (m.x, np.float32(1), np.zeros(0, "u1"), np.float32(1), np.uint8(0))
    assert "must have elements, not none" in refusal(m.model(m.node("QLinearLeakyRelu", *inputs, domain=MS)))


@pytest.mark.parametrize("steps", [(1e-30, 1e-30), (1e30, 1e30)])
def test_scales_whose_product_is_no_number(steps) -> None:
    m = Maker((2, 4), np.uint8)
    b = whole(np.int8, (4, 3)), np.float32(steps[1]), np.int8(0), np.zeros(3, np.int32)
    y = m.node("QGemm", m.x, np.float32(steps[0]), np.uint8(0), *b, np.float32(1), np.uint8(0), domain=MS)
    assert "that of the input times that of the weights, must be a normal float32" in refusal(m.model(y))


def test_trunc_of_an_unknown_sign() -> None:
    m = Maker((1, 3))
    message = refusal(m.model(m.node("Trunc", m.x, 0.5, 0.0, 6.0, 4.0, domain=QONNX)))
    assert "the sign of 'x' must be known from a quantizer in front of the pooling layer" in message


@pytest.mark.parametrize("op", ["DynamicQuantizeLinear", "DynamicQuantizeMatMul"])
def test_ranges_that_the_model_measures(op) -> None:
    """One problem, though the product behind DynamicQuantizeLinear reads a computed zero point, too."""
    m = Maker((2, 4))
    w = whole(np.int8, (4, 3))
    if op == "DynamicQuantizeLinear":
        q, scale, zero = m.b.nodes(op, m.x, outputs=["q", "s", "z"], name="dynamic")
        total = m.node("Cast", m.node("MatMulInteger", q, w, zero), to=1)
        y = m.node("Mul", total, m.node("Mul", scale, np.float32(0.1)))
    else:
        y = m.node(op, m.x, w, np.float32(0.1), domain=MS, name="dynamic")
    assert refusal(m.model(y)) == (
        f"1 part of the model cannot become hardware:\n"
        f"  'dynamic' ({op}): measures the range of 'x' while the model runs; in hardware scales must be constants\n"
        "    give hwflow the float model, or quantize it statically: onnxruntime.quantization.quantize_static in place "
        "of quantize_dynamic"
    )


def test_activations_per_channel() -> None:
    m = Maker((2, 4), np.uint8)
    steps = np.full(2, 0.5, np.float32)
    b = whole(np.int8, (4, 3)), np.float32(1), np.int8(0)
    y = m.node("QLinearMatMul", m.x, steps, np.zeros(2, "u1"), *b, np.float32(1), np.uint8(0), name="product")
    message = refusal(m.model(y))
    assert "'product' (QLinearMatMul): the scale of the left factor" in message
    assert PER_TENSOR in message


def test_softmax_over_several_axes() -> None:
    m = Maker((2, 3, 4), np.uint8)
    inputs = (m.x, np.float32(1), np.uint8(0), np.float32(1), np.uint8(0))
    y = m.node("QLinearSoftmax", *inputs, domain=MS, axis=1, opset=11)
    assert "'axis' of a Softmax of operator set 11 must be the last of 3 axes, not 1" in refusal(m.model(y))


def test_all_problems_at_once() -> None:
    m = Maker((1, 3))
    a = m.node("Quant", m.x, 1.0, 0.0, 9.0, domain=QONNX, name="first")
    b = m.node("Quant", m.node("Relu", a), np.float32([1, 2, 3]), 0.0, 4.0, domain=QONNX, name="second")
    with pytest.raises(HwflowError) as raised:
        quantize(m.model(b))
    message = str(raised.value)
    assert message.startswith("2 parts of the model cannot become hardware:")
    assert "'first' (Quant)" in message
    assert "'second' (Quant)" in message
