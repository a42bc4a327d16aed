"""Products of two computed tensors: what they become, in which order, and that the integers are those of ONNX."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.layers import MatMul
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from tests.quantize.models import Qdq, kinds, rows, runtime
from tests.quantize.played import check_played

HEADS, ROWS, DEPTH = 2, 6, 4


class Attention:
    """Q K^T, scaled, cut at 0, and times V, as exporters write it; what is between is a Relu, not a Softmax."""

    def __init__(self, **sizes: int) -> None:
        self.b = Builder("attention")
        self.heads, self.rows, self.depth = (sizes.get(name, usual) for name, usual in (
            ("heads", HEADS), ("rows", ROWS), ("depth", DEPTH)))

    def projected(self, name: str) -> str:
        """[1, T, heads * d] of a convolution over time, so that the hardware chooses the order."""
        width = self.heads * self.depth
        x = self.b.input(name, np.float32, (1, width, 1, self.rows))
        w = np.random.default_rng(len(name)).normal(0, width**-0.5, (width, width, 1, 1)).astype(np.float32)
        made = self.b.node("Conv", x, self.b.constant(f"{name}.w", w), name=f"{name}.conv")
        shape = self.b.constant(f"{name}.shape", np.array([1, width, self.rows]))
        return self.b.node("Transpose", self.b.node("Reshape", made, shape), perm=(0, 2, 1))

    def split(self, x: str, *perm: int) -> str:
        shape = self.b.constant(f"{x}.heads", np.array([1, self.rows, self.heads, self.depth]))
        return self.b.node("Transpose", self.b.node("Reshape", x, shape), perm=perm)

    def model(self) -> Model:
        b = self.b
        q, k, v = (self.projected(name) for name in ("q", "ke", "val"))
        scores = b.node("MatMul", self.split(q, 0, 2, 1, 3), self.split(k, 0, 2, 3, 1), name="scores")
        scaled = b.node("Div", scores, b.constant("root", np.float32(self.depth**0.5)), name="scaled")
        kept = b.node("Relu", scaled, name="kept")
        mixed = b.node("MatMul", kept, self.split(v, 0, 2, 1, 3), name="mixed")
        back = b.constant("back", np.array([1, self.rows, self.heads * self.depth]))
        b.output(b.node("Reshape", b.node("Transpose", mixed, perm=(0, 2, 1, 3)), back, name="out"))
        return onnx.infer(b.model(opset=17))


def agrees(model: Model) -> Quantized:
    """The golden model gives what onnxruntime makes of the QDQ model, but for ties of its floats."""
    feeds = rows(model, 60)
    made = quantize(model, feeds)
    (name,) = (value.name for value in model.graph.outputs)
    found, expected = golden.predict(made, feeds)[name], runtime(made.qdq, feeds)
    step = min(made.graph.tensors[tensor].scale for tensor in made.graph.outputs)
    apart = np.abs(found - expected) / step
    assert apart.max() < 1.01
    assert np.mean(apart < 1e-3) > 0.998
    assert np.corrcoef(found.ravel(), runtime(model, feeds).ravel())[0, 1] > 0.99
    return made


def test_attention_moves_nothing() -> None:
    """Heads stay side by side in each row; factor and Relu are in the rescaling."""
    made = agrees(Attention().model())
    assert Counter(kinds(made)) == {"conv": 3, "matmul": 2}
    scores, mixed = (layer for layer in made.graph.layers if isinstance(layer, MatMul))
    assert (scores.heads, scores.rows, scores.depth, scores.columns) == (HEADS, ROWS, DEPTH, ROWS)
    assert (scores.interleaved, scores.order, mixed.interleaved, mixed.order) == (True, "nhk", True, "khn")


@pytest.mark.parametrize(("a", "b"), [
    ((1, 2, 3, 4), (1, 2, 4, 5)), ((2, 3, 4), (4, 5)), ((1, 3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)),
    ((1, 2, 3, 4), (1, 1, 4, 3))], ids=str)
def test_all_shapes_of_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    builder = Builder("shapes")
    x, y = builder.input("a", np.float32, a), builder.input("b", np.float32, b)
    builder.output(builder.node("MatMul", x, y, name="product"))
    assert "matmul" in kinds(agrees(onnx.infer(builder.model(opset=17))))


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm(trans_a: int, trans_b: int) -> None:
    builder = Builder("gemm")
    x = builder.input("a", np.float32, (4, 3) if trans_a else (3, 4))
    y = builder.input("b", np.float32, (5, 4) if trans_b else (4, 5))
    builder.output(builder.node("Gemm", x, y, name="product", transA=trans_a, transB=trans_b, alpha=0.25))
    assert "matmul" in kinds(agrees(onnx.infer(builder.model(opset=17))))


def in_one_node(causal: int) -> Model:
    builder = Builder("attention")
    names = [builder.input(name, np.float32, (1, 2, 5, 3)) for name in "qkv"]
    made = builder.node("Attention", *names, name="attention", is_causal=causal)
    builder.output(builder.node("MatMul", made, builder.constant("w", np.eye(3, dtype=np.float32)), name="out"))
    return onnx.infer(builder.model(opset=24))


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_in_one_node(causal: int) -> None:
    """What a mask hides has next to no share."""
    model = in_one_node(causal)
    feeds = rows(model, 100)
    quantized = quantize(model, feeds)
    assert {"matmul", "softmax"} <= set(kinds(quantized))
    (name,) = (value.name for value in model.graph.outputs)
    reals = np.stack([onnx.evaluate(model, {key: values[k] for key, values in feeds.items()})[name]
                      for k in range(100)])
    error = golden.predict(quantized, feeds)[name] - reals
    assert np.sqrt(np.mean(error**2)) < 0.05 * np.std(reals)


@pytest.mark.slow
def test_attention_in_rtl() -> None:
    model = in_one_node(1)
    for seed in range(3):
        check_played(quantize(model, rows(model, 20)).graph, seed)


def biased() -> Model:
    builder = Builder("biased")
    x, y = builder.input("a", np.float32, (3, 4)), builder.input("b", np.float32, (4, 5))
    bias = builder.constant("bias", np.linspace(-1, 1, 5, dtype=np.float32))
    builder.output(builder.node("Gemm", x, y, bias, name="product", alpha=0.5, beta=3.0))
    return builder.model(opset=17)


def test_a_gemm_with_a_bias() -> None:
    assert Counter(kinds(agrees(onnx.infer(biased())))) == {"matmul": 1}


def scaled() -> Model:
    """Both operands are scaled before they are moved."""
    builder = Builder("scaled")
    shapes = builder.constant("heads", np.array([1, 6, 2, 4]))
    sides = []
    for name, perm in (("a", (0, 2, 1, 3)), ("b", (0, 2, 3, 1))):
        x = builder.node("Relu", builder.input(name, np.float32, (1, 6, 8)))
        x = builder.node("Mul", x, builder.constant(f"{name}.factor", np.float32([0.6])))
        sides.append(builder.node("Transpose", builder.node("Reshape", x, shapes), perm=perm))
    mask = np.where(np.tri(6, dtype=bool), 0, -24).astype(np.float32)
    scores = builder.node("MatMul", *sides, name="scores")
    builder.output(builder.node("Add", scores, builder.constant("mask", mask), name="masked"))
    return builder.model(opset=17)


def test_factors_and_masks_are_in_the_rescaling() -> None:
    made = agrees(onnx.infer(scaled()))
    (layer,) = (layer for layer in made.graph.layers if isinstance(layer, MatMul))
    assert layer.constants == 36
    assert set(kinds(made)) <= {"matmul", "lookup"}


def test_a_tensor_times_itself() -> None:
    builder = Builder("gram")
    x = builder.input("x", np.float32, (1, 3, 4))
    builder.output(builder.node("MatMul", x, builder.node("Transpose", x, perm=(0, 2, 1)), name="gram"))
    assert "matmul" in kinds(agrees(onnx.infer(builder.model(opset=17))))


def test_a_negative_factor() -> None:
    builder = Builder("negative")
    x, y = builder.input("a", np.float32, (3, 4)), builder.input("b", np.float32, (4, 5))
    builder.output(builder.node("Gemm", x, y, name="product", alpha=-0.5))
    with pytest.raises(HwflowError, match="must not be negated or made constant before its QuantizeLinear"):
        quantize(onnx.infer(builder.model(opset=17)))


def test_weights_behind_a_quantizer_are_not_computed() -> None:
    """A Gemm keeps its bias: the last layer of a quantized file adds it in hardware, and not on the host."""
    m = Qdq((1, 6)).qdq(0.1, 0)
    w, scales = m.weights((6, 4))
    model = m.node("Gemm", w, m.bias(4, scales)).model()
    made = quantize(model)
    (layer,) = made.graph.layers
    assert layer.kind == "dense"
    assert "Add" not in [node.op_type for node in made.epilogue.graph.nodes]
    assert layer.requantize.bias.any()
