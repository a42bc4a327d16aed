"""Compiled programs, shared by the tests of memories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hwflow_rtl.memory import SdramPart
from hwflow_sim.memory_bench import BareSdram, Traffic, compile_bare_sdram, compile_traffic

from tests.memory.parts import SMALL


@pytest.fixture(scope="session")
def chip(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> BareSdram:
    return compile_bare_sdram(SMALL, folder=tmp_path_factory.mktemp("chip"), cache=cache)


@pytest.fixture(scope="session")
def traffic(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Traffic]:
    """The program for a controller and its chip."""

    def make(part: SdramPart) -> Traffic:
        return compile_traffic(part, folder=tmp_path_factory.mktemp("traffic"), cache=cache)

    return make
