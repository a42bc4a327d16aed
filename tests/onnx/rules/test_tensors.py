"""Data of tensors, in the model and in files of its own, and sparse tensors: rules TD, EX and SP."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hwflow.onnx import check, load, loads
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.files import read
from hwflow.onnx.errors import LimitError, SecurityError, TensorDataError
from hwflow.onnx.limits import Limits
from hwflow.onnx.rules.finding import Severity
from tests.onnx.rules.protos import F, document, errors, findings, graph, model, node, value, warned

I64 = TensorProto.INT64


def tensor(**fields: Any) -> TensorProto:
    return TensorProto(**{"name": "w", "data_type": F, "dims": [2]} | fields)


def with_tensor(proto: TensorProto) -> onnx.ModelProto:
    """No node reads the tensor: not every type has an operator."""
    return model(initializers=[proto], ir=14, opset=28)


def told(proto: TensorProto, rule: str) -> str:
    """What the rule says about an initializer, without path, remedy and identifier."""
    found = [f for f in findings(with_tensor(proto)) if f.rule == rule]
    assert len(found) == 1
    assert found[0].path == "graph/initializer 'w'"
    assert found[0].severity is Severity.ERROR
    return found[0].message


def fine(proto: TensorProto) -> bool:
    return not [f for f in findings(with_tensor(proto)) if f.code != "W-nan"]


BYTES = np.array([1, 2], np.float32).tobytes()


@pytest.mark.rule("TD-01")
def test_the_element_type_is_known() -> None:
    wanted = "data_type must be one of 1 to 28, not"
    assert told(tensor(data_type=0, raw_data=BYTES), "TD-01") == f"{wanted} 0"
    assert told(tensor(data_type=99, raw_data=BYTES), "TD-01") == f"{wanted} 99"
    assert told(tensor(data_type=-1, raw_data=BYTES), "TD-01") == f"{wanted} -1"
    unset = tensor(raw_data=BYTES)
    unset.ClearField("data_type")
    assert told(unset, "TD-01") == f"{wanted} 0"
    assert fine(tensor(raw_data=BYTES))


@pytest.mark.rule("TD-02")
def test_there_is_one_field_and_the_right_one() -> None:
    both = tensor(raw_data=BYTES, float_data=[1, 2])
    assert told(both, "TD-02") == "the data must be in one field, not in raw_data and float_data"
    assert told(tensor(float_data=[1, 2], int32_data=[1, 2]), "TD-02").endswith("not in float_data and int32_data")
    assert told(tensor(), "TD-02") == "the data must be in one field, not missing"
    wrong = tensor(int64_data=[1, 2])
    assert told(wrong, "TD-02") == "the data of a float tensor must be in float_data or raw_data, not in int64_data"
    text = tensor(data_type=TensorProto.STRING, raw_data=b"ab")
    assert told(text, "TD-02") == "strings must be in string_data, not in raw_data"
    assert fine(tensor(float_data=[1, 2]))
    assert fine(tensor(data_type=TensorProto.STRING, string_data=[b"a", b"b"]))


@pytest.mark.rule("TD-03")
@pytest.mark.parametrize("size", [4, 7, 9, 12])
def test_data_in_bytes_has_the_size_of_the_dims(size: int) -> None:
    assert told(tensor(raw_data=bytes(size)), "TD-03") == f"the data must be 8 bytes for float[2], not {size}"


@pytest.mark.rule("TD-03")
@pytest.mark.parametrize("count", [1, 3])
def test_typed_data_has_the_size_of_the_dims(count: int) -> None:
    short = tensor(float_data=[0] * count)
    assert told(short, "TD-03") == f"the data must be 2 entries of float_data for float[2], not {count}"
    pairs = tensor(data_type=TensorProto.COMPLEX64, float_data=[0] * count)
    assert told(pairs, "TD-03") == f"the data must be 4 entries of float_data for complex64[2], not {count}"
    assert fine(tensor(data_type=TensorProto.COMPLEX64, float_data=[0] * 4))


@pytest.mark.rule("TD-04")
@pytest.mark.parametrize(
    "dims, message",
    [
        ([-2], "the dims must be 0 or more, not [-2]"),
        ([-1, -2], "the dims must be 0 or more, not [-1, -2]"),
        ([1 << 33, 1 << 33], "the dims must make fewer than 2^63 bytes, not 295147905179352825856 for "),
        ([1 << 62], "the dims must make fewer than 2^63 bytes, not 18446744073709551616 for "),
        ([1 << 40], "tensor_bytes must be at most 2,147,483,648, not 4,398,046,511,104 for float[1099511627776]"),
        ([1] * 1000, "a tensor must have at most 64 dims, not 1000"),
    ],
)
def test_dims_that_no_memory_holds(dims: list[int], message: str) -> None:
    assert message in told(tensor(dims=dims, raw_data=BYTES), "TD-04")
    with pytest.raises((TensorDataError, LimitError)):
        loads(with_tensor(tensor(dims=dims, raw_data=BYTES)).SerializeToString())


@pytest.mark.rule("TD-04")
def test_the_budget_can_be_raised() -> None:
    proto = pb.ModelProto.FromString(with_tensor(tensor(raw_data=BYTES)).SerializeToString())
    small = [f for f in check(Document(proto, limits=Limits(tensor_bytes=7))) if f.rule == "TD-04"]
    assert "tensor_bytes must be at most 7, not 8 for float[2]" in small[0].message
    assert "--limit tensor_bytes=NUMBER" in small[0].remedy
    assert not [f for f in check(Document(proto, limits=Limits(tensor_bytes=8))) if f.rule == "TD-04"]


@pytest.mark.rule("TD-05")
def test_dims_of_zero() -> None:
    assert fine(tensor(dims=[0, 3]))
    assert fine(tensor(dims=[0, 3], raw_data=b""))
    assert told(tensor(dims=[0], raw_data=BYTES), "TD-05") == "a tensor of [0] must have no data, not some in raw_data"
    assert told(tensor(dims=[3, 0], float_data=[1]), "TD-05").endswith("not some in float_data")
    assert "fewer than 2^63 bytes" in told(tensor(dims=[0, 1 << 62, 1 << 62]), "TD-05")


INT32 = {
    TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127), TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767), TensorProto.BOOL: (0, 1), TensorProto.FLOAT16: (0, 65535),
    TensorProto.BFLOAT16: (0, 65535), TensorProto.FLOAT8E5M2: (0, 255), TensorProto.FLOAT8E8M0: (0, 255),
    TensorProto.FLOAT6E2M3: (0, 63), TensorProto.FLOAT6E3M2: (0, 63)}  # fmt: skip


@pytest.mark.rule("TD-06")
@pytest.mark.parametrize("code", INT32)
def test_entries_are_in_the_range_of_the_type(code: int) -> None:
    low, high = INT32[code]
    assert fine(tensor(data_type=code, int32_data=[low, high]))
    for bad in ([low - 1, high], [low, high + 1]):
        worst = bad[0] if bad[0] < low else bad[1]
        message = told(tensor(data_type=code, int32_data=bad), "TD-06")
        assert message.startswith(f"the entries of int32_data must be {low} to {high} for ")
        assert message.endswith(f"not {worst}")


@pytest.mark.rule("TD-06")
def test_other_ranges() -> None:
    assert "not 4294967296" in told(tensor(data_type=TensorProto.UINT32, uint64_data=[0, 1 << 32]), "TD-06")
    assert fine(tensor(data_type=TensorProto.UINT32, uint64_data=[0, (1 << 32) - 1]))
    raw = told(tensor(data_type=TensorProto.BOOL, raw_data=b"\1\7"), "TD-06")
    assert raw == "the elements of a bool tensor must be 0 or 1, not 7"
    assert fine(tensor(data_type=TensorProto.INT32, int32_data=[-(1 << 31), (1 << 31) - 1]))


@pytest.mark.rule("TD-07", "TD-08")
@pytest.mark.parametrize("code", [c for c in range(1, 29) if c != TensorProto.STRING])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_every_type_is_decoded_as_the_oracle_does(code: int, count: int) -> None:
    """Random bits in raw_data, and what the oracle makes of them in the typed field."""
    bits = helper.tensor_dtype_to_np_dtype(code).itemsize * 8
    bits = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}.get(code, bits)
    random = np.random.default_rng(code)
    raw = random.integers(0, 2 if code == TensorProto.BOOL else 256, -(-bits * count // 8), np.uint8)
    if spare := 8 * len(raw) - bits * count:
        raw[-1] &= (1 << (8 - spare)) - 1
    proto = tensor(data_type=code, dims=[count], raw_data=raw.tobytes())
    assert [f for f in findings(with_tensor(proto)) if f.code != "W-nan"] == []
    found = loads(with_tensor(proto).SerializeToString()).graph.initializers["w"]
    same(found, numpy_helper.to_array(proto))
    typed = helper.make_tensor("w", code, [count], numpy_helper.to_array(proto).tolist())
    assert [f for f in findings(with_tensor(typed)) if f.code != "W-nan"] == []
    same(loads(with_tensor(typed).SerializeToString()).graph.initializers["w"], numpy_helper.to_array(typed))


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    np.testing.assert_array_equal(found.astype(kind), wanted.astype(kind))


@pytest.mark.rule("TD-08")
def test_bits_that_no_element_uses() -> None:
    packed = tensor(data_type=TensorProto.UINT4, dims=[3], raw_data=b"\x21\x03")
    assert fine(packed)
    found = loads(with_tensor(packed).SerializeToString()).graph.initializers["w"]
    assert found.dtype == ml_dtypes.uint4
    assert found.astype(int).tolist() == [1, 2, 3]  # the first in the low bits
    packed.raw_data = b"\x21\x53"
    assert warned(with_tensor(packed)) == (
        "graph/initializer 'w': the last 4 bits must be 0 because no element uses them, not 5; "
        "export the model again [TD-08 W-pad-bits]"
    )
    typed = tensor(data_type=TensorProto.UINT2, dims=[5], int32_data=[0xE4, 0x3C])
    assert [f.code for f in findings(with_tensor(typed)) if f.rule == "TD-08"] == ["W-pad-bits"]
    six = tensor(data_type=TensorProto.FLOAT6E2M3, dims=[1], raw_data=b"\x7f")
    assert [f.code for f in findings(with_tensor(six)) if f.rule == "TD-08"] == ["W-pad-bits"]


@pytest.mark.rule("TD-09", "TY-03")
def test_strings_are_utf8() -> None:
    text = tensor(data_type=TensorProto.STRING, string_data=[b"ok", b"\xff"])
    assert told(text, "TD-09") == "string_data[1] must be UTF-8, not b'\\xff'"
    assert fine(tensor(data_type=TensorProto.STRING, string_data=["é".encode(), b"a\0b"]))
    for odd in (b"a\0", b"\xef\xbb\xbfa"):
        marked = tensor(data_type=TensorProto.STRING, string_data=[odd, b""])
        (found,) = [f for f in findings(with_tensor(marked)) if f.rule == "TD-09"]
        assert (found.code, found.severity) == ("W-string-mark", Severity.WARNING)
        assert "must have no byte order mark and no NUL at its end" in found.message


@pytest.mark.rule("TD-10")
def test_segments() -> None:
    cut = tensor(raw_data=BYTES, segment=TensorProto.Segment(begin=0, end=2))
    assert told(cut, "TD-10") == "the tensor must be in one piece, not a segment of one"
    with pytest.raises(TensorDataError, match="must be in one piece, not in segments"):
        loads(with_tensor(cut).SerializeToString())


# External data.


def external(folder: Path, entries: dict[str, str] | list[tuple[str, str]], **fields: Any) -> Path:
    """A model with one initializer in a file of its own."""
    proto = tensor(data_location=TensorProto.EXTERNAL, **fields)
    for key, text in entries.items() if isinstance(entries, dict) else entries:
        proto.external_data.add(key=key, value=text)
    path = folder / "model.onnx"
    path.write_bytes(with_tensor(proto).SerializeToString())
    return path


def external_errors(path: Path) -> list[str]:
    """The rules and messages of the errors; and reading the model fails too."""
    found = [f for f in check(read(path)) if f.severity is Severity.ERROR]
    if found:
        with pytest.raises((TensorDataError, SecurityError, LimitError)):
            load(path)
    return [f"{f.rule} {f.message}" for f in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "data.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    return inside


@pytest.mark.rule("EX-01", "EX-05")
def test_data_in_a_file(folder: Path) -> None:
    """Offset and length may be left out, and the offset need not be a multiple of anything."""
    for entries, first in (
        ({"location": "data.bin"}, 0),
        ({"location": "data.bin", "offset": "4"}, 1),
        ({"location": "data.bin", "offset": "8", "length": "8"}, 2),
        ({"location": "./data.bin", "offset": "0", "length": "8"}, 0),
    ):
        path = external(folder, entries)
        assert external_errors(path) == []
        assert load(path).graph.initializers["w"].tolist() == [first, first + 1]
    path = external(folder, {"location": "data.bin", "offset": "3"})
    assert external_errors(path) == []


@pytest.mark.rule("EX-02")
@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "sub/../../secret.bin", "/etc/hostname", "..\\secret.bin", "C:\\secret.bin", "C:secret.bin",
     "data.bin\0.txt", "", "link.bin", "linkdir/secret.bin", "hard.bin", "pipe", "sub", ".", "/", "//secret.bin"],
)  # fmt: skip
def test_data_outside_of_the_folder(folder: Path, location: str) -> None:
    (folder / "sub").mkdir()
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "linkdir").symlink_to("..")
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    (found,) = external_errors(external(folder, {"location": location}))
    assert found.startswith("EX-02 ")
    assert "must lie in the model's folder" in found or "must be a plain file with a single name" in found


@pytest.mark.rule("EX-02")
def test_links_inside_of_the_folder_are_links(folder: Path) -> None:
    (folder / "link.bin").symlink_to("data.bin")
    (found,) = external_errors(external(folder, {"location": "link.bin"}))
    assert found.startswith("EX-02 ")
    (folder / "sub").mkdir()
    (folder / "sub" / "data.bin").write_bytes(bytes(8))
    assert external_errors(external(folder, {"location": "sub/data.bin"})) == []


@pytest.mark.rule("EX-03")
def test_data_in_both_places(folder: Path) -> None:
    both = external(folder, {"location": "data.bin"}, raw_data=BYTES)
    assert external_errors(both) == [
        "EX-03 data in a file of its own must not be in the model as well, not in raw_data"
    ]
    inside = tensor(raw_data=BYTES)
    inside.external_data.add(key="location", value="data.bin")
    (found,) = findings(with_tensor(inside))
    assert (found.rule, found.code) == ("EX-03", "W-external-unused")


@pytest.mark.rule("EX-04")
def test_the_file_is_named_and_there(folder: Path) -> None:
    assert external_errors(external(folder, {"offset": "0"})) == [
        "EX-04 'location' of the external data must be given, not missing"
    ]
    (found,) = external_errors(external(folder, {"location": "nowhere.bin"}))
    assert found.startswith(
        "EX-04 the external data of the tensor must be in 'nowhere.bin' beside the model, not missing"
    )


@pytest.mark.rule("EX-05")
@pytest.mark.parametrize(
    "key, text",
    [("offset", "-4"), ("offset", "0x10"), ("offset", "1e3"), ("offset", ""), ("offset", " 4"), ("offset", "4.0"),
     ("offset", "٤"), ("offset", "9" * 5000), ("length", "-1"), ("length", "eight"), ("length", "+8")],
)  # fmt: skip
def test_numbers_are_decimal(folder: Path, key: str, text: str) -> None:
    (found,) = external_errors(external(folder, {"location": "data.bin", key: text}))
    assert found.startswith(f"EX-05 '{key}' of the external data must be a number of bytes, not '")


@pytest.mark.rule("EX-05")
@pytest.mark.parametrize("offset", ["9", "16", "17", str(1 << 62), str((1 << 63) - 1)])
def test_data_ends_in_the_file(folder: Path, offset: str) -> None:
    (found,) = external_errors(external(folder, {"location": "data.bin", "offset": offset}))
    assert found.startswith(
        "EX-05 the external data of the tensor must lie within 'data.bin' (16 bytes), not at bytes "
    )


@pytest.mark.rule("EX-06")
def test_the_length_is_that_of_the_dims(folder: Path) -> None:
    for length in ("4", "16", str(1 << 50)):
        (found,) = external_errors(external(folder, {"location": "data.bin", "length": length}))
        assert found == f"EX-06 'length' must be 8 for float[2], not {length}"
    packed = external(folder, {"location": "data.bin", "length": "3"}, data_type=TensorProto.INT4, dims=[5])
    assert external_errors(packed) == []
    whole = external(folder, {"location": "data.bin", "length": "5"}, data_type=TensorProto.INT4, dims=[5])
    assert external_errors(whole) == ["EX-06 'length' must be 3 for int4[5], not 5"]


@pytest.mark.rule("EX-07")
def test_the_checksum_is_verified(folder: Path) -> None:
    right = hashlib.sha1((folder / "data.bin").read_bytes()).hexdigest()
    assert external_errors(external(folder, {"location": "data.bin", "checksum": right})) == []
    assert external_errors(external(folder, {"location": "data.bin", "checksum": right.upper(), "offset": "8"})) == []
    (found,) = external_errors(external(folder, {"location": "data.bin", "checksum": "0" * 40}))
    assert found == f"EX-07 the external data of the tensor must have the checksum {'0' * 40}, not {right}"


@pytest.mark.rule("EX-08")
def test_tensors_may_share_a_file(folder: Path) -> None:
    parts = []
    for name, offset in (("a", 0), ("b", 4), ("c", 8)):  # overlapping and adjacent
        part = tensor(name=name, data_location=TensorProto.EXTERNAL)
        part.external_data.add(key="location", value="data.bin")
        part.external_data.add(key="offset", value=str(offset))
        parts.append(part)
    path = folder / "model.onnx"
    path.write_bytes(model(node("Sum", ("a", "b", "c")), inputs=[], initializers=parts).SerializeToString())
    assert external_errors(path) == []
    arrays = load(path).graph.initializers
    assert [arrays[name].tolist() for name in "abc"] == [[0, 1], [1, 2], [2, 3]]


@pytest.mark.rule("EX-09")
def test_models_in_bytes_have_no_folder(folder: Path) -> None:
    data = external(folder, {"location": "data.bin"}).read_bytes()
    found = [f for f in check(Document(pb.ModelProto.FromString(data))) if f.severity is Severity.ERROR]
    assert [f.rule for f in found] == ["EX-09"]
    assert found[0].message == "data in a file of its own, 'data.bin', must have a folder to lie in, not none"
    with pytest.raises(SecurityError):
        loads(data)
    assert loads(data, base_dir=folder).graph.initializers["w"].tolist() == [0, 1]


@pytest.mark.rule("EX-10")
def test_keys(folder: Path) -> None:
    (found,) = [f for f in check(read(external(folder, {"location": "data.bin", "__class__": "x"}))) if "EX" in f.rule]
    assert (found.code, found.severity) == ("W-external-key", Severity.WARNING)
    assert found.message.startswith(
        "the keys of external data must be among location, offset, length, checksum, basepath"
    )
    assert "not '__class__'" in found.message
    twice = external(folder, [("location", "data.bin"), ("location", "../secret.bin")])
    assert external_errors(twice) == ["EX-10 'location' of the external data must be given once, not 2 times"]
    assert external_errors(external(folder, {"location": "data.bin", "basepath": "/"})) == []


def outside() -> TensorProto:
    proto = tensor(name="", data_location=TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="../secret.bin")
    return proto


def constant(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["y"], **attributes)


def in_subgraph() -> onnx.ModelProto:
    inner = graph(helper.make_node("Constant", [], ["b"], value=outside()), outputs=[value("b")], name="then")
    other = graph(node("Identity", ("x",), ("c",)), outputs=[value("c")], name="else")
    return model(node("If", ("p",), then_branch=inner, else_branch=other),
                 inputs=[value("x"), value("p", TensorProto.BOOL, ())])  # fmt: skip


def in_function() -> onnx.ModelProto:
    function = helper.make_function("loc", "Two", [], ["y"], [constant(value=outside())], [helper.make_opsetid("", 17)])
    return model(helper.make_node("Two", [], ["y"], domain="loc"), imports=[("", 17), ("loc", 1)], functions=[function])


def in_training() -> onnx.ModelProto:
    proto = model()
    proto.training_info.add().initialization.CopyFrom(
        graph(helper.make_node("Constant", [], ["b"], value=outside()), outputs=[value("b")], name="init")
    )
    return proto


def in_sparse(part: str) -> onnx.ModelProto:
    sparse = helper.make_sparse_tensor(tensor(name="", dims=[1], float_data=[1]),
                                       tensor(name="", dims=[1], data_type=I64, int64_data=[0]), [2])  # fmt: skip
    getattr(sparse, part).CopyFrom(outside())
    return model(constant(sparse_value=sparse))


@pytest.mark.rule("EX-11")
@pytest.mark.parametrize(
    "made, path",
    [
        (lambda: model(constant(value=outside())), "graph/node[0] 'y' (Constant)/attribute 'value'"),
        (in_subgraph, "graph/node[0] 'y' (If)/attribute 'then_branch'/node[0] 'b' (Constant)/attribute 'value'"),
        (in_function, "function 'loc.Two'/node[0] 'y' (Constant)/attribute 'value'"),
        (in_training, "training_info[0]/initialization/node[0] 'b' (Constant)/attribute 'value'"),
        (lambda: in_sparse("values"), "graph/node[0] 'y' (Constant)/attribute 'sparse_value'/values"),
        (lambda: in_sparse("indices"), "graph/node[0] 'y' (Constant)/attribute 'sparse_value'/indices"),
    ],
)
def test_external_data_is_judged_everywhere(tmp_path: Path, made: Callable[[], onnx.ModelProto], path: str) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(made().SerializeToString())
    assert [f.path for f in check(read(file)) if f.rule == "EX-02"] == [path]


# Sparse tensors.


def sparse(values: list[float], indices: Any, dims: list[int]) -> onnx.ModelProto:
    array = np.array(indices, np.int64)
    made = helper.make_sparse_tensor(
        tensor(name="", dims=[len(values)], float_data=values),
        tensor(name="", data_type=I64, dims=array.shape, raw_data=array.tobytes()), dims)  # fmt: skip
    return model(constant(sparse_value=made), outputs=[value("y", F, None)])


@pytest.mark.rule("SP-01")
@pytest.mark.parametrize(
    "wrong, message",
    [
        (sparse([1, 2], [0, 9], [3, 3]), "must lie inside of [3, 3], not be 9 (number 1)"),
        (sparse([1], [[0, 3]], [3, 3]), "must lie inside of [3, 3], not be [0, 3] (number 0)"),
        (sparse([1], [-1], [3]), "must lie inside of [3], not be -1 (number 0)"),
        (sparse([1, 2], [4, 2], [3, 3]), "must be ascending, not smaller than the one before at number 1"),
        (sparse([1, 2], [[1, 0], [0, 2]], [3, 3]), "must be ascending, not smaller than the one before at number 1"),
        (sparse([1, 2], [4, 4], [3, 3]), "must be ascending, not a duplicate at number 1"),
        (sparse([1, 2], [4], [3, 3]),
         "the indices of 2 values in 2 dims must have the dims [2] or [2, 2], not [1]"),
        (sparse([1], [[[0]]], [3]), "must have the dims [1] or [1, 1], not [1, 1, 1]"),
        (sparse([1], [0], []), "a sparse tensor must have 1 to 64 dims, not 0"),
        (sparse([1], [0], [0]), "the dims of a sparse tensor must be 1 or more, not [0]"),
        (sparse([1], [0], [-3]), "the dims of a sparse tensor must be 1 or more, not [-3]"),
        (sparse([1], [0], [1 << 33, 1 << 33]), "tensor_bytes must be at most 2,147,483,648, not 295,147,905,179,352,"),
    ],
)  # fmt: skip
def test_sparse_tensors(wrong: onnx.ModelProto, message: str) -> None:
    (found,) = [f for f in findings(wrong) if f.rule == "SP-01"]
    assert message in found.message
    assert found.path == "graph/node[0] 'y' (Constant)/attribute 'sparse_value'"


@pytest.mark.rule("SP-01")
def test_good_sparse_tensors() -> None:
    for right in (sparse([1, 2], [0, 8], [3, 3]), sparse([1, 2], [[0, 1], [2, 0]], [3, 3]), sparse([], [], [3])):
        assert errors(right) == []
    matrix = helper.make_sparse_tensor(tensor(dims=[2], float_data=[1, 2]), tensor(dims=[2, 2], data_type=I64), [3])
    proto = model()
    proto.graph.sparse_initializer.append(matrix)
    assert any("must have the dims [2] or [2, 1], not [2, 2]" in text for text in errors(proto))


@pytest.mark.rule("SP-01")
def test_the_values_of_a_sparse_tensor_are_a_row() -> None:
    proto = sparse([1], [0], [3])
    attribute = proto.graph.node[0].attribute[0]
    attribute.sparse_tensor.values.dims[:] = [1, 1]
    assert any("the values of a sparse tensor must have rank 1, not the dims [1, 1]" in text for text in errors(proto))
    proto = sparse([1], [0], [3])
    proto.graph.node[0].attribute[0].sparse_tensor.indices.data_type = TensorProto.INT32
    assert any("the indices of a sparse tensor must be int64, not data_type 6" in text for text in errors(proto))
    assert document(proto).limits == Limits()
