"""One file through everything that hwflow does with it: read, check, load, infer, evaluate; in a process that may die.

    with Stages() as stages:
        outcome = stages.run(path)          # {"read": "ok", "check": "FormatError: ...", ...}

Each file has a process of its own, with limits of memory and time that end it.  The processes are forks of one that has
imported hwflow, so that a file takes milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx import check, dumps, evaluate, infer
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.files import read, read_bytes
from hwflow.onnx.container.reader import read_model
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Model, OptionalType, SequenceType, TensorType, Value
from hwflow.onnx.rules.finding import Severity

MEMORY = 4 << 30
SECONDS = 20  # of the processor
WAITED = 60.0  # seconds on the clock, because other work may share the processor

#: Elements of a feed; models with larger inputs are not evaluated.
_FED = 1 << 20


def feed(value: Value) -> Any:
    """Something that fits the type; open dims are 2."""
    if isinstance(value.type, SequenceType):
        return []
    if isinstance(value.type, OptionalType):
        return None
    if not isinstance(value.type, TensorType):
        return {}
    shape = [d if isinstance(d, int) else 2 for d in value.type.shape or ()]
    if np.prod([max(d, 1) for d in shape], dtype=np.float64) > _FED or len(shape) > 64:
        raise HwflowError("too large to be fed")
    numbers = np.arange(int(np.prod(shape))) % 5 - 1
    if value.type.dtype.kind == "O":
        return np.array([str(n) for n in numbers], object).reshape(shape)
    return numbers.astype(value.type.dtype).reshape(shape)


def outcomes(
    open_document: Callable[[], Document], limits: Limits = DEFAULT_LIMITS, *, strict: bool = True, write: bool = False
) -> dict[str, str]:
    """What each stage said: "ok", the class and text of an HwflowError, or the findings of check.

    Any other exception passes: it is what the tests look for.
    """
    found: dict[str, str] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        try:
            result = work()
        except HwflowError as error:
            found[name] = f"{type(error).__name__}: {error}"
            return None
        found[name] = "ok"
        return result

    document: Document | None = stage("read", open_document)
    if document is None:
        return found
    findings = check(document)
    errors = [str(f) for f in findings if f.severity is Severity.ERROR]
    found["check"] = "\n".join(errors) or "ok"
    found["warnings"] = "\n".join(str(f) for f in findings if f.severity is not Severity.ERROR)
    errors = [str(f) for f in check(document, types=False) if f.severity is Severity.ERROR]
    found["structure"] = "\n".join(errors) or "ok"
    if strict:
        errors = [str(f) for f in check(document, strict=True) if f.severity is Severity.ERROR]
        found["strict"] = "\n".join(errors) or "ok"
    model: Model | None = stage("load", lambda: read_model(document))
    if model is not None:
        if write:
            stage("write", lambda: read_bytes(dumps(model)))
        stage("infer", lambda: infer(model, limits=limits))
        stage("evaluate", lambda: evaluate(model, {v.name: feed(v) for v in model.graph.inputs}, limits=limits))
    return found


def _child(path: str, pipe: int) -> None:
    """In the forked process: everything, then one line of JSON into the pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        result = outcomes(lambda: read(Path(path)))
    except BaseException as error:  # it is reported, the process ends anyway
        result = {"bug": f"{type(error).__name__}: {error}"}
    with os.fdopen(pipe, "w") as out:
        json.dump(result, out)


def _serve() -> None:
    """For each line of standard input, a path: one line of JSON."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                _child(json.loads(line), writer)
            finally:
                os._exit(0)
        os.close(writer)
        print(json.dumps(_wait(pid, reader)), flush=True)


def _wait(pid: int, reader: int) -> dict[str, Any]:
    started, data = time.monotonic(), b""
    timed_out = False
    while not timed_out:
        left = started + WAITED - time.monotonic()
        timed_out = left <= 0 or not select.select([reader], [], [], left)[0]
        if not timed_out and not (piece := os.read(reader, 1 << 16)):
            break
        elif not timed_out:
            data += piece
    os.close(reader)
    if timed_out:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    if timed_out:
        return {"bug": f"not ended after {WAITED:.0f} s"}
    if status:
        return {"bug": f"the process ended with status {status}"}
    seconds = round(usage.ru_utime + usage.ru_stime, 3)
    return {**json.loads(data), "seconds": seconds, "megabytes": usage.ru_maxrss // 1024}


class Stages:
    """The process that serves files."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.onnx.stages"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip

    def run(self, path: Path) -> dict[str, Any]:
        """What each stage said about the file; "bug" for anything that must never happen."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(str(path)) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=WAITED + 5)
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    _serve()
