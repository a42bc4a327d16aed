"""External data: what is read and written, and that nothing outside of the model's folder can be reached."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx import Model, onnx_pb2
from hwflow.onnx.build import Builder, make_graph, make_model
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.tensors import decode_tensor
from hwflow.onnx.errors import LimitError, SecurityError, TensorDataError
from hwflow.onnx.limits import Limits
from tests.onnx.full_model import full_model
from tests.onnx.protos import canonical

EXTERNAL = onnx.TensorProto.EXTERNAL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a data file, and a secret beside the folder."""
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    (inside / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (inside / "sub" / "w.bin").write_bytes(np.arange(4, 8, dtype=np.float32).tobytes())
    return inside


def tensor(*entries: tuple[str, str], **fields) -> onnx_pb2.TensorProto:
    """Two floats in another file."""
    found = onnx.TensorProto(**{"name": "w", "data_type": 1, "dims": [2], "data_location": EXTERNAL, **fields})
    for key, value in entries:
        found.external_data.add(key=key, value=value)
    return onnx_pb2.TensorProto.FromString(found.SerializeToString())


def document(folder: Path | None, **options) -> Document:
    return Document(onnx_pb2.ModelProto(), folder=folder, **options)


def decode(folder: Path | None, *entries: tuple[str, str], **fields) -> np.ndarray:
    return decode_tensor(tensor(*entries, **fields), "initializer 'w'", document(folder))


def refused(error: type[HwflowError], folder: Path | None, *entries: tuple[str, str], **fields) -> str:
    with pytest.raises(error) as caught:
        decode(folder, *entries, **fields)
    return str(caught.value)


@pytest.mark.rule("EX-01")
@pytest.mark.rule("EX-05")
@pytest.mark.rule("EX-06")
@pytest.mark.rule("EX-10")
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("location", "w.bin")], [0, 1]),
        ([("location", "./w.bin"), ("offset", "8"), ("length", "8")], [2, 3]),
        ([("location", "w.bin"), ("offset", "4")], [1, 2]),
        ([("location", "sub/w.bin")], [4, 5]),
        ([("location", ".//sub/./w.bin"), ("offset", "0")], [4, 5]),
        ([("location", "w.bin"), ("basepath", "/etc"), ("__class__", "x")], [0, 1]),
    ],
)
def test_read(folder, entries, expected) -> None:
    found = decode(folder, *entries)
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    assert not found.flags.writeable


@pytest.mark.rule("EX-01")
def test_data_is_mapped_not_read(folder) -> None:
    (folder / "w.bin").write_bytes(bytes(1 << 20))
    found = decode(folder, ("location", "w.bin"), dims=[1 << 18])
    base = found
    while isinstance(base, np.ndarray):
        base = base.base
    assert type(base.obj).__name__ == "mmap"


@pytest.mark.rule("EX-08")
def test_several_tensors_of_one_file(folder) -> None:
    """Adjacent and overlapping; the file is mapped once, whatever it is called."""
    place = document(folder)
    for entries, expected in (
        ([("location", "w.bin")], [0, 1]),
        ([("location", "./w.bin"), ("offset", "8")], [2, 3]),
        ([("location", "sub/../w.bin".replace("sub/../", "./")), ("offset", "4")], [1, 2]),
    ):
        np.testing.assert_array_equal(decode_tensor(tensor(*entries), "w", place), np.array(expected, np.float32))
    assert len(place.files._maps) == 1


def test_zero_elements(folder) -> None:
    (folder / "empty.bin").write_bytes(b"")
    assert decode(folder, ("location", "empty.bin"), dims=[0, 3]).shape == (0, 3)


@pytest.mark.rule("EX-02")
@pytest.mark.parametrize(
    "location",
    [
        "../secret.bin", "/etc/hostname", "sub/../../secret.bin", "sub/../w.bin", "", ".", "..", "..\\secret.bin",
        "C:w.bin", "c:/w.bin", "w.bin\0", "//etc/hostname",
    ],
)  # fmt: skip
def test_outside(folder, location) -> None:
    assert refused(SecurityError, folder, ("location", location)) == (
        f"the external data of initializer 'w' must lie in the model's folder, not at {location!r}; "
        f"copy it beside the model and do not trust the file otherwise"
    )


