"""Functions of a model at evaluation: bodies, attributes, overloads, and that no file makes them grow without end."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Model, Node, evaluate
from hwflow.onnx.build import make_graph, make_model, make_node, tensor_type
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import AttributeRef, Function, Value

X = np.array([-1, 0, 2], np.float32)
FLOAT, INT = 1, 2  # AttributeProto.AttributeType


def function(name: str, nodes, inputs=("a",), outputs=("b",), **fields) -> Function:
    return Function(name, "own", tuple(inputs), tuple(outputs), tuple(nodes), {"": 17, "own": 1}, **fields)


def call(name: str, inputs=("x",), outputs=("y",), domain="own", **attributes) -> Node:
    return make_node(name, inputs, outputs, name="call", domain=domain, **attributes)


def model_of(*functions: Function, nodes=None, outputs=("y",)) -> Model:
    values = [Value(name, tensor_type(np.float32)) for name in outputs]
    graph = make_graph(nodes or [call(functions[0].name)], [Value("x", tensor_type(np.float32))], values)
    return replace(make_model(graph, opset=17, opsets={"own": 1}), functions=functions)


def run(model: Model, **options):
    return evaluate(model, {"x": X}, **options)["y"]


def refer(node: Node, **references: int) -> Node:
    return replace(node, attributes={**node.attributes, **{n: AttributeRef(n, k) for n, k in references.items()}})


LEAKY = function("Leaky", [refer(make_node("LeakyRelu", ["a"], ["b"]), alpha=FLOAT)], attributes=("alpha",))


@pytest.mark.rule("FN-01")
def test_body_of_operators_and_functions() -> None:
    twice = function("Twice", [make_node("Add", ["a", "a"], ["b"])])
    both = function("Both", [call("Twice", ["a"], ["h"]), make_node("Neg", ["h"], ["b"])])
    np.testing.assert_array_equal(run(model_of(both, twice)), -2 * X)


@pytest.mark.rule("IR-20")
@pytest.mark.parametrize("alpha", [0.5, 0.25])
def test_body_equals_kernel(alpha) -> None:
    kernel = model_of(LEAKY, nodes=[make_node("LeakyRelu", ["x"], ["y"], alpha=alpha)])
    np.testing.assert_array_equal(run(model_of(LEAKY, nodes=[call("Leaky", alpha=alpha)])), run(kernel))


def test_attribute_without_value_is_left_out() -> None:
    """The operator's own default counts, 0.01."""
    np.testing.assert_array_equal(run(model_of(LEAKY)), np.float32([-0.01, 0, 2]))


def test_default_of_the_function() -> None:
    with_default = replace(LEAKY, attributes=(), defaults={"alpha": 0.5})
    np.testing.assert_array_equal(run(model_of(with_default)), np.float32([-0.5, 0, 2]))
    again = model_of(with_default, nodes=[call("Leaky", alpha=0.25)])
    np.testing.assert_array_equal(run(again), np.float32([-0.25, 0, 2]))


def test_attributes_reach_graphs_in_attributes() -> None:
    branch = make_graph(
        [refer(make_node("LeakyRelu", ["a"], ["out"]), alpha=FLOAT)], [], [Value("out", tensor_type(np.float32))]
    )
    inner = make_node("If", ["yes"], ["b"], then_branch=branch, else_branch=branch)
    outer = function(
        "Leaky", [make_node("Constant", [], ["yes"], value=np.array(True)), inner], attributes=("alpha",)
    )
    for alpha in (0.5, 0.25):
        found = run(model_of(outer, nodes=[call("Leaky", alpha=alpha)]))
        np.testing.assert_array_equal(found, np.where(X < 0, alpha * X, X))


def test_references_through_two_functions() -> None:
    outer = function("Outer", [refer(call("Leaky", ["a"], ["b"]), alpha=FLOAT)], attributes=("alpha",))
    np.testing.assert_array_equal(run(model_of(outer, LEAKY, nodes=[call("Outer", alpha=0.5)])), [-0.5, 0, 2])


def test_overloads() -> None:
    negative = function("F", [make_node("Neg", ["a"], ["b"])])
    absolute = function("F", [make_node("Abs", ["a"], ["b"])], overload="abs")
    plain, other = call("F"), replace(call("F"), overload="abs")
    np.testing.assert_array_equal(run(model_of(negative, absolute, nodes=[plain])), -X)
    np.testing.assert_array_equal(run(model_of(negative, absolute, nodes=[other])), abs(X))


