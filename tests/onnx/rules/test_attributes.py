"""Attributes: rules AT."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

from hwflow.onnx import evaluate, loads
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.operators import OPERATORS
from hwflow.onnx.rules.attributes import FIELDS, KINDS, attributes_fit
from hwflow.onnx.schemas import SCHEMAS, versions_of
from tests.onnx.rules.protos import (
    F,
    error_of,
    errors,
    findings,
    graph,
    leniently,
    model,
    node,
    value,
    warned,
    weight,
)

I64 = TensorProto.INT64


def with_attributes(*attributes: AttributeProto, op: str = "LeakyRelu", **more: Any) -> onnx.ModelProto:
    made = node(op)
    made.attribute.extend(attributes)
    return model(made, **more)


def alpha(**fields: Any) -> AttributeProto:
    return AttributeProto(**{"name": "alpha", "type": AttributeProto.FLOAT, "f": 0.5} | fields)


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


@pytest.mark.rule("AT-02")
def test_names_are_unique() -> None:
    assert error_of(with_attributes(alpha(), alpha(f=0.25))) == (
        "graph/node[0] 'y' (LeakyRelu)/attribute 'alpha': an attribute must be there once, not twice; "
        "export the model again [AT-02]"
    )
    clash = model(node("LeakyRelu", ("alpha",), alpha=0.5), inputs=[value("alpha")])
    assert errors(clash) == []


@pytest.mark.rule("AT-03")
def test_name_and_type_are_given() -> None:
    assert error_of(with_attributes(alpha(name=""))) == (
        "graph/node[0] 'y' (LeakyRelu)/attribute [0]: an attribute must have a name, not an empty one; "
        "export the model again [AT-03]"
    )
    untyped = alpha()
    untyped.ClearField("type")
    message = "attribute 'alpha': the type of an attribute must be stated, not left out; export the model again [AT-03]"
    assert error_of(with_attributes(untyped)).endswith(message)
    assert error_of(with_attributes(alpha(type=AttributeProto.UNDEFINED))).endswith(message)
    assert errors(with_attributes(alpha())) == []


@pytest.mark.rule("AT-03")
def test_in_the_first_ir_version_the_value_says_the_type() -> None:
    untyped = AttributeProto(name="alpha", f=0.5)
    assert not any("AT-" in text for text in errors(with_attributes(untyped, ir=1, opset=1)))
    number = AttributeProto(name="alpha", i=1)
    assert any("must be a float, not an int" in text for text in errors(with_attributes(number, ir=1, opset=1)))
    assert any("[AT-03]" in text for text in errors(with_attributes(AttributeProto(name="alpha"), ir=1, opset=1)))


@pytest.mark.rule("AT-04")
def test_the_value_is_where_the_type_says() -> None:
    wrong = with_attributes(AttributeProto(name="alpha", type=AttributeProto.FLOAT, i=1))
    assert error_of(wrong) == (
        "graph/node[0] 'y' (LeakyRelu)/attribute 'alpha': the value of an attribute of type FLOAT must be in f, not i; "
        "export the model again [AT-04]"
    )


@pytest.mark.rule("AT-05")
@pytest.mark.parametrize(
    "fields, where",
    [({"i": 1}, "2 in f and i"), ({"ints": [1]}, "2 in f and ints"), ({"i": 0, "s": b""}, "3 in f and i and s")],
)
def test_there_is_one_value(fields: dict[str, Any], where: str) -> None:
    assert error_of(with_attributes(alpha(**fields))) == (
        f"graph/node[0] 'y' (LeakyRelu)/attribute 'alpha': an attribute must have one value, not {where}; "
        "export the model again [AT-05]"
    )


@pytest.mark.rule("AT-06")
def test_zero_and_empty_values_may_be_left_out() -> None:
    assert errors(with_attributes(AttributeProto(name="alpha", type=AttributeProto.FLOAT))) == []
    assert errors(with_attributes(AttributeProto(name="axis", type=AttributeProto.INT), op="Softmax")) == []
    shape = [value("x", F, (1, 1, 4)), value("y", F, (1, 1, 4))]
    empty = AttributeProto(name="pads", type=AttributeProto.INTS)
    pool = node("MaxPool", kernel_shape=[1])
    pool.attribute.append(empty)
    assert errors(model(pool, inputs=shape[:1], outputs=shape[1:])) == []
    without = helper.make_node("Constant", [], ["y"])
    without.attribute.append(AttributeProto(name="value", type=AttributeProto.TENSOR))
    assert error_of(model(without)) == (
        "graph/node[0] 'y' (Constant)/attribute 'value': an attribute must have its tensor, not no value; "
        "export the model again [AT-06]"
    )


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


@pytest.mark.rule("AT-08")
def test_attributes_of_later_kinds() -> None:
    sparse = helper.make_sparse_tensor(weight("", F, (1,), [1]), weight("", I64, (1,), [0]), [2])
    constant = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    assert errors(model(constant)) == []
    assert any("the attribute type SPARSE_TENSOR must come with IR version 6" in str(f)
               for f in findings(model(constant, ir=5, opset=11)))  # fmt: skip
    kind = helper.make_tensor_type_proto(F, [2])
    optional = helper.make_node("Optional", [], ["o"], type=kind)
    has = helper.make_node("OptionalHasElement", ["o"], ["y"])
    outputs = [value("y", TensorProto.BOOL, ())]
    assert errors(model(optional, has, outputs=outputs)) == []
    assert any("the attribute type TYPE_PROTO must come with IR version 8" in str(f)
               for f in findings(model(optional, has, outputs=outputs, ir=7)))  # fmt: skip


@pytest.mark.rule("AT-09")
def test_descriptions_do_not_matter() -> None:
    assert findings(with_attributes(alpha(doc_string="<b>&"))) == ()
    assert findings(with_attributes(alpha())) == ()


@pytest.mark.rule("AT-10")
@pytest.mark.parametrize(
    "wrong, message",
    [
        (node("LeakyRelu", alpha=1), "/attribute 'alpha': the attribute must be a float, not an int; "),
        (node("LeakyRelu", beta=1.0),
         "the attributes of ai.onnx.LeakyRelu:16 must be among alpha, not 'beta'; "),
        (node("Relu", alpha=1.0), "the attributes of ai.onnx.Relu:14 must be among none, not 'alpha'; "),
        (node("Concat"), "attribute 'axis' must be given, not left out; "),
        (node("Transpose", perm=0), "attribute 'perm': the attribute must be a list of ints, not an int; "),
        (node("Transpose", perm=[0.5]), "the attribute must be a list of ints, not a list of floats; "),
    ],
)  # fmt: skip
def test_attributes_are_those_of_the_operator(wrong: onnx.NodeProto, message: str) -> None:
    text = error_of(model(wrong))
    assert message in text
    assert text.endswith("export the model again [AT-10]")


@pytest.mark.rule("AT-10")
@pytest.mark.parametrize(
    "stale",
    [
        node("Relu", consumed_inputs=[0, 0]),
        node("Add", ("x", "x"), axis=1, broadcast=1),
        node("Dropout", is_test=1),
        node("Clip", min=0.0),
    ],
)
def test_attributes_of_other_versions_are_left_behind_by_exporters(stale: onnx.NodeProto) -> None:
    found = findings(model(stale))
    assert found
    assert {(f.rule, f.code, f.severity.value) for f in found} == {("AT-10", "W-stale-attribute", "warning")}
    assert {f.severity.value for f in findings(model(stale), strict=True)} == {"error"}
    assert "which another version has; it is ignored" in found[0].message


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


IMAGE = [value("x", F, (1, 1, 4, 4))]
OPEN = [value("y", F, (None, None, None, None))]


def conv(**attributes: Any) -> onnx.ModelProto:
    return model(node("Conv", ("x", "w"), **attributes), inputs=IMAGE, outputs=OPEN,
                 initializers=[weight("w", F, (1, 1, 1, 1), [1])])  # fmt: skip


def transpose(perm: list[int]) -> onnx.ModelProto:
    return model(node("Transpose", perm=perm), inputs=[value("x", F, (2,) * len(perm))],
                 outputs=[value("y", F, (2,) * len(perm))])  # fmt: skip


@pytest.mark.rule("AT-11")
@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda: conv(auto_pad="SAME"),
         "attribute 'auto_pad': the value must be one of NOTSET, SAME_LOWER, SAME_UPPER, VALID, not 'SAME'"),
        (lambda: conv(auto_pad="valid"), "not 'valid'"),
        (lambda: conv(strides=[0, 1]), "attribute 'strides': the values must be 1 or more, not [0, 1]"),
        (lambda: conv(dilations=[1, -1]), "attribute 'dilations': the values must be 1 or more, not [1, -1]"),
        (lambda: conv(group=0), "attribute 'group': the value must be 1 or more, not 0"),
        (lambda: conv(pads=[0, 0, 0, -1]), "attribute 'pads': the values must be 0 or more, not [0, 0, 0, -1]"),
        (lambda: conv(pads=[0, 0, 0]), "attribute 'pads': pads must have two numbers for each axis, not 3"),
        (lambda: conv(kernel_shape=[1, 1], strides=[1]),
         "attribute 'strides': the number of axes must be 2 as in kernel_shape, not 1"),
        (lambda: transpose([0, 0]), "attribute 'perm': perm must hold each of 0 to 1 once, not [0, 0]"),
        (lambda: transpose([0, 2]), "attribute 'perm': perm must hold each of 0 to 1 once, not [0, 2]"),
        (lambda: model(node("Cast", to=99)), "attribute 'to': the element type of the output must be one of 1, 2, "),
        (lambda: model(node("Cast", to=0)), "not 0"),
        (lambda: model(node("Cast", to=TensorProto.COMPLEX64)), "not 14 (complex64)"),
        (lambda: model(node("EyeLike", dtype=8)), "not 8 (string)"),
        (lambda: model(node("LayerNormalization", ("x", "x"), stash_type=7)),
         "attribute 'stash_type': the element type must be one of 1, 10, 11, 16, not 7"),
        (lambda: model(helper.make_node("Constant", [], ["y"], value_float=1.0, value_int=1)),
         "a Constant must have one attribute with its value, not 2"),
        (lambda: model(helper.make_node("Constant", [], ["y"])),
         "a Constant must have one attribute with its value, not 0"),
        (lambda: model(node("Pad", ("x", "p"), mode="wrap"), initializers=[weight("p", I64)]),
         "attribute 'mode': the value must be one of constant, edge, reflect, not 'wrap'"),
    ],
)  # fmt: skip
def test_values_that_the_operator_does_not_know(wrong: Callable[[], onnx.ModelProto], message: str) -> None:
    found = [text for text in errors(wrong()) if "[AT-11]" in text]
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.rule("AT-11")
@pytest.mark.parametrize(
    "right",
    [
        lambda: conv(auto_pad="SAME_UPPER"),
        lambda: conv(kernel_shape=[1, 1], strides=[1, 2], dilations=[1, 1], pads=[0, 1, 0, 1]),
        lambda: transpose([1, 0]),
        lambda: transpose([2, 0, 1]),
        lambda: model(node("Cast", to=F)),
        lambda: model(node("EyeLike", dtype=1), inputs=[value("x", F, (2, 2))], outputs=[value("y", F, (2, 2))]),
        lambda: model(node("Pad", ("x", "p"), mode="wrap"), opset=19, outputs=[value("y", F, (None,))],
                      initializers=[weight("p", I64)]),
    ],
)  # fmt: skip
def test_values_that_the_operator_knows(right: Callable[[], onnx.ModelProto]) -> None:
    assert errors(right()) == []


@pytest.mark.rule("AT-11")
def test_activations_of_recurrent_operators() -> None:
    def lstm(*names: str) -> list[str]:
        made = node("LSTM", ("x", "w", "r"), ("y",), hidden_size=1, activations=list(names))
        parts = [weight("w", F, (1, 4, 1), range(4)), weight("r", F, (1, 4, 1), range(4))]
        proto = model(made, inputs=[value("x", F, (1, 1, 1))], outputs=OPEN, initializers=parts)
        return [text for text in errors(proto) if "[AT-11]" in text]

    assert lstm("Sigmoid", "Tanh", "relu") == []
    (text,) = lstm("Sigmoid", "Tanh", "Gelu")
    assert "the activations must be among affine, elu, " in text
    assert text.endswith("not 'Gelu'; export the model again [AT-11]")


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


@pytest.mark.rule("AT-12")
def test_references_belong_into_functions() -> None:
    reference = AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope")
    assert error_of(with_attributes(reference)) == (
        "graph/node[0] 'y' (LeakyRelu)/attribute 'alpha': an attribute outside of a function's nodes must have a "
        "value, not refer to 'slope'; export the model again [AT-12]"
    )
    inner = node("LeakyRelu", ("a",), ("b",))
    inner.attribute.append(reference)
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("loc", "Leaky", ["a"], ["b"], [inner], opsets, attributes=["slope"])
    call = node("Leaky", domain="loc", slope=0.5)
    imports = [("", 17), ("loc", 1)]
    assert errors(model(call, imports=imports, functions=[function])) == []
    function.node[0].attribute[0].f = 0.5
    assert "an attribute that refers to 'slope' must have no value, not one in f" in error_of(
        model(call, imports=imports, functions=[function])
    )


@pytest.mark.rule("AT-12")
def test_the_default_of_a_function_is_a_value() -> None:
    function = helper.make_function("loc", "Same", ["a"], ["b"], [node("Relu", ("a",), ("b",))],
                                    [helper.make_opsetid("", 17)])  # fmt: skip
    function.attribute_proto.append(AttributeProto(name="k", type=AttributeProto.INT, ref_attr_name="other"))
    proto = model(node("Same", domain="loc"), imports=[("", 17), ("loc", 1)], functions=[function])
    assert error_of(proto).startswith("function 'loc.Same'/attribute_proto/attribute 'k': an attribute outside of a ")


def test_attributes_in_subgraphs_are_seen() -> None:
    inner = graph(node("LeakyRelu", ("x",), ("b",), slope=1.0), outputs=[value("b")], name="then")
    other = graph(node("Identity", ("x",), ("c",)), outputs=[value("c")], name="else")
    proto = model(node("If", ("p",), then_branch=inner, else_branch=other),
                  inputs=[value("x"), value("p", TensorProto.BOOL, ())])  # fmt: skip
    assert error_of(proto).startswith(
        "graph/node[0] 'y' (If)/attribute 'then_branch'/node[0] 'b' (LeakyRelu)/attribute 'slope': the attributes of "
    )
    assert leniently(model(node("Relu", spatial=1)))
