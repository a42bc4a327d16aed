"""Frames without end: results in order while more go out, and what the time went for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from hwflow.host.host_link import HostLink
from hwflow.host.identity import DesignFacts
from hwflow.host.rate import rate_of_design

Given = TypeVar("Given")
Made = TypeVar("Made")
#: Seconds in which a rate cannot be told.
INSTANT = 1e-9


@dataclass(frozen=True)
class Throughput:
    """The uses of a stream's time; the three go on side by side, so the largest is what limits the rate.

    `frames`: whose results the caller has.  `seconds`: from the first item to the last result.  `line_seconds`: what
    the bytes of the busier direction take on the line, packets, repetitions and questions included.  `core_seconds`:
    what the core takes for the frames where data never wait.  `host_seconds`: when nobody waited for the line, that is
    in the host's own computations, in the source of the frames and in what uses the results.  The clock of a simulated
    board stands still meanwhile.
    """

    frames: int
    seconds: float
    line_seconds: float
    core_seconds: float
    host_seconds: float

    @property
    def rate(self) -> float:
        """Frames a second at the host."""
        return self.frames / max(self.seconds, INSTANT)

    @property
    def line(self) -> float:
        """The share of the time in which the line carried bytes, 0 to 1."""
        return self._share(self.line_seconds)

    @property
    def core(self) -> float:
        """The share of the time in which the core computed, 0 to 1."""
        return self._share(self.core_seconds)

    @property
    def host(self) -> float:
        """The share of the time in which the host did not wait for the line, 0 to 1."""
        return self._share(self.host_seconds)

    def facts(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"frames": self.frames, "seconds": self.seconds, "frames_per_second": self.rate, **self.shares()}

    def shares(self) -> dict[str, float]:
        """The shares of the time by what it went for."""
        return {"line": self.line, "core": self.core, "host": self.host}

    def _share(self, seconds: float) -> float:
        return min(seconds / max(self.seconds, INSTANT), 1.0)


class Stream(Iterator[Made], Generic[Given, Made]):
    """The results of each item of a source, in order; an iterator and a context manager.

    It takes items of the source only while the board has room for more, and results only while somebody waits for one:
    memory stays the same however long it goes on.  `close`, or an exception of the source, ends it; what is under way
    then is lost, and the next call starts the board anew.
    """

    def __init__(self, link: HostLink, facts: DesignFacts, bytes_per_second: float, source: Iterable[Given | None],
                 pack: Callable[[Given], bytes], unpack: Callable[[bytes], Made]) -> None:
        """`bytes_per_second` is what the line carries; `pack` makes bytes of an item, `unpack` a result of bytes."""
        self._link, self._facts, self._bytes_per_second = link, facts, bytes_per_second
        self._unpack = unpack
        self._results = link.stream(None if item is None else pack(item) for item in source)
        self._frames = 0
        self._began: float | None = None
        self._ended = 0.0
        self._before = (0, 0, 0.0)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Made:
        if self._began is None:
            self._began, self._before = self._link.clock(), self._counts()
        try:
            data = next(self._results)
            result = self._unpack(data)
        finally:
            self._ended = self._link.clock()
        self._frames += len(data) // self._facts.bytes_out
        return result

    @property
    def throughput(self) -> Throughput:
        """The throughput so far."""
        facts, seconds = self._facts, self._ended - (self._began or 0.0)
        sent, received, waited = (now - then for now, then in zip(self._counts(), self._before, strict=True))
        if self._began is None:
            sent, received, waited, seconds = 0, 0, 0.0, 0.0
        rate = rate_of_design(facts, self._bytes_per_second)
        return Throughput(self._frames, seconds, max(sent, received) / self._bytes_per_second,
                          rate.seconds(self._frames), max(seconds - waited, 0.0))

    def close(self) -> None:
        """End it.  May be called twice."""
        self._results.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _counts(self) -> tuple[int, int, float]:
        """Bytes sent and received so far, and seconds of waiting for the line."""
        counts = self._link.statistics
        return counts.bytes_sent, counts.bytes_received, self._link.waited
