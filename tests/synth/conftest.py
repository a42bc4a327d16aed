"""A small design on an iCE40, routed once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool

from hwflow.synth import SynthesisReport, load_board, synthesize
from hwflow.synth.toolchain import tools_of_family
from hwflow.synth.top import CoreOnBoard
from tests.synth.small_core import SmallCore


def need(family: str) -> None:
    """Skip the test where a tool of the family is missing."""
    try:
        tools_of_family(family)
    except MissingTool as error:
        pytest.skip(str(error))


def routed(name: str, folder: Path) -> tuple[SynthesisReport, Path]:
    """The report of the small core on the board, and `folder`, in which it was made."""
    board = load_board(name)
    need(board.family)
    return synthesize(CoreOnBoard(SmallCore(board.technology()), board), folder), folder


@pytest.fixture(scope="session")
def routed_core(tmp_path_factory: pytest.TempPathFactory) -> tuple[SynthesisReport, Path]:
    """The small core on an icebreaker; tests leave the folder as it is."""
    return routed("icebreaker", tmp_path_factory.mktemp("icebreaker"))
