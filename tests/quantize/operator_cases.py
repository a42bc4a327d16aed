"""Networks of one operator each, in a form of one of its versions: the lines of operators.txt.

A network is a Conv, the operator, and a layer behind it, all as the operator set of the version writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Model
from hwflow.onnx.schemas import find_schema, versions_of
from tests.quantize.dialects.cases import Maker

#: The operator set from which on nothing is old here: all models are converted to it; and that of the catalogue.
OLD_UNTIL, NEWEST = 13, 24
#: Functions with steps: an integer on the wrong side of one makes a large error.
STEPS = {"Ceil": 20.0, "Floor": 20.0, "Round": 20.0, "Sign": 15.0}
F = np.float32


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(0, 0.5, shape).astype(F)


def _constants() -> dict[str, Any]:
    """The names of operators.txt."""
    norm = [weights(4, seed=2) + F(1.5), weights(4, seed=3), weights(4, seed=4), weights(4, seed=5) ** 2 + F(0.5)]
    every = [np.broadcast_to(p[:, None, None], (4, 6, 6)).copy() for p in norm]
    every[1] = weights(4, 6, 6, seed=6)
    zero = np.array(0, np.int8)
    return {
        "np": np, "f": F, "w": weights, "NORM": norm, "EVERY": every, "PADS": [0, 0, 1, 1, 0, 0, 1, 2],
        "FACTORS": F([0.5, 2, -1.5, 3]), "ROWS": F([0.5, 2, -1, 3, 0.25, -2]), "SLOPES": F([0.1, 0.5, 0.9, 0.25]),
        "STEP": (F(0.05), zero), "FINE": (F(0.02), zero), "COARSE": (F(0.1), zero), "LARGE": (F(0.3), zero),
        "WHOLE": np.round(weights(4, 4, 3, 3, seed=8) * 50).astype(np.int8),
        "MATRIX": np.round(weights(144, 5, seed=9) * 50).astype(np.int8), "i": lambda *v: np.array(v, np.int64),
    }  # fmt: skip


CONSTANTS = _constants()


class Names(dict[str, Any]):
    """What an expression may use: operators make nodes, which give the name of their result, or of `outputs`."""

    def __init__(self, m: Maker, opset: int, x: str) -> None:
        super().__init__(CONSTANTS, x=x, v=opset, input=m.b.input, two=self.two, clip=self.clip, steps=self.steps,
                         limited=lambda x, low: self.clip(x, low, 6), dequantized=self.dequantized)  # fmt: skip
        self.m, self.opset = m, opset

    def __missing__(self, op: str) -> Any:
        if op in __builtins__:  # type: ignore[operator]
            raise KeyError(op)
        return lambda *inputs, **attributes: self.node(op, *inputs, **attributes)

    def node(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        schema = find_schema("", op, self.opset)
        if schema is not None and "consumed_inputs" in schema.attributes and len(inputs) == 1:
            attributes = {"consumed_inputs": [0], **attributes}
        if outputs == 1:
            return self.m.node(op, *inputs, **attributes)
        names = [x if isinstance(x, str) else self.m.constant(x) for x in inputs]
        self.m.count += 1
        made = [f"{op.lower()}{self.m.count}.out{k}" for k in range(outputs)]
        return self.m.b.nodes(op, *names, outputs=made, name=f"{op.lower()}{self.m.count}", **attributes)

    def two(self, x: str) -> str:
        return self.m.node("Conv", x, weights(4, 4, 1, 1, seed=1), weights(4, seed=1))

    def clip(self, x: str, low: float, high: float) -> str:
        if self.opset < 11:
            return self.m.node("Clip", x, min=float(low), max=float(high))
        return self.m.node("Clip", x, F(low), F(high))

    def dequantized(self, x: Any, scale: Any, zero: Any) -> str:
        return self.m.node("DequantizeLinear", x, scale, zero)

    def steps(self, op: str, x: str, **more: Any) -> str:
        """Four steps of 36 elements; the first versions give the sequence only where they are asked to."""
        def shaped(name: str, *shape: int) -> str:
            old = self.opset < 5
            return self.m.node("Reshape", name, shape=shape) if old else self.m.node(
                "Reshape", name, np.array(shape, np.int64))

        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
        w, r = weights(1, gates * 5, 36) / F(6), weights(1, gates * 5, 5)
        y, _ = self.m.b.nodes(op, shaped(x, 4, 1, 36), self.m.constant(w), self.m.constant(r),
                              outputs=("steps", "last"), name="loop", hidden_size=5, **more)
        return shaped(y, 1, 20)


@dataclass(frozen=True)
class Network:
    """`decibels`: the least signal to noise of the golden model at 8 bits against the evaluated file.

    `head` and `tail` say whether a layer goes in front and follows; `opset` is the network's, in which the operator has
    version `since`.
    """

    op: str
    since: int
    form: str
    expression: str
    opset: int
    decibels: float = 25.0
    tail: bool = True
    head: bool = True

    @property
    def label(self) -> str:
        return f"{self.op}-{self.since}-{self.form}"

    @property
    def old(self) -> bool:
        return self.opset < OLD_UNTIL

    def model(self) -> Model:
        """The network; the second time the shapes are known, and layers follow."""
        shapes: list[tuple[int, ...]] = []
        for _ in range(2):
            m = Maker((1, 4, 6, 6))
            x = m.x
            if self.head:
                x = m.node("Conv", x, weights(4, 4, 3, 3), weights(4), name="head", pads=[1, 1, 1, 1])
            made = eval(self.expression, Names(m, self.opset, x))
            results = [made] if isinstance(made, str) else list(made)
            if shapes and self.tail:
                results = [_layer(m, y, shape, self.opset) for y, shape in zip(results, shapes, strict=True)]
            for name in results:
                m.b.output(name)
            found = infer(m.b.model(opset=self.opset, ir_version=6 if self.old else 10))
            kinds = [found.graph.tensor_type(name) for name in results]
            shapes = [tuple(int(size) for size in kind.shape if size is not None) for kind in kinds]  # type: ignore
        return found


def _layer(m: Maker, name: str, shape: tuple[int, ...], opset: int) -> str:
    if len(shape) == 4:
        return m.node("Conv", name, weights(3, shape[1], 1, 1), weights(3))
    flat = name if len(shape) == 2 else m.node("Flatten", name)
    size = int(np.prod(shape))
    return m.node("Gemm", flat, weights(size, 3), weights(3), **({"broadcast": 1} if opset < 7 else {}))


@cache
def networks() -> tuple[Network, ...]:
    """Every form of every version below `OLD_UNTIL`, and those of the newest set."""
    lines = Path(__file__).with_name("operators.txt").read_text(encoding="utf-8").splitlines()
    return tuple(one for line in lines if line and line[0] != "#" for one in _of_line(line))


def _of_line(line: str) -> Iterator[Network]:
    ops, versions, form, expression, *rest = (part.strip() for part in line.split(" |"))
    options = dict(option.split("=") for option in " ".join(rest).split())
    low, _, high = versions.partition("-")
    least, excluded = int(options.pop("opset", 1)), options.pop("not", "")
    more = {key: bool(int(options[key])) for key in ("tail", "head") if key in options}
    for op in ops.split():
        decibels = float(options.get("decibels", STEPS.get(op, 25.0)))
        made = re.sub(r"\bOP\b", op, expression)
        for schema in versions_of("", op):
            opset = max(schema.since, least)
            found = find_schema("", op, opset)
            if (int(low) <= schema.since <= min(int(high or NEWEST), OLD_UNTIL - 1) and op != excluded
                    and not schema.deprecated and found is not None and found.since == schema.since
                    and (op, schema.since) != ("Equal", 7)):  # fmt: skip
                yield Network(op, schema.since, form, made, opset, decibels, **more)
        if not high:
            schema = find_schema("", op, NEWEST)
            if schema is not None and not schema.deprecated:
                yield Network(op, schema.since, form, made, NEWEST, decibels, **more)
