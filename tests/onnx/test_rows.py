"""A model of one row as a model of many: the same results, or no such model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwflow.onnx import evaluate
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.onnx.rewrite.rows import over_rows

SHAPE = (1, 3, 4, 5)
ROWS = np.random.default_rng(0).normal(size=(7, *SHAPE)).astype(np.float32)
#: Constants by name: scalars, one for each channel, and shapes.
CONSTANTS = {
    "scale": np.float32(0.05), "zero": np.int8(-3), "scales": np.array([0.1, 0.2, 0.3], np.float32),
    "zeros": np.array([0, 1, -1], np.int8), "half": np.float32(0.5), "channel": np.full((3, 1, 1), 2.5, np.float32),
    "deep": np.ones((1, 1, 1, 1, 1), np.float32), "flat": np.array([1, -1], np.int64), "axes": np.array([0], np.int64),
    "order": np.array([2, 0], np.int64), "weights": np.ones((2, 3, 1, 1), np.float32)}  # fmt: skip

Step = tuple[str, tuple[str, ...], dict[str, Any]]

SAME: dict[str, tuple[int, list[Step]]] = {
    "prologue": (13, [("QuantizeLinear", ("scale", "zero"), {}), ("Transpose", (), {"perm": (0, 2, 3, 1)}),
                      ("Reshape", ("flat",), {})]),
    "per channel": (13, [("QuantizeLinear", ("scales", "zeros"), {}),
                         ("DequantizeLinear", ("scales", "zeros"), {"axis": -3})]),
    "softmax of the last axis": (13, [("Softmax", (), {})]),
    "softmax from axis 1, before operator set 13": (11, [("Softmax", (), {})]),
    "softmax of axis 2": (13, [("Softmax", (), {"axis": 2})]),
    "argmax": (13, [("ArgMax", (), {"axis": 3, "keepdims": 0})]),
    "argmax of axis 0": (13, [("ArgMax", (), {})]),
    "transpose of all axes": (13, [("Transpose", (), {})]),
    "shapes": (13, [("Flatten", (), {}), ("Squeeze", ("axes",), {}), ("Unsqueeze", ("axes",), {})]),
    "gather": (13, [("Gather", ("order",), {"axis": 1})]),
    "arithmetic": (13, [("Mul", ("half",), {}), ("Add", ("channel",), {}), ("Relu", (), {}),
                        ("Clip", ("half",), {}), ("Cast", (), {"to": 7})]),
}  # fmt: skip

NONE: dict[str, tuple[int, list[Step]]] = {
    "a constant with more axes": (13, [("Add", ("deep",), {})]),
    "a convolution": (13, [("Conv", ("weights",), {})]),
    "a sum over axes": (13, [("ReduceSum", (), {})]),
}


def model(opset: int, steps: list[Step]) -> Model:
    b = Builder("g")
    name = b.input("x", np.float32, SHAPE)
    for op, constants, attributes in steps:
        for constant in constants:
            b.constant(constant, np.asarray(CONSTANTS[constant]))
        name = b.node(op, name, *constants, **attributes)
    b.output(name)
    return b.model(opset=opset)


def many(model: Model) -> Model | None:
    names = [name for node in model.graph.nodes for name in node.outputs]
    return over_rows(model, {"x": ROWS[0], **evaluate(model, {"x": ROWS[0]}, names)})


@pytest.mark.parametrize("case", SAME)
def test_all_rows_at_once_are_the_rows(case: str) -> None:
    one = model(*SAME[case])
    (name,) = (value.name for value in one.graph.outputs)
    whole = many(one)
    assert whole is not None
    expected = np.stack([evaluate(one, {"x": row})[name] for row in ROWS])
    for count in (7, 1, 0):
        made = evaluate(whole, {"x": ROWS[:count]})[name]
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made, expected[:count])


@pytest.mark.parametrize("case", NONE)
def test_models_without_a_rule_stay_models_of_one_row(case: str) -> None:
    assert many(model(*NONE[case])) is None


def test_two_inputs_of_different_rank() -> None:
    """With a row axis in front they would be matched wrongly."""
    b = Builder("g")
    x, y = b.input("x", np.float32, (2, 3)), b.input("y", np.float32, (3,))
    b.output(b.node("Add", x, y, output="z"))
    m = b.model()
    row = {"x": np.zeros((2, 3), np.float32), "y": np.zeros(3, np.float32)}
    assert over_rows(m, {**row, **evaluate(m, row, ["z"])}) is None


def test_a_constant_output_is_no_row() -> None:
    b = Builder("g")
    b.input("x", np.float32, (2,))
    b.output(b.node("Neg", b.constant("c", np.ones(2, np.float32)), output="z"))
    m = b.model()
    row = {"x": np.zeros(2, np.float32)}
    assert over_rows(m, {**row, **evaluate(m, row, ["z"])}) is None
