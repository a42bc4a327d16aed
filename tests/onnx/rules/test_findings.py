"""What `check` says of a model for each rule, to the letter, in both modes, and `load` where it refuses: findings.txt.

`python -m tests.onnx.rules.test_findings` writes the file again: read what changed.  It also says which of the models
the official checker refuses, which hwflow refuses then too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate, loads
from hwflow.onnx.container.files import read_bytes
from hwflow.onnx.limits import Limits
from tests.onnx.rules import cases_models, cases_nodes, cases_parts
from tests.onnx.rules.cases_models import Cases
from tests.onnx.rules.protos import findings
from tests.onnx.stages import outcomes

FILE = Path(__file__).with_name("findings.txt")
CASES: Cases = {**cases_models.CASES, **cases_nodes.CASES, **cases_parts.CASES}

LIMITS = Limits(tensor_bytes=1 << 24, total_bytes=1 << 26, work=10**8, nodes=10_000, inlined_nodes=1000)

#: Models that the official checker refuses; and rules of whose models it never ends to judge some.
OFFICIAL, ENDLESS = "(onnx refuses it)", {"FN-12"}


def refused(proto: onnx.ModelProto) -> bool:
    """By the official checker."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception:
        return True
    return False


def told(proto: onnx.ModelProto) -> list[str]:
    """A line for each finding, of which the strict mode has the same."""
    lenient, strict = findings(proto), findings(proto, strict=True)
    assert list(map(str, lenient)) == list(map(str, strict))
    lines = []
    for found, judged in zip(lenient, strict, strict=True):
        severity = found.severity.value + (", strictly an error" if judged.severity is not found.severity else "")
        lines.append(f"{severity}: {found}")
    try:
        loads(proto.SerializeToString())
    except HwflowError as error:
        lines.append(f"load: {type(error).__name__}: {error}")
    return lines


def text_of(rule: str) -> str:
    """Every case of a rule, and what is said of it."""
    parts = []
    for title, make in CASES[rule].items():
        proto = make()
        lines = told(proto) or ["fine"]
        official = f" {OFFICIAL}" if rule not in ENDLESS and refused(proto) else ""
        parts.append("\n".join([f"=== {rule} {title!r}{official}", *lines]))
    return "\n".join(parts) + "\n"


@cache
def pinned() -> dict[str, str]:
    found: dict[str, str] = {}
    for block in FILE.read_text(encoding="utf-8").split("\n=== "):
        block = block.removeprefix("=== ").rstrip("\n")
        rule = block.split()[0]
        found[rule] = found.get(rule, "") + f"=== {block}\n"
    return found


@pytest.mark.parametrize("rule", CASES)
def test_findings(rule: str) -> None:
    assert text_of(rule) == pinned()[rule]


@pytest.mark.parametrize("rule", [rule for rule in CASES if rule not in ("FN-03", "FN-12", "GR-01")])
def test_no_model_does_harm(rule: str) -> None:
    """Whatever refuses it first: every stage ends with a result or a message, and nothing else is raised.

    The large ones of some rules have processes of their own in test_hostile.
    """
    for make in CASES[rule].values():
        data = make().SerializeToString()
        outcomes(lambda data=data: read_bytes(data), LIMITS, strict=False)


def test_what_the_official_checker_refuses() -> None:
    """At least in strict mode; but for an implied operator set, both names of the default one, sparse weights, outputs
    and lists that are left out, and bits that no element uses."""
    only = {text.split()[0] for block in pinned().values() for text in block.split("=== ")[1:]
            if OFFICIAL in text and "\nerror: " not in text and "strictly an error: " not in text}  # fmt: skip
    assert only == {"IR-03", "IR-07", "OS-06", "GR-12", "OP-05", "AT-06", "TD-08", "SP-01"}


X = np.array([-1, 2], np.float32)
#: What models mean where the rule is about it: y of x.
MEANINGS = {
    ("OS-06", "and the other way round"): [0, 2], ("OS-06", "imported by one name, used by the other"): [0, 2],
    ("GR-13", "a value that no output needs"): [0, 2], ("NM-08", "an input that hides"): [-4, 8],
    ("NM-08", "an initializer that hides"): [5, 6], ("NM-09", "both branches"): [0, 2],
    ("NM-10", "outer values"): [1, 2], ("NM-10", "two levels out"): [0, 2], ("NM-12", "a copy"): [-1, 2],
    ("NM-13", "an output that a node reads"): [1, 0], ("FN-01", "an operator"): [0, -2],
    ("FN-04", "an attribute"): [np.float32(-0.01), 2], ("FN-10", "a standard operator"): [0, 2],
    **{("GR-06", title): [2, 8] for title in CASES["GR-06"]},
}  # fmt: skip


@pytest.mark.parametrize(("rule", "title"), MEANINGS, ids=" ".join)
def test_meanings(rule: str, title: str) -> None:
    read = loads(CASES[rule][title]().SerializeToString())
    feeds = {"x": X, "c": np.array(True)}
    found = evaluate(read, {one.name: feeds[one.name] for one in read.graph.inputs})["y"]
    np.testing.assert_array_equal(found, MEANINGS[rule, title])


if __name__ == "__main__":
    FILE.write_text("".join(map(text_of, CASES)), encoding="utf-8")
