"""Products of several rows with constants: numpy's matmul, QDQ forms against onnxruntime, and what exporters write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.layers import Frame
from hwflow.onnx import infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.passes.products import rows_to_conv
from tests.quantize.models import Qdq, assert_agrees, kinds, runtime
from tests.quantize.net import Net, data

#: Shapes of both factors, which of them is constant, and attributes of a Gemm with the shape of its bias.
FORMS: list[tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = [
    ((1, 5, 3), (3, 4), 1, {}),
    ((1, 2, 5, 3), (3, 4), 1, {}),
    ((2, 5, 3), (3, 4), 1, {}),
    ((5, 1, 3), (3, 4), 1, {}),
    ((2, 3, 4, 5, 3), (3, 4), 1, {}),
    ((1, 2, 5, 3), (2, 3, 4), 1, {}),
    ((1, 1, 5, 3), (2, 3, 4), 1, {}),
    ((2, 5, 3), (6, 1, 3, 4), 1, {}),
    ((6, 2, 5, 3), (6, 1, 3, 4), 1, {}),
    ((2, 1, 7, 5, 3), (1, 3, 1, 3, 4), 1, {}),
    ((1, 3), (2, 3, 4), 1, {}),
    ((4, 3), (1, 3, 5), 0, {}),
    ((4, 3), (1, 2, 3, 5), 0, {}),
    ((2, 4, 3), (1, 2, 3, 5), 0, {}),
    ((2, 4, 3), (3, 1), 0, {}),
    ((5, 3), (3, 4), 1, {"bias": (4,)}),
    ((5, 3), (4, 3), 1, {"bias": (1, 4), "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ((3, 5), (3, 4), 1, {"bias": (5, 4), "transA": 1}),
    ((3, 5), (4, 3), 1, {"bias": (), "transA": 1, "transB": 1}),
    ((4, 4), (4, 4), 1, {"bias": (4, 1)}),
    ((4, 3), (3, 5), 0, {"bias": (5,)}),
    ((3, 4), (5, 3), 0, {"bias": (4, 1), "transA": 1, "transB": 1}),
]


@pytest.mark.parametrize(("a", "b", "at", "attributes"), FORMS, ids=str)
def test_every_form_is_the_same_product(
    a: tuple[int, ...], b: tuple[int, ...], at: int, attributes: dict[str, Any]
) -> None:
    """Of whole numbers, exactly, as numpy multiplies; the result keeps its shape, and the Conv the node's name."""
    rng, builder = np.random.default_rng(0), Builder("form")
    left, right = (rng.integers(-9, 10, shape).astype(np.float32) for shape in (a, b))
    names = [builder.constant("w", array) if k == at else builder.input("x", np.float32, array.shape)
             for k, array in enumerate((left, right))]  # fmt: skip
    given = {key: value for key, value in attributes.items() if key != "bias"}
    wanted = (left.T if given.get("transA") else left) @ (right.T if given.get("transB") else right)
    if attributes:
        bias = rng.integers(-9, 10, attributes["bias"]).astype(np.float32)
        names.append(builder.constant("b", bias))
        wanted = given.get("alpha", 1.0) * wanted + given.get("beta", 1.0) * bias
    builder.output(builder.node("Gemm" if attributes else "MatMul", *names, name="product", **given), np.float32)
    made = rows_to_conv(infer(builder.model()))
    assert [node.name for node in made.graph.nodes if node.op_type == "Conv"] == ["product"]
    (found,) = onnx.evaluate(made, {"x": (left, right)[1 - at]}).values()
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(1, 6, 5), (1, 3, 4, 5), (6, 5), (2, 3, 5), (6, 1, 5)], ids=str)
def test_quantized_rows(shape: tuple[int, ...]) -> None:
    """Two products behind each other, with bias and Relu: two layers, and the rows enter in their order."""
    m = Qdq(shape).qdq(0.03, 5).matmul(5, 7).node("Relu").qdq(0.05, -100).matmul(7, 4).qdq(0.08, 3)
    quantized = assert_agrees(m.model(), 0.08)
    assert kinds(quantized) == ["conv", "conv"]
    (name,) = quantized.graph.inputs
    frame = quantized.graph.tensors[name].frame
    assert (frame.height * frame.width, frame.channels) == (int(np.prod(shape)) // 5, 5)


def test_rows_of_heads() -> None:
    """Split into heads, multiplied with a matrix for each, and put together again."""
    m = Qdq((1, 6, 8)).qdq(0.03, 5).matmul(8, 12).qdq(0.06, 0)
    m.node("Reshape", m.constant("s", np.array([1, 6, 3, 4]))).node("Transpose", perm=(0, 2, 1, 3))
    w, _ = m.weights((3, 4, 2))
    m.node("MatMul", w).qdq(0.08, 1).node("Transpose", perm=(0, 2, 1, 3))
    m.node("Reshape", m.constant("s", np.array([1, 6, 6]))).matmul(6, 5).qdq(0.1, 3)
    quantized = assert_agrees(m.model(), 0.1, share=0.99)
    assert kinds(quantized) == ["conv", "conv", "conv"]  # heads are groups of channels, so nothing moves
    assert all(layer.groups == (3 if k == 1 else 1) for k, layer in enumerate(quantized.graph.layers))


def test_a_sequence_that_is_read_twice_enters_once() -> None:
    """By a product, which wants rows, and by the sum around it."""
    m = Qdq((1, 6, 8)).qdq(0.03, 5)
    x = m.x
    m.matmul(8, 8).qdq(0.06, 0).node("Add", x).node("Relu").qdq(0.07, 0)
    m.node("Reshape", m.constant("s", np.array([6, 8]))).matmul(8, 4)
    m.node("Reshape", m.constant("s", np.array([1, 6, 4]))).qdq(0.07, 0)
    quantized = assert_agrees(m.model(), 0.07, share=0.99)
    assert kinds(quantized) == ["conv", "add", "conv"]
    assert [quantized.graph.tensors[name].frame for name in quantized.graph.inputs] == [Frame(1, 6, 8)]


def test_a_last_product_keeps_its_bias() -> None:
    """One whose weights are integers behind a DequantizeLinear is no product of two computed tensors."""
    m = Qdq((1, 6)).qdq(0.03, 5)
    w, scales = m.weights((4, 6))
    quantized = assert_agrees(m.node("Gemm", w, m.bias(4, scales), transB=1).model(), 1e-3, share=1.0)
    assert "Add" not in [node.op_type for node in quantized.epilogue.graph.nodes]


def tokens() -> Model:
    """torch.onnx.export without dynamo: MatMul and Add, a residual sum, a mean over the sequence."""
    n = Net((6, 8))
    y = n.node("Add", n.matmul(n.relu(n.matmul(n.x, 16, cin=8)), 8, cin=16), n.x)
    return n.model(n.gemm(n.mean(n.relu(n.matmul(y, 12, cin=8)), (1,)), 4, cin=12))


def flattened() -> Model:
    """With dynamo, and as Keras does it: Reshape, Gemm, Reshape; x * sigmoid(x) between."""
    n = Net((6, 8))
    y = n.gemm(n.node("Reshape", n.x, n.constant((6, 8), np.int64)), 16, cin=8)
    y = n.node("Reshape", y, n.constant((1, 6, 16), np.int64))
    y = n.matmul(n.node("Mul", y, n.node("Sigmoid", y)), 8, cin=16)
    return n.model(n.matmul(n.node("Add", y, n.x), 6, cin=8))


def mixer() -> Model:
    """A constant on the left mixes the elements of a sequence, one on the right its channels."""
    n = Net((6, 8))
    y = n.relu(n.node("MatMul", n.constant(n.normal(9, 6)), n.x, channels=8))
    y = n.node("MatMul", n.constant(n.normal(6, 9, deviation=0.3)), y, channels=8)
    y = n.relu(n.matmul(n.node("Add", y, n.x), 16, cin=8))
    return n.model(n.matmul(y, 3, cin=16))


def patches() -> Model:
    """A vision transformer's first layers: pieces of an image become a sequence."""
    n = Net((3, 8, 8))
    y = n.node("Reshape", n.conv(n.x, 8, (4, 4), 4, pad=0), n.constant((1, 8, 4), np.int64))
    y = n.relu(n.matmul(n.node("Transpose", y, perm=(0, 2, 1)), 10, cin=8))
    return n.model(n.matmul(y, 5, cin=10))


#: A model, the kinds of its layers, the frame of its input.
EXPORTS = {
    "tokens": (tokens, ["conv", "conv", "add", "conv", "average_pool", "dense"], Frame(1, 6, 8)),
    "flattened": (flattened, ["conv", "lookup", "conv", "add", "conv"], Frame(1, 6, 8)),
    "mixer": (mixer, ["conv", "conv", "add", "rearrange", "conv", "conv"], Frame(1, 8, 6)),
    "patches": (patches, ["conv", "conv", "conv"], Frame(8, 8, 3)),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_floats_as_exporters_write_them(name: str) -> None:
    """Biases are inside of the products, weights have a scale for each channel, and nothing moves that need not."""
    make, expected, frame = EXPORTS[name]
    model = infer(make())
    rows = data(model)
    quantized = quantize(model, rows)
    assert kinds(quantized) == expected
    assert [quantized.graph.tensors[name].frame for name in quantized.graph.inputs] == [frame]
    assert _relative_error(quantized, model, rows) < 0.025


def _relative_error(quantized: Quantized, model: Model, rows: dict[str, np.ndarray]) -> float:
    """The largest difference from the float model, of its largest result."""
    (made,), expected = golden.predict(quantized, rows).values(), runtime(model, rows)
    return float(np.abs(made - expected).max() / np.abs(expected).max())
