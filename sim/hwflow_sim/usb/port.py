"""A simulated device as the port of a driver, whose time is that of the bus: every run is the same."""

from __future__ import annotations

from .bench import UsbBench

#: Seconds of a driver in one of the bus.  The more, the less of the bus is simulated while a driver waits for an answer
#: that does not come; a full packet takes 5 ms.
SECONDS_A_SECOND = 10
#: Of the bus: the shortest wait, three frames.
SHORTEST = 3e-3


class UsbPort:
    """A `hwflow.host.wire.BytePort` on a device that was enumerated, and the clock that goes with it."""

    def __init__(self, bench: UsbBench, name: str = "the simulated board"):
        self.bench = bench
        self.name = name
        self._waiting = b""

    def clock(self) -> float:
        """Seconds since the start, as the driver counts them."""
        return self.bench.facts.seconds * SECONDS_A_SECOND

    def read(self, timeout: float) -> bytes:
        """Read what has arrived; waits at most `timeout` seconds for the first byte, and at least three frames."""
        data, self._waiting = self._waiting, b""
        return self.bench.exchange(data, 1, max(timeout / SECONDS_A_SECOND, SHORTEST))

    def write(self, data: bytes) -> None:
        self._waiting += data

    def close(self) -> None:
        """The device belongs to its own `with` statement."""
