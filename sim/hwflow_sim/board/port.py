"""A simulated board as the port of a driver, whose time is that of the simulation: every run is the same."""

from __future__ import annotations

from math import ceil

from .process import SimulatedBoard

#: Bytes on the line in one second of the driver's time.  The slower the line, the less of it passes while a driver
#: waits for an answer that does not come; a packet takes 7 ms.
BYTES_A_SECOND = 20_000


class LinePort:
    """A `hwflow.host.wire.BytePort` on `board`, and the clock that goes with it."""

    def __init__(self, board: SimulatedBoard, name: str = "the simulated board"):
        self.board = board
        self.name = name
        self._waiting = b""

    def clock(self) -> float:
        """Seconds since the board started, as the line counts them."""
        return self.board.facts.cycles / self.board.line.byte_cycles / BYTES_A_SECOND

    def cycles(self, seconds: float) -> int:
        """Clock cycles of the board in a driver's seconds."""
        return round(seconds * BYTES_A_SECOND * self.board.line.byte_cycles)

    def read(self, timeout: float) -> bytes:
        """Read what has arrived; waits at most `timeout` seconds for the first byte, and at least the time of a
        byte."""
        data, self._waiting = self._waiting, b""
        return self.board.wait(data, max(self.cycles(timeout), ceil(self.board.line.byte_cycles)))

    def write(self, data: bytes) -> None:
        self._waiting += data

    def close(self) -> None:
        """The board belongs to its own `with` statement."""


class RatedPort(LinePort):
    """A serial line in the time of the board's clock, `clock_hz`, whose bit rate the driver sets, and its breaks."""

    has_rate = True
    #: Seconds of a break.
    BREAK = 1e-3

    def __init__(self, board: SimulatedBoard, clock_hz: float, name: str = "the simulated board"):
        super().__init__(board, name)
        self.clock_hz = clock_hz
        #: The rates that were set.
        self.rates: list[int] = []

    def clock(self) -> float:
        """Seconds since the board started."""
        return self.board.facts.cycles / self.clock_hz

    def cycles(self, seconds: float) -> int:
        """Clock cycles of the board."""
        return round(seconds * self.clock_hz)

    def set_rate(self, baud: int) -> None:
        """Bits a second from now on, when all that is on its way has passed."""
        self.drain()
        self.rates.append(baud)
        self.board.set_line(f"rate {self.clock_hz / baud!r}")

    def send_break(self) -> None:
        """Hold the line low."""
        self.drain()
        self.board.set_line(f"break {self.cycles(self.BREAK)}")
        self.board.wait(b"", self.cycles(2 * self.BREAK))

    def drain(self) -> None:
        """Wait until all has passed, and forget what came meanwhile."""
        data, self._waiting = self._waiting, b""
        self.board.exchange(data, quiet=round(4 * self.board.line.byte_cycles))
