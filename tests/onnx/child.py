"""Answers from a process of its own: what computes them may crash without taking the tests along.

A module that answers is a program, too: `python -m <module>` calls `serve(answer)`.  `Child(<module>)` starts it and
asks.  Questions and answers are pickled, one after the other.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tests.project.tree import ROOT


class Crashed(Exception):
    """A signal ended the child while it made its answer."""


class Failure(Exception):
    """The child raised an exception; the text is its type and message."""


class Child:
    """A process that runs `module`; started when first asked, and again after a crash."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> int | None:
        """End the process; gives its exit code, as it was when it ended by itself."""
        if self._process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.1)
        self._process.kill()
        self._process.communicate()
        code, self._process = self._process.returncode, None
        return code

    def ask(self, question: Any) -> Any:
        """The answer.  Crashed: the child died of it.  Failure: it raised an exception.

        RuntimeError: the child ended by itself, as one that lacks a module does.
        """
        if self._process is None:
            command = [sys.executable, "-m", self.module]
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(question, self._process.stdin)
            self._process.stdin.flush()
            good, answer = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            code = self._stop()
            if code is not None and code >= 0:
                raise RuntimeError(f"{self.module} must answer, but it ended with exit code {code}") from None
            raise Crashed(self.module) from None
        if not good:
            raise Failure(answer)
        return answer


def serve(answer: Callable[[Any], Any]) -> None:
    """In the child: answer questions until there are no more."""
    with contextlib.suppress(EOFError):
        while True:
            question = pickle.load(sys.stdin.buffer)
            try:
                made = True, answer(question)
            except Exception as error:  # whatever it is, the other side shall know
                made = False, f"{type(error).__name__}: {error}"
            pickle.dump(made, sys.stdout.buffer)
            sys.stdout.buffer.flush()
