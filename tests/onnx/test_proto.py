"""The file format definition: the same fields as ONNX's, and no conflict with the `onnx` package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import hwflow.onnx
from hwflow.onnx import onnx_pb2

#: What ONNX defines and hwflow does not read: sharding over devices, and quantized types of no known writer.
LEFT_OUT = {
    "ModelProto.configuration",
    "NodeProto.device_configurations",
}


def fields(descriptor, prefix: str = "") -> Iterator[tuple[str, tuple]]:
    """(name, (number, type, repeated)) of every field of a message and of those inside."""
    for field in descriptor.fields:
        yield f"{prefix}{descriptor.name}.{field.name}", (field.number, field.type, field.is_repeated)
    for nested in descriptor.nested_types:
        yield from fields(nested, f"{prefix}{descriptor.name}.")


def enums(descriptor) -> dict[str, dict[str, int]]:
    return {enum.name: {v.name: v.number for v in enum.values} for enum in descriptor.enum_types}


@pytest.mark.parametrize("message", sorted(onnx_pb2.DESCRIPTOR.message_types_by_name))
def test_fields_are_those_of_onnx(message) -> None:
    ours = onnx_pb2.DESCRIPTOR.message_types_by_name[message]
    theirs = onnx.ModelProto.DESCRIPTOR.file.message_types_by_name[message]
    expected = dict(fields(theirs))
    found = dict(fields(ours))
    assert found == {name: value for name, value in expected.items() if name not in LEFT_OUT}
    for name, values in enums(ours).items():
        assert values == enums(theirs)[name]


def test_generated_module_is_up_to_date() -> None:
    """Every field of onnx.proto stands in the generated module with its number, and the other way round."""
    text = (Path(hwflow.onnx.__file__).parent / "onnx.proto").read_text()
    text = re.sub(r"//.*", "", text)
    in_text = sorted(re.findall(r"(\w+) = (\d+)\s*(?:\[packed = true\])?;", text))
    in_module: list[tuple[str, str]] = []

    def collect(descriptor) -> None:
        in_module.extend((field.name, str(field.number)) for field in descriptor.fields)
        for enum in descriptor.enum_types:
            in_module.extend((value.name, str(value.number)) for value in enum.values)
        for nested in descriptor.nested_types:
            collect(nested)

    for message in onnx_pb2.DESCRIPTOR.message_types_by_name.values():
        collect(message)
    assert in_text == sorted(in_module)


@pytest.mark.parametrize("order", [("onnx", "hwflow.onnx"), ("hwflow.onnx", "onnx")])
def test_lives_beside_the_onnx_package(run_python, order) -> None:
    imports = "; ".join(f"import {name}" for name in order)
    assert run_python(f"{imports}; print(onnx.ModelProto.__name__, callable(hwflow.onnx.load))") == "ModelProto True\n"


def test_import_needs_no_oracle(run_python) -> None:
    code = "import hwflow.onnx, sys; print({'onnx', 'onnxruntime', 'amaranth', 'torch'} & set(sys.modules))"
    assert run_python(code) == "set()\n"
