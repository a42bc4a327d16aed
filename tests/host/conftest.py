"""A small quantized network and the folder of its design."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwflow import onnx
from hwflow.quantize import Quantized, quantize
from tests.e2e.networks import rows_for, small_network
from tests.host.models import leave_design


@pytest.fixture(scope="session")
def quantized() -> Quantized:
    model = small_network()
    return quantize(onnx.simplify(model), rows_for(model, 20))


@pytest.fixture
def design(quantized: Quantized, tmp_path: Path) -> Path:
    """The folder of the design below the build folder of the test."""
    return leave_design(quantized, tmp_path / "build")
