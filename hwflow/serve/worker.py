"""One board of a pool: a thread that keeps it at work, and looks for it again when it is gone."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from hwflow_base.errors import HwflowError

from hwflow.host.open_board import OpenBoard
from hwflow.serve.backlog import Backlog, Piece
from hwflow.serve.errors import BoardsLost
from hwflow.serve.limits import ServeLimits

__all__ = ["Worker"]

LOG = logging.getLogger("hwflow.serve")
#: Seconds after which a board without work is looked at: so one that was unplugged is found before the next request.
LOOK = 1.0


class Worker:
    """The board that `opener` opens, in a thread from `start` to `stop`.

    `up`: the board is there; `reason`: why it is not; `tried`: is set once it was looked for.
    """

    def __init__(self, name: str, opener: Callable[[], OpenBoard], backlog: Backlog, limits: ServeLimits) -> None:
        self.name, self.opener, self.backlog, self.limits = name, opener, backlog, limits
        self.up = False
        self.reason: HwflowError | None = None
        self.tried = threading.Event()
        #: Frames with results; batches; times that the board was opened, and lost; requests that another try was given.
        self.frames = self.batches = self.opened = self.lost = self.retried = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"board {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Do not look for the board again; the thread ends when the backlog does."""
        self._stopped.set()

    def join(self, timeout: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout)

    def facts(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"name": self.name, "up": self.up, "reason": None if self.up else str(self.reason or ""),
                "frames": self.frames, "batches": self.batches, "opened": self.opened, "lost": self.lost,
                "retried": self.retried}

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self.opener() as board:
                    self._came()
                    self._work(board)
            except HwflowError as error:
                self._gone(error)
            except Exception as error:  # a mistake in hwflow: its place is in the log, and others go on
                LOG.error("%s", traceback.format_exc())
                self._gone(HwflowError(f"an error in hwflow ({type(error).__name__}: {error})"))
            self._stopped.wait(self.limits.retry)

    def _came(self) -> None:
        LOG.info("%s: the board is there", self.name)
        self.opened += 1
        self.up, self.reason = True, None
        self.tried.set()

    def _gone(self, error: HwflowError) -> None:
        if self.up or not self.tried.is_set():
            LOG.warning("%s: %s", self.name, error)
        self.lost += self.up
        self.up, self.reason = False, error
        self.tried.set()

    def _work(self, board: OpenBoard) -> None:
        """Frames to the board, and its results to whom they are for, until it is lost or the backlog ends."""
        under_way: deque[list[Piece]] = deque()
        try:
            for results in board.stream_bytes(self._batches(board, under_way)):
                self._deliver(under_way.popleft(), results, board.design.facts.bytes_out)
        except BaseException as error:
            self._give_back([piece for batch in under_way for piece in batch], error)
            raise
        finally:
            self.up = self.up and not self._stopped.is_set()

    def _batches(self, board: OpenBoard, under_way: deque[list[Piece]]) -> Iterator[bytes | None]:
        """What comes next for the board, as long as it has room; None where it only has to go on."""
        # More than the board has room for would wait in front of it, while another one has nothing to do.
        most = max(1, min(self.limits.max_batch, board.link.room // board.design.facts.bytes_in))
        while True:
            busy = bool(under_way)
            batch = self.backlog.take(most, 0.0 if busy else self.limits.batch_wait, 0.0 if busy else LOOK)
            if batch is None:
                return
            if batch:
                under_way.append(batch)
                self.batches += 1
                yield b"".join(piece.data for piece in batch)
            else:
                yield None

    def _deliver(self, batch: list[Piece], results: bytes, bytes_out: int) -> None:
        start = 0
        for piece in batch:
            end = start + piece.frames * bytes_out
            piece.job.take(piece.index, results[start:end])
            self.frames += piece.frames
            start = end

    def _give_back(self, pieces: list[Piece], error: BaseException) -> None:
        """What was on the board is for another one, unless it lost too many already."""
        for job in dict.fromkeys(piece.job for piece in pieces):
            job.lost += 1
            self.retried += 1
            if job.lost >= self.limits.attempts:
                job.fail(BoardsLost(f"{job.lost} times a board was lost that computed the request, the last one: "
                                    f"{error}"))
        self.backlog.give_back([piece for piece in pieces if not piece.job.future.done()])
