"""A small model of one operator in one version, what to feed, and the answer of somebody else.

The answer is onnxruntime's or onnx.reference's where they run the version, else it stands beside the model, made with
numpy from the text of the version.  hwflow is never asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx.reference

import hwflow.onnx
from hwflow.onnx import Model
from hwflow.onnx.schemas import find_schema
from tests.onnx.neural import Case
from tests.onnx.oracle import ChildOracle, Refused

#: Attributes of first versions that change nothing in what is computed, and that later versions do not have.
_WITHOUT_MEANING = ("output_sequence", "consumed_inputs")


class NoOracle(Exception):
    """Neither onnxruntime nor onnx.reference runs the model."""


@dataclass(frozen=True)
class Form:
    """`expected` is the answer, one entry per output, or None where an oracle is asked.

    `asked` is a model of the same meaning for the oracle, where it does not run this version.
    """

    label: str
    domain: str
    op: str
    opset: int
    model: Model
    feeds: Mapping[str, Any]
    expected: Sequence[Any] | None = None
    tolerance: float = 2e-5
    steps: int = 0
    asked: tuple[Model, Mapping[str, Any]] | None = None

    @property
    def pair(self) -> tuple[str, str, int]:
        """Domain, operator and the version that the operator set has."""
        schema = find_schema(self.domain, self.op, self.opset)
        assert schema is not None
        return self.domain, self.op, schema.since

    def renamed(self, label: str) -> Form:
        return replace(self, label=label)


def form_of(case: Case) -> Form:
    """The form of a case."""
    model, feeds = case.model()
    expected = case.expected
    if expected is not None and not isinstance(expected, (list, tuple)):
        expected = [expected]
    form = Form(case.label, case.domain, case.op, case.opset, model, feeds, expected, case.tolerance, case.steps)
    if not case.like:
        return form
    later = {key: value for key, value in case.attributes.items() if key not in _WITHOUT_MEANING}
    return replace(form, asked=replace(case, opset=case.like, attributes=later).model())


def answers(form: Form, oracle: ChildOracle) -> list[Any]:
    """The outputs that the original model must give."""
    if form.expected is not None:
        return list(form.expected)
    model, feeds = form.asked or (form.model, form.feeds)
    try:
        return oracle.run(model, feeds)
    except Refused as refused:
        try:
            with np.errstate(all="ignore"):
                return list(onnx.reference.ReferenceEvaluator(hwflow.onnx.dumps(model)).run(None, dict(feeds)))
        except Exception as error:  # whatever it is: there is no answer
            raise NoOracle(f"{form.label}: {refused}; {type(error).__name__}: {error}") from error


def same(found: Any, wanted: Any, form: Form) -> str:
    """Empty where both agree, else how they differ."""
    if wanted is None or found is None:
        return "" if wanted is None and found is None else f"{found!r} for {wanted!r}"
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{found!r} for {wanted!r}"
        return next(filter(None, (same(a, b, form) for a, b in zip(found, wanted, strict=True))), "")
    a, b = np.asarray(found), np.asarray(wanted)
    if a.dtype.kind in "OUT" and b.dtype.kind in "OUT":
        return "" if a.tolist() == b.tolist() else f"{a.tolist()} for {b.tolist()}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
    if a.dtype.kind in "iub":
        apart = np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0)
        return "" if apart <= form.steps else f"differs by {apart}"
    kind = a.dtype if a.dtype.kind != "c" else np.dtype(np.float32)
    tolerance = max(form.tolerance, 4 * float(ml_dtypes.finfo(kind).eps) if kind.itemsize < 4 else 0)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    scale = max(1.0, float(np.abs(b[np.isfinite(b)].astype(wide)).max(initial=0)))
    near = np.isclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    return "" if near.all() else f"{int((~near).sum())} of {near.size} elements differ"
