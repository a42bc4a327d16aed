"""Element types and types of values: rules TY."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, helper

from hwflow.onnx import TensorType, evaluate, loads
from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.model import SequenceType
from tests.onnx.rules.protos import F, error_of, errors, model, node, value

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