@pytest.mark.rule("EX-02")
@pytest.mark.parametrize("location", ["link.bin", "linked/secret.bin", "inner/w.bin", "sub/up/secret.bin", "broken"])
def test_symbolic_links(folder, location) -> None:
    """Also those that stay inside: what they point at can change at any time."""
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "linked").symlink_to("..")
    (folder / "inner").symlink_to("sub")
    (folder / "sub" / "up").symlink_to("../..")
    (folder / "broken").symlink_to("nothing")
    assert "must lie in the model's folder" in refused(SecurityError, folder, ("location", location))


def test_the_folder_itself_may_be_a_link(folder) -> None:
    (folder.parent / "alias").symlink_to(folder)
    np.testing.assert_array_equal(decode(folder.parent / "alias", ("location", "w.bin")), np.array([0, 1], np.float32))


@pytest.mark.rule("EX-02")
@pytest.mark.parametrize("location", ["hard.bin", "pipe.bin", "sub", "socket"])
def test_what_is_no_plain_file(folder, location, monkeypatch) -> None:
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe.bin")
    monkeypatch.chdir(folder)  # the path of a socket is short
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        found = refused(SecurityError, folder, ("location", location))
    assert found == (
        f"the external data of initializer 'w' must be a plain file with a single name, not what '{location}' is; "
        f"copy it beside the model"
    )


@pytest.mark.rule("EX-02")
def test_device(folder) -> None:
    """Reached by the folder /dev, because a test cannot make one."""
    assert "must be a plain file" in refused(SecurityError, Path("/dev"), ("location", "zero"))


@pytest.mark.rule("EX-03")
@pytest.mark.rule("EX-04")
@pytest.mark.rule("EX-05")
@pytest.mark.rule("EX-06")
@pytest.mark.rule("EX-10")
@pytest.mark.parametrize(
    ("entries", "fields", "message"),
    [
        ([("location", "none.bin")], {},
         "the external data of initializer 'w' must be in 'none.bin' beside the model, "
         "not missing (No such file or directory); copy that file too"),
        ([("location", "w.bin/w.bin")], {},
         "the external data of initializer 'w' must be in 'w.bin/w.bin' beside the model, "
         "not missing (Not a directory); copy that file too"),
        ([], {},
         "the external data of initializer 'w' must name its file, not leave it out; export the model again"),
        ([("location", "w.bin"), ("offset", "12")], {},
         "the external data of initializer 'w' must lie within 'w.bin' (16 bytes), "
         "not at bytes 12 to 20; copy the whole file again"),
        ([("location", "w.bin"), ("offset", "-4")], {},
         "'offset' of the external data of initializer 'w' must be a number of bytes, not '-4'; "
         "export the model again"),
        ([("location", "w.bin"), ("length", "0x8")], {},
         "'length' of the external data of initializer 'w' must be a number of bytes, not '0x8'; "
         "export the model again"),
        ([("location", "w.bin"), ("offset", "9" * 5000)], {},
         f"'offset' of the external data of initializer 'w' must be a number of bytes, not '{'9' * 40}'; "
         "export the model again"),
        ([("location", "w.bin"), ("length", str(1 << 50))], {},
         "the external data of initializer 'w' must be 8 bytes long, not 1125899906842624; export the model again"),
        ([("location", "w.bin"), ("length", "4")], {},
         "the external data of initializer 'w' must be 8 bytes long, not 4; export the model again"),
        ([("location", "w.bin"), ("location", "w.bin")], {},
         "'location' of the external data of initializer 'w' must be there once, not twice; export the model again"),
        ([("location", "w.bin")], {"dims": [1 << 62]},
         "the external data of initializer 'w' must lie within 'w.bin' (16 bytes), "
         "not at bytes 0 to 18446744073709551616; copy the whole file again"),
        ([("location", "w.bin")], {"float_data": [1, 2]},
         "initializer 'w' must not hold data as well as external data; export the model again"),
        ([("location", "w.bin")], {"raw_data": bytes(8)},
         "initializer 'w' must not hold data as well as external data; export the model again"),
        ([("location", "w.bin")], {"data_type": 8},
         "initializer 'w' must keep its strings in string_data, not in raw bytes; export the model again"),
    ],
)  # fmt: skip
def test_damaged(folder, entries, fields, message) -> None:
    assert refused(TensorDataError, folder, *entries, **fields) == message


