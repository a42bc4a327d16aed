"""Boards on the USB by their names."""

from __future__ import annotations

import os
import tty
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from hwflow.host.ports import is_serial, open_port
from hwflow.host.ports.serial import PRODUCT, VENDOR, find_board
from hwflow.host.wire import LinkFailed


def port(device: str, serial: str | None, socket: str, vendor: int | None = VENDOR, product: int = PRODUCT
         ) -> SimpleNamespace:
    """As pyserial lists one."""
    return SimpleNamespace(device=device, vid=vendor, pid=product, serial_number=serial, location=socket, hwid="usb",
                           description="")


ADAPTER = port("/dev/ttyUSB0", "FT1", "1-1", 0x0403, 0x6015)
ON_BOARD = port("/dev/ttyS0", None, "", None)
LEFT, RIGHT = port("/dev/ttyACM0", "left", "1-2:1.0"), port("/dev/ttyACM1", "right", "1-3:1.0")
TWIN = port("/dev/ttyACM2", "right", "1-4:1.0")
OTHER_NUMBERS = port("/dev/ttyACM3", "sold-17", "2-1:1.0", 0x1D50, 0x6000)


def plugged(monkeypatch: pytest.MonkeyPatch, *ports: SimpleNamespace) -> None:
    monkeypatch.setattr(list_ports, "comports", lambda: list(ports))


@pytest.mark.parametrize(("name", "ports", "device"), [
    ("usb:", (ADAPTER, ON_BOARD, LEFT), "/dev/ttyACM0"),
    ("usb:right", (ADAPTER, LEFT, RIGHT), "/dev/ttyACM1"),
    ("usb:@1-4", (LEFT, RIGHT, TWIN), "/dev/ttyACM2"),
    ("usb:sold-17", (LEFT, OTHER_NUMBERS), "/dev/ttyACM3"),
])
def test_a_board_by_its_name(name: str, ports: tuple, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plugged(monkeypatch, *ports)
    assert find_board(name).device == device
    assert not is_serial(name)


@pytest.mark.parametrize(("name", "ports", "words"), [
    ("usb:", (ADAPTER, ON_BOARD), ["'usb:' must be a board", "usb:FT1 (/dev/ttyUSB0, socket 1-1)", "--transport usb"]),
    ("usb:", (), ["which has none", "plug the board in"]),
    ("usb:middle", (LEFT, RIGHT), ["usb:left (/dev/ttyACM0", "usb:right (/dev/ttyACM1"]),
    ("usb:", (LEFT, RIGHT), ["2 are plugged in", "usb:@1-2 (/dev/ttyACM0), usb:@1-3 (/dev/ttyACM1)"]),
    ("usb:right", (RIGHT, TWIN), ["usb:@1-3", "usb:@1-4"]),
    ("usb:@9-9", (LEFT,), ["'usb:@9-9' must be a board"]),
])
def test_no_such_board(name: str, ports: tuple, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plugged(monkeypatch, *ports)
    with pytest.raises(LinkFailed) as failure:
        open_port(name, 0)
    text = str(failure.value)
    assert [word for word in words if word not in text] == []


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    name = os.ttyname(slave)
    os.close(slave)
    yield master, name
    os.close(master)


def test_bytes_through_a_board(terminal: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's driver makes a terminal of the device: here it is a pseudo-terminal."""
    master, name = terminal
    plugged(monkeypatch, port(name, "board-7", "1-2"))
    board = open_port("usb:board-7", 0)
    try:
        board.write(b"\x00\x7e\xff")
        assert os.read(master, 10) == b"\x00\x7e\xff"
        os.write(master, b"\x11\x13\x00")
        assert board.read(1.0) == b"\x11\x13\x00"
        with pytest.raises(LinkFailed, match="another program uses it"):
            open_port("usb:board-7", 0)
    finally:
        board.close()


def test_a_device_that_went(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged(monkeypatch, port("/dev/ttyACM77", "board-7", "1-2"))
    with pytest.raises(LinkFailed, match="must be one of this machine"):
        open_port("usb:board-7", 0)
