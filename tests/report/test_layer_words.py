"""What layers are called where people read of them: the names of the user's nodes, and kinds that their model has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hwflow.host.identity import identity
from hwflow.layers.base import kind_of, name_of
from hwflow.layers.store import load_graph, save_graph
from hwflow.onnx import Model, save
from hwflow.onnx.build import Builder
from hwflow.pipeline.planning import plan_for
from hwflow.quantize import Quantized, quantize
from hwflow.synth import load_board
from hwflow.views.pictures.design import kind_text
from tests.e2e.command import Cli

F = np.float32
RNG = np.random.default_rng(3)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(F)


def encoder() -> Model:
    """Rows of a sequence with an embedding of their positions, a fully connected layer of each, and a recurrent one."""
    b = Builder("encoder")
    x = b.input("x", F, (1, 6, 4))
    x = b.node("MatMul", x, b.constant("w", numbers(4, 4)), name="/embed/MatMul")
    x = b.node("Add", x, b.constant("places", numbers(1, 6, 4)), name="/Add_positions")
    x = b.node("LayerNormalization", x, b.constant("g", numbers(4)), b.constant("c", numbers(4)), name="/norm")
    x = b.node("Transpose", x, name="/turn", perm=(1, 0, 2))
    (y, _) = b.nodes("GRU", x, b.constant("wx", numbers(1, 9, 4)), b.constant("wh", numbers(1, 9, 3)),
                     name="/rnn", outputs=["y", "y_h"], hidden_size=3)
    x = b.node("ReduceMean", y, b.constant("axes", np.array([0], np.int64)), name="/mean", keepdims=0)
    x = b.node("Reshape", x, b.constant("flat", np.array([1, 3], np.int64)), name="/flat")
    b.output(b.node("Gemm", x, b.constant("v", numbers(3, 2)), name="/head/Gemm"))
    return b.model(opset=18)


def pictures() -> Model:
    b = Builder("pictures")
    x = b.input("x", F, (1, 4, 8, 8))
    x = b.node("Conv", x, b.constant("w0", numbers(4, 4, 3, 3)), name="stem", strides=(2, 2), pads=(1, 1, 1, 1))
    x = b.node("Conv", x, b.constant("w1", numbers(4, 1, 3, 3)), name="deep", group=4, output="deep_out")
    x = b.node("MaxPool", x, kernel_shape=(2, 2), output="unnamed")
    b.output(b.node("GlobalAveragePool", x, name="all"))
    model = b.model(opset=18)
    nodes = tuple(replace(node, name="") if "unnamed" in node.outputs else node for node in model.graph.nodes)
    return replace(model, graph=replace(model.graph, nodes=nodes))


def said(quantized: Quantized) -> list[tuple[str, str]]:
    graph = quantized.graph
    return [(name_of(graph, layer), kind_text(graph, layer)) for layer in graph.layers]


def test_kinds_are_those_of_the_users_model() -> None:
    quantized = quantize(encoder())
    kinds = [layer.kind for layer in quantized.graph.layers]
    assert kinds[:2] == ["conv", "average_pool"]  # what hardware does
    assert said(quantized) == [
        ("/embed/MatMul", "dense"), ("/Add_positions", "add"), ("/norm", "layer normalization"),
        ("/rnn", "part of gru"), ("/rnn", "gru"), ("/mean", "mean"), ("/head/Gemm", "dense")]


def test_windows_are_told() -> None:
    assert said(quantize(pictures())) == [
        ("stem", "conv 3\N{MULTIPLICATION SIGN}3 /2"), ("deep", "depthwise 3\N{MULTIPLICATION SIGN}3"),
        ("unnamed", "max pool 2\N{MULTIPLICATION SIGN}2"), ("all", "global average pool")]


def test_what_layers_are_called_is_no_part_of_a_design(tmp_path: Path) -> None:
    graph = quantize(encoder()).graph
    bare = replace(graph, origins={})
    plan = plan_for(graph, graph, load_board("ulx3s_85f"))
    assert bare == graph
    assert identity(bare, plan) == identity(graph, plan)
    assert [kind_of(bare, layer) for layer in bare.layers][:2] == ["conv", "average pool"]
    save_graph(graph, tmp_path)
    assert load_graph(tmp_path).origins == graph.origins


def test_tables_of_commands(cli: Cli) -> None:
    save(encoder(), "e.onnx")
    rows = cli("quantize", "e.onnx").out
    assert [line.split()[:2] for line in rows.splitlines() if line.strip().startswith(("/embed", "/Add"))] == [
        ["/embed/MatMul", "dense"], ["/Add_positions", "add"]]
    facts = cli("quantize", "e.onnx", "--json").json
    assert [(layer["kind"], layer["hardware"]) for layer in facts["layers"]][:2] == [
        ("dense", "conv"), ("add", "average_pool")]
    assert cli("build", "e.onnx").code == 0
    assert "kind: add\n" in Path("build/e/ulx3s_85f/plan.yaml").read_text()
