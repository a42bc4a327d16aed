"""Damaged models through everything: whatever is no HwflowError, a crash, a hang or too much memory is a failure.

    python -m bench.fuzz --count 200000 --jobs 4 --seed 1 [--tflite] [--models DIR] [--failures DIR]

Input number i is made from the seed and i alone: `--only I` runs one again.  The models that are damaged are those of
ONNX's test suite (one node each, and its files), hostile ones made in code, and with --models third-party ones; with
--tflite files of TensorFlow Lite made in code, one for each operator and width, and one with variables.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing as mp
import os
import random
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from bench.mutate import mutate
from hwflow.onnx.container.files import read_bytes
from hwflow.onnx.limits import Limits
from tests.onnx.hostile_models import CASES
from tests.onnx.rules.test_findings import CASES as RULES
from tests.onnx.stages import outcomes
from tests.tflite.cases import KINDS, made
from tests.tflite.test_branches import branches
from tests.tflite.test_recurrent import lstm, svdf
from tests.tflite.test_sparse import blocks_of_four
from tests.tflite.test_variables import sums

#: Rules with models of thousands of nodes or functions.
LARGE = ("FN-03", "FN-12", "GR-01")

#: Small, so that an input takes milliseconds; each limit that is missed shows as memory or time.
LIMITS = Limits(
    tensor_bytes=1 << 24,
    total_bytes=1 << 26,
    nodes=20_000,
    iterations=1_000,
    work=10**8,
    seconds=5.0,
    inlined_nodes=5_000,
)

DEADLINE = 10.0  # seconds for one input
MEMORY = 2 << 30  # bytes above what the process has at first

_LARGEST = 100_000  # bytes of a model that is damaged


def own_models() -> dict[str, bytes]:
    """The lawful models, the hostile ones and those of the rules that tests make in code."""
    made = {name: case.make() for name, case in CASES.items() if not name.startswith("x")}
    made |= {f"{rule} {title}": make() for rule, cases in RULES.items() if rule not in LARGE
             for title, make in cases.items()}  # fmt: skip
    return {name: m if isinstance(m, bytes) else m.SerializeToString() for name, m in made.items()}


def suite_models() -> dict[str, bytes]:
    """The models of ONNX's test suite: one for each case of an operator, and the files."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        cases = {
            case.name: case.model.SerializeToString() for case in collect_testcases(None) if case.model is not None
        }
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    return cases | {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.onnx")}


def tflite_models() -> dict[str, bytes]:
    """Files of TensorFlow Lite, made in code."""
    found = {f"{kind} {width}": made(kind, width, 0).file() for kind, each in KINDS.items() for width in each.widths}
    found |= {f"SVDF {width}": svdf(width, 2, 3, 4, 0)[0] for width in ("FLOAT32", "INT8")}
    found |= {f"LSTM {width}": lstm(width, coupled=False, steps=2, major=True)[0] for width in ("FLOAT32", "INT8")}
    return found | {"variables": sums(), "read twice": sums(twice=True), "sparse": blocks_of_four(), "IF": branches()}


def models(folder: Path | None, *, tflite: bool = False) -> list[bytes]:
    """All models, in an order that depends on their names only."""
    found = tflite_models() if tflite else own_models() | suite_models()
    if folder is not None:
        paths = folder.rglob("*.tflite" if tflite else "*.onnx")
        found |= {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return [data for _, data in sorted(found.items()) if len(data) <= _LARGEST]


def damaged(corpus: Sequence[bytes], seed: int, number: int) -> bytes:
    """Input `number` of a run."""
    rng = random.Random(f"{seed}:{number}")
    return mutate(rng.choice(corpus), corpus, rng)


def verdict(data: bytes) -> tuple[str, str]:
    """How far the input came, and what is wrong with hwflow ("" if nothing): the exception, and where it came from."""
    try:
        found = outcomes(lambda: read_bytes(data, limits=LIMITS), LIMITS, strict=False, write=True)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if f"{os.sep}hwflow{os.sep}" in f.filename] or list(frames)
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}"
        return "failed", f"{type(error).__name__} in {where}: {error}"[:500]
    if any("Unable to allocate" in text or "MemoryError" in text for text in found.values()):
        return "failed", f"memory: {found}"[:500]
    for stage in ("read", "load", "check", "evaluate"):
        if found.get(stage, "ok") != "ok":
            name = found[stage].split(":")[0] if stage != "check" else "findings"
            return f"{stage}: {name}", ""
    return "evaluated", ""


