"""Sequences and optionals: operators, feeds, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Model, evaluate
from hwflow.onnx.build import make_graph, make_model, make_node, tensor_type
from hwflow.onnx.errors import ShapeError, TypeMismatch
from hwflow.onnx.model import MapType, OptionalType, SequenceType, Value

F32 = np.float32
A, B, C = F32([1]), F32([2, 3]), F32([4])


def value(name: str, dtype=F32, shape=None) -> Value:
    return Value(name, tensor_type(dtype, shape))


def sequence(name: str, dtype=F32, shape=None) -> Value:
    return Value(name, SequenceType(tensor_type(dtype, shape)))


def model_of(nodes, inputs, *, opset=17, **constants) -> Model:
    return make_model(make_graph(nodes, inputs, [Value("y", None)], constants), opset=opset)


def apply(op: str, *operands, opset=17, **attributes):
    """One node on a sequence and tensors."""
    names = [f"i{k}" if operand is not None else "" for k, operand in enumerate(operands)]
    inputs = [
        sequence(name, (operand or [A])[0].dtype) if isinstance(operand, list) else value(name, operand.dtype)
        for name, operand in zip(names, operands, strict=True) if operand is not None
    ]  # fmt: skip
    model = model_of([make_node(op, names, ["y"], name="n", **attributes)], inputs, opset=opset)
    return evaluate(model, {n: o for n, o in zip(names, operands, strict=True) if o is not None})["y"]


def same(found, expected) -> None:
    assert isinstance(found, list)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def index(number: int) -> np.ndarray:
    return np.array(number, np.int64)


@pytest.mark.parametrize(
    "op, operands, expected",
    [
        ("SequenceInsert", ([A, B], C), [A, B, C]),
        ("SequenceInsert", ([A, B], C, index(0)), [C, A, B]),
        ("SequenceInsert", ([A, B], C, index(-1)), [A, C, B]),
        ("SequenceInsert", ([A, B], C, index(2)), [A, B, C]),
        ("SequenceInsert", ([], C, index(0)), [C]),
        ("SequenceErase", ([A, B, C],), [A, B]),
        ("SequenceErase", ([A, B, C], index(-3)), [B, C]),
        ("SequenceConstruct", (A, B), [A, B]),
        ("SplitToSequence", (B,), [B[:1], B[1:]]),
        ("SplitToSequence", (F32([1, 2, 3]), index(2)), [F32([1, 2]), F32([3])]),
        ("SplitToSequence", (F32([1, 2, 3]), np.array([1, 0, 2])), [F32([1]), F32([]), F32([2, 3])]),
    ],
)  # fmt: skip
def test_operators_that_give_a_sequence(op, operands, expected) -> None:
    same(apply(op, *operands), expected)


def test_operators_that_give_a_tensor() -> None:
    np.testing.assert_array_equal(apply("SequenceAt", [A, B], index(-1)), B)
    length = apply("SequenceLength", [A, B])
    assert (length.dtype, length.shape, int(length)) == (np.int64, (), 2)
    np.testing.assert_array_equal(apply("ConcatFromSequence", [A, B], axis=0), [1, 2, 3])
    np.testing.assert_array_equal(apply("ConcatFromSequence", [A, C], axis=-1, new_axis=1), [[1, 4]])


def test_split_without_the_axis() -> None:
    same(apply("SplitToSequence", np.ones((2, 3), F32), axis=1, keepdims=0), [np.ones(2, F32)] * 3)


def test_empty_sequence() -> None:
    model = model_of(
        [make_node("SequenceEmpty", [], ["e"], dtype=7), make_node("SequenceInsert", ["e", "x"], ["y"])],
        [value("x", np.int64)],
    )
    same(evaluate(model, {"x": index(3)})["y"], [index(3)])


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


def test_identity_of_all_kinds() -> None:
    same(apply("Identity", [A, B]), [A, B])
    optional = Value("o", OptionalType(tensor_type(F32)))
    model = model_of([make_node("Identity", ["o"], ["y"])], [optional])
    np.testing.assert_array_equal(evaluate(model, {"o": B})["y"], B)
    assert evaluate(model, {"o": None})["y"] is None


@pytest.mark.parametrize("content, has", [(B, True), (None, False)])
@pytest.mark.parametrize("opset", [15, 18])
def test_optionals(content, has, opset) -> None:
    optional = Value("o", OptionalType(tensor_type(F32, ("n",))))
    model = model_of([make_node("OptionalHasElement", ["o"], ["y"])], [optional], opset=opset)
    found = evaluate(model, {"o": content})["y"]
    assert (found.dtype, found.shape, bool(found)) == (np.bool_, (), has)


def test_content_of_an_optional() -> None:
    optional = Value("o", OptionalType(tensor_type(F32)))
    model = model_of([make_node("OptionalGetElement", ["o"], ["y"], name="n")], [optional])
    np.testing.assert_array_equal(evaluate(model, {"o": B})["y"], B)
    with pytest.raises(HwflowError) as caught:
        evaluate(model, {"o": None})
    assert str(caught.value) == (
        "graph/node[0] 'n' (OptionalGetElement): the optional must have an element, not none; "
        "test it with OptionalHasElement before"
    )


def test_making_optionals() -> None:
    stated = OptionalType(tensor_type(F32))
    empty = model_of([make_node("Optional", [], ["y"], type=stated)], [])
    assert evaluate(empty, {})["y"] is None
    full = model_of([make_node("Optional", ["x"], ["y"])], [value("x")])
    np.testing.assert_array_equal(evaluate(full, {"x": B})["y"], B)
    with pytest.raises(HwflowError, match="an empty optional must have the attribute 'type', not none"):
        evaluate(model_of([make_node("Optional", [], ["y"])], []), {})


def test_missing_optional_input_since_version_18() -> None:
    model = model_of([make_node("OptionalHasElement", [], ["y"])], [], opset=18)
    assert not evaluate(model, {})["y"]


def test_maps_are_fed_as_dicts() -> None:
    entry = Value("m", MapType(np.dtype(np.int64), tensor_type(F32, ())))
    model = model_of([make_node("Identity", ["m"], ["y"])], [entry])
    with pytest.raises(TypeMismatch, match=r"input 'm' must be a map \(a Python dict\), not float32\[1\]"):
        evaluate(model, {"m": A})
