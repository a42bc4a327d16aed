"""The sections of docs/onnx-conformance.md: rules, ONNX's suite, hostile files, models, speed, fuzzing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.converter import converters
from bench.sections import Bench, table
from tests.project.tree import ROOT

#: Inputs of a fuzz run: what the project promises to survive before each release.
FUZZED = 200_000


def rules(bench: Bench) -> str:
    """The rules of the specification and the tests that name them."""
    from hwflow.onnx.rules.catalogue import CATALOGUE
    from tests.onnx.rules.test_catalogue import rules_with_tests

    tests = rules_with_tests()
    rows = []
    for rule, entry in CATALOGUE.items():
        files = ", ".join(sorted(set(tests.get(rule, ())))) or "none"
        rows.append((rule, entry.title, entry.level.value, entry.checked, files))
    missing = [rule for rule, *_, files in rows if files == "none"]
    bench.failures += [f"no test names {rule}" for rule in missing]
    covered = f"{len(rows) - len(missing)} of {len(rows)} rules have a test that names them."
    return f"{covered}\n\n{table(('rule', 'what it says', 'level', 'where', 'tests'), rows)}"


def _outcome(group: str) -> list[tuple[str, str, str]]:
    """(operator or kind, case, outcome) for a group of the suite."""
    from tests.onnx.test_conformance import UNSUPPORTED, cases, failure

    found = []
    for case in cases().get(group, ()):
        line = failure(case)
        outcome = "unsupported" if line is None and case.name in UNSUPPORTED else line or "pass"
        alone = case.model is not None and len(case.model.graph.node) == 1
        found.append((case.model.graph.node[0].op_type if alone else f"({group})", case.name, outcome))
    return found


def suite(bench: Bench) -> str:
    """ONNX's own conformance suite, by operator."""
    from tests.onnx.test_conformance import GROUPS, UNSUPPORTED, cases

    cases()  # generated at the first call; that is not ours to measure
    started = time.monotonic()
    results = [row for group in GROUPS for row in _outcome(group)]
    seconds = time.monotonic() - started
    totals: Counter[str] = Counter()
    operators: dict[str, Counter[str]] = defaultdict(Counter)
    for operator, _, outcome in results:
        kind = outcome if outcome in ("pass", "unsupported") else "failed"
        totals[kind] += 1
        operators[operator][kind] += 1
    bench.failures += [outcome for *_, outcome in results if outcome not in ("pass", "unsupported")]
    head = (
        f"{len(results)} cases: {totals['pass']} pass, {totals['unsupported']} unsupported, {totals['failed']} failed "
        f"(mismatch, error); {seconds:.1f} s in one process, reading and comparing included."
    )
    reasons = table(("not evaluated", "why"), sorted(UNSUPPORTED.items()))
    rows = [(name, found["pass"], found["unsupported"] or "", found["failed"] or "")
            for name, found in sorted(operators.items())]  # fmt: skip
    return f"{head}\n\n{reasons}\n\n{table(('operator or kind', 'pass', 'unsupported', 'failed'), rows)}"


def _pytest(bench: Bench, *arguments: str) -> str:
    """The closing line of a run of tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    if bench.models is not None:
        command.append(f"--models={bench.models}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        bench.failures.append(" ".join(command))
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]


def hostile(bench: Bench) -> str:
    """Files made to do harm: which stage refuses each, and why."""
    from tests.onnx.hostile_models import CASES
    from tests.onnx.test_hostile import ACCEPTED, REFUSED

    line = _pytest(bench, "tests/onnx/test_hostile.py")
    own = [(name, case.stage or "accepted", case.text) for name, case in CASES.items()]
    third = [(Path(name).stem, stage, " ".join(texts)) for name, (stage, *texts) in REFUSED.items()]
    third += [(Path(name).stem, "accepted", text) for name, text in ACCEPTED.items()]
    count = f"{len(own)} files made in code, {len(third)} third-party ones. `pytest tests/onnx/test_hostile.py`: {line}"
    rows = [(name, stage, f"`{text}`" if text else "") for name, stage, text in (*own, *third)]
    return f"{count}\n\n{table(('file', 'refused by', 'part of the message'), rows)}"


def models(bench: Bench) -> str:
    """Third-party models: loaded, checked, inferred and evaluated."""
    if bench.models is None:
        return "Not measured: no folder of third-party models was given."
    return f"`pytest tests/onnx/test_models.py`: {_pytest(bench, 'tests/onnx/test_models.py')}"


def printed(bench: Bench, *command: str) -> str:
    """What a command of this Python prints, as a block of a page."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        bench.failures.append(f"{' '.join(command)}: {done.stderr[-300:]}")
    return f"```\n{done.stdout.rstrip().strip(chr(10))}\n```"


def evaluation(bench: Bench) -> str:
    """Speed of evaluation, load and check, and import, against the package onnx."""
    if bench.models is None:
        return "Not measured: no folder of third-party models was given."
    return printed(bench, "-m", "bench.evaluation", "--models", str(bench.models))


def fuzz(bench: Bench) -> str:
    """Damaged files through everything."""
    more: Iterable[str] = ("--models", str(bench.models)) if bench.models else ()
    return printed(bench, "-m", "bench.fuzz", "--count", str(FUZZED), "--seed", "1", *more)


ONNX_SECTIONS: dict[str, Callable[[Bench], str]] = {
    "onnx-rules": rules,
    "onnx-suite": suite,
    "onnx-hostile": hostile,
    "onnx-models": models,
    "onnx-speed": evaluation,
    "onnx-fuzz": fuzz,
    "onnx-converter": converters,
}
