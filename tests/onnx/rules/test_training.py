"""Training information: rules TR."""

from __future__ import annotations

import onnx
import pytest

from hwflow.onnx import loads
from tests.onnx.rules.protos import F, error_of, errors, findings, graph, model, node, value, weight

PATH = "training_info[0]/"


def training(
    initialization: dict[str, str] | list[tuple[str, str]] | None = None,
    update: dict[str, str] | list[tuple[str, str]] | None = None,
    *,
    without: tuple[str, ...] = (),
    algorithm: onnx.NodeProto | None = None,
) -> onnx.ModelProto:
    """y = x * w; the initialization computes w0, the algorithm w1 and its own state v1 from y, w and v."""
    proto = model(node("Mul", ("x", "w")), initializers=[weight("w", F)])
    info = proto.training_info.add()
    info.initialization.CopyFrom(
        graph(node("RandomNormal", (), ("w0",), shape=[2]), outputs=[value("w0")], name="init")
    )
    info.algorithm.CopyFrom(
        graph(
            algorithm or node("Sub", ("w", "y"), ("w1",)), node("Add", ("v", "v"), ("v1",)),
            outputs=[value("w1"), value("v1")], initializers=[weight("v", F)], name="step")
    )  # fmt: skip
    initialization = {"w": "w0"} if initialization is None else initialization
    update = {"w": "w1"} if update is None else update
    for bound, entries in ((info.initialization_binding, initialization), (info.update_binding, update)):
        for key, bound_value in entries.items() if isinstance(entries, dict) else entries:
            bound.add(key=key, value=bound_value)
    for part in without:
        info.ClearField(part)
    return proto


@pytest.mark.rule("TR-01", "TR-06")
def test_training_information() -> None:
    proto = training({"w": "w0", "v": "w0"}, {"w": "w1", "v": "v1"})
    assert errors(proto, strict=True) == []
    (read,) = loads(proto.SerializeToString()).training
    assert read.initialization is not None
    assert read.algorithm is not None
    assert (read.initialization.name, read.algorithm.name) == ("init", "step")
    assert dict(read.initialization_binding) == {"w": "w0", "v": "w0"}
    assert dict(read.update_binding) == {"w": "w1", "v": "v1"}


@pytest.mark.rule("TR-02")
def test_state_variables_are_initializers() -> None:
    for name in ("nowhere", "x", "w1"):
        assert error_of(training({name: "w0"})) == (
            f"{PATH}initialization_binding: '{name}' must be an initializer of the main graph or of the algorithm, "
            "not unknown; correct the binding [TR-02]"
        )
    assert errors(training({"v": "w0"})) == []


@pytest.mark.rule("TR-03")
def test_initial_values_are_outputs_of_the_initialization() -> None:
    for name in ("w1", "w", ""):
        assert error_of(training({"w": name})) == (
            f"{PATH}initialization_binding: 'w' must be bound to an output of the initialization, not to '{name}'; "
            "correct the binding [TR-03]"
        )


@pytest.mark.rule("TR-04")
def test_variables_are_bound_once() -> None:
    assert error_of(training([("w", "w0"), ("w", "w0")])) == (
        f"{PATH}initialization_binding: 'w' must be bound once, not twice; correct the binding [TR-04]"
    )
    assert error_of(training(None, [("w", "w1"), ("w", "v1")])) == (
        f"{PATH}update_binding: 'w' must be bound once, not twice; correct the binding [TR-04]"
    )
    two = training()
    two.training_info.add().CopyFrom(two.training_info[0])
    found = [text for text in errors(two) if "TR-" in text]
    assert found == [
        "training_info[1]/update_binding: 'w' must be updated by one algorithm, not by training_info[0] too; "
        "correct the binding [TR-04]"
    ]


@pytest.mark.rule("TR-05")
def test_bindings_need_an_initialization() -> None:
    assert error_of(training(without=("initialization",))) == (
        f"{PATH}initialization_binding: an initialization must be given for the bindings, not left out; "
        "correct the binding [TR-05]"
    )
    assert errors(training({}, without=("initialization",))) == []


@pytest.mark.rule("TR-06")
def test_updates_are_outputs_of_the_algorithm_or_of_the_main_graph() -> None:
    assert error_of(training(None, {"w": "w0"})) == (
        f"{PATH}update_binding: 'w' must be bound to an output of the algorithm, not to 'w0'; "
        "correct the binding [TR-06]"
    )
    assert "[TR-06]" in error_of(training(None, {"nowhere": "w1"}))
    assert errors(training(None, {"w": "y"})) == []
    assert "[TR-06]" in error_of(training(None, {"w": "w1"}, without=("algorithm",)))


@pytest.mark.rule("TR-09")
def test_an_algorithm_continues_the_main_graph() -> None:
    assert errors(training()) == []  # it reads w and y
    unknown = training(algorithm=node("Sub", ("w", "nowhere"), ("w1",)))
    assert error_of(unknown).startswith(f"{PATH}algorithm/node[0] 'w1' (Sub): ")
    assert "'nowhere'" in error_of(unknown)
    proto = training()
    proto.graph.node[0].input[1] = "v"  # of the algorithm
    assert error_of(proto).startswith("graph/node[0] 'y' (Mul): ")
    typed = training(algorithm=node("Sub", ("w", "s"), ("w1",)))
    typed.graph.node.append(node("Shape", ("x",), ("s",)))
    assert "input 1 (B) 's' must be tensor(float) as input 0, not tensor(int64)" in error_of(typed)
    assert {f.code for f in findings(training())} == {"W-training-ignored"}
