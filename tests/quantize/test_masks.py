"""Masks and biases of attention: what a Softmax cannot tell from minus infinity costs nothing, in any form."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.e2e.command import Cli

HEADS, ROWS, DEPTH = 2, 6, 4
WIDTH = HEADS * DEPTH
LOWEST = float(np.finfo(np.float32).min)
SEEN = np.tri(ROWS, dtype=bool)
DATA = {"x": np.random.default_rng(7).standard_normal((80, 1, ROWS, WIDTH)).astype(np.float32)}


class Masked:
    """Attention of a sequence, from its projections to the one behind it; `masking` stands before the Softmax."""

    def __init__(self, masking: Callable[[Masked, str], str], gain: float = 1.0, guard: bool = False) -> None:
        self.b, self.rng, self.count = Builder("masked"), np.random.default_rng(8), 0
        x = self.b.input("x", np.float32, (1, ROWS, WIDTH))
        q, k, v = (self.split(self.projected(x, name, gain), *perm) for name, perm in (
            ("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))))  # fmt: skip
        scores = self.b.node("Mul", self.b.node("MatMul", q, k, name="scores"), self.constant(DEPTH**-0.5))
        shares = self.b.node("Softmax", masking(self, scores), name="shares", axis=-1)
        if guard:
            shares = self.b.node("Where", self.b.node("IsNaN", shares), self.constant(0), shares, name="guarded")
        mixed = self.b.node("Transpose", self.b.node("MatMul", shares, v, name="mixed"), perm=(0, 2, 1, 3))
        rows = self.b.node("Reshape", mixed, self.b.constant("rows", np.array([1, ROWS, WIDTH])))
        self.b.output(self.projected(rows, "out", 1.0))
        self.model: Model = onnx.infer(self.b.model(opset=17))

    def constant(self, value: object, dtype: object = np.float32) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.asarray(value, dtype))

    def node(self, op: str, *inputs: str, name: str = "") -> str:
        return self.b.node(op, *inputs, name=name)

    def projected(self, x: str, name: str, gain: float) -> str:
        w = self.rng.normal(0, gain * WIDTH**-0.5, (WIDTH, WIDTH))
        return self.b.node("MatMul", x, self.constant(w), name=name)

    def split(self, x: str, *perm: int) -> str:
        parts = self.b.node("Reshape", x, self.constant([1, ROWS, HEADS, DEPTH], np.int64))
        return self.b.node("Transpose", parts, perm=perm)


def hiding(value: float, seen: np.ndarray = SEEN) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.where(seen, 0, value).astype(np.float32)


def added(mask: np.ndarray) -> Callable[[Masked, str], str]:
    return lambda m, s: m.node("Add", s, m.constant(mask), name="masked")


def where(value: object, *, inverted: bool = False) -> Callable[[Masked, str], str]:
    def masking(m: Masked, s: str) -> str:
        seen, hidden = m.constant(SEEN ^ inverted, np.bool_), m.constant(value)
        return m.node("Where", seen, *((hidden, s) if inverted else (s, hidden)), name="masked")

    return masking


def multiplied(m: Masked, s: str) -> str:
    """s * seen - 10 000 * (1 - seen)."""
    kept = m.node("Mul", s, m.constant(SEEN))
    return m.node("Sub", kept, m.constant(1e4 * ~SEEN), name="masked")


def in_three_axes(m: Masked, s: str) -> str:
    flat = m.node("Reshape", s, m.constant([HEADS, ROWS, ROWS], np.int64))
    masked = m.node("Add", flat, m.constant(np.tile(hiding(-1e4), (HEADS, 1, 1))), name="masked")
    return m.node("Reshape", masked, m.constant([1, HEADS, ROWS, ROWS], np.int64))


def cut(m: Masked, s: str) -> str:
    """Not below the lowest float, as some write it."""
    return m.node("Max", m.node("Add", s, m.constant(hiding(-1e4))), m.constant(LOWEST), name="masked")


def scaled(m: Masked, s: str) -> str:
    return m.node("Mul", m.node("Add", s, m.constant(hiding(LOWEST))), m.constant(0.5), name="masked")


def biased(m: Masked, s: str) -> str:
    return m.node("Add", m.node("Add", s, m.constant(BIAS)), m.constant(hiding(-np.inf)), name="masked")


BIAS = np.random.default_rng(9).normal(0, 0.5, (1, HEADS, ROWS, ROWS))
APART = -np.abs(np.arange(ROWS) - np.arange(ROWS)[:, None])
MASKS: dict[str, Callable[[Masked, str], str]] = {
    **{f"add {value:g}": added(hiding(value)) for value in (-20, -100, -1e4, -65504, -1e9, LOWEST, -np.inf)},
    "four axes": added(hiding(-np.inf)[None, None]),
    "keys alone": added(hiding(-1e4)[3].reshape(1, 1, 1, -1)),
    "heads": added(np.stack([hiding(-np.inf), hiding(-np.inf, ~SEEN | np.eye(ROWS, dtype=bool))])[None]),
    "bias of heads": added(BIAS), "slopes": added(APART * np.array([[[2.0]], [[16.0]]])[None]),
    **{f"where {value:g}": where(value) for value in (-1e4, -1e9, LOWEST, -np.inf)},
    "where not": where(-np.inf, inverted=True), "where all": where(np.full((ROWS, ROWS), LOWEST)),
    "multiplied": multiplied, "three axes": in_three_axes, "cut": cut, "scaled": scaled, "bias and mask": biased,
    "a row of -10 000": added(hiding(-1e4, SEEN & (np.arange(ROWS) != 2)[:, None])),
}


def decibels(model: Model) -> float:
    (name,) = (value.name for value in model.graph.outputs)
    found = golden.predict(quantize(model, DATA), DATA)[name]
    expected = np.stack([onnx.evaluate(model, {"x": row})[name] for row in DATA["x"]])
    return float(10 * np.log10(np.mean(expected**2) / np.mean((found - expected) ** 2)))


@pytest.mark.quick(10)
@pytest.mark.parametrize("name", MASKS)
def test_a_mask_costs_nothing(name: str) -> None:
    assert decibels(Masked(MASKS[name]).model) > 27


@pytest.mark.parametrize("value", [-1e4, -np.inf])
def test_large_scores_stay_hidden(value: float) -> None:
    """Scores that are further apart than what used to hide them."""
    assert decibels(Masked(added(hiding(value)), gain=4.0).model) > 20


def test_a_guard_against_rows_without_a_key() -> None:
    assert decibels(Masked(MASKS["add -inf"], guard=True).model) > 27


def test_a_file_that_is_quantized_in_part() -> None:
    """Its masked scores have no quantizer: calibration gives one that ignores what is hidden."""
    def masking(m: Masked, s: str) -> str:
        parts = m.constant(0.05), m.constant(0, np.int8)
        real = m.node("DequantizeLinear", m.node("QuantizeLinear", s, *parts), *parts)
        return m.node("Add", real, m.constant(hiding(-1e9)), name="masked")

    assert decibels(Masked(masking).model) > 25


CLOSED = SEEN & (np.arange(ROWS) != 2)[:, None]


@pytest.mark.parametrize(("masking", "node"), [
    (added(hiding(-np.inf, CLOSED)), "Add"), (added(hiding(LOWEST, CLOSED)), "Add"),
    (lambda m, s: m.node("Where", m.constant(CLOSED, np.bool_), s, m.constant(-1e4), name="masked"), "Where")])
def test_a_row_without_a_key(masking: Callable[[Masked, str], str], node: str, tmp_path: Path,
                             capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model, cli = Masked(masking).model, Cli(capsys)
    lines = (f"'masked' ({node}): a mask must leave a key to each query, and hides all of the row [0, 0, 2, 0]",
             "export the model for sequences of one length, without padding and without a cache of keys and values")
    with pytest.raises(HwflowError, match="\n  +".join(map(re.escape, lines))):
        quantize(model, DATA)
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "masked.onnx")
    for words, code in ((("quantize", "masked.onnx"), 2), (("check", "masked.onnx", "--hardware"), 1)):
        done = cli(*words)
        assert (done.code, [line in done.out + done.err for line in lines]) == (code, [True, True])
