"""A board on an SPI bus of this machine, through the kernel's spidev: a Raspberry Pi, or another small computer.

The name of a port is `spi:/dev/spidevB.C`, with `@HZ` behind it for another clock than the one that all boards take.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, Protocol

from hwflow.host.wire import LinkFailed

#: A quarter of the slowest clock of boards, 12 MHz.
USUAL_HZ = 3_000_000
NAME = re.compile(r"spi:/dev/spidev(\d+)\.(\d+)(?:@(\d+))?")
#: What the board says where it has nothing to say, and what it takes for nothing.
IDLE = 0x7E
#: Bytes of a transfer: the kernel's buffer has 4096 at first, but answers are wanted sooner.  Bytes of a question.
PIECE, QUESTION = 512, 64
#: Seconds between two questions to a board that has nothing to say for the first few.
PAUSE, QUICK = 0.0005, 20


class SpiBus(Protocol):
    """The methods of `spidev.SpiDev` that are used."""

    def xfer3(self, data: Sequence[int]) -> Sequence[int]:
        """Send bytes, and give as many that came meanwhile."""

    def close(self) -> None:
        """Let the device go."""


def open_spi(name: str) -> SpiPort:
    """The port of that name.  LinkFailed where it is none, or does not open."""
    match = NAME.fullmatch(name)
    if match is None:
        raise LinkFailed(f"the port '{name}' must be spi:/dev/spidevB.C, perhaps with @HZ behind it",
                         "name another one with --port")
    try:
        import spidev
    except ImportError:
        raise LinkFailed(f"the port '{name}' needs the package spidev",
                         "install it: pip install 'hwflow[spi]'") from None
    bus: Any = spidev.SpiDev()
    try:
        bus.open(int(match[1]), int(match[2]))
        bus.mode, bus.max_speed_hz = 0, int(match[3] or USUAL_HZ)
    except OSError as error:
        bus.close()
        raise LinkFailed(
            f"the port '{name}' must be an SPI bus that is open to you ({error.strerror})",
            "switch SPI on (on a Raspberry Pi: raspi-config), and join the group spi") from None
    return SpiPort(name, bus)


class SpiPort:
    """A board on `bus`, as a `BytePort`: bytes come only while bytes go, so to read is to send flags."""

    def __init__(self, name: str, bus: SpiBus) -> None:
        self.name = name
        self.bus = bus
        self._came = bytearray()
        #: The last byte was none of flags: the one that ends its packet may be alone in the next transfer.
        self._unended = False
        self._open = True

    def read(self, timeout: float) -> bytes:
        """Read what has come; asks for at most `timeout` seconds until there is something besides flags."""
        end, asked = time.monotonic() + timeout, 0
        while not self._came:
            if not self._transfer(bytes([IDLE]) * QUESTION):
                if time.monotonic() >= end:
                    return b""
                asked += 1
                if asked > QUICK:
                    time.sleep(PAUSE)
        came, self._came = bytes(self._came), bytearray()
        return came

    def write(self, data: bytes) -> None:
        """Send all of `data`; what comes meanwhile is read later."""
        for at in range(0, len(data), PIECE):
            self._transfer(data[at : at + PIECE])

    def close(self) -> None:
        """Let the bus go."""
        if self._open:
            self._open = False
            self.bus.close()

    def _transfer(self, data: bytes) -> bool:
        """Both ways at once; whether something came.  A transfer of flags alone is nothing."""
        try:
            came = bytes(self.bus.xfer3(list(data)))
        except (OSError, ValueError, AttributeError) as error:
            raise LinkFailed(f"the port {self.name} failed ({error})",
                             "see that the bus is there, and run again") from None
        some = came.count(IDLE) < len(came)
        if some or self._unended:
            self._came += came
            self._unended = came[-1:] != bytes([IDLE])
        return some