@pytest.mark.rule("EX-07")
def test_checksum_is_that_of_the_whole_file_and_taken_once(folder, monkeypatch) -> None:
    digest = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
    place, calls, sha1 = document(folder), [], hashlib.sha1
    monkeypatch.setattr(hashlib, "sha1", lambda *a, **k: calls.append(1) or sha1(*a, **k))
    for entries in ([("checksum", digest)], [("checksum", digest.upper()), ("offset", "8")]):
        decode_tensor(tensor(("location", "w.bin"), *entries), "w", place)
    with pytest.raises(TensorDataError) as caught:
        decode_tensor(tensor(("location", "w.bin"), ("checksum", "00")), "w", place)
    assert str(caught.value) == (f"the external data of w must have the checksum 00, not {digest}; copy 'w.bin' again")
    assert len(calls) == 1


@pytest.mark.rule("EX-07")
@pytest.mark.rule("LM-02")
def test_checksum_of_a_file_with_a_hole(folder) -> None:
    """It takes no room on the disk and would take hours to read."""
    with (folder / "hole.bin").open("wb") as file:
        file.truncate(1 << 43)
    np.testing.assert_array_equal(decode(folder, ("location", "hole.bin")), np.zeros(2, np.float32))
    assert refused(LimitError, folder, ("location", "hole.bin"), ("checksum", "00")) == (
        "initializer 'w': total_bytes must be at most 8,589,934,592, not 8,796,093,022,208 to verify 'hole.bin'; "
        "if you trust the model, raise it with --limit total_bytes=NUMBER"
    )


@pytest.mark.rule("EX-05")
def test_file_that_cannot_be_mapped(folder, monkeypatch) -> None:
    def fail(*arguments, **options):
        raise ValueError("mmap length is greater than file size")

    monkeypatch.setattr("mmap.mmap", fail)
    assert refused(TensorDataError, folder, ("location", "w.bin")) == (
        "the external data of initializer 'w' must be in a file that can be mapped, not 'w.bin' "
        "(mmap length is greater than file size); copy the model and its data to a local disk"
    )


def model_with_external(location: str = "w.bin") -> bytes:
    b = Builder()
    b.output(b.node("Add", b.input("x", np.float32, (2,)), b.constant("w", np.zeros(2, np.float32)), output="y"))
    proto = onnx.load_from_string(hwflow.onnx.dumps(b.model()))
    theirs = onnx.TensorProto.FromString(tensor(("location", location)).SerializeToString())
    proto.graph.initializer[0].CopyFrom(theirs)
    return proto.SerializeToString()


@pytest.mark.rule("EX-09")
def test_through_load_and_loads(folder) -> None:
    (folder / "m.onnx").write_bytes(model_with_external())
    for model in (
        hwflow.onnx.load(folder / "m.onnx"),
        hwflow.onnx.loads(model_with_external(), base_dir=folder),
    ):
        found = hwflow.onnx.evaluate(model, {"x": np.ones(2, np.float32)})
        np.testing.assert_array_equal(found["y"], np.array([1, 2], np.float32))
    with pytest.raises(SecurityError) as caught:
        hwflow.onnx.loads(model_with_external())
    assert str(caught.value) == (
        "the model: initializer 'w' keeps its data in 'w.bin'; load the model from its file, or name the folder"
    )


def move_outside(proto: onnx.TensorProto) -> None:
    for field in ("float_data", "int32_data", "int64_data"):
        proto.ClearField(field)
    proto.data_location = EXTERNAL
    proto.external_data.add(key="location", value="../secret.bin")


@pytest.mark.rule("EX-11")
@pytest.mark.parametrize(
    "find",
    [
        lambda m: m.graph.initializer[0], lambda m: m.graph.sparse_initializer[0].values,
        lambda m: m.graph.sparse_initializer[0].indices, lambda m: m.graph.node[-1].attribute[3].t,
        lambda m: m.graph.node[-1].attribute[4].g.initializer[0], lambda m: m.graph.node[-1].attribute[8].tensors[1],
        lambda m: m.graph.node[-1].attribute[10].sparse_tensor.indices,
        lambda m: m.functions[0].node[0].attribute.add(name="t", type=4).t,
        lambda m: m.training_info[0].algorithm.initializer[0],
        lambda m: m.training_info[1].initialization.initializer[0],
    ],
)  # fmt: skip
def test_everywhere_in_a_model(folder, find) -> None:
    model = full_model()
    found = find(model)
    found.data_type = found.data_type or 1
    move_outside(found)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(SecurityError, match=re.escape("not at '../secret.bin'")):
        hwflow.onnx.load(folder / "m.onnx")


