"""A simulated board with its line to the host: bytes in, bytes out, or a pseudo-terminal for a driver."""

from __future__ import annotations

import os
import struct
import tty
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..builder import run_arguments
from ..child import Child
from .compiled import CompiledBoard
from .lines import Line

LOG = "board.log"
FACTS = struct.Struct("<6Q")


@dataclass(frozen=True)
class LineFacts:
    """Since the start: clock cycles, bytes whose stop bit was low, bits flipped on either line; and the LEDs now."""

    cycles: int = 0
    broken: int = 0
    flipped_to_board: int = 0
    flipped_from_board: int = 0
    leds: int = 0


class SimulatedBoard:
    """A board whose clock runs while somebody talks to it.

    Parameters
    ----------
    compiled
        From `compile_board`.
    line
        The line to the host, of the kind that was compiled.
    seed
        Of all that is undefined when a board starts: registers without a value, contents of RAM.
    numbers
        Of the models, by the names of their plusargs: those that differ in this run.
    error_rate, error_seed
        Probability that the line has the wrong level for the time of a bit, in either direction; also where no byte is
        on its way.

    Use it in a `with` statement; what the simulator prints is in `board.log` in the folder of `compiled`.
    """

    def __init__(self, compiled: CompiledBoard, *, line: Line, seed: int = 1, error_rate: float = 0.0,
                 error_seed: int = 0, numbers: Mapping[str, int] | None = None):
        if not 0 <= error_rate < 1:
            raise ValueError(f"error_rate must be from 0 to below 1, not {error_rate}")
        self.compiled = compiled
        self.line = line
        self.seed = seed
        self.errors = (error_rate, error_seed)
        self.numbers = dict(numbers or {})
        self.facts = LineFacts()
        self._child = Child(compiled.executable, compiled.folder, log=LOG, what="the simulated board",
                            user="SimulatedBoard")
        self._terminals: tuple[int, int] | None = None
        self._serving = False

    def __enter__(self) -> SimulatedBoard:
        master, slave = os.openpty()
        tty.setraw(slave)  # as a driver opens it: no echo while nobody has
        os.set_blocking(master, False)
        self._terminals = (master, slave)
        self._child.start([self.line.argument, str(master), *run_arguments(self.seed, self.numbers)], [master])
        self.inject(*self.errors)
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._terminals is not None
        self._child.stop()
        for file in self._terminals:
            os.close(file)

    def inject(self, rate: float, seed: int) -> None:
        """From now on flip bits on the lines at this rate; 0 ends it."""
        self._command(b"N" + struct.pack("<dQ", rate, seed))

    def reset(self, cycles: int = 100) -> None:
        """Press the reset button for some clock cycles."""
        self._command(b"R" + struct.pack("<Q", cycles))

    def set_line(self, text: str) -> None:
        """Change a line that can be changed; its header says what it understands."""
        self._command(b"L" + struct.pack("<Q", len(text)) + text.encode())

    def exchange(self, data: bytes, until: int | Callable[[bytes], bool] = 0, *, quiet: int | None = None) -> bytes:
        """Send bytes to the board, and give what comes back.

        Parameters
        ----------
        until
            How many bytes to wait for, or whether what came is enough; 0 waits until the line is quiet.
        quiet
            Give up after so many clock cycles in which nothing moved on either line; those of the line if None.
        """
        limit = self.line.quiet_cycles if quiet is None else quiet
        most = 1 if callable(until) else until or 1 << 62
        got = self._exchange(data, most, limit)
        while callable(until) and got and not until(got):
            more = self._exchange(b"", 1, limit)
            if not more:
                break
            got += more
        return got

    def wait(self, data: bytes, cycles: int) -> bytes:
        """Begin to send bytes; what has come back as soon as there is any, or nothing after so many clock cycles.

        What was not sent by then goes on in the next call.
        """
        self._command(b"W" + struct.pack("<Q", len(data)) + data + struct.pack("<Q", cycles))
        return self._answer()

    def join(self, seconds: float) -> None:
        """Wait so long.  ToolFailed where the simulation ends meanwhile."""
        self._child.join(seconds)

    def pty(self) -> str:
        """The path of a pseudo-terminal behind which the board runs until the next call, or its end."""
        assert self._terminals is not None
        if not self._serving:
            self._command(b"S")
            self._serving = True
        return os.ttyname(self._terminals[1])

    def _exchange(self, data: bytes, most: int, quiet: int) -> bytes:
        self._command(b"X" + struct.pack("<Q", len(data)) + data + struct.pack("<2Q", most, quiet))
        return self._answer()

    def _command(self, text: bytes) -> None:
        self._child.write(text)
        if self._serving:
            self._serving = False
            self._answer()

    def _answer(self) -> bytes:
        count, *facts = FACTS.unpack(self._child.read(FACTS.size))
        self.facts = LineFacts(*facts)
        return self._child.read(count)
