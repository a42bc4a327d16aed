"""Graphs that fork and join: the same integers as onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.layers.elementwise import Add, Multiply
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from tests.quantize.models import Branch, Chain, Qdq, assert_agrees, kinds, rows, session


def start(shape: tuple[int, ...] = (1, 3, 6, 5)) -> Qdq:
    """A tensor behind a convolution, so that it is the hardware's own."""
    return Qdq(shape).qdq(0.0313, 4).conv((4, shape[1], 3, 3), pads=(1, 1, 1, 1)).node("Relu").qdq(0.0617, -128)


def branch(scale: float = 0.1043, zero: int = 5, channels: int = 4) -> Branch:
    return lambda m: m.conv((channels, 4, 1, 1)).qdq(scale, zero)


def conv(channels: int) -> Branch:
    return lambda m: m.conv((channels, 4, 1, 1))


def same(m: Qdq) -> Qdq:
    return m


def gate(m: Qdq) -> Qdq:
    m.node("GlobalAveragePool").qdq(0.03, -128).conv((4, 4, 1, 1)).qdq(0.05, 0)
    return m.node("Sigmoid").qdq(1 / 256, -128)


def read(m: Qdq) -> Qdq:
    return m.node("Transpose", perm=(0, 3, 1, 2)).conv((4, 3, 3, 3)).qdq(0.1043, 0)


def ends(m: Qdq, last: int = 4) -> Qdq:
    """Another convolution behind what was joined."""
    return m.conv((5, last, 2, 2)).qdq(0.3, 0)


TWO: tuple[Branch, Branch] = (lambda m: m.qdq(0.1, 3), lambda m: m.node("Relu").qdq(0.2, -128))
CONCAT: tuple[Branch, ...] = (same, branch(0.1043, 5, 3), branch(0.0617, -128, 2))
CHAINS = {
    "an operand twice": Chain(lambda: start().joined("Add", same, same).qdq(0.1127, 0), "conv lookup"),
    "operands times constants": Chain(
        lambda: start().joined("Sub", lambda m: m.op("Mul", 0.5), branch()).qdq(0.09, 3), "conv conv add"),
    "squeeze and excitation": Chain(
        lambda: start().joined("Mul", same, gate).qdq(0.0417, -128), "conv average_pool conv lookup multiply"),
    "excitation and squeeze": Chain(
        lambda: start().joined("Mul", gate, same).qdq(0.0417, -128), "conv average_pool conv lookup multiply"),
    "one number for all elements": Chain(
        lambda: start().joined("Add", same, lambda m: m.conv((1, 4, 6, 5)).qdq(0.21, 3)).qdq(0.1, 7), "conv conv add",
        share=0.98),
    "concat over channels": Chain(
        lambda: ends(start().joined("Concat", *CONCAT, axis=1).qdq(0.0617, -128), 9),
        "conv conv conv lookup concat conv", share=0.995),
    "relu behind a concat": Chain(
        lambda: ends(start().joined("Concat", *CONCAT, axis=1).node("Relu").qdq(0.0617, -128), 9),
        "conv conv conv lookup lookup lookup concat conv", share=0.995),
    "parts without quantizers": Chain(
        lambda: start().joined("Concat", conv(3), conv(2), axis=1).node("Relu").qdq(0.09, -128),
        "conv conv conv concat"),
    "concat of one scale": Chain(
        lambda: ends(start().joined("Concat", branch(), branch(channels=2), axis=1), 6), "conv conv conv concat conv",
        share=0.995),
    "concat of integers": Chain(
        lambda: ends(start().joined("Concat", *(lambda m, c=c: m.conv((c, 4, 1, 1)).quantize(0.1, 3) for c in (3, 2)),
                                    axis=1).dequantize(0.1, 3), 5), "conv conv conv concat conv", share=0.995),
    "two quantizers of a result are two layers": Chain(
        lambda: conv(4)(start()).joined("Add", *TWO).qdq(0.3, 0), "conv conv conv add", share=0.995),
    "equal quantizers of a result are one layer": Chain(
        lambda: conv(4)(start()).joined("Add", lambda m: m.qdq(0.1, 3).conv((4, 4, 1, 1)).qdq(0.1, 3), TWO[0]).qdq(
            0.3, 0), "conv conv conv add", share=0.995),
    "a max pool with two quantizers": Chain(
        lambda: conv(4)(start()).node("MaxPool", kernel_shape=(2, 2)).joined("Add", *TWO).qdq(0.3, 0),
        "conv conv max_pool conv max_pool add", share=0.995),
    # The quantizer moves in front of the global maximum, which ONNX has for floats alone.
    "a quantizer behind a global maximum": Chain(
        lambda: conv(4)(start()).node("GlobalMaxPool").qdq(0.05, 0, np.uint8).conv((3, 4, 1, 1)).qdq(0.1, 0),
        "conv conv max_pool conv"),
    "relu behind a global maximum": Chain(
        lambda: conv(4)(start()).node("GlobalMaxPool").node("Relu").qdq(0.05, 0, np.uint8).conv((3, 4, 1, 1)).qdq(
            0.1, 0), "conv conv max_pool conv"),
    "an input through two transposes": Chain(
        lambda: Qdq((1, 6, 5, 3)).qdq(0.0517, 9).joined("Add", read, read).qdq(0.2, 0), "conv conv add"),
    "an input as an image and as a row": Chain(
        lambda: Qdq((1, 3, 6, 5)).qdq(0.0517, 9).joined(
            "Add", lambda m: m.conv((4, 3, 6, 5)).qdq(0.5, 0).node("Flatten"),
            lambda m: m.node("Flatten").matmul(90, 4).qdq(0.5, 0)).qdq(0.8, 0), "conv dense add"),
}  # fmt: skip


