"""A small model, its data, and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwflow import onnx
from tests.e2e.networks import small_network, write_data


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """`small.onnx` in the folder of the test."""
    onnx.save(small_network(), tmp_path / "small.onnx")
    return Path("small.onnx")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """`small.npz`: six rows for the small model."""
    write_data(tmp_path / "small.npz", small_network())
    return Path("small.npz")
