"""Nodes with changed attributes and inputs: whatever a file says, a kernel answers, or refuses with a message."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx.limits import Limits
from tests.onnx.forms.corpus import FAMILIES
from tests.onnx.forms.form import Case

LIMITS = Limits(tensor_bytes=1 << 24, total_bytes=1 << 26, work=10**8)


def changed(value: Any, rng: random.Random) -> Any:
    """Something of the same kind that the operator may not expect."""
    match value:
        case int():
            return rng.choice([0, -1, 1, 2, value + 1, value - 1, 2**31, 2**63 - 1, -(2**63)])
        case float():
            return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e38, 2 * value])
        case str():
            at = rng.randrange(len(value) + 1)
            return value[:at] + rng.choice("()[]{}*+?|\\.^$-az09,>é\n") + value[at + rng.randrange(2) :]
        case np.ndarray():
            flat = value.reshape(-1)
            return rng.choice([flat[:0], flat[:-1], value.reshape(1, -1), np.concatenate((flat, flat))])
        case list() | tuple() if value:
            at = rng.randrange(len(value))
            other = rng.choice([[], [value[at]], [value[at]] * 2, [changed(value[at], rng)], [rng.choice(value)]])
            return [*value[:at], *other, *value[at + 1 :]]
    return value


def mutant(one: Case, rng: random.Random) -> Case:
    attributes, inputs = dict(one.attributes), list(one.inputs)
    for _ in range(rng.randint(1, 2)):
        if attributes and (rng.random() < 0.75 or not inputs):
            name = rng.choice(sorted(attributes))
            attributes[name] = changed(attributes[name], rng)
        elif inputs:
            at = rng.randrange(len(inputs))
            inputs[at] = changed(inputs[at], rng)
    return replace(one, inputs=tuple(inputs), attributes=attributes)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_node_does_harm(family) -> None:
    """A quarter of a second of each family; the seed is fixed, so that a failure comes again.  None takes long."""
    rng, cases = random.Random(family.__name__), list(family.cases())
    started, refused, answered = time.monotonic(), 0, 0
    while time.monotonic() < started + 0.25 or not (refused and answered):
        model, feeds = mutant(rng.choice(cases), rng).model()
        began = time.monotonic()
        try:
            hwflow.onnx.evaluate(model, feeds, limits=LIMITS)
            answered += 1
        except HwflowError:
            refused += 1
        assert time.monotonic() - began < 5, model.graph.nodes
