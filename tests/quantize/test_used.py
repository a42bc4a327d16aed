"""Elements that are cut off: they have no say in what an integer step is worth, nor in the noise of a layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow import onnx
from hwflow.accuracy.layers import layer_noise
from hwflow.quantize import quantize
from hwflow.quantize.calibrate.ranges import used_elements
from tests.quantize.net import Net, data


def cut(n: Net, x: str, start: int, end: int, axis: int) -> str:
    return n.node("Slice", x, *(n.constant([value], np.int64) for value in (start, end, axis)))


def split(n: Net, x: str) -> str:
    n.b.nodes("Split", x, n.constant([1, 3], np.int64), outputs=("front", "back"), name="split", axis=2)
    return "back"


#: From a tensor of ones with a bare 100 in the first row to what reads it; and how many rows of four that leaves.
READERS: dict[str, tuple[Callable[[Net, str], str], int]] = {
    "cut off": (lambda n, x: cut(n, x, 1, 4, 2), 3),
    "the other part": (split, 3),
    "behind a function": (lambda n, x: cut(n, n.node("Tanh", x), 1, 4, 2), 3),
    "turned and cut": (lambda n, x: cut(n, n.node("Transpose", x, perm=(0, 1, 3, 2)), 2, 4, 3), 2),
    "read by others, too": (lambda n, x: n.node("Add", n.node("ReduceMax", x, keepdims=1), cut(n, x, 1, 4, 2)), 4),
    "padded": (lambda n, x: n.pad(cut(n, x, 1, 4, 2), (0, 0, 1, 0, 0, 0, 0, 0)), 3),
    "all of it": (lambda n, x: n.node("Flatten", x), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_what_is_used(name: str) -> None:
    """Changing what is not used changes nothing, and changing anything else does."""
    read, rows = READERS[name]
    n = Net((2, 4, 5))
    x = n.node("Relu", n.x)
    model = onnx.infer(n.model(read(n, x)))
    found = used_elements(model, [x])
    mask = found.get(x, np.ones((1, 2, 4, 5), np.bool_))
    assert (x in found) == (rows < 4)
    assert mask.any(axis=(0, 1, 3)).sum() == rows
    given = np.random.default_rng(0).uniform(0.5, 1, (1, 2, 4, 5)).astype(np.float32)
    (output,) = (value.name for value in model.graph.outputs)

    def result(change: np.ndarray) -> np.ndarray:
        return np.asarray(onnx.evaluate(model, {"input": given + change.astype(np.float32)})[output])

    np.testing.assert_array_equal(result(np.where(mask, 0, 1)), result(np.zeros(mask.shape)))
    assert not np.array_equal(result(np.where(mask, 1, 0)), result(np.zeros(mask.shape)))


def test_pixels_that_a_transposed_convolution_cuts_off() -> None:
    """Its first row of pixels is 50 times as large as the others, and its pads are that row."""
    n = Net((3, 6, 6))
    x = n.relu(n.conv(n.x, 3, (3, 3)))
    weights = n.normal(3, 2, 2, 2, deviation=0.3)
    weights[:, :, 0] *= 50
    y = n.node("ConvTranspose", x, n.constant(weights), channels=2, strides=(12, 2), pads=(1, 0, 0, 0))
    y = cut(n, y, 0, 11, 2)
    n.channels[y] = 2
    model = n.model(n.relu(n.conv(y, 4, (3, 3))))
    rows = data(model)
    quantized = quantize(model, rows)
    noise = {row.layer: row for row in layer_noise(quantized, rows)}
    (made,) = (row for name, row in noise.items() if "transpose" in name and row.kind == "transposed conv")
    assert made.saturated == 0
    assert made.snr_db is not None
    assert made.snr_db > 35
