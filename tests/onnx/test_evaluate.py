"""Evaluation of whole graphs: what to fetch, what to feed, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow.errors import HwflowError
from hwflow.onnx import Model, evaluate
from hwflow.onnx.build import Builder

X = np.array([[-1, 2]], np.float32)


def chain() -> Model:
    """y = relu(x + w), z = -x."""
    b = Builder()
    x = b.input("x", np.float32, ("batch", 2))
    h = b.node("Add", x, b.constant("w", np.array([0.5, 0.5], np.float32)), name="add", output="h")
    b.output(b.node("Relu", h, output="y"), np.float32, ("batch", 2))
    b.output(b.node("Neg", b.input("x2", np.float32, ("batch", 2)), output="z"), np.float32, ("batch", 2))
    return b.model()


def refused(model: Model, feeds, fetch=None) -> str:
    with pytest.raises(HwflowError) as caught:
        evaluate(model, feeds, fetch)
    return str(caught.value)


def test_outputs_by_default() -> None:
    found = evaluate(chain(), {"x": X, "x2": X})
    assert list(found) == ["y", "z"]
    np.testing.assert_array_equal(found["y"], [[0, 2.5]])
    np.testing.assert_array_equal(found["z"], -X)


def test_fetch_anything() -> None:
    """Intermediate values, inputs and initializers; only what they need has to be fed."""
    found = evaluate(chain(), {"x": X}, ["h", "x", "w", "y"])
    np.testing.assert_array_equal(found["h"], X + np.float32(0.5))
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["w"], np.float32([0.5, 0.5]))
    assert list(found) == ["h", "x", "w", "y"]


def test_open_dims_take_any_size() -> None:
    assert evaluate(chain(), {"x": np.zeros((7, 2), np.float32)}, ["y"])["y"].shape == (7, 2)


def test_inputs_are_not_changed() -> None:
    x = X.copy()
    x.flags.writeable = False
    evaluate(chain(), {"x": x}, ["y"])
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("feeds", "fetch", "message"),
    [
        ({"x": X}, ["q"], "'q' must be a tensor of the graph, not an unknown name; `hwflow info` lists them"),
        ({"x": X}, None, "the fed arrays must be those of the model's inputs ('x', 'x2'), not 'x'"),
        ({}, ["y"], "the fed arrays must be those of the model's inputs ('x', 'x2'), not none"),
        ({"x": X, "a": X}, ["y"], "the fed arrays must be those of the model's inputs ('x', 'x2'), not 'x', 'a'"),
        (
            {"x": X.astype(np.float64)}, ["y"],
            "input 'x' must be float32[batch, 2], not float64[1, 2]; convert or reshape the array",
        ),
        ({"x": X[0]}, ["y"], "input 'x' must be float32[batch, 2], not float32[2]; convert or reshape the array"),
        ({"x": X.T}, ["y"], "input 'x' must be float32[batch, 2], not float32[2, 1]; convert or reshape the array"),
    ],
)  # fmt: skip
def test_wrong_feeds(feeds, fetch, message) -> None:
    assert refused(chain(), feeds, fetch) == message


def test_all_unsupported_operators_at_once() -> None:
    b = Builder()
    x = b.input("x", np.float32, (2,))
    b.output(b.node("Bar", b.node("Foo", x, name="f"), name="g"))
    b.output(b.node("Relu", x, output="y"))
    assert refused(b.model(), {"x": X[0]}) == (
        "the operators must be ones that hwflow evaluates, not those of graph/node[0] 'f' (Foo), "
        "graph/node[1] 'g' (Bar); `hwflow check` says more"
    )
    np.testing.assert_array_equal(evaluate(b.model(), {"x": X[0]}, ["y"])["y"], [0, 2])


def test_what_numpy_refuses_names_the_node() -> None:
    b = Builder()
    b.output(b.node("Concat", b.input("x", np.float32, (2,)), name="n"))
    assert refused(b.model(), {"x": X[0]}) == (
        "graph/node[0] 'n' (Concat): attribute 'axis' must be given, not left out; export the model again"
    )
    b = Builder()
    b.output(b.node("Mul", b.input("x", np.object_, (1,)), b.constant("c", np.float32([2.0])), name="n"))
    assert refused(b.model(), {"x": np.array(["text"], object)}).startswith(
        "graph/node[0] 'n' (Mul): the inputs must suit the operator, not be string[1], float32[1] ("
    )


def test_evaluation_does_not_warn_about_overflow() -> None:
    b = Builder()
    b.output(b.node("Exp", b.input("x", np.float32, (1,)), output="y"))
    assert evaluate(b.model(), {"x": np.float32([1000])})["y"][0] == np.inf
