"""The tables of operators, of their traits and of steps of conversion: complete, and about versions that exist."""

from __future__ import annotations

import onnx.defs

from hwflow.onnx import operators
from hwflow.onnx.container.reader import MAX_IR_VERSION
from hwflow.onnx.conversion.convert import DOMAINS, UP
from hwflow.onnx.ops import MAX_OPSET, OPERATORS, find_operator
from hwflow.onnx.schemas import SCHEMAS

#: The sets that are not previews.
STANDARD = ("", "ai.onnx.ml")
#: Every operator, and the versions that have one before them.
NEWER = {key: {schema.since for schema in versions[1:]} for key, versions in SCHEMAS.items() if key[0] in DOMAINS}


def test_a_kernel_starts_with_a_version_that_changed_the_operator() -> None:
    for key, versions in OPERATORS.items():
        sinces = [version.since for version in versions]
        assert sinces == sorted(set(sinces)), key
        assert key[0] not in STANDARD or set(sinces) <= {schema.since for schema in SCHEMAS[key]}, key


def test_every_operator_of_onnx_is_there_in_every_version() -> None:
    """Except those that a newer set took away again."""
    missing = [schema.identifier for (domain, op), versions in SCHEMAS.items() for schema in versions
               if domain in STANDARD and not schema.deprecated and find_operator(domain, op, schema.since) is None]
    assert missing == []


def test_newest_versions_are_those_of_onnx() -> None:
    """A new release of ONNX may change operators: look at the changes, then raise the limits."""
    assert onnx.defs.onnx_opset_version() >= MAX_OPSET
    assert onnx.IR_VERSION >= MAX_IR_VERSION


def test_steps_of_conversion() -> None:
    """One leads to every version from the one before, and none is about an operator that does not exist."""
    assert {key: set(UP.get(key, {})) for key in NEWER} == NEWER
    assert set(UP) <= set(NEWER)


def test_rows_of_traits() -> None:
    """Each is of an operator, its versions that are the same are versions, its texts are attributes."""
    rows = operators.OPERATORS
    assert set(rows) <= set(SCHEMAS)
    assert not {key: row.same for key, row in rows.items()
                if not {schema.since for schema in SCHEMAS[key][1:]}.issuperset(row.same)}
    assert not [(key, name) for key, row in rows.items() for name in row.texts
                if not any(name in schema.attributes for schema in SCHEMAS[key])]
    unknown = operators.row_of("", "NoSuchOperator")
    assert not unknown.traits
    assert unknown.layers == ()


def test_scales_of_integer_results_are_where_the_schemas_have_them() -> None:
    rows = operators.OPERATORS
    positions = {key: row.integer_result for key, row in rows.items() if row.integer_result}
    names = {key: tuple(SCHEMAS[key][-1].inputs[at].name.lower() for at in ends) for key, ends in positions.items()}
    assert set(names.values()) == {("y_scale", "y_zero_point"), ("c_scale", "c_zero_point")}
