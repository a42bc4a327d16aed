"""The transport `udp` of boards: its entry of a board file, its address, its constraints."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError

from hwflow.synth import load_board
from hwflow.synth.bitstream import constraints
from hwflow.synth.boards import Board

BOARDS = ("colorlight_i5", "colorlight_i9", "ecpix5_45f", "ecpix5_85f")


def with_entry(tmp_path: Path, board: str, **changes: object) -> Board:
    """A board file with another entry `udp`."""
    entry = {"rxc": "A1", "rxd": ["A2", "A3", "A4", "A5"], "rx_ctl": "A6", "txc": "A7", "txd": ["B2", "B3", "B4", "B5"],
             "tx_ctl": "A8", "reset_n": "A9", **changes}
    text = load_board(board).path.read_text()
    head, _, rest = text.partition("transports:\n")
    lines = rest.splitlines(keepends=True)
    behind = next(k for k, line in enumerate(lines) if not line.startswith(" "))
    path = tmp_path / "mine.yaml"
    path.write_text(f"{head}transports:\n  udp: {entry}\n{''.join(lines[behind:])}")
    return load_board(path)


@pytest.mark.parametrize("name", BOARDS)
def test_its_clock_is_constrained(name: str) -> None:
    board = load_board(name).with_transport("udp", "10.1.2.3")
    assert board.transport.facts().options == {"address": "10.1.2.3", "port": 17510}
    _, text = constraints(board, leds=1)
    assert 'FREQUENCY PORT "udp_rxc" 125 MHZ;\n' in text
    assert text.count('LOCATE COMP "udp_') == 13
    assert ("PULLMODE=UP" in text.partition("udp_txc")[0]) == name.startswith("ecpix5")


@pytest.mark.parametrize("address", ["", "localhost", "10.0.0", "10.0.0.256", "0.1.2.3", "127.0.0.1", "224.0.0.1",
                                     "255.255.255.255", "::1"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(HwflowError, match=r"--address must be the IPv4 address of a host, as 192\.168\.1\.50: "):
        load_board("colorlight_i5").with_transport("udp", address)


def test_an_address_of_a_serial_line() -> None:
    with pytest.raises(HwflowError, match="--address must be left out: it is for the transport udp, not uart"):
        load_board("colorlight_i5").with_transport(None, "10.0.0.1")


@pytest.mark.parametrize("changes, message", [
    ({"address": "127.0.0.1"}, "key 'transports.udp.address' must not break this rule"),
    ({"address": "10.0.0.999"}, "key 'transports.udp.address' must not break this rule"),
    ({"port": 0}, "key 'transports.udp.port' must not break this rule"),
    ({"rxd": ["A2", "A3", "A4"]}, "key 'transports.udp.rxd' must not break this rule"),
    ({"rx_delay_ns": 4}, "key 'transports.udp.rx_delay_ns' must not break this rule"),
    ({"txd": ["A2", "B3", "B4", "B5"]}, "pin A2 must be used once, not 2 times")])
def test_entries_that_are_wrong(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(HwflowError) as refused:
        with_entry(tmp_path, "colorlight_i5", **changes)
    assert message in str(refused.value)


def test_a_family_without_such_pads(tmp_path: Path) -> None:
    board = with_entry(tmp_path, "tangnano9k")
    with pytest.raises(HwflowError, match=r"key 'transports.udp': family must be one that has registers for two bits "
                                          r"in a cycle in its pads, not gowin"):
        board.transport.gateware(board.place(), board.path)
