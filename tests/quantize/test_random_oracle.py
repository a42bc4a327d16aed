"""Random attention, indexing and quantized models against onnxruntime: right, or refused by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow.onnx.model import Model
from hwflow.quantize.settings import settings_of_bits
from tests.quantize.random_attention import attention_model
from tests.quantize.random_indexing import indexing_model
from tests.quantize.random_oracle import FACTOR, distance, excess, judged
from tests.quantize.random_quantized import quantized_model
from tests.random_cases import seeds

#: The models, and why some of them are refused.
KINDS: dict[str, tuple[Callable[[int], Model], tuple[str, ...]]] = {
    "attention": (attention_model, ()),
    "indexing": (indexing_model, (
        "operator ScatterND has no hardware", "operator ScatterElements has no hardware",
        "operator Trilu has no hardware", "joins constants with computed tensors",
        "must have one value, or one per channel of", "must only rise or only fall over its sums",
        "joins two computed tensors")),
    "quantized": (quantized_model, ("has 16 bits, and tables are for at most 8",)),
}  # fmt: skip

#: Networks of a block of seeds.
BLOCK = 8


@seeds(quick=(0,), slow=range(1, 12), name="block")
@pytest.mark.parametrize("kind", KINDS)
def test_right_or_refused_by_name(kind: str, block: int) -> None:
    draw, refusals = KINDS[kind]
    tally = judged(draw, range(BLOCK * block, BLOCK * (block + 1)), refusals)
    print(tally)
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.right


@pytest.mark.parametrize(("kind", "seed"), [("attention", 1291), ("quantized", 3039)])
def test_much_noise_is_right_where_8_bits_explain_it(kind: str, seed: int) -> None:
    """A LayerNormalization of two elements is a sign; coarse quantizers that a file states turn by a whole step."""
    assert excess(KINDS[kind][0](seed)) <= FACTOR


@pytest.mark.parametrize("seed", range(4))
def test_little_noise_is_wrong_where_8_bits_do_not_explain_it(seed: int) -> None:
    """Of a model that is right with 8 bits, what 5 bits of activations give, or 3 of weights."""
    model = attention_model(seed)
    assert excess(model) <= FACTOR
    for weights, activations in ((8, 5), (3, 8)):
        assert excess(model, settings_of_bits(weights, activations)) > FACTOR


def test_how_far_apart_results_are() -> None:
    values = np.random.default_rng(0).normal(0, 1, (10, 20))
    assert distance(values, values) == 0
    assert distance(values, np.zeros_like(values)) == 1
    assert distance(values, values * np.nan) == distance(values, values[:, :1]) == np.inf
    assert 0.003 < distance(values, np.rint(values * 64) / 64) < 0.006
