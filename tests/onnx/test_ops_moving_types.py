"""Every element type that a schema takes, for the operators that move, select and resize elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.schemas import versions_of
from tests.onnx.single import evaluated

#: Makes a tensor of zeros and ones.
Make = Callable[..., np.ndarray]
Given = tuple[list[np.ndarray | None], dict[str, Any]]

DTYPES = {f"tensor({element.name})": element.dtype for element in ELEMENT_TYPES}
REDUCTIONS = ("add", "mul", "max", "min")
NUMERIC_MODES = ("linear", "cubic")


def maker(dtype: np.dtype[Any]) -> Make:
    def make(*shape: int) -> np.ndarray:
        numbers = np.arange(math.prod(shape)) % 2
        return (numbers.astype(str).astype(object) if dtype.kind == "O" else numbers.astype(dtype)).reshape(shape)

    return make


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


SCALES = np.array([2, 2], np.float32)
PLACE = np.zeros((1, 1, 1, 2), np.float32)

#: What to call an operator with; the tensors made are of the type under test.
CASES: dict[str, Callable[[Make], Given]] = {
    "Flatten": lambda t: ([t(2, 3)], {}),
    "Reshape": lambda t: ([t(2, 3), ints(3, 2)], {}),
    "Transpose": lambda t: ([t(2, 3)], {}),
    "Squeeze": lambda t: ([t(1, 3)], {}),
    "Unsqueeze": lambda t: ([t(3), ints(0)], {}),
    "DepthToSpace": lambda t: ([t(1, 4, 2, 2)], {"blocksize": 2}),
    "SpaceToDepth": lambda t: ([t(1, 4, 2, 2)], {"blocksize": 2}),
    "Expand": lambda t: ([t(1, 4), ints(3, 1)], {}),
    "Concat": lambda t: ([t(1, 4), t(1, 4)], {"axis": 0}),
    "Split": lambda t: ([t(4), ints(4)], {}),
    "Tile": lambda t: ([t(2, 2), ints(2, 1)], {}),
    "Slice": lambda t: ([t(4), ints(3), ints(0), ints(0), ints(-1)], {}),
    "Pad": lambda t: ([t(4), ints(1, 1)], {}),
    "CenterCropPad": lambda t: ([t(4), ints(7)], {}),
    "Gather": lambda t: ([t(4), np.array(1)], {}),
    "GatherElements": lambda t: ([t(4), ints(1, 2)], {}),
    "GatherND": lambda t: ([t(4), ints(1)], {}),
    "Compress": lambda t: ([t(4), np.array([True, False])], {}),
    "OneHot": lambda t: ([ints(1, 0), ints(3), t(2)], {}),
    "ReverseSequence": lambda t: ([t(2, 3), ints(1, 2)], {"batch_axis": 0, "time_axis": 1}),
    "Trilu": lambda t: ([t(3, 3)], {}),
    "ScatterElements": lambda t: ([t(4), ints(1, 2), t(2)], {}),
    "ScatterND": lambda t: ([t(4), ints(1, 2).reshape(2, 1), t(2)], {}),
    "TensorScatter": lambda t: ([t(1, 4, 2), t(1, 2, 2)], {}),
    "TopK": lambda t: ([t(4), ints(2)], {}),
    "Unique": lambda t: ([t(4)], {}),
    "Resize": lambda t: ([t(2, 2), None, SCALES], {}),
    "GridSample": lambda t: ([t(1, 1, 2, 2), PLACE], {"mode": "nearest"}),
    "RoiAlign": lambda t: ([t(1, 1, 4, 4), t(1, 4), ints(0)], {}),
    "MaxRoiPool": lambda t: ([t(1, 1, 4, 4), t(1, 5)], {"pooled_shape": (2, 2)}),
    "MaxUnpool": lambda t: ([t(1, 1, 2, 2), ints(0, 1, 2, 3).reshape(1, 1, 2, 2)], {"kernel_shape": (2, 2)}),
    "Col2Im": lambda t: ([t(1, 4, 4), ints(3, 3), ints(2, 2)], {}),
    "AffineGrid": lambda t: ([t(1, 2, 3), ints(1, 1, 2, 2)], {}),
}


def variants(op: str, dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Attributes that change what is done with the elements; texts cannot be added or weighted."""
    if dtype.kind != "O" and op in ("ScatterElements", "ScatterND"):
        return [{"reduction": name} for name in ("none", *REDUCTIONS)]
    if dtype.kind != "O" and op in ("Resize", "GridSample"):
        return [{"mode": mode} for mode in ("nearest", *NUMERIC_MODES)]
    return [{"axis": 0}, {}] if op == "Unique" else [{}]


def allowed(op: str) -> list[np.dtype[Any]]:
    newest = versions_of("", op)[-1]
    kinds = newest.allowed(newest.inputs[2 if op == "OneHot" else 0])
    if op == "Col2Im":  # texts cannot be added up: test_what_does_not_fit
        kinds -= {"tensor(string)"}
    return [DTYPES[kind] for kind in sorted(kinds)]


@pytest.mark.parametrize("op", CASES)
def test_types(op: str) -> None:
    """The output has the type of the input, and elements that the input could have."""
    for dtype in allowed(op):
        inputs, how = CASES[op](maker(dtype))
        for variant in variants(op, dtype):
            results = evaluated(op, *inputs, outputs=2 if op == "TopK" else 1, **{**how, **variant})
            assert (results[0] if op == "TopK" else results).dtype == dtype


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin", "NonZero"])
def test_type_of_indices(op: str) -> None:
    for dtype in allowed(op):
        found = evaluated(op, maker(dtype)(4))
        assert found.dtype == np.int64
        if op != "NonZero":
            assert found.tolist() == [1 if op == "ArgMax" else 0]