@pytest.mark.quick(8)
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    CHAINS[name].check()


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("relu", [False, True])
def test_residual(op: str, relu: bool) -> None:
    m = start().joined(op, same, branch())
    if relu:
        m.node("Relu")
    q = assert_agrees(m.qdq(0.1127, -20).model(), 0.1127)
    assert kinds(q) == ["conv", "conv", "multiply" if op == "Mul" else "add"]
    joined = q.graph.layers[-1]
    assert isinstance(joined, (Add, Multiply))
    assert (joined.low == -20) is relu
    assert q.graph.consumers(q.graph.layers[0].output) == (q.graph.layers[1], joined)


def test_the_larger_ratio_of_a_sum_has_all_bits_of_a_multiplier() -> None:
    q = quantize(start().joined("Add", same, branch(0.00017)).qdq(0.1127, 0).model())
    (joined,) = (layer for layer in q.graph.layers if isinstance(layer, Add))
    assert max(joined.multipliers).bit_length() == 18
    for m, scale in zip(joined.multipliers, (0.0617, 0.00017), strict=True):
        assert abs(m / 2**joined.shift - scale / 0.1127) < 2.0**-17


def test_the_smaller_ratio_of_a_sum_has_them_where_the_larger_needs_few() -> None:
    q = quantize(start().joined("Add", same, branch(0.00017)).qdq(0.0617, 0).model())
    (joined,) = (layer for layer in q.graph.layers if isinstance(layer, Add))
    assert joined.multipliers[0] == 1 << joined.shift
    assert abs(joined.multipliers[1] / 2**joined.shift / (0.00017 / 0.0617) - 1) < 2.0**-17


def test_an_output_that_a_layer_reads_too() -> None:
    """The host makes it of the pool's integers, and so does the layer's table; these have names of their own."""
    m = start().conv((4, 4, 1, 1)).qdq(0.1, 3).node("MaxPool", kernel_shape=(2, 2)).node("Relu")
    m.b.output(m.x)
    model = m.qdq(0.05, 0, np.uint8).conv((3, 4, 1, 1)).qdq(0.1, 0).model()
    quantized, feeds = quantize(model), rows(model, 4)
    made, run = golden.predict(quantized, feeds), session(model)
    for k in range(4):
        for value, wanted in zip(model.graph.outputs, run.run(None, {n: v[k] for n, v in feeds.items()}), strict=True):
            assert made[value.name].dtype == wanted.dtype
            np.testing.assert_allclose(made[value.name][k], wanted, atol=0.1001)  # a tie is a step


