"""The file format definition: the same fields as ONNX's, and no conflict with the `onnx` package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import onnx_data_pb2, onnx_ml_pb2, onnx_operators_ml_pb2

import hwflow.onnx
from hwflow.onnx import onnx_pb2, operators_pb2

OURS = (onnx_pb2.DESCRIPTOR, operators_pb2.DESCRIPTOR)
THEIRS = (onnx_ml_pb2.DESCRIPTOR, onnx_data_pb2.DESCRIPTOR, onnx_operators_ml_pb2.DESCRIPTOR)


def messages(files) -> dict:
    return {name: message for file in files for name, message in file.message_types_by_name.items()}


def fields(descriptor, prefix: str = "") -> Iterator[tuple[str, tuple]]:
    """(name, (number, type, repeated, packed, type of message or enum, oneof)) of every field, and of those inside."""
    for field in descriptor.fields:
        named = field.message_type or field.enum_type
        kind = named.full_name.partition("onnxpb." if "onnxpb" in named.full_name else "onnx.")[2] if named else None
        oneof = field.containing_oneof.name if field.containing_oneof else None
        what = (field.number, field.type, field.is_repeated, field.is_packed, kind, oneof)
        yield f"{prefix}{descriptor.name}.{field.name}", what
    for nested in descriptor.nested_types:
        yield from fields(nested, f"{prefix}{descriptor.name}.")


def enums(descriptor) -> dict[str, dict[str, int]]:
    return {enum.name: {v.name: v.number for v in enum.values} for enum in descriptor.enum_types}


def test_no_message_is_left_out() -> None:
    assert set(messages(OURS)) == set(messages(THEIRS))
    assert len(messages(OURS)) == 25


@pytest.mark.rule("IR-02")
@pytest.mark.parametrize("message", sorted(messages(OURS)))
def test_fields_are_those_of_onnx(message) -> None:
    ours, theirs = messages(OURS)[message], messages(THEIRS)[message]
    assert dict(fields(ours)) == dict(fields(theirs))
    assert enums(ours) == enums(theirs)


@pytest.mark.parametrize("name", ["Version", "OperatorStatus"])
def test_enums_are_those_of_onnx(name) -> None:
    ours, theirs = (file.enum_types_by_name[name] for file in (onnx_pb2.DESCRIPTOR, onnx_ml_pb2.DESCRIPTOR))
    assert {v.name: v.number for v in ours.values} == {v.name: v.number for v in theirs.values}


@pytest.mark.parametrize("file", [onnx_pb2, operators_pb2], ids=["onnx", "operators"])
def test_generated_module_is_up_to_date(file) -> None:
    """Every field of the .proto file stands in the generated module with its number, and the other way round."""
    text = (Path(hwflow.onnx.__file__).parent.parent.parent / file.DESCRIPTOR.name).read_text()
    text = re.sub(r"//.*", "", text)
    in_text = sorted(re.findall(r"(\w+) = (\d+)\s*(?:\[packed = true\])?;", text))
    in_module: list[tuple[str, str]] = []

    def collect(descriptor) -> None:
        in_module.extend((field.name, str(field.number)) for field in descriptor.fields)
        for enum in descriptor.enum_types:
            in_module.extend((value.name, str(value.number)) for value in enum.values)
        for nested in descriptor.nested_types:
            collect(nested)

    for message in file.DESCRIPTOR.message_types_by_name.values():
        collect(message)
    for enum in file.DESCRIPTOR.enum_types_by_name.values():
        in_module.extend((value.name, str(value.number)) for value in enum.values)
    assert in_text == sorted(in_module)


@pytest.mark.parametrize("order", [("onnx", "hwflow.onnx"), ("hwflow.onnx", "onnx")])
def test_lives_beside_the_onnx_package(run_python, order) -> None:
    imports = "; ".join(f"import {name}" for name in order)
    assert run_python(f"{imports}; print(onnx.ModelProto.__name__, callable(hwflow.onnx.load))") == "ModelProto True\n"


def test_import_needs_no_oracle(run_python) -> None:
    code = "import hwflow.onnx, sys; print({'onnx', 'onnxruntime', 'amaranth', 'torch'} & set(sys.modules))"
    assert run_python(code) == "set()\n"
