"""Element types and types of values: rules TY."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, helper

from hwflow.onnx import TensorType, evaluate, loads
from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.model import SequenceType
from tests.onnx.rules.protos import F, error_of, errors, findings, leniently, model, node, value, weight

I64 = TensorProto.INT64


def typed(proto: TypeProto, *, ir: int = 14, opset: int = 25) -> onnx.ModelProto:
    """A graph with an input of a type that nothing reads."""
    odd = onnx.ValueInfoProto(name="odd", type=proto)
    return model(inputs=[value("x"), odd], ir=ir, opset=opset)


@pytest.mark.rule("TY-01")
def test_element_types() -> None:
    """All of ONNX 1.23, by number, with the IR version that brought each."""
    names = {number: name.lower() for name, number in TensorProto.DataType.items() if number}
    assert {element.code for element in ELEMENT_TYPES} == set(names)
    assert {element.code: element.name for element in ELEMENT_TYPES} == names
    since = {16: 4, 17: 9, 18: 9, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 14, 28: 14}
    assert {element.code: element.since for element in ELEMENT_TYPES} == {code: since.get(code, 1) for code in names}
    for code in names:
        assert errors(typed(helper.make_tensor_type_proto(code, [2]), opset=28)) == []


@pytest.mark.rule("TY-02")
@pytest.mark.parametrize("code, dtype", [(F, np.float32), (TensorProto.DOUBLE, np.float64), (10, np.float16)])
def test_floats_follow_ieee_754(code: int, dtype: type) -> None:
    special = np.array([np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).smallest_subnormal], dtype)
    wide = [value(name, code, (5,)) for name in ("x", "y")]
    proto = model(node("Add", ("x", "x")), inputs=wide[:1], outputs=wide[1:])
    with np.errstate(all="ignore"):
        wanted = special + special
    found = evaluate(loads(proto.SerializeToString()), {"x": special})["y"]
    assert found.tobytes() == wanted.astype(dtype).tobytes()


@pytest.mark.rule("TY-04")
def test_element_types_of_tensors_exist() -> None:
    message = "the element type must be one of 1 to 28, not 99; export the model again [TY-04]"
    assert message in error_of(typed(helper.make_tensor_type_proto(99, [2])))
    nested = helper.make_sequence_type_proto(helper.make_tensor_type_proto(99, [2]))
    assert error_of(typed(nested)) == f"graph/input[1] 'odd': {message}"
    assert errors(typed(helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [2])))) == []


@pytest.mark.rule("TY-04")
def test_an_element_type_that_is_left_out_inside_of_the_graph() -> None:
    proto = model(node(outputs=("t",)), node(inputs=("t",)))
    proto.graph.value_info.append(value("t", 0, (2,)))
    assert leniently(proto) == (
        "graph/value_info[0] 't': the element type must be one of 1 to 28, not 0; the type counts as not stated; "
        "export the model again [TY-04 W-no-element-type]"
    )


@pytest.mark.rule("TY-05")
def test_sequences() -> None:
    without = TypeProto(sequence_type=TypeProto.Sequence())
    assert error_of(typed(without)) == (
        "graph/input[1] 'odd': the type of a sequence must state its element type, not leave it out; "
        "export the model again [TY-05]"
    )
    proto = typed(helper.make_sequence_type_proto(helper.make_tensor_type_proto(I64, ["n"])))
    assert errors(proto) == []
    read = loads(proto.SerializeToString()).graph.inputs[1].type
    assert read == SequenceType(TensorType(np.dtype(np.int64), ("n",)))


@pytest.mark.rule("TY-06")
@pytest.mark.parametrize(
    "key, right", [(I64, True), (8, True), (2, True), (F, False), (9, False), (0, False), (99, False)]
)
def test_keys_of_maps(key: int, right: bool) -> None:
    proto = typed(helper.make_map_type_proto(key, helper.make_tensor_type_proto(F, [])))
    found = [text for text in errors(proto) if "[TY-06]" in text]
    assert bool(found) is not right
    if found:
        assert "the key type of a map must be an integer type or string, not " in found[0]


@pytest.mark.rule("TY-06")
def test_values_of_maps() -> None:
    without = TypeProto(map_type=TypeProto.Map(key_type=I64))
    assert "the type of a map must state its value type, not leave it out" in error_of(typed(without))


@pytest.mark.rule("TY-07")
def test_optional_sparse_and_opaque_types() -> None:
    tensor = helper.make_tensor_type_proto(F, [2])
    for kind in (
        helper.make_optional_type_proto(tensor),
        helper.make_sparse_tensor_type_proto(F, [2]),
        TypeProto(opaque_type=TypeProto.Opaque(domain="com.acme", name="Image")),
    ):
        assert errors(typed(kind)) == []
    without = TypeProto(optional_type=TypeProto.Optional())
    assert "the type of an optional must state its element type, not leave it out" in error_of(typed(without))


@pytest.mark.rule("TY-08")
@pytest.mark.parametrize(
    "proto, what, needed",
    [
        (lambda: helper.make_tensor_type_proto(TensorProto.INT4, [2]), "the element type int4", 10),
        (lambda: helper.make_tensor_type_proto(TensorProto.BFLOAT16, [2]), "the element type bfloat16", 4),
        (lambda: helper.make_tensor_type_proto(TensorProto.FLOAT6E2M3, [2]), "the element type float6e2m3", 14),
        (lambda: helper.make_optional_type_proto(helper.make_tensor_type_proto(F, [2])), "the type optional", 8),
        (lambda: helper.make_sparse_tensor_type_proto(F, [2]), "the type sparse_tensor", 8),
    ],
)  # fmt: skip
def test_types_that_are_newer_than_the_ir_version(proto: Callable[[], TypeProto], what: str, needed: int) -> None:
    told = [f for f in findings(typed(proto(), ir=needed - 1, opset=8)) if f.rule == "TY-08"]
    assert [f.code for f in told] == ["W-ir-too-old"]
    assert told[0].message == (
        f"{what} must come with IR version {needed} or later, not {needed - 1}; it is read nevertheless"
    )
    assert not [f for f in findings(typed(proto(), ir=needed, opset=8)) if f.rule == "TY-08"]


@pytest.mark.rule("TY-08")
def test_tensors_that_are_newer_than_the_ir_version() -> None:
    small = weight("w", TensorProto.INT4, (2,), [1, 2])
    assert "the element type int4 must come with IR version 10" in leniently(model(initializers=[small], ir=9))
    assert findings(model(initializers=[small], ir=10)) == ()


@pytest.mark.rule("TY-09")
def test_a_scalar_is_a_tensor_of_rank_0() -> None:
    scalars = [value(name, F, ()) for name in ("x", "y")]
    scalar = loads(model(inputs=scalars[:1], outputs=scalars[1:]).SerializeToString())
    assert scalar.graph.inputs[0].type == TensorType(np.dtype(np.float32), ())
    found = evaluate(scalar, {"x": np.array(-1, np.float32)})["y"]
    assert isinstance(found, np.ndarray)
    assert found.shape == ()
    vector = loads(model(inputs=[value("x", F, (1,))], outputs=[value("y", F, (1,))]).SerializeToString())
    assert vector.graph.inputs[0].type != scalar.graph.inputs[0].type
