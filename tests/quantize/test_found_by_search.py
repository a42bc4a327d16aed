"""What random models have found: small models of each defect, beside which others of its kind would stand."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.layers import Conv, Requantize
from hwflow.layers.elementwise import Add
from hwflow.onnx.model import Model
from hwflow.quantize import QDQ_PASSES, quantize
from tests.quantize.dialects.cases import QONNX, Maker
from tests.quantize.dialects.test_dialects_golden import agree, network
from tests.quantize.invariants import check_export
from tests.quantize.models import Qdq, assert_agrees, kinds, rows, runtime

#: The fixture of small weights.
RNG = np.random.default_rng(5)


def joined_branches(quantizer: str) -> Model:
    """Two convolutions, a Concat, and behind it a quantizer that is one of a QuantizeLinear of scale 1."""
    m = Maker((1, 3, 4, 4))
    x = m.quant(m.x, 0.25, 0, 8)
    a, b = (m.node("Conv", x, m.quant(RNG.normal(0, 1, (2, 3, 1, 1)), 0.25)) for _ in range(2))
    y = m.node("Concat", a, b, axis=1)
    if quantizer == "BipolarQuant":
        y = m.node(quantizer, y, 0.5, domain=QONNX)
    else:
        y = m.quant(y, 0.5, 0, 4, rounding_mode=quantizer)
    return m.model(m.quant(m.node("Conv", y, m.quant(RNG.normal(0, 1, (2, 4, 1, 1)), 0.25)), 0.25, 0, 8))


@pytest.mark.parametrize("quantizer", ["FLOOR", "BipolarQuant"])
def test_the_parts_of_a_concat_mean_what_the_whole_means(quantizer: str) -> None:
    quantized = quantize(joined_branches(quantizer))
    joined = next(layer for layer in quantized.graph.layers if layer.kind == "concat")
    assert {quantized.graph.tensors[name].scale for name in (*joined.inputs, joined.output)} == {0.5}
    check_export(quantized)


@pytest.mark.quick(4)
@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "CEIL"])
@pytest.mark.parametrize(("bits", "zero"), [(8, -3), (8, 2), (5, 1)])
def test_a_zero_point_inside_the_rounding_takes_no_thresholds(mode: str, bits: int, zero: int) -> None:
    quantized = agree(network(lambda m, y: m.quant(y, 0.0625, zero, bits, rounding_mode=mode)))
    first = next(layer for layer in quantized.graph.layers if isinstance(layer, Conv))
    assert isinstance(first.requantize, Requantize)


def test_the_parts_of_a_concat_are_limited_as_the_whole_is() -> None:
    """From -4 on, which is one below the whole's."""
    m = Maker((1, 3, 4, 4))
    x = [m.quant(m.node(op, m.x), 1, 0, 3) for op in ("Identity", "Neg")]
    y = m.quant(m.node("Concat", *x, axis=1), 1, 0, 3, narrow=1)
    agree(m.model(m.node("Conv", y, m.quant(RNG.normal(0, 1, (2, 6, 1, 1)), 0.25))))


def test_two_failing_readers_of_a_concat_are_reported() -> None:
    """Each of them asked for the same parts again."""
    m = Qdq((1, 2, 4, 4)).qdq(0.05, 0)
    source = m.x
    branches = [m.node("Abs").node("Mul", m.constant("c", np.float32([[[1]], [[2]]]))).x]
    m.x = source
    branches.append(m.node("Relu").x)
    m.x = m.b.node("Concat", *reversed(branches), name="join", axis=1)
    m.node("Tanh").quantize(0.05, 0)
    whole = m.x
    for op in ("Relu", "Sigmoid"):
        m.x = whole
        m.b.output(m.dequantize(0.05, 0).node(op).x)
    with pytest.raises(HwflowError, match="must only rise or only fall"):
        quantize(m.model())


@pytest.mark.parametrize("op", ["PRelu", "BatchNormalization", "Mul"])
def test_a_table_for_all_channels_may_have_equal_constants_for_each(op: str) -> None:
    m = Qdq((1, 3, 4, 4)).qdq(0.0517, 4)
    if op == "BatchNormalization":
        m.node(op, *(m.constant("c", np.full(3, value, np.float32)) for value in (0.7, 0.1, -0.2, 1.5)))
    else:
        m.node(op, m.constant("c", np.full((3, 1, 1), 0.25, np.float32)))
    assert kinds(assert_agrees(m.node("Abs").qdq(0.0313, 0).model(), 0.0313)) == ["lookup"]


@pytest.mark.parametrize("op", ["Abs", "Tanh"])
def test_a_function_of_bipolar_integers_is_a_table(op: str) -> None:
    """It has two entries; that of Abs goes neither up nor down between them."""
    m = Maker((1, 3, 4, 4))
    y = m.node("BipolarQuant", m.node("Conv", m.quant(m.x, 0.25, 0, 8), m.quant(RNG.normal(0, 1, (4, 3, 1, 1)), 0.25)),
               0.5, domain=QONNX)  # fmt: skip
    join = m.node("Concat", m.quant(m.node(op, y), 0.125, 0, 8), m.quant(m.x, 0.125, 0, 8), axis=1)
    assert "lookup" in kinds(agree(m.model(m.node("Conv", join, m.quant(RNG.normal(0, 1, (2, 7, 1, 1)), 0.25)))))


