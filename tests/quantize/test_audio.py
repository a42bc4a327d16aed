"""The front of audio models: frames, Fourier transform, mel bands and logarithm, as layers."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import golden
from hwflow.onnx import infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.models import kinds, runtime

LENGTH, FRAME, STEP, BINS = 160, 32, 16, 17
RANDOM = np.random.default_rng(2)


def rows(count: int = 60) -> np.ndarray:
    """Tones of any pitch, and noise."""
    time = np.arange(LENGTH)
    pitch, loud = RANDOM.uniform(0.02, 0.45, (count, 1)), RANDOM.uniform(0.2, 1, (count, 1))
    tones = loud * np.sin(2 * np.pi * pitch * time + RANDOM.uniform(0, 6, (count, 1)))
    return (tones + RANDOM.normal(0, 0.05, (count, LENGTH))).astype(np.float32)


def spectrum(b: Builder, x: str, how: str) -> str:
    """[1, LENGTH] to [1, frames, BINS, 2], as exporters write it: the operator, or frames by Gather and a DFT."""
    if how == "STFT":
        signal = b.node("Unsqueeze", x, b.constant("last", np.array([2])))
        window = b.node("HannWindow", b.constant("size", np.int64(FRAME)), name="window")
        return b.node("STFT", signal, b.constant("step", np.int64(STEP)), window, name="stft", onesided=1)
    starts = np.arange(0, LENGTH - FRAME + 1, STEP)[:, None]
    frames = b.node("Gather", x, b.constant("frames", starts + np.arange(FRAME)), axis=1)
    column = b.node("Unsqueeze", frames, b.constant("last", np.array([3])))
    return b.node("DFT", column, b.constant("length", np.int64(FRAME)), name="dft", axis=2, onesided=1)


def features(how: str) -> Model:
    """The logarithm of the power in eight mel bands."""
    b = Builder()
    found = spectrum(b, b.input("x", np.float32, (1, LENGTH)), how)
    parts = b.nodes("Split", found, b.constant("one", np.array([1, 1])), outputs=("re", "im"), axis=3)
    power = b.node("Add", *(b.node("Mul", part, part) for part in parts))
    flat = b.node("Squeeze", power, b.constant("third", np.array([3])))
    numbers = {"bins": np.int64(8), "of": np.int64(FRAME), "rate": np.int64(8000), "low": np.float32(100),
               "high": np.float32(3500)}  # fmt: skip
    bands = b.node("MelWeightMatrix", *(b.constant(name, value) for name, value in numbers.items()), name="bands")
    mel = b.node("MatMul", flat, bands, name="mel")
    b.output(b.node("Log", b.node("Add", mel, b.constant("floor", np.float32(1)))), np.float32)
    return b.model(opset=17)


@pytest.mark.parametrize("how", ["STFT", "DFT"])
def test_the_front_is_layers(how: str) -> None:
    """Of products and tables; what is left for the host are the logarithm of the result and the order of elements."""
    model, feeds = features(how), {"x": rows()[:, None]}
    quantized = quantize(model, feeds)
    assert set(kinds(quantized)) <= {"conv", "lookup", "add", "rearrange", "multiply"}
    assert not {node.op_type for node in quantized.prologue.graph.nodes} & {"STFT", "DFT", "MatMul"}
    name = model.graph.outputs[0].name
    found, expected = golden.predict(quantized, feeds)[name], runtime(model, feeds)
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.99


@pytest.mark.parametrize(("length", "onesided"), [(None, 1), (24, 0), (48, 1)])
def test_a_transform_of_a_whole_signal(length: int | None, onesided: int) -> None:
    """Cut off or filled with zeros to the length that is asked for."""
    b = Builder()
    constants = () if length is None else (b.constant("length", np.int64(length)),)
    y = b.node("DFT", b.input("x", np.float32, (1, 32, 1)), *constants, name="dft", axis=1, onesided=onesided)
    b.output(b.node("Relu", y), np.float32)
    model = infer(b.model(opset=17))
    feeds = {"x": RANDOM.standard_normal((40, 1, 32, 1)).astype(np.float32)}
    quantized = quantize(model, feeds)
    assert kinds(quantized) == ["dense"]
    found, expected = golden.predict(quantized, feeds)[model.graph.outputs[0].name], runtime(model, feeds)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.02 * expected.std()
