"""Dilated convolutions that exporters write as a batch become one Conv; onnxruntime computes what the file says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import hwflow
from hwflow.onnx import Model, evaluate, infer, simplify
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from hwflow.quantize.passes.batches import batches_to_dilations
from tests.quantize.models import session
from tests.quantize.played import check_played
from tests.random_cases import seeds


class Blocks:
    """Nodes as tf2onnx writes a convolution of TensorFlow with dilations `block` and a kernel of `taps`; channels last.

    `swapped`: the columns count first in the number of an image.
    """

    def __init__(self, sizes: tuple[int, ...], channels: int, block: tuple[int, ...], taps: int, seed: int = 0) -> None:
        self.b, self.rng, self.rank = Builder("blocks"), np.random.default_rng(seed), len(sizes)
        self.sizes, self.block, self.taps, self.count = sizes, block, taps, 0
        shape = (1, *sizes, channels)
        self.before = [(taps - 1) * d // 2 for d in block]
        self.after = [(taps - 1) * d - a for d, a in zip(block, self.before, strict=True)]
        self.rest = [-(n + (taps - 1) * d) % d for n, d in zip(sizes, block, strict=True)]
        self.x = self.b.node("Neg", self.b.input("x", np.float32, shape))
        self.inner = [(n + a + b + c) // d for n, a, b, c, d in
                      zip(sizes, self.before, self.after, self.rest, block, strict=True)]  # fmt: skip

    def whole(self, *values: int) -> str:
        self.count += 1
        return self.b.constant(f"whole{self.count}", np.array(values, np.int64))

    def random(self, *shape: int) -> str:
        self.count += 1
        return self.b.constant(f"random{self.count}", self.rng.standard_normal(shape).astype(np.float32))

    def apart(self, x: str, channels: int, swapped: bool = False) -> str:
        """SpaceToBatchND."""
        b, k = self.b, self.rank
        ends = (e + r for e, r in zip(self.after, self.rest, strict=True))
        x = b.node("Pad", x, self.whole(0, *self.before, 0, 0, *ends, 0))
        parts = itertools.chain(*zip(self.inner, self.block, strict=True))
        x = b.node("Reshape", x, self.whole(1, *parts, channels))
        inside = [2 + 2 * i for i in range(k)]
        x = b.node("Transpose", x, perm=[*(inside[::-1] if swapped else inside), 0, *range(1, 2 * k, 2), 2 * k + 1])
        return b.node("Reshape", x, self.whole(int(np.prod(self.block)), *self.inner, channels))

    def together(self, x: str, channels: int, swapped: bool = False) -> str:
        """BatchToSpaceND."""
        b, k, block = self.b, self.rank, self.block[::-1] if swapped else self.block
        inner = [n - self.taps + 1 for n in self.inner]
        x = b.node("Reshape", x, self.whole(*block, 1, *inner, channels))
        own = range(k)[::-1] if swapped else range(k)
        mixed = itertools.chain(*zip(range(k + 1, 2 * k + 1), own, strict=True))
        x = b.node("Transpose", x, perm=[k, *mixed, 2 * k + 1])
        x = b.node("Reshape", x, self.whole(1, *(n * d for n, d in zip(inner, self.block, strict=True)), channels))
        return b.node("Slice", x, self.whole(*[0] * k), self.whole(*self.sizes), self.whole(*range(1, k + 1)))

    def quantized(self, x: str, scale: float, zero: int) -> str:
        """QuantizeLinear and DequantizeLinear of 8 bits."""
        self.count += 1
        by = (self.b.constant(f"scale{self.count}", np.float32(scale)),
              self.b.constant(f"zero{self.count}", np.int8(zero)))  # fmt: skip
        return self.b.node("DequantizeLinear", self.b.node("QuantizeLinear", x, *by), *by)

    def convolved(self, x: str, inputs: int, outputs: int, group: int = 1, behind: bool = False) -> str:
        """Conv between Transposes, with functions `behind` it."""
        b, k = self.b, self.rank
        x = b.node("Transpose", x, perm=[0, k + 1, *range(1, k + 1)])
        x = b.node("Conv", x, self.random(outputs, inputs // group, *[self.taps] * k), name="conv", group=group)
        if behind:
            x = b.node("Relu", b.node("Mul", x, self.random(outputs, *[1] * k)))
        return b.node("Transpose", x, perm=[0, *range(2, k + 2), 1])

    def model(self, x: str, outputs: int) -> Model:
        self.b.output(self.b.node("Add", x, self.random(outputs), name="bias"), np.float32, (1, *self.sizes, outputs))
        return simplify(infer(self.b.model()))


def check(model: Model, traced: Model) -> None:
    """Both compute the same, and onnxruntime says what."""
    x = np.random.default_rng(1).standard_normal(model.graph.inputs[0].tensor.shape).astype(np.float32)
    expected = session(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(evaluate(traced, {"x": x})[traced.graph.outputs[0].name], expected, rtol=1e-4, atol=1e-4)


def conv_of(traced: Model) -> dict[str, object]:
    """The attributes of the only Conv; nothing but layouts and functions stands beside it."""
    kinds = {node.op_type for node in traced.graph.nodes}
    assert kinds <= {"Neg", "Conv", "Relu", "Add", "Mul", "Transpose", "Reshape"}, kinds
    (conv,) = (node for node in traced.graph.nodes if node.op_type == "Conv")
    return dict(conv.attributes)


@seeds(range(12), range(12, 200))
def test_a_batch_is_a_dilation(seed: int) -> None:
    """Any sizes, so that padding has a rest; images in any order; functions between the Conv and the way back."""
    rng = np.random.default_rng(seed)
    rank, taps = (1, 2)[seed % 3 > 0], int(rng.integers(2, 4))
    block = tuple(int(d) for d in rng.integers(2 - seed % 2, 4, rank))
    block = block if max(block) > 1 else (2,) * rank
    sizes, channels, group = tuple(int(n) for n in rng.integers(5, 12, rank)), int(rng.integers(1, 4)), 1
    if rng.integers(2):
        group = channels
    made, swapped = Blocks(sizes, channels, block, taps, seed), bool(rng.integers(2))
    x = made.convolved(made.apart(made.x, channels, swapped), channels, 2 * channels, group, bool(rng.integers(2)))
    if rng.integers(2):
        x = made.b.node("Relu", made.b.node("Mul", x, made.random(2 * channels)))
    model = made.model(made.together(x, 2 * channels, swapped), 2 * channels)
    traced = batches_to_dilations(model)
    check(model, traced)
    found = conv_of(traced)
    assert found["dilations"] == block
    assert found["pads"] == (*made.before, *made.after)


@pytest.mark.parametrize(("sizes", "block"), [((7, 8), (2, 2)), ((7, 8), (3, 3)), ((11,), (2,))])
def test_quantizers_between_all_nodes(sizes: tuple[int, ...], block: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
                                      ) -> None:  # fmt: skip
    """As onnxruntime's quantizer writes them: nothing is left but the one layer, whose integers are the file's."""
    made, write, k = Blocks(sizes, 2, block, 3), Builder.node, len(sizes)
    by = [(0.05, 3)]

    def node(b: Builder, op: str, *inputs: str, **stated: Any) -> str:
        y = write(b, op, *inputs, **stated)
        return made.quantized(y, *by[0]) if op in ("Pad", "Reshape", "Transpose", "Conv", "Slice") else y

    x, weights = made.quantized(made.x, *by[0]), made.rng.integers(-127, 128, (3, 2, *[3] * k)).astype(np.int8)
    scales = made.b.constant("scales", np.array([0.01, 0.02, 0.005], np.float32))
    w = made.b.node("DequantizeLinear", made.b.constant("w", weights), scales, axis=0)
    monkeypatch.setattr(Builder, "node", node)
    x = made.b.node("Transpose", made.apart(x, 2), perm=[0, k + 1, *range(1, k + 1)])
    by[0] = (0.2, 0)
    x = made.b.node("Transpose", made.b.node("Conv", x, w, name="conv"), perm=[0, *range(2, k + 2), 1])
    made.b.output(made.together(x, 3), np.float32, (1, *sizes, 3))
    model = simplify(infer(made.b.model()))
    check(model, batches_to_dilations(model))
    quantized = quantize(model)
    (conv,) = quantized.graph.layers
    assert conv.dilations[-k:] == block
    row = np.random.default_rng(1).standard_normal((1, 1, *sizes, 2)).astype(np.float32)
    (found,) = hwflow.run_golden(quantized, {"x": row}).values()
    expected = evaluate(model, {"x": row[0]})[model.graph.outputs[0].name]
    steps = np.rint((found.reshape(expected.shape) - expected) / 0.2)
    assert np.abs(steps).max() <= 1  # a half that floats round the other way
    assert np.mean(steps == 0) > 0.98


def test_images_that_go_back_in_another_order() -> None:
    """They are not put together again: what the nodes behind the Conv do stays."""
    made = Blocks((6, 8), 2, (2, 3), 3)
    x = made.convolved(made.apart(made.x, 2), 2, 3)
    model = made.model(made.together(x, 3, swapped=True), 3)
    traced = batches_to_dilations(model)
    check(model, traced)
    (conv,) = (node for node in traced.graph.nodes if node.op_type == "Conv")
    assert conv.attributes["dilations"] == (2, 3)


def test_a_batch_of_images_stays() -> None:
    b = Builder("batch")
    x = b.node("Relu", b.input("x", np.float32, (4, 3, 6, 6)))
    w = b.constant("w", np.ones((2, 3, 3, 3), np.float32))
    b.output(b.node("Conv", b.node("Transpose", x, perm=[0, 1, 3, 2]), w), np.float32, (4, 2, 4, 4))
    model = simplify(infer(b.model()))
    assert batches_to_dilations(model) is model


@pytest.mark.parametrize(("sizes", "block"), [((7, 8), (2, 2)), ((7, 10), (3, 3)), ((11,), (2,))])
def test_on_hardware(sizes: tuple[int, ...], block: tuple[int, ...]) -> None:
    """A layer with that dilation, whose integers are near the reals, and the same in hardware."""
    made = Blocks(sizes, 2, block, 3)
    first = made.b.node("Relu", made.x)
    model = made.model(made.together(made.convolved(made.apart(first, 2), 2, 3), 3), 3)
    rows = {"x": np.random.default_rng(2).standard_normal((30, *model.graph.inputs[0].tensor.shape)).astype(np.float32)}
    quantized = quantize(model, rows)
    (conv,) = (layer for layer in quantized.graph.layers if type(layer).__name__ == "Conv")
    assert conv.dilations[-len(block):] == block
    (found,) = hwflow.run_golden(quantized, rows).values()
    expected = np.stack([evaluate(model, {"x": row})[model.graph.outputs[0].name] for row in rows["x"]])
    assert np.abs(found.reshape(expected.shape) - expected).max() < 0.05 * np.abs(expected).max()
    check_played(quantized.graph)
