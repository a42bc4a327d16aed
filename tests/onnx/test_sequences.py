"""Sequences and optionals: feeds, and what is refused; what their operators compute is in forms/whole.py."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate
from hwflow.onnx.build import make_node, tensor_type
from hwflow.onnx.errors import ShapeError, TypeMismatch
from hwflow.onnx.model import MapType, OptionalType, Value
from tests.onnx.models import F32, model_of, sequence, value

A, B, C = F32([1]), F32([2, 3]), F32([4])


def apply(op: str, *operands, opset=17, **attributes):
    """One node on a sequence and tensors."""
    names = [f"i{k}" if operand is not None else "" for k, operand in enumerate(operands)]
    inputs = [
        sequence(name, (operand or [A])[0].dtype) if isinstance(operand, list) else value(name, operand.dtype)
        for name, operand in zip(names, operands, strict=True) if operand is not None
    ]  # fmt: skip
    model = model_of([make_node(op, names, ["y"], name="n", **attributes)], inputs, opset=opset)
    return evaluate(model, {n: o for n, o in zip(names, operands, strict=True) if o is not None})["y"]


def index(number: int) -> np.ndarray:
    return np.array(number, np.int64)


@pytest.mark.parametrize(
    "op, operands, message",
    [
        ("SequenceAt", ([A, B], index(2)), "the position must be -2 to 1, not 2"),
        ("SequenceErase", ([], index(0)), "the position must be inside of the sequence, which is empty, not 0"),
        ("SequenceInsert", ([A], B, index(3)), "the position must be -1 to 0, not 3"),
        ("ConcatFromSequence", ([],), "the sequence must have an element, not none"),
        ("SplitToSequence", (B, np.array([3, -1])), "'split' must be sizes that add up to 2, not [3, -1]"),
        ("SplitToSequence", (B, index(0)), "'split' must be 1 or more, not 0"),
    ],
)  # fmt: skip
def test_refused(op, operands, message) -> None:
    with pytest.raises(HwflowError) as caught:
        apply(op, *operands, **({"axis": 0} if op == "ConcatFromSequence" else {}))
    assert message in str(caught.value)


@pytest.mark.rule("TY-05")
def test_elements_of_a_sequence_are_of_one_type() -> None:
    with pytest.raises(HwflowError, match="the elements of a sequence must be of one type, not float32 and int64"):
        evaluate(
            model_of([make_node("SequenceInsert", ["q", "x"], ["y"])], [Value("q", None), value("x", np.int64)]),
            {"q": [A], "x": index(1)},
        )
    with pytest.raises(TypeMismatch, match=r"element 1 of input 'i0' must be float32 of unknown rank, not int64\[\]"):
        apply("SequenceLength", [A, index(1)])
    with pytest.raises(TypeMismatch, match=r"input 'q' must be a sequence \(a Python list\), not float32\[1\]"):
        evaluate(model_of([make_node("SequenceLength", ["q"], ["y"])], [sequence("q")]), {"q": A})


@pytest.mark.rule("SH-10")
def test_elements_of_a_sequence_and_their_dims() -> None:
    """Numbers must hold for each element.  A name that means several sizes is noted: ONNX's own suite does that."""
    lengths = make_node("SequenceLength", ["q"], ["y"])
    fixed = model_of([lengths], [sequence("q", shape=(1,))])
    with pytest.raises(ShapeError, match=r"element 1 of input 'q' must be float32\[1\], not float32\[2\]"):
        evaluate(fixed, {"q": [A, B]})
    named, notes = model_of([lengths], [sequence("q", shape=("n",))]), []
    assert evaluate(named, {"q": [A, C]}, notes=notes)["y"] == 2
    assert notes == []
    assert evaluate(named, {"q": [A, B]}, notes=notes)["y"] == 2
    assert notes == ["element 1 of input 'q' has 2 for 'n', which is 1 in element 0 of input 'q'"]


def test_identity_of_an_optional() -> None:
    model = model_of([make_node("Identity", ["o"], ["y"])], [Value("o", OptionalType(tensor_type(F32)))])
    np.testing.assert_array_equal(evaluate(model, {"o": B})["y"], B)
    assert evaluate(model, {"o": None})["y"] is None


def test_content_of_an_optional() -> None:
    optional = Value("o", OptionalType(tensor_type(F32)))
    model = model_of([make_node("OptionalGetElement", ["o"], ["y"], name="n")], [optional])
    with pytest.raises(HwflowError) as caught:
        evaluate(model, {"o": None})
    assert str(caught.value) == (
        "graph/node[0] 'n' (OptionalGetElement): the optional must have an element, not none; "
        "test it with OptionalHasElement before"
    )


def test_an_empty_optional_needs_a_type() -> None:
    with pytest.raises(HwflowError, match="an empty optional must have the attribute 'type', not none"):
        evaluate(model_of([make_node("Optional", [], ["y"])], []), {})


def test_maps_are_fed_as_dicts() -> None:
    entry = Value("m", MapType(np.dtype(np.int64), tensor_type(F32, ())))
    model = model_of([make_node("Identity", ["m"], ["y"])], [entry])
    with pytest.raises(TypeMismatch, match=r"input 'm' must be a map \(a Python dict\), not float32\[1\]"):
        evaluate(model, {"m": A})
