"""Models of operator sets below 13: their integers against numpy, whatever the old form is; training is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hwflow.golden import predict
from hwflow.onnx import Model
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from hwflow.quantize.problems import NoHardware

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(16, 1, 3, 6, 6)).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)
PER_CHANNEL, PER_ROW = (RNG.normal(size=n).astype(np.float32) for n in (4, 6))
SLOPES = np.float32([0.1, 0.5, -0.2, 1])


def old(op: str, opset: int, *constants: np.ndarray, outputs: int = 1, **attributes: Any) -> Model:
    """A convolution with the kernel W [4, 3] in front of the node."""
    b = Builder("old")
    x = b.node("Conv", b.input("x", np.float32, (1, 3, 6, 6)), b.constant("w", W[..., None, None]), name="conv")
    names = [b.constant(f"k{i}", value) for i, value in enumerate(constants)]
    b.output(b.nodes(op, x, *names, outputs=[f"y{i}" for i in range(outputs)], name="op", **attributes)[0], np.float32)
    return b.model(opset=opset)


def concat() -> Model:
    """Version 1 without an axis."""
    b = Builder("old")
    x = b.node("Conv", b.input("x", np.float32, (1, 3, 6, 6)), b.constant("w", W[..., None, None]), name="conv")
    b.output(b.node("Concat", x, b.node("Relu", x, name="relu"), name="op"), np.float32)
    return b.model(opset=1)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=(2, 3, 4), keepdims=True))
    return e / e.sum(axis=(2, 3, 4), keepdims=True)


def normalized(x: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    scale, bias, mean, variance = parameters
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


def statistics(*shape: int) -> list[np.ndarray]:
    return [RNG.uniform(0.5, 1.5, shape).astype(np.float32) for _ in range(4)]


CHANNELS, EVERY = statistics(4), statistics(4, 6, 6)

#: The model, and what it computes of the convolution's result [rows, 1, 4, 6, 6].
CASES: dict[str, tuple[Model, Callable[[np.ndarray], np.ndarray]]] = {
    "Softmax": (old("Softmax", 9), softmax),
    "LogSoftmax": (old("LogSoftmax", 11, axis=-3), lambda x: np.log(softmax(x))),
    "Add axis=1": (old("Add", 6, PER_CHANNEL, broadcast=1, axis=1), lambda x: x + PER_CHANNEL[:, None, None]),
    "Mul axis=2": (old("Mul", 6, PER_ROW, broadcast=1, axis=2), lambda x: x * PER_ROW[:, None]),
    "Div": (old("Div", 1, np.float32([2]), broadcast=1, consumed_inputs=[0, 0]), lambda x: x / 2),
    "BatchNormalization": (old("BatchNormalization", 6, *CHANNELS, is_test=1),
                           lambda x: normalized(x, *(p[:, None, None] for p in CHANNELS))),
    "BatchNormalization spatial=0": (old("BatchNormalization", 7, *EVERY, spatial=0), lambda x: normalized(x, *EVERY)),
    "PRelu": (old("PRelu", 6, SLOPES), lambda x: np.where(x < 0, x * SLOPES[:, None, None], x)),
    "Clip": (old("Clip", 6, min=-0.5), lambda x: np.maximum(x, -0.5)),
    "TopK": (old("TopK", 1, k=2, axis=1, outputs=2), lambda x: -np.sort(-x, axis=2)[:, :, :2]),
    "Reshape": (old("Reshape", 1, shape=[1, 8, 3, 6]), lambda x: x.reshape(-1, 1, 8, 3, 6)),
    "Pad": (old("Pad", 1, paddings=[0, 0, 1, 0, 0, 0, 0, 2]), lambda x: np.pad(x, ((0, 0),) * 3 + ((1, 0), (0, 2)))),
    "Concat": (concat(), lambda x: np.concatenate([x, np.maximum(x, 0)], 2)),
    "Upsample": (old("Upsample", 7, scales=[1.0, 1.0, 2.0, 1.0]), lambda x: x.repeat(2, 3)),
    "Dropout": (old("Dropout", 6, is_test=1), lambda x: x),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_integers_mean_what_the_old_form_means(name: str) -> None:
    model, function = CASES[name]
    (found,) = list(predict(quantize(model, {"x": ROWS}), {"x": ROWS}).values())[:1]
    expected = function(np.einsum("oc,rnchw->rnohw", W, ROWS).astype(np.float64))
    assert found.shape == expected.shape
    noise = ((found - expected) ** 2).mean()
    assert 10 * np.log10((expected**2).mean() / noise) > 30, "integers of 8 bits are nearer than that"


BATCH = "'op' (BatchNormalization): normalizes with the statistics of the batch, as in training"
DROPS = "'op' (Dropout): drops elements at random, as in training"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (old("BatchNormalization", 6, *CHANNELS), BATCH),
        (old("BatchNormalization", 9, *CHANNELS, outputs=5), BATCH),
        (old("BatchNormalization", 14, *CHANNELS, outputs=3, training_mode=1), BATCH),
        (old("Dropout", 6, ratio=0.25), DROPS),
        (old("Dropout", 1, ratio=0.25, consumed_inputs=[0]), DROPS),
    ],
)
def test_training_is_refused(model: Model, why: str) -> None:
    with pytest.raises(NoHardware) as caught:
        quantize(model, {"x": ROWS})
    assert why in str(caught.value)
    assert "export the model for inference" in str(caught.value)
