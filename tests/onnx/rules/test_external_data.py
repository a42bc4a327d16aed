"""Data of tensors in files of their own: rules EX."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hwflow.onnx import check, load, loads
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.files import read
from hwflow.onnx.errors import LimitError, SecurityError, TensorDataError
from hwflow.onnx.rules.finding import Severity
from tests.onnx.rules.protos import BYTES, I64, constant, findings, graph, model, node, tensor, value, with_tensor


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
