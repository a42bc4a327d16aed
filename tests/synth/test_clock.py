"""New dividers in a routed design are those of a design that was routed with them."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError

from hwflow.synth import load_board, synthesize
from hwflow.synth.boards import Board, list_boards
from hwflow.synth.clock import goal_pll, output_of, pll_parameters
from hwflow.synth.families import FAMILIES
from hwflow.synth.options import SynthesisOptions
from hwflow.synth.report import SynthesisReport
from hwflow.synth.top import CoreOnBoard, TextOnBoard
from tests.synth.blinky import blinky_text
from tests.synth.conftest import need
from tests.synth.small_core import SmallCore

GOAL = {"ecp5": 200.0, "ice40": 99.0, "gowin": 200.0}
#: Clocks whose dividers all differ from the goal's.
OTHER = {"ecp5": 147.3, "ice40": 41.0, "gowin": 151.0}


def routed(board: Board, folder: Path, mhz: float, clock: float | None = None) -> SynthesisReport:
    need(board.family)
    text = blinky_text(board, goal_pll(board, mhz))
    return synthesize(TextOnBoard(text, board), folder, SynthesisOptions(clock=clock))


def check_new_dividers(tuned: SynthesisReport, folder: Path, elsewhere: Path) -> None:
    """`tuned` in `folder` is the same as a design that is routed with its dividers `elsewhere`."""
    board = load_board(tuned.board)
    other = OTHER[board.family]
    direct = routed(board, elsewhere, other, clock=other)
    assert tuned.bitstream.read_bytes() == direct.bitstream.read_bytes()
    assert tuned.clock_mhz == direct.clock_mhz <= other
    assert tuned.pll == direct.pll is not None
    untouched = folder / "seeds" / "seed1" / FAMILIES[board.family].layout
    assert untouched.read_bytes() != (folder / "layout" / FAMILIES[board.family].layout).read_bytes()


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[SynthesisReport, Path]:
    """An icebreaker's design that was routed for the goal and then given another clock, and its folder."""
    folder = tmp_path_factory.mktemp("tuned")
    return routed(load_board("icebreaker"), folder, GOAL["ice40"], clock=OTHER["ice40"]), folder


@pytest.mark.slow
def test_the_same_bitstream_as_routed_with_the_new_dividers(tuned: tuple[SynthesisReport, Path],
                                                            tmp_path: Path) -> None:
    check_new_dividers(*tuned, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_25f", "ice40hx8k", "upduino3", "tangnano9k"])
def test_the_same_bitstream_on_other_boards(name: str, tmp_path: Path) -> None:
    board, folder = load_board(name), tmp_path / "tuned"
    tuned = routed(board, folder, GOAL[board.family], clock=OTHER[board.family])
    check_new_dividers(tuned, folder, tmp_path / "direct")


@pytest.mark.slow
@pytest.mark.parametrize("name", list_boards())
def test_every_board_is_routed_and_gets_the_clock_that_it_bears(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    report = routed(board, tmp_path, GOAL[board.family])
    assert report.usable_mhz is not None
    assert report.pll is not None
    assert 0 <= report.usable_mhz - report.clock_mhz < 0.06 * report.usable_mhz
    assert report.meets_clock
    assert Fraction(report.clock_mhz).limit_denominator(10**6) == output_of(board, report.pll.parameters)
    assert report.bitstream.stat().st_size > 50_000


def test_a_layout_that_was_not_made_with_these_dividers_is_left_alone(
    routed_core: tuple[SynthesisReport, Path],
) -> None:
    _, folder = routed_core
    layout = (folder / "seeds" / "seed1" / "layout.asc").read_text()
    old = pll_parameters(folder / "netlist" / "netlist.json")
    assert old is not None
    new = goal_pll(load_board("icebreaker"), 50)
    for text in (layout.replace(".device 5k", ".device 1k"), layout):
        with pytest.raises(HwflowError, match=r"here: dividers of the PLL must be what was synthesized; delete the"):
            FAMILIES["ice40"].retuned(text, old | {"DIVF": 1}, new, "here")
    empty = json.dumps({"modules": {"top": {"cells": {}}}})
    with pytest.raises(HwflowError, match="here: dividers of the PLL must be what was synthesized"):
        FAMILIES["gowin"].retuned(empty, {}, new, "here")
    pll = goal_pll(load_board("ulx3s_85f"), 100)
    with pytest.raises(HwflowError, match="here: dividers of the PLL must be what was synthesized"):
        FAMILIES["ecp5"].retuned("word: CLKFB_DIV 0000000", {"CLKI_DIV": 1}, pll, "here")


def test_a_clock_that_no_pll_makes_is_refused_before_anything_starts(tmp_path: Path) -> None:
    board = load_board("icebreaker")
    with pytest.raises(HwflowError, match=r"can make of 12 MHz, not 0.001 MHz or less; choose another with --clock"):
        synthesize(CoreOnBoard(SmallCore(board.technology()), board), tmp_path / "out", SynthesisOptions(clock=0.001))
    assert not (tmp_path / "out").exists()


def test_a_clock_for_a_design_without_a_pll_is_refused_before_anything_starts(tmp_path: Path) -> None:
    board = load_board("icebreaker")
    with pytest.raises(HwflowError, match=r"a design without a PLL must be the oscillator's 12 MHz, not 40 MHz; give"):
        synthesize(TextOnBoard(blinky_text(board, None), board), tmp_path / "out", SynthesisOptions(clock=40))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_another_oscillator_changes_what_is_said_of_the_same_layout(tmp_path: Path) -> None:
    """A change too small for any divider, and for the constraints of a Gowin, which do not name it."""
    board = load_board("tangnano9k")
    text = blinky_text(board, None)
    for mhz in (27.0, 27.001):
        assert synthesize(TextOnBoard(text, replace(board, clock_mhz=mhz)), tmp_path).clock_mhz == mhz


def test_a_clock_that_no_pll_makes() -> None:
    with pytest.raises(HwflowError) as caught:
        goal_pll(load_board("icebreaker"), 3)
    assert str(caught.value) == (
        "the clock must be one that the PLL of up5k can make of 12 MHz, not 3 MHz or less; choose another with "
        "--clock, or run on the oscillator with --clock board")


def test_two_plls_are_one_too_many(tmp_path: Path) -> None:
    path = tmp_path / "netlist.json"
    cell = {"type": "rPLL", "parameters": {}}
    path.write_text(json.dumps({"modules": {"top": {"cells": {f"clocking.source.{name}": cell for name in "ab"}}}}))
    with pytest.raises(HwflowError, match="the core must have one PLL at most, not 2"):
        pll_parameters(path)
