"""Masks that an input decides, in the forms of exporters: integers, with numbers that a Softmax can tell apart."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hwflow_base.errors import HwflowError

import hwflow
from hwflow.onnx import Model, dumps, infer
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from tests.quantize.played import check_played

T, C, HEADS = 5, 8, 2
LEAST = float(np.finfo(np.float32).min)


def heads(b: Builder, name: str, rng: np.random.Generator) -> str:
    w = b.constant(f"{name}.w", (rng.standard_normal((C, C)) / 2).astype(np.float32))
    shape = b.constant(f"{name}.s", np.array([1, T, HEADS, C // HEADS]))
    y = b.node("Reshape", b.node("MatMul", "x", w, name=name), shape)
    return b.node("Transpose", y, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])


def hidden_scores(b: Builder, scores: str, form: str) -> str:
    """The scores, those of padding hidden as an exporter writes it."""
    axes = b.constant("axes", np.array([1, 2]))
    low, zero, one = (b.constant(n, np.float32(v)) for n, v in (("low", LEAST), ("zero", 0), ("one", 1)))
    minus = b.constant("minus", np.float32(-np.inf))
    if form in ("where", "choice"):
        mask = b.node("Unsqueeze", b.input("mask", np.bool_, (1, T)), axes)
        if form == "choice":
            return b.node("Where", mask, minus, scores, name="masked")
        return b.node("Add", scores, b.node("Where", mask, minus, zero), name="masked")
    if form == "not":
        mask = b.node("Not", b.node("Unsqueeze", b.input("mask", np.bool_, (1, T)), axes))
        return b.node("Where", mask, scores, minus, name="masked")
    number = b.node("Cast", b.input("mask", np.int64, (1, T)), to=1)
    kept = b.node("Unsqueeze", number, axes)
    if form == "integers":
        return b.node("Add", scores, b.node("Mul", b.node("Sub", one, kept), low), name="masked")
    ones = b.node("Expand", kept, b.constant("shape", np.array([1, 1, T, T])))
    inverted = b.node("Sub", one, ones)
    filled = b.node("Where", b.node("Cast", inverted, to=9), low, inverted)  # as transformers' _expand_mask
    return b.node("Add", scores, filled, name="masked")


FORMS = ["where", "choice", "not", "integers", "expanded"]


def attention(form: str) -> Model:
    """Attention of two heads over five rows, of which an input hides some, and a product."""
    b, rng = Builder(form), np.random.default_rng(1)
    b.input("x", np.float32, (1, T, C))
    q, k, v = (heads(b, name, rng) for name in "qkv")
    scores = b.node("MatMul", q, k, name="scores")
    shares = b.node("Softmax", hidden_scores(b, scores, form), axis=-1, name="shares")
    y = b.node("Transpose", b.node("MatMul", shares, v, name="mixed"), perm=[0, 2, 1, 3])
    y = b.node("Reshape", y, b.constant("rows", np.array([1, T, C])))
    y = b.node("MatMul", y, b.constant("o.w", (rng.standard_normal((C, 3)) / 2).astype(np.float32)), name="last")
    b.output(y, np.float32, (1, T, 3))
    return b.model()


def rows_of(model: Model, hides: bool, count: int) -> dict[str, np.ndarray]:
    """Random rows; of each, some of the last are hidden (`hides`: by true)."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, T + 1, count)
    kept = np.arange(T) < lengths[:, None]
    dtype = next(value.tensor.dtype for value in model.graph.inputs if value.name == "mask")
    return {"x": rng.standard_normal((count, 1, T, C)).astype(np.float32),
            "mask": (~kept if hides else kept)[:, None].astype(dtype)}


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_that_an_input_decides(form: str) -> None:
    model = infer(attention(form))
    rows = rows_of(model, form in ("where", "choice", "not"), 60)
    quantized = quantize(model, rows)
    assert "Softmax" in {type(layer).__name__ for layer in quantized.graph.layers}
    (found,) = hwflow.run_golden(quantized, rows).values()
    session = onnxruntime.InferenceSession(dumps(model), providers=["CPUExecutionProvider"])
    expected = np.concatenate([session.run(None, {n: a[k] for n, a in rows.items()})[0] for k in range(60)])
    noise = found.reshape(expected.shape) - expected
    assert np.sqrt(np.square(expected).mean() / np.square(noise).mean()) > 10  # 20 dB
    assert np.abs(noise).max() < 0.25 * np.abs(expected).max()


@pytest.mark.parametrize("form", ["where", "integers"])
def test_without_data(form: str) -> None:
    """Made-up rows hide no row of scores altogether."""
    assert quantize(infer(attention(form))).graph.layers


@pytest.mark.slow
@pytest.mark.parametrize("form", ["choice", "integers"])
def test_hardware(form: str) -> None:
    model = infer(attention(form))
    check_played(quantize(model, rows_of(model, form == "choice", 60)).graph)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_of_data_that_hides_every_key(form: str) -> None:
    """Runtimes make NaN of it, or shares of rounding errors: the message names the row."""
    model, rng = infer(attention(form)), np.random.default_rng(2)
    kind = next(value.tensor.dtype for value in model.graph.inputs if value.name == "mask")
    is_hidden = np.zeros((6, 1, T), bool)
    is_hidden[4] = True
    mask = (is_hidden if form in ("where", "choice", "not") else ~is_hidden).astype(kind)
    rows = {"x": rng.standard_normal((6, 1, T, C)).astype(np.float32), "mask": mask}
    with pytest.raises(HwflowError) as caught:
        quantize(model, rows)
    assert str(caught.value) == (
        "row 4 of the data must leave a key to each query: its mask hides all scores that 'shares' (Softmax) reads at "
        "[0, 0, 0]; leave the row out, or let its mask show at least one key")
