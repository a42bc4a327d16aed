"""The section of docs/onnx-conformance.md on converters between operator sets: hwflow's and that of onnx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.checker
from hwflow_base.errors import HwflowError

import hwflow.onnx
from bench.sections import Bench, table
from hwflow.onnx import Model, TensorType
from hwflow.onnx.errors import ConversionError
from tests.onnx.forms.corpus import corpus
from tests.onnx.forms.form import Form, answers, same
from tests.onnx.forms.official import OfficialConverter
from tests.onnx.oracle import ChildOracle, Refused

#: To these versions of the default operator set, from older ones and from newer ones.
UP, DOWN = (13, 21, 28), (21, 13, 9)
OUTCOMES = ("right", "refused", "wrong")


def converters(bench: Bench) -> str:
    """Both converters over all forms of all versions of all operators, evaluated."""
    counts: dict[str, Counter[tuple[str, str]]] = {}
    wrong: dict[str, set[str]] = {}
    with ChildOracle() as oracle, OfficialConverter() as official:
        for form in corpus():
            if form.domain:
                continue  # the official converter has the default domain only
            wanted = [np.asarray(a) if isinstance(a, np.generic) else a for a in answers(form, oracle)]
            for target, way in _targets(form.opset):
                ours = _ours(form, target, wanted)
                theirs = _theirs(form, target, wanted, official, oracle)
                counts.setdefault(way, Counter())[ours, theirs] += 1
                if ours == "wrong":
                    bench.failures.append(f"{form.label} to {target} is wrong")
                if theirs == "wrong":
                    wrong.setdefault(way, set()).add(f"{form.op} {form.pair[2]}")
    return "\n\n".join([_counted(counts), *_listed(wrong)])


def _targets(opset: int) -> Iterable[tuple[int, str]]:
    yield from ((target, f"up to {target}") for target in UP if opset < target)
    yield from ((target, f"down to {target}") for target in DOWN if opset > target)


def _outcome(model: Model, form: Form, wanted: list[Any]) -> str:
    try:
        found = list(hwflow.onnx.evaluate(model, form.feeds).values())
    except HwflowError:
        return "wrong"
    apart = len(found) != len(wanted) or any(same(a, b, form) for a, b in zip(found, wanted, strict=True))
    return "wrong" if apart else "right"


def _ours(form: Form, target: int, wanted: list[Any]) -> str:
    try:
        return _outcome(hwflow.onnx.convert_opset(form.model, target), form, wanted)
    except ConversionError:
        return "refused"


def _theirs(form: Form, target: int, wanted: list[Any], official: OfficialConverter, oracle: ChildOracle) -> str:
    """Wrong is what onnx's own checker refuses, and what neither hwflow nor onnxruntime evaluates to the answer."""
    outputs = tuple(
        replace(value, type=TensorType(array.dtype, array.shape)) if isinstance(array, np.ndarray) else value
        for value, array in zip(form.model.graph.outputs, wanted, strict=True)
    )
    model = replace(form.model, graph=replace(form.model.graph, outputs=outputs))
    given = hwflow.onnx.dumps(model)
    made = official.convert(given, target)
    if isinstance(made, str):
        return "refused"
    try:
        read = hwflow.onnx.loads(made)
    except HwflowError:
        return "wrong"
    if read.opsets.get("") != target:
        return "refused"  # it gives back a model of another operator set
    if _valid(given) and not _valid(made):
        return "wrong"
    if _outcome(read, form, wanted) == "right":
        return "right"
    try:
        found = oracle.run(read, form.feeds)
    except Refused:
        return "wrong"
    return "wrong" if any(same(a, b, form) for a, b in zip(found, wanted, strict=True)) else "right"


def _valid(model: bytes) -> bool:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


def _counted(counts: dict[str, Counter[tuple[str, str]]]) -> str:
    columns = ("conversion", "models", *(f"hwflow {a}, onnx {b}" for a in OUTCOMES for b in OUTCOMES))
    rows = []
    for way in (*(f"up to {n}" for n in UP), *(f"down to {n}" for n in DOWN)):
        found = counts.get(way, Counter())
        rows.append((way, found.total(), *(found[a, b] or "" for a in OUTCOMES for b in OUTCOMES)))
    return table(columns, rows)


def _listed(wrong: dict[str, set[str]]) -> Iterable[str]:
    for way, names in wrong.items():
        operators: dict[str, list[str]] = {}
        for name in sorted(names, key=lambda n: (n.split()[0], int(n.split()[1]))):
            operator, version = name.split()
            operators.setdefault(operator, []).append(version)
        listed = ", ".join(f"{operator} {' '.join(versions)}" for operator, versions in operators.items())
        yield f"Forms that onnx.version_converter gets wrong, {way} (operator and versions): {listed}."