def test_a_sum_is_not_compared_with_thresholds() -> None:
    m = Maker((1, 3))
    y = m.node("Add", m.quant(m.x, 0.25), m.quant(m.node("Neg", m.x), 0.5), name="join")
    with pytest.raises(HwflowError) as raised:
        quantize(m.model(m.node("BipolarQuant", y, 0.5, domain=QONNX)))
    assert str(raised.value).splitlines()[1:] == [
        "  'bipolarquant12.integers' (Where): the result of 'join' (Add) must have more than one symmetric bit, "
        "because only products are compared with thresholds",
        "    take 2 bits, or an unsigned one",
    ]


def test_a_sum_of_scales_far_apart_is_as_exact_as_any() -> None:
    """One bit whose step is 200 steps of the result, and 8 bits whose step is about one."""
    m = Qdq((1, 3, 8, 8)).qdq(0.0317, 0)
    source = m.x
    m.quantize(5.503800392150879, 0, np.uint8).node("Clip", *(m.constant("end", np.uint8(k)) for k in (0, 1)))
    coarse = m.dequantize(5.503800392150879, 0, np.uint8).x
    m.x = source
    quantized = assert_agrees(m.node("Sub", coarse).qdq(0.02487947605550289, 3).model(), 0.02487947605550289)
    (joined,) = (layer for layer in quantized.graph.layers if isinstance(layer, Add))
    for multiplier, scale in zip(joined.multipliers, (0.0317, -5.503800392150879), strict=True):
        assert abs(multiplier / 2**joined.shift / (scale / 0.02487947605550289) - 1) < 2.0**-17


def test_nodes_that_a_pass_copies_have_names_of_their_own() -> None:
    m = Qdq((1, 3, 4, 4)).qdq(0.05, 0)
    source = m.x
    for shape in ([1, -1], [1, 3, 16]):
        m.x = source
        m.b.output(m.node("Reshape", m.constant("shape", np.array(shape))).x)
    model = m.b.model()
    for step in QDQ_PASSES:
        model = step.run(model)
    names = [node.name for node in model.graph.nodes]
    assert len(set(names)) == len(names)


def test_phases_without_taps_have_the_scale_of_their_channel() -> None:
    """A kernel of one tap and stride 2: every other pixel is a bias alone, in steps as fine as its channel's."""
    m = Qdq((1, 3, 4)).qdq(0.0625, 0)
    weights = m.constant("w", m.rng.integers(-127, 128, (3, 2, 1), dtype=np.int8))
    w = m.b.node("DequantizeLinear", weights, m.constant("s", np.float32([0.5, 0.25])),
                 m.constant("z", np.zeros(2, np.int8)), axis=1)  # fmt: skip
    bias = m.constant("b", np.array([3, 41], np.int32))
    b = m.b.node("DequantizeLinear", bias, m.constant("s", np.float32([0.5, 0.25]) * np.float32(0.0625)), axis=0)
    model = m.node("ConvTranspose", w, b, strides=(2,), output_padding=(1,)).model()
    feeds = rows(model)
    np.testing.assert_array_equal(golden.predict(quantize(model), feeds)[m.x], runtime(model, feeds))


@pytest.mark.parametrize("op", [None, "Relu", "LeakyRelu", "HardSigmoid"])
def test_a_pad_between_a_layer_and_its_quantizer(op: str | None) -> None:
    """What is quantized is then padded with what the function and the quantizer make of the padding."""
    m = Qdq((1, 3, 5, 5)).qdq(0.1, 0).conv((4, 3, 3, 3))
    m.node("Pad", m.constant("pads", np.array([0, 0, 1, 0, 0, 0, 2, 1])), m.constant("fill", np.float32(-0.37)))
    if op is not None:
        m.node(op)
    model = m.qdq(0.0271, 5).conv((2, 4, 2, 2)).qdq(0.1, 0).model()
    found = kinds(assert_agrees(model, 0.1, share=0.99))
    assert ("rearrange" in found) == (op not in ("Relu", "LeakyRelu"))  # which make 0 of it: a window's own padding


def test_weights_that_stayed_floats_beside_integers() -> None:
    """onnxruntime's quantizer leaves ConvTranspose as it is where it writes QOperator nodes."""
    m = Qdq((1, 3, 4)).qdq(0.1, 0)
    m.node("ConvTranspose", m.constant("w", np.ones((3, 2, 1), np.float32)))
    model = m.qdq(0.1, 0).model()
    layer = next(node.name for node in model.graph.nodes if node.op_type == "ConvTranspose")
    told = quantize(model).notes[0]
    assert told == f"the file is quantized in part: constants of reals got 8 bits: {layer}.weight"
    assert_agrees(model, 0.1, share=0.99)


def test_parts_of_a_concat_that_were_put_in_rows() -> None:
    """Parts of different heights meet as rows, which are no tensors of the model, and are quantized anew."""
    m = Qdq((1, 2, 5, 4)).qdq(0.1, 0).conv((3, 2, 2, 2)).qdq(0.05, 0)
    m.b.nodes("Split", m.x, m.constant("sizes", np.array([1, 3])), outputs=("top", "bottom"), name="split", axis=2)
    m.x = m.b.node("Concat", "bottom", "top", name="join", axis=2)
    model = m.qdq(0.0713, 3).conv((2, 3, 2, 2)).qdq(0.1, 0).model()
    assert "concat" in kinds(assert_agrees(model, 0.1, share=0.99))
