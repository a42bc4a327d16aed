"""Tensors: every element type in both forms, and the exact message for each damaged one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import hwflow.onnx
from hwflow.errors import HwflowError
from hwflow.onnx import onnx_pb2
from hwflow.onnx.build import Builder
from hwflow.onnx.document import Document
from hwflow.onnx.dtypes import ELEMENT_TYPES, element_type_of
from hwflow.onnx.tensors import decode_tensor, encode_tensor


def ours(tensor: onnx.TensorProto) -> onnx_pb2.TensorProto:
    return onnx_pb2.TensorProto.FromString(tensor.SerializeToString())


def decode(tensor: onnx.TensorProto, folder: Path | None = None) -> np.ndarray:
    return decode_tensor(ours(tensor), "initializer 'w'", Document(onnx_pb2.ModelProto(), folder=folder))


def refused(folder: Path | None = None, **fields) -> str:
    tensor = onnx.TensorProto(name="w", **{"data_type": onnx.TensorProto.FLOAT, **fields})
    with pytest.raises(HwflowError) as caught:
        decode(tensor, folder)
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


def test_empty_and_scalar() -> None:
    assert decode(onnx.TensorProto(data_type=1, dims=[0, 3])).shape == (0, 3)
    assert decode(onnx.TensorProto(data_type=1, float_data=[2.5])).shape == ()


def test_element_types_that_do_not_exist() -> None:
    assert refused(data_type=0) == (
        "the element type of initializer 'w' must be one that ONNX has, not number 0; export the model again"
    )
    with pytest.raises(HwflowError) as caught:
        element_type_of(np.dtype("datetime64[s]"), "initializer 'w'")
    assert str(caught.value) == (
        "the type of initializer 'w' must be one that ONNX has, not datetime64[s]; convert the array first"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
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


def external(**entries: str) -> dict:
    pairs = [onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items()]
    return {"dims": [2], "data_location": onnx.TensorProto.EXTERNAL, "external_data": pairs}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a data file, and a secret beside the folder."""
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return inside


def test_external(folder: Path) -> None:
    checksum = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
    for entries, expected in (
        ({"location": "w.bin"}, [0, 1]),
        ({"location": "./w.bin", "offset": "8", "length": "8"}, [2, 3]),
        ({"location": "w.bin", "checksum": checksum.upper()}, [0, 1]),
    ):
        found = decode(onnx.TensorProto(name="w", data_type=1, **external(**entries)), folder)
        np.testing.assert_array_equal(found, np.array(expected, np.float32))
        assert not found.flags.writeable


def test_external_through_load(folder: Path) -> None:
    b = Builder()
    b.output(b.node("Add", b.input("x", np.float32, (2,)), b.constant("w", np.zeros(2, np.float32)), output="y"))
    proto = onnx.load_from_string(hwflow.onnx.dumps(b.model()))
    proto.graph.initializer[0].CopyFrom(onnx.TensorProto(name="w", data_type=1, **external(location="w.bin")))
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    model = hwflow.onnx.load(folder / "m.onnx")
    found = hwflow.onnx.evaluate(model, {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(found["y"], np.array([1, 2], np.float32))
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(proto.SerializeToString())
    assert str(caught.value) == (
        "the model: initializer 'w' keeps its data in 'w.bin'; load the model from its file, or name the folder"
    )


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "sub/../../secret.bin", "", "..\\secret.bin"])
def test_external_outside(folder: Path, location) -> None:
    assert refused(folder, **external(location=location)) == (
        f"the external data of initializer 'w' must lie in the model's folder, not at {location!r}; "
        f"copy it beside the model and do not trust the file otherwise"
    )


def test_external_links(folder: Path) -> None:
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "linked").symlink_to("..")
    for location in ("link.bin", "linked/secret.bin"):
        assert refused(folder, **external(location=location)) == (
            f"the external data of initializer 'w' must lie in the model's folder, not at {location!r}; "
            f"copy it beside the model and do not trust the file otherwise"
        )
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe.bin")
    for location in ("hard.bin", "pipe.bin"):
        assert refused(folder, **external(location=location)) == (
            f"the external data of initializer 'w' must be a plain file with a single name, not what '{location}' is; "
            f"copy it beside the model"
        )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "none.bin"},
         "the external data of initializer 'w' must be in 'none.bin' beside the model, "
         "not missing (No such file or directory); copy that file too"),
        ({"location": "w.bin", "offset": "12"},
         "the external data of initializer 'w' must lie within 'w.bin' (16 bytes), "
         "not at bytes 12 to 20; copy the whole file again"),
        ({"location": "w.bin", "offset": "-4"},
         "'offset' of the external data of initializer 'w' must be a number of bytes, not '-4'; "
         "export the model again"),
        ({"location": "w.bin", "length": str(1 << 50)},
         "the external data of initializer 'w' must be 8 bytes long, not 1125899906842624; export the model again"),
        ({"location": "w.bin", "checksum": "00"},
         "the external data of initializer 'w' must have the checksum 00, "
         "not 1b1d9a2a1a0b3d1ae2e2a1c2; copy 'w.bin' again"),
    ],
)  # fmt: skip
def test_external_damaged(folder: Path, entries, message) -> None:
    found = refused(folder, **external(**entries))
    if "checksum" in entries:
        digest = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
        message = message.replace("1b1d9a2a1a0b3d1ae2e2a1c2", digest)
    assert found == message


def test_absurd_dims_of_external_data(folder: Path) -> None:
    fields = {**external(location="w.bin"), "dims": [1 << 62]}
    assert refused(folder, **fields) == (
        "the external data of initializer 'w' must lie within 'w.bin' (16 bytes), "
        "not at bytes 0 to 18446744073709551616; copy the whole file again"
    )
