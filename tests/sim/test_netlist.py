"""Netlists of all families in simulation: a small design gives its answers through its pins, a broken one does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hwflow_base.errors import HwflowError
from hwflow_sim.board import CompiledBoard, SimulatedBoard, UartLine, compile_board, netlist_design, read_netlist

from hwflow.host import LinkFailed
from hwflow.synth import Board, load_board
from hwflow.synth.netlist import make_netlist_of
from hwflow.synth.toolchain import locate
from hwflow.synth.top import CoreOnBoard
from tests.sim.small_board import IDENTITY, answers, linked, noise, small_core

Change = Callable[[dict[str, Any]], None]

DATA = noise(120)


@pytest.fixture(scope="module")
def netlists(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The netlist of the small design for a board, made once."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if locate("yosys") is None:
            pytest.skip("yosys must be installed for a netlist")
        if name not in made:
            board = load_board(name)
            made[name] = make_netlist_of(CoreOnBoard(small_core(board.technology()), board, identity=IDENTITY),
                                         tmp_path_factory.mktemp(name))
        return made[name]

    return make


def compiled_netlist(netlist: Path, board: Board, folder: Path, cache: Path) -> CompiledBoard:
    design = netlist_design(read_netlist(netlist, board.family), reset_active_low=board.reset_active_low)
    return compile_board(design, folder=folder, cache=cache, jobs=2)


def played(compiled: CompiledBoard, board: Board) -> bytes:
    """What the netlist answers to DATA."""
    with SimulatedBoard(compiled, line=UartLine(board.clock_mhz * 1e6 / board.transport.entry["baud"])) as simulated:
        link = linked(simulated)
        assert link.reset().design == IDENTITY
        return link.exchange(DATA)


@pytest.mark.parametrize("name", ["icebreaker", pytest.param("ulx3s_85f", marks=pytest.mark.slow),
                                  pytest.param("tangnano9k", marks=pytest.mark.slow)])
def test_a_netlist_answers_through_its_pins(name: str, netlists: Callable[[str], Path], tmp_path: Path,
                                            cache: Path) -> None:
    netlist, board = netlists(name), load_board(name)
    assert played(compiled_netlist(netlist, board, tmp_path / "whole", cache), board) == answers(DATA)
    broken = compiled_netlist(changed(netlist, tmp_path, rom_bit), board, tmp_path / "rom", cache)
    assert not broken.compiled, "other contents need no new compilation"
    assert played(broken, board) != answers(DATA), "one bit of a ROM"


@pytest.mark.slow
def test_a_broken_table_is_found(netlists: Callable[[str], Path], tmp_path: Path, cache: Path) -> None:
    board = load_board("icebreaker")
    broken = compiled_netlist(changed(netlists("icebreaker"), tmp_path, table), board, tmp_path / "table", cache)
    try:
        assert played(broken, board) != answers(DATA)
    except LinkFailed as error:
        pytest.fail(f"the table must be one of the core: {error}")


def changed(netlist: Path, folder: Path, change: Change) -> Path:
    text = json.loads(netlist.read_text())
    change(text["modules"]["top"]["cells"])
    path = folder / "changed.json"
    path.write_text(json.dumps(text))
    return path


def rom_bit(cells: dict[str, Any]) -> None:
    """The lowest bit of a word that is read: the 40th, which stands in the first or third line of a block."""
    cell = next(cell for name, cell in sorted(cells.items())
                if "rom" in name and "core" in name and any(key.startswith("INIT") for key in cell["parameters"]))
    name, place = {"SB_RAM40_4K": ("INIT_2", 16 * 8), "DP16KD": ("INITVAL_02", 20 * 8),
                   "SDPX9B": ("INIT_RAM_02", 18 * 8), "SDPB": ("INIT_RAM_02", 16 * 8)}[cell["type"]]
    bits = list(cell["parameters"][name])
    bits[~place] = "10"[int(bits[~place])]
    cell["parameters"][name] = "".join(bits)


def table(cells: dict[str, Any]) -> None:
    """All entries of a table that makes the answer."""
    cell = next(cell for name, cell in sorted(cells.items()) if "answer" in name and cell["type"] == "SB_LUT4")
    cell["parameters"]["LUT_INIT"] = cell["parameters"]["LUT_INIT"].translate(str.maketrans("01", "10"))


def minimal(cells: dict[str, Any]) -> dict[str, Any]:
    return {"modules": {"top": {"ports": {"clk": {"direction": "input", "bits": [2]}}, "cells": cells}}}


@pytest.mark.parametrize("text, message", [
    ("", "must be a netlist that yosys wrote"),
    ("[]", "must be a netlist that yosys wrote"),
    (json.dumps({"modules": {}}), "of a module 'top'"),
    (json.dumps(minimal({"a": {"type": "MYSTERY", "parameters": {}, "connections": {}}})),
     "cell 'a' must be one whose function is known .* not MYSTERY"),
    (json.dumps(minimal({"a": {"type": "DP16KD", "parameters": {"INITVAL_00": "01"}, "connections": {}}})),
     "must be 64 parameters of 320 bits"),
    (json.dumps(minimal({"a": {"type": "LUT4", "parameters": {"INIT": "0\"); $finish; //"}, "connections": {}}})),
     "must be bits or plain text"),
    (json.dumps(minimal({"a": {"type": "LUT4", "parameters": {}, "connections": {"A": ["); $finish;"]}}})),
     "must be bits or plain text"),
    (json.dumps(minimal({"a": {"type": "LUT4", "parameters": {"X(1), .Y": "1"}, "connections": {}}})),
     "must be a plain name"),
])
def test_what_is_no_netlist_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "netlist.json"
    path.write_text(text)
    with pytest.raises(HwflowError, match=message):
        read_netlist(path, "ecp5")
