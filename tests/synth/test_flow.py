"""A small design from Amaranth to a bitstream on a board of each family."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from hwflow_base.errors import ToolFailed
from hwflow_base.work import Audience
from hwflow_rtl.io import BoardTop

from hwflow.synth import SynthesisReport, board_top, load_board, synthesize
from hwflow.synth.clock import goal_pll
from hwflow.synth.families import FAMILIES
from hwflow.synth.netlist import yosys_script
from hwflow.synth.options import SynthesisOptions
from hwflow.synth.placement import saved_placement
from hwflow.synth.report import saved_report
from hwflow.synth.top import CoreOnBoard, TextOnBoard, design_text
from tests.synth.conftest import need, routed
from tests.synth.small_core import SmallCore

ROUTED = ["place and route, with nextpnr: minutes for a large design"]


@pytest.fixture(scope="module", params=[
    "icebreaker", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ulx3s_25f", "tangnano9k"))])
def built(request: pytest.FixtureRequest, routed_core: tuple[SynthesisReport, Path],
          tmp_path_factory: pytest.TempPathFactory) -> tuple[SynthesisReport, Path]:
    """The report of the small core on one board, and the folder it was made in."""
    return routed_core if request.param == "icebreaker" else routed(request.param, tmp_path_factory.mktemp("board"))


def is_bitstream(family: str, data: bytes) -> bool:
    """Whether the file begins as the family's configuration logic wants it."""
    if family == "ecp5":
        return data.startswith(b"\xff\x00") and b"\xff\xff\xbd\xb3" in data[:200]  # preamble, FPGA-TN-02039
    if family == "ice40":
        return b"\x7e\xaa\x99\x7e" in data[:200]  # synchronisation word, FPGA-TN-02001
    lines = data.split(b"\n")
    return all(set(line) <= set(b"01") for line in lines if not line.startswith(b"//")) and len(data) > 1_000_000


def test_a_bitstream_for_each_family(built: tuple[SynthesisReport, Path]) -> None:
    report, folder = built
    board = load_board(report.board)
    assert report.bitstream.parent == folder / "bitstream"
    assert is_bitstream(board.family, report.bitstream.read_bytes())
    assert json.loads((folder / "report.json").read_text()) == report.to_dict()
    assert saved_report(folder) == report
    assert all(path.is_file() for path in report.logs.values())
    assert set(report.seconds) == set(report.logs) == {"synthesis", "place and route", "bitstream"}
    assert all(name in tool for name, tool in report.tools.items())


def test_blocks_are_as_many_as_planned(built: tuple[SynthesisReport, Path]) -> None:
    """Nothing was optimised away, of the core nor of what stands around it."""
    report, _ = built
    board = load_board(report.board)
    cost, around = SmallCore.cost(board.technology()), BoardTop.cost(board.technology())
    assert (report.dsp.used, report.ram.used) == (cost.dsp, cost.ram + around.ram)
    assert cost.dsp > 0 == around.dsp
    assert cost.ram > 0
    assert 0 < cost.ff <= report.ff.used < report.ff.available
    assert 0 < report.lut.used < report.lut.available


def test_every_cell_has_its_place(built: tuple[SynthesisReport, Path]) -> None:
    """As many as nextpnr counts of each resource; flip-flops of an iCE40 are a part of its logic cells."""
    report, folder = built
    board = load_board(report.board)
    placement = saved_placement(folder)
    assert placement is not None
    for resource, cells in FAMILIES[board.family].routed_cells.resources().items():
        assert placement.cells(resource) == (getattr(report, resource).used if cells else 0)
    assert {"stage0", "host link", "clocks and reset"} <= {group.part for group in placement.groups} | {"stage0"}
    assert all(step.cell in placement.spots for clock in report.clocks if clock.path for step in clock.path.steps)
    if board.family == "ice40":  # its layout has a line for every tile
        tiles = re.findall(r"^\.\w+_tile (\d+) (\d+)$", (folder / "layout" / "layout.asc").read_text(), re.MULTILINE)
        assert (placement.die.columns, placement.die.rows) == (
            1 + max(int(x) for x, _ in tiles), 1 + max(int(y) for _, y in tiles))


def test_the_clock_of_the_board_is_met_with_room(built: tuple[SynthesisReport, Path]) -> None:
    report, _ = built
    board = load_board(report.board)
    assert report.meets_clock
    assert report.routed_mhz is not None
    assert report.usable_mhz == min(report.routed_mhz, report.limit.mhz)
    assert report.usable_mhz > 1.5 * board.clock_mhz
    assert board.clock_mhz < report.clock_mhz <= report.usable_mhz
    first, *steps = report.critical_path.splitlines()
    assert first.endswith(" in wires")
    assert len(steps) >= 2


