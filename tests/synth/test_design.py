"""What every way to a bitstream ends with: `identity.json`, after all that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hwflow import hls
from hwflow.host.identity import IDENTITY_FILE, DesignFacts, identity
from hwflow.pipeline.planning import budget_of
from hwflow.quantize import quantize
from hwflow.stages.other_weights import with_room
from hwflow.synth import load_board
from hwflow.synth.design import Design, finish_design
from tests.e2e.networks import rows_for, small_network


@pytest.fixture(scope="module")
def design() -> Design:
    model, board = small_network(), load_board("icebreaker")
    graph = quantize(model, rows_for(model, 20)).graph
    return Design(graph, hls.solve(graph, hls.Target(board.technology(), budget_of(board, graph))), board)


def test_the_identity_is_written_last(design: Design, tmp_path: Path) -> None:
    done: list[str] = []

    def note(what: str) -> SimpleNamespace:
        assert not (tmp_path / IDENTITY_FILE).exists()
        done.append(what)
        return SimpleNamespace(clock_mhz=50.0)

    report = finish_design(design, tmp_path, lambda: note("made"), quantized="there", keep=lambda: note("kept"))
    assert (done, report.clock_mhz) == (["made", "kept"], 50.0)
    facts = DesignFacts.read(tmp_path)
    assert facts.identity == design.identity() == identity(design.graph, design.plan)
    assert (facts.quantized, facts.clock_mhz, facts.board) == ("there", 50.0, "icebreaker")
    assert facts.foldings == tuple(stage.folding for stage in design.plan.stages)


@pytest.mark.parametrize("step", ["make", "keep"])
def test_a_design_that_was_not_finished_has_no_identity(design: Design, tmp_path: Path, step: str) -> None:
    def fail() -> SimpleNamespace:
        raise OSError("full")

    steps = {"make": lambda: SimpleNamespace(clock_mhz=50.0), "keep": lambda: None, step: fail}
    with pytest.raises(OSError, match="full"):
        finish_design(design, tmp_path, steps["make"], quantized="there", keep=steps["keep"])
    assert list(tmp_path.iterdir()) == []


def test_room_for_other_weights_is_no_other_design(design: Design) -> None:
    roomy = replace(design, structure=with_room(design.graph))
    assert roomy.structure != design.graph
    assert roomy.identity() == design.identity()
