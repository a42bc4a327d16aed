"""A simulation that is a program of its own: commands on its standard input, answers on its standard output."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from hwflow_base.errors import ToolFailed

from .tools import end_of

SECONDS_TO_END = 5.0


class Child:
    """The program `executable` from `start` to `stop`, in `folder`; what it prints besides is in the file `log` there.

    `what` names it in messages, `user` is the class to be used in a `with` statement.
    """

    def __init__(self, executable: Path, folder: Path, *, log: str, what: str, user: str) -> None:
        self.executable, self.folder, self.log, self.what, self.user = executable, folder, folder / log, what, user
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str], files: Sequence[int] = ()) -> None:
        """`files` are open files that the program has, too."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [self.executable, *arguments], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, pass_fds=files, start_new_session=True)

    def stop(self) -> None:
        """It ends when nobody gives it commands; where it does not, it is killed."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def write(self, text: bytes) -> None:
        """A command.  ToolFailed where the program has ended."""
        pipe = self._pipe("stdin")
        try:
            pipe.write(text)
            pipe.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def read(self, count: int) -> bytes:
        """So many bytes of an answer.  ToolFailed where the program has ended."""
        data = self._pipe("stdout").read(count)
        if len(data) < count:
            raise self._failure()
        return data

    def join(self, seconds: float) -> None:
        """Wait so long.  ToolFailed where the program ends meanwhile."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            raise self._failure()

    def _pipe(self, name: str) -> BinaryIO:
        if self._process is None:
            raise ValueError(f"a {self.user} must be used in a `with` statement")
        pipe: BinaryIO = getattr(self._process, name)
        return pipe

    def _failure(self) -> ToolFailed:
        return ToolFailed(f"{self.what} ended; {end_of(self.log)}")
