"""The digest of a design's structure, which stands for its text: equal where that is equal but for contents of ROMs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor import Technology

from hwflow import hls
from hwflow.layers.base import LayerGraph
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.reweight import patching as module
from hwflow.synth import ends_of, load_board
from hwflow.synth.boards import Board
from hwflow.synth.design import Design
from hwflow.synth.options import ON_BOARD
from hwflow.synth.rom_contents import filled, separated
from hwflow.synth.structure import FOLDER, NOTE, Structure, Walk, save_structure, saved_structure, structure_of
from hwflow.synth.top import CoreOnBoard, design_text
from hwflow.views.console.terminal import Console
from tests.e2e.conftest import prepare

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    project = Project(MODELS / "digits_mlp.onnx", data=MODELS / "digits_mlp.npz",
                      build=tmp_path_factory.mktemp("build"))
    return Pipeline(Console(quiet=True), project,
                hardware=HardwareOptions("icebreaker", interval=2200, reweightable=True))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A convolution, a pool and a matrix."""
    folder = tmp_path_factory.mktemp("small")
    prepare(folder)
    return Pipeline(Console(quiet=True), Project(folder / "small.onnx", data=folder / "small.npz", build=folder),
                    hardware=HardwareOptions("icebreaker", interval=600, reweightable=True))


def test_a_board_says_the_same_in_every_run() -> None:
    """What it says of itself is a part of the digest: nothing in it is an address."""
    assert " at 0x" not in repr(load_board("ecpix5_45f"))


def other_weights(graph: LayerGraph) -> LayerGraph:
    """Every weight replaced by another one of the layer."""
    return replace(graph, layers=tuple(
        replace(layer, weights=np.roll(layer.weights, 1)) if hasattr(layer, "weights") else layer
        for layer in graph.layers))


def plan_for(pipeline: Pipeline, board: Board) -> hls.Plan:
    """That of the flow, for another family."""
    return hls.plan_from_yaml(hls.plan_to_yaml(pipeline.plan), pipeline.structure, board.technology(), source="plan")


def on_board(graph: LayerGraph, plan: hls.Plan, board: Board, identity: bytes) -> CoreOnBoard:
    return CoreOnBoard(hls.lower(graph, plan, board.technology()), board, ends_of(plan), identity)


def structure(graph: LayerGraph, plan: hls.Plan, board: Board, identity: bytes = bytes(8),
              clock: float | str | None = None) -> Structure:
    return structure_of(on_board(graph, plan, board, identity), clock)


def text(graph: LayerGraph, plan: hls.Plan, board: Board, identity: bytes = bytes(8)) -> str:
    return on_board(graph, plan, board, identity).text()


@pytest.mark.parametrize("name", ["icebreaker", "ulx3s_25f", "tangnano9k"])
@pytest.mark.slow
def test_contents_are_those_of_the_text(pipeline: Pipeline, name: str) -> None:
    """Of the identity, too; and the text with them is the text that would be written of the other design."""
    board = load_board(name)
    plan, others = plan_for(pipeline, board), other_weights(pipeline.structure)
    first, second = structure(pipeline.structure, plan, board), structure(others, plan, board, b"other id")
    texts = text(pipeline.structure, plan, board), text(others, plan, board, b"other id")
    (bare, contents), (same, expected) = map(separated, texts)
    assert bare == same
    assert first.digest == second.digest
    assert first.contents == contents
    assert second.contents == expected
    assert contents.keys() == expected.keys()
    assert sum(contents[place] != expected[place] for place in contents) >= 10
    assert filled(texts[0], expected) == filled(bare, expected) == texts[1]


