"""Weights stay in the file: the same model as by a plain parse, whatever the bytes, and no stand-in is ever seen."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from hypothesis import given, settings
from hypothesis import strategies as st

import hwflow.onnx
from hwflow.onnx import Model, onnx_pb2
from hwflow.onnx.build import Builder
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.files import read, read_bytes
from hwflow.onnx.container.lift import lift
from hwflow.onnx.container.reader import read_model
from hwflow.onnx.container.tensors import decode_tensor
from tests.onnx.full_model import full_model

LARGE = np.arange(4096, dtype=np.float32)


def model(*arrays: np.ndarray) -> Model:
    b = Builder("g")
    for index, array in enumerate(arrays):
        b.constant(f"w{index}", array)
    b.output(b.node("Identity", "w0", output="y"))
    return b.model()


def plain(data: bytes) -> Model:
    return read_model(Document(onnx_pb2.ModelProto.FromString(data)))


def origin(array: np.ndarray) -> object:
    """What an array is a view of in the end."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


def require_equal(data: bytes) -> None:
    """The same outcome by both ways, and the complete message is the one of the file."""
    try:
        expected = onnx_pb2.ModelProto.FromString(data)
    except Exception:
        with pytest.raises(HwflowError):
            read_bytes(data)
        return
    document = read_bytes(data)
    assert document.complete().SerializeToString() == expected.SerializeToString()


def test_large_weights_are_views_of_the_file(tmp_path) -> None:
    large = np.zeros(1 << 20, np.float32)
    hwflow.onnx.save(model(large, LARGE[:4]), tmp_path / "m.onnx")
    found = hwflow.onnx.load(tmp_path / "m.onnx").graph.initializers
    assert type(origin(found["w0"])).__name__ == "mmap"
    assert isinstance(origin(found["w1"]), bytes)
    assert not found["w0"].flags.writeable


def test_large_weights_are_views_of_the_bytes() -> None:
    data = hwflow.onnx.dumps(model(np.zeros(1 << 20, np.float32)))
    assert origin(hwflow.onnx.loads(data).graph.initializers["w0"]) is data


def test_the_message_has_none_of_the_weights() -> None:
    data = hwflow.onnx.dumps(model(LARGE, LARGE * 2, LARGE[:10]))
    message, lifted = lift(memoryview(data))
    assert len(message) < 400
    assert [bytes(view) for view in lifted.views] == [LARGE.tobytes(), (LARGE * 2).tobytes()]
    other = lift(memoryview(data))[1]
    assert lifted.token != other.token  # random, so that no file can contain it


def test_a_weight_is_found_by_its_tensor_only() -> None:
    document = read_bytes(hwflow.onnx.dumps(model(LARGE)))
    stand_in = document.proto.graph.initializer[0]
    assert bytes(document.raw_data(stand_in)) == LARGE.tobytes()
    for raw in (b"", bytes(24), stand_in.raw_data[:-1], stand_in.raw_data + b"x"):
        assert document.raw_data(onnx_pb2.TensorProto(raw_data=raw)) == raw


def test_real_models(models_dir: Path) -> None:
    lifted = 0
    for path in sorted(models_dir.rglob("*.onnx")):
        data = path.read_bytes()
        document = read(path)
        lifted += len(document.lifted.views)
        assert document.complete() == onnx_pb2.ModelProto.FromString(data)
        assert hwflow.onnx.dumps(hwflow.onnx.load(path)) == hwflow.onnx.dumps(plain(data))
        found, expected = read_model(document).graph, plain(data).graph
        assert found.initializers.keys() == expected.initializers.keys()
        for name, array in expected.initializers.items():
            assert found.initializers[name].dtype == array.dtype
            assert found.initializers[name].tobytes() == array.tobytes() or array.dtype.kind == "O"
    assert lifted > 50


def test_every_field_of_the_format() -> None:
    data = full_model(unknown=True).SerializeToString()
    document = read_bytes(data)
    assert len(document.lifted.views) == 1
    require_equal(data)
    assert hwflow.onnx.dumps(read_model(document)) == hwflow.onnx.dumps(plain(data))


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int, extra: int = 0) -> bytes:
    """A number in `extra` more bytes than it needs."""
    encoded = bytearray()
    while value > 0x7F or extra:
        encoded.append(value & 0x7F | 0x80)
        extra -= value <= 0x7F
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


