"""Training: a linear regression whose gradient is written out, and what the specification says of state variables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.onnx import Model, evaluate
from hwflow.onnx.build import make_graph, make_model, make_node, tensor_type
from hwflow.onnx.errors import EvaluationError, TrainingError
from hwflow.onnx.model import Graph, Training, Value
from hwflow.onnx.ops import find_operator
from hwflow.onnx.run.trainer import Trainer

F32 = np.float32
W, BIAS = F32([[2], [-3]]), F32([0.5])  # what the data follows


def value(name: str, shape=None) -> Value:
    return Value(name, tensor_type(F32, shape))


def constants(**values) -> Graph:
    """An initialization: a graph without inputs."""
    nodes = [make_node("Constant", [], [name], value=array) for name, array in values.items()]
    return make_graph(nodes, [], [value(name) for name in values], name="initialization")


def gradient() -> list:
    """Of the mean of (y - t) ** 2 by w and b: 2 / n * x^T (y - t), and 2 * mean(y - t)."""
    return [
        make_node("Sub", ["y", "t"], ["error"]),
        make_node("Mul", ["error", "error"], ["square"]),
        make_node("ReduceMean", ["square"], ["loss"], keepdims=0),
        make_node("Transpose", ["x"], ["xt"]),
        make_node("MatMul", ["xt", "error"], ["product"]),
        make_node("Div", ["product", "half_n"], ["dw"]),
        make_node("ReduceMean", ["error"], ["mean"], axes=[0], keepdims=0),
        make_node("Add", ["mean", "mean"], ["db"]),
    ]


def descent() -> Training:
    """w -= rate * dw, b -= rate * db; the rate is an initializer of the algorithm."""
    steps = [
        make_node("Mul", ["dw", "rate"], ["sw"]), make_node("Sub", ["w", "sw"], ["w_new"]),
        make_node("Mul", ["db", "rate"], ["sb"]), make_node("Sub", ["b", "sb"], ["b_new"]),
    ]  # fmt: skip
    algorithm = make_graph(
        [*gradient(), *steps], [value("t", ("n", 1))], [value("loss"), value("w_new"), value("b_new")],
        {"rate": F32(0.1), "half_n": F32(16)}, name="descent",
    )  # fmt: skip
    start = constants(w0=np.ones((2, 1), F32), b0=np.zeros(1, F32))
    return Training(start, {"w": "w0", "b": "b0"}, algorithm, {"w": "w_new", "b": "b_new"})


def regression(*training: Training) -> Model:
    """y = x w + b; the initializers in the file are not what initialization gives."""
    nodes = [make_node("MatMul", ["x", "w"], ["xw"]), make_node("Add", ["xw", "b"], ["y"])]
    graph = make_graph(nodes, [value("x", ("n", 2))], [value("y", ("n", 1))], {"w": 9 * W, "b": 9 * BIAS})
    return replace(make_model(graph, opset=13, opsets={"ai.onnx.preview.training": 1}), training=training)


def batch(seed: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(32, 2)).astype(F32)
    return {"x": x, "t": x @ W + BIAS}


@pytest.mark.rule("TR-01")
@pytest.mark.rule("IR-16")
def test_gradient_descent_converges() -> None:
    trainer = Trainer(regression(descent()))
    trainer.initialize()
    losses = [float(trainer.step(batch(k))["loss"]) for k in range(100)]
    assert losses[0] > 5
    assert losses[-1] < 1e-8
    np.testing.assert_allclose(trainer.state["w"], W, atol=1e-4)
    x = batch(1000)["x"]
    np.testing.assert_allclose(trainer.infer({"x": x})["y"], x @ W + BIAS, atol=1e-4)


@pytest.mark.rule("TR-07")
def test_state_starts_from_the_initializers() -> None:
    trainer = Trainer(regression(descent()))
    assert set(trainer.state) == {"w", "b"}
    np.testing.assert_array_equal(trainer.state["w"], 9 * W)
    trainer.initialize()
    np.testing.assert_array_equal(trainer.state["w"], np.ones((2, 1)))


@pytest.mark.rule("TR-07")
def test_instances_are_initialized_in_order() -> None:
    """Both set b; the second one is what remains, and the first one's w stays."""
    second = Training(constants(b1=F32([7])), {"b": "b1"}, None, {})
    trainer = Trainer(regression(descent(), second))
    trainer.initialize()
    np.testing.assert_array_equal(trainer.state["b"], [7])
    np.testing.assert_array_equal(trainer.state["w"], np.ones((2, 1)))
    with pytest.raises(TrainingError, match=r"training_info\[1\] must have an algorithm to be run, not none"):
        trainer.step({}, 1)