def large_model() -> Model:
    """Weights of several sizes and types, one of them in a subgraph."""
    rng = np.random.default_rng(0)
    small = np.arange(256, dtype=np.float32)  # 1 KiB stays inside
    weights = {
        "small": small, "w": rng.standard_normal((33, 65)), "h": rng.standard_normal(700).astype(np.float16),
        "i4": rng.integers(-8, 8, 3001).astype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)),
        "text": np.array(["a" * 2000, "b"], object), "columns": np.asfortranarray(rng.standard_normal((40, 50))),
    }  # fmt: skip
    inner = make_graph([], [], [], {"inner": rng.standard_normal(1000)}, name="branch")
    outer = Builder("g")
    outer.nodes("Any", outputs=["y"], domain="test", branch=inner)
    graph = replace(outer.graph(), initializers=weights)
    return make_model(graph, opsets={"test": 1}, ir_version=10)


@pytest.mark.rule("EX-01")
@pytest.mark.rule("EX-05")
@pytest.mark.rule("EX-07")
@pytest.mark.parametrize("checksum", [False, True])
def test_save(tmp_path, checksum) -> None:
    model = large_model()
    hwflow.onnx.save(model, tmp_path / "m.onnx", external=True, checksum=checksum)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    entries = {t.name: {e.key: e.value for e in t.external_data} for t in stored.graph.initializer}
    assert {name for name, entry in entries.items() if entry} == {"w", "h", "i4", "columns"}
    digest = hashlib.sha1((tmp_path / "m.onnx.data").read_bytes()).hexdigest()
    for entry in filter(None, entries.values()):
        assert int(entry["offset"]) % 4096 == 0
        assert entry.get("checksum") == (digest if checksum else None)
        assert entry["location"] == "m.onnx.data"
    theirs = onnx.load(tmp_path / "m.onnx")
    assert canonical(theirs) == canonical(onnx.load_from_string(hwflow.onnx.dumps(model)))
    again = hwflow.onnx.load(tmp_path / "m.onnx")
    assert hwflow.onnx.dumps(again) == hwflow.onnx.dumps(model)
    hwflow.onnx.save(again, tmp_path / "m.onnx", external=True)  # over the file that its weights are in
    assert hwflow.onnx.dumps(hwflow.onnx.load(tmp_path / "m.onnx")) == hwflow.onnx.dumps(model)


def test_save_under_a_name(tmp_path) -> None:
    hwflow.onnx.save(large_model(), tmp_path / "m.textproto", external="weights")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.textproto", "weights"]
    assert hwflow.onnx.dumps(hwflow.onnx.load(tmp_path / "m.textproto")) == hwflow.onnx.dumps(large_model())


@pytest.mark.parametrize("name", ["../w", "a/b", "..", ".", "m.onnx", "a\\b", "/w"])
def test_save_elsewhere(tmp_path, name) -> None:
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.save(large_model(), tmp_path / "m.onnx", external=name)
    assert str(caught.value) == (
        f"{tmp_path / 'm.onnx'}: the data file must be given next to the model, not {name!r}; choose another name"
    )
    assert not list(tmp_path.iterdir())


def test_failed_save_leaves_nothing(tmp_path) -> None:
    """A type that ONNX does not have is found after half of the data is written."""
    graph = replace(large_model().graph, initializers={"w": np.zeros(2000), "t": np.zeros(2000, "datetime64[s]")})
    with pytest.raises(HwflowError, match="the type of initializer 't' must be one that ONNX has"):
        hwflow.onnx.save(make_model(graph), tmp_path / "m.onnx", external=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_more_than_two_gib(tmp_path) -> None:
    """Zeros that take no memory; without a word the weights go beside the model, and come back mapped."""
    zeros = np.broadcast_to(np.zeros((), np.int8), (750 << 20, 1))
    names = ("a", "b", "c")
    model = make_model(replace(make_graph([], [], []), initializers=dict.fromkeys(names, zeros)))
    hwflow.onnx.save(model, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").stat().st_size == 3 * 750 << 20
    assert (tmp_path / "m.onnx").stat().st_size < 4096
    again = hwflow.onnx.load(tmp_path / "m.onnx")
    assert [array.shape for array in again.graph.initializers.values()] == [(750 << 20, 1)] * 3
    assert not again.graph.initializers["c"][-1:].any()
    with pytest.raises(LimitError, match="tensor_bytes must be at most"):
        hwflow.onnx.load(tmp_path / "m.onnx", limits=Limits(tensor_bytes=1 << 29))
    for path in tmp_path.iterdir():
        path.unlink()
