"""Fixtures of the ONNX tests: the oracle onnxruntime, and the folder of hostile files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import hwflow.onnx
from hwflow.onnx import Model

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
