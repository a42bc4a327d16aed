"""Each rule of the catalogue has a test that names it, as `@pytest.mark.rule("GR-04")`, or models among the cases of
test_findings; no test names another one."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwflow.onnx import check
from hwflow.onnx.rules.catalogue import CATALOGUE, CONFLICTS
from tests.onnx.rules.protos import F, findings, model, node, value
from tests.onnx.rules.test_findings import CASES

TESTS = Path(__file__).parents[2]
PLACES = {"check", "load", "save", "evaluate", "infer", "diff", "schemas"}


def marked(path: Path) -> Iterator[str]:
    """The identifiers in the marks of a file, those at functions, in `pytestmark` and in parameters."""
    text = path.read_text(encoding="utf-8")
    for found in ast.walk(ast.parse(text)) if "mark.rule(" in text else ():
        call = isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute)
        if call and ast.unparse(found.func) in ("pytest.mark.rule", "mark.rule"):
            for argument in found.args:
                assert isinstance(argument, ast.Constant), f"{path}: a rule must be named by a literal"
                yield argument.value


@functools.cache
def rules_with_tests() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {rule: ["test_findings.py"] for rule in CASES}
    for path in sorted(TESTS.rglob("test_*.py")):
        for rule in marked(path):
            found.setdefault(rule, []).append(path.name)
    return found


def test_each_rule_has_a_test() -> None:
    needed = {rule for rule, entry in CATALOGUE.items() if not entry.checked.startswith("not applicable: ")}
    assert sorted(needed - rules_with_tests().keys()) == []


def test_no_test_names_an_unknown_rule() -> None:
    assert sorted(rules_with_tests().keys() - CATALOGUE.keys()) == []


def test_entries() -> None:
    assert len(CATALOGUE) == 196
    for rule, entry in CATALOGUE.items():
        assert re.fullmatch(r"[A-Z]{2,3}-\d\d", rule)
        assert entry.title
        if not entry.checked.startswith("not applicable: "):
            assert set(entry.checked.split(", ")) <= PLACES, rule


def test_findings_name_rules_of_the_catalogue() -> None:
    """Statically: the first argument of error(), lenient() and warning() in the files of the rules."""
    folder = Path(inspect.getfile(check)).parent / "rules"
    for path in folder.glob("*.py"):
        for found in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(found, ast.Call)
                and ast.unparse(found.func) in ("error", "lenient", "warning")
                and found.args
            ):
                rule = found.args[0]
                if isinstance(rule, ast.Constant):
                    assert rule.value in CATALOGUE, f"{path.name}: {rule.value}"


@pytest.mark.rule("IR-01")
def test_conflicts_are_decided() -> None:
    """Each decision is one about a rule, and those that a model can show are followed."""
    assert CONFLICTS.keys() <= CATALOGUE.keys()
    lenient = model(node(outputs=("a b",)), node(inputs=("a b",)), outputs=[value("y", F, None)])
    lenient.ClearField("domain")
    assert {(found.rule, found.severity.value) for found in findings(lenient)} == {
        ("NM-01", "warning"), ("GR-18", "warning")}  # fmt: skip
