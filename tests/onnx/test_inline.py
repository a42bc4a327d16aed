"""Functions become the nodes that they stand for, and the model computes the same."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from hwflow.onnx import Model, Value, evaluate, infer, require_valid
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import AttributeRef, Function, Node
from hwflow.onnx.rewrite.inline import inline_functions

F = np.float32
FLOAT, INT = 1, 2  # AttributeProto.AttributeType
X = F([[-2, 1], [0.5, -4]])


def function(name: str, nodes: Iterable[Node], inputs: str = "a", outputs: str = "b", **more: object) -> Function:
    opsets = more.pop("opsets", {"": 17, "acme": 1})
    return Function(name, "acme", tuple(inputs.split()), tuple(outputs.split()), tuple(nodes), opsets, **more)


def calling(*calls: Node, functions: Iterable[Function], output: str = "y") -> Model:
    b = Builder()
    b.input("x", F, ("n", 2))
    b.output(output, F, ("n", 2))
    model = b.model(opsets={"acme": 1})
    return replace(model, graph=replace(model.graph, nodes=calls), functions=tuple(functions))


def call(name: str, inputs: str = "x", outputs: str = "y", label: str = "", **attributes: object) -> Node:
    return make_node(name, inputs.split(), outputs.split(), name=label, domain="acme", **attributes)


def ref(name: str, kind: int) -> AttributeRef:
    return AttributeRef(name, kind)


def same(model: Model, **more: np.ndarray) -> Model:
    """The inlined model, after comparing what both compute."""
    inlined = inline_functions(model)
    assert inlined.functions == ()
    require_valid(inlined)
    before, after = evaluate(model, {"x": X, **more}), evaluate(inlined, {"x": X, **more})
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    return inlined


LEAKY = function("Leaky", [make_node("LeakyRelu", ["a"], ["b"], alpha=ref("slope", FLOAT))], defaults={"slope": 0.25})


def test_a_model_without_functions_stays() -> None:
    model = calling(make_node("Relu", ["x"], ["y"]), functions=())
    assert inline_functions(model) is model


@pytest.mark.rule("FN-01")
def test_names_do_not_meet() -> None:
    """Two calls of one body, in a graph that has the body's names for other values."""
    body = function("Twice", [make_node("Neg", ["a"], ["h"]), make_node("Add", ["h", "a"], ["k"]),
                              make_node("Sub", ["a", "h"], ["b"])])  # fmt: skip
    model = calling(
        make_node("Exp", ["x"], ["h"]), call("Twice", "h", "k"), call("Twice", "k", "z"),
        make_node("Add", ["z", "h"], ["y"]), functions=[body],
    )  # fmt: skip
    inlined = same(model)
    assert [node.op_type for node in inlined.graph.nodes] == ["Exp", *["Neg", "Add", "Sub"] * 2, "Add"]


@pytest.mark.rule("FN-08")
@pytest.mark.parametrize(("given", "expected"), [({}, 0.25), ({"slope": 0.5}, 0.5)])
def test_attributes_and_their_defaults(given, expected) -> None:
    inlined = same(calling(call("Leaky", **given), functions=[LEAKY]))
    assert inlined.graph.nodes[0].attributes == {"alpha": expected}


@pytest.mark.rule("FN-08")
def test_an_attribute_that_nobody_gives_is_left_out() -> None:
    body = function("Leaky", [make_node("LeakyRelu", ["a"], ["b"], alpha=ref("slope", FLOAT))], attributes=("slope",))
    inlined = inline_functions(calling(call("Leaky"), functions=[body]))
    assert inlined.graph.nodes[0].attributes == {}


def test_attributes_inside_of_graphs() -> None:
    """A reference in a branch, which also reads the function's input and has a value of its own."""
    then = make_graph([make_node("LeakyRelu", ["a"], ["h"], alpha=ref("slope", FLOAT)), make_node("Neg", ["h"], ["r"])],
                      [], [Value("r", None)], name="then")  # fmt: skip
    other = make_graph([make_node("Identity", ["a"], ["r"])], [], [Value("r", None)], name="else")
    nodes = [make_node("ReduceMax", ["a"], ["m"], keepdims=0), make_node("Cast", ["m"], ["c"], to=9),
             make_node("If", ["c"], ["b"], then_branch=then, else_branch=other)]  # fmt: skip
    body = function("Perhaps", nodes, defaults={"slope": 0.5})
    model = calling(make_node("Abs", ["x"], ["h"]), call("Perhaps", "h", "r"), call("Perhaps", "r", "y", slope=0.125),
                    functions=[body])  # fmt: skip
    inlined = same(model)
    branches = [n.attributes["then_branch"] for n in inlined.graph.nodes if n.op_type == "If"]
    assert [g.nodes[0].attributes["alpha"] for g in branches] == [0.5, 0.125]
    outer = {name for node in inlined.graph.nodes for name in node.outputs}
    assert not any(name in outer for g in branches for node in g.nodes for name in node.outputs)


def test_calls_inside_of_graphs() -> None:
    then = make_graph([call("Leaky", "x", "r", slope=0.5)], [], [Value("r", tensor_type(F, ("n", 2)))], name="then")
    other = make_graph([make_node("Neg", ["x"], ["r"])], [], [Value("r", tensor_type(F, ("n", 2)))], name="else")
    nodes = [make_node("ReduceMax", ["x"], ["m"], keepdims=0), make_node("Cast", ["m"], ["c"], to=9),
             make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]  # fmt: skip
    same(calling(*nodes, functions=[LEAKY]))