def everything_agrees(model: Model, step: float) -> Quantized:
    """All outputs, of all inputs, against onnxruntime."""
    quantized, feeds, run = quantize(model), rows(model, 60), session(model)
    made = golden.predict(quantized, feeds)
    expected = [run.run(None, {k: v[i] for k, v in feeds.items()}) for i in range(60)]
    for number, value in enumerate(model.graph.outputs):
        apart = np.abs(made[value.name] - np.stack([row[number] for row in expected])) / step
        assert apart.max() <= 1.001
        assert np.mean(apart < 1e-3) >= 0.999
    return quantized


def test_several_inputs_and_outputs() -> None:
    m = Qdq((1, 3, 6, 6))
    first = m.qdq(0.0313, 4).conv((4, 3, 1, 1)).qdq(0.1, 3).x
    m.x = m.b.input("other", np.float32, (1, 4, 6, 6))
    second = m.qdq(0.0417, -7).conv((4, 4, 1, 1)).qdq(0.1, 3).x
    m.b.output(second)
    m.x = m.b.node("Add", first, second, name="join")
    m.qdq(0.1, 1)
    m.b.output(m.x)
    q = everything_agrees(m.conv((2, 4, 6, 6)).qdq(0.1, 0).model(), 0.1)
    assert len(q.graph.inputs) == 2
    assert len(q.graph.outputs) == 3
    assert q.graph.outputs == tuple(value.name for value in q.epilogue.graph.inputs)


def test_inputs_may_meet_in_the_first_layer() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.0313, 4)
    first = m.x
    m.x = m.b.input("other", np.float32, (1, 3, 6, 6))
    q = everything_agrees(m.qdq(0.0417, -7).node("Add", first).qdq(0.05, 1).model(), 0.05)
    assert kinds(q) == ["add"]


def test_a_sum_at_the_end_runs_on_the_host() -> None:
    q = assert_agrees(start().joined("Add", same, branch()).model(), 0.1043)
    assert kinds(q) == ["conv", "conv"]
    assert "Add" in q.notes[-1]


def test_a_graph_survives_its_file_and_a_second_import() -> None:
    model = start().joined("Concat", same, branch(0.1043, 5, 3), axis=1).qdq(0.0617, -128).model()
    q = quantize(model)
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph


def test_the_twin_has_the_reals_of_every_tensor() -> None:
    m = start().joined("Concat", same, branch(0.1043, 5, 3), axis=1).node("Relu").quantize(0.0617, -128)
    m.node("Clip", m.constant("low", np.int8(-128)), m.constant("high", np.int8(-1))).dequantize(0.0617, -128)
    m.node("MaxPool", kernel_shape=(2, 2)).node("Transpose", perm=(0, 2, 3, 1)).node("Flatten")
    q = quantize(m.matmul(5 * 4 * 7, 6).qdq(0.7, 0).model())
    onnx.require_valid(q.twin)
    feeds = {"input": np.random.default_rng(0).standard_normal((1, 1, 3, 6, 5)).astype(np.float32)}
    stages = golden.run(q, golden.run_prologue(q, feeds))
    names = tuple(view.source for view in q.views.values())
    reals = onnx.evaluate(q.twin, {"input": feeds["input"][0]}, fetch=names)
    parts = {name for name in q.graph.tensors if ".part" in name}
    assert set(q.views) == set(q.graph.tensors) - parts
    for name, view in q.views.items():
        tensor, real = q.graph.tensors[name], reals[view.source]
        made = (stages[name].ravel()[view.index] - tensor.zero_point) * tensor.scale
        assert real.shape == view.index.shape
        assert np.sum((made - real) ** 2) < 1e-2 * np.sum(real**2)
        assert np.any(np.abs(made - real) > 0.2 * tensor.scale)  # nothing is rounded there
