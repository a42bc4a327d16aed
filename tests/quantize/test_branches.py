"""Graphs that fork and join: the same integers as onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.layers.add import Add
from hwflow.layers.concat import Concat
from hwflow.layers.multiply import Multiply
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from tests.quantize.models import Qdq, assert_agrees, kinds, rows, session


def fork(m: Qdq, *branches: Callable[[Qdq], Qdq]) -> list[str]:
    """What each branch makes of the newest tensor of `m`."""
    start, scale, made = m.x, m.scale, []
    for branch in branches:
        m.x, m.scale = start, scale
        made.append(branch(m).x)
    return made


def start(shape: tuple[int, ...] = (1, 3, 6, 5)) -> Qdq:
    """A tensor behind a convolution, so that it is the hardware's own."""
    return Qdq(shape).qdq(0.0313, 4).conv((4, shape[1], 3, 3), pads=(1, 1, 1, 1)).node("Relu").qdq(0.0617, -128)


def join(m: Qdq, op: str, names: list[str], **attributes: object) -> Qdq:
    m.x = m.b.node(op, *names, name=m.name(op.lower()), **attributes)
    return m


def branch(scale: float = 0.1043, zero: int = 5, channels: int = 4) -> Callable[[Qdq], Qdq]:
    return lambda m: m.conv((channels, 4, 1, 1)).qdq(scale, zero)


def same(m: Qdq) -> Qdq:
    return m


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("relu", [False, True])
def test_residual(op: str, relu: bool) -> None:
    m = start()
    join(m, op, fork(m, same, branch()))
    if relu:
        m.node("Relu")
    q = assert_agrees(m.qdq(0.1127, -20).model(), 0.1127)
    assert kinds(q) == ["conv", "conv", "multiply" if op == "Mul" else "add"]
    joined = q.graph.layers[-1]
    assert isinstance(joined, (Add, Multiply))
    assert (joined.low == -20) is relu
    assert q.graph.consumers(q.graph.layers[0].output) == (q.graph.layers[1], joined)


def test_the_larger_ratio_of_a_sum_has_all_bits_of_a_multiplier() -> None:
    m = start()
    q = quantize(join(m, "Add", fork(m, same, branch(0.00017))).qdq(0.1127, 0).model())
    (joined,) = (layer for layer in q.graph.layers if isinstance(layer, Add))
    assert max(joined.multipliers).bit_length() == 18
    for m, scale in zip(joined.multipliers, (0.0617, 0.00017), strict=True):
        assert abs(m / 2**joined.shift - scale / 0.1127) < 2.0**-17


def test_the_smaller_ratio_of_a_sum_has_them_where_the_larger_needs_few() -> None:
    m = start()
    q = quantize(join(m, "Add", fork(m, same, branch(0.00017))).qdq(0.0617, 0).model())
    (joined,) = (layer for layer in q.graph.layers if isinstance(layer, Add))
    assert joined.multipliers[0] == 1 << joined.shift
    assert abs(joined.multipliers[1] / 2**joined.shift / (0.00017 / 0.0617) - 1) < 2.0**-17


def test_an_operand_may_be_used_twice() -> None:
    m = start()
    q = assert_agrees(join(m, "Add", [m.x, m.x]).qdq(0.1127, 0).model(), 0.1127)
    assert kinds(q) == ["conv", "lookup"]


def test_operands_may_be_multiplied_with_constants() -> None:
    m = start()
    first, second = fork(m, lambda m: m.node("Mul", m.constant("half", np.float32(0.5))), branch())
    assert kinds(assert_agrees(join(m, "Sub", [first, second]).qdq(0.09, 3).model(), 0.09)) == ["conv", "conv", "add"]


@pytest.mark.parametrize("swapped", [False, True])
def test_squeeze_and_excitation(swapped: bool) -> None:
    m = start()

    def gate(m: Qdq) -> Qdq:
        m.node("GlobalAveragePool").qdq(0.03, -128).conv((4, 4, 1, 1)).qdq(0.05, 0)
        return m.node("Sigmoid").qdq(1 / 256, -128)

    pair = fork(m, same, gate)
    q = assert_agrees(join(m, "Mul", pair[::-1] if swapped else pair).qdq(0.0417, -128).model(), 0.0417)
    assert kinds(q) == ["conv", "average_pool", "conv", "lookup", "multiply"]


def test_one_number_for_all_elements() -> None:
    m = start()
    pair = fork(m, same, lambda m: m.conv((1, 4, 6, 5)).qdq(0.21, 3))
    assert kinds(assert_agrees(join(m, "Add", pair).qdq(0.1, 7).model(), 0.1, share=0.98)) == ["conv", "conv", "add"]


@pytest.mark.parametrize("relu", [False, True])
def test_concat_over_channels(relu: bool) -> None:
    m = start()
    join(m, "Concat", fork(m, same, branch(0.1043, 5, 3), branch(0.0617, -128, 2)), axis=1)
    if relu:
        m.node("Relu")
    q = assert_agrees(m.qdq(0.0617, -128).conv((5, 9, 2, 2)).qdq(0.3, 0).model(), 0.3, share=0.995)
    assert kinds(q) == ["conv", "conv", "conv", *["lookup"] * (3 if relu else 1), "concat", "conv"]


def test_parts_of_a_concat_need_no_quantizers_of_their_own() -> None:
    m = start()
    parts = fork(m, lambda m: m.conv((3, 4, 1, 1)), lambda m: m.conv((2, 4, 1, 1)))
    q = assert_agrees(join(m, "Concat", parts, axis=1).node("Relu").qdq(0.09, -128).model(), 0.09)
    assert kinds(q) == ["conv", "conv", "conv", "concat"]
    assert isinstance(q.graph.layers[-1], Concat)