@pytest.mark.rule("IR-16")
def test_only_training_changes_the_state() -> None:
    model = regression(descent())
    before = {name: array.copy() for name, array in model.graph.initializers.items()}
    trainer = Trainer(model)
    trainer.initialize()
    state = {name: array.copy() for name, array in trainer.state.items()}
    for _ in range(2):
        trainer.infer({"x": batch(0)["x"]})
        for name, array in trainer.state.items():
            np.testing.assert_array_equal(array, state[name])
    trainer.step(batch(0))
    assert not np.array_equal(trainer.state["w"], state["w"])
    for name, array in model.graph.initializers.items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(ValueError, match="read-only"):
        trainer.state["w"][0] = 1
    with pytest.raises(TypeError):
        trainer.state["w"] = W  # type: ignore[index]


def counter(amount: float) -> Training:
    """count += amount, in the algorithm's own state variable."""
    algorithm = make_graph(
        [make_node("Add", ["count", "amount"], ["next"])], [], [value("next")],
        {"amount": F32(amount), "count": F32(0)}, name=f"add {amount}",
    )  # fmt: skip
    return Training(None, {}, algorithm, {"count": "next"})


@pytest.mark.rule("TR-08")
def test_algorithms_in_any_order() -> None:
    doubled = make_graph([make_node("Add", ["b", "b"], ["bb"])], [], [value("bb")])
    doubling = Training(constants(b0=F32([4.5])), {"b": "b0"}, doubled, {"b": "bb"})
    clearing = Training(
        None, {}, make_graph([make_node("Sub", ["b", "one"], ["less"])], [], [value("less")], {"one": F32([1])}),
        {"b": "less"},
    )  # fmt: skip
    for order, expected in (((0, 1), 8), ((1, 0), 7), ((0, 0, 1, 0), 34)):
        trainer = Trainer(regression(doubling, clearing))
        trainer.initialize()
        for index in order:
            trainer.step({"x": batch(0)["x"]}, index)
        np.testing.assert_array_equal(trainer.state["b"], [expected])


@pytest.mark.rule("TR-07")
def test_state_of_an_algorithm() -> None:
    trainer = Trainer(regression(counter(2)))
    assert [float(trainer.step({})["next"]) for _ in range(3)] == [2, 4, 6]
    assert set(trainer.state) == {"count"}


@pytest.mark.rule("TR-09")
def test_inference_cannot_read_the_algorithm() -> None:
    model = regression(descent())
    node = make_node("Add", ["y", "rate"], ["z"])
    graph = replace(model.graph, nodes=(*model.graph.nodes, node), outputs=(value("z"),))
    with pytest.raises(EvaluationError, match="'rate' must be a tensor of the graph, not an unknown name"):
        Trainer(replace(model, graph=graph))


@pytest.mark.rule("TR-09")
def test_algorithm_reads_values_of_the_main_graph() -> None:
    trainer = Trainer(regression(descent()))
    found = trainer.step(batch(0), fetch=["xw", "error"])
    np.testing.assert_allclose(found["error"], found["xw"] + 9 * BIAS - batch(0)["t"], rtol=1e-5)


