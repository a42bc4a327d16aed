"""Weights in float8 and float4 are computed; activations in them are refused by name."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.e2e.command import Cli

TYPES = {name: np.dtype(getattr(ml_dtypes, name)) for name in (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")}  # fmt: skip
CODES = {entry.dtype: entry.code for entry in ELEMENT_TYPES}
ROWS = {"x": np.random.default_rng(5).standard_normal((50, 1, 8)).astype(np.float32)}
REMEDY = "quantize activations to int8 or uint8, or leave their quantizers out: then calibration data decide"


class Small:
    """A dense layer whose weights are of `dtype`, in one of the forms that there are."""

    def __init__(self, dtype: np.dtype, spread: float = 0.02) -> None:
        self.b, self.dtype = Builder("small"), dtype
        self.x = self.b.input("x", np.float32, (1, 8))
        rng = np.random.default_rng(6)
        self.real = rng.normal(0, 0.3, (8, 6)).astype(np.float32)
        self.spread = 0.3 if "float4" in dtype.name else spread  # most of the numbers are far below 1

    def constant(self, wish: str, value: object, dtype: object = np.float32) -> str:
        return self.b.constant(wish, np.asarray(value, np.float32).astype(dtype))

    def weights(self, form: str) -> str:
        axis, scale = {}, np.full((), self.spread)
        if form == "channels":
            axis, scale = {"axis": 1}, np.linspace(0.5, 1.5, 6) * self.spread
        if form == "blocks":
            axis, scale = {"axis": 0, "block_size": 2}, np.linspace(0.5, 1.5, 24).reshape(4, 6) * self.spread
        s, z = self.constant("s", scale), self.constant("z", np.zeros(scale.shape), self.dtype)
        if form == "quantized":
            q = self.b.node("QuantizeLinear", self.constant("w", self.real), s, z, name="stored")
        else:
            full = np.repeat(scale, 2, axis=0) if form == "blocks" else scale
            q = self.constant("q", self.real / full, self.dtype)
        if form == "cast":
            return self.b.node("Mul", self.b.node("Cast", q, to=CODES[np.dtype(np.float32)]), s, name="weights")
        return self.b.node("DequantizeLinear", q, s, *((z,) if form != "channels" else ()), name="weights", **axis)

    def model(self, form: str, before: str = "") -> Model:
        y = self.b.node("MatMul", before or self.x, self.weights(form), name="product")
        self.b.output(self.b.node("Relu", y, name="out"))
        return self.b.model(opset=23)


@pytest.mark.quick(12)
@pytest.mark.parametrize("form", ["tensor", "channels", "blocks", "quantized", "cast"])
@pytest.mark.parametrize("name", TYPES)
def test_weights_keep_their_values(name: str, form: str) -> None:
    model = onnx.infer(Small(TYPES[name]).model(form))
    (output,) = (value.name for value in model.graph.outputs)
    found = golden.predict(quantize(model, ROWS), ROWS)[output]
    expected = np.stack([onnx.evaluate(model, {"x": row})[output] for row in ROWS["x"]])
    assert 10 * np.log10(np.mean(expected**2) / np.mean((found - expected) ** 2)) > 35


def quantized(name: str) -> Model:
    """Activations through a quantizer of this type."""
    small = Small(TYPES[name])
    s, z = small.constant("xs", 0.1), small.constant("xz", 0, TYPES[name])
    q = small.b.node("QuantizeLinear", small.x, s, z, name="to_small")
    return small.model("cast", small.b.node("DequantizeLinear", q, s, z, name="from_small"))


def between(name: str) -> Model:
    """Activations of this type between two layers."""
    small = Small(TYPES[name])
    y = small.b.node("MatMul", small.x, small.constant("v", np.eye(8)), name="first")
    y = small.b.node("Cast", y, name="to_small", to=CODES[TYPES[name]])
    return small.model("tensor", small.b.node("Cast", y, name="from_small", to=CODES[np.dtype(np.float32)]))


@pytest.mark.parametrize("name", TYPES)
def test_activations_are_refused(name: str) -> None:
    with pytest.raises(HwflowError) as refused:
        quantize(onnx.infer(quantized(name)), ROWS)
    assert str(refused.value).split("\n  ")[1:] == [
        f"'to_small' (QuantizeLinear): makes activations {name}, and hardware computes with integers", f"  {REMEDY}"]


def test_a_cast_between_layers_is_refused() -> None:
    with pytest.raises(HwflowError, match=r"'to_small' \(Cast\): makes activations float8_e5m2, and hardware computes"):
        quantize(onnx.infer(between("float8_e5m2")), ROWS)


@pytest.mark.parametrize("words", [("check", "--hardware"), ("quantize",)])
def test_the_commands_agree(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(quantized("float8_e4m3fn"), "small.onnx")
    done = Cli(capsys)(words[0], "small.onnx", *words[1:])
    assert done.code == (1 if words[0] == "check" else 2)
    assert "makes activations float8_e4m3fn" in done.out + done.err
    assert REMEDY in done.out + done.err
