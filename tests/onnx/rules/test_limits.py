"""Limits of the loader and of the evaluation: rules LM.  The hostile files test them in processes of their own."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow.onnx import check, dumps, evaluate, loads
from hwflow.onnx.container.files import read_bytes
from hwflow.onnx.errors import FormatError, LimitError
from hwflow.onnx.limits import Limits
from tests.onnx.hostile_models import GOOD, deep, deep_graphs, deep_type, field, varint
from tests.onnx.hostile_values import doubling, forever
from tests.onnx.rules.protos import errors, findings, model, warned


@pytest.mark.rule("LM-01")
def test_nesting() -> None:
    """protobuf ends it at 100 messages, which is 32 graphs; nothing in hwflow is recursive by more than that."""
    assert errors(deep(10)) == []
    assert errors(deep(31)) == []
    for data in (deep_graphs(34), deep_type(100)):
        with pytest.raises(LimitError, match="must be nested at most 100 messages"):
            read_bytes(data)
    read_bytes(deep_type(40))


@pytest.mark.rule("LM-02")
@pytest.mark.parametrize(
    "limits, text",
    [
        (Limits(iterations=10), "at most 10 iterations"),
        (Limits(nodes=20), "nodes"),
        (Limits(seconds=0.05), "seconds"),
    ],
)
def test_an_evaluation_ends(limits: Limits, text: str) -> None:
    with pytest.raises(LimitError, match=text):
        evaluate(loads(forever().SerializeToString()), {"x": np.zeros(2, np.float32)}, limits=limits)


@pytest.mark.rule("LM-02")
def test_memory_is_counted_before_it_is_taken() -> None:
    growing = loads(doubling("Concat", 20, axis=0).SerializeToString())
    x = np.zeros(2, np.float32)
    assert evaluate(growing, {"x": x})["y"].size == 1 << 22
    for limits in (Limits(tensor_bytes=1 << 20), Limits(total_bytes=1 << 20)):
        with pytest.raises(LimitError, match="_bytes"):
            evaluate(growing, {"x": x}, limits=limits)


@pytest.mark.rule("LM-03")
def test_unknown_fields_are_kept_and_told() -> None:
    strange = GOOD + field(999, b"later") + field(7, field(998, b"inside"))
    found = [f for f in check(read_bytes(strange)) if f.rule == "LM-03"]
    assert [f.code for f in found] == ["W-unknown-field"] * 2
    assert {f.message for f in found} == {
        "the fields of ModelProto should be those of ONNX with IR version 14, not number 999",
        "the fields of GraphProto should be those of ONNX with IR version 14, not number 998",
    }
    assert dumps(loads(strange)).count(b"later") == 1
    assert findings(model()) == ()
    assert "W-unknown-field" in warned(type(model()).FromString(GOOD + field(999, b"later")))


@pytest.mark.rule("LM-03")
@pytest.mark.parametrize("tail", [b"\0", b"\0\0\0", b"\x07", varint(7 << 3 | 2) + b"\xff\xff\xff\xff\x07"])
def test_garbage_at_the_end(tail: bytes) -> None:
    with pytest.raises(FormatError):
        read_bytes(GOOD + tail)
