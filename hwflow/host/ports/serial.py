"""Serial ports of this machine: which there are, and one of them as a line of bytes.

Also pseudo-terminals, and `socket://host:port` for a board behind a network.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import select
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import serial
from serial.tools import list_ports

from hwflow.host.wire import LinkFailed

#: Seconds in which a port must take what is written.
WRITE_TIMEOUT = 10.0
#: Seconds of a break, and those in which a byte leaves an adapter and its driver.
BREAK, SETTLE = 0.01, 0.01
#: Major numbers of pseudo-terminals (Documentation/admin-guide/devices.txt of Linux).
PSEUDO_TERMINALS = range(136, 144)
#: Bytes that one read takes at most.
PIECE = 1 << 16
#: How the name of a board behind a network begins.
SOCKET = "socket://"
#: What errors of opening a port mean.
BUSY = (errno.EBUSY, errno.EAGAIN)
NO_LINE = (errno.ENOTTY, errno.EISDIR, errno.EINVAL)
FORBIDDEN = (errno.EACCES, errno.EPERM)
MISSING = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EIO)


@dataclass(frozen=True)
class PortInfo:
    """A serial port of this machine: its device, and what the machine knows of it."""

    device: str
    description: str


def found_ports() -> tuple[PortInfo, ...]:
    """The serial ports with something behind them, in order of their names."""
    known = (port for port in list_ports.comports() if port.hwid not in (None, "", "n/a"))
    return tuple(sorted((PortInfo(port.device, port.description or "") for port in known), key=lambda p: p.device))


def ports_text() -> str:
    """The ports in one sentence, for messages."""
    listed = ", ".join(f"{port.device} ({port.description})" for port in found_ports())
    return f"this machine has {listed}" if listed else "this machine has none: is the board plugged in?"


class SerialPort:
    """The port `name` (a device or a `socket://` URL) at `baud` bits a second, for this process alone.

    Every failure is LinkFailed with what to do.
    """

    def __init__(self, name: str, baud: int) -> None:
        self.name = name
        self._open = True
        if "://" in name and not name.startswith(SOCKET):  # pyserial knows more, of which some write files
            raise LinkFailed(f"the port '{name}' must be a device or {SOCKET}HOST:PORT", "name another one with --port")
        if name.startswith(SOCKET) and not has_port(name):
            raise LinkFailed(f"the port '{name}' must be {SOCKET}HOST:PORT where a serial line is served, which it is "
                             "not: its PORT must be a number from 1 to 65535")
        try:
            self._serial = serial.serial_for_url(name, baudrate=baud, exclusive=True, timeout=0,
                                                 write_timeout=WRITE_TIMEOUT)
        except (OSError, ValueError, OverflowError) as error:  # SerialException is an OSError
            raise LinkFailed(why_not_opened(name, baud, error)) from None
        try:
            self._file = self._serial.fileno()
        except (OSError, AttributeError):
            self._serial.close()
            raise LinkFailed(
                f"the port '{name}' must be one that can be waited for", "name another one with --port"
            ) from None
        with contextlib.suppress(OSError, ValueError, AttributeError, NotImplementedError):
            # Adapters of FTDI else keep answers for 16 ms (AN232B-04); others, and terminals, know nothing of it.
            self._serial.set_low_latency_mode(True)

    @property
    def has_rate(self) -> bool:
        """Whether there are bits on a line: not of a pseudo-terminal, and not behind a network."""
        return not self.name.startswith(SOCKET) and os.major(os.fstat(self._file).st_rdev) not in PSEUDO_TERMINALS

    def set_rate(self, baud: int) -> None:
        """Bits a second from now on; what is on its way leaves before, and what comes meanwhile is lost."""
        try:
            self._serial.flush()
            time.sleep(SETTLE)  # what an adapter still has in its own buffer
            self._serial.baudrate = baud
            time.sleep(SETTLE)
            self._serial.reset_input_buffer()
        except (OSError, ValueError, OverflowError) as error:
            raise LinkFailed(why_not_opened(self.name, baud, error)) from None

    def send_break(self) -> None:
        """Hold the line low for a hundredth of a second, which no byte is, and forget what came."""
        try:
            self._serial.flush()
            self._serial.send_break(BREAK)
            time.sleep(SETTLE)
            self._serial.reset_input_buffer()
        except OSError as error:
            raise self._gone(error) from None

    def read(self, timeout: float) -> bytes:
        """Read what has arrived; waits at most `timeout` seconds for the first byte."""
        try:
            ready, _, _ = select.select([self._file], [], [], timeout)
            data = os.read(self._file, PIECE) if ready else None
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            raise self._gone(error) from None
        if data == b"":  # ready, and nothing to read: what unplugged devices do
            raise self._gone(None)
        return data or b""

    def write(self, data: bytes) -> None:
        try:
            self._serial.write(data)
        except serial.SerialTimeoutException:
            raise LinkFailed(
                f"the port {self.name} takes no bytes any more (for {WRITE_TIMEOUT:g} s)",
                "unplug the board, plug it in, and run again",
            ) from None
        except (OSError, TypeError) as error:  # TypeError: of a socket that was closed
            raise self._gone(error) from None

    def close(self) -> None:
        if self._open:
            self._open = False
            self._serial.close()

    def _gone(self, error: Exception | None) -> LinkFailed:
        reason = f" ({os.strerror(error.errno)})" if isinstance(error, OSError) and error.errno else ""
        return LinkFailed(
            f"the port {self.name} is gone{reason}: the board was unplugged or lost its power",
            "plug it in, load its bitstream, and run again",
        )


def has_port(url: str) -> bool:
    """Whether a URL names a host and the number of a port."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port)
    except ValueError:
        return False


