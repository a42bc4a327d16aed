"""Files: round trips, and the exact message for each file that is no model."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx import Model, TensorType
from hwflow.onnx.build import Builder
from hwflow.onnx.container.wire import has_more_messages, message_depths
from hwflow.onnx.errors import LimitError
from hwflow.onnx.limits import Limits
from tests.onnx.full_model import full_model
from tests.onnx.protos import messages


def small_model() -> Model:
    b = Builder("small")
    x = b.input("x", np.float32, ("batch", 3))
    w = b.constant("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    y = b.node("MatMul", x, w, name="fc", output="h")
    b.output(b.node("LeakyRelu", y, name="act", output="y", alpha=0.25), np.float32, ("batch", 2))
    return b.model(opset=17, metadata={"author": "Ada"})


def same(a: Model, b: Model) -> bool:
    """Equality with arrays compared element by element."""
    return hwflow.onnx.dumps(a) == hwflow.onnx.dumps(b)


def test_round_trip(tmp_path: Path) -> None:
    model = small_model()
    hwflow.onnx.save(model, tmp_path / "m.onnx")
    again = hwflow.onnx.load(tmp_path / "m.onnx")
    assert same(again, model)
    assert again.metadata == {"author": "Ada"}
    assert again.opsets == {"": 17}
    assert again.graph.inputs[0].type == TensorType(np.dtype(np.float32), ("batch", 3))
    assert again.graph.nodes == model.graph.nodes
    np.testing.assert_array_equal(again.graph.initializers["w"], model.graph.initializers["w"])
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_weights_are_views_of_the_file() -> None:
    """Read-only arrays over the bytes that protobuf hands out: the weights exist once."""
    weights = hwflow.onnx.loads(hwflow.onnx.dumps(small_model())).graph.initializers["w"]
    assert not weights.flags.writeable
    base = weights
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, bytes)


@pytest.mark.parametrize("ir_version", [3, 4, 8])
def test_initializers_are_no_inputs(ir_version) -> None:
    """Before IR 4 each initializer is listed as an input; afterwards it may be, as a default value."""
    node = oh.make_node("Add", ["x", "w"], ["y"])
    inputs = [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "w")]
    outputs = [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])]
    graph = oh.make_graph([node], "g", inputs, outputs, [oh.make_tensor("w", 1, [2], [1.0, 2.0])])
    proto = oh.make_model(graph, ir_version=ir_version, opset_imports=[oh.make_opsetid("", 8)])
    model = hwflow.onnx.loads(proto.SerializeToString())
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert list(model.graph.initializers) == ["w"]
    written = onnx.load_from_string(hwflow.onnx.dumps(model))
    assert [v.name for v in written.graph.input] == ["x", "w"]
    assert [value.name for value in model.graph.overridable] == ["w"]
    without = replace(model, graph=replace(model.graph, overridable=()))  # as code that knows nothing of it makes one
    written = onnx.load_from_string(hwflow.onnx.dumps(without))
    assert [v.name for v in written.graph.input] == (["x", "w"] if ir_version < 4 else ["x"])
    onnx.checker.check_model(written)


def test_attributes_of_every_kind() -> None:
    """A graph in an attribute, too."""
    inner = small_model().graph
    attributes = {
        "i": 3, "f": 0.5, "s": "text", "t": np.array([[1, 2]], np.int8), "g": inner, "ints": (1, 2),
        "floats": (0.5, 2.0), "strings": ("a", "b"), "tensors": (np.zeros(2), np.ones(1)), "graphs": (inner,),
    }  # fmt: skip
    b = Builder()
    b.output(b.nodes("Any", outputs=["y"], domain="test", **attributes)[0], np.float32, ())
    model = b.model(opsets={"test": 1})
    again = hwflow.onnx.loads(hwflow.onnx.dumps(model))
    found = again.graph.nodes[0].attributes
    for name in ("i", "f", "s", "ints", "floats", "strings"):
        assert found[name] == attributes[name]
    np.testing.assert_array_equal(found["t"], attributes["t"])
    assert found["g"].nodes == inner.nodes
    assert same(again, model)


BAD = {
    "empty": (b"", "must be an ONNX model, not empty; export or copy it again"),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n",
        "must be an ONNX model, not a Git LFS pointer; run `git lfs pull` to get the real file",
    ),
    "torch": (
        b"PK\x03\x04\x00\x00",
        "must be an ONNX model, not a zip archive (PyTorch or Keras); "
        "export the model with torch.onnx.export or tf2onnx",
    ),
    "keras": (b"\x89HDF\r\n\x1a\n", "must be an ONNX model, not an HDF5 file (Keras); convert it with tf2onnx"),
    "tflite": (
        b"\x1c\0\0\0TFL3\x14\0",
        "the model must lie within the file (10 bytes), not at bytes 28 to 32; the file is cut or damaged: copy or "
        "export it again",
    ),
    "html": (
        b"<!DOCTYPE html><html>",
        "must be an ONNX model, not HTML or XML; download the file itself, not the page about it",
    ),
    "model in text": (b"ir_version: 8", "must be an ONNX model, not a model in text; name it .textproto"),
    "text": (
        b"hello, this is no model",
        "must be an ONNX model, not a file that starts with b'hello, t'; export the model to ONNX first",
    ),
    "no graph": (b"\x08\x08", "the model must have a graph, not none; export the model again"),
    "cut in a length": (
        b"\x08\x08\x3a\xff",
        "must be a whole ONNX model, not truncated after 4 bytes (5 bytes announced); copy or export it again",
    ),
    "cut in a key": (
        b"\x08\x08\xba",
        "must be a whole ONNX model, not truncated after 3 bytes (more announced); copy or export it again",
    ),
    "damaged": (b"\x08\x08\x0f\x00", "must be an ONNX model, not damaged at byte 3; copy or export it again"),
    "damaged inside": (
        b"\x08\x08\x3a\x02\x0a\x7f",
        "must be an ONNX model, not damaged inside; copy or export it again",
    ),
    "ir 0": (
        b"\x08\x00\x3a\x00",
        "the IR version of the model must be 1 to 14, not 0; "
        "export it with a version of ONNX that is known here, or update hwflow",
    ),
    "no ir": (
        b"\x3a\x00",
        "the IR version of the model must be 1 to 14, not absent; "
        "export it with a version of ONNX that is known here, or update hwflow",
    ),
}


@pytest.mark.rule("IR-02")
@pytest.mark.rule("IR-03")
@pytest.mark.rule("IR-11")
@pytest.mark.rule("LM-03")
@pytest.mark.parametrize("name", BAD)
def test_bad_file(tmp_path: Path, name) -> None:
    data, message = BAD[name]
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.load(path)
    assert str(caught.value) == f"{path}: {message}"
    assert caught.value.exit_code == 2


def test_every_truncation_is_refused() -> None:
    """A file cut anywhere is refused by load or by check: what stands last, the operator sets, must be there."""
    data = hwflow.onnx.dumps(replace(small_model(), metadata={}))

    def outcome(size: int) -> str:
        try:
            findings = hwflow.onnx.check(hwflow.onnx.loads(data[:size], "cut.onnx"))
        except HwflowError as error:
            return str(error).removeprefix("cut.onnx: ")
        return findings[0].rule if findings else "good"

    outcomes = [outcome(size) for size in range(len(data))]
    assert "good" not in outcomes
    assert outcomes[-1].startswith("must be a whole ONNX model, not truncated after")
    # The exceptions are the cuts between two outermost fields.
    assert sum("not truncated after" in text for text in outcomes) >= len(data) - 6


def test_flipped_bytes_never_crash() -> None:
    data = bytearray(hwflow.onnx.dumps(small_model()))
    for place in range(len(data)):
        for value in (0x00, 0xFF, data[place] ^ 0x01):
            old, data[place] = data[place], value
            with contextlib.suppress(HwflowError):
                hwflow.onnx.check(hwflow.onnx.loads(bytes(data)))
            data[place] = old


def test_file_system_that_cannot_map(tmp_path: Path, monkeypatch) -> None:
    def fail(*arguments, **options):
        raise OSError("no such device")

    model = replace(small_model(), doc_string="long" * 50_000)
    hwflow.onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.setattr("mmap.mmap", fail)
    assert same(hwflow.onnx.load(tmp_path / "m.onnx"), model)


def test_folder_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: must be an ONNX file, not a folder; name the .onnx file in it"
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.load(tmp_path / "none.onnx")
    assert str(caught.value) == f"{tmp_path / 'none.onnx'}: there is no such file; check the path"


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.load(tmp_path / "pipe")
    assert str(caught.value) == (
        f"{tmp_path / 'pipe'}: must be an ONNX file, not a pipe or a device; save the model to a file first"
    )


def test_save_into_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "none" / "m.onnx"
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.save(small_model(), path)
    assert str(caught.value) == (
        f"{path}: the folder must exist and be writable (No such file or directory); choose another place for the model"
    )


def nested(depth: int) -> onnx.ModelProto:
    graph = oh.make_graph([], "inner", [], [])
    for _ in range(depth):
        graph = oh.make_graph([oh.make_node("If", ["c"], ["y"], name="if", then_branch=graph)], "g", [], [])
    return oh.make_model(graph, ir_version=8)


def field(number: int, value: bytes) -> bytes:
    """A field with a length."""
    size, encoded = len(value), bytearray([number << 3 | 2])
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(encoded) + bytes([size]) + value


def deep(depth: int) -> bytes:
    """The bytes of graphs in graphs, which onnx itself does not write so deep."""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(5, field(6, graph)))  # GraphProto.node, NodeProto.attribute, AttributeProto.g
    return b"\x08\x08" + field(7, graph)


@pytest.mark.rule("LM-01")
def test_graphs_nested_too_deep() -> None:
    """protobuf parses 100 messages, which are 32 graphs."""
    model = hwflow.onnx.loads(nested(32).SerializeToString())
    assert hwflow.onnx.loads(hwflow.onnx.dumps(model)) == model
    for depth in (34, 60, 3000):
        with pytest.raises(LimitError) as caught:
            hwflow.onnx.loads(deep(depth), "m.onnx")
        assert str(caught.value) == "m.onnx: must be nested at most 100 messages (32 graphs) deep; simplify the model"
    with pytest.raises(LimitError) as caught:
        hwflow.onnx.loads(nested(20).SerializeToString(), limits=Limits(depth=16))
    assert str(caught.value).endswith(
        "must not be nested deeper than 16 graphs; simplify the model, or raise it with --limit depth=NUMBER"
    )


def test_messages_are_counted() -> None:
    data = full_model(unknown=True).SerializeToString()
    depths = list(message_depths(data))
    assert len(depths) + 1 == sum(1 for _ in messages(full_model(unknown=True)))
    assert max(depths) == 11  # a dim of a tensor in a sequence in an optional in a list of types
    assert not has_more_messages(data, len(depths))
    assert has_more_messages(data, len(depths) - 1)


@pytest.mark.rule("LM-02")
@pytest.mark.parametrize("inside", [
    field(1, field(5, b"")), pytest.param(field(1, b""), marks=pytest.mark.slow),
    pytest.param(field(13, field(3, b"")), marks=pytest.mark.slow)])
def test_too_many_messages(inside) -> None:
    """Two bytes of a file would take hundreds of bytes of memory."""
    data = b"\x08\x08" + field(7, inside * 600_000)
    with pytest.raises(LimitError) as caught:
        hwflow.onnx.loads(data, "m.onnx", limits=Limits(messages=500_000))
    assert str(caught.value) == (
        "m.onnx: a file must consist of at most 500,000 messages, not of more; "
        "if you trust the model, raise it with --limit messages=NUMBER"
    )


@pytest.mark.rule("LM-02")
def test_mutated_models() -> None:
    """Whatever is changed: refused by a message, or read, and then what is written reads the same."""
    random, data = Random(1), full_model(unknown=True).SerializeToString()
    accepted = 0
    for _ in range(70):
        mutated = bytearray(data)
        for _ in range(random.randint(1, 3)):
            place = random.randrange(len(mutated))
            if random.random() < 0.7:
                mutated[place] = random.choice((0, 1, 127, 128, 255, mutated[place] ^ 1 << random.randrange(8)))
            else:
                mutated[place : place + random.randrange(4)] = random.randbytes(random.randrange(4))
        with contextlib.suppress(HwflowError):
            written = hwflow.onnx.dumps(hwflow.onnx.loads(bytes(mutated)))
            assert hwflow.onnx.dumps(hwflow.onnx.loads(written)) == written
            accepted += 1
    assert 4 < accepted < 66


def test_protobuf_without_its_compiled_part(run_python, tmp_path: Path) -> None:
    """The pure Python implementation parses more strictly; the user sees one message there, too."""
    (tmp_path / "good.onnx").write_bytes(hwflow.onnx.dumps(small_model()))
    (tmp_path / "bad.onnx").write_bytes(hwflow.onnx.dumps(small_model()).replace(b"MatMul", b"Mat\xff\xfel"))
    code = (
        "import hwflow.onnx, hwflow_base.errors, sys\n"
        "hwflow.onnx.load(sys.argv[1])\n"
        "try: hwflow.onnx.load(sys.argv[2])\n"
        "except hwflow_base.errors.HwflowError as error: print(error)"
    )
    path = tmp_path / "bad.onnx"
    printed = run_python(code, tmp_path / "good.onnx", path, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")
    assert printed == f"{path}: names must be UTF-8 text; the file is damaged, export the model again\n"
