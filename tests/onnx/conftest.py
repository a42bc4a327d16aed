"""Fixtures of the ONNX tests: the oracle onnxruntime, and the folder of hostile files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hwflow.onnx
from hwflow.onnx import Model
from hwflow.onnx.build import Builder
from hwflow.onnx.ops import find_operator

Oracle = Callable[[Model, Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def run_onnxruntime(model: Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a model in onnxruntime without graph optimisation."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(hwflow.onnx.dumps(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def one_node_model(
    op: str, inputs: tuple[np.ndarray | None, ...], opset: int, outputs: int, attributes: Mapping[str, Any]
) -> tuple[Model, dict[str, np.ndarray]]:
    """A model of one node and what to feed; inputs whose elements decide a shape are initializers."""
    operator = find_operator("", op, opset)
    assert operator is not None
    b, feeds, names = Builder(), {}, []
    for i, array in enumerate(inputs):
        if array is None:
            names.append("")
        elif i in operator.constant:
            names.append(b.constant(f"c{i}", array))
        else:
            names.append(b.input(f"x{i}", array.dtype, array.shape))
            feeds[names[-1]] = array
    for name in b.nodes(op, *names, outputs=[f"y{i}" for i in range(outputs)], name="n", **attributes):
        b.output(name)
    return b.model(opset=opset, ir_version=6 if opset < 13 else 10), feeds


@pytest.fixture(scope="session")
def same_as_onnxruntime() -> Callable[..., None]:
    """same_as_onnxruntime(op, *inputs, opset=17, outputs=1, exact=False, **attributes): check, infer, evaluate.

    Floats may differ by the rounding of a differently ordered sum, everything else must be equal.
    """

    def same(
        op: str, *inputs: np.ndarray | None, opset: int = 17, outputs: int = 1, exact: bool = False, **attributes: Any
    ) -> None:
        model, feeds = one_node_model(op, inputs, opset, outputs, attributes)
        expected = run_onnxruntime(model, feeds)
        found = hwflow.onnx.evaluate(model, feeds)
        static = hwflow.onnx.infer(model)
        assert [f for f in hwflow.onnx.check(static) if f.severity is hwflow.onnx.Severity.ERROR] == []
        inferred = static.graph.types
        for name, wanted in expected.items():
            assert found[name].dtype == wanted.dtype
            assert found[name].shape == wanted.shape
            assert (inferred[name].dtype, inferred[name].shape) == (wanted.dtype, wanted.shape)
            tolerance = 0 if exact or wanted.dtype.kind != "f" else 1e-5
            np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance)

    return same


@pytest.fixture(scope="session")
def onnxruntime_run() -> Oracle:
    return run_onnxruntime


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """run_python(code, *arguments, **environment): what a fresh interpreter with the same path prints."""

    def run(code: str, *arguments: str | Path, **environment: str) -> str:
        path = os.pathsep.join(sys.path)
        command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": path, **environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def hostile_dir(models_dir: Path) -> Path:
    """Damaged and malicious files, in the folder onnx/hostile beside the folder of models."""
    folder = models_dir.parent / "onnx" / "hostile"
    if not (folder / "manifest.json").is_file():
        pytest.skip(f"no hostile files: {folder} has no manifest.json")
    return folder
