"""The engine that runs tasks on many cores or machines: Dask, a cluster of this machine or one that is given.

Workers of this machine are processes of their own, started as a user starts them on other machines.  So a script needs
no guard around its main program, and an interrupt reaches only the process that asks.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, Self, TypeVar

from hwflow_base.errors import HwflowError, MissingTool
from hwflow_base.files.cache import code_fingerprint

Job = TypeVar("Job", bound=Hashable)

#: How often a task is given to another worker after its worker died, before it is given up.
LIVES = 10
#: Seconds until a cluster must answer.
PATIENCE = 30
#: Models of this size and less go to the scheduler with their task, without a remark of Dask's.
LARGE = "1 GiB"


@dataclass(frozen=True)
class Lost:
    """A task without a result: `why` its workers did not finish it."""

    why: str


class Promise(Protocol):
    """Dask's promise of a result."""

    key: str

    def result(self) -> object:
        """The result, or the error that the task ended with."""


class Client(Protocol):
    """Dask's client of a cluster, as far as it is used here."""

    loop: object

    def submit(self, function: Callable[..., object], *arguments: object, pure: bool) -> Promise: ...

    def run(self, function: Callable[[], str]) -> dict[str, str]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Engine:
    """A Dask cluster; `client` is Dask's own client of it."""

    def __init__(self, client: Client):
        self.client = client

    def later(self, function: Callable[..., object], *arguments: object) -> Promise:
        """Start a task; a promise of its result, which may be an argument of other tasks."""
        return self.client.submit(function, *arguments, pure=False)

    def finished(self, promises: Mapping[Job, Promise],
                 then: Callable[[Job, object], Mapping[Job, Promise]] | None = None) -> Iterator[tuple[Job, object]]:
        """The job and the result of each promise, in the order in which they are finished.

        `then`, called with both, gives more promises, which are waited for, too.  The result is `Lost` where workers
        died of the task, again and again.  HwflowError where the cluster is gone.
        """
        dask, errors = importlib.import_module("distributed"), importlib.import_module("concurrent.futures")
        killed = importlib.import_module("distributed.scheduler").KilledWorker
        jobs = {promise.key: job for job, promise in promises.items()}
        waiting = dask.as_completed(list(promises.values()), loop=self.client.loop)
        for promise in waiting:
            try:
                result: object = promise.result()
            except killed:
                result = Lost(f"{LIVES + 1} workers ended while they worked on it, as for want of memory")
            except (errors.CancelledError, dask.client.FutureCancelledError, OSError):
                raise HwflowError("the cluster must answer to the end, and its scheduler does not any more",
                                  "run the command again: what was finished is kept") from None
            job = jobs.pop(promise.key)
            more = {} if then is None else then(job, result)
            jobs |= {promised.key: other for other, promised in more.items()}
            waiting.update(more.values())
            yield job, result


@contextlib.contextmanager
def engine(workers: int | None = None, scheduler: str | None = None, log: Path | None = None) -> Iterator[Engine]:
    """An engine with so many `workers` on this machine (None: one for each core), or the cluster at `scheduler`.

    `log` is the file for what the workers of this machine write.  MissingTool where Dask is not installed; HwflowError
    where the cluster does not answer, or has another version of hwflow.
    """
    try:
        dask = importlib.import_module("distributed")
    except ImportError:
        raise MissingTool("exploration must have Dask to run its tasks", "install it with `pip install "
                          "'hwflow[explore]'`") from None
    settings = importlib.import_module("dask").config
    with settings.set({"distributed.scheduler.allowed-failures": LIVES,
                       "distributed.admin.large-graph-warning-threshold": LARGE,
                       "distributed.comm.timeouts.connect": f"{PATIENCE}s"}):
        if scheduler is not None:
            with connected(dask, scheduler) as client:
                require_same_code(client)
                yield Engine(client)
        else:
            with local_workers(dask, workers or cores(), log) as client:
                yield Engine(client)


@contextlib.contextmanager
def connected(dask: ModuleType, address: str) -> Iterator[Client]:
    """A client of the cluster at `address`."""
    try:
        client: Client = dask.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise HwflowError(f"--scheduler must be the address of a Dask scheduler that answers, like "
                          f"tcp://192.168.1.2:8786, not {address!r}: {reason}",
                          "start one with `dask scheduler`, and `dask worker ADDRESS` on each machine") from None
    with client:
        yield client


def require_same_code(client: Client) -> None:
    """HwflowError unless all workers compute what this process would."""
    try:
        codes = client.run(code_fingerprint)
    except ImportError as error:
        raise HwflowError(f"the workers of --scheduler must have hwflow: {error}",
                          "install the same version as here, with the extra 'explore', on each machine") from None
    if not codes:
        raise HwflowError("the cluster of --scheduler must have workers, and has none",
                          "start some with `dask worker ADDRESS --nthreads 1`")
    others = sorted(address for address, code in codes.items() if code != code_fingerprint())
    if others:
        raise HwflowError(f"the workers of --scheduler must have the version of hwflow that runs here, and "
                          f"{', '.join(others[:3])} has another one", "install the same version on each machine")


@contextlib.contextmanager
def local_workers(dask: ModuleType, count: int, log: Path | None) -> Iterator[Client]:
    """A scheduler in this process, and workers in `count` others, each with one thread."""
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="hwflow-workers-"))
        written = stack.enter_context(open(os.devnull if log is None else log, "wb"))
        cluster = stack.enter_context(dask.LocalCluster(
            n_workers=0, processes=True, dashboard_address=":0", silence_logs="CRITICAL"))
        client = stack.enter_context(dask.Client(cluster, set_as_default=False))
        command = [sys.executable, "-m", "dask", "worker", cluster.scheduler_address, "--nworkers", str(count),
                   "--nthreads", "1", "--no-dashboard", "--local-directory", scratch, "--death-timeout", "60",
                   "--preload", f"{__package__}.evaluate"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
                                   start_new_session=True)
        stack.callback(ended, process)
        yield client


def ended(process: subprocess.Popen[bytes]) -> None:
    """End the workers."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