RAW = LARGE.tobytes()
TENSOR = field(1, 4096) + field(2, 1) + field(8, b"w")
HEAD = field(1, 8)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (HEAD + field(7, field(5, TENSOR + field(9, RAW))), 1),
        (field(7, field(5, field(9, RAW) + TENSOR)) + HEAD, 1),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW)) + field(5, TENSOR + field(9, RAW))), 2),
        # a field twice: protobuf takes the last raw_data and merges two graphs
        (HEAD + field(7, field(5, TENSOR + field(9, RAW) + field(9, b"abcd"))), 0),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW) + field(9, RAW[::-1]))), 0),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW))) + field(7, field(2, b"g")), 0),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW))) + field(7, field(5, TENSOR)), 0),
        # raw_data as a number is an unknown field
        (HEAD + field(7, field(5, TENSOR + field(9, 5) + field(9, RAW))), 0),
        # overlong numbers, and groups (wire types 3 and 4), at each level
        (
            HEAD
            + varint(7 << 3 | 2, 1)
            + varint(len(field(5, TENSOR + field(9, RAW))))
            + field(5, TENSOR + field(9, RAW)),
            0,
        ),
        (HEAD + field(7, field(5, TENSOR + varint(9 << 3 | 2) + varint(len(RAW), 2) + RAW)), 0),
        (HEAD + varint(99 << 3 | 3) + varint(99 << 3 | 4) + field(7, field(5, TENSOR + field(9, RAW))), 0),
        (HEAD + field(7, varint(99 << 3 | 3) + varint(99 << 3 | 4) + field(5, TENSOR + field(9, RAW))), 0),
        (HEAD + field(7, field(5, TENSOR + varint(99 << 3 | 3) + varint(99 << 3 | 4) + field(9, RAW))), 0),
        # damaged: lengths that reach out of what they are in, field number 0, the end of a group
        (HEAD + field(7, varint(5 << 3 | 2) + varint(5000) + RAW[:4990]), 0),
        (HEAD + field(7, varint(5 << 3 | 2) + varint(30_000) + TENSOR + field(9, RAW)), 0),
        (HEAD + field(7, field(5, TENSOR + varint(9 << 3 | 2) + varint(len(RAW) + 1) + RAW)), 0),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW)))[:-1], 0),
        (HEAD + field(7, field(5, field(0, b"x") + TENSOR + field(9, RAW))), 0),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW))) + varint(99 << 3 | 4), 0),
        (HEAD + field(7, field(5, TENSOR + field(9, RAW))) + b"\xff" * 12, 0),
    ],
)
def test_unusual_encodings(data, count) -> None:
    assert len(lift(memoryview(data))[1].views) == count
    require_equal(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutations(data) -> None:
    """Bytes changed, put in, taken out near the structure of a model with large weights: never another outcome."""
    original = hwflow.onnx.dumps(model(LARGE, LARGE[:3], LARGE[:2000]))
    mutated = bytearray(original)
    structure = [*range(200), *range(len(RAW) + 0, len(RAW) + 200), *range(len(original) - 200, len(original))]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(structure)) % len(mutated)
        match data.draw(st.sampled_from(["change", "insert", "remove", "cut"])):
            case "change":
                mutated[place] = data.draw(st.integers(0, 255))
            case "insert":
                mutated[place:place] = data.draw(st.binary(max_size=5))
            case "remove":
                del mutated[place : place + data.draw(st.integers(1, 5))]
            case "cut":
                del mutated[max(place, 20) :]
    require_equal(bytes(mutated))


@pytest.mark.rule("LM-02")
@pytest.mark.parametrize(
    "data",
    [
        HEAD + field(7, field(1, b"") * 200_000),
        HEAD + field(7, field(5, b"") * 200_000),
        HEAD + field(7, field(5, field(4, b"") * 200_000 + field(9, RAW))),
        HEAD + field(7, field(5, field(1, 1) * 200_000 + field(9, RAW))),
        HEAD + field(99, b"") * 200_000,
        HEAD + field(7, b"") * 200_000,
        HEAD + field(7, field(5, field(1, 1) * 1000 + field(9, RAW)) * 100),
    ],
)
def test_time_is_linear(data) -> None:
    started = time.perf_counter()
    lift(memoryview(data))
    assert time.perf_counter() - started < 4


def test_values_by_decode_tensor() -> None:
    document = read_bytes(hwflow.onnx.dumps(model(LARGE)))
    np.testing.assert_array_equal(decode_tensor(document.proto.graph.initializer[0], "w", document), LARGE)


def test_what_is_written_is_whole(tmp_path) -> None:
    """Every way out of the product: bytes, binary and text files, data files, the checker's message."""
    data = hwflow.onnx.dumps(model(LARGE, LARGE + 1))
    found = hwflow.onnx.loads(data)
    assert hwflow.onnx.dumps(found) == data
    hwflow.onnx.save(found, tmp_path / "m.onnx")
    hwflow.onnx.save(found, tmp_path / "m.textproto")
    hwflow.onnx.save(found, tmp_path / "e.onnx", external=True)
    for name in ("m.onnx", "e.onnx"):
        theirs = onnx.load(tmp_path / name)
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(theirs.graph.initializer[1]), LARGE + 1)
    for name in ("m.onnx", "m.textproto", "e.onnx"):
        assert hwflow.onnx.dumps(hwflow.onnx.load(tmp_path / name)) == data
