"""Normalizations and softmaxes as exporters write them: one operator each, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow.onnx import infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize.passes.decomposed import decomposed_to_operators
from tests.quantize.models import runtime

T, C = 6, 10
RANDOM = np.random.default_rng(3)
GAMMA, BETA = RANDOM.uniform(0.5, 2, C).astype(np.float32), RANDOM.normal(size=C).astype(np.float32)


def number(b: Builder, value: float) -> str:
    return b.constant(f"n{value}", np.float32(value))


def torch(b: Builder, x: str) -> str:
    """As torch's exporter wrote LayerNorm before operator set 17."""
    centred = b.node("Sub", x, b.node("ReduceMean", x, axes=(-1,)))
    variance = b.node("ReduceMean", b.node("Pow", centred, number(b, 2)), axes=(-1,))
    normal = b.node("Div", centred, b.node("Sqrt", b.node("Add", variance, number(b, 1e-5))))
    return b.node("Add", b.node("Mul", normal, b.constant("g", GAMMA)), b.constant("b", BETA), name="end")


def jax(b: Builder, x: str) -> str:
    """As jax writes it: the mean of squares less the square of the mean, along the rows, scale per position."""
    axis = b.constant("axis", np.array([1]))
    share, shape = number(b, 1 / T), b.constant("shape", np.array([1, 1, C]))
    mean = b.node("Mul", b.node("ReduceSum", x, axis, keepdims=0), share)
    squares = b.node("Mul", b.node("ReduceSum", b.node("Mul", x, x), axis, keepdims=0), share)
    variance = b.node("Max", number(b, 0), b.node("Sub", squares, b.node("Mul", mean, mean)))
    root = b.node("Sqrt", b.node("Add", b.node("Reshape", variance, shape), number(b, 1e-6)))
    factor = b.node("Mul", b.node("Reciprocal", root), b.constant("g", GAMMA[:T].reshape(1, T, 1)))
    centred = b.node("Sub", x, b.node("Expand", b.node("Reshape", mean, shape), shape))
    return b.node("Add", b.node("Mul", centred, factor), b.constant("b", BETA[:T].reshape(1, T, 1)), name="end")


def tensorflow(b: Builder, x: str) -> str:
    """As Keras' batch normalization is written: x * (gamma / root) + (beta - mean * gamma / root)."""
    mean = b.node("ReduceMean", x, axes=(2,))
    variance = b.node("ReduceMean", b.node("Mul", *[b.node("Sub", x, mean)] * 2), axes=(2,))
    root = b.node("Reciprocal", b.node("Sqrt", b.node("Add", variance, number(b, 1e-3))))
    factor = b.node("Mul", root, b.constant("g", GAMMA))
    shift = b.node("Sub", b.constant("b", BETA), b.node("Mul", mean, factor))
    return b.node("Add", b.node("Mul", x, factor), shift, name="end")


def root_mean_square(b: Builder, x: str) -> str:
    """As language models write RMSNorm."""
    squares = b.node("ReduceMean", b.node("Pow", x, number(b, 2)), axes=(-1,))
    factor = b.node("Reciprocal", b.node("Sqrt", b.node("Add", squares, number(b, 1e-6))))
    return b.node("Mul", b.constant("g", GAMMA), b.node("Mul", x, factor), name="end")


def length(b: Builder, x: str) -> str:
    squares = b.node("ReduceSum", b.node("Mul", x, x), b.constant("axis", np.array([2])))
    return b.node("Div", x, b.node("Sqrt", squares), name="end")


def softmax(b: Builder, x: str) -> str:
    powers = b.node("Exp", b.node("Sub", x, b.node("ReduceMax", x, axes=(2,))))
    return b.node("Div", powers, b.node("ReduceSum", powers, b.constant("axis", np.array([2]))), name="end")


def network(part: Callable[[Builder, str], str]) -> Model:
    """Between two products, so that the host has no part in it."""
    b = Builder()
    x = b.node("MatMul", b.input("x", np.float32, (1, T, C)), b.constant("v", RANDOM.normal(size=(C, C)).astype(
        np.float32)))  # fmt: skip
    weights = b.constant("w", RANDOM.normal(size=(C, 3)).astype(np.float32))
    b.output(b.node("MatMul", part(b, x), weights, name="last"), np.float32)
    return infer(b.model(opset=13))


@pytest.mark.parametrize(("part", "op"), [
    (torch, "LayerNormalization"), (jax, "LayerNormalization"), (tensorflow, "LayerNormalization"),
    (root_mean_square, "RMSNormalization"), (length, "RMSNormalization"), (softmax, "Softmax")])
def test_one_operator(part: Callable[[Builder, str], str], op: str) -> None:
    model = network(part)
    found = decomposed_to_operators(model)
    assert [node.op_type for node in found.graph.nodes if node.op_type not in ("MatMul", "Transpose")] == [op]
    assert not any(name.endswith(".summands") for name in found.graph.initializers)
    if op != "RMSNormalization":  # which onnxruntime does not have yet
        feeds = {"x": RANDOM.standard_normal((5, 1, T, C)).astype(np.float32)}
        np.testing.assert_allclose(runtime(found, feeds), runtime(model, feeds), rtol=1e-3, atol=1e-4)


def test_what_looks_alike() -> None:
    """A fourth root of the variance, and an exponential over a sum of something else."""
    def half(b: Builder, x: str) -> str:
        variance = b.node("ReduceMean", b.node("Mul", x, x), axes=(-1,))
        return b.node("Div", x, b.node("Pow", b.node("Add", variance, number(b, 1)), number(b, 0.25)))

    def other(b: Builder, x: str) -> str:
        return b.node("Div", b.node("Exp", x), b.node("ReduceSum", b.node("Abs", x), b.constant("axis", np.array([2]))))

    for part in (half, other):
        model = network(part)
        assert decomposed_to_operators(model) is model
