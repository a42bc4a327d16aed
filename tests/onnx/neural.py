"""What the tests of neural network operators share: one node, evaluated here and by an oracle.

A case is right when the outputs agree in type, shape and value, and when the types that inference gives are those of
the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import hwflow.onnx
from hwflow.onnx import Model
from hwflow.onnx.build import Builder
from hwflow.onnx.ops import find_operator
from tests.onnx.oracle import ChildOracle


def draw(*shape: int, seed: int = 0, low: float | None = None) -> np.ndarray:
    """Normal float32 numbers; with `low`, even ones from there to one more."""
    rng = np.random.default_rng((seed, *shape))
    return (rng.standard_normal(shape) if low is None else low + rng.random(shape)).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """One node; `outputs` are how many it has, or which of them are named; `expected` stands in for the oracle."""

    op: str
    opset: int
    inputs: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int | tuple[bool, ...] = 1
    expected: Any = None
    domain: str = ""
    tolerance: float = 2e-5
    steps: int = 0  # by how much integers may differ
    like: int = 0  # a later version of the same meaning, which the oracle has
    constants: tuple[int, ...] = ()  # inputs that are initializers, besides those whose elements decide a shape

    @property
    def label(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}-{shown}"[:90]

    def model(self) -> tuple[Model, dict[str, np.ndarray]]:
        """The model, and what to feed: inputs whose elements decide a shape are initializers."""
        operator = find_operator(self.domain, self.op, self.opset)
        assert operator is not None, f"{self.op} {self.opset} is not there"
        b, feeds, names = Builder(), dict[str, np.ndarray](), list[str]()
        for i, array in enumerate(self.inputs):
            if array is None:
                names.append("")
            elif i in operator.constant or i in self.constants:
                names.append(b.constant(f"c{i}", array))
            else:
                names.append(b.input(f"x{i}", array.dtype, array.shape))
                feeds[names[-1]] = array
        named = (True,) * self.outputs if isinstance(self.outputs, int) else self.outputs
        wanted = [f"y{i}" if name else "" for i, name in enumerate(named)]
        node = hwflow.onnx.build.make_node(self.op, names, wanted, name="n", domain=self.domain, **self.attributes)
        b._nodes.append(node)
        for name in filter(None, wanted):
            b.output(name)
        if self.domain:
            return b.model(opsets={self.domain: self.opset}, ir_version=8), feeds
        return b.model(opset=self.opset, ir_version=6 if self.opset < 13 else 10), feeds


def case(op: str, opset: int, *inputs: Any, attributes: dict[str, Any] | None = None, **others: Any) -> Case:
    """Keywords that are no fields of a Case are attributes."""
    fields = {key: others.pop(key) for key in tuple(others) if key in Case.__dataclass_fields__}
    return Case(op, opset, inputs, {**(attributes or {}), **others}, **fields)


def evaluated(wanted: Case) -> list[np.ndarray]:
    """The named outputs, after a look that their types are those inferred."""
    model, feeds = wanted.model()
    found = hwflow.onnx.evaluate(model, feeds)
    types = hwflow.onnx.infer(model).graph.types
    for name, array in found.items():
        assert (types[name].dtype, types[name].shape) == (array.dtype, array.shape), f"inferred type of {name}"
    return list(found.values())


def agree(wanted: Case, oracle: ChildOracle) -> None:
    """Compare with `expected`, else with onnxruntime."""
    found = evaluated(wanted)
    if wanted.expected is None:
        answers = oracle.run(*replace(wanted, opset=wanted.like or wanted.opset).model())
    else:
        answers = wanted.expected if isinstance(wanted.expected, (list, tuple)) else [wanted.expected]
    assert len(found) == len(answers)
    for array, answer in zip(found, answers, strict=True):
        answer = np.asarray(answer)
        assert array.dtype == answer.dtype
        assert array.shape == answer.shape
        if array.dtype.kind in "iub":
            difference = np.abs(array.astype(np.int64) - answer.astype(np.int64))
            assert difference.max(initial=0) <= wanted.steps
        else:
            scale = max(1.0, float(np.abs(answer.astype(np.float64)).max(initial=0)))
            np.testing.assert_allclose(
                array.astype(np.float64),
                answer.astype(np.float64),
                rtol=wanted.tolerance,
                atol=wanted.tolerance * scale,
            )


def error_of(wanted: Case) -> str:
    """The message with which evaluation refuses the node, without its name in front."""
    model, feeds = wanted.model()
    try:
        hwflow.onnx.evaluate(model, feeds)
    except hwflow.HwflowError as error:
        text = str(error)
        assert text.startswith(f"graph/node[0] 'n' ({wanted.op}): "), text
        return text.split(": ", 1)[1]
    raise AssertionError("the node must be refused")
