"""Types of values: the notation of operator schemas, and what is no type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
import pytest

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.model import (
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)
from hwflow.onnx.schemas import SCHEMAS
from hwflow.onnx.types import notation, type_proto, value_type

FLOAT = TensorType(np.dtype(np.float32), ("n", 3))
INT64 = np.dtype(np.int64)

NOTATIONS: dict[str, ValueType | None] = {
    "tensor(float)": FLOAT,
    "tensor(string)": TensorType(np.dtype(object), None),
    "tensor(float8e4m3fn)": TensorType(np.dtype(ml_dtypes.float8_e4m3fn), ()),
    "sparse_tensor(int64)": SparseTensorType(INT64, (2,)),
    "seq(tensor(float))": SequenceType(FLOAT),
    "seq(?)": SequenceType(None),
    "optional(seq(tensor(float)))": OptionalType(SequenceType(FLOAT)),
    "map(int64,float)": MapType(INT64, FLOAT),
    "seq(map(string,float))": SequenceType(MapType(np.dtype(object), FLOAT)),
    "map(int64,seq(tensor(float)))": MapType(INT64, SequenceType(FLOAT)),
    "opaque(com.acme,thing)": OpaqueType("com.acme", "thing"),
    "?": None,
}


@pytest.mark.rule("TY-05")
@pytest.mark.rule("TY-06")
@pytest.mark.rule("TY-07")
@pytest.mark.parametrize(("text", "kind"), NOTATIONS.items())
def test_notation_and_message(text, kind) -> None:
    assert notation(kind) == text
    assert value_type(type_proto(kind), "x") == kind


@pytest.mark.rule("TY-01")
def test_every_type_of_the_schemas_can_be_written() -> None:
    """Tensor types of all operators come back as the notation of a tensor type."""
    stated = {kind for versions in SCHEMAS.values() for s in versions for kinds in s.types.values() for kind in kinds}
    tensors = {kind for kind in stated if kind.startswith("tensor(")}
    codes = onnx.TensorProto.DataType.values()
    ours = {notation(value_type(pb_type(oh.make_tensor_type_proto(code, [])), "x")) for code in codes if code}
    assert len(ours) == 28
    assert tensors <= ours


def pb_type(kind: onnx.TypeProto) -> pb.TypeProto:
    return pb.TypeProto.FromString(kind.SerializeToString())


@pytest.mark.rule("TY-09")
def test_scalar_and_unknown_rank() -> None:
    assert value_type(pb_type(oh.make_tensor_type_proto(1, [])), "x") == TensorType(np.dtype(np.float32), ())
    assert value_type(pb_type(oh.make_tensor_type_proto(1, None)), "x") == TensorType(np.dtype(np.float32), None)
    assert type_proto(TensorType(INT64, ())).tensor_type.HasField("shape")
    assert not type_proto(TensorType(INT64, None)).tensor_type.HasField("shape")


def test_unknown_dims() -> None:
    kind = pb_type(oh.make_tensor_type_proto(1, [-1, None, "", 0]))
    assert value_type(kind, "x") == TensorType(np.dtype(np.float32), (None, None, None, 0))


@pytest.mark.rule("TY-04")
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (oh.make_tensor_type_proto(99, []), "x"),
        (oh.make_sequence_type_proto(oh.make_tensor_type_proto(99, [])), "x"),
        (oh.make_sparse_tensor_type_proto(29, []), "x"),
        (oh.make_map_type_proto(0, oh.make_tensor_type_proto(1, [])), "the keys of x"),
    ],
)
def test_element_types_that_do_not_exist(kind, what) -> None:
    with pytest.raises(InvalidModel, match=f"the element type of {what} must be one of ONNX's 28, not number"):
        value_type(pb_type(kind), "x")


@pytest.mark.rule("LM-01")
def test_types_nested_too_deep() -> None:
    kind: ValueType = FLOAT
    for _ in range(60):
        kind = SequenceType(kind)
    with pytest.raises(LimitError, match="must not be nested deeper than 48"):
        type_proto(kind)


def test_numpy_types_that_onnx_does_not_have() -> None:
    with pytest.raises(InvalidModel, match="must be one that ONNX has, not datetime64"):
        type_proto(TensorType(np.dtype("datetime64[s]"), ()))
