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
from tests.onnx import test_ops_ml, test_ops_text, test_ops_versions
from tests.onnx.neural import Case, case, draw

LIMITS = Limits(tensor_bytes=1 << 24, total_bytes=1 << 26, work=10**8)


def forests() -> list[Case]:
    nodes = test_ops_ml.grown(4, 3, 4, 3, test_ops_ml.MODES)
    votes = test_ops_ml.votes(nodes, "class", 3, 3)
    labels = {"classlabels_int64s": [5, 7, 9]}
    x = test_ops_ml.rows(5, 3)
    classifier = test_ops_ml.case("TreeEnsembleClassifier", 3, x, outputs=2, attributes={**nodes, **votes, **labels})
    return [classifier, test_ops_ml.classic(), test_ops_ml.modern()] * 20


def vector_machines() -> list[Case]:
    vectors = test_ops_ml.vectors
    attributes: dict[str, Any] = {
        "vectors_per_class": [2, 3, 1], "support_vectors": vectors(6, 3), "rho": vectors(3), "prob_a": vectors(3),
        "coefficients": vectors(2, 6), "classlabels_ints": [5, 7, 9], "kernel_type": "RBF", "prob_b": vectors(3),
        "kernel_params": [0.3, 0.5, 2.0],
    }  # fmt: skip
    return [test_ops_ml.case("SVMClassifier", 1, draw(4, 3), outputs=2, attributes=attributes)] * 20


def others() -> list[Case]:
    equations = ("ij,jk->ik", "...j,jk", "ii,jj", "a.b,c", "->", "...,...->...")
    return [
        *(case("Einsum", 12, draw(2, 3), draw(3, 4), equation=equation) for equation in equations),
        *(case(op, 1, shape=(3, 2)) for op in ("RandomNormal", "RandomUniform")),
        *(case("RegexFullMatch", 20, test_ops_text.A, pattern=pattern) for pattern in test_ops_text.PATTERNS),
        case("Multinomial", 7, draw(3, 4), sample_size=3),
        case("EyeLike", 9, draw(3, 4), k=1),
        case("Range", 11, np.array(1), np.array(7), np.array(2)),
    ]


FAMILIES = {
    "elementwise": test_ops_versions.draws() + test_ops_versions.without_oracle(),
    "learning": test_ops_ml.simple() + forests() + vector_machines(),
    "text": test_ops_text.texts() + test_ops_text.grams() + test_ops_text.losses(),
    "others": others(),
}


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


def mutant(wanted: Case, rng: random.Random) -> Case:
    attributes, inputs = dict(wanted.attributes), list(wanted.inputs)
    for _ in range(rng.randint(1, 2)):
        if attributes and (rng.random() < 0.75 or not inputs):
            name = rng.choice(sorted(attributes))
            attributes[name] = changed(attributes[name], rng)
        elif inputs:
            at = rng.randrange(len(inputs))
            inputs[at] = changed(inputs[at], rng)
    return replace(wanted, inputs=tuple(inputs), attributes=attributes)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_node_does_harm(family) -> None:
    """Two seconds of them; the seed is fixed, so that a failure comes again.  None takes long by itself."""
    rng, started, refused, answered = random.Random(family), time.monotonic(), 0, 0
    while time.monotonic() < started + 2 or not (refused and answered):
        model, feeds = mutant(rng.choice(FAMILIES[family]), rng).model()
        began = time.monotonic()
        try:
            hwflow.onnx.evaluate(model, feeds, limits=LIMITS)
            answered += 1
        except HwflowError:
            refused += 1
        assert time.monotonic() - began < 5, model.graph.nodes
