"""Nodes in any order, as some tools write them: `hwflow onnx convert` sorts them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx as reference
import pytest
from onnx import TensorProto, helper

from hwflow import onnx
from hwflow.cli.onnx.convert import ConvertRequest, convert
from hwflow.onnx.container.files import read
from hwflow.onnx.model import Model
from hwflow.onnx.rewrite.sorted_nodes import sorted_nodes
from hwflow.views.console.terminal import Console


def whole() -> Model:
    """A chain with branches; a graph inside of it has two nodes and reads a value from around it."""
    scalar = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("t", "e")]
    then = helper.make_graph([helper.make_node("Neg", ["f"], ["s"]), helper.make_node("Abs", ["s"], ["t"])], "then", [],
                             scalar[:1])
    other = helper.make_graph([helper.make_node("Add", ["x", "f"], ["e"])], "else", [], scalar[1:])
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Sin", ["a"], ["b"]),
             helper.make_node("Cos", ["a"], ["c"]), helper.make_node("Add", ["b", "c"], ["f"]),
             helper.make_node("If", ["k"], ["i"], then_branch=then, else_branch=other),
             helper.make_node("Mul", ["i", "b"], ["y"])]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in (
        ("x", TensorProto.FLOAT, [3]), ("k", TensorProto.BOOL, []), ("y", TensorProto.FLOAT, [3]))]
    proto = helper.make_model(helper.make_graph(nodes, "g", ends[:2], ends[2:]), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17)])
    return onnx.loads(proto.SerializeToString())


def shuffled(model: Model, seed: int) -> Model:
    rng = np.random.default_rng(seed)
    nodes = []
    for node in model.graph.nodes:
        inner = {name: replace(value, nodes=value.nodes[::-1]) for name, value in node.attributes.items()
                 if hasattr(value, "nodes")}
        nodes.append(replace(node, attributes={**node.attributes, **inner}) if inner else node)
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes[k] for k in rng.permutation(len(nodes)))))


@pytest.mark.parametrize("seed", range(6))
def test_any_order(seed: int) -> None:
    model = whole()
    found = sorted_nodes(shuffled(model, seed))
    reference.checker.check_model(reference.load_from_string(onnx.dumps(found)))
    for k in (False, True):
        feeds = {"x": np.linspace(-1, 1, 3, dtype=np.float32), "k": np.array(k)}
        assert np.array_equal(onnx.evaluate(found, feeds)["y"], onnx.evaluate(model, feeds)["y"])
    assert sorted_nodes(found) is found
    assert sorted_nodes(model) is model


def test_a_cycle_stays() -> None:
    model = whole()
    first = replace(model.graph.nodes[0], inputs=("b",))
    circular = replace(model, graph=replace(model.graph, nodes=(first, *model.graph.nodes[1:])))
    assert [node.op_type for node in sorted_nodes(circular).graph.nodes] == ["Exp", "Sin", "Cos", "Add", "If", "Mul"]


def test_the_command_and_what_check_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "any.onnx", tmp_path / "sorted.onnx"
    model = whole()
    onnx.save(replace(model, graph=replace(model.graph, nodes=model.graph.nodes[::-1])), source)
    remedies = {finding.remedy for finding in onnx.check(read(source)) if finding.rule == "GR-04"}
    assert remedies == {"sort the nodes, as `hwflow onnx convert MODEL sorted.onnx` does"}
    convert(Console(), ConvertRequest(source, target))
    assert "nodes: sorted, each after those that write its inputs" in capsys.readouterr().out
    reference.checker.check_model(str(target))
