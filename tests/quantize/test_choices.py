"""Choices that another tensor decides become products with 0 and 1; dead channels stop nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

import hwflow
from hwflow.onnx import dumps, infer
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from tests.quantize.played import check_played

SHAPE = (1, 3, 4, 4)


class Net:
    """A Conv, `form` behind it, and another Conv."""

    def __init__(self, form: Callable[[Net, str], str]) -> None:
        self.b, self.rng = Builder(), np.random.default_rng(6)
        y = self.conv(self.b.input("x", np.float32, SHAPE))
        self.b.output(self.conv(form(self, y)), np.float32, SHAPE)
        self.model = infer(self.b.model())

    def conv(self, x: str, weights: np.ndarray | None = None) -> str:
        w = (self.rng.standard_normal((3, 3, 3, 3)) / 4).astype(np.float32) if weights is None else weights
        return self.b.node("Conv", x, self.value(w), pads=[1] * 4)

    def value(self, array: object, dtype: type = np.float32) -> str:
        return self.b.constant(f"c{self.rng.integers(1 << 40)}", np.asarray(array, dtype))

    def other(self, x: str) -> str:
        return self.b.node("Relu", self.conv(x))

    def flag(self) -> str:
        return self.b.input("flag", np.bool_, (1, 1, 4, 4))


def between(n: Net, y: str) -> str:
    z = n.other(y)
    return n.b.node("Where", n.b.node("Greater", y, z), y, z)


DEAD = np.zeros((3, 3, 3, 3), np.float32)
PARTLY = np.concatenate([DEAD[:2], np.full((1, 3, 3, 3), 0.1, np.float32)])
FORMS: dict[str, Callable[[Net, str], str]] = {
    "flag or zero": lambda n, y: n.b.node("Where", n.flag(), y, n.value(0)),
    "flag or number": lambda n, y: n.b.node("Where", n.flag(), n.value(0.5), y),
    "flag of two": lambda n, y: n.b.node("Where", n.flag(), y, n.other(y)),
    "data of two": lambda n, y: n.b.node("Where", n.b.node("Greater", y, n.value(0)), y, n.other(y)),
    "larger of two": between,
    "constant mask of two": lambda n, y: n.b.node("Where", n.value(np.eye(4), np.bool_), y, n.other(y)),
    "rest": lambda n, y: n.b.node("Mod", n.other(y), n.value(0.5), fmod=1),
    "numbers of a flag": lambda n, y: n.b.node("Mul", n.other(y), n.b.node(
        "Cast", n.b.node("Greater", y, n.value(0)), to=1)),
    "dead channels": lambda n, y: n.b.node("Relu", n.conv(y, PARTLY)),
    "dead branch": lambda n, y: n.b.node("Add", y, n.b.node("Relu", n.conv(y, DEAD))),
    "scale of zero": lambda n, y: n.b.node("BatchNormalization", y, *(n.value(v) for v in (
        [1, 0, 1], [0, 0.5, 0], [0, 0, 0], [1, 1, 0]))),
}
#: A step of an element is one of its function: integers fall on either side.
STEPS = {"data of two": 4, "rest": 2, "numbers of a flag": 4}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    net = Net(FORMS[form])
    rows = {"x": net.rng.standard_normal((30, *SHAPE)).astype(np.float32)}
    if any(value.name == "flag" for value in net.model.graph.inputs):
        rows["flag"] = net.rng.integers(0, 2, (30, 1, 1, 4, 4)).astype(bool)
    quantized = quantize(net.model, rows)
    (found,) = hwflow.run_golden(quantized, rows).values()
    session = onnxruntime.InferenceSession(dumps(net.model), providers=["CPUExecutionProvider"])
    expected = np.concatenate([session.run(None, {n: a[k] for n, a in rows.items()})[0] for k in range(30)])
    noise = found.reshape(expected.shape) - expected
    assert np.sqrt(np.square(expected).mean() / np.square(noise).mean()) > STEPS.get(form, 20)
    if form in ("flag or number", "larger of two"):
        check_played(quantized.graph)
