"""The signatures in the operator table against the official ones."""

from __future__ import annotations

import onnx.defs
import pytest

from hwflow.onnx.ops import MAX_OPSET, MIN_OPSET, OPERATORS, find_operator
from hwflow.onnx.ops.base import ANY, AttributeKind
from hwflow.onnx.reader import MAX_IR_VERSION

#: Outputs and inputs that the kernels do not have, by operator: check refuses them.
NARROWER_OUTPUTS = {"MaxPool", "BatchNormalization", "LayerNormalization"}

KINDS = {
    "INT": AttributeKind.INT,
    "FLOAT": AttributeKind.FLOAT,
    "STRING": AttributeKind.STRING,
    "TENSOR": AttributeKind.TENSOR,
    "INTS": AttributeKind.INTS,
    "FLOATS": AttributeKind.FLOATS,
    "STRINGS": AttributeKind.STRINGS,
}


@pytest.mark.parametrize("op", sorted(op for _, op in OPERATORS))
def test_signature(op) -> None:
    """For each operator set: the same numbers of inputs and outputs, the same attributes of the same kinds."""
    for opset in range(MIN_OPSET, MAX_OPSET + 1):
        if not onnx.defs.has(op, ""):
            pytest.fail(f"{op} is no operator of ONNX")
        try:
            schema = onnx.defs.get_schema(op, opset, "")
        except onnx.defs.SchemaError:
            assert find_operator("", op, opset) is None, f"{op} does not exist in operator set {opset}"
            continue
        ours = find_operator("", op, opset)
        if ours is None:  # an older version that hwflow does not evaluate
            assert op in {"TopK", "Upsample"}
            continue
        wanted = (schema.min_input, min(schema.max_input, ANY))
        assert _capped(ours.inputs) == _capped(wanted), f"inputs in operator set {opset}"
        if op not in NARROWER_OUTPUTS:
            assert _capped(ours.outputs) == _capped((schema.min_output, schema.max_output)), opset
        attributes = {name: KINDS[a.type.name] for name, a in schema.attributes.items() if a.type.name in KINDS}
        assert ours.attributes == attributes, f"attributes in operator set {opset}"
        assert set(ours.required) == {name for name, a in schema.attributes.items() if a.required}, opset


def _capped(limits: tuple[int, int]) -> tuple[int, int]:
    return limits[0], min(limits[1], 1 << 20)


def test_versions_in_order() -> None:
    for key, versions in OPERATORS.items():
        assert [v.since for v in versions] == sorted({v.since for v in versions}), key


def test_newest_versions_are_those_of_onnx() -> None:
    """A new release of ONNX may change operators: look at the changes, then raise the limits."""
    assert onnx.defs.onnx_opset_version() >= MAX_OPSET
    assert onnx.IR_VERSION >= MAX_IR_VERSION
