"""The operator table against the schemas and the installed ONNX."""

from __future__ import annotations

import onnx.defs
import pytest

from hwflow.onnx.container.reader import MAX_IR_VERSION
from hwflow.onnx.ops import MAX_OPSET, OPERATORS, find_operator
from hwflow.onnx.schemas import SCHEMAS

#: The sets that are not previews.
STANDARD = ("", "ai.onnx.ml")


@pytest.mark.parametrize(("domain", "op"), sorted(key for key in OPERATORS if key[0] in STANDARD))
def test_versions_are_those_of_the_schemas(domain, op) -> None:
    """A kernel starts with a version that changed the operator."""
    assert {version.since for version in OPERATORS[domain, op]} <= {s.since for s in SCHEMAS[domain, op]}


def test_every_operator_of_onnx_is_there_in_every_version() -> None:
    """Except those that a newer set took away again."""
    missing = [
        schema.identifier
        for (domain, op), versions in SCHEMAS.items()
        for schema in versions
        if domain in STANDARD and not schema.deprecated and find_operator(domain, op, schema.since) is None
    ]
    assert missing == []


def test_versions_in_order() -> None:
    for key, versions in OPERATORS.items():
        assert [v.since for v in versions] == sorted({v.since for v in versions}), key


def test_newest_versions_are_those_of_onnx() -> None:
    """A new release of ONNX may change operators: look at the changes, then raise the limits."""
    assert onnx.defs.onnx_opset_version() >= MAX_OPSET
    assert onnx.IR_VERSION >= MAX_IR_VERSION
