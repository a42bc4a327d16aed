"""Files of other people: real ones have no errors, hostile ones are judged and nothing fails, large ones in time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from hwflow.onnx import Severity, check
from hwflow.onnx.container.files import read, read_bytes
from tests.onnx.rules.protos import value

SHIPPED = Path(onnx.__file__).parent / "backend" / "test" / "data"


def errors(path: Path) -> list[str]:
    return [str(found) for found in check(read(path)) if found.severity is Severity.ERROR]


def test_models_that_onnx_ships_have_no_errors() -> None:
    paths = sorted(SHIPPED.rglob("*.onnx"))
    assert len(paths) > 100
    assert {path.name: found for path in paths if (found := errors(path))} == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the suite, which computes what it expects
def test_the_cases_of_the_conformance_suite_have_no_errors() -> None:
    cases = collect_testcases(None)
    assert len(cases) > 1800
    documents = {case.name: read_bytes(case.model.SerializeToString()) for case in cases}
    found = {name: [f for f in check(document) if f.severity is Severity.ERROR] for name, document in documents.items()}
    assert {name: errors for name, errors in found.items() if errors} == {}


def test_third_party_models_have_no_errors(models_dir: Path) -> None:
    paths = sorted((models_dir / "models").glob("*.onnx"))
    assert len(paths) == 31
    assert {path.name: found for path in paths if (found := errors(path))} == {}


def test_every_hostile_file_is_judged(hostile_dir: Path) -> None:
    """A message or findings, and in strict mode no fewer errors; never a failure of the checker itself."""
    judged = 0
    for path in sorted(hostile_dir.glob("*.onnx")):
        try:
            document = read(path)
        except HwflowError:
            continue
        lenient, strict = check(document), check(document, strict=True)
        assert len(lenient) == len(strict)
        counts = [sum(found.severity is Severity.ERROR for found in each) for each in (lenient, strict)]
        assert counts[0] <= counts[1]
        judged += 1
    assert judged > 30


@pytest.mark.parametrize("cut", range(0, 1200, 7))
def test_damaged_bytes_are_judged(cut: int) -> None:
    """One byte of a real file changed at each of many places."""
    data = bytearray((SHIPPED / "simple" / "test_sequence_model1" / "model.onnx").read_bytes())
    data[cut % len(data)] ^= 1 << (cut % 8)
    try:
        document = read_bytes(bytes(data))
    except HwflowError:
        return
    assert isinstance(check(document), tuple)


def seconds(code: str, path: Path) -> float:
    """What a fresh process measures: `code` sets `spent`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(spent)", str(path)],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return float(done.stdout)


_HWFLOW = """
import sys, time
from hwflow.onnx import check
from hwflow.onnx.container.files import read
start = time.perf_counter()
check(read(sys.argv[1]))
spent = time.perf_counter() - start
"""
_ONNX = """
import sys, time, onnx
start = time.perf_counter()
onnx.checker.check_model(onnx.load(sys.argv[1]))
spent = time.perf_counter() - start
"""


@pytest.mark.slow
def test_a_large_model_costs_less_than_with_onnx(tmp_path: Path) -> None:
    """100 MiB of weights, each process with reading the file."""
    size = 25
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.standard_normal((1024, 1024), np.float32), f"w{i}") for i in range(size)]
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(size)]
    graph = helper.make_graph(
        nodes, "g", [value("v0", shape=(1, 1024))], [value(f"v{size}", shape=(1, 1024))], weights
    )  # fmt: skip
    path = tmp_path / "large.onnx"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert seconds(_HWFLOW, path) < seconds(_ONNX, path)
