"""What the tests of Ethernet share."""

from __future__ import annotations

import pytest

from hwflow import onnx
from hwflow.quantize import Quantized, quantize
from tests.e2e.networks import rows_for, small_network


@pytest.fixture(scope="session")
def quantized() -> Quantized:
    model = small_network()
    return quantize(onnx.simplify(model), rows_for(model, 20))