def test_nothing_runs_again_when_nothing_changed(built: tuple[SynthesisReport, Path]) -> None:
    report, folder = built
    board = load_board(report.board)
    before = report.bitstream.stat().st_mtime_ns
    said: list[str] = []
    again = synthesize(CoreOnBoard(SmallCore(board.technology()), board), folder, audience=Audience(said.append))
    assert again == report
    assert said == []
    assert report.bitstream.stat().st_mtime_ns == before


@pytest.mark.quick(1)
def test_a_damaged_result_is_made_again(built: tuple[SynthesisReport, Path], tmp_path: Path) -> None:
    report, folder = built
    board = load_board(report.board)
    copy = shutil.copytree(folder, tmp_path / "copy")  # the other tests count on the first one
    bitstream = copy / report.bitstream.relative_to(folder)
    good = bitstream.read_bytes()
    bitstream.write_bytes(good[:-100])
    said: list[str] = []
    synthesize(CoreOnBoard(SmallCore(board.technology()), board), copy, audience=Audience(said.append))
    assert [line.startswith("bitstream with ") for line in said] == [True]
    assert bitstream.read_bytes() == good


def test_the_same_design_gives_the_same_text() -> None:
    board = load_board("ulx3s_85f")
    first, second = (design_text(board_top(SmallCore(board.technology()), board, identity=bytes(8))) for _ in range(2))
    assert first == second
    assert "/" not in first.split("\n", 1)[0]
    assert str(Path(__file__).parent) not in first


@pytest.mark.slow
@pytest.mark.parametrize("built", ["icebreaker"], indirect=True)
def test_another_seed_places_again_and_the_first_comes_back(built: tuple[SynthesisReport, Path],
                                                            tmp_path: Path) -> None:
    """The text of a whole top does as well as a core."""
    report, folder = built
    folder = shutil.copytree(folder, tmp_path / "copy")
    board = load_board(report.board)
    core, pll = SmallCore(board.technology()), goal_pll(board, FAMILIES[board.family].goal_mhz)
    text = design_text(board_top(core, board, identity=bytes(8), pll=pll))
    results, said = [report.bitstream.read_bytes()], []
    for seed in (1, 2, 1):
        lines: list[str] = []
        again = synthesize(TextOnBoard(text, board), folder, SynthesisOptions(seed), audience=Audience(lines.append))
        results.append(again.bitstream.read_bytes())
        said.append([line for line in lines if not line.startswith(f"seed {seed}:")])  # said of long runs alone
    assert said == [[], [*ROUTED, "bitstream with icepack"], ["bitstream with icepack"]]
    assert results[0] == results[1] == results[3] != results[2]


def test_a_design_that_does_not_fit_fails_in_the_tools_words(tmp_path: Path) -> None:
    need("ice40")
    board = load_board("icebreaker")
    size = {"products": 8, "rows": 2000}
    needed = (SmallCore.cost(board.technology(), **size) + BoardTop.cost(board.technology())).ram
    with pytest.raises(ToolFailed) as caught:
        synthesize(CoreOnBoard(SmallCore(board.technology(), **size), board), tmp_path)
    text = str(caught.value)
    assert text.startswith("place and route failed: nextpnr-ice40 said:\n  ERROR: ")
    assert "ICESTORM_RAM" in text
    assert f"its whole output is in {tmp_path / 'logs' / 'place_and_route.log'}\nthe design does not fit:\n" in text
    assert f"  block RAMs: {needed} where up5k has 30, {needed - 30} too many\n" in text
    assert text.endswith("or choose a larger board")
    assert not (tmp_path / "layout").exists()
    assert not [path for path in tmp_path.rglob(".*") if path.is_dir()]


def test_multipliers_are_never_inferred() -> None:
    assert "synth_ecp5 -nodsp" in yosys_script(load_board("ulx3s_85f"))
    assert "-dsp" not in yosys_script(load_board("icebreaker"))
    assert "synth_gowin -nodsp" in yosys_script(load_board("tangnano9k"))


@pytest.mark.slow
def test_a_full_array_on_the_large_device_reaches_its_clock(tmp_path: Path) -> None:
    """64 multipliers: registers inside the blocks and behind them keep the array fast."""
    need("ecp5")
    board = load_board("ulx3s_85f")
    size = {"products": 64, "rows": 512}
    report = synthesize(CoreOnBoard(SmallCore(board.technology(), **size), board), tmp_path)
    cost, around = SmallCore.cost(board.technology(), **size), BoardTop.cost(board.technology())
    assert (report.dsp.used, report.ram.used) == (cost.dsp, cost.ram + around.ram) == (64, 16 + around.ram)
    assert report.usable_mhz is not None
    assert report.usable_mhz >= 150
