"""Networks of old operator sets: each operator that hardware maps, in every form of its versions below 13.

A network is a Conv, the operator, and a layer behind it, all as the operator set of the version writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Model
from hwflow.onnx.schemas import find_schema, versions_of
from tests.quantize.dialects.cases import Maker
from tests.quantize.old_forms import FORMS
from tests.quantize.old_parts import F, Make, weights

#: The operator set from which on nothing is old here: all models are converted to it.
NEWEST = 13


@dataclass(frozen=True)
class Old:
    """`decibels`: the least signal to noise of the golden model at 8 bits against the evaluated file.

    `head` and `tail` say whether a layer goes in front and follows; `opset` is the network's, in which the operator has
    version `since`.
    """

    op: str
    since: int
    form: str
    make: Make
    opset: int
    decibels: float = 25.0
    tail: bool = True
    head: bool = True

    @property
    def label(self) -> str:
        return f"{self.op}-{self.since}-{self.form}"

    def model(self) -> Model:
        """The network; the second time the shapes are known, and a layer follows."""
        shape: tuple[int, ...] | None = None
        for _ in range(2):
            m = Maker((1, 4, 6, 6))
            x = m.x
            if self.head:
                x = m.node("Conv", x, weights(4, 4, 3, 3), weights(4), name="head", pads=[1, 1, 1, 1])
            made = self.make(m, x, self.opset)
            y = made if isinstance(made, str) else made[0]
            if shape is not None and self.tail:
                y = _layer(m, y, shape, self.opset)
            for name in [y] if isinstance(made, str) else [y, *made[1:]]:
                m.b.output(name)
            found = infer(m.b.model(opset=self.opset, ir_version=6))
            kind = found.graph.tensor_type(y)
            assert kind is not None
            assert kind.shape is not None
            shape = tuple(int(size) for size in kind.shape if size is not None)
        return found


def _layer(m: Maker, name: str, shape: tuple[int, ...], opset: int) -> str:
    if len(shape) == 4:
        return m.node("Conv", name, weights(3, shape[1], 1, 1), weights(3))
    flat = name if len(shape) == 2 else m.node("Flatten", name)
    size = int(np.prod(shape))
    return m.node("Gemm", flat, weights(size, 3), weights(3), **({"broadcast": 1} if opset < 7 else {}))


def networks() -> Iterator[Old]:
    """Every form."""
    for op, forms in FORMS.items():
        for schema in versions_of("", op):
            if schema.since >= NEWEST or schema.deprecated:
                continue
            for name, (make, options) in forms(schema.since).items():
                opset = max(schema.since, options.pop("opset", 1))
                found = find_schema("", op, opset)
                if found is not None and found.since == schema.since:
                    yield Old(op, schema.since, name, make, opset, **options)


    yield from _integers()


def _integers() -> Iterator[Old]:
    """Operators of quantized models, which came with operator set 10: their integers are those of the file."""
    scale, zero = F(0.05), np.array(0, np.int8)
    w = np.round(weights(4, 4, 3, 3, seed=8) * 50).astype(np.int8)

    def pairs(m: Maker, x: str, opset: int) -> str:
        held = m.node("DequantizeLinear", w, F(0.02), zero)
        x = m.node("DequantizeLinear", m.node("QuantizeLinear", x, scale, zero), scale, zero)
        made = m.node("QuantizeLinear", m.node("Conv", x, held), F(0.1), zero)
        return m.node("DequantizeLinear", made, F(0.1), zero)

    def convolved(m: Maker, x: str, opset: int) -> str:
        given = m.node("QuantizeLinear", x, scale, zero)
        made = m.node("QLinearConv", given, scale, zero, w, F(0.02), zero, F(0.1), zero)
        return m.node("DequantizeLinear", made, F(0.1), zero)

    def multiplied(m: Maker, x: str, opset: int) -> str:
        given = m.node("Flatten", m.node("QuantizeLinear", x, scale, zero))
        matrix = np.round(weights(144, 5, seed=9) * 50).astype(np.int8)
        made = m.node("QLinearMatMul", given, scale, zero, matrix, F(0.02), zero, F(0.3), zero)
        return m.node("DequantizeLinear", made, F(0.3), zero)

    for op, make in (("QuantizeLinear", pairs), ("DequantizeLinear", pairs), ("QLinearConv", convolved),
                     ("QLinearMatMul", multiplied)):  # fmt: skip
        yield Old(op, 10, "quantized", make, 10, 40.0, tail=False, head=False)
