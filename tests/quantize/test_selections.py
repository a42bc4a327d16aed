"""Slice, Split and Gather between layers: layers with the same values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow import onnx
from hwflow.errors import HwflowError
from hwflow.quantize import quantize
from hwflow.quantize.passes.selections import selections_to_layers
from tests.quantize.models import Qdq, assert_agrees, kinds
from tests.quantize.net import Net, data


def numbers(n: Net, *values: int) -> str:
    return n.constant(values, np.int64)


def sliced(n: Net, x: str, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...], *steps: int) -> str:
    if n.opset < 10:
        return n.node("Slice", x, starts=starts, ends=ends, axes=axes)
    inputs = [numbers(n, *values) for values in (starts, ends, axes, steps or (1,) * len(axes))]
    return n.node("Slice", x, *inputs)


def halves(n: Net, x: str) -> str:
    """Split, and both parts joined the other way round."""
    sizes, stated = ((), {"split": (2, 4)}) if n.opset < 13 else ((numbers(n, 2, 4),), {})
    a, b = n.b.nodes("Split", x, *sizes, outputs=("a", "b"), axis=1, name="split", **stated)
    return n.node("Concat", b, a, axis=1, channels=6)


CASES: dict[str, tuple[Callable[[Net, str], str], list[str]]] = {
    "slice": (lambda n, x: sliced(n, x, (1,), (4,), (1,)), ["Conv"]),
    "split": (halves, ["Conv", "Conv", "Concat"]),
    "gather": (lambda n, x: n.node("Gather", x, numbers(n, 5, 0, 0), axis=1), ["Conv"]),
    "backwards": (lambda n, x: sliced(n, x, (5,), (-99,), (1,), -2), ["Conv"]),
    "every other pixel": (lambda n, x: sliced(n, x, (0, 0), (99, 99), (2, 3), 2, 2), ["MaxPool"]),
    "every third row": (lambda n, x: sliced(n, x, (0,), (99,), (-2,), 3), ["MaxPool"]),
}


@pytest.mark.parametrize("opset", [9, 11, 17])
@pytest.mark.parametrize("case", CASES)
def test_images(case: str, opset: int) -> None:
    if opset < 10 and case in ("backwards", "every other pixel", "every third row"):
        pytest.skip("Slice has steps since operator set 10")
    n, (build, expected) = Net((3, 7, 8), opset=opset), CASES[case]
    x = build(n, n.conv(n.x, 6, (3, 3)))
    model = onnx.infer(n.model(n.node("GlobalAveragePool", x)))
    made = selections_to_layers(model)
    assert [node.op_type for node in made.graph.nodes] == ["Conv", *expected, "GlobalAveragePool"]
    feeds = {name: rows[0] for name, rows in data(model, 1).items()}
    (before,), (after,) = (list(onnx.evaluate(m, feeds).values()) for m in (model, made))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_a_row() -> None:
    n = Net((9,))
    x = n.node("Gather", n.relu(n.gemm(n.x, 6)), numbers(n, 4, 1), axis=1, channels=2)
    q = quantize(onnx.infer(n.model(n.gemm(x, 3))))
    assert kinds(q) == ["dense", "dense", "dense"]


@pytest.mark.parametrize(
    "cut", [((1,), (5,), (2,)), ((1, 0), (99, 99), (2, 3), 2, 2)], ids=["a window", "from the second on"]
)
def test_other_selections_are_refused(cut: tuple[tuple[int, ...], ...]) -> None:
    n = Net((3, 8, 8))
    n.x = n.unit(n.x, 4)
    with pytest.raises(HwflowError, match=r"\(Slice\): operator Slice has no hardware"):
        quantize(onnx.infer(n.model(n.conv(sliced(n, n.x, *cut), 3, (1, 1)))))


def start() -> Qdq:
    return Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((6, 3, 3, 3), pads=(1, 1, 1, 1)).qdq(0.0617, -100)


@pytest.mark.parametrize("quantized", [False, True])
def test_between_quantizers(quantized: bool) -> None:
    m = start()
    m.node("Gather", m.constant("which", np.array([5, 0, 2])), axis=1)
    if quantized:
        m.qdq(0.0617, -100)
    q = assert_agrees(m.conv((4, 3, 3, 3)).qdq(0.5, 0).model(), 0.5, share=0.995)
    assert kinds(q) == ["conv"] * 3
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph


def test_of_integers() -> None:
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((6, 3, 3, 3), pads=(1, 1, 1, 1)).quantize(0.0617, -100)
    m.node("MaxPool", kernel_shape=(2, 2)).node("Gather", m.constant("which", np.array([5, 0, 2])), axis=1)
    q = assert_agrees(m.dequantize(0.0617, -100).conv((4, 3, 3, 3)).qdq(0.5, 0).model(), 0.5, share=0.995)
    assert kinds(q) == ["conv", "max_pool", "conv", "conv"]


def test_pixels_between_quantizers() -> None:
    m = start()
    parts = [m.constant("part", np.array(value)) for value in ([0, 0], [9, 9], [2, 3], [2, 2])]
    q = assert_agrees(m.node("Slice", *parts).conv((4, 6, 1, 1)).qdq(0.5, 0).model(), 0.5, share=0.995)
    assert kinds(q) == ["conv", "max_pool", "conv"]
