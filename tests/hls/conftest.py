"""The family that most plans of the tests are for."""

from __future__ import annotations

import pytest
from hwflow_rtl.vendor import Technology

from hwflow.synth import load_board


@pytest.fixture(scope="session")
def technology() -> Technology:
    return load_board("ulx3s_85f").technology()
