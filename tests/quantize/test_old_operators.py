"""Old operator sets as hardware: every operator that hardware maps, in every version below 13 and all its forms.

The golden model of a network is compared with the evaluation of the *original* file, or the network is refused for a
reason that stands in `REFUSED`.  `python -m tests.quantize.test_old_operators` writes docs/operator-sets.md of it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.onnx.schemas import versions_of
from hwflow.quantize import quantize
from hwflow.stages.kinds import hardware_problems
from tests.quantize.operator_cases import OLD_UNTIL as NEWEST
from tests.quantize.operator_cases import Network, networks
from tools.operator_support import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs" / "operator-sets.md"

_TRAINING = "normalizes with the statistics of the batch, as in training"
#: Operators, a form, and a part of the reason why it cannot become hardware.
REFUSED = [
    ("Equal Greater Less GreaterOrEqual LessOrEqual", "product", "Cast runs on the host"),
    ("BatchNormalization", "training", _TRAINING),
    ("BatchNormalization", "is_test 0", _TRAINING),
    ("BatchNormalization", "no is_test", _TRAINING),
    ("Dropout", "training", "drops elements at random, as in training"),
    ("Resize", "cubic", "only the modes 'nearest' and 'linear' have hardware"),
]
REASONS = {(op, form): why for ops, form, why in REFUSED for op in ops.split()}

#: Versions without a form: Equal compares integers only before version 11, and no layer gives them; GatherND moves
#: along the batch alone before 12; ConvInteger and MatMulInteger have one version, whose cases are in catalogue_cases.
WITHOUT = {("Equal", 1), ("Equal", 7), ("GatherND", 11), ("ConvInteger", 10), ("MatMulInteger", 10)}

#: Operators whose old forms mean something else when a newer operator set reads them, or nothing at all.
_CHANGED = (
    "Add Sub Mul Div Softmax LogSoftmax Hardmax BatchNormalization PRelu TopK Reshape Concat Pad Clip Dropout Split "
    "Slice Squeeze Resize Upsample Tile Gemm QuantizeLinear"
)
CHANGED = frozenset(_CHANGED.split())
ALL = tuple(one for one in networks() if one.old)


@cache
def rows() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(7).normal(0, 1, (12, 1, 4, 6, 6)).astype(np.float32)}


def signal_to_noise(made: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """In decibels."""
    a, b = (np.concatenate([v.ravel() for v in x.values()]).astype(np.float64) for x in (made, expected))
    noise = float(np.mean((a - b) ** 2))
    return float(10 * np.log10(np.mean(b**2) / noise)) if noise else float("inf")


def evaluated(model: onnx.Model) -> dict[str, np.ndarray]:
    """The first output of every row."""
    name = model.graph.outputs[0].name
    return {name: np.stack([onnx.evaluate(model, {"x": row})[name] for row in rows()["x"]])}


def outcome(old: Network) -> tuple[float | None, str]:
    """The signal to noise of the golden model, or None and the reason for which it is refused."""
    model = old.model()
    try:
        made = quantize(model, rows())
    except HwflowError as error:
        return None, str(error)
    assert hardware_problems(made.graph) == ()
    expected = evaluated(model)
    found = golden.predict(made, rows())
    return signal_to_noise({name: np.asarray(found[name]) for name in expected}, expected), ""


def check(old: Network) -> None:
    decibels, why = outcome(old)
    reason = REASONS.get((old.op, old.form))
    if reason is not None:
        assert decibels is None
        assert reason in why
        assert "(" + old.op + ")" in why or "Cast" in why, "the message names the node"
        assert "as in training" not in reason or "export the model for inference" in why
        return
    assert decibels is not None, why
    assert decibels >= old.decibels


@pytest.mark.quick(60)
@pytest.mark.parametrize("old", [old for old in ALL if old.op in CHANGED], ids=lambda old: old.label)
def test_old_forms_that_changed(old) -> None:
    check(old)


@pytest.mark.slow
@pytest.mark.parametrize("old", [old for old in ALL if old.op not in CHANGED], ids=lambda old: old.label)
def test_old_forms_that_mean_the_same(old) -> None:
    check(old)


def test_no_version_is_missing() -> None:
    """All pairs of an operator in the catalogue, or one that the host runs at the end, and a version below 13."""
    operators = {op for domain, op in CATALOGUE if not domain} | {"Softmax", "LogSoftmax", "Hardmax", "Cast"}
    pairs = {(op, s.since) for op in operators for s in versions_of("", op) if s.since < NEWEST and not s.deprecated}
    assert pairs - {(old.op, old.since) for old in ALL} == WITHOUT


@pytest.mark.quick(60)
@pytest.mark.parametrize("old", [old for old in ALL if old.op in CHANGED], ids=lambda old: old.label)
def test_the_bound_tells_meanings_apart(old) -> None:
    """The file read as if it were of operator set 13 gives the same, or an error, or less than the bound."""
    model = old.model()
    try:
        wrong = evaluated(replace(model, opsets={**model.opsets, "": NEWEST}))
    except HwflowError:
        return
    decibels = signal_to_noise(wrong, evaluated(model))
    assert decibels == np.inf or decibels < min(old.decibels, 15)


HEAD = """# Old operator sets

<!-- Written by `python -m tests.quantize.test_old_operators`; do not edit. -->

A model of an older operator set is converted to operator set 13 before it is quantized
([`convert_opset`](onnx.md)). Each operator that hardware maps is here with its versions below 13, in small networks
of one form each: a convolution, the operator, a layer. The golden model at 8 bits was compared with the evaluation of
the *original* file.

- **Right**: the forms whose results are those of the file, with the signal to noise that the test demands; a form read
  as if it were of operator set 13 has less than 15 dB where its meaning changed.
- **Refused**: the forms for which `hwflow quantize` ends with a message that names the node, and the reason.

"""


def page() -> str:
    """The document: what `check` proves of every network."""
    table: dict[str, list[Network]] = {}
    for old in ALL:
        table.setdefault(old.op, []).append(old)
    lines = ["| operator | versions | right | at least | refused |\n", "| --- | --- | --- | --- | --- |\n"]
    refused = sum((old.op, old.form) in REASONS for old in ALL)
    for op in sorted(table):
        versions = sorted({old.since for old in table[op]})
        good = [old for old in table[op] if (op, old.form) not in REASONS]
        forms = list(dict.fromkeys(old.form or "plain" for old in good))
        bad = dict.fromkeys(old.form for old in table[op] if (op, old.form) in REASONS)
        least = f"{int(min(old.decibels for old in good))} dB"
        why = "; ".join(f"{form}: {REASONS[op, form]}" for form in bad)
        lines.append(f"| {op} | {', '.join(map(str, versions))} | {', '.join(forms)} | {least} | {why} |\n")
    count = f"{len(table)} operators, {len(ALL)} networks: {len(ALL) - refused} right, {refused} refused, 0 wrong.\n\n"
    return HEAD + count + "".join(lines)


def test_the_page_is_that_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(), "stale; `python -m tests.quantize.test_old_operators` writes it again"


if __name__ == "__main__":
    for each in ALL:
        check(each)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
