"""Measures hwflow.onnx against the package onnx: evaluation, load and check, and the time of the import.

    python -m bench.evaluation --models MODELS_DIR

Evaluation: one row of each model in both evaluators, in one thread and in one process, the fastest of several runs.
Load and check: a generated model of 100 MB, in processes of their own (time and peak memory).  Import: a fresh process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# One thread for every library; they read these when numpy is imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

#: The bar: evaluation must be this many times faster than onnx.reference.
FACTOR = 5
MODELS = ("tiny_resnet8_float", "pypi_basic_pitch")


@dataclass(frozen=True)
class Row:
    """One line of the table: seconds here and there."""

    what: str
    ours: float
    theirs: float

    @property
    def factor(self) -> float:
        return self.theirs / self.ours

    def __str__(self) -> str:
        return f"{self.what:<44}{1000 * self.ours:>12.2f}{1000 * self.theirs:>12.2f}{self.factor:>10.2f}"


def fastest(action: Callable[[], object], seconds: float = 2.0) -> float:
    """The shortest of at least three runs, and of as many as fit into `seconds`."""
    times: list[float] = []
    action()
    while len(times) < 3 or sum(times) < seconds:
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def evaluation(folder: Path, name: str) -> Row:
    """One row of a model's data in both evaluators; the outputs must agree."""
    from onnx.reference import ReferenceEvaluator

    from hwflow.onnx import load, prepare

    path = folder / "models" / f"{name}.onnx"
    model = load(path)
    program, reference = prepare(model), ReferenceEvaluator(str(path))
    with np.load(folder / "data" / f"{name}.npz") as data:
        rows = {value.name: data.get(f"in_{value.name}", data.get(f"in_{value.name.replace('/', '_')}"))
                for value in model.graph.inputs}  # fmt: skip
    feeds = {key: np.ascontiguousarray(array[0]) for key, array in rows.items()}
    expected = dict(zip(reference.output_names, reference.run(None, feeds), strict=True))
    for key, found in program.run(feeds).items():
        np.testing.assert_allclose(found, expected[key], rtol=1e-3, atol=1e-5)
    return Row(name, fastest(lambda: program.run(feeds)), fastest(lambda: reference.run(None, feeds)))


def overhead(count: int = 1000) -> float:
    """Microseconds per node beyond the kernel: a chain of Relu on one element, less the bare kernel calls."""
    from hwflow.onnx import prepare
    from hwflow.onnx.build import Builder
    from hwflow.onnx.ops import find_operator
    from hwflow.onnx.ops.base import Call

    b, x = Builder(), np.zeros(1, np.float32)
    last = b.input("x", np.float32, (1,))
    for _ in range(count):
        last = b.node("Relu", last)
    b.output(last)
    model = b.model()
    program, operator = prepare(model), find_operator("", "Relu", 17)
    assert operator is not None
    call = Call(model.graph.nodes[0], 17)
    bare = fastest(lambda: [operator.kernel(call, x) for _ in range(count)], 0.5)
    return (fastest(lambda: program.run({"x": x}), 0.5) - bare) / count * 1e6


def write_large(path: Path) -> None:
    """25 matrices of 1024 x 1024 floats, 105 MB, in a chain."""
    from hwflow.onnx import save
    from hwflow.onnx.build import Builder

    b, rng = Builder(), np.random.default_rng(0)
    last = b.input("x", np.float32, (1, 1024))
    for k in range(25):
        last = b.node("MatMul", last, b.constant(f"w{k}", rng.normal(size=(1024, 1024)).astype(np.float32)))
    b.output(last, np.float32, (1, 1024))
    save(b.model(), path)


#: Prints seconds and the growth of the peak memory in MB.
_TIMED = r"""
import re, sys, time
{imports}
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
before, started = peak(), time.perf_counter()
{work}
print(time.perf_counter() - started, peak() - before)
"""


def child(imports: str, work: str, *arguments: str) -> tuple[float, float]:
    """The fastest of five processes: seconds of `work`, MB of memory that it took."""
    code = _TIMED.format(imports=imports, work=work)
    found = []
    # An installed package has its bytecode; a checkout has it behind the first run, unless this variable forbids that.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(5):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment)
        seconds, megabytes = map(float, done.stdout.split())
        found.append((seconds, megabytes))
    return min(found)


def loading() -> tuple[Row, float, float]:
    """Load and check 100 MB: times, and the memory of both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.onnx"
        write_large(path)
        imports = "from hwflow.onnx import Severity, check\nfrom hwflow.onnx.container.files import read"
        work = "assert all(found.severity is not Severity.ERROR for found in check(read(sys.argv[1])))"
        ours = child(imports, work, str(path))
        theirs = child("import onnx", "onnx.checker.check_model(onnx.load(sys.argv[1]))", str(path))
    return Row("load + check of 105 MB", ours[0], theirs[0]), ours[1], theirs[1]


def importing() -> Row:
    """A fresh process each; the interpreter's own start is not counted."""
    return Row("import", child("", "import hwflow.onnx")[0], child("", "import onnx, onnx.reference")[0])


def main() -> int:
    """Print the table.  Exit code 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="folder with models/ and data/")
    folder = parser.parse_args().models
    print(f"{'':<44}{'hwflow ms':>12}{'onnx ms':>12}{'factor':>10}")
    evaluations = []
    for name in MODELS:
        evaluations.append(evaluation(folder, name))
        print(evaluations[-1], flush=True)
    load_row, ours, theirs = loading()
    print(load_row, f"  memory {ours:.0f} MB, onnx {theirs:.0f} MB", flush=True)
    import_row = importing()
    print(import_row, flush=True)
    per_node = overhead()
    print(f"overhead per node beyond its kernel: {per_node:.1f} us")
    met = (
        all(row.factor >= FACTOR for row in evaluations) and load_row.factor >= 1
        and import_row.ours < 0.3 and per_node < 10
    )  # fmt: skip
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
