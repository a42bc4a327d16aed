"""Random recurrent networks against onnxruntime in floats: no more noise than the roundings of the QDQ model make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.accuracy.metrics import signal_to_noise
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from tests.quantize.invariants import onnxruntime
from tests.quantize.noise import noise_of_8_bits
from tests.random_cases import seeds
from tests.strategies.drawing import Again, Drawing, search
from tests.strategies.recurrent import recurrent_network, rows_for

#: From so many decibels on a network is well; below, weights and activations of 8 bits may be all that it takes, and
#: the loops, whose states have more, may add no more than LOST to that.
WELL, LOST = 25.0, 6.0

#: A strong loop has places from which the smallest rounding leads elsewhere, at times in several rows.  Such a network
#: is right where independent noise of 8 bits, outside of the loops alone, makes a larger error in one of so many draws.
DRAWS = 32

#: Networks of a test, and rows of each.
BLOCK, ROWS = 5, 30


def decibels(reference: Array, found: Array) -> float:
    """Without the worst row: a strong loop has places from which the smallest rounding leads elsewhere."""
    errors = np.square(found.astype(np.float64) - reference).reshape(len(found), -1).sum(axis=1)
    kept = np.argsort(errors)[:-1]
    snr = signal_to_noise({"": reference[kept]}, {"": found[kept]})
    return float("inf") if snr is None else snr


@dataclass(frozen=True)
class Case:
    """A network, the same one as onnxruntime takes it, and what it consists of."""

    model: Model
    standard: Model
    story: str


def case_of(rng: Any) -> Case:
    choices = Again(rng)
    model, story = recurrent_network(choices)
    return Case(model, recurrent_network(choices.again(), standard=True)[0], story)


def of_seed(seed: int) -> Case:
    return case_of(Drawing([31, seed]))


def check(case: Case, seed: int) -> None:
    model, standard, story = case.model, case.standard, case.story
    rows, other = rows_for(model, ROWS, 2 * seed), rows_for(model, ROWS, 2 * seed + 1)
    (made,), (wanted,) = ([value.name for value in m.graph.outputs] for m in (model, standard))
    reference = onnxruntime(standard, other, [wanted])[wanted]
    quantized = quantize(model, rows)
    found = decibels(reference, golden.predict(quantized, other)[made])
    if found < WELL and found <= decibels(reference, evaluated(quantized.qdq, other)) - LOST:
        noise = noise_of_8_bits(standard, other, DRAWS)[wanted]
        worst = max(error(reference, draw) for draw in noise)
        assert error(reference, golden.predict(quantized, other)[made]) <= worst, f"{found:.1f} dB, of {story}"


def error(reference: Array, found: Array) -> float:
    return float(np.linalg.norm(found.reshape(reference.shape).astype(np.float64) - reference))


def evaluated(model: Model, rows: dict[str, Array]) -> Array:
    """What the QDQ model gives, whose loops are in floats."""
    name = model.graph.outputs[0].name
    return np.stack([onnx.evaluate(model, {"x": row})[name] for row in rows["x"]])


@seeds(quick=[0, 1], slow=range(2, 20), name="block")
def test_random_recurrent_networks(block: int) -> None:
    for seed in range(BLOCK * block, BLOCK * (block + 1)):
        search(case_of, partial(check, seed=seed), [[31, seed]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [830, 3172, 3263])
def test_rows_that_noise_leads_elsewhere(seed: int) -> None:
    check(of_seed(seed), seed)


@pytest.mark.parametrize("seed", [3052, 3150])
def test_sums_beyond_the_ends_of_their_parts(seed: int) -> None:
    """Two parts of nearly the largest number make a sum that tables reach, and that is no mistake of the import."""
    check(of_seed(seed), seed)


def test_the_generator_draws_everything() -> None:
    stories = " ".join(of_seed(seed).story for seed in range(60))
    for part in ("LSTM(", "GRU(", "RNN(", "bidirectional", "reverse", "layout 1", "x4.0", "'Elu'", "'HardSigmoid'",
                 "Concat", "Pad", "MaxPool", "AveragePool", "halves swapped", "Squeeze"):  # fmt: skip
        assert part in stories
