"""onnxruntime in a process of its own: it may crash on odd models without taking the tests along.

Run as a program, this reads pickled (model bytes, feeds) and writes a list of arrays, or why there is none as a text.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

import hwflow.onnx
from hwflow.onnx import Model

__all__ = ["ChildOracle", "Refused"]


class Refused(Exception):
    """onnxruntime does not run this model."""


class ChildOracle:
    """A child process that runs models; started when first asked, and again after a crash."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ChildOracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
        self._child = None

    def run(self, model: Model, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in the order of the model.  Raises Refused where onnxruntime does, or where it crashes."""
        if self._child is None:
            command = [sys.executable, str(Path(__file__).resolve())]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            pickle.dump((hwflow.onnx.dumps(model), dict(feeds)), self._child.stdin)
            self._child.stdin.flush()
            answer = pickle.load(self._child.stdout)
        except (EOFError, BrokenPipeError):
            self._stop()
            raise Refused("onnxruntime crashed") from None
        if isinstance(answer, str):
            raise Refused(answer)
        return list(answer)


def _serve() -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    answers = sys.stdout.buffer
    with contextlib.suppress(EOFError):
        while True:
            model, feeds = pickle.load(sys.stdin.buffer)
            try:
                session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
                answer = session.run(None, feeds)
            except Exception as error:  # whatever it is, the other side shall know
                answer = f"{type(error).__name__}: {error}"
            pickle.dump(answer, answers)
            answers.flush()


if __name__ == "__main__":
    _serve()