def test_what_makes_another_design_makes_another_digest(small: Pipeline) -> None:
    graph, plan, board = small.structure, small.plan, small.board
    tighter = Pipeline(Console(quiet=True), small.project, hardware=replace(small.hardware, reweightable=False))
    faster = Pipeline(Console(quiet=True), small.project, hardware=replace(small.hardware, interval=300))
    line = board.transport
    slower = replace(board, transports={"uart": replace(line, entry={**line.entry, "baud": line.entry["baud"] // 2})})
    found = [structure(graph, plan, board).digest, structure(graph, plan, board, clock=ON_BOARD).digest,
             structure(graph, plan, slower).digest,
             structure(tighter.structure, tighter.plan, board).digest, structure(graph, faster.plan, board).digest]
    assert len(set(found)) == len(found)
    assert structure(graph, plan, board).digest == found[0]


class Table(wiring.Component):
    """A ROM, and a register more where its first word is odd: what a structure must not do."""

    def __init__(self, technology: Technology, contents: list[int], name: str = "word"):
        self.technology, self.contents, self.name = technology, contents, name
        super().__init__({"i": In(3), "o": Out(8)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        rows = np.array(self.contents, dtype=np.uint8).reshape(-1, 1)
        m.submodules.rom = rom = self.technology.rom(width=8, contents=rows, name="table")
        word = Signal(8, name=self.name)
        m.d.comb += [rom.addr.eq(self.i), word.eq(rom.data)]
        if self.contents[0] % 2:
            m.d.sync += self.o.eq(word)
        else:
            m.d.comb += self.o.eq(word)
        return m


def digest_of(component: Any) -> str:
    walk = Walk()
    walk.on(Fragment.get(component, None))
    return walk.digest()


def test_a_structure_that_depends_on_contents_is_noticed() -> None:
    technology = load_board("icebreaker").technology()
    first = digest_of(Table(technology, [2, 3, 4, 5, 6, 7, 8, 9]))
    assert digest_of(Table(technology, [4, 1, 1, 1, 1, 1, 1, 0])) == first
    assert digest_of(Table(technology, [3, 3, 4, 5, 6, 7, 8, 9])) != first
    assert digest_of(Table(technology, [2, 3, 4, 5])) != first
    assert digest_of(Table(technology, [2, 3, 4, 5, 6, 7, 8, 9], name="other")) != first


def test_a_kept_digest_is_that_of_its_text_or_none(tmp_path: Path) -> None:
    assert saved_structure(tmp_path, "text") == ""
    save_structure(tmp_path, "text", Structure("1234", {}))
    assert saved_structure(tmp_path, "text") == "1234"
    assert saved_structure(tmp_path, "another") == ""
    path = tmp_path / FOLDER / NOTE
    path.write_text(path.read_text()[:-5])
    assert saved_structure(tmp_path, "text") == ""


def test_new_contents_come_from_the_structure_where_it_is_kept(small: Pipeline, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as from the text; where nothing is kept, or other than contents differ, that is written."""
    board, plan = small.board, small.plan
    old_text = text(small.structure, plan, board)
    for base in (tmp_path, tmp_path / "nothing"):
        (base / module.TEXT).parent.mkdir(parents=True)
        (base / module.TEXT).write_text(old_text)
    save_structure(tmp_path, old_text, structure(small.structure, plan, board))
    calls: list[str] = []

    def counted(design: CoreOnBoard, clock: float | str | None) -> str:
        calls.append("text")
        return design_text(design.top(clock))

    def made(base: Path, graph: LayerGraph, plan: hls.Plan) -> tuple[Any, ...]:
        calls.clear()
        return module.with_new_contents(base, Design(graph, plan, board), print)

    monkeypatch.setattr(CoreOnBoard, "text", counted)
    short = made(tmp_path, other_weights(small.structure), plan)
    assert not calls
    long = made(tmp_path / "nothing", other_weights(small.structure), plan)
    assert calls
    assert short == long
    tighter = Pipeline(Console(quiet=True), small.project, hardware=replace(small.hardware, reweightable=False))
    with pytest.raises(AnswerIsNo, match="these parts of it differ: "):
        made(tmp_path, tighter.structure, tighter.plan)
    assert calls
