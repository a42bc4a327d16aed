"""Simulated devices, compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_sim.usb.bench import CompiledBench

from tests.usb.designs import compiled_loop


@pytest.fixture(scope="session")
def full_speed(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledBench:
    """A loop on two pins, with a clock of its own."""
    return compiled_loop("full_speed", tmp_path_factory.mktemp("full_speed"), cache)


@pytest.fixture(scope="session")
def ulpi(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledBench:
    """A loop behind an ULPI PHY."""
    return compiled_loop("ulpi", tmp_path_factory.mktemp("ulpi"), cache)
