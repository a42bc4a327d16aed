"""Shifted copies of a spectrum, stacked and turned: one copy is turned, and what they mean stays."""

from __future__ import annotations

import numpy as np

from hwflow import golden
from hwflow.onnx import evaluate, infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from hwflow.quantize.passes.copies import turn_before_copies

TIMES, BINS, KEPT = 10, 14, 9


def harmonics() -> Model:
    """[1, 1, TIMES, BINS] as [1, TIMES, BINS, 1]; three shifted copies along the last axis, the lowest bins of them."""
    b = Builder()
    rng = np.random.default_rng(1)
    weights = b.constant("w", rng.normal(size=(1, 1, 3, 3)).astype(np.float32))
    x = b.node("Conv", b.input("x", np.float32, (1, 1, TIMES, BINS)), weights, name="front", pads=(1, 1, 1, 1))
    x = b.node("Transpose", x, perm=(0, 2, 3, 1))
    copies = [x]
    for shift in (2, 5):
        start, end = b.constant(f"s{shift}", np.array([shift])), b.constant(f"e{shift}", np.array([BINS]))
        high = b.node("Slice", x, start, end, b.constant(f"a{shift}", np.array([2])))
        pads = np.array([0, 0, 0, 0, 0, 0, shift, 0])
        copies.append(b.node("Pad", high, b.constant(f"p{shift}", pads)))
    stack = b.node("Concat", *copies, axis=-1)
    low = b.node("Slice", stack, b.constant("s", np.array([0])), b.constant("e", np.array([KEPT])),
                 b.constant("a", np.array([2])))  # fmt: skip
    image = b.node("Transpose", low, perm=(0, 3, 1, 2), name="turn")
    kernel = b.constant("k", rng.normal(size=(4, 3, 3, 3)).astype(np.float32))
    b.output(b.node("Relu", b.node("Conv", image, kernel, name="conv")), np.float32)
    return infer(b.model(opset=17))


def test_one_copy_is_turned() -> None:
    model = harmonics()
    found = turn_before_copies(model)
    concat = next(node for node in found.graph.nodes if node.op_type == "Concat")
    assert concat.attributes["axis"] == 1
    turned = [node.outputs[0] for node in found.graph.nodes if node.op_type == "Transpose"]
    assert {found.graph.tensor_type(name).shape for name in turned} == {(1, TIMES, BINS, 1), (1, 1, TIMES, BINS)}
    x = np.random.default_rng(0).standard_normal((1, 1, TIMES, BINS)).astype(np.float32)
    (expected,), (made,) = (list(evaluate(each, {"x": x}).values()) for each in (model, found))
    np.testing.assert_array_equal(made, expected)


def test_the_integers_are_near_the_floats() -> None:
    model = harmonics()
    feeds = {"x": np.random.default_rng(0).standard_normal((30, 1, 1, TIMES, BINS)).astype(np.float32)}
    quantized = quantize(model, feeds)
    (found,) = golden.predict(quantized, feeds).values()
    expected = np.stack([next(iter(evaluate(model, {"x": x}).values())) for x in feeds["x"]])
    assert np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)) < 0.03