def test_concat_of_one_scale_needs_no_quantizer() -> None:
    m = start()
    join(m, "Concat", fork(m, branch(), branch(channels=2)), axis=1)
    q = assert_agrees(m.conv((5, 6, 2, 2)).qdq(0.3, 0).model(), 0.3, share=0.995)
    assert kinds(q) == ["conv", "conv", "conv", "concat", "conv"]


def test_concat_of_integers() -> None:
    m = start()
    parts = fork(m, lambda m: m.conv((3, 4, 1, 1)).quantize(0.1, 3), lambda m: m.conv((2, 4, 1, 1)).quantize(0.1, 3))
    join(m, "Concat", parts, axis=1).dequantize(0.1, 3)
    assert kinds(assert_agrees(m.conv((5, 5, 2, 2)).qdq(0.3, 0).model(), 0.3, share=0.995))[-2:] == ["concat", "conv"]


def test_a_result_with_two_quantizers_is_two_layers() -> None:
    m = start()
    m.conv((4, 4, 1, 1))
    join(m, "Add", fork(m, lambda m: m.qdq(0.1, 3), lambda m: m.node("Relu").qdq(0.2, -128)))
    assert kinds(assert_agrees(m.qdq(0.3, 0).model(), 0.3, share=0.995)) == ["conv", "conv", "conv", "add"]


def test_equal_quantizers_of_a_result_are_one_layer() -> None:
    m = start()
    m.conv((4, 4, 1, 1))
    join(m, "Add", fork(m, lambda m: m.qdq(0.1, 3).conv((4, 4, 1, 1)).qdq(0.1, 3), lambda m: m.qdq(0.1, 3)))
    assert kinds(assert_agrees(m.qdq(0.3, 0).model(), 0.3, share=0.995)) == ["conv", "conv", "conv", "add"]


def test_a_max_pool_with_two_quantizers() -> None:
    m = start()
    m.conv((4, 4, 1, 1)).node("MaxPool", kernel_shape=(2, 2))
    join(m, "Add", fork(m, lambda m: m.qdq(0.1, 3), lambda m: m.node("Relu").qdq(0.2, -128)))
    q = assert_agrees(m.qdq(0.3, 0).model(), 0.3, share=0.995)
    assert sorted(kinds(q)) == ["add", "conv", "conv", "conv", "max_pool", "max_pool"]


@pytest.mark.parametrize("functions", [(), ("Relu",)])
def test_a_quantizer_behind_a_global_max_pool(functions: tuple[str, ...]) -> None:
    """It moves in front of the pool, which ONNX has for floats alone."""
    m = start().conv((4, 4, 1, 1)).node("GlobalMaxPool")
    for op in functions:
        m.node(op)
    q = assert_agrees(m.qdq(0.05, 0, np.uint8).conv((3, 4, 1, 1)).qdq(0.1, 0).model(), 0.1)
    assert kinds(q)[-3:] == ["conv", "max_pool", "conv"]


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


def test_an_input_read_through_two_transposes() -> None:
    m = Qdq((1, 6, 5, 3)).qdq(0.0517, 9)

    def read(m: Qdq) -> Qdq:
        return m.node("Transpose", perm=(0, 3, 1, 2)).conv((4, 3, 3, 3)).qdq(0.1043, 0)

    q = assert_agrees(join(m, "Add", fork(m, read, read)).qdq(0.2, 0).model(), 0.2)
    assert len(q.graph.inputs) == 1


def test_an_input_as_an_image_and_as_a_row() -> None:
    m = Qdq((1, 3, 6, 5)).qdq(0.0517, 9)

    def image(m: Qdq) -> Qdq:
        return m.conv((4, 3, 6, 5)).qdq(0.5, 0).node("Flatten")

    pair = fork(m, image, lambda m: m.node("Flatten").matmul(90, 4).qdq(0.5, 0))
    assert_agrees(join(m, "Add", pair).qdq(0.8, 0).model(), 0.8)


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
    join(m, "Add", [first, second]).qdq(0.1, 1)
    m.b.output(m.x)
    q = everything_agrees(m.conv((2, 4, 6, 6)).qdq(0.1, 0).model(), 0.1)
    assert len(q.graph.inputs) == 2
    assert len(q.graph.outputs) == 3
    assert q.graph.outputs == tuple(value.name for value in q.epilogue.graph.inputs)


def test_inputs_may_meet_in_the_first_layer() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.0313, 4)
    first = m.x
    m.x = m.b.input("other", np.float32, (1, 3, 6, 6))
    q = everything_agrees(join(m, "Add", [first, m.qdq(0.0417, -7).x]).qdq(0.05, 1).model(), 0.05)
    assert kinds(q) == ["add"]


def test_a_sum_at_the_end_runs_on_the_host() -> None:
    m = start()
    q = assert_agrees(join(m, "Add", fork(m, same, branch())).model(), 0.1043)
    assert kinds(q) == ["conv", "conv"]
    assert "Add" in q.notes[-1]


def test_a_graph_survives_its_file_and_a_second_import() -> None:
    m = start()
    join(m, "Concat", fork(m, same, branch(0.1043, 5, 3)), axis=1)
    model = m.qdq(0.0617, -128).model()
    q = quantize(model)
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph


def test_the_twin_has_the_reals_of_every_tensor() -> None:
    m = start()
    join(m, "Concat", fork(m, same, branch(0.1043, 5, 3)), axis=1).node("Relu").quantize(0.0617, -128)
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
