"""Frames that wait for a board: in order, bounded, and back in front where a board was lost."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

from hwflow.serve.errors import NotServed, QueueFull, ServerStops, TimedOut

__all__ = ["Backlog", "Job", "Piece"]


@dataclass(eq=False)
class Job:
    """Frames of one request; `future` has the bytes of their results, in order, or an error.

    `deadline` is by `time.monotonic`; `lost` counts the boards that were lost while they computed some of it.
    """

    pieces: int
    deadline: float
    future: Future[bytes] = field(default_factory=Future)
    lost: int = 0
    results: dict[int, bytes] = field(default_factory=dict)

    def take(self, index: int, results: bytes) -> None:
        """The results of a piece."""
        self.results[index] = results
        if len(self.results) == self.pieces:
            self._settle(lambda: self.future.set_result(b"".join(self.results[k] for k in range(self.pieces))))

    def fail(self, error: NotServed) -> None:
        self._settle(lambda: self.future.set_exception(error))

    def _settle(self, settle: Callable[[], None]) -> None:
        with contextlib.suppress(InvalidStateError):  # nobody waits any more
            settle()


@dataclass(frozen=True, eq=False)
class Piece:
    """Some frames of a job: `data` are the bytes of `frames` of them."""

    job: Job
    index: int
    data: bytes
    frames: int


class Backlog:
    """Pieces that wait, at most `most` frames; what comes back from a lost board is not refused."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.frames = 0
        self._pieces: deque[Piece] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._ended = False

    def require_room(self, count: int = 1) -> None:
        """QueueFull where so many frames have no room, ServerStops after `close`."""
        if self._closed:
            raise ServerStops("the server stops, and takes no more requests")
        if self.frames + count > self.most:
            raise QueueFull(f"{self.frames} frames wait already of at most {self.most}: {count} more have no room",
                            "send them again later")

    def put(self, pieces: Sequence[Piece]) -> None:
        """Pieces to the end, or none of them: errors as of `require_room`."""
        with self._change:
            self.require_room(sum(piece.frames for piece in pieces))
            self._add(pieces, self._pieces.extend)

    def give_back(self, pieces: Sequence[Piece]) -> None:
        """Pieces to the front: a board had them, and was lost."""
        with self._change:
            self._add(pieces[::-1], self._pieces.extendleft)

    def _add(self, pieces: Sequence[Piece], put: Callable[[Sequence[Piece]], None]) -> None:
        put(pieces)
        self.frames += sum(piece.frames for piece in pieces)
        self._change.notify_all()

    def take(self, most: int, wait: float, idle: float) -> list[Piece] | None:
        """The next pieces, `most` frames or a single piece that is larger; None after `end`.

        Waits at most `idle` seconds for the first one, then `wait` seconds for as many as there is room for.
        """
        with self._change:
            self._change.wait_for(lambda: self._waiting() or self._ended, idle)
            if not self._pieces:
                return None if self._ended else []
            if wait and self.frames < most:
                self._change.wait_for(lambda: self.frames >= most or self._ended, wait)
            taken: list[Piece] = []
            count = 0
            while self._waiting() and (not taken or count + self._pieces[0].frames <= most):
                taken.append(self._pieces.popleft())
                count += taken[-1].frames
                self.frames -= taken[-1].frames
            return taken

    def _waiting(self) -> bool:
        """Whether there is a piece that somebody waits for; others in front of it are dropped."""
        now = time.monotonic()
        while self._pieces:
            first = self._pieces[0]
            if first.job.deadline <= now:
                first.job.fail(TimedOut("no board had time for the request until its time was over",
                                        "send fewer requests at a time, or give them more time"))
            if not first.job.future.done():
                return True
            self._pieces.popleft()
            self.frames -= first.frames
        return False

    def close(self) -> None:
        """Take nothing more from requests."""
        with self._change:
            self._closed = True

    def end(self) -> None:
        """Whoever takes is told to end; what waits is forgotten."""
        with self._change:
            self._closed = self._ended = True
            self._pieces.clear()
            self.frames = 0
            self._change.notify_all()
