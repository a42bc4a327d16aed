"""A board on the USB: which there are, and one of them by its serial number or by its socket.

The device is a serial port of the class CDC-ACM, so the operating system's own driver makes a port of it; what remains
is to find it.  `usb:` is the only board, `usb:SERIAL` the one with this serial number, and `usb:@SOCKET` the one in
this socket, for boards with the same bitstream side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

from serial.tools import list_ports

from hwflow.host.ports.serial import SerialPort
from hwflow.host.wire import LinkFailed

#: The numbers of a device that is not sold: pid.codes gives these to everybody for tests (https://pid.codes/1209/0001).
VENDOR, PRODUCT = 0x1209, 0x0001
PREFIX, SOCKET = "usb:", "@"
#: Any rate that operating systems know: that of the bus does not depend on it.
RATE = 115_200


@dataclass(frozen=True)
class UsbBoard:
    """A serial port on the USB: its `device`, the numbers and the texts that it tells, the `socket` where it is."""

    device: str
    vendor: int
    product: int
    serial: str
    socket: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.serial or SOCKET + self.socket} ({self.device}, socket {self.socket or 'unknown'})"


def found_boards() -> tuple[UsbBoard, ...]:
    """All serial ports on the USB, whosever they are, in order of their devices."""
    return tuple(sorted(
        (UsbBoard(port.device, port.vid, port.pid or 0, port.serial_number or "", port.location or "")
         for port in list_ports.comports() if port.vid is not None), key=lambda board: board.device))


def find_board(name: str) -> UsbBoard:
    """The board that `name` means.  LinkFailed where there is none, or more than one."""
    wanted, boards = name.removeprefix(PREFIX), found_boards()
    ours = [board for board in boards if (board.vendor, board.product) == (VENDOR, PRODUCT)]
    if wanted.startswith(SOCKET):
        # An interface of the device may stand behind a colon.
        found = [board for board in boards if board.socket.partition(":")[0] == wanted.removeprefix(SOCKET)]
    elif wanted:
        found = [board for board in boards if board.serial == wanted]
    else:
        found = ours
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{PREFIX}{SOCKET}{board.socket.partition(':')[0]} ({board.device})" for board in found)
        raise LinkFailed(f"the port '{name}' must be one board, but {len(found)} are plugged in that it may mean",
                         f"name one of them by its socket: {listed}")
    there = ", ".join(map(str, ours or boards)) or "none"
    raise LinkFailed(f"the port '{name}' must be a board on the USB of this machine, which has {there}",
                     "plug the board in at the socket that leads to the FPGA, and load a bitstream made with "
                     "`--transport usb`")


def open_usb(name: str) -> SerialPort:
    """The port of the board that `name` means.  LinkFailed where there is none, or it does not open."""
    return SerialPort(find_board(name).device, RATE)
