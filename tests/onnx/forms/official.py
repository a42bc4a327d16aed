"""The converter of the package onnx in a process of its own: it may crash on a model without taking the caller along.

Run as a program, this reads pickled (model bytes, version) and writes the converted bytes, or why there are none.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from pathlib import Path
from types import TracebackType

__all__ = ["OfficialConverter"]


class OfficialConverter:
    """A child process that converts; started when first asked, and again after a crash."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OfficialConverter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
        self._child = None

    def convert(self, model: bytes, version: int) -> bytes | str:
        """The model in this version of the default operator set, or the reason why not."""
        if self._child is None:
            command = [sys.executable, str(Path(__file__).resolve())]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            pickle.dump((model, version), self._child.stdin)
            self._child.stdin.flush()
            answer = pickle.load(self._child.stdout)
        except (EOFError, BrokenPipeError):
            self._stop()
            return "it crashed"
        assert isinstance(answer, (bytes, str))
        return answer


def _serve() -> None:
    import onnx
    import onnx.version_converter

    answers = sys.stdout.buffer
    with contextlib.suppress(EOFError):
        while True:
            data, version = pickle.load(sys.stdin.buffer)
            answer: bytes | str
            try:
                made = onnx.version_converter.convert_version(onnx.load_from_string(data), version)
                answer = made.SerializeToString()
            except Exception as error:  # whatever it is, the other side shall know
                answer = f"{type(error).__name__}: {error}"
            pickle.dump(answer, answers)
            answers.flush()


if __name__ == "__main__":
    _serve()
