"""Operator set documents: read, written, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import onnx_operators_ml_pb2 as theirs

import hwflow.onnx
from hwflow.onnx.container.opset_document import (
    OperatorEntry,
    OperatorSet,
    load_operator_set,
    read_operator_set,
    require_distinct,
    write_operator_set,
)
from hwflow.onnx.errors import FormatError, InvalidModel
from tests.onnx.full_model import full_model, unknown_field


def document() -> theirs.OperatorSetProto:
    """A document with every field, as the onnx package writes it."""
    proto = theirs.OperatorSetProto(
        magic="ONNXOPSET", ir_version=10, ir_version_prerelease="rc1", ir_build_metadata="build.7", domain="com.acme",
        opset_version=3, doc_string="set", functions=full_model().functions,
    )  # fmt: skip
    proto.operator.add(op_type="Foo", since_version=1, status=onnx.onnx_ml_pb2.STABLE, doc_string="foo")
    proto.operator.add(op_type="f", since_version=3, status=onnx.onnx_ml_pb2.EXPERIMENTAL)
    return proto


@pytest.mark.rule("OS-01")
@pytest.mark.rule("OS-02")
@pytest.mark.rule("OS-03")
def test_round_trip(tmp_path: Path) -> None:
    proto = document()
    proto.MergeFromString(unknown_field(proto))
    (tmp_path / "acme.onnxops").write_bytes(proto.SerializeToString())
    found = load_operator_set(tmp_path / "acme.onnxops")
    assert found.key == ("com.acme", 3)
    assert (found.ir_version, found.prerelease, found.build_metadata) == (10, "rc1", "build.7")
    assert found.operators == (OperatorEntry("Foo", 1, stable=True, doc_string="foo"), OperatorEntry("f", 3))
    assert [f.key for f in found.functions] == [("test", "f", "one"), ("test", "f", "two")]
    written = theirs.OperatorSetProto.FromString(write_operator_set(found))
    assert written.SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True)


def test_made_in_code() -> None:
    functions = hwflow.onnx.loads(full_model().SerializeToString()).functions
    made = OperatorSet("com.acme", 1, (OperatorEntry("Foo", 1),), functions)
    data = write_operator_set(made)
    assert theirs.OperatorSetProto.FromString(data).magic == "ONNXOPSET"
    again = read_operator_set(data)
    assert write_operator_set(again) == data
    assert replace(again, functions=()) == replace(made, functions=())


def test_the_set_of_onnx_itself() -> None:
    """The default domain may hold operators of ONNX only."""
    made = OperatorSet("", 13, (OperatorEntry("Relu", 13, stable=True),))
    assert read_operator_set(write_operator_set(made)) == made


@pytest.mark.rule("OS-02")
@pytest.mark.parametrize(
    "data",
    [
        b"", b"ONNXOPSET", b"\xff\xff", full_model().SerializeToString(),
        theirs.OperatorSetProto(magic="ONNXOPS", ir_version=8, domain="d", opset_version=1).SerializeToString(),
        theirs.OperatorSetProto(ir_version=8, domain="d", opset_version=1).SerializeToString(),
    ],
)  # fmt: skip
def test_other_files(data) -> None:
    with pytest.raises(FormatError) as caught:
        read_operator_set(data, "f")
    assert str(caught.value) == "f: must be an operator set document with the magic ONNXOPSET, not another file"


def changed(**fields) -> Callable[[theirs.OperatorSetProto], None]:
    def change(proto: theirs.OperatorSetProto) -> None:
        for name, value in fields.items():
            setattr(proto, name, value)

    return change


@pytest.mark.rule("OS-03")
@pytest.mark.rule("OS-04")
@pytest.mark.rule("OS-05")
@pytest.mark.rule("OS-09")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(ir_version=15), "the IR version must be 1 to 14, not 15; update hwflow"),
        (changed(ir_version=0), "the IR version must be 1 to 14, not 0; update hwflow"),
        (changed(domain=""), "an operator set must name its domain, not ONNX's own; give it a reverse-DNS name"),
        (changed(domain="ai.onnx"), "an operator set must name its domain, not ONNX's own; give it a reverse-DNS name"),
        (changed(opset_version=0), "the version of an operator set must be 1 to 2147483647, not 0; count from 1"),
        (changed(opset_version=-1), "the version of an operator set must be 1 to 2147483647, not -1; count from 1"),
        (changed(opset_version=1 << 31),
         "the version of an operator set must be 1 to 2147483647, not 2147483648; count from 1"),
        (changed(opset_version=2), "operator 'f' must be since version 1 to 2, not 3; correct it"),
        (lambda p: p.operator.add(op_type="Foo", since_version=2),
         "each operator must have a name of its own, not 'Foo'; rename it"),
        (lambda p: p.operator.add(since_version=2), "each operator must have a name of its own, not ''; rename it"),
        (lambda p: p.functions[0].attribute_proto.add().CopyFrom(p.functions[0].attribute_proto[0]),
         "function 'test.f': attribute 'beta' must be there once, not twice; export the model again"),
    ],
)  # fmt: skip
def test_broken_rules(change, message) -> None:
    proto = document()
    change(proto)
    with pytest.raises(InvalidModel) as caught:
        read_operator_set(proto.SerializeToString(), "f")
    assert str(caught.value) == f"f: {message}"


def test_writing_obeys_the_rules_too() -> None:
    with pytest.raises(InvalidModel, match="the version of an operator set must be 1 to"):
        write_operator_set(OperatorSet("com.acme", 0))


@pytest.mark.rule("OS-04")
def test_two_documents_of_one_version() -> None:
    one, two = OperatorSet("com.acme", 1), OperatorSet("com.acme", 2)
    require_distinct([one, two])
    with pytest.raises(InvalidModel) as caught:
        require_distinct([one, two, replace(two, doc_string="other")])
    assert str(caught.value) == "version 2 of 'com.acme' must be defined once, not twice; remove one"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(HwflowError) as caught:
        load_operator_set(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none'}: cannot be read (No such file or directory); check the path"
