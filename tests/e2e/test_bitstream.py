"""`hwflow sim --bitstream`: what the bits configure gives the golden model's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool

from hwflow.pipeline.records import kept
from hwflow.synth import load_board
from hwflow.synth.families import FAMILIES
from tests.e2e.command import Cli
from tests.project.tree import ROOT

MODEL, DATA = ROOT / "models" / "digits_mlp.onnx", ROOT / "models" / "digits_mlp.npz"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["icebreaker", "ulx3s_25f"])
def test_a_bitstream_equals_the_golden_model(name: str, cli: Cli, tmp_path: Path) -> None:
    """It is routed if it is not there yet."""
    board = load_board(name)
    try:
        FAMILIES[board.family].require_databases(board)
    except MissingTool as error:
        pytest.skip(str(error))
    words = ("sim", str(MODEL), "--data", str(DATA), "--bitstream", "--board", name, "--frames", "2", "--build",
             str(tmp_path), "--json")
    done = cli(*words)
    assert done.code == 0, done
    proof = done.json
    assert (proof["equal"], proof["frames"], proof["bytes_compared"]) == (True, 2, 20)
    assert sum(proof["cells"].values()) > 2000
    record = kept(tmp_path / "digits_mlp" / name, "bitstream")
    assert record is not None
    assert (record.facts["digest"], record.facts["equal"]) == (proof["digest"], True)
