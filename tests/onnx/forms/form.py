"""A small model of one operator in one version, what to feed, and the answer of somebody else.

The answer is onnxruntime's or onnx.reference's where they run the version, else it stands beside the model, made with
numpy from the text of the version.  hwflow is never asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx.reference

import hwflow.onnx
from hwflow.onnx import Model
from hwflow.onnx.build import Builder, make_node
from hwflow.onnx.ops import find_operator
from hwflow.onnx.schemas import find_schema
from tests.onnx.oracle import ChildOracle, Refused

#: Attributes of first versions that change nothing in what is computed, and that later versions do not have.
_WITHOUT_MEANING = ("output_sequence", "consumed_inputs")


def draw(*shape: int, seed: int = 0, low: float | None = None) -> np.ndarray:
    """Normal float32 numbers; with `low`, even ones from there to one more."""
    rng = np.random.default_rng((seed, *shape))
    return (rng.standard_normal(shape) if low is None else low + rng.random(shape)).astype(np.float32)


def whole(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    """Any numbers of an integer type."""
    limits = np.iinfo(dtype)
    return np.random.default_rng((seed, *shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def real(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def number(value: float, dtype: Any = np.float32) -> np.ndarray:
    """A scalar."""
    return np.array(value, dtype)


def words(*texts: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    return np.array(texts, np.object_).reshape(shape or len(texts))


@dataclass(frozen=True)
class Case:
    """One node; `outputs` are how many it has, or which of them are named; `expected` stands in for the oracle."""

    op: str
    opset: int
    inputs: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int | tuple[bool, ...] = 1
    expected: Any = None
    domain: str = ""
    tolerance: float = 2e-5
    ulps: int = 0  # in place of the tolerance: units in the last place of the output's type
    steps: int = 0  # by how much integers may differ
    own: bool = False  # onnxruntime gives another answer than the text of the operator
    like: int = 0  # a later version of the same meaning, which the oracle has
    asked: dict[str, Any] = field(default_factory=dict)  # fields of a case of the same meaning for the oracle
    constants: tuple[int, ...] = ()  # inputs that are initializers, besides those whose elements decide a shape

    @property
    def label(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}-{shown}"[:90]

    def model(self) -> tuple[Model, dict[str, np.ndarray]]:
        """The model, and what to feed: inputs whose elements decide a shape are initializers."""
        operator = find_operator(self.domain, self.op, self.opset)
        deciding = () if operator is None else operator.constant
        b, feeds, names = Builder(), dict[str, np.ndarray](), list[str]()
        for i, array in enumerate(self.inputs):
            if array is None:
                names.append("")
            elif i in deciding or i in self.constants:
                names.append(b.constant(f"c{i}", array))
            else:
                names.append(b.input(f"x{i}", array.dtype, array.shape))
                feeds[names[-1]] = array
        named = (True,) * self.outputs if isinstance(self.outputs, int) else self.outputs
        wanted = [f"y{i}" if name else "" for i, name in enumerate(named)]
        b._nodes.append(make_node(self.op, names, wanted, name="n", domain=self.domain, **self.attributes))
        for name in filter(None, wanted):
            b.output(name)
        if self.domain:
            return b.model(opsets={self.domain: self.opset}, ir_version=8), feeds
        return b.model(opset=self.opset, ir_version=6 if self.opset < 13 else 10), feeds


def case(op: str, opset: int, *inputs: Any, attributes: dict[str, Any] | None = None, **others: Any) -> Case:
    """Keywords that are no fields of a Case are attributes."""
    fields = {key: others.pop(key) for key in tuple(others) if key in Case.__dataclass_fields__}
    return Case(op, opset, inputs, {**(attributes or {}), **others}, **fields)


def evaluated(one: Case) -> list[np.ndarray]:
    """The named outputs, after a look that their types are those inferred."""
    model, feeds = one.model()
    found = hwflow.onnx.evaluate(model, feeds)
    types = hwflow.onnx.infer(model).graph.types
    for name, array in found.items():
        assert (types[name].dtype, types[name].shape) == (array.dtype, array.shape), f"inferred type of {name}"
    return list(found.values())


def error_of(one: Case) -> str:
    """The message with which evaluation refuses the node, without its name in front."""
    model, feeds = one.model()
    try:
        hwflow.onnx.evaluate(model, feeds)
    except hwflow.HwflowError as error:
        text = str(error)
        assert text.startswith(f"graph/node[0] 'n' ({one.op}): "), text
        return text.split(": ", 1)[1]
    raise AssertionError("the node must be refused")


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
    ulps: int = 0
    steps: int = 0
    own: bool = False
    asked: tuple[Model, Mapping[str, Any]] | None = None

    @property
    def pair(self) -> tuple[str, str, int]:
        """Domain, operator and the version that the operator set has."""
        schema = find_schema(self.domain, self.op, self.opset)
        return self.domain, self.op, self.opset if schema is None else schema.since

    def renamed(self, label: str) -> Form:
        return replace(self, label=label)


def form_of(one: Case) -> Form:
    """The form of a case."""
    model, feeds = one.model()
    expected = one.expected
    if expected is not None and not isinstance(expected, (list, tuple)):
        expected = [expected]
    form = Form(one.label, one.domain, one.op, one.opset, model, feeds, expected, one.tolerance, one.ulps, one.steps,
                one.own)  # fmt: skip
    if not one.like and not one.asked:
        return form
    later = {key: value for key, value in one.attributes.items() if key not in _WITHOUT_MEANING}
    asked = replace(one, **{"opset": one.like or one.opset, "attributes": later, **one.asked})
    return replace(form, asked=asked.model())


def removed(form: Form) -> bool:
    """A version that took the operator away, or one that no model may use: it can only be converted."""
    schema = find_schema(form.domain, form.op, form.opset)
    return schema is not None and schema.deprecated


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
    """Empty where both agree, else how they differ.  Types of less than 16 bits are equal, element by element."""
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
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    scale = max(1.0, float(np.abs(b[np.isfinite(b.astype(wide))].astype(wide)).max(initial=0)))
    relative, absolute = tolerances(form, a.dtype, scale)
    near = np.isclose(a.astype(wide), b.astype(wide), rtol=relative, atol=absolute, equal_nan=True)
    return "" if near.all() else f"{int((~near).sum())} of {near.size} elements differ"


def tolerances(form: Form, dtype: np.dtype[Any], scale: float) -> tuple[float, float]:
    """How far elements may be apart, in parts of themselves and in numbers; `scale` is the size of the largest."""
    if dtype.itemsize == 1:
        return 0.0, 0.0
    epsilon = float(ml_dtypes.finfo(dtype if dtype.kind != "c" else np.dtype(np.float32)).eps)
    if form.ulps:
        return form.ulps * epsilon, form.ulps * epsilon
    relative = max(form.tolerance, 4 * epsilon if dtype.itemsize < 4 else 0)
    return relative, relative * scale
