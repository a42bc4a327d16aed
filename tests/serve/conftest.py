"""Two boards with a small network, and a server in front of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hwflow import onnx
from hwflow.quantize import Quantized, quantize
from tests.e2e.networks import rows_for, small_network
from tests.host.models import leave_design
from tests.serve.serving import Boards, Client, pool_of, serving


@pytest.fixture(scope="session")
def quantized() -> Quantized:
    model = small_network()
    return quantize(onnx.simplify(model), rows_for(model, 20))


@pytest.fixture
def boards(quantized: Quantized, tmp_path: Path) -> Iterator[Boards]:
    made = Boards(quantized, leave_design(quantized, tmp_path / "build"))
    yield made
    made.close()


@pytest.fixture
def client(quantized: Quantized, boards: Boards) -> Iterator[Client]:
    boards.plug("a")
    with serving(quantized, pool_of(boards, ("a",))) as client:
        yield client
