"""Tensors: every element type in both forms, and the exact message for each damaged one."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from hwflow.onnx import onnx_pb2
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.tensors import decode_sparse, decode_tensor, encode_tensor
from hwflow.onnx.dtypes import ELEMENT_TYPES, element_type_of
from hwflow.onnx.errors import InvalidModel, LimitError, TensorDataError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import SparseTensor


def ours(tensor: onnx.TensorProto) -> onnx_pb2.TensorProto:
    return onnx_pb2.TensorProto.FromString(tensor.SerializeToString())


def decode(tensor: onnx.TensorProto) -> np.ndarray:
    return decode_tensor(ours(tensor), "initializer 'w'")


def refused(**fields) -> str:
    with pytest.raises(TensorDataError) as caught:
        decode(onnx.TensorProto(name="w", **{"data_type": onnx.TensorProto.FLOAT, **fields}))
    return str(caught.value)


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


@pytest.mark.rule("TD-06")
@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        ("INT8", 300, "-128 to 127 for int8, not 300"), ("INT8", -129, "-128 to 127 for int8, not -129"),
        ("UINT8", -1, "0 to 255 for uint8, not -1"), ("INT16", 1 << 15, "-32768 to 32767 for int16, not 32768"),
        ("UINT16", 1 << 16, "0 to 65535 for uint16, not 65536"), ("BOOL", 7, "0 to 1 for bool, not 7"),
        ("FLOAT16", 1 << 16, "0 to 65535 for float16, not 65536"), ("BFLOAT16", -1, "0 to 65535 for bfloat16, not -1"),
        ("FLOAT8E5M2", 256, "0 to 255 for float8_e5m2, not 256"), ("INT4", 256, "-128 to 255 for int4, not 256"),
        ("FLOAT6E2M3", 64, "0 to 63 for float6_e2m3fn, not 64"), ("UINT2", -129, "-128 to 255 for uint2, not -129"),
        ("UINT32", 1 << 32, "0 to 4294967295 for uint32, not 4294967296"),
    ],
)  # fmt: skip
def test_out_of_range(kind, wrong, message) -> None:
    field = "uint64_data" if kind == "UINT32" else "int32_data"
    found = refused(data_type=getattr(onnx.TensorProto, kind), dims=[1], **{field: [wrong]})
    assert found == f"the stored elements of initializer 'w' must be {message}; export the model again"


@pytest.mark.rule("TD-06")
def test_bool_that_is_a_number() -> None:
    assert refused(data_type=9, dims=[2], raw_data=b"\1\7") == (
        "the stored elements of initializer 'w' must be 0 to 1 for bool, not 7; export the model again"
    )


@pytest.mark.rule("TD-04")
@pytest.mark.rule("TD-05")
@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([0, 1 << 62, 1 << 62], "the dims of initializer 'w' must be at most 9223372036854775807 bytes"),
        ([1] * 65, "initializer 'w' must have at most 64 dims, not 65"),
    ],
)
def test_dims_that_numpy_cannot_hold(dims, message) -> None:
    tensor = onnx.TensorProto(data_type=1, dims=dims, raw_data=bytes(4) if 0 not in dims else b"")
    with pytest.raises(LimitError, match=re.escape(message)):
        decode(tensor)


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


@pytest.mark.rule("SP-01")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": [0, 6]}, "the indices of 's' must lie within [2, 3]"),
        ({"indices": [-1, 3]}, "the indices of 's' must lie within [2, 3]"),
        ({"indices": [0, 1, 1, 3], "index_dims": [2, 2]}, "the indices of 's' must lie within [2, 3]"),
        ({"indices": [3, 0]}, "the indices of 's' must ascend, each there once"),
        ({"indices": [3, 3]}, "the indices of 's' must ascend, each there once"),
        ({"indices": [1, 1, 0, 2], "index_dims": [2, 2]}, "the indices of 's' must ascend, each there once"),
        ({"indices": [0]}, "'s' must have values [n] and int64 indices [n] or [n, 2], not [2] and int64[1]"),
        ({"kind": 6}, "'s' must have values [n] and int64 indices [n] or [n, 2], not [2] and int32[2]"),
        ({"dims": []}, "the dims of 's' must be 1 to 64 numbers, each above 0 and with a product below 2^63, not []"),
        ({"dims": [2, 0]}, "the dims of 's' must be 1 to 64 numbers"),
        ({"dims": [1 << 40, 1 << 40]}, "the dims of 's' must be 1 to 64 numbers"),
    ],
)
def test_damaged_sparse(changes, message) -> None:
    with pytest.raises(TensorDataError) as caught:
        decode_ours(sparse(**changes))
    assert str(caught.value).startswith(message)


@pytest.mark.rule("TD-01")
def test_element_types_that_do_not_exist() -> None:
    assert refused(data_type=0) == (
        "the element type of initializer 'w' must be one that ONNX has, not number 0; export the model again"
    )
    with pytest.raises(InvalidModel) as caught:
        element_type_of(np.dtype("datetime64[s]"), "initializer 'w'")
    assert str(caught.value) == (
        "the type of initializer 'w' must be one that ONNX has, not datetime64[s]; convert the array first"
    )


@pytest.mark.rule("TD-02")
@pytest.mark.rule("TD-03")
@pytest.mark.rule("TD-04")
@pytest.mark.rule("TD-05")
@pytest.mark.rule("TD-09")
@pytest.mark.rule("TD-10")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dims": [0], "raw_data": bytes(4)},
         "initializer 'w' must hold 0 bytes for float32[0], not 4; the file is damaged, export the model again"),
        ({"dims": [3], "data_type": 27, "raw_data": bytes(4)},
         "initializer 'w' must hold 3 bytes for float6_e2m3fn[3], not 4; the file is damaged, export the model again"),
        ({"dims": [2], "raw_data": bytes(4)},
         "initializer 'w' must hold 8 bytes for float32[2], not 4; the file is damaged, export the model again"),
        ({"dims": [2], "raw_data": bytes(12)},
         "initializer 'w' must hold 8 bytes for float32[2], not 12; the file is damaged, export the model again"),
        ({"dims": [2], "float_data": [1.0]},
         "initializer 'w' must hold 2 entries of float_data for float32[2], not 1; "
         "the file is damaged, export the model again"),
        ({"dims": [2]},
         "initializer 'w' must hold 2 entries of float_data for float32[2], not 0; "
         "the file is damaged, export the model again"),
        ({"dims": [1 << 62, 1 << 62], "raw_data": bytes(4)},
         "initializer 'w' must hold 85070591730234615865843651857942052864 bytes for "
         "float32[4611686018427387904, 4611686018427387904], not 4; the file is damaged, export the model again"),
        ({"dims": [-2], "raw_data": bytes(4)},
         "the dims of initializer 'w' must not be negative, not [-2]; export the model again"),
        ({"dims": [1], "raw_data": bytes(4), "float_data": [1.0]},
         "the data of initializer 'w' must be in one field, not in raw_data and float_data; export the model again"),
        ({"dims": [1], "int64_data": [1]},
         "the data of initializer 'w' must be in float_data or raw_data for float32, not in int64_data; "
         "export the model again"),
        ({"dims": [1], "segment": onnx.TensorProto.Segment(begin=0, end=1)},
         "initializer 'w' must be in one piece, not in segments; export the model again"),
        ({"dims": [1], "data_type": 8, "raw_data": b"a"},
         "initializer 'w' must keep its strings in string_data, not in raw bytes; export the model again"),
        ({"dims": [1], "data_type": 8, "string_data": [b"\xff"]},
         "the strings of initializer 'w' must be UTF-8, not b'\\xff'; export the model again"),
    ],
)  # fmt: skip
def test_damaged(fields, message) -> None:
    assert refused(**fields) == message
