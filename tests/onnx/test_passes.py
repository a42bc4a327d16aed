"""Rewriting passes keep the results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.onnx import PASSES, Model, evaluate, infer, require_valid, simplify
from hwflow.onnx.build import Builder, make_graph, make_node
from hwflow.onnx.model import Training, Value

X = np.array([-1, 2], np.float32)


def ops(model: Model) -> list[str]:
    return [node.op_type for node in model.graph.nodes]


def finish(b: Builder, *outputs: str) -> Model:
    for name in outputs:
        b.output(name, np.float32, (2,))
    return infer(b.model())


def inside() -> Model:
    b = Builder()
    h = b.node("Dropout", b.node("Identity", b.node("Neg", b.input("x", np.float32, (2,)))))
    return finish(b, b.node("Relu", h, output="y"))


def at_output() -> Model:
    """The producer takes over the output's name, which its other readers follow."""
    b = Builder()
    h = b.node("Neg", b.input("x", np.float32, (2,)), output="h")
    k = b.node("Identity", h, output="k")
    b.node("Identity", k, output="y")
    return finish(b, "y", b.node("Add", h, k, output="z"))


def from_input() -> Model:
    b = Builder()
    return finish(b, b.node("Identity", b.input("x", np.float32, (2,)), output="y"))


def two_outputs() -> Model:
    b = Builder()
    h = b.node("Neg", b.input("x", np.float32, (2,)), output="h")
    return finish(b, h, b.node("Identity", h, output="y"))


def with_mask() -> Model:
    b = Builder()
    y, mask = b.nodes("Dropout", b.input("x", np.float32, (2,)), outputs=["d", "mask"])
    return finish(b, b.node("Where", mask, y, b.constant("c", X), output="y"))


def limited(op: str, limit: float, shape: tuple[int, ...] = (), *, first: bool = False) -> Model:
    """Max or Min of a tensor and a constant."""
    b = Builder()
    both = b.node("Neg", b.input("x", np.float32, (2,))), b.constant("limit", np.full(shape, limit, np.float32))
    return finish(b, b.node("Relu", b.node(op, *(both[::-1] if first else both)), output="y"))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: limited("Max", -np.inf), ["Neg", "Relu"]),
        (lambda: limited("Max", -np.inf, (1,), first=True), ["Neg", "Relu"]),
        (lambda: limited("Min", np.inf), ["Neg", "Relu"]),
        (lambda: limited("Max", np.inf), ["Neg", "Max", "Relu"]),
        (lambda: limited("Min", -np.inf), ["Neg", "Min", "Relu"]),
        (lambda: limited("Max", -3e38), ["Neg", "Max", "Relu"]),
        (lambda: limited("Max", -np.inf, (2,)), ["Neg", "Max", "Relu"]),
        (inside, ["Neg", "Relu"]),
        (at_output, ["Neg", "Add"]),
        (from_input, ["Identity"]),
        (two_outputs, ["Neg", "Identity"]),
        (with_mask, ["Dropout", "Where"]),
    ],
)
def test_identities(make, expected) -> None:
    model = make()
    simple = simplify(model)
    assert ops(simple) == expected
    require_valid(simple)
    assert simple.graph.outputs == model.graph.outputs
    before, after = evaluate(model, {"x": X}), evaluate(simple, {"x": X})
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    named = {name for node in simple.graph.nodes for name in (*node.inputs, *node.outputs)}
    assert named <= set(simple.graph.types)


TRAINING = np.array(True)


@pytest.mark.parametrize(
    ("opset", "training", "attributes", "drops"),
    [
        (6, None, {}, True),
        (6, None, {"is_test": 1}, False),
        (7, None, {}, False),
        (12, None, {}, False),
        (12, ~TRAINING, {}, False),
        (12, TRAINING, {}, True),
    ],
)
def test_dropout_stays_where_it_drops(opset, training, attributes, drops) -> None:
    b = Builder()
    x = b.input("x", np.float32, (100,))
    more = [] if training is None else ["", b.constant("t", training)]
    b.output(b.node("Neg", b.node("Dropout", x, *more, **attributes), output="y"))
    model = b.model(opset=opset)
    simple = simplify(model)
    assert ops(simple) == ["Dropout", "Neg"][not drops :]
    ones = {"x": np.ones(100, np.float32)}
    np.testing.assert_array_equal(evaluate(simple, ones)["y"], evaluate(model, ones)["y"])
    assert (evaluate(model, ones)["y"] == 0).any() == drops


@pytest.mark.parametrize("default", [None, ~TRAINING])
def test_dropout_stays_where_the_caller_may_train(default) -> None:
    b = Builder()
    x, t = b.input("x", np.float32, (2,)), b.input("t", np.bool_, ())
    b.output(b.node("Dropout", x, "", t, output="y"))
    model = b.model(opset=13)
    if default is not None:
        graph = replace(model.graph, inputs=model.graph.inputs[:1], overridable=model.graph.inputs[1:],
                        initializers={"t": default})  # fmt: skip
        model = replace(model, graph=graph)
    assert ops(simplify(model)) == ["Dropout"]


def test_unused_parts() -> None:
    b = Builder()
    x = b.input("x", np.float32, (2,))
    b.input("spare", np.float32, (2,))
    b.node("Add", x, b.constant("w", X), output="unused")
    model = simplify(finish(b, b.node("Relu", x, output="y")))
    assert ops(model) == ["Relu"]
    assert model.graph.initializers == {}
    assert [value.name for value in model.graph.inputs] == ["x", "spare"]
    assert set(model.graph.types) == {"x", "spare", "y"}


def test_passes_have_names() -> None:
    assert [step.name for step in PASSES] == ["remove-identities", "remove-unused"]
    assert all(step.description.endswith(".") for step in PASSES)


def test_graphs_in_attributes_read_from_around() -> None:
    """What a branch reads is renamed there too, and counts as used."""
    then, other = (make_graph([make_node(op, ["k"], ["r"])], [], [Value("r", None)], name=op) for op in ("Abs", "Neg"))
    b = Builder()
    x, c = b.input("x", np.float32, (2,)), b.input("c", np.bool_, ())
    b.node("Identity", b.node("Add", x, b.constant("w", X), output="h"), output="k")
    b.output(b.node("If", c, then_branch=then, else_branch=other, output="y"))
    model = b.model()
    simple = simplify(model)
    assert ops(simple) == ["Add", "If"]
    assert list(simple.graph.initializers) == ["w"]
    for condition in (True, False):
        feeds = {"x": X, "c": np.array(condition)}
        np.testing.assert_array_equal(evaluate(simple, feeds)["y"], evaluate(model, feeds)["y"])


def test_what_training_reads_stays() -> None:
    b = Builder()
    b.constant("w", X)
    b.output(b.node("Relu", b.input("x", np.float32, (2,)), output="y"))
    algorithm = make_graph([make_node("Neg", ["w"], ["v"])], [], [Value("v", None)])
    model = replace(b.model(), training=(Training(None, {}, algorithm, {"w": "v"}),))
    assert list(simplify(model).graph.initializers) == ["w"]
