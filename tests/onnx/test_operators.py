"""The table of operators against the schemas and the steps of conversion."""

from __future__ import annotations

from hwflow.onnx.operators import OPERATORS, row_of
from hwflow.onnx.schemas import SCHEMAS


def test_every_row_is_of_an_operator() -> None:
    assert set(OPERATORS) <= set(SCHEMAS)


def test_versions_that_are_the_same_are_versions() -> None:
    wrong = {key: row.same for key, row in OPERATORS.items()
             if not {schema.since for schema in SCHEMAS[key][1:]}.issuperset(row.same)}
    assert not wrong


def test_texts_are_of_attributes() -> None:
    wrong = [(key, name) for key, row in OPERATORS.items() for name in row.texts
             if not any(name in schema.attributes for schema in SCHEMAS[key])]
    assert not wrong


def test_an_operator_without_a_row_has_no_traits() -> None:
    row = row_of("", "NoSuchOperator")
    assert not row.traits
    assert row.layers == ()


def test_scales_of_integer_results_are_where_the_schemas_have_them() -> None:
    positions = {key: row.integer_result for key, row in OPERATORS.items() if row.integer_result}
    names = {key: tuple(SCHEMAS[key][-1].inputs[at].name.lower() for at in ends) for key, ends in positions.items()}
    assert set(names.values()) == {("y_scale", "y_zero_point"), ("c_scale", "c_zero_point")}
