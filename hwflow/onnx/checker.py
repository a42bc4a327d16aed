"""All rules over one model, and all violations at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hwflow_base.errors import HwflowError

from hwflow.onnx.container.document import Document
from hwflow.onnx.container.writer import write_model
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Model
from hwflow.onnx.rules import (
    attributes,
    functions,
    graphs,
    hardware,
    model,
    names,
    nodes,
    opsets,
    tensors,
    types,
)
from hwflow.onnx.rules.finding import Finding, Rule, Severity
from hwflow.onnx.rules.types import inferred_types
from hwflow.onnx.rules.walk import remembered

#: Every rule.  One function may report under several identifiers of `rules.catalogue`.
RULES: tuple[Rule, ...] = (
    *model.RULES,
    *opsets.RULES,
    *graphs.RULES,
    *names.RULES,
    *nodes.RULES,
    *attributes.RULES,
    *tensors.RULES,
    *types.RULES,
    *functions.RULES,
    model.bindings,
    *hardware.RULES,
)

#: Findings of one rule and code that are listed; of the others only the number is told.
_MOST = 100

#: Warnings that mean: a valid model, but hwflow cannot evaluate it.
NOT_EVALUATED = frozenset({"W-not-evaluated", "W-custom-operator"})

#: Warnings about how an ONNX file is written, which say nothing of one that was made of another format.
OF_THE_FILE = frozenset({"W-model-domain", "W-name"})

_SECTIONS = ("model", "opset_import", "graph", "function", "training_info")
_PARTS = ("", "input", "output", "initializer", "sparse_initializer", "value_info", "node")
_PLACE = re.compile(rf"/({'|'.join(_PARTS[1:])})(?:\[(\d{{1,18}})\]|\b)")


def check(
    source: Model | Document,
    *,
    strict: bool = False,
    types: bool = True,
    most: int = _MOST,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Finding, ...]:
    """Every violated rule, at every place, in the order of the file's parts.

    Violations that real exporters commit are warnings, in strict mode errors.  Of each rule the first `most` places are
    listed and the rest is counted, so that a damaged file gives no endless list.  A `Model` is checked as the file that
    it would become.

    With `types` the types and shapes of all values are inferred in a model that is otherwise without errors, and
    contradictions are errors: operands that do not suit their operator, types that the file states and that are others.
    A model whose inference is beyond the limits has one error that names the limit [LM-02].  `limits` are for a
    `Model`; a `Document` has its own.
    """
    document = source if isinstance(source, Document) else Document(write_model(source), limits=limits)
    findings = list(_bounded(model.texts_readable(document), most))
    if not findings:  # names are compared and searched by every other rule
        with remembered(document):
            findings = [finding for rule in RULES for finding in _bounded(rule(document), most)
                        if document.converted is None or finding.code not in OF_THE_FILE]
    if types and all(finding.severity is not Severity.ERROR for finding in findings):
        findings.extend(_bounded(inferred_types(source, document.limits), most))
    return tuple(_final(finding, strict) for finding in sorted(findings, key=_order))


def _bounded(findings: Iterable[Finding], most: int) -> Iterator[Finding]:
    """The findings of one rule function, at most `most` of a kind, then how many more."""
    count: Counter[tuple[Severity, str, str]] = Counter()
    for finding in findings:
        kind = finding.severity, finding.rule, finding.code
        count[kind] += 1
        if count[kind] <= most:
            yield finding
    for (severity, rule, code), number in count.items():
        if number > most:
            message = f"and {number - most} more places that break this rule"
            yield Finding(severity, rule, "everywhere", message, "mend those above first", code)


def _final(finding: Finding, strict: bool) -> Finding:
    if finding.severity is not Severity.LENIENT:
        return finding
    return replace(finding, severity=Severity.ERROR if strict else Severity.WARNING)


def _order(finding: Finding) -> tuple[int, int, list[tuple[int, int]]]:
    """The place in the file: section, then parts with their numbers.  Equal ones stay in the order of the rules."""
    section = next((i for i, name in enumerate(_SECTIONS) if finding.path.startswith(name)), len(_SECTIONS))
    number = re.match(r"training_info\[(\d{1,18})\]", finding.path)
    places = [(_PARTS.index(part), int(index or 0)) for part, index in _PLACE.findall(finding.path)]
    return section, int(number[1]) if number else 0, places


def require_valid(source: Model | Document, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise HwflowError with everything that keeps hwflow from evaluating the model: errors, operators that it lacks.

    One message, one line each; other warnings do not matter here, nor do types of outputs, which inference finds.
    """
    errors = [finding for finding in check(source, limits=limits) if _prevents_evaluation(finding)]
    if len(errors) == 1:
        raise HwflowError(errors[0].message, errors[0].advice, where=errors[0].path)
    if errors:
        lines = "\n".join(f"  {finding}" for finding in errors)
        raise HwflowError(f"the model must follow the rules of ONNX and of hwflow, not break {len(errors)}:\n{lines}")


def _prevents_evaluation(finding: Finding) -> bool:
    if finding.rule == "GR-17" and finding.path.startswith("graph/output"):
        return False
    return finding.severity is Severity.ERROR or finding.code in NOT_EVALUATED
