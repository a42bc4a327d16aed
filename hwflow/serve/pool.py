"""Several boards with the same model: frames in, shared between them, results out.

Each board has a thread, which takes from the backlog whatever comes next and keeps the board's pipeline full.  What a
board had when it was lost goes back to the front of the backlog, for another board or for this one when it is back.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, wait
from dataclasses import dataclass, field
from typing import Any

from hwflow_base.errors import HwflowError

from hwflow.host.open_board import OpenBoard
from hwflow.serve.errors import BoardsLost, NoBoard, NotServed, QueueFull, ServeLimits, ServerStops, TimedOut

# Frames that wait for a board: in order, bounded, and back in front where a board was lost.


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


# One board of a pool: a thread that keeps it at work, and looks for it again when it is gone.


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
        """The next frames for the board, as long as it has room; None where it only has to go on."""
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
        """Give what was on the board to another one, unless it lost too many already."""
        for job in dict.fromkeys(piece.job for piece in pieces):
            job.lost += 1
            self.retried += 1
            if job.lost >= self.limits.attempts:
                job.fail(BoardsLost(f"{job.lost} times a board was lost that computed the request, the last one: "
                                    f"{error}"))
        self.backlog.give_back([piece for piece in pieces if not piece.job.future.done()])


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
        """Plain data for JSON of each board."""
        return [worker.facts() for worker in self.workers]
