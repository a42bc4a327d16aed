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


def spectrum(norm: str) -> tuple[Any, dict[str, np.ndarray]]:
    """The logarithm of the power of 8 frequencies over six decades, or a norm, between two convolutions; 40 rows."""
    rng, b = np.random.default_rng(3), Builder("spectrum")
    angle = 2 * np.pi * np.arange(8)[:, None] * np.arange(16) / 16
    x = b.input("x", np.float32, (1, 1, 1, 64))
    waves = np.concatenate([np.cos(angle), np.sin(angle)])[:, None, None].astype(np.float32)
    y = b.node("Conv", x, b.constant("waves", waves), name="waves", strides=(1, 4))
    y = b.node("Reshape", y, b.constant("shape", np.array([1, 2, 8, 13], np.int64)), name="pairs")
    axes = b.constant("axes", np.array([1], np.int64))
    if norm == "power":
        s = b.node("ReduceSum", b.node("Mul", y, y, name="square"), axes, name="power", keepdims=1)
        s = b.node("Log", b.node("Add", s, b.constant("least", np.float32(1e-7)), name="floor"), name="log")
    else:
        s = b.node(norm, y, axes, name="norm", keepdims=1)
    weights = rng.normal(size=(3, 1, 3, 3)).astype(np.float32)
    b.output(b.node("Conv", s, b.constant("last.w", weights), name="last"))
    loud = 10 ** rng.uniform(-3, 0, (40, 1, 1, 1, 1))
    rows = (loud * np.sin(np.arange(64) * rng.uniform(0.1, 3, (40, 1, 1, 1, 1)))).astype(np.float32)
    return onnx.infer(b.model(opset=18)), {"x": rows}


def decibels(model: Any, rows: dict[str, np.ndarray], bits: tuple[int, int]) -> tuple[float, list[str]]:
    """How near the integers are to the model, and the kinds of layers."""
    expected = np.concatenate([next(iter(onnx.evaluate(model, {"x": row}).values())) for row in rows["x"]])
    quantized = hwflow.quantize_model(model, rows, bits=bits)
    made = next(iter(golden.predict(quantized, rows).values())).reshape(expected.shape)
    ratio = np.square(expected).mean() / np.square(made - expected).mean()
    return 10 * np.log10(ratio), [layer.kind for layer in quantized.graph.layers]


def test_a_logarithm_over_decades_has_exact_squares() -> None:
    """Squares of 16 bits are 31 bits, nothing rounds them or their sum, and the logarithm has octaves."""
    noise, kinds = decibels(*spectrum("power"), (8, 16))
    assert noise > 40
    assert kinds == ["conv", "rearrange", "multiply", "average_pool", "segments", "rearrange", "conv"]


@pytest.mark.slow
def test_exact_squares_in_simulation(tmp_path: Path) -> None:
    model, rows = spectrum("power")
    quantized = hwflow.quantize_model(model, rows, bits=(8, 16))
    plan = hwflow.make_plan(quantized, "ulx3s_85f")
    assert hwflow.simulate(quantized, plan, {"x": rows["x"][:3]}, folder=tmp_path).equal


@pytest.mark.parametrize("norm", ["ReduceL1", "ReduceL2", "ReduceSumSquare"])
def test_norms_of_16_bits(norm: str) -> None:
    assert decibels(*spectrum(norm), (8, 16))[0] > 35


def test_attention_of_16_bits_is_planned() -> None:
    """A Softmax takes 12 bits, products of two computed tensors 15 where the zero point may be anywhere."""
    rng, b = np.random.default_rng(3), Builder("attention")
    x = b.input("x", np.float32, (1, 6, 8))
    q, k, v = (b.node("MatMul", x, b.constant(f"w{name}", rng.normal(size=(8, 8)).astype(np.float32)), name=name)
               for name in "qkv")
    scores = b.node("MatMul", q, b.node("Transpose", k, name="turned", perm=[0, 2, 1]), name="scores")
    shares = b.node("Softmax", scores, name="shares")
    last = b.constant("last.w", rng.normal(size=(8, 4)).astype(np.float32))
    b.output(b.node("MatMul", b.node("MatMul", shares, v, name="mixed"), last, name="last"))
    rows = {"x": rng.normal(size=(20, 1, 6, 8)).astype(np.float32)}
    quantized = hwflow.quantize_model(onnx.infer(b.model(opset=18)), rows, bits=(8, 16))
    said = "the integers of '{}' have {} bits, not 16: {}"
    table, factor = "a Softmax reads them, whose table is for no more", "less their zero point they must be factors of "
    assert said.format("scores", 12, table) in quantized.notes
    for name in ("q", "k", "v", "shares"):
        assert said.format(name, 15, f"{factor}16 bits with a sign") in quantized.notes
    assert hwflow.make_plan(quantized, "ulx3s_85f").interval > 0
