"""Inferred types against onnx.shape_inference: nothing may contradict, and little may be known less."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import shape_inference
from onnx.backend.test.case.node import collect_testcases

from hwflow.onnx import dumps, loads
from hwflow.onnx.inference import infer_types
from hwflow.onnx.model import OptionalType, SequenceType, TensorType, ValueType
from hwflow.onnx.onnx_pb2 import TypeProto
from hwflow.onnx.types import value_type
from tests.onnx.forms.corpus import DOMAINS, corpus
from tests.onnx.forms.form import Form, removed

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

#: How much is left open of the sizes of the inputs.
OPENED = ("none", "symbols", "sizes")
#: Where both are right: the oracle takes a name that the body states for its output, which the body makes of its input.
OTHER_NAME = {"test_sequence_map_identity_1_sequence"}


@functools.cache
def node_cases() -> dict[str, bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases warn of their own numbers when they are first made
        cases = collect_testcases(None)
    return {case.name: case.model.SerializeToString() for case in cases if case.model is not None}


def without_types(data: bytes, opened: str) -> onnx.ModelProto:
    """The model without statements on anything but its inputs, and these opened: "none", "symbols" or "sizes"."""
    proto = onnx.ModelProto.FromString(data)
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.ClearField("type")
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim if opened != "none" else ():
            if dim.dim_value > 1:
                name = f"d{dim.dim_value}"
                dim.Clear()
                if opened == "symbols":
                    dim.dim_param = name
    return proto


def element(type_: ValueType | None) -> ValueType | None:
    while isinstance(type_, (SequenceType, OptionalType)):
        type_ = type_.element
    return type_


def compared(name: str, proto: onnx.ModelProto, counts: Counter[str]) -> Iterator[str]:
    """What contradicts; `counts` learns who knows more of how many values."""
    source = loads(proto.SerializeToString())
    # an output without type has none in the file either
    outputs = tuple(replace(value, type=None) for value in source.graph.outputs)
    found = infer_types(replace(source, graph=replace(source.graph, outputs=outputs)))
    if found.findings:
        yield f"{name}: {found.findings[0]}"
    try:
        oracle = shape_inference.infer_shapes(proto, data_prop=True)
    except shape_inference.InferenceError:
        return
    stated = {v.name: value_type(TypeProto.FromString(v.type.SerializeToString()), "it")
              for v in (*oracle.graph.value_info, *oracle.graph.output)}  # fmt: skip
    for node in source.graph.nodes:
        for output in filter(None, node.outputs):
            ours, theirs = element(found[output]), element(stated.get(output))
            if ours is None or theirs is None:
                counts["same" if ours is theirs else "less" if ours is None else "more"] += 1
            elif problem := contradiction(ours, theirs):
                if name not in OTHER_NAME:
                    yield f"{name}/{output} ({node.op_type}): {problem}"
            else:
                counts[more_or_less(ours, theirs)] += 1


def dims(type_: TensorType) -> list[int | str | None]:
    """The oracle makes names of its own up; they say nothing."""
    return [None if isinstance(d, str) and d.startswith("unk__") else d for d in type_.shape or ()]


def contradiction(ours: ValueType, theirs: ValueType) -> str:
    if type(ours) is not type(theirs):
        return f"{ours} and {theirs}"
    if not isinstance(ours, TensorType) or not isinstance(theirs, TensorType):
        return ""
    if ours.dtype != theirs.dtype:
        return f"{ours.dtype} and {theirs.dtype}"
    if ours.shape is None or theirs.shape is None:
        return ""
    pairs = [] if len(ours.shape) != len(theirs.shape) else list(zip(dims(ours), dims(theirs), strict=True))
    fits = len(ours.shape) == len(theirs.shape) and all(a == b or type(a) is not type(b) for a, b in pairs)
    return "" if fits else f"{ours.shape} and {theirs.shape}"


def more_or_less(ours: ValueType, theirs: ValueType) -> str:
    if not isinstance(ours, TensorType) or not isinstance(theirs, TensorType):
        return "same"
    if ours.shape is None or theirs.shape is None:
        return "same" if ours.shape == theirs.shape else "less" if ours.shape is None else "more"
    rank = {int: 2, str: 1}
    steps = {rank.get(type(a), 0) - rank.get(type(b), 0) for a, b in zip(dims(ours), dims(theirs), strict=True)}
    return "more" if max(steps, default=0) > 0 else "less" if min(steps, default=0) < 0 else "same"


def apart(form: Form) -> bool:
    """Where onnx infers what no runtime makes: windows in the padding behind, the type of the input for a scale's."""
    ceiled = "ceil_mode" in form.model.graph.nodes[0].attributes and form.opset < 22
    return ceiled or form.op == "RMSNormalization"


def test_forms_of_operators() -> None:
    """Every version of every operator, every second form of it."""
    counts: Counter[str] = Counter()
    forms = [form for form in corpus() if form.domain in DOMAINS and not removed(form) and not apart(form)][::2]
    problems = [p for form in forms for p in compared(form.label, without_types(dumps(form.model), "none"), counts)]
    assert problems == []
    assert counts["less"] == 0
    assert counts["more"] > 0.05 * counts.total()


@pytest.mark.slow
@pytest.mark.parametrize("opened", OPENED)
def test_cases_of_single_nodes(opened: str) -> None:
    """Operators as the conformance suite calls them: with their sizes, with names for them, and with unknown ones."""
    counts: Counter[str] = Counter()
    cases = sorted(node_cases().items())
    problems = [p for name, data in cases for p in compared(name, without_types(data, opened), counts)]
    assert problems == []
    print(f"{opened}: {dict(counts)}")
    assert counts["more"] > counts["less"] / 2
    assert counts["less"] < 0.1 * counts.total()


@pytest.mark.parametrize("kind", ["light", "pytorch-converted", "pytorch-operator", "simple"])
def test_models_of_the_suite(kind: str) -> None:
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for file in sorted(DATA.glob(f"{kind}/**/*.onnx")):
        problems += compared(file.parent.name, without_types(file.read_bytes(), "none"), counts)
    assert problems == []
    assert counts.total() > 0
    assert counts["less"] <= 0.03 * counts.total()


def test_third_party_models(models_dir: Path) -> None:
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for file in sorted((models_dir / "models").glob("*.onnx")):
        try:
            problems += compared(file.name, without_types(file.read_bytes(), "none"), counts)
        except HwflowError as error:
            problems.append(f"{file.name}: {error}")
    assert problems == []
    assert counts["more"] > 10 * counts["less"]