@dataclass
class Tally:
    """What came out."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def fail(self, number: int, text: str) -> None:
        self.outcomes["failed"] += 1
        self.failures.setdefault(text.split(": ")[0], []).append((number, text))


def _work(corpus: Sequence[bytes], seed: int, numbers: range, state: Any, results: Connection) -> None:
    """In a worker: every number, its start noted where the supervisor sees it."""
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for number in numbers:
        state[0], state[1] = number, time.monotonic()
        results.send((number, *verdict(damaged(corpus, seed, number))))
    state[0] = -1


@dataclass
class _Worker:
    """A process, the numbers that it has to do, and where it is."""

    numbers: range
    process: ForkProcess
    state: Any
    results: Connection

    @classmethod
    def start(cls, corpus: Sequence[bytes], seed: int, numbers: range) -> _Worker:
        context = mp.get_context("fork")
        state = context.RawArray("d", [numbers.start, time.monotonic()])
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(corpus, seed, numbers, state, theirs), daemon=True)
        process.start()
        theirs.close()
        return cls(numbers, process, state, ours)

    def drain(self, tally: Tally) -> None:
        with contextlib.suppress(EOFError, OSError):
            while self.results.poll():
                number, outcome, problem = self.results.recv()
                if problem:
                    tally.fail(number, problem)
                else:
                    tally.outcomes[outcome] += 1

    def rest(self) -> range:
        """What is left behind the number at which the process ended."""
        return range(int(self.state[0]) + self.numbers.step, self.numbers.stop, self.numbers.step)


def run(corpus: Sequence[bytes], seed: int, count: int, jobs: int, progress: bool = True) -> Tally:
    """`count` inputs in `jobs` processes; one that crashes or hangs costs its input only.  Ctrl-C ends it early."""
    tally, started = Tally(), time.monotonic()
    workers = [_Worker.start(corpus, seed, range(job, count, jobs)) for job in range(jobs)]
    shown = started
    try:
        while workers:
            wait([worker.process.sentinel for worker in workers], timeout=0.2)
            workers = [left for worker in workers for left in _supervise(worker, corpus, seed, tally)]
            if progress and time.monotonic() - shown > 5:
                shown = time.monotonic()
                done = sum(tally.outcomes.values())
                speed = done / (shown - started)
                print(f"{done} of {count}, {speed:.0f} a second, {tally.outcomes['failed']} failures", file=sys.stderr)
    except KeyboardInterrupt:
        for worker in workers:
            worker.process.kill()
    return tally


def _supervise(worker: _Worker, corpus: Sequence[bytes], seed: int, tally: Tally) -> Iterator[_Worker]:
    """The worker as long as it works; another one behind the input at which it crashed or hung; nothing at its end."""
    worker.drain(tally)
    late = time.monotonic() - worker.state[1] > DEADLINE
    if worker.process.is_alive() and not late:
        yield worker
        return
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()
    worker.drain(tally)
    if worker.state[0] >= 0:
        text = f"hang: after {DEADLINE} s" if late else f"crash: exit code {worker.process.exitcode}"
        tally.fail(int(worker.state[0]), text)
        yield _Worker.start(corpus, seed, worker.rest())


def save(tally: Tally, corpus: Sequence[bytes], seed: int, folder: Path) -> Iterator[str]:
    """The first three inputs of each kind of failure as files; one line for each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, found in sorted(tally.failures.items(), key=lambda item: -len(item[1])):
        for number, text in found[:3]:
            name = f"{seed}-{number}.onnx"
            (folder / name).write_bytes(damaged(corpus, seed, number))
            (folder / f"{name}.txt").write_text(text + "\n")
        yield f"{len(found):6} x {kind}: input {found[0][0]}: {found[0][1][:300]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run damaged models through hwflow.")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", type=Path, help="folder of more models to damage")
    parser.add_argument("--tflite", action="store_true", help="files of TensorFlow Lite instead of ONNX")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for what fails")
    parser.add_argument("--only", type=int, metavar="I", help="run input number I, with its traceback")
    options = parser.parse_args()
    corpus = models(options.models, tflite=options.tflite)
    if options.only is not None:
        data = damaged(corpus, options.seed, options.only)
        print(outcomes(lambda: read_bytes(data, limits=LIMITS), LIMITS, strict=False, write=True))
        return 0
    started = time.monotonic()
    tally = run(corpus, options.seed, options.count, options.jobs)
    seconds = time.monotonic() - started
    print(
        f"{options.count} inputs from {len(corpus)} models in {seconds:.0f} s: {options.count / seconds:.0f} a second"
    )
    for outcome, number in tally.outcomes.most_common():
        print(f"{number:8} {outcome}")
    for line in save(tally, corpus, options.seed, options.failures) if tally.failures else ():
        print(line)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
