"""The table of operator schemas against the installed `onnx`, and the choice of a version."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import defs, helper

from hwflow.onnx.schemas import ANY, NEWEST, SCHEMAS, AttributeKind, Option, find_schema, versions_of
from hwflow.onnx.schemas.schema import read_table

ROOT = Path(__file__).parent.parent.parent
STANDARD, _ = read_table(ROOT / "hwflow" / "onnx" / "schemas" / "standard.json")
ORACLE = sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version))


def plain(type_name):
    """`onnx` writes a map's value as "tensor(float)" in parameters and as "float" in constraints."""
    return re.sub(r"(map\(\w+,)tensor\((\w+)\)", r"\1\2", type_name.replace(" ", ""))


@pytest.mark.rule("OS-18")
def test_the_table_is_what_the_script_writes():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "operator_schemas.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.rule("OS-18")
def test_every_schema_with_its_history_is_there():
    ours = {(s.domain, s.name, s.since) for versions in STANDARD.values() for s in versions}
    assert ours == {(s.domain, s.name, s.since_version) for s in ORACLE}
    assert NEWEST[""] == defs.onnx_opset_version()


@pytest.mark.parametrize("letter", sorted({schema.name[0] for schema in ORACLE}))
def test_schemas_say_what_onnx_says(letter):
    for oracle in ORACLE:
        if oracle.name.startswith(letter):
            require_equal(oracle)


def require_equal(oracle):
    schema = find_schema(oracle.domain, oracle.name, oracle.since_version)
    assert schema is not None
    assert schema.since == oracle.since_version
    assert schema.deprecated == oracle.deprecated
    limits = [min(n, ANY) if n < 2**30 else ANY for n in (oracle.min_input, oracle.max_input)]
    assert schema.input_limits == tuple(limits)
    limits = [n if n < 2**30 else ANY for n in (oracle.min_output, oracle.max_output)]
    assert schema.output_limits == tuple(limits)
    for formal, parameter in zip((*oracle.inputs, *oracle.outputs), (*schema.inputs, *schema.outputs), strict=True):
        assert (parameter.name, parameter.option.name) == (formal.name, formal.option.name.upper())
        assert schema.allowed(parameter) == {plain(name) for name in formal.types}
    assert schema.attributes.keys() == oracle.attributes.keys()
    for name, attribute in schema.attributes.items():
        theirs = oracle.attributes[name]
        assert (attribute.kind.value, attribute.required) == (theirs.type.name.lower(), theirs.required)
        if theirs.default_value.type:
            value = helper.get_attribute_value(theirs.default_value)
            value = [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value
            expected = value.decode() if isinstance(value, bytes) else value
            assert (list(attribute.default) if attribute.kind.is_list else attribute.default) == expected
        else:
            assert attribute.default is None


@pytest.mark.rule("OS-09")
def test_an_operator_has_one_schema_a_version():
    for versions in SCHEMAS.values():
        sinces = [schema.since for schema in versions]
        assert sinces == sorted(set(sinces))


@pytest.mark.rule("OS-10")
def test_the_newest_version_that_is_not_newer_than_the_set_is_meant():
    assert [find_schema("", "Softmax", opset).since for opset in (1, 10, 11, 12, 13, 28)] == [1, 1, 11, 11, 13, 13]
    assert find_schema("", "Gelu", 19) is None
    assert find_schema("", "NoSuchOperator", 28) is None
    assert versions_of("ai.onnx.ml", "NoSuchOperator") == ()
    assert find_schema("", "Upsample", 10).deprecated


def test_positions_beyond_the_last_parameter_belong_to_a_variadic_one():
    concat = find_schema("", "Concat", 13)
    assert concat.input(5).option is Option.VARIADIC
    assert find_schema("", "Relu", 14).input(1) is None
    assert concat.attributes["axis"].kind is AttributeKind.INT
    assert concat.identifier == "ai.onnx.Concat:13"
