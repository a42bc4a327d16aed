"""Weights in SDRAM as a unit with two streams: filled by one, given by the other, cleared and restarted at any time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import WeightStore
from hwflow_sim.sdram import Traffic, compile_traffic

from tests.memory.parts import SMALL

BEATS = 300


@pytest.fixture(scope="module")
def store() -> WeightStore:
    return WeightStore(part=SMALL, shape=signed(8), lanes=6, beats=BEATS)


@pytest.fixture(scope="module")
def traffic(store: WeightStore, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return compile_traffic(SMALL, folder=tmp_path_factory.mktemp("store"), cache=cache, store=store)


def frame(image: np.ndarray) -> np.ndarray:
    """The bits of each beat of 48 bits: three words of 16."""
    return (image.reshape(BEATS, 3) << np.arange(3) * 16).sum(axis=1)


def image_of(store: WeightStore, seed: int) -> np.ndarray:
    return store.reader.image(np.random.default_rng(seed).integers(-128, 128, (BEATS, 6)))


@pytest.mark.parametrize(("fill_stall", "stall"), [(0, 0), (0.5, 0.5), (0.9, 0), (0, 0.9)])
def test_filled_and_read(store: WeightStore, traffic: Traffic, fill_stall: float, stall: float) -> None:
    image = image_of(store, 1)
    result = traffic.run([], image, beats=3 * BEATS + 5, seed=3, write_stall=fill_stall, read_stall=stall)
    assert result.violations == {}
    assert np.array_equal(result.beats, np.resize(frame(image), 3 * BEATS + 5))


def test_restarts_keep_the_image(store: WeightStore, traffic: Traffic) -> None:
    image = image_of(store, 2)
    result = traffic.run([], image, beats=20 * 77, restart=77, seed=5, read_stall=0.2)
    assert result.violations == {}
    assert np.array_equal(result.beats, np.tile(frame(image)[:77], 20))


@pytest.mark.parametrize("cycle", [50, 150, 300, 1000, 1033, 1034, 1035, 1036, 1037, 1038, 1039, 1040, 1500, 4000])
def test_cleared_at_any_time(store: WeightStore, traffic: Traffic, cycle: int) -> None:
    """Before, while and after it is filled: what comes next is the image that is filled after that, from its start."""
    image = image_of(store, 3)
    result = traffic.run([], image, beats=5 * BEATS, clear=cycle, seed=cycle)
    assert result.violations == {}
    before = result.beats_before_clear
    assert (before > 0) == (cycle >= 1500)
    assert np.array_equal(result.beats[:before], np.resize(frame(image), before))
    assert np.array_equal(result.beats[before:], np.resize(frame(image), 5 * BEATS - before))


def test_nothing_comes_before_the_last_word(store: WeightStore, traffic: Traffic) -> None:
    with pytest.raises(ToolFailed, match="the simulated SDRAM must answer, and did not"):
        traffic.run([], image_of(store, 4)[:-1], beats=1)
