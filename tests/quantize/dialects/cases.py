"""Rewriting a model and comparing what it computes before and after, and in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.checker

from hwflow import onnx as hwonnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import DIALECT_PASSES
from tests.quantize.models import session

QONNX = "qonnx.custom_op.general"


def standard(model: Model) -> Model:
    """The model after the passes; a standard one, which the official checker takes."""
    model = hwonnx.simplify(hwonnx.infer(model))
    for step in DIALECT_PASSES:
        model = step.run(model)
    assert set(model.opsets) == {""}
    assert {node.domain for node in model.graph.nodes} == {""}
    assert model.opsets[""] >= 13
    onnx.checker.check_model(onnx.load_from_string(hwonnx.dumps(model)), full_check=True)
    return model


def agree(model: Model, *feeds: Mapping[str, np.ndarray], apart: int | None = None) -> Model:
    """The rewritten model, which gives the bits of `model`; or integers at most `apart` steps apart."""
    made = standard(model)
    runtime = session(made)
    for feed in feeds:
        before, after = (hwonnx.evaluate(m, feed) for m in (model, made))
        run = dict(zip([value.name for value in made.graph.outputs], runtime.run(None, dict(feed)), strict=True))
        assert before.keys() == after.keys() == run.keys()
        for name, expected in before.items():
            assert after[name].dtype == expected.dtype == run[name].dtype
            if apart is None:
                np.testing.assert_array_equal(after[name], expected)
                np.testing.assert_allclose(run[name], expected, rtol=1e-5, atol=1e-6)
            else:
                assert np.abs(after[name].astype(int) - expected.astype(int)).max() <= apart
                assert np.abs(run[name].astype(int) - expected.astype(int)).max() <= apart
    return made


def ops(model: Model) -> list[str]:
    return [node.op_type for node in model.graph.nodes]


class Maker:
    """A Builder that names constants itself; numbers become float32 scalars."""

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.b, self.count = Builder("dialect"), 0
        self.x = self.b.input("x", dtype, shape)

    def constant(self, value: Any) -> str:
        self.count += 1
        array = np.asarray(value)
        return self.b.constant(f"c{self.count}", array.astype(np.float32) if array.dtype == np.float64 else array)

    def node(self, op: str, *inputs: Any, domain: str = "", name: str = "", **attributes: Any) -> str:
        """A node; inputs are names, or arrays and numbers that become constants."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.count += 1
        label = name or f"{op.lower()}{self.count}"
        return self.b.nodes(op, *names, outputs=(f"{label}.out",), name=label, domain=domain, **attributes)[0]

    def quant(self, x: Any, scale: Any, zero: float = 0, bits: float = 4, **attributes: Any) -> str:
        inputs = (x, np.float32(scale), np.float32(zero), np.float32(bits))
        return self.node("Quant", *inputs, domain=QONNX, **attributes)

    def model(self, *outputs: str, opset: int = 13, domains: Mapping[str, int] | None = None) -> Model:
        for name in outputs:
            self.b.output(name)
        return self.b.model(opset=opset, opsets={QONNX: 1, "com.microsoft": 1} if domains is None else domains)