def test_body_has_its_own_operator_sets() -> None:
    """Softmax before version 13 runs over all axes behind the first; here there is one axis, with another default."""
    old = function("Old", [make_node("Softmax", ["a"], ["b"])])
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    made = {v: evaluate(model_of(replace(old, opsets={"": v})), {"x": x})["y"].sum((1, 2)) for v in (12, 13)}
    np.testing.assert_allclose(made[12], [1, 1])
    np.testing.assert_allclose(made[13], [2, 2])


def test_inputs_and_outputs_may_be_left_off() -> None:
    clip = function("Cut", [make_node("Clip", ["a", "low", "high"], ["b"])], ["a", "low", "high"], ["b", "a"])
    np.testing.assert_array_equal(run(model_of(clip)), X)
    both = model_of(clip, nodes=[call("Cut", ["x"], ["", "y"])])
    np.testing.assert_array_equal(run(both), X)


def test_too_many_inputs_and_outputs() -> None:
    for node, message in (
        (call("Leaky", ["x", "x"]), "function 'own.Leaky': the inputs must be 1, not 2"),
        (call("Leaky", ["x"], ["y", "z"]), "the outputs must be at most 1, as function 'own.Leaky' has, not 2"),
    ):
        with pytest.raises(HwflowError, match=message):
            run(model_of(LEAKY, nodes=[node]))


@pytest.mark.rule("FN-10")
def test_operator_wins_over_a_function_of_its_name() -> None:
    wrong = Function("Relu", "", ("a",), ("b",), (make_node("Neg", ["a"], ["b"]),), {"": 17})
    np.testing.assert_array_equal(run(model_of(wrong, nodes=[make_node("Relu", ["x"], ["y"])])), [0, 0, 2])


def test_body_sees_only_its_inputs() -> None:
    with pytest.raises(HwflowError, match="'x' must be a tensor of the function, not an unknown name"):
        run(model_of(function("F", [make_node("Add", ["a", "x"], ["b"])])))


def test_errors_name_the_node_in_the_body() -> None:
    broken = function("F", [make_node("Concat", ["a"], ["b"], name="c")])
    with pytest.raises(HwflowError) as caught:
        run(model_of(broken))
    assert str(caught.value).startswith("function 'own.F'/node[0] 'c' (Concat): attribute 'axis' must be given")


def chain(length: int, calls: int = 1) -> tuple[Function, ...]:
    """Each function calls the next one."""
    functions = []
    for k in range(length):
        names = ["a", *(f"h{i}" for i in range(calls - 1)), "b"]
        nodes = [call(f"F{k + 1}", [i], [o]) for i, o in itertools.pairwise(names)]
        functions.append(function(f"F{k}", nodes))
    return (*functions, function(f"F{length}", [make_node("Neg", ["a"], ["b"])]))


@pytest.mark.rule("FN-12")
def test_expansion_bomb() -> None:
    """2 ** 40 nodes from 41 functions: refused by counting, not by doing."""
    started = time.monotonic()
    with pytest.raises(LimitError) as caught:
        run(model_of(*chain(40, 2)))
    assert time.monotonic() - started < 1
    assert "must have at most 10,000,000 nodes (nodes) with the bodies of the functions" in str(caught.value)
    assert str(caught.value).endswith("raise it with --limit nodes=NUMBER")


@pytest.mark.rule("FN-12")
def test_bounded_expansion_runs() -> None:
    np.testing.assert_array_equal(run(model_of(*chain(10, 2))), X)


@pytest.mark.rule("FN-12")
def test_forms_of_bodies_are_bounded() -> None:
    """Each call has its own attributes, so that each needs a body of its own."""
    nodes = [call("Leaky", ["x" if k == 0 else f"h{k}"], [f"h{k + 1}"], alpha=float(k)) for k in range(20)]
    model = model_of(LEAKY, nodes=nodes, outputs=("h20",))
    assert evaluate(model, {"x": X})["h20"].shape == (3,)
    with pytest.raises(LimitError, match=r"at most 10 nodes \(inlined_nodes\) in all their forms, not 11"):
        evaluate(model, {"x": X}, limits=Limits(inlined_nodes=10))


def test_depth() -> None:
    with pytest.raises(LimitError, match=r"must be at most 64 deep in each other \(depth\), not 65"):
        run(model_of(*chain(5000)))
    np.testing.assert_array_equal(run(model_of(*chain(63))), -X)


def test_depth_beyond_the_interpreter() -> None:
    with pytest.raises(LimitError, match="must fit into the interpreter's stack, not be nested so deeply"):
        run(model_of(*chain(5000)), limits=Limits(depth=10_000))


def test_recursion() -> None:
    first, second = function("F", [call("G", ["a"], ["b"])]), function("G", [call("F", ["a"], ["b"])])
    with pytest.raises(InvalidModel, match=r"function 'own\.F' must not call itself, directly or through others"):
        run(model_of(first, second))
