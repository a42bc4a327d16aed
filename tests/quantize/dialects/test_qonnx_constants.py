"""QONNX quantizers of constants: integers behind a DequantizeLinear, the same bits as before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow.onnx.model import Model
from tests.quantize.dialects.cases import QONNX, Maker, agree, ops
from tests.quantize.dialects.test_qonnx_activations import MODES

RNG = np.random.default_rng(0)


def integers(model: Model) -> list[np.ndarray]:
    """The constants that DequantizeLinear nodes read."""
    constants = model.graph.initializers
    read = [node.inputs[0] for node in model.graph.nodes if node.op_type == "DequantizeLinear"]
    return [constants[name] for name in read if name in constants]


@settings(deadline=None, max_examples=30)
@given(
    bits=st.integers(1, 8),
    signed=st.booleans(),
    narrow=st.booleans(),
    mode=st.sampled_from(MODES),
    zero=st.integers(-2, 3),
    per_channel=st.booleans(),
    step=st.floats(1e-3, 2) | st.sampled_from([0.0625, 0.25, 1.0]),
)
def test_weights(bits, signed, narrow, mode, zero, per_channel, step) -> None:
    """A convolution whose weights any quantizer makes; scale and zero point per output channel or one."""
    if bits == 1:
        narrow, zero = narrow and signed, 0
    zero = zero if signed else abs(zero)
    weights = np.random.default_rng(bits).normal(0, 20 * step, (5, 2, 3, 3)).astype(np.float32)
    scale = (step * np.arange(1, 6)).reshape(5, 1, 1, 1) if per_channel else step
    m = Maker((1, 2, 6, 6))
    w = m.quant(weights, scale, zero, bits, signed=int(signed), narrow=int(narrow), rounding_mode=mode)
    exact = step == 2.0 ** round(np.log2(step))  # then so are the sums of the convolution
    model = m.model(*([m.node("Conv", m.x, w)] if exact else []), w)
    made = agree(model, {"x": RNG.integers(-8, 8, (1, 2, 6, 6)).astype(np.float32)})
    (found,) = integers(made)
    assert found.dtype == (np.int8 if signed else np.uint8)
    axes = {node.attributes.get("axis") for node in made.graph.nodes if node.op_type == "DequantizeLinear"}
    assert axes == {0 if per_channel else None}


def test_bipolar_weights() -> None:
    m = Maker((1, 8))
    w = m.node("BipolarQuant", RNG.normal(0, 1, (8, 4)), 0.75, domain=QONNX)
    made = agree(m.model(m.node("MatMul", m.x, w)), {"x": RNG.normal(0, 1, (1, 8)).astype(np.float32)})
    assert set(integers(made)[0].ravel().tolist()) == {-1, 1}


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_bias(bits) -> None:
    """A bias may be as wide as int32."""
    m = Maker((1, 2, 4, 4))
    w = m.quant(RNG.normal(0, 1, (3, 2, 1, 1)), 0.25, 0, 4)
    b = m.quant(np.float32([-70.3, 1e5, 3.3]), 2.0**-6, 0, bits)
    made = agree(m.model(m.node("Conv", m.x, w, b), b), {"x": RNG.integers(0, 8, (1, 2, 4, 4)).astype(np.float32)})
    assert integers(made)[1].dtype == (np.int8 if bits == 8 else np.int32)


def test_wide_weights_that_fit_eight_bits() -> None:
    m = Maker((1, 8))
    w = m.quant(np.arange(-16, 16).reshape(8, 4) * 0.5, 0.5, 0, 16)
    made = agree(m.model(m.node("MatMul", m.x, w)), {"x": RNG.integers(0, 8, (1, 8)).astype(np.float32)})
    assert integers(made)[0].dtype == np.int8


@pytest.mark.parametrize("per_channel", [False, True])
def test_transposed_weights(per_channel) -> None:
    """As in fully connected layers of PyTorch: the integers are transposed, and the axis of their scales with them."""
    m = Maker((1, 8))
    scale = 2.0 ** np.arange(-4, 0).reshape(4, 1) if per_channel else 0.25
    w = m.quant(RNG.normal(0, 1, (4, 8)), scale, 0, 4, narrow=1)
    y = m.node("MatMul", m.x, m.node("Transpose", w, perm=[1, 0]))
    made = agree(m.model(y), {"x": RNG.integers(-4, 8, (1, 8)).astype(np.float32)})
    assert ops(made) == ["DequantizeLinear", "MatMul"]
    assert integers(made)[0].shape == (8, 4)
    assert made.graph.nodes[0].attributes.get("axis") == (1 if per_channel else None)


def test_layouts_with_other_readers() -> None:
    """Transpose, Reshape and Unsqueeze of one constant that is read as it is, too."""
    m = Maker((1, 6))
    w = m.quant(RNG.normal(0, 1, (6, 6)), 2.0 ** np.arange(-6, 0).reshape(6, 1), 0, 4)
    flipped = m.node("Transpose", w, perm=[1, 0])
    tall = m.node("Reshape", w, np.array([6, 6, 1, 1]))
    image = m.node("Reshape", m.x, np.array([1, 6, 1, 1]))
    outputs = m.node("MatMul", m.x, w), m.node("MatMul", m.x, flipped), m.node("Conv", image, tall)
    made = agree(m.model(*outputs), {"x": RNG.integers(-4, 8, (1, 6)).astype(np.float32)})
    axes = [node.attributes["axis"] for node in made.graph.nodes if node.op_type == "DequantizeLinear"]
    assert axes == [0, 1, 0]
    assert "Transpose" not in ops(made)


def test_a_layout_that_mixes_channels_stays() -> None:
    m = Maker((1, 3))
    w = m.quant(RNG.normal(0, 1, (4, 6)), 2.0 ** np.arange(-4, 0).reshape(4, 1), 0, 4)
    made = agree(m.model(m.node("MatMul", m.x, m.node("Reshape", w, np.array([3, 8])))), {"x": np.ones((1, 3), "f4")})
    assert "Reshape" in ops(made)


def test_one_tensor_as_scale_and_width() -> None:
    """The same constant may be several parameters."""
    m = Maker((1, 4))
    two = m.constant(np.float32(2))
    w = m.node("Quant", RNG.normal(0, 3, (4, 3)), two, np.float32(0), two, domain=QONNX)
    agree(m.model(m.node("MatMul", m.x, w)), {"x": np.ones((1, 4), "f4")})
