"""Random attention, indexing and quantized models against onnxruntime: right, or refused by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow.onnx.model import Model
from tests.quantize.random_attention import attention_model
from tests.quantize.random_indexing import indexing_model
from tests.quantize.random_oracle import judged, ratio
from tests.quantize.random_quantized import quantized_model
from tests.random_cases import seeds

#: The models, the dB that 8 bits leave them at least, and why some of them are refused.
KINDS: dict[str, tuple[Callable[[int], Model], float, tuple[str, ...]]] = {
    "attention": (attention_model, 10.0, ()),
    "indexing": (indexing_model, 10.0, (
        "operator ScatterND has no hardware", "operator ScatterElements has no hardware",
        "operator Trilu has no hardware", "joins constants with computed tensors",
        "must have one value, or one per channel of", "must only rise or only fall over its sums")),
    "quantized": (quantized_model, 9.0, ()),
}  # fmt: skip

#: Networks of a block of seeds.
BLOCK = 8


@seeds(quick=(0,), slow=range(1, 12), name="block")
@pytest.mark.parametrize("kind", KINDS)
def test_right_or_refused_by_name(kind: str, block: int) -> None:
    draw, least, refusals = KINDS[kind]
    tally = judged(draw, range(BLOCK * block, BLOCK * (block + 1)), refusals, least)
    print(tally)
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.right


def test_what_counts_as_wrong() -> None:
    values = np.random.default_rng(0).normal(0, 1, (10, 20))
    assert ratio(values, values) == np.inf
    assert ratio(values, np.zeros_like(values)) == 0
    assert ratio(values, values * np.nan) == -np.inf
    assert ratio(values, values[:, ::-1]) < 3
    assert 35 < ratio(values, np.rint(values * 64) / 64) < 60
