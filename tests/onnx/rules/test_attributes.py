"""Attributes: rules AT."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto

from hwflow.onnx import evaluate, loads
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.operators import OPERATORS
from hwflow.onnx.rules.attributes import FIELDS, KINDS, attributes_fit
from hwflow.onnx.schemas import SCHEMAS, versions_of
from tests.onnx.rules.protos import (
    model,
    node,
    value,
    warned,
)


def with_attributes(*attributes: AttributeProto, op: str = "LeakyRelu", **more: Any) -> onnx.ModelProto:
    made = node(op)
    made.attribute.extend(attributes)
    return model(made, **more)


@pytest.mark.rule("AT-01")
def test_attributes_are_constants_of_nodes() -> None:
    """Nothing but a node has attributes, besides the defaults of a function."""
    messages = {field.message_type for m in pb.DESCRIPTOR.message_types_by_name.values() for field in m.fields}
    holders = {
        message.name
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        if any(field.message_type is pb.AttributeProto.DESCRIPTOR for field in message.fields)
    }
    assert pb.AttributeProto.DESCRIPTOR in messages
    assert holders == {"NodeProto", "FunctionProto"}


@pytest.mark.rule("AT-07")
def test_kinds_of_value() -> None:
    assert {kind.value for kind in KINDS.values()} == {
        "float", "int", "string", "tensor", "graph", "sparse_tensor", "type_proto",
        "floats", "ints", "strings", "tensors", "graphs", "sparse_tensors", "type_protos"}  # fmt: skip
    fields = {field.name for field in pb.AttributeProto.DESCRIPTOR.fields}
    assert set(FIELDS.values()) == fields - {"name", "ref_attr_name", "doc_string", "type"}


@pytest.mark.rule("AT-07")
def test_floats_have_32_bits() -> None:
    proto = model(node("LeakyRelu", alpha=0.1))
    found = loads(proto.SerializeToString()).graph.nodes[0].attributes["alpha"]
    assert found == float(np.float32(0.1)) != 0.1


@pytest.mark.rule("AT-07")
def test_texts_that_are_not_utf8() -> None:
    bad = AttributeProto(name="value_string", type=AttributeProto.STRING, s=b"\xff\xfe")
    proto = with_attributes(bad, op="Constant")
    proto.graph.node[0].ClearField("input")
    proto.graph.output[0].CopyFrom(value("y", TensorProto.STRING, ()))
    assert warned(proto) == (
        "graph/node[0] 'y' (Constant)/attribute 'value_string': a text should be UTF-8, not b'\\xff\\xfe'; "
        "export the model again [AT-07 W-attribute-bytes]"
    )
    assert loads(proto.SerializeToString()).graph.nodes[0].attributes["value_string"] == b"\xff\xfe"


@pytest.mark.rule("AT-10")
def test_attributes_of_every_version_of_every_operator() -> None:
    """Each with all its attributes, of the right kind: no finding; without a required one or with an odd one: one."""
    for versions in SCHEMAS.values():
        for schema in versions:
            if schema.deprecated:
                continue
            kinds = {kind: number for number, kind in KINDS.items()}
            given = {name: kinds[entry.kind] for name, entry in schema.attributes.items()}
            assert fit(schema.domain, schema.name, schema.since, given) == [], schema.identifier
            for name, entry in schema.attributes.items():
                rest = {other: kind for other, kind in given.items() if other != name}
                found = fit(schema.domain, schema.name, schema.since, rest)
                assert len(found) == entry.required, (schema.identifier, name)
                wrong = given | {
                    name: AttributeProto.INT if given[name] != AttributeProto.INT else AttributeProto.FLOATS
                }
                assert len(fit(schema.domain, schema.name, schema.since, wrong)) == 1, (schema.identifier, name)
            assert len(fit(schema.domain, schema.name, schema.since, given | {"of_no_version": 1})) == 1


def fit(domain: str, op: str, version: int, kinds: dict[str, int]) -> list[str]:
    proto = pb.ModelProto(ir_version=8)
    proto.opset_import.add(domain=domain, version=version)
    made = proto.graph.node.add(domain=domain, op_type=op)
    for name, kind in kinds.items():
        made.attribute.add(name=name, type=kind)
    return [str(found) for found in attributes_fit(Document(proto))]


@pytest.mark.rule("AT-11")
def test_the_defaults_of_the_schemas_are_among_the_words() -> None:
    checked = 0
    for (domain, op), row in OPERATORS.items():
        for attribute in row.texts:
            for schema in versions_of(domain, op):
                default = schema.attributes[attribute].default if attribute in schema.attributes else None
                if isinstance(default, str):
                    allowed = row.allowed_texts(attribute, schema.since)
                    assert allowed is not None
                    assert default in allowed, schema.identifier
                    checked += 1
    assert checked > 80


@pytest.mark.rule("AT-11")
def test_not_a_number_is_allowed_and_odd() -> None:
    assert warned(model(node("LeakyRelu", alpha=math.nan))) == (
        "graph/node[0] 'y' (LeakyRelu)/attribute 'alpha': the value should be a number, not NaN; "
        "export the model again [AT-11 W-nan]"
    )
    proto = model(node("LeakyRelu", alpha=math.nan))
    result = evaluate(loads(proto.SerializeToString()), {"x": np.array([-1, 2], np.float32)})["y"]
    assert np.isnan(result[0])
    assert result[1] == 2
