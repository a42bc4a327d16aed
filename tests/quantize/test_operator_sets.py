"""Random networks as every operator set from 1 on writes them: right in every step from the file to the integers.

A network is written in the operators of its own set, and converted down.  What that gives is judged by what
onnxruntime, which runs few old sets, gives of the network itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hwflow import golden, onnx
from hwflow.onnx.errors import ConversionError
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.invariants import check_reals, close, onnxruntime
from tests.random_cases import seeds
from tests.strategies.drawing import search
from tests.strategies.networks import Style
from tests.strategies.operators import KINDS, small_network
from tests.strategies.styles import QdqStyle, feeds, float_model, qdq_model

#: Operator sets 1 to `NEWEST`; those from `QDQ_SINCE` on have QuantizeLinear.  All are raised to `RAISED`, too.
NEWEST, QDQ_SINCE, RAISED = 23, 10, 21

#: Rows that each network computes; they calibrate it, too.
ROWS = 8

#: Kinds of small networks.
KINDS_OF_SETS = tuple(KINDS)


@dataclass(frozen=True)
class Case:
    """A network, and how set `opset` writes it; `exact`: a QDQ model that float32 computes without rounding."""

    model: Model
    old: Model
    opset: int
    exact: bool


def case_of(rng: Any, seed: int) -> Case:
    """The sets in turn; of those that have QuantizeLinear every third round is a QDQ model."""
    opset = 1 + seed % NEWEST
    exact = opset >= QDQ_SINCE and seed // NEWEST % 3 == 0
    while True:
        model = network(rng, exact)
        with suppress(ConversionError):  # the set has no form of it
            return Case(model, onnx.convert_opset(model, opset), opset, exact)


def network(rng: Any, exact: bool) -> Model:
    """A whole network, or a small one with a form of one of the operators that move, join, average or spread."""
    if rng.random() < 0.4:
        return qdq_model(rng, exact=True) if exact else float_model(rng)
    kind = KINDS_OF_SETS[rng.integers(len(KINDS_OF_SETS))]
    return small_network(kind, rng, QdqStyle() if exact else Style(), exact).model


def judge(case: Case, seed: int) -> None:
    """AssertionError where hwflow evaluates, converts or quantizes another network than this one."""
    model, old = case.model, case.old
    rows, names = feeds(model, ROWS, seed), [value.name for value in model.graph.outputs]
    expected = onnxruntime(model, rows, names)
    found = [onnx.evaluate(old, {name: array[k] for name, array in rows.items()}) for k in range(ROWS)]
    close({name: np.stack([row[name] for row in found]) for name in names}, expected)
    close(onnxruntime(onnx.convert_opset(old, RAISED), rows, names), expected)
    made = quantize(old, None if case.exact else rows)
    if not case.exact:
        check_reals(model, made, rows)
        return
    outputs = golden.predict(made, rows)
    for name in names:
        np.testing.assert_array_equal(outputs[name], expected[name])


def judged(seeds: Iterable[int]) -> list[Case]:
    """The networks of these seeds."""
    made = list[Case]()
    for seed in seeds:
        search(partial(case_of, seed=seed), lambda case, seed=seed: (judge(case, seed), made.append(case)), [[5, seed]])
    return made


@seeds(quick=[0], slow=range(1, 4), name="part")
def test_random_networks_of_all_operator_sets(part: int) -> None:
    judged(range(1000 + 161 * part, 1161 + 161 * part) if part else range(NEWEST))
