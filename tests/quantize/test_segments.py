"""Functions of wide integers: every input against numpy's float64, the bound that is stated, networks in hardware."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hwflow
from hwflow import golden, onnx
from hwflow.layers import Segments
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from tests.quantize.models import Qdq

Floats = np.ndarray


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


#: For each operator: what it computes, the ends of input and output, its attributes, the segments and the bound that
#: are not exceeded.
FUNCTIONS: dict[str, tuple[Callable[[Floats], Floats], tuple[float, float], tuple[float, float], int, int]] = {
    "Sigmoid": (sigmoid, (-8, 8), (0, 1), 320, 1),
    "Tanh": (np.tanh, (-4, 4), (-1, 1), 320, 1),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), (-6.1, 7.3), (-0.375, 7.3), 512, 1),
    "Exp": (np.exp, (-10, 0.5), (0, 1.6), 512, 1),
    "Log": (np.log, (0, 2), (-10.4, 0.7), 700, 1),
    "Sqrt": (np.sqrt, (0, 100), (0, 10), 512, 1),
    "Reciprocal": (lambda x: 1 / x, (0, 10), (0, 90), 700, 1),
    "Softplus": (lambda x: np.logaddexp(0, x), (-9, 10), (0, 10), 256, 1),
    "Abs": (np.abs, (-3, 5), (0, 5), 64, 1),
    "Floor": (np.floor, (-40, 60), (-40, 60), 1024, 400),
}


def parameters(ends: tuple[float, float]) -> tuple[float, int]:
    """Scale and zero point of int16 for these ends."""
    scale = np.float32((ends[1] - ends[0]) / 65535)
    return float(scale), int(-32768 - round(ends[0] / float(scale)))


def every_input(operator: str) -> tuple[Segments, Floats]:
    """The layer of an operator, and how far its results are from numpy's for each of 65 536 integers, in steps."""
    function, x_ends, y_ends, _, _ = FUNCTIONS[operator]
    (x_scale, x_zero), (y_scale, y_zero) = parameters(x_ends), parameters(y_ends)
    # Between layers: else the host would compute some of the functions.
    m = Qdq((1, 1, 256, 256)).qdq(x_scale, x_zero, np.int16).node("MaxPool", kernel_shape=(1, 1)).node(operator)
    m.qdq(y_scale, y_zero, np.int16).conv((1, 1, 1, 1)).qdq(1.0, 0)
    quantized = quantize(m.model(opset=22))
    (layer,) = (layer for layer in quantized.graph.layers if isinstance(layer, Segments))
    codes = np.arange(-32768, 32768)
    made = layer.evaluate(quantized.graph, codes.reshape(1, 256, 256, 1)).ravel()
    with np.errstate(all="ignore"):
        exact = function((codes - x_zero) * float(np.float32(x_scale))) / y_scale + y_zero
    return layer, np.abs(made - np.clip(np.nan_to_num(exact, nan=-32768), -32768, 32767))


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_every_input_is_within_the_bound(operator: str) -> None:
    layer, far = every_input(operator)
    _, _, _, segments, bound = FUNCTIONS[operator]
    assert layer.bound <= bound
    assert len(layer.lines) <= segments
    assert layer.bound == 1 or far.max() > layer.bound - 0.5 - 0.01  # it is no estimate
    assert far.max() <= layer.bound + 0.5 + 0.01  # a hundredth of a step for float32, in which the operator is defined


def gated() -> tuple[Any, dict[str, np.ndarray]]:
    """Squeeze and excitation with HardSwish and Sigmoid, and x * sigmoid(x); 30 rows."""
    rng, b = np.random.default_rng(3), Builder("gated")

    def conv(x: str, name: str, channels: int) -> str:
        weights = rng.standard_normal((channels, 2, 1, 1)).astype(np.float32)
        return b.node("Conv", x, b.constant(f"{name}.w", weights), name=name)

    x = b.input("x", np.float32, (1, 2, 3, 4))
    a = b.node("HardSwish", conv(x, "first", 2), name="swish")
    g = b.node("Sigmoid", b.node("GlobalAveragePool", a, name="mean"), name="gate")
    y = b.node("Mul", a, g, name="scaled")
    b.output(conv(b.node("Mul", y, b.node("Sigmoid", y, name="silu"), name="swish2"), "last", 2))
    return onnx.infer(b.model(opset=22)), {"x": rng.standard_normal((30, 1, 2, 3, 4)).astype(np.float32)}


def test_a_network_of_16_bits_in_simulation(tmp_path: Path) -> None:
    model, rows = gated()
    quantized = hwflow.quantize_model(model, rows, bits=(8, 16))
    segments = [layer for layer in quantized.graph.layers if isinstance(layer, Segments)]
    assert len(segments) == 3
    assert [note for note in quantized.notes if note.startswith("3 functions of more than 14 bits are computed in ")]
    plan = hwflow.make_plan(quantized, "ulx3s_85f")
    three = {"x": rows["x"][:3]}
    result = hwflow.simulate(quantized, plan, three, folder=tmp_path)
    assert result.equal
    assert result.interval == plan.interval


def test_16_bits_are_nearer_than_8() -> None:
    model, rows = gated()
    noise = []
    expected = np.concatenate([next(iter(onnx.evaluate(model, {"x": row}).values())) for row in rows["x"]])
    for bits in ((8, 8), (8, 16)):
        made = next(iter(golden.predict(hwflow.quantize_model(model, rows, bits=bits), rows).values()))
        noise.append(np.square(made.reshape(expected.shape) - expected).mean())
    assert noise[1] < noise[0] / 2