def test_functions_that_call_functions() -> None:
    outer = function("Outer", [call("Leaky", "a", "h"), call("Leaky", "h", "b", slope=ref("s", FLOAT))],
                     attributes=("s",))  # fmt: skip
    inlined = same(calling(call("Outer", s=0.5, label="o"), functions=[outer, LEAKY]))
    assert [node.attributes["alpha"] for node in inlined.graph.nodes] == [0.25, 0.5]


@pytest.mark.rule("FN-02")
def test_overloads() -> None:
    plain = function("F", [make_node("Neg", ["a"], ["b"])])
    other = function("F", [make_node("Abs", ["a"], ["b"])], overload="abs")
    chosen = replace(call("F", "h"), overload="abs")
    inlined = same(calling(call("F", "x", "h"), chosen, functions=[plain, other]))
    assert [node.op_type for node in inlined.graph.nodes] == ["Neg", "Abs"]


def test_an_output_that_is_an_input() -> None:
    body = function("Both", [make_node("Neg", ["a"], ["b"])], outputs="a b b")
    model = calling(call("Both", "x", "p q r"), make_node("Sum", ["p", "q", "r"], ["y"]), functions=[body])
    same(model)


def test_outputs_that_are_left_out() -> None:
    body = function("Two", [make_node("Neg", ["a"], ["b"]), make_node("Abs", ["a"], ["c"])], outputs="b c")
    node = Node("Two", ("x",), ("", "y"), domain="acme")
    same(calling(node, functions=[body]))


def test_inputs_that_are_left_out() -> None:
    body = function("Clipped", [make_node("Clip", ["a", "low", "high"], ["b"])], inputs="a low high")
    b = Builder()
    b.input("x", F, ("n", 2))
    b.constant("one", F(1))
    b.output("y", F, ("n", 2))
    model = b.model(opsets={"acme": 1})
    node = Node("Clipped", ("x", "", "one"), ("y",), domain="acme")
    inlined = same(replace(model, graph=replace(model.graph, nodes=(node,)), functions=(body,)))
    assert inlined.graph.nodes[0].inputs == ("x", "", "one")


@pytest.mark.rule("FN-10")
def test_an_operator_wins_over_a_function_of_its_name() -> None:
    body = Function("Neg", "", ("a",), ("b",), (make_node("Abs", ["a"], ["b"]),), {"": 17})
    inlined = same(calling(make_node("Neg", ["x"], ["y"]), functions=[body]))
    assert inlined.graph.nodes[0].op_type == "Neg"


@pytest.mark.rule("FN-07")
def test_operator_sets_that_agree_and_that_do_not() -> None:
    """Relu did not change between 14 and 17, Softmax did between 11 and 17."""
    relu = function("F", [make_node("Relu", ["a"], ["b"])], opsets={"": 14})
    assert same(calling(call("F"), functions=[relu])).opsets[""] == 17
    softmax = function("F", [make_node("Softmax", ["a"], ["b"])], opsets={"": 11})
    with pytest.raises(InvalidModel, match=r"function 'acme.F'/'b' \(Softmax\): the operator must mean the same"):
        inline_functions(calling(call("F"), functions=[softmax]))


def test_operator_sets_of_bodies_are_imported() -> None:
    body = function("F", [make_node("Binarizer", ["a"], ["b"], domain="ai.onnx.ml")], opsets={"ai.onnx.ml": 3})
    assert inline_functions(calling(call("F"), functions=[body])).opsets["ai.onnx.ml"] == 3


@pytest.mark.rule("FN-09")
def test_calls_with_too_many_values() -> None:
    with pytest.raises(InvalidModel, match="the number of inputs must be at most the 1"):
        inline_functions(calling(call("Leaky", "x x"), functions=[LEAKY]))
    with pytest.raises(InvalidModel, match="the number of outputs must be at most the 1"):
        inline_functions(calling(call("Leaky", "x", "y z"), functions=[LEAKY]))


@pytest.mark.rule("FN-03")
def test_recursion() -> None:
    pair = [function("F", [call("G", "a", "b")]), function("G", [call("F", "a", "b")])]
    with pytest.raises(InvalidModel, match="must not call itself"):
        inline_functions(calling(call("F"), functions=pair))


def doubling(levels: int) -> Model:
    functions = [function(f"F{k}", [call(f"F{k + 1}", "a", "h"), call(f"F{k + 1}", "h", "b")]) for k in range(levels)]
    return calling(call("F0"), functions=[*functions, function(f"F{levels}", [make_node("Neg", ["a"], ["b"])])])


@pytest.mark.rule("FN-12")
def test_bombs() -> None:
    assert len(same(doubling(5)).graph.nodes) == 32
    with pytest.raises(LimitError, match=r"once its functions are inlined \(inlined_nodes\), not 131,072"):
        inline_functions(doubling(17))
    started = time.monotonic()
    with pytest.raises(LimitError):
        inline_functions(doubling(40))
    assert time.monotonic() - started < 1
    with pytest.raises(LimitError, match="inlined_nodes"):
        inline_functions(doubling(5), replace(Limits(), inlined_nodes=30))


@pytest.mark.rule("FN-03")
def test_a_long_chain_of_calls() -> None:
    chain = [function(f"F{k}", [call(f"F{k + 1}", "a", "b")]) for k in range(5000)]
    with pytest.raises(LimitError, match="depth"):
        inline_functions(calling(call("F0"), functions=[*chain, function("F5000", [make_node("Neg", ["a"], ["b"])])]))


def test_the_hardware_flow_sees_no_function() -> None:
    model = infer(calling(call("Leaky"), functions=[LEAKY]))
    assert [node.op_type for node in model.graph.nodes] == ["LeakyRelu"]
    assert model.functions == ()
