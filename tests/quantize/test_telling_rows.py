"""Which rows a model is compared on: the loud ones, those at the ends of the ranges, and as many as there is time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.layers.base import LayerGraph
from hwflow.layers.conv import Conv
from hwflow.layers.planes import Planes
from hwflow.onnx.model import Array
from hwflow.quantize import quantize
from hwflow.quantize.checks import meaning as telling_rows
from hwflow.quantize.checks.meaning import Meaning, MeaningChanged
from tests.quantize.models import rows
from tests.quantize.tuning.networks import Net


def quiet_but(place: int, count: int = 30) -> dict[str, Array]:
    """Rows of which one alone is loud."""
    (name, array), = rows(model(), count).items()
    array = array.copy() * np.float32(0.01)
    array[place] *= 100
    return {name: array}


def model() -> object:
    return Net((1, 3, 8, 8)).conv(4).node("Relu").conv(4).model()  # type: ignore[return-value]


@pytest.mark.parametrize("place", [0, 3, 17, 29])
def test_the_loud_row_comes_first(place: int) -> None:
    data = quiet_but(place)
    meaning = Meaning.of(model(), data)
    (name,) = data
    np.testing.assert_array_equal(meaning.rows[0].feeds[name], data[name][place])
    assert not any(row.is_made_up for row in meaning.rows)  # reals have no ranges


def test_what_is_wrong_in_loud_rows_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution that saturates too early, at what no quiet row reaches."""
    compute = Conv.compute

    def broken(self: Conv, graph: LayerGraph, *inputs: Planes) -> Planes:
        requantize = replace(self.requantize, high=self.requantize.high // 2)
        return np.asarray(compute(replace(self, requantize=requantize), graph, *inputs))

    monkeypatch.setattr(Conv, "compute", broken)
    with pytest.raises(MeaningChanged, match="the import must keep what the model computes"):
        quantize(model(), quiet_but(17))


def test_made_up_rows_are_at_both_ends_and_finite() -> None:
    quantized = quantize(model(), quiet_but(5))
    made_up = [row for row in Meaning.of(quantized.qdq, quiet_but(5)).rows if row.is_made_up]
    assert len(made_up) == 4
    (array,) = quiet_but(5).values()
    for row in made_up:
        assert set(np.unique(row.feeds["input"])) <= {array.min(), array.max()}


def test_the_time_decides_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    many = len(Meaning.of(model(), quiet_but(5)).rows)
    monkeypatch.setattr(telling_rows, "SECONDS", 0.0)
    assert len(Meaning.of(model(), quiet_but(5)).rows) == 1 < many
