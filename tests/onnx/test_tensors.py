"""Tensors: every element type in both forms, and the exact message for each damaged one."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from hwflow.onnx import onnx_pb2
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.tensors import decode_sparse, decode_tensor, encode_tensor
from hwflow.onnx.dtypes import ELEMENT_TYPES, element_type_of
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import SparseTensor


def ours(tensor: onnx.TensorProto) -> onnx_pb2.TensorProto:
    return onnx_pb2.TensorProto.FromString(tensor.SerializeToString())


def decode(tensor: onnx.TensorProto) -> np.ndarray:
    return decode_tensor(ours(tensor), "initializer 'w'")


def sample(entry) -> np.ndarray:
    """Three by three elements of a type: an odd number, so that packed types have a byte half full."""
    if entry.dtype.kind == "O":
        return np.array([["a", "", "ü"]] * 3, object)
    if entry.dtype.kind == "b":
        return np.array([[True, False, True]] * 3)
    if entry.bits < 8 and "int" in entry.dtype.name:
        return np.array([[-2, -1, 0], [1, 0, -1], [1, 1, -2]]).astype(entry.dtype)
    return np.array([[4, 1, 2], [3, 4, 0.5], [1, 1, 2]]).astype(entry.dtype)


@pytest.mark.rule("TY-01")
def test_element_types_are_those_of_onnx() -> None:
    expected = {v.number: v.name.lower() for v in onnx.TensorProto.DESCRIPTOR.enum_types_by_name["DataType"].values}
    del expected[0]
    assert {e.code: e.name for e in ELEMENT_TYPES} == expected
    for entry in ELEMENT_TYPES:
        assert onnx.helper.tensor_dtype_to_np_dtype(entry.code) == entry.dtype


@pytest.mark.rule("TD-07")
@pytest.mark.rule("TD-08")
@pytest.mark.parametrize("entry", ELEMENT_TYPES, ids=lambda e: e.dtype.name)
def test_round_trip_through_onnx(entry) -> None:
    array = sample(entry)
    if "uint" in entry.dtype.name and entry.bits < 8:
        array = np.abs(array.astype(int)).astype(entry.dtype)
    tensor = encode_tensor(array, "w", "w")
    theirs = onnx.TensorProto.FromString(tensor.SerializeToString())
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(theirs), array)
    again = decode_tensor(tensor, "w")
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


@pytest.mark.rule("TD-07")
@pytest.mark.rule("TD-08")
@pytest.mark.parametrize("entry", [e for e in ELEMENT_TYPES if e.dtype.kind != "O"], ids=lambda e: e.dtype.name)
def test_typed_fields(entry) -> None:
    """What onnx.helper.make_tensor writes into float_data, int32_data and so on."""
    array = np.abs(sample(entry).astype(complex if entry.dtype.kind == "c" else float)).astype(entry.dtype)
    values = array.reshape(-1)
    tensor = onnx.helper.make_tensor("w", entry.code, array.shape, values)
    assert not tensor.HasField("raw_data")
    found = decode(tensor)
    assert found.dtype == entry.dtype
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(found, onnx.numpy_helper.to_array(tensor))


@pytest.mark.rule("TD-07")
@pytest.mark.rule("TD-08")
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 1000])
@pytest.mark.parametrize("entry", [e for e in ELEMENT_TYPES if e.dtype.kind != "O"], ids=lambda e: e.dtype.name)
def test_every_bit_pattern(entry, size) -> None:
    """Random bytes mean the same here and in onnx; what is left of the last byte is zero when it is written again."""
    raw = np.random.default_rng(size).integers(0, 256, (size * entry.bits + 7) // 8, np.uint8)
    if entry.dtype.kind == "b":
        raw &= 1
    if size * entry.bits % 8:
        raw[-1] &= (1 << size * entry.bits % 8) - 1
    tensor = onnx.TensorProto(data_type=entry.code, dims=[size], raw_data=raw.tobytes())
    found = decode(tensor)
    assert found.tobytes() == onnx.numpy_helper.to_array(tensor).tobytes()
    assert encode_tensor(found, "", "w").raw_data == tensor.raw_data


@pytest.mark.rule("TD-05")
@pytest.mark.rule("TY-09")
def test_empty_and_scalar() -> None:
    assert decode(onnx.TensorProto(data_type=1, dims=[0, 3])).shape == (0, 3)
    assert decode(onnx.TensorProto(data_type=1, dims=[0, 3], raw_data=b"")).shape == (0, 3)
    scalar = decode(onnx.TensorProto(data_type=1, float_data=[2.5]))
    assert isinstance(scalar, np.ndarray)
    assert scalar.shape == ()


def test_arrays_are_read_only() -> None:
    for fields in ({"raw_data": bytes(8)}, {"float_data": [1, 2]}):
        assert not decode(onnx.TensorProto(data_type=1, dims=[2], **fields)).flags.writeable


@pytest.mark.rule("TD-04")
def test_more_than_the_limit() -> None:
    tensor = encode_tensor(np.zeros(100, np.float32), "", "w")
    document = Document(onnx_pb2.ModelProto(), limits=Limits(tensor_bytes=399))
    with pytest.raises(LimitError) as caught:
        decode_tensor(tensor, "initializer 'w'", document)
    assert str(caught.value) == (
        "initializer 'w': tensor_bytes must be at most 399, not 400; "
        "if you trust the model, raise it with --limit tensor_bytes=NUMBER"
    )


def sparse(**changes) -> onnx.SparseTensorProto:
    fields = {"values": [1.0, 2.0], "indices": [0, 3], "index_dims": None, "dims": [2, 3], "kind": 7, **changes}
    values = onnx.TensorProto(name="s", data_type=1, dims=[len(fields["values"])], float_data=fields["values"])
    indices = onnx.TensorProto(data_type=fields["kind"], dims=fields["index_dims"] or [len(fields["indices"])])
    getattr(indices, "int64_data" if fields["kind"] == 7 else "int32_data").extend(fields["indices"])
    return onnx.SparseTensorProto(values=values, indices=indices, dims=fields["dims"])


def decode_ours(proto: onnx.SparseTensorProto) -> SparseTensor:
    return decode_sparse(onnx_pb2.SparseTensorProto.FromString(proto.SerializeToString()), "'s'")


@pytest.mark.rule("SP-01")
@pytest.mark.parametrize(
    "changes", [{}, {"indices": [0, 1, 1, 2], "index_dims": [2, 2]}, {"values": [], "indices": []}]
)
def test_sparse(changes) -> None:
    found = decode_ours(sparse(**changes))
    assert (found.shape, found.values.dtype, found.indices.dtype) == ((2, 3), np.float32, np.int64)
    np.testing.assert_array_equal(found.indices.reshape(-1), changes.get("indices", [0, 3]))


@pytest.mark.rule("TD-01")
def test_element_types_that_do_not_exist() -> None:
    with pytest.raises(InvalidModel) as caught:
        element_type_of(np.dtype("datetime64[s]"), "initializer 'w'")
    assert str(caught.value) == (
        "the type of initializer 'w' must be one that ONNX has, not datetime64[s]; convert the array first"
    )
