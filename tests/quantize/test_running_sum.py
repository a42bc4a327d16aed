"""CumSum in hardware: along every axis, from both ends, with and without its own element."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow import onnx as hwonnx
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize

RNG = np.random.default_rng(7)
ROWS = RNG.normal(size=(60, 1, 3, 6, 5)).astype(np.float32)
WEIGHTS = (RNG.normal(size=(4, 3, 3, 3)) / 5).astype(np.float32)


def network(axis: int, **attributes: int) -> Builder:
    b = Builder("sums")
    x = b.input("x", np.float32, (1, 3, 6, 5))
    c = b.node("Conv", x, b.constant("w", WEIGHTS), name="c")
    s = b.node("CumSum", c, b.constant("axis", np.array(axis)), name="s", **attributes)
    b.output(b.node("Conv", s, b.constant("v", WEIGHTS[:, :, :1, :1].reshape(3, 4, 1, 1)), output="y"))
    return b


@pytest.mark.parametrize(("axis", "reverse", "exclusive"), [(1, 0, 0), (2, 1, 0), (-1, 0, 1), (3, 1, 1)])
def test_sums_so_far(axis: int, reverse: int, exclusive: int) -> None:
    model = network(axis, reverse=reverse, exclusive=exclusive).model()
    runtime = onnxruntime.InferenceSession(hwonnx.dumps(model), providers=["CPUExecutionProvider"])
    expected = np.stack([runtime.run(["y"], {"x": row})[0] for row in ROWS])
    quantized = quantize(model, {"x": ROWS})
    assert "running_sum" in [layer.kind for layer in quantized.graph.layers]
    noise = golden.predict(quantized, {"x": ROWS})["y"].reshape(expected.shape) - expected
    assert 10 * np.log10(np.mean(expected**2) / np.mean(noise**2)) > 30, "dB, 8 bits"


def test_frames_are_not_summed() -> None:
    with pytest.raises(HwflowError, match=r"'s' \(CumSum\): it sums over an axis of one element, as the batch is"):
        quantize(network(0).model(), {"x": ROWS})
