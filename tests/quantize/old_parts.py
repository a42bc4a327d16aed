"""What the forms of old operators are made of: constants, second tensors, and functions of one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.onnx.schemas import find_schema
from tests.quantize.dialects.cases import Maker

F = np.float32
#: Makes the operator behind a tensor [1, 4, 6, 6], in an operator set.
Make = Callable[[Maker, str, int], Any]


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(0, 0.5, shape).astype(F)


def form(make: Make, **options: Any) -> tuple[Make, dict[str, Any]]:
    return make, options


def clip(m: Maker, x: str, opset: int, low: float, high: float) -> str:
    if opset < 11:
        return m.node("Clip", x, min=float(low), max=float(high))
    return m.node("Clip", x, F(low), F(high))


def second(m: Maker, x: str) -> str:
    """Another computed tensor of the shape of `x`."""
    return m.node("Conv", x, weights(4, 4, 1, 1, seed=1), weights(4, seed=1))


Forms = dict[str, Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]]
#: Functions with steps: an integer on the wrong side of one makes a large error.
_STEPS = {"Ceil": 20.0, "Floor": 20.0, "Round": 20.0, "Sign": 15.0}
_PARAMETERS: dict[str, dict[str, float]] = {
    "Elu": {"alpha": 2.0}, "HardSigmoid": {"alpha": 0.4, "beta": 0.3}, "LeakyRelu": {"alpha": 0.3},
    "Selu": {"alpha": 2.0, "gamma": 1.5}, "Celu": {"alpha": 0.5}, "ThresholdedRelu": {"alpha": 0.5},
    "Shrink": {"bias": 0.25, "lambd": 0.5},
}  # fmt: skip


def unary(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    bound = {"decibels": _STEPS.get(op, 25.0)}

    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        legacy: dict[str, Any] = {}
        schema = find_schema("", op, since)
        if schema is not None and "consumed_inputs" in schema.attributes:
            legacy["consumed_inputs"] = [0]
        found = {"": form(lambda m, x, v: m.node(op, x, **legacy), **bound)}
        if op in _PARAMETERS:
            found["parameters"] = form(lambda m, x, v: m.node(op, x, **legacy, **_PARAMETERS[op]), **bound)
        return found

    return forms


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
