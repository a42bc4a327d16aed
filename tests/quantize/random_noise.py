"""What 8 bits do to a float model, without hwflow: noise in each tensor that becomes integers, and in weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from tests.quantize.random_checks import TIE

#: Lower numbers only hide a score from a Softmax, and take no part in a range.
LOWEST = -32.0

#: What an element is computed from alone; of a quantizer behind it there is one rounding, behind both.
FUNCTIONS = ("Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh")
#: What takes elements as they are, so that integers stay integers.
MOVES = ("Transpose", "Flatten", "Reshape", "MaxPool", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "Identity")
#: Operators with weights, which stand behind their first input.
PRODUCTS = ("MatMul", "Gemm", "Conv")


def noise_of_8_bits(model: Model, rows: Mapping[str, Array], draws: int) -> dict[str, Array]:
    """Each output of so many draws [draws, rows, ...]: to each element of a tensor that a runtime of integers rounds,
    up to half a step of 8 bits is added at random, in each row anew; and to each weight.  To what the file's own
    quantizers round, as much as float32 may be off: it decides between two steps where a number is in their middle."""
    graph, rng, count = model.graph, np.random.default_rng(12), len(next(iter(rows.values())))
    places, weights = rounded(graph), float_weights(graph)
    ties = {name: TIE * step for name, step in steps(graph).items() if name not in places}
    every = (*places, *weights, *ties)
    values = {**rows, **evaluated(model, rows, [name for name in every if name not in rows])}
    halves = {**{name: half_a_step(values[name]) for name in every}, **ties}
    changed, found = with_noise(model, every), []
    for _ in range(draws):
        added = {}
        for name, half in halves.items():
            shape = values[name].shape
            drawn = rng.uniform(-half, half, shape[1:] if name in weights else shape).astype(np.float32)
            added[f"{name}.noise"] = np.broadcast_to(drawn, (count, *shape[1:]))
        found.append(evaluated(changed, {**rows, **added}, [value.name for value in graph.outputs]))
    return {name: np.stack([draw[name] for draw in found]) for name in found[0]}


def evaluated(model: Model, rows: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    count = len(next(iter(rows.values())))
    found = [onnx.evaluate(model, {k: v[i] for k, v in rows.items()}, names) for i in range(count)]
    return {name: np.stack([row[name] for row in found]) for name in names}


def half_a_step(values: Array) -> float:
    seen = np.nan_to_num(np.maximum(values, LOWEST).astype(np.float64), nan=0.0)
    return float(max(seen.max(), 0) - min(seen.min(), 0)) / 255 / 2


def rounded(graph: Graph) -> list[str]:
    """The float tensors, inputs among them, which a file does not say the integers of."""
    settled, readers = set[str](), dict[str, list[Node]]()
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
        if node.op_type == "DequantizeLinear" or (node.op_type in MOVES and node.inputs[0] in settled):
            settled.update(node.outputs)
    ends = {value.name for value in graph.outputs}

    def is_rounded_behind(name: str) -> bool:
        return name not in ends and all(
            reader.op_type == "QuantizeLinear"
            or (reader.op_type in (*FUNCTIONS, *MOVES) and is_rounded_behind(reader.outputs[0]))
            for reader in readers.get(name, ())
        )

    every = [*(value.name for value in graph.inputs), *(name for node in graph.nodes for name in node.outputs if name)]
    return [name for name in every if is_float(graph, name) and name not in settled and not is_rounded_behind(name)]


def is_float(graph: Graph, name: str) -> bool:
    kind = graph.tensor_type(name)
    return kind is not None and kind.dtype == np.float32


def steps(graph: Graph) -> dict[str, float]:
    """Of one tensor that a QuantizeLinear reads, the step."""
    nodes = [node for node in graph.nodes if node.op_type == "QuantizeLinear" and is_float(graph, node.inputs[0])]
    read = {node.inputs[0]: graph.initializers.get(node.inputs[1]) for node in nodes}
    return {name: float(np.min(scale)) for name, scale in read.items() if scale is not None}


def float_weights(graph: Graph) -> list[str]:
    """The weights of products that the file has as floats, of 32 bits or of 8."""
    made = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.op_type == "DequantizeLinear"}
    read = dict.fromkeys(name for node in graph.nodes if node.op_type in PRODUCTS for name in node.inputs[:2])
    numbers = {name: graph.initializers.get(made.get(name, name)) for name in read}
    return [name for name, value in numbers.items() if value is not None and value.dtype.name.startswith("float")]


def with_noise(model: Model, places: Sequence[str]) -> Model:
    """`model` with an input NAME.noise for each of `places`, which is added there."""
    graph, wanted = model.graph, set(places)
    entries = [Value(f"{name}.noise", TensorType(np.dtype(np.float32), None)) for name in places]
    given = (*(value.name for value in graph.inputs), *graph.initializers)
    fed = {name: f"{name}.noisy" for name in dict.fromkeys(given) if name in wanted}
    nodes = [Node("Add", (name, f"{name}.noise"), (noisy,)) for name, noisy in fed.items()]
    for node in graph.nodes:
        renamed = {name: f"{name}.exact" for name in node.outputs if name in wanted}
        nodes.append(replace(node, inputs=tuple(fed.get(name, name) for name in node.inputs),
                             outputs=tuple(renamed.get(name, name) for name in node.outputs)))  # fmt: skip
        nodes += [Node("Add", (exact, f"{name}.noise"), (name,)) for name, exact in renamed.items()]
    return replace(model, graph=replace(graph, nodes=tuple(nodes), inputs=(*graph.inputs, *entries)))
