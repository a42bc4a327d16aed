"""Functions of a model: rules FN."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, TensorProto, helper

from hwflow.onnx import check, evaluate, loads
from hwflow.onnx.limits import Limits
from tests.onnx.rules.protos import document, error_of, errors, findings, graph, leniently, model, node, value, warned


def function(
    name: str = "Foo",
    *nodes: onnx.NodeProto,
    inputs: Sequence[str] = ("a",),
    outputs: Sequence[str] = ("b",),
    opset: int = 17,
    domain: str = "com.acme",
    overload: str | None = None,
    imports: Sequence[tuple[str, int]] = (),
    **more: Any,
) -> FunctionProto:
    """The nodes (one Relu if none are given) as a function."""
    opsets = [helper.make_opsetid(d, v) for d, v in (("", opset), *imports)]
    body = list(nodes) or [node("Relu", ("a",), ("b",))]
    made = helper.make_function(domain, name, list(inputs), list(outputs), body, opsets, **more)
    if overload is not None:
        made.overload = overload
    return made


def calling(
    *functions: FunctionProto, call: onnx.NodeProto | None = None, ir: int = 10, **more: Any
) -> onnx.ModelProto:
    imports = more.pop("imports", [("", 17), ("com.acme", 1)])
    return model(call or node("Foo", domain="com.acme"), functions=functions, imports=imports, ir=ir, **more)


def nested(name: str, *callees: str) -> FunctionProto:
    """A function of `com.acme` that calls others one after the other."""
    values = ["a", *(f"t{i}" for i in range(1, len(callees))), "b"]
    body = [node(callee, (values[i],), (values[i + 1],), domain="com.acme") for i, callee in enumerate(callees)]
    return function(name, *body, imports=[("com.acme", 1)])


@pytest.mark.rule("FN-01")
def test_a_function_is_an_operator() -> None:
    proto = calling(function("Foo", node("Relu", ("a",), ("t",)), node("Neg", ("t",), ("b",))))
    assert findings(proto) == ()
    found = evaluate(loads(proto.SerializeToString()), {"x": np.array([-1, 2], np.float32)})["y"]
    assert found.tolist() == [0, -2]


@pytest.mark.rule("FN-02")
def test_functions_are_told_apart() -> None:
    twice = "function 'com.acme.Foo': domain, name and overload must be those of one function, not of two; "
    assert error_of(calling(function(), function())) == f"{twice}export the model again [FN-02]"
    alias = calling(function(domain="", name="Foo"), function(domain="ai.onnx", name="Foo"), call=node("Foo"))
    assert any(text.endswith("[FN-02]") for text in errors(alias))
    overloads = calling(
        function(overload="1"), function(overload="2"), call=node("Foo", domain="com.acme", overload="2")
    )
    assert errors(overloads) == []
    assert any("a function must have a name, not an empty one" in t for t in errors(calling(function(), function(""))))


@pytest.mark.rule("FN-03")
def test_no_recursion() -> None:
    itself = calling(nested("Foo", "Foo"))
    assert (
        "function 'com.acme.Foo': a function must not call itself, not as 'com.acme.Foo' -> 'com.acme.Foo' do; "
        in error_of(itself)
    )
    ring = calling(nested("Foo", "Bar"), nested("Bar", "Baz"), nested("Baz", "Foo"))
    assert "not as 'com.acme.Foo' -> 'com.acme.Bar' -> 'com.acme.Baz' -> 'com.acme.Foo' do" in error_of(ring)
    assert errors(calling(nested("Foo", "Bar", "Bar"), function("Bar"))) == []


@pytest.mark.rule("FN-03")
def test_no_recursion_through_subgraphs() -> None:
    inner = graph(node("Foo", ("a",), ("i",), domain="com.acme"), outputs=[value("i")], name="then")
    other = graph(node("Relu", ("a",), ("e",)), outputs=[value("e")], name="else")
    choice = node("If", ("p",), ("b",), then_branch=inner, else_branch=other)
    condition = node("Constant", (), ("p",), value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
    made = function("Foo", condition, choice, imports=[("com.acme", 1)])
    assert "a function must not call itself" in error_of(calling(made))


@pytest.mark.rule("FN-03")
def test_functions_are_not_nested_too_deep() -> None:
    def chain(length: int) -> onnx.ModelProto:
        names = ["Foo", *(f"F{i}" for i in range(1, length))]
        return calling(*(nested(a, b) for a, b in pairwise(names)), function(names[-1]))

    assert errors(chain(60)) == []
    assert "must be at most 64 deep in each other (depth)" in error_of(chain(100)), "the default limit of inference"
    assert {f.rule for f in check(loads(chain(100).SerializeToString()), limits=Limits(depth=100))} == set()
    assert "functions must call each other at most 100 deep, not 101" in error_of(chain(101))
    start = time.monotonic()
    assert "not 5000" in error_of(chain(5000))
    assert time.monotonic() - start < 20


@pytest.mark.rule("FN-03")
def test_there_are_not_too_many_functions() -> None:
    proto = calling(function())
    proto.functions.extend(FunctionProto(domain="com.acme", name=f"F{i}") for i in range(10_000))
    assert any("a model must have at most 10000 functions, not 10001" in text for text in errors(proto))


@pytest.mark.rule("FN-04")
def test_a_body_sees_its_own_values_only() -> None:
    outer = calling(function("Foo", node("Add", ("a", "x"), ("b",))))
    assert error_of(outer).startswith("function 'com.acme.Foo'/node[0] 'b' (Add): 'x' must be a value of the function")
    reference = node("LeakyRelu", ("a",), ("b",))
    reference.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    assert error_of(calling(function("Foo", reference))) == (
        "function 'com.acme.Foo'/node[0] 'b' (LeakyRelu)/attribute 'alpha': 'slope' must be an attribute of the "
        "function, not unknown; export the model again [FN-04]"
    )
    assert errors(calling(function("Foo", reference, attributes=["slope"]))) == []


@pytest.mark.rule("FN-04")
def test_names_of_the_signature() -> None:
    twice = function("Foo", node("Add", ("a", "a"), ("b",)), inputs=["a", "a"])
    assert any("input 'a' must be there once, not 2 times" in text for text in errors(calling(twice)))
    assert any(
        "an input of a function must have a name" in text for text in errors(calling(function(inputs=["a", ""])))
    )
    assert any("output 'b' must be there once" in text for text in errors(calling(function(outputs=["b", "b"]))))


@pytest.mark.rule("FN-05")
def test_outputs_are_written() -> None:
    proto = calling(function(outputs=["b", "c"]))
    assert error_of(proto) == (
        "function 'com.acme.Foo': output 'c' must be written by a node, not undefined; export the model again [FN-05]"
    )


@pytest.mark.rule("FN-06")
def test_the_domain_is_imported() -> None:
    found = errors(calling(function(), imports=[("", 17)]))
    assert (
        "function 'com.acme.Foo': operator set 'com.acme' of the function must be imported, not missing; "
        "add it to opset_import of the model [FN-06]"
    ) in found


@pytest.mark.rule("FN-07")
def test_operator_sets_of_function_and_model_agree() -> None:
    assert errors(calling(function(opset=16))) == []  # Relu is the same
    softmax = node("Softmax", ("a",), ("b",))
    assert error_of(calling(function("Foo", softmax, opset=11))) == (
        "function 'com.acme.Foo'/node[0] 'b' (Softmax): Softmax must mean the same in operator sets 11 (of the "
        "function) and 17 (of the model), not change in between; import the same version in both [FN-07]"
    )
    assert errors(calling(function("Foo", softmax, opset=13))) == []


@pytest.mark.rule("FN-08")
def test_attributes_of_functions() -> None:
    both = function(attributes=["k"], attribute_protos=[helper.make_attribute("k", 1)])
    assert error_of(calling(both)) == (
        "function 'com.acme.Foo': attribute 'k' must be in one list, not in `attribute` and in `attribute_proto`; "
        "keep it in attribute_proto, with its default [FN-08]"
    )
    assert "attribute 'k' must be there once, not 2 times" in error_of(calling(function(attributes=["k", "k"])))
    assert errors(calling(function(attributes=["k"], attribute_protos=[helper.make_attribute("m", 1)]))) == []
    unknown = leniently(calling(function(attributes=["k"]), call=node("Foo", domain="com.acme", m=1)))
    assert "the attributes must be among those of the function ('k'), not 'm'; it is ignored" in unknown


@pytest.mark.rule("FN-08")
def test_an_attribute_without_a_value_is_left_out_in_the_body() -> None:
    reference = node("LeakyRelu", ("a",), ("b",))
    reference.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    proto = calling(function("Foo", reference, attributes=["slope"]))
    assert errors(proto) == []
    found = evaluate(loads(proto.SerializeToString()), {"x": np.array([-1, 2], np.float32)})["y"]
    np.testing.assert_allclose(found, [-0.01, 2])  # LeakyRelu's own default


@pytest.mark.rule("FN-09")
def test_calls_fit_the_signature() -> None:
    many = calling(function(), call=node("Foo", ("x", "x"), domain="com.acme"))
    assert error_of(many) == (
        "graph/node[0] 'y' (Foo): the number of inputs must be at most 1 as the function has, not 2; "
        "export the model again [FN-09]"
    )
    outputs = calling(function(), call=node("Foo", ("x",), ("y", "z"), domain="com.acme"))
    assert "the number of outputs must be at most 1 as the function has, not 2" in error_of(outputs)
    assert errors(calling(function(inputs=["a", "c"]))) == []  # fewer are allowed


@pytest.mark.rule("FN-09")
def test_overloads_exist() -> None:
    two = function(overload="1"), function(overload="2")
    missing = errors(calling(*two, call=node("Foo", domain="com.acme", overload="3")))
    assert (
        "graph/node[0] 'y' (Foo): the overload must be one of '1', '2', not '3'; export the model again [FN-09]"
        in missing
    )
    assert errors(calling(*two, call=node("Foo", domain="com.acme", overload="1"))) == []


@pytest.mark.rule("FN-10")
def test_a_standard_operator_goes_before_a_function() -> None:
    proto = calling(function("Relu", node("Neg", ("a",), ("b",)), domain=""), call=node("Relu"), imports=[("", 17)])
    assert warned(proto) == (
        "function 'ai.onnx.Relu': a function should not be named like a standard operator: the operator is used, "
        "not the function; rename the function [FN-10 W-function-overrides]"
    )
    found = evaluate(loads(proto.SerializeToString()), {"x": np.array([-1, 2], np.float32)})["y"]
    assert found.tolist() == [0, 2]


@pytest.mark.rule("FN-11")
def test_functions_in_an_old_ir_version() -> None:
    old = calling(function(opset=14), ir=7, imports=[("", 14), ("com.acme", 1)])
    assert leniently(old) == (
        "model: functions must come with IR version 8 or later, not 7; they are used; raise ir_version "
        "[FN-11 W-ir-too-old]"
    )
    assert findings(calling(function(), ir=8)) == ()


@pytest.mark.rule("FN-12")
def test_what_inlining_would_make_is_counted() -> None:
    def doubling(count: int) -> onnx.ModelProto:
        names = ["Foo", *(f"F{i}" for i in range(1, count))]
        return calling(*(nested(a, b, b) for a, b in pairwise(names)), function(names[-1]))

    assert findings(doubling(10)) == ()
    large = doubling(18)
    found = check(document(large), types=False)
    assert [str(f) for f in found if f.rule == "FN-12"] == [
        "model: inlined_nodes should be at most 100,000, not 393,215 as inlining of all functions would make; "
        "if you trust the model and inline it, raise it with --limit inlined_nodes=NUMBER [FN-12 W-functions-large]"
    ]
    assert "[LM-02]" in error_of(large), "nor are the types inferred"
    assert error_of(doubling(41)) == (
        "model: nodes must be at most 10,000,000 after inlining of all functions, not more; "
        "if you trust the model, raise it with --limit nodes=NUMBER [FN-12]"
    )
