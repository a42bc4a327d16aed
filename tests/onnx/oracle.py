"""onnxruntime in a process of its own: it may crash on odd models without taking the tests along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import hwflow.onnx
from hwflow.onnx import Model
from tests.onnx.child import Child, Crashed, Failure, serve


class Refused(Exception):
    """onnxruntime does not run this model."""


class ChildOracle(Child):
    """A child process that runs models."""

    def __init__(self) -> None:
        super().__init__("tests.onnx.oracle")

    def run(self, model: Model, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in the order of the model.  Raises Refused where onnxruntime does, or where it crashes."""
        try:
            return list(self.ask((hwflow.onnx.dumps(model), dict(feeds))))
        except Failure as failure:
            raise Refused(str(failure)) from None
        except Crashed:
            raise Refused("onnxruntime crashed") from None


def main() -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4

    def outputs(question: tuple[bytes, Mapping[str, np.ndarray]]) -> list[Any]:
        model, feeds = question
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found = list(session.run(None, feeds))
        if any("SparseTensor" in type(output).__name__ for output in found):
            raise TypeError("a sparse tensor is no answer")
        return found

    serve(outputs)


if __name__ == "__main__":
    main()
