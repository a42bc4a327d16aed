"""Small models with recurrent layers, in the forms in which exporters write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
F = np.float32


class Layer:
    """A builder with the constants of one recurrent layer: W, R and B of `directions` under their names."""

    def __init__(self, op: str, inputs: int = 5, hidden: int = 6, directions: int = 1, seed: int = 0) -> None:
        self.op, self.inputs, self.hidden, self.directions = op, inputs, hidden, directions
        self.b, self.rng = Builder(op.lower()), np.random.default_rng(seed)
        rows = GATES[op] * hidden
        for name, shape in (("W", (directions, rows, inputs)), ("R", (directions, rows, hidden))):
            self.b.constant(name, self.rng.normal(0, 1.2 / np.sqrt(shape[2]), shape).astype(F))
        self.b.constant("B", self.rng.normal(0, 0.3, (directions, 2 * rows)).astype(F))

    def ints(self, name: str, *values: int) -> str:
        return self.b.constant(name, np.array(values, np.int64))

    def cell(self, x: str, *rest: str, outputs: tuple[str, ...] = ("Y", "Y_h"), **attributes: Any) -> None:
        self.b.nodes(self.op, x, "W", "R", "B", *rest, outputs=outputs, name="cell", hidden_size=self.hidden,
                     **attributes)

    def head(self, x: str, elements: int) -> None:
        """Flatten and Gemm to three outputs."""
        self.b.constant("head.w", self.rng.normal(0, 1, (elements, 3)).astype(F))
        self.b.output(self.b.node("Gemm", self.b.node("Flatten", x, axis=1), "head.w", name="head", output="out"), F)

    def model(self) -> Model:
        return onnx.simplify(onnx.infer(self.b.model(opset=17)))


def packed(
    break_: Callable[[Layer], None] | None = None, order: tuple[int, int] = (0, 1), scale: bool = False
) -> Model:
    """An LSTM of one step whose state [2, 1, H] is one input and one output; `order` are its parts in the output."""
    m = Layer("LSTM")
    x, state = m.b.input("x", F, (1, 1, m.inputs)), m.b.input("state", F, (2, 1, m.hidden))
    parts = [
        m.b.node("Unsqueeze", m.b.node("Gather", state, m.b.constant(f"at{k}", np.int64(k)), axis=0),
                 m.ints(f"zero{k}", 0)) for k in (0, 1)]  # fmt: skip
    if scale:
        parts[0] = m.b.node("Mul", parts[0], m.b.constant("half", F(0.5)), name="half_of_it")
    m.cell(x, "", *parts, outputs=("Y", "Y_h", "Y_c"))
    m.b.output(m.b.node("Concat", *(("Y_h", "Y_c")[k] for k in order), axis=0, output="next"), F)
    if break_ is not None:
        break_(m)
    m.head(m.b.node("Squeeze", "Y_h", m.ints("one", 0)), m.hidden)
    return m.model()


def apart(op: str, steps: int = 3, layout: int = 0, **attributes: Any) -> Model:
    """A layer with h0 (and c0) as inputs and hn (and cn) as outputs."""
    m = Layer(op)
    state = (1, 1, m.hidden)
    x = m.b.input("x", F, (1, steps, m.inputs) if layout else (steps, 1, m.inputs))
    names = ("h", "c")[: 2 if op == "LSTM" else 1]
    m.cell(x, "", *(m.b.input(f"{name}0", F, state) for name in names), outputs=("Y", *(f"{n}n" for n in names)),
           layout=layout, **attributes)
    for name in names:
        m.b.output(f"{name}n", F)
    m.head(m.b.node("Reshape", "Y", m.ints("flat", 1, -1)), steps * m.hidden)
    return m.model()


def sequence(op: str, form: str = "last", steps: int = 7, **attributes: Any) -> Model:
    """A layer over whole sequences, as `form` says; its input is [1, steps, inputs]."""
    both = form == "both"
    m = Layer(op, directions=2 if both else 1)
    x = m.b.input("x", F, (1, steps, m.inputs))
    first = form == "layout"
    if not first:
        x = m.b.node("Transpose", x, perm=(1, 0, 2))
    rest: list[str] = ["", ""]
    if form == "lengths":
        rest[0] = m.b.constant("lengths", np.array([steps], np.int32))
    if form == "initial":
        rest[1] = m.b.constant("h0", m.rng.normal(0, 0.5, (1, 1, m.hidden)).astype(F))
        rest += [m.b.constant("c0", m.rng.normal(0, 2, (1, 1, m.hidden)).astype(F))] * (op == "LSTM")
    given = {"both": {"direction": "bidirectional"}, "reverse": {"direction": "reverse"}, "layout": {"layout": 1}}
    m.cell(x, *rest, outputs=("Y", "Y_h"), **given.get(form, {}), **attributes)
    if form in ("last", "lengths", "initial", "reverse"):
        m.head(m.b.node("Squeeze", "Y_h", m.ints("axis", 0)), m.hidden)
    elif both:
        y = m.b.node("Reshape", m.b.node("Transpose", "Y", perm=(0, 2, 1, 3)), m.ints("shape", steps, 1, -1))
        row = m.b.node("Transpose", "Y_h", perm=(1, 0, 2))
        m.head(m.b.node("Concat", m.b.node("Reshape", y, m.ints("row", 1, -1)),
                        m.b.node("Reshape", row, m.ints("rest", 1, -1)), axis=1), 2 * m.hidden * (steps + 1))
    else:
        m.head(m.b.node("Reshape", "Y", m.ints("row", 1, -1)), steps * m.hidden)
    return m.model()


def stacked(steps: int = 2) -> Model:
    """Two GRUs, one behind the other, whose states [2, 1, H] are one input and one output, as torch exports them."""
    m = Layer("GRU", inputs=6)
    x, h0 = m.b.input("x", F, (steps, 1, 6)), m.b.input("h0", F, (2, 1, m.hidden))
    last = []
    for k in (0, 1):
        part = m.b.node("Slice", h0, m.ints(f"from{k}", k), m.ints(f"to{k}", k + 1), m.ints(f"along{k}", 0))
        y, h = m.b.nodes("GRU", x, "W", "R", "B", "", part, outputs=(f"Y{k}", f"last{k}"), name=f"cell{k}",
                         hidden_size=m.hidden, linear_before_reset=1)  # fmt: skip
        x = m.b.node("Squeeze", y, m.ints(f"one{k}", 1))
        last.append(h)
    m.b.output(m.b.node("Concat", *last, axis=0, output="hn"), F)
    m.head(m.b.node("Reshape", x, m.ints("flat", 1, -1)), steps * m.hidden)
    return m.model()
