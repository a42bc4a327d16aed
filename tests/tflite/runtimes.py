"""The runtimes of other people, LiteRT and TensorFlow Lite Micro, in a Python of their own that HWFLOW_EXPORTERS names.

One process serves all calls of a test session; a call sends a model and rows of inputs, and gets rows of outputs.
"""

from __future__ import annotations

import atexit
import pickle
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from hwflow.onnx.model import Array
from tests.project.test_export_guide import python_with

LITERT, MICRO, FEATURES = "ai_edge_litert", "tflite_micro", "pymicro_features"

SERVER = """
import os, pickle, sys
out, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
os.dup2(2, 1)
import numpy as np

def litert(data, rows):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    try:
        kernels = OpResolverType.BUILTIN_REF
        interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    except ValueError as error:
        if "Didn't find op" not in str(error):
            raise
        kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for row in rows:
        for detail, array in zip(inputs, row):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        found.append([interpreter.get_tensor(detail["index"]) for detail in outputs])
    return found

def micro(data, rows):
    from tflite_micro.python.tflite_micro import runtime
    interpreter = runtime.Interpreter.from_bytes(data)
    found = []
    for row in rows:
        for index, array in enumerate(row):
            interpreter.set_input(array, index)
        interpreter.invoke()
        found.append([interpreter.get_output(index) for index in range(outputs_of(data))])
    return found

def outputs_of(data):
    import tflite
    return tflite.Model.GetRootAs(data).Subgraphs(0).OutputsLength()

def features(samples, rows):
    # Frames of 40 features, one for each 10 ms.
    from pymicro_features import MicroFrontend
    frontend, found = MicroFrontend(), []
    for k in range(0, len(samples) - 319, 320):
        frame = frontend.process_samples(samples[k : k + 320])
        if frame.features:
            found.append(frame.features)
    return np.array(found, np.float32)

while True:
    try:
        engine, data, rows = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    try:
        answer = {"ai_edge_litert": litert, "tflite_micro": micro, "pymicro_features": features}[engine](data, rows)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    pickle.dump(answer, out)
    out.flush()
"""


class RuntimeRefuses(Exception):
    """The runtime does not take the model; its words."""


@cache
def _server(engine: str) -> subprocess.Popen[bytes] | None:
    python = python_with((engine, "tflite") if engine == MICRO else (engine,))
    if python is None:
        return None
    server = subprocess.Popen([python, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.communicate()


def available(engine: str) -> bool:
    return python_with((engine,)) is not None


def run(engine: str, data: bytes, rows: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each row; a streaming model keeps its variables from row to row.  Skips where it is missing."""
    found: list[list[Array]] = _ask(engine, data, [list(map(np.ascontiguousarray, row)) for row in rows])
    return found


def features(samples: Array) -> Array:
    """Features [frames, 40] of sound, int16 at 16 kHz.  Skips where pymicro-features is missing."""
    found: Array = _ask(FEATURES, samples.astype("<i2").tobytes(), [])
    return found


def _ask(engine: str, data: bytes, rows: list[list[Array]]) -> Any:
    server = _server(engine)
    if server is None:
        pytest.skip(f"needs {engine}, here or in a Python that HWFLOW_EXPORTERS names")
    assert server.stdin is not None
    assert server.stdout is not None
    pickle.dump((engine, data, rows), server.stdin)
    server.stdin.flush()
    try:
        answer: Any = pickle.load(server.stdout)
    except EOFError:  # it crashed; the next call starts another one
        _server.cache_clear()
        raise RuntimeRefuses(f"{engine} ended") from None
    if isinstance(answer, str):
        raise RuntimeRefuses(answer)
    return answer


def package_file(package: str, name: str) -> bytes:
    """A file of a package of that Python.  Skips where it is missing."""
    python = python_with((package,))
    if python is None:
        pytest.skip(f"needs {package}, here or in a Python that HWFLOW_EXPORTERS names")
    code = (f"import importlib.util as u, pathlib, sys; "
            f"sys.stdout.buffer.write((pathlib.Path(u.find_spec({package!r}).origin).parent / {name!r}).read_bytes())")
    return subprocess.run([python, "-c", code], capture_output=True, check=True).stdout
