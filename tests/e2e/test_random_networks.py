"""Random chains of layers: integers are near floats."""

from __future__ import annotations

import pytest

from hwflow import golden, onnx
from hwflow.accuracy import signal_to_noise
from hwflow.quantize import quantize
from tests.e2e.networks import random_network, rows_for
from tests.random_cases import seeds

#: Decibels between the float outputs and their difference to the integers'; 700 seeds gave at least 27.
LEAST_SNR = 20


@pytest.mark.quick(20)
@seeds(quick=range(60))
def test_integers_are_near_the_floats(seed: int) -> None:
    model = onnx.simplify(random_network(seed))
    rows = rows_for(model, 20)
    apart = signal_to_noise(golden.evaluate_rows(model, rows), golden.predict(quantize(model, rows), rows))
    assert apart is None or apart > LEAST_SNR
