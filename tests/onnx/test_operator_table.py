"""The operator table against the schemas and the installed ONNX."""

from __future__ import annotations

import onnx.defs
import pytest

from hwflow.onnx.ops import MAX_OPSET, OPERATORS
from hwflow.onnx.reader import MAX_IR_VERSION
from hwflow.onnx.schemas import versions_of


@pytest.mark.parametrize(("domain", "op"), sorted(OPERATORS))
def test_versions_are_those_of_the_schemas(domain, op) -> None:
    """A kernel starts with a version that changed the operator; a removed operator has none."""
    existing = {schema.since for schema in versions_of(domain, op) if not schema.deprecated}
    assert {version.since for version in OPERATORS[domain, op]} <= existing


def test_versions_in_order() -> None:
    for key, versions in OPERATORS.items():
        assert [v.since for v in versions] == sorted({v.since for v in versions}), key


def test_newest_versions_are_those_of_onnx() -> None:
    """A new release of ONNX may change operators: look at the changes, then raise the limits."""
    assert onnx.defs.onnx_opset_version() >= MAX_OPSET
    assert onnx.IR_VERSION >= MAX_IR_VERSION
