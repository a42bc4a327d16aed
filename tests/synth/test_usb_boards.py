"""USB in board files: pins, descriptors, and what a board cannot have."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hwflow_base.errors import HwflowError
from hwflow_rtl.io.transports import FullSpeedUsb, UlpiUsb
from hwflow_rtl.vendor import ECP5

from hwflow.synth import load_board
from hwflow.synth.bitstream import constraints
from hwflow.synth.boards import boards_folder

BOARDS = {"ulx3s_25f": (FullSpeedUsb, ("transport.sample_clk", 48)), "orangecrab_85f": (FullSpeedUsb, None),
          "ecpix5_45f": (UlpiUsb, ("usb_clk", 60))}


@pytest.mark.parametrize("name", BOARDS)
def test_boards_with_usb(name: str) -> None:
    board = load_board(name).with_transport("usb")
    made, clock = BOARDS[name]
    transport = board.transport.gateware(board.place(pads=True), board.path)
    assert isinstance(transport, made)
    assert board.transport.clock == clock
    assert transport.shape == board.transport.shape or board.transport.shape is None
    # Every port of the gateware has its pins in the constraints.
    text = constraints(board, leds=0)[1]
    ports = {*transport.pins, *(port.name for port in transport.both_ways)}
    missing = [port for port in ports if f'COMP "{port}"' not in text and f'COMP "{port}[0]"' not in text]
    assert missing == []
    assert board.transport.facts().options["serial"] == name
    assert board.transport.cost(ECP5()).ram == 2


def test_a_clock_that_makes_no_usb() -> None:
    board = replace(load_board("ulx3s_25f").with_transport("usb"), clock_mhz=5.0)
    with pytest.raises(HwflowError, match=r"'transports\.usb'.*one of which a PLL makes 48 MHz"):
        board.transport.gateware(board.place(), board.path)


def test_without_luna(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "luna" else found(name, *rest))
    board = load_board("ulx3s_25f").with_transport("usb")
    with pytest.raises(HwflowError, match=r"LUNA.*hwflow\[usb\]"):
        board.transport.gateware(board.place(), board.path)


@pytest.mark.parametrize("entry", [
    {"d_p": "D15", "d_n": "E15", "serial": "x"}, {"d_p": "D15", "d_n": "E15", "pullup": "B12"},
    {"d_p": "D15", "d_n": "E15", "pullup": "B12", "serial": "with blank"},
    {"d_p": "D15", "d_n": "E15", "pullup": "B12", "serial": "x", "clk": "A1"},
    {"d_p": "D15", "d_n": "E15", "pullup": "B12", "serial": "x", "vendor": 70000}])
def test_wrong_entries(entry: dict, tmp_path: Path) -> None:
    content = yaml.safe_load((boards_folder() / "ulx3s_25f.yaml").read_text())
    content["transports"]["usb"] = entry
    path = tmp_path / "board.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(HwflowError, match=r"transports\.usb"):
        load_board(path)
