"""A build folder of an earlier commit: everything in it is read, made anew, or refused with a message.

`build_of_2347b722.tar.xz` was written by that commit: one dense layer, quantized and measured, its plan for the
icebreaker and what a routed design leaves, a table of explored designs, and answers of a search for widths.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hwflow_base.files.durations import Durations

from hwflow import golden, hls
from hwflow.host.design import find_designs
from hwflow.host.identity import DesignFacts, identity
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.boards import kept_integers, kept_plan
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.records import ACCURACY, kept
from hwflow.pipeline.reporter import Silence
from hwflow.pipeline.routed_design import RoutedDesign
from hwflow.search.exploration.store import Store
from hwflow.search.widths import Answers

OLD = Path(__file__).parent / "build_of_2347b722.tar.xz"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    project = Project(tmp_path / "small.onnx", data=tmp_path / "small.npz", build=tmp_path / "build")
    return Pipeline(Silence(), project, hardware=HardwareOptions("icebreaker"))


def test_what_was_measured_is_read(pipeline: Pipeline) -> None:
    record = kept(pipeline.folder, ACCURACY)
    assert record is not None
    assert record.facts["accuracy"]["rows"] == 20
    assert Durations(pipeline.project.build / ".cache" / "durations.json").expected("some work", 2.0, ["all"]) == {
        "all": 4.0}


def test_the_integers_and_the_plan_are_those_of_the_design(pipeline: Pipeline) -> None:
    """So a board that has the old bitstream is driven with them."""
    (folder, facts), = find_designs(pipeline.project.build, "small", "icebreaker")
    assert facts == DesignFacts.read(folder)
    quantized = kept_integers(pipeline)
    assert quantized is not None
    plan = kept_plan(pipeline, quantized)
    assert plan is not None
    assert identity(quantized.graph, plan) == facts.identity
    assert golden.predict(quantized, pipeline.dataset.inputs)["y"].shape == (20, 1, 3)


def test_a_routed_design_is_read(pipeline: Pipeline) -> None:
    routed = RoutedDesign.of(pipeline.synthesis, pipeline.board)
    assert not routed.reweightable
    assert hls.plan_to_yaml(routed.plan) == hls.plan_to_yaml(kept_plan(pipeline, kept_integers(pipeline)))
    assert "range" in routed.settings


def test_searches_begin_anew_beside_what_is_there(pipeline: Pipeline) -> None:
    with Store(pipeline.folder / "exploration" / "points.sqlite") as store:
        assert store.points("of another version") is None
    answers = Answers(pipeline.board_folder / "precision" / "answers.jsonl", "context")
    assert dict(answers) == {"cost 8": {"price": 1.0}}
    assert not Answers(answers.lines.path, "of another version")


def test_results_of_an_older_hwflow_are_made_again(pipeline: Pipeline) -> None:
    before = (pipeline.folder / "quantized" / "step.json").read_text()
    with pipeline.locked():
        assert pipeline.plan.interval == 1
    assert (pipeline.folder / "quantized" / "step.json").read_text() != before