@pytest.mark.rule("IR-16")
def test_inference_ignores_training() -> None:
    x = batch(0)["x"]
    np.testing.assert_array_equal(
        evaluate(regression(descent()), {"x": x})["y"], evaluate(regression(), {"x": x})["y"]
    )


@pytest.mark.parametrize(
    "training, message",
    [
        (Training(constants(a=W), {"q": "a"}, None, {}), "the key must be an initializer of the main graph or of the"),
        (Training(constants(a=W), {"w": "q"}, None, {}), "the value must be an output of the initialization graph"),
        (Training(None, {"w": "a"}, None, {}), "the value must be an output of the initialization graph, not 'a'"),
        (replace(descent(), update_binding={"w": "dw"}), "the value must be an output of the algorithm graph"),
        (replace(descent(), update_binding={"x": "w_new"}), "the key must be an initializer of the main graph"),
    ],
)  # fmt: skip
def test_bindings_that_do_not_fit(training, message) -> None:
    with pytest.raises(TrainingError, match=message):
        Trainer(regression(training))


def test_state_keeps_its_type() -> None:
    trainer = Trainer(regression(Training(constants(a=BIAS), {"w": "a"}, None, {})))
    with pytest.raises(TrainingError, match=r"state variable 'w' must be float32\[2, 1\], not float32\[1\]"):
        trainer.initialize()


def test_state_is_not_fed() -> None:
    with pytest.raises(TrainingError, match="'w' must not be fed: it is a state variable"):
        Trainer(regression(descent())).infer({"x": batch(0)["x"], "w": W})


def test_model_without_training() -> None:
    with pytest.raises(TrainingError, match="the model must have training information to be trained, not none"):
        Trainer(regression())


def optimizer(op: str, states: int, rate: float, **attributes) -> Training:
    """An operator of ai.onnx.preview.training on both tensors; its step count and its own states are state too."""
    slots = [f"{slot}{k}" for k in range(states) for slot in ("w", "b")]
    inputs = ["rate", "count", "w", "b", "dw", "db", *slots]
    outputs = ["w_new", "b_new", *(f"{slot}_new" for slot in slots)]
    nodes = [
        *gradient(),
        make_node(op, inputs, outputs, domain="ai.onnx.preview.training", **attributes),
        make_node("Add", ["count", "one"], ["count_new"]),
    ]
    given = {"rate": F32(rate), "half_n": F32(16), "count": np.int64(0), "one": np.int64(1)}
    zeros = {name: np.zeros((2, 1) if name.startswith("w") else 1, F32) for name in slots}
    bound = {"w": "w_new", "b": "b_new", "count": "count_new", **{slot: f"{slot}_new" for slot in slots}}
    algorithm = make_graph(
        nodes, [value("t", ("n", 1))], [value("loss"), *(Value(name, None) for name in bound.values())],
        {**{name: np.asarray(array) for name, array in given.items()}, **zeros}, name=op,
    )  # fmt: skip
    start = constants(w0=np.ones((2, 1), F32), b0=np.zeros(1, F32))
    return Training(start, {"w": "w0", "b": "b0"}, algorithm, bound)


@pytest.mark.parametrize(
    "op, states, rate, attributes",
    [
        ("Adagrad", 1, 1.0, {"norm_coefficient": 0.0, "epsilon": 1e-6, "decay_factor": 0.0}),
        ("Momentum", 1, 0.1, {"alpha": 0.5, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0}),
        ("Adam", 2, 0.1, {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-6, "norm_coefficient": 0.0}),
    ],
)
def test_optimizers_of_the_preview(op, states, rate, attributes) -> None:
    assert find_operator("ai.onnx.preview.training", op, 1) is not None
    trainer = Trainer(regression(optimizer(op, states, rate, **attributes)))
    trainer.initialize()
    losses = [float(trainer.step(batch(k))["loss"]) for k in range(300)]
    assert losses[-1] < 0.02 * losses[0]
    assert trainer.state["count"] == 300
