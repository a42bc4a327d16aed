"""USB and Ethernet in board files: pins, descriptors, addresses, and what a board cannot have."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError
from hwflow_rtl.io.transports import FullSpeedUsb, UlpiUsb
from hwflow_rtl.vendor import ECP5

from hwflow.synth import load_board
from hwflow.synth.board_ports import constraints
from hwflow.synth.boards import Board
from tests.synth.board_files import content, written

USB = {"ulx3s_25f": (FullSpeedUsb, ("transport.sample_clk", 48)), "orangecrab_85f": (FullSpeedUsb, None),
       "ecpix5_45f": (UlpiUsb, ("usb_clk", 60))}
UDP_ENTRY = {"rxc": "A1", "rxd": ["A2", "A3", "A4", "A5"], "rx_ctl": "A6", "txc": "A7",
             "txd": ["B2", "B3", "B4", "B5"], "tx_ctl": "A8", "reset_n": "A9"}


def with_entry(folder: Path, board: str, kind: str, entry: dict) -> Board:
    """A board file with another entry of this kind and no other; Ethernet is the only one."""
    data = content(board)
    data["transports"] = {"udp": entry} if kind == "udp" else {**data["transports"], kind: entry}
    return load_board(written(folder, data))


@pytest.mark.parametrize("name", USB)
def test_boards_with_usb(name: str) -> None:
    board = load_board(name).with_transport("usb")
    made, clock = USB[name]
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


@pytest.mark.parametrize("name", ["colorlight_i5", "colorlight_i9", "ecpix5_45f", "ecpix5_85f"])
def test_boards_with_ethernet(name: str) -> None:
    """Its clock is constrained."""
    board = load_board(name).with_transport("udp", "10.1.2.3")
    assert board.transport.facts().options == {"address": "10.1.2.3", "port": 17510}
    _, text = constraints(board, leds=1)
    assert 'FREQUENCY PORT "udp_rxc" 125 MHZ;\n' in text
    assert text.count('LOCATE COMP "udp_') == 13
    assert ("PULLMODE=UP" in text.partition("udp_txc")[0]) == name.startswith("ecpix5")


def test_without_luna(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "luna" else found(name, *rest))
    board = load_board("ulx3s_25f").with_transport("usb")
    with pytest.raises(HwflowError, match=r"LUNA.*hwflow\[usb\]"):
        board.transport.gateware(board.place(), board.path)


@pytest.mark.parametrize("kind, entry, message", [
    *(("usb", {"d_p": "D15", "d_n": "E15", **more}, "transports.usb") for more in (
        {"serial": "x"}, {"pullup": "B12"}, {"pullup": "B12", "serial": "with blank"},
        {"pullup": "B12", "serial": "x", "clk": "A1"}, {"pullup": "B12", "serial": "x", "vendor": 70000})),
    *(("udp", {**UDP_ENTRY, key: value}, f"key 'transports.udp.{key}' must not break this rule") for key, value in (
        ("address", "127.0.0.1"), ("address", "10.0.0.999"), ("port", 0), ("rxd", ["A2", "A3", "A4"]),
        ("rx_delay_ns", 4))),
    ("udp", {**UDP_ENTRY, "txd": ["A2", "B3", "B4", "B5"]}, "pin A2 must be used once, not 2 times")], ids=str)
def test_wrong_entries(kind: str, entry: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=re.escape(message)):
        with_entry(tmp_path, "ulx3s_25f" if kind == "usb" else "colorlight_i5", kind, entry)


@pytest.mark.parametrize("address", ["", "localhost", "10.0.0", "10.0.0.256", "0.1.2.3", "127.0.0.1", "224.0.0.1",
                                     "255.255.255.255", "::1"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(HwflowError, match=r"--address must be the IPv4 address of a host, as 192\.168\.1\.50: "):
        load_board("colorlight_i5").with_transport("udp", address)


def test_an_address_of_a_serial_line() -> None:
    with pytest.raises(HwflowError, match="--address must be left out: it is for the transport udp, not uart"):
        load_board("colorlight_i5").with_transport(None, "10.0.0.1")


def test_boards_that_cannot_have_it(tmp_path: Path) -> None:
    slow = replace(load_board("ulx3s_25f").with_transport("usb"), clock_mhz=5.0)
    gowin = with_entry(tmp_path, "tangnano9k", "udp", UDP_ENTRY)
    for board, message in ((slow, r"'transports\.usb'.*one of which a PLL makes 48 MHz"),
                           (gowin, "key 'transports.udp': family must be one that has registers for two bits in a "
                                   "cycle in its pads, not gowin")):
        with pytest.raises(HwflowError, match=message):
            board.transport.gateware(board.place(), board.path)
