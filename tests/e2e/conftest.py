"""The small model in a folder of its own, simulated once for all tests that only look at the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow import onnx
from tests.e2e.command import Cli, Outcome, process, share
from tests.e2e.networks import small_network, write_data

SIM = ("sim", "small.onnx", "--data", "small.npz")


def prepare(folder: Path) -> None:
    """`small.onnx`, and `small.npz` with twelve rows, labels and calibration rows."""
    model = small_network()
    onnx.save(model, folder / "small.onnx")
    rows = np.random.default_rng(5).standard_normal((20, 1, 2, 4, 4)).astype(np.float32)
    write_data(folder / "small.npz", model, rows=12, labels=np.arange(12) % 3, calib_x=rows)


@pytest.fixture(scope="session")
def simulated(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder in which `hwflow sim` ran, and what it said."""
    folder = tmp_path_factory.mktemp("small")
    prepare(folder)
    share(cache, folder / "build/.cache/sim")
    return folder, process(SIM, cwd=folder)


@pytest.fixture(scope="session")
def place(simulated: tuple[Path, Outcome]) -> Path:
    return simulated[0]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line in the folder where the small model was simulated: every result is there already."""
    monkeypatch.chdir(place)
    return Cli(capsys)
