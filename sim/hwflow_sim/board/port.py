"""A simulated board as the port of a driver, whose time is that of the simulation: every run is the same."""

from __future__ import annotations

from math import ceil
from typing import ClassVar

from .process import SimulatedBoard


class BoardPort:
    """A port of `board`, and the clock that goes with it: that of the board, of `clock_hz`, or where that is None one
    by which so many bytes pass on the line in a second as `BYTES_A_SECOND`."""

    #: The slower the line, the less of it passes while a driver waits for an answer that does not come; a packet takes
    #: 7 ms.
    BYTES_A_SECOND: ClassVar[int] = 20_000

    def __init__(self, board: SimulatedBoard, name: str, clock_hz: float | None = None):
        self.board = board
        self.name = name
        self.hertz = clock_hz or self.BYTES_A_SECOND * board.line.byte_cycles

    def clock(self) -> float:
        """Seconds since the board started, as the line counts them."""
        return self.board.facts.cycles / self.hertz

    def cycles(self, seconds: float) -> int:
        """Clock cycles of the board in a driver's seconds."""
        return round(seconds * self.hertz)

    def wait(self, data: bytes, timeout: float) -> bytes:
        """Send data, and give what has come; waits at most `timeout` seconds, and at least the time of a byte, in whole
        cycles: time has to go on for a driver that waits for less than one."""
        return self.board.wait(data, max(self.cycles(timeout), ceil(self.board.line.byte_cycles)))

    def close(self) -> None:
        """The board belongs to its own `with` statement."""


class LinePort(BoardPort):
    """A `hwflow.host.wire.BytePort` on a line of bytes."""

    def __init__(self, board: SimulatedBoard, name: str = "the simulated board", clock_hz: float | None = None):
        super().__init__(board, name, clock_hz)
        self._waiting = b""

    def read(self, timeout: float) -> bytes:
        """Read what has arrived; waits as `wait` for the first byte."""
        data, self._waiting = self._waiting, b""
        return self.wait(data, timeout)

    def write(self, data: bytes) -> None:
        self._waiting += data


class RatedPort(LinePort):
    """A serial line in the time of the board's clock, `clock_hz`, whose bit rate the driver sets, and its breaks."""

    has_rate = True
    #: Seconds of a break.
    BREAK = 1e-3

    def __init__(self, board: SimulatedBoard, clock_hz: float, name: str = "the simulated board"):
        super().__init__(board, name, clock_hz)
        #: The rates that were set.
        self.rates: list[int] = []

    def set_rate(self, baud: int) -> None:
        """Bits a second from now on, when all that is on its way has passed."""
        self.drain()
        self.rates.append(baud)
        self.board.set_line(f"rate {self.hertz / baud!r}")

    def send_break(self) -> None:
        """Hold the line low."""
        self.drain()
        self.board.set_line(f"break {self.cycles(self.BREAK)}")
        self.board.wait(b"", self.cycles(2 * self.BREAK))

    def drain(self) -> None:
        """Wait until all has passed, and forget what came meanwhile."""
        data, self._waiting = self._waiting, b""
        self.board.exchange(data, quiet=round(4 * self.board.line.byte_cycles))
