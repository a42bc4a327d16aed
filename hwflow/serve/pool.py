"""Several boards with the same model: frames in, shared between them, results out.

Each board has a thread, which takes from the backlog whatever comes next and keeps the board's pipeline full.  What a
board had when it was lost goes back to the front of the backlog, for another board or for this one when it is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from hwflow.host.open_board import OpenBoard
from hwflow.serve.backlog import Backlog, Job, Piece
from hwflow.serve.errors import NoBoard, NotServed, ServerStops
from hwflow.serve.limits import ServeLimits
from hwflow.serve.worker import Worker

__all__ = ["Pool"]

LOG = logging.getLogger("hwflow.serve")
#: Seconds that boards have to let their ports go when all is over.
SECONDS_TO_CLOSE = 2.0


class Pool:
    """Boards that are opened by `openers`, by name.

    Parameters
    ----------
    openers
        Each opens a board, and raises HwflowError where it is not there.  All boards have the same integer model.
    bytes_in, bytes_out
        Of one frame on the line.

    `submit` may be called from any thread.
    """

    def __init__(self, openers: Mapping[str, Callable[[], OpenBoard]], limits: ServeLimits, *, bytes_in: int,
                 bytes_out: int) -> None:
        self.limits, self.bytes_in, self.bytes_out = limits, bytes_in, bytes_out
        self.backlog = Backlog(limits.queue)
        self.workers = tuple(Worker(name, opener, self.backlog, limits) for name, opener in openers.items())
        #: By their futures.
        self._jobs: dict[Future[bytes], Job] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Open all boards.  HwflowError, that of the first one, where none of them is there."""
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            worker.tried.wait()
        if not self.ready:
            reason = self.workers[0].reason
            self.close(0.0)
            raise reason or NoBoard("no board was found")

    @property
    def ready(self) -> bool:
        """Whether a board is there."""
        return any(worker.up for worker in self.workers)

    @property
    def outstanding(self) -> int:
        """Requests that were accepted and have no answer yet."""
        return len(self._jobs)

    def require_room(self) -> None:
        """Say no before anything is done for a request.  NoBoard, QueueFull, ServerStops."""
        if not self.ready:
            reasons = "; ".join(f"{worker.name}: {worker.reason}" for worker in self.workers)
            raise NoBoard(f"no board is there at the moment ({reasons})")
        self.backlog.require_room()

    def submit(self, data: bytes, timeout: float | None = None) -> Future[bytes]:
        """The results of the whole frames `data`, in the future; raises QueueFull and ServerStops at once.

        The future fails with TimedOut after `timeout` seconds without a board, those of the limits by default, and with
        BoardsLost where several boards were lost over it.  Once it is cancelled, no more of it is computed.
        """
        size, most = self.bytes_in, self.limits.max_batch
        if not data or len(data) % size:
            raise ValueError(f"data must be whole frames of {size} bytes, not {len(data)} bytes")
        cuts = range(0, len(data), size * most)
        job = Job(len(cuts), time.monotonic() + (self.limits.timeout if timeout is None else timeout))
        with self._lock:
            self._jobs[job.future] = job
        job.future.add_done_callback(self._done)
        try:
            parts = (data[k:k + size * most] for k in cuts)
            self.backlog.put([Piece(job, k, part, len(part) // size) for k, part in enumerate(parts)])
        except NotServed:
            job.future.cancel()
            raise
        return job.future

    def _done(self, future: Future[bytes]) -> None:
        with self._lock:
            self._jobs.pop(future, None)

    def close(self, timeout: float) -> None:
        """Take no more requests, compute for at most `timeout` seconds what was accepted, and close the boards."""
        self.backlog.close()
        with self._lock:
            jobs = tuple(self._jobs)
        if left := wait(jobs, timeout).not_done:
            LOG.warning("%d requests have no answer after %g s", len(left), timeout)
        for worker in self.workers:
            worker.stop()
        self.abandon()
        end = time.monotonic() + SECONDS_TO_CLOSE
        for worker in self.workers:
            worker.join(max(end - time.monotonic(), 0.0))

    def abandon(self) -> None:
        """Every request without an answer fails with ServerStops, and the boards are closed."""
        self.backlog.end()
        with self._lock:
            jobs = tuple(self._jobs.values())
        for job in jobs:
            job.fail(ServerStops("the server stopped before the request had its result"))

    def facts(self) -> Sequence[Mapping[str, Any]]:
        """Of each board plain data for JSON."""
        return [worker.facts() for worker in self.workers]
