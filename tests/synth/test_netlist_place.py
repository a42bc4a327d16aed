"""Where the netlist of `hwflow sim --netlist` is made: never over that of another design that is routed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step
from hwflow_base.work import Audience

from hwflow.reweight.patching import reweight
from hwflow.synth import load_board
from hwflow.synth import netlist as module
from hwflow.synth.boards import Board
from hwflow.synth.design import Design
from hwflow.synth.netlist import TEXT, make_netlist_of
from hwflow.synth.options import ON_BOARD
from hwflow.synth.toolchain import Job, Tool
from hwflow.synth.top import CoreOnBoard
from tests.synth.small_core import SmallCore


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str]]:
    """The folders in which yosys would make netlists, and of what text."""
    calls: list[tuple[Path, str]] = []

    def make(job: Job, text: str) -> None:
        calls.append((job.folder, text))

    monkeypatch.setattr(module, "make_netlist", make)
    monkeypatch.setattr(module, "find_tool", lambda name: Tool(name, (name,), "1", "native"))
    return calls


def text_of(board: Board, clock: str | None) -> str:
    return CoreOnBoard(SmallCore(board.technology()), board).text(clock)


@pytest.mark.parametrize("routed", [
    "the same", "another", *(pytest.param(each, marks=pytest.mark.slow) for each in (None, "on the oscillator"))])
def test_another_routed_design_stays(made: list[tuple[Path, str]], tmp_path: Path, routed: str | None) -> None:
    board, said = load_board("icebreaker"), []
    folder, apart = tmp_path / "synth", tmp_path / "proof"
    texts = {None: "", "the same": text_of(board, None), "on the oscillator": text_of(board, ON_BOARD), "another": "x"}
    (folder / "netlist").mkdir(parents=True)
    (folder / "netlist" / TEXT).write_text(texts[routed])
    if routed:
        (folder / "layout").mkdir()
    design = CoreOnBoard(SmallCore(board.technology()), board)
    path = make_netlist_of(design, folder, apart=apart, audience=Audience(said.append))
    (place, text), = made
    assert place == (apart if routed == "another" else folder)
    assert path == place / "netlist" / "netlist.json"
    assert text == texts["on the oscillator" if routed == "on the oscillator" else "the same"]
    assert [line.startswith(f"'{folder}' holds another design") for line in said] == [True] * (routed == "another")


@pytest.mark.parametrize("damaged", [
    "netlist/netlist.json", "netlist/top.il", "layout/layout.asc", "layout/routed.json"])
def test_a_routed_design_that_was_changed_gets_no_new_weights(tmp_path: Path, damaged: str) -> None:
    base, board = tmp_path / "base", load_board("icebreaker")
    steps = {"netlist": ("netlist.json", TEXT), "layout": ("layout.asc", "routed.json")}
    for step, names in steps.items():
        cached_step(base / step, "key", lambda place, names=names: [(place / name).write_text("{}") for name in names])
    (base / "report.json").write_text(json.dumps({"clock_mhz": 25.0}))
    (base / damaged).write_text("junk")
    with pytest.raises(HwflowError, match=rf"{damaged.split('/')[0]}' must be as `hwflow synth` left it, but files in"):
        reweight(Design(graph=None, plan=None, board=board), base, tmp_path / "out", quantized="", keep=lambda: None)
    assert not (tmp_path / "out").exists()
