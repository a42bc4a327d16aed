"""`hwflow.explore`: its axes, its answers, and what it says of arguments that cannot be."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hwflow
from hwflow.onnx.model import Model
from tests.e2e.networks import rows_for, small_network
from tests.search.exploration.here import Here


@pytest.fixture
def model() -> Model:
    return small_network()


def test_axes_and_answers(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def here(*_: Any) -> Iterator[Here]:
        yield Here()

    monkeypatch.setattr("hwflow.search.exploration.space.engine", here)
    found = hwflow.explore(model, rows_for(model, 4), boards=["ulx3s_12f", "icebreaker"], bits=[8, (4, 6)],
                           intervals=2, frames=50, objectives=["frames", "dsp"], folder=tmp_path)
    assert {(point.board, point.widths) for point in found.points} == {
        (board, bits) for board in ("ulx3s_12f", "icebreaker") for bits in ("8,8", "4,6")}
    assert {point.metric for point in found.points} == {"SNR dB"}
    assert found.answer is not None
    assert found.answer.smallest is not None
    assert found.answer.smallest.board == "icebreaker"
    assert repr(found) == (f"Exploration of 'small': {len(found.points)} points, {len(found.points)} of them fit, "
                           f"{len(found.frontier)} on the frontier")


@pytest.mark.parametrize("arguments, message", [
    ({"boards": "icebreaker"}, "boards must be a list, not a str 'icebreaker'"),
    ({"boards": ["nowhere"]}, "board must be one of "),
    ({"bits": [9]}, "bits of weights must be from 1 to 8, not 9"),
    ({"bits": 8}, "bits must be a list, not an int 8"),
    ({"intervals": 0}, "intervals must be a whole number of at least 1, not an int 0"),
    ({"frames": float("nan")}, "frames must be a number above 0, not a float nan"),
    ({"objectives": ["cost"]}, "objectives must be some of frames, latency, accuracy, lut, ff, dsp, ram, filled, not "
                               "a str 'cost'"),
    ({"workers": 0}, "workers must be a whole number of at least 1, not an int 0"),
    ({"logic_multipliers": 1}, "logic_multipliers must be True or False, not an int 1"),
    ({"execution": "both"}, "execution must be one of "),
])
def test_arguments_that_cannot_be(model: Model, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hwflow.HwflowError, match=re.escape(message)):
        hwflow.explore(model, {"x": np.zeros((2, 1, 2, 4, 4), np.float32)}, folder=tmp_path, **arguments)


def test_without_dask_it_says_how_to_get_it(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(hwflow.MissingTool, match=re.escape(
            "exploration must have Dask to run its tasks; install it with `pip install 'hwflow[explore]'`")):
        hwflow.explore(model, boards=["icebreaker"], folder=tmp_path)
