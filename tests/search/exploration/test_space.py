"""The tasks of a space, run in this process: what they find is what the commands find, in any order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hwflow
from hwflow import onnx
from hwflow.quantize.settings import QuantizationSettings, settings_of_bits
from hwflow.search.exploration.exploration import exploration_of
from hwflow.search.exploration.point import Objective, Widths
from hwflow.search.exploration.space import Material, Results, Space, Work
from hwflow.search.exploration.store import STORE, Store
from hwflow.synth import load_board
from tests.e2e.networks import small_network, write_data
from tests.search.exploration.here import Here

WIDTHS = (Widths(), Widths(bits=(4, 8)))
BOARDS = {name: load_board(name) for name in ("icebreaker", "ulx3s_12f", "ulx3s_85f", "ice40hx8k")}
SPACE = Space(BOARDS, WIDTHS, intervals=3, rate=1000.0)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("space")
    onnx.save(small_network(), folder / "small.onnx")
    write_data(folder / "small.npz", small_network(), rows=8, labels=np.arange(8) % 3)
    model = hwflow.load(folder / "small.onnx")
    settings = {WIDTHS[0]: QuantizationSettings(), WIDTHS[1]: settings_of_bits(4, 8)}
    return Material(model, model, hwflow.read_data(folder / "small.npz", model), settings)


def run(material: Material, folder: Path, engine: Here) -> tuple[Results, Work]:
    with Store(folder / STORE) as store:
        work = Work(material, SPACE, store)
        if work.left:
            work.run(engine, lambda done, total: None)  # type: ignore[arg-type]
        return work.found(), work


@pytest.fixture(scope="module")
def found(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What one run finds."""
    return run(material, tmp_path_factory.mktemp("found"), Here())[0]


def test_points_are_the_plans_that_the_commands_make(material: Material, found: Results) -> None:
    assert len(found.points) >= len(BOARDS) * len(WIDTHS) * 3
    assert not found.lost
    for widths in WIDTHS:
        quantized = hwflow.quantize_model(material.model, material.dataset, settings=material.settings[widths])
        accuracy = hwflow.measure_accuracy(material.model, quantized, material.dataset)
        own = [point for point in found.points if point.widths == str(widths)]
        assert {point.accuracy for point in own} == {100 * accuracy.headline.integer}
        for point in own[::3]:
            plan = hwflow.make_plan(quantized, point.board, point.asked)
            counts = plan.resources.counts()
            assert (point.interval, point.latency, point.lut, point.ff, point.dsp, point.ram, point.spram) == (
                plan.interval_at(point.mhz), max(plan.latency), *(counts[kind] for kind in
                                                                  ("lut", "ff", "dsp", "ram", "spram")))


def test_what_is_finished_is_not_computed_again(material: Material, found: Results, tmp_path: Path) -> None:
    """After a run that lost two tasks the next one runs these two alone, and all points are those of one run."""
    some, work = run(material, tmp_path, Here(losses=2))
    assert [str(each.why) for each in some.lost] == ["its worker died"] * 2
    assert work.left == 2
    again = Here()
    whole, work = run(material, tmp_path, again)
    assert again.ran == 2
    assert work.left == 0
    assert not whole.lost
    third = Here()
    assert run(material, tmp_path, third)[0] == whole
    assert third.ran == 0
    assert whole == found


def test_the_frontier_of_an_exploration_has_each_design_once(found: Results, tmp_path: Path) -> None:
    explored = exploration_of(SPACE, found, tmp_path, objectives=[Objective.FRAMES, Objective.LUT], model="small")
    assert len({(point.board, point.design) for point in explored.frontier}) == len(explored.frontier)
    speeds = [point.frames_per_second for point in explored.frontier]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds
    assert explored.answer is not None
    assert explored.answer.smallest is not None
