"""Models as deep as files allow end in layers or in a message, never in Python's limit of nested calls."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.quantize import quantize

DEPTH = 1100  # Python's limit is 1000
IMAGE = TensorType(np.dtype(np.float32), (1, 2, 4, 4))


def model(nodes: list[Node], constants: dict[str, Array], output: TensorType) -> Model:
    graph = Graph("deep", tuple(nodes), (Value("x", IMAGE),), (Value(nodes[-1].outputs[0], output),), constants)
    return Model(graph, 8, {"": 13})


def test_host_computes_long_tails():
    nodes = [Node("Conv", ("x", "w"), ("t0",), {}, "conv")]
    nodes += [Node("Sigmoid", (f"t{k}",), (f"t{k + 1}",), {}, f"sigmoid{k}") for k in range(DEPTH)]
    made = quantize(model(nodes, {"w": np.ones((2, 2, 1, 1), np.float32)}, IMAGE))
    tail = [node.outputs[0] for node in made.epilogue.graph.nodes if node.op_type == "Sigmoid"]
    assert tail == [f"t{k + 1}" for k in range(DEPTH)]


def test_concats_inside_of_concats_are_refused_where_they_are_too_deep():
    constants: dict[str, Array] = {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)}
    nodes = [
        Node("QuantizeLinear", ("x", "s", "z"), ("x_q",), {}, "quantize"),
        Node("DequantizeLinear", ("x_q", "s", "z"), ("t0",), {}, "dequantize"),
    ]
    nodes += [Node("Concat", (f"t{k}", "t0"), (f"t{k + 1}",), {"axis": 1}, f"concat{k}") for k in range(65)]
    nodes += [
        Node("QuantizeLinear", ("t65", "s", "z"), ("y_q",), {}, "quantize_y"),
        Node("DequantizeLinear", ("y_q", "s", "z"), ("y",), {}, "dequantize_y"),
    ]
    output = TensorType(np.dtype(np.float32), (1, 2 * 66, 4, 4))
    with pytest.raises(HwflowError) as refused:
        quantize(model(nodes, constants, output))
    assert str(refused.value).splitlines()[1:] == [
        "  'concat64' (Concat): joins results of Concat more than 64 deep",
        "    quantize the result of some of them",
    ]
