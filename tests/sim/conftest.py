"""A compiled toy core, shared by the tests of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hwflow_sim import Simulation, compile
from hwflow_sim.packing import write_roms

from tests.sim.toy import Fault, ToyCore, boundaries, roms


def compile_toy(folder: Path, cache: Path, **options) -> Simulation:
    return compile(ToyCore(work=options.pop("work", 2)), boundaries=boundaries(), roms=options.pop("roms", roms()),
                   folder=folder, cache=cache, **options)


@pytest.fixture(scope="session")
def compiled(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    return compile_toy(tmp_path_factory.mktemp("toy"), cache, jobs=2)


@pytest.fixture
def toy(compiled: Simulation, tmp_path: Path) -> Callable[[Fault], Simulation]:
    """The toy with a fault, in a folder of its own."""

    def make(fault: Fault = Fault.NONE) -> Simulation:
        write_roms(roms(fault=fault), tmp_path)
        return replace(compiled, folder=tmp_path)

    return make
