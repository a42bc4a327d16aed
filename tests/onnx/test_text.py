"""Models in protobuf's text format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx.container import files as text
from hwflow.onnx.errors import FormatError, LimitError
from tests.onnx.full_model import full_model
from tests.onnx.protos import canonical


@pytest.mark.parametrize("suffix", [".textproto", ".pbtxt", ".prototxt", ".txtpb", ".PBTXT"])
def test_round_trip(tmp_path, suffix) -> None:
    """The text is the one that onnx reads, and the model comes back as it was."""
    model = hwflow.onnx.loads(full_model().SerializeToString())
    path = tmp_path / f"m{suffix}"
    hwflow.onnx.save(model, path)
    assert 'op_type: "Add"' in path.read_text("utf-8")
    theirs = text_format.Parse(path.read_text("utf-8"), onnx.ModelProto())
    assert canonical(theirs) == canonical(full_model())
    assert hwflow.onnx.dumps(hwflow.onnx.load(path)) == hwflow.onnx.dumps(model)


def test_text_that_onnx_wrote(tmp_path) -> None:
    for name in ("m.textproto", "m.onnxtxt"):
        (tmp_path / name).write_text(text_format.MessageToString(full_model()), "utf-8")
        written = onnx.load_from_string(hwflow.onnx.dumps(hwflow.onnx.load(tmp_path / name)))
        assert canonical(written) == canonical(full_model())


def test_floats_are_exact(tmp_path) -> None:
    values = np.array([0.1, 1e-45, np.inf, -0.0, 3.4028235e38, np.nan], np.float32)
    model = full_model()
    model.graph.initializer.add(name="f", data_type=1, dims=[6], float_data=values.tolist())
    (tmp_path / "m.pbtxt").write_text(text_format.MessageToString(model), "utf-8")
    found = hwflow.onnx.load(tmp_path / "m.pbtxt").graph.initializers["f"]
    np.testing.assert_array_equal(found.view(np.int32), values.view(np.int32))


def refused(path: Path, error: type[HwflowError], data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(error) as caught:
        hwflow.onnx.load(path)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.rule("IR-02")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ir_version: x", "must be a ModelProto in protobuf's text format, not: 1:13 : 'ir_version: x': "),
        (b"nonsense: 1", "must be a ModelProto in protobuf's text format, not: 1:1 : "),
        (b"graph {", "must be a ModelProto in protobuf's text format, not: "),
        (b"\x08\xff", "must be UTF-8 text, not b'\\xff'; give a binary model the suffix .onnx"),
        (b"ir_version: 99999999999999999999", "must be a ModelProto in protobuf's text format, not: "),
        (b"", "must be an ONNX model, not empty; export or copy it again"),
    ],
)
def test_no_model(tmp_path, data, message) -> None:
    assert refused(tmp_path / "m.textproto", FormatError, data).startswith(message)


@pytest.mark.rule("LM-01")
@pytest.mark.parametrize("depth", [40, 100, 5000, 100_000])
def test_nested_too_deep(tmp_path, depth) -> None:
    data = b"ir_version: 8 " + b"graph { node { attribute { " + b"g { node { attribute { " * depth + b"} } } " * depth
    assert refused(tmp_path / "m.textproto", LimitError, data + b"} } }") == (
        "must be nested at most 100 messages (32 graphs) deep; simplify the model"
    )


def test_too_long(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(text, "MAX_TEXT_BYTES", 100)
    assert refused(tmp_path / "m.textproto", LimitError, b" " * 101) == (
        "must be at most 100 bytes of text, not 101; use the binary format"
    )


def test_unknown_fields_have_no_text(tmp_path) -> None:
    model = hwflow.onnx.loads(full_model(unknown=True).SerializeToString())
    with pytest.raises(FormatError, match="must be saved in binary form"):
        hwflow.onnx.save(model, tmp_path / "m.textproto")
    assert not list(tmp_path.iterdir())


def test_suffix_of_another_format(tmp_path) -> None:
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.save(hwflow.onnx.loads(full_model().SerializeToString()), tmp_path / "m.onnxtxt")
    assert str(caught.value) == (
        f"{tmp_path / 'm.onnxtxt'}: protobuf text must not be called .onnxtxt, which is another format; use .textproto"
    )