def why_not_opened(name: str, baud: int, error: Exception) -> str:
    """The error of a port that does not open."""
    number = error.errno if isinstance(error, OSError) else None
    if number in MISSING:
        return f"the port '{name}' must be one of this machine; {ports_text()}"
    if number in FORBIDDEN:
        group = group_of(name)
        return (f"the port '{name}' must be open to you, but belongs to the group {group}; join it with `sudo usermod "
                f"-aG {group} $USER` and log in again")
    if number in BUSY:
        return f"the port '{name}' must be free, but another program uses it; end that (a terminal, another run) first"
    text = (str(error).splitlines() or [type(error).__name__])[0]
    if name.startswith(SOCKET):
        return f"the port '{name}' must be {SOCKET}HOST:PORT where a serial line is served, which it is not ({text})"
    if number in NO_LINE or "Inappropriate ioctl" in text:  # pyserial wraps that one without its number
        return f"the port '{name}' must be a serial port, not a file, a folder or another device; {ports_text()}"
    if isinstance(error, ValueError | OverflowError):
        return f"the port '{name}' must know {baud} baud, which it does not ({text}); name another rate with --baud"
    return f"the port '{name}' must be a serial port, which it is not ({text}); {ports_text()}"


def group_of(name: str) -> str:
    """The group that may use a device."""
    try:
        return grp.getgrgid(os.stat(name).st_gid).gr_name
    except (OSError, KeyError):
        return "dialout"


# A board on the USB.  The device is a serial port of the class CDC-ACM, so the operating system's own driver makes a
# port of it; what remains is to find it.  `usb:` is the only board, `usb:SERIAL` the one with this serial number, and
# `usb:@SOCKET` the one in this socket, for boards with the same bitstream side by side.

#: The numbers of a device that is not sold: pid.codes gives these to everybody for tests (https://pid.codes/1209/0001).
VENDOR, PRODUCT = 0x1209, 0x0001
PREFIX, AT = "usb:", "@"
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
        return f"{PREFIX}{self.serial or AT + self.socket} ({self.device}, socket {self.socket or 'unknown'})"


def found_boards() -> tuple[UsbBoard, ...]:
    """All serial ports on the USB, whosever they are, in order of their devices."""
    return tuple(sorted(
        (UsbBoard(port.device, port.vid, port.pid or 0, port.serial_number or "", port.location or "")
         for port in list_ports.comports() if port.vid is not None), key=lambda board: board.device))


def find_board(name: str) -> UsbBoard:
    """The board that `name` means.  LinkFailed where there is none, or more than one."""
    serial_number, boards = name.removeprefix(PREFIX), found_boards()
    ours = [board for board in boards if (board.vendor, board.product) == (VENDOR, PRODUCT)]
    if serial_number.startswith(AT):
        # An interface of the device may stand behind a colon.
        matching = [board for board in boards if board.socket.partition(":")[0] == serial_number.removeprefix(AT)]
    elif serial_number:
        matching = [board for board in boards if board.serial == serial_number]
    else:
        matching = ours
    if len(matching) == 1:
        return matching[0]
    if matching:
        listed = ", ".join(f"{PREFIX}{AT}{board.socket.partition(':')[0]} ({board.device})" for board in matching)
        raise LinkFailed(f"the port '{name}' must be one board, but {len(matching)} are plugged in that it may mean",
                         f"name one of them by its socket: {listed}")
    there = ", ".join(map(str, ours or boards)) or "none"
    raise LinkFailed(f"the port '{name}' must be a board on the USB of this machine, which has {there}",
                     "plug the board in at the socket that leads to the FPGA, and load a bitstream made with "
                     "`--transport usb`")


def open_usb(name: str) -> SerialPort:
    """The port of the board that `name` means.  LinkFailed where there is none, or it does not open."""
    return SerialPort(find_board(name).device, RATE)
