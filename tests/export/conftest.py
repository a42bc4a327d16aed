"""Small networks, exported once in every format by the command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hwflow import onnx
from hwflow.export import FORMATS
from hwflow.onnx.model import Model
from tests.e2e.command import environment, process
from tests.e2e.networks import small_network, two_by_two, write_data


def exported(model: Model, place: Path, *kinds: str) -> Path:
    """The folder `out` in `place`, with the exports of `model`."""
    onnx.save(model, place / "m.onnx")
    write_data(place / "m.npz", model, rows=12)
    words = [word for kind in kinds for word in ("--export", kind)]
    done = process(["build", "m.onnx", "--data", "m.npz", "--output", "out", *words], cwd=place)
    assert done.code == 0, done
    for kind in kinds:
        assert f"as {kind}: out/{kind}, which says in README.md how to use it\n" in done.out
    return place / "out"


def tools() -> dict[str, str]:
    """The environment with the programs of this Python's own environment first on the path, ccache among them."""
    return environment(PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), OBJCACHE="ccache")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small network in every format; tests that change something copy it."""
    return exported(small_network(), tmp_path_factory.mktemp("small"), *sorted(FORMATS))


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of two inputs and two outputs in every format."""
    return exported(two_by_two(), tmp_path_factory.mktemp("two"), *sorted(FORMATS))
