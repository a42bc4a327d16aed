"""Recurrent nodes in the form that the importer knows: batch second, all of the sequence, last states out of Y.

Exporters write the same layer in many ways.  Behind these passes each RNN, GRU and LSTM has layout 0 and no
sequence_lens that says what holds anyway, and what is computed with its last hidden state reads Y, of which that is a
part.  Y_h and Y_c themselves are left to states that stay in the layer (`hwflow.quantize.passes.streaming`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Array, Graph, Model, Node, TensorType
from hwflow.quantize.graphs import Additions, attribute, consumers, label_of, shape_of, with_graph

#: Operators with a state, and how many they have: h, or h and c.
RECURRENT = {"GRU": 1, "LSTM": 2, "RNN": 1}

#: Of the inputs of a recurrent node: initial_h and initial_c.
INITIAL_STATES = slice(5, 7)

#: Of a recurrent node: sequence_lens, and the first initial state.
_LENGTHS, _INITIAL = 4, 5


def is_recurrent(node: Node) -> bool:
    """True for an RNN, GRU or LSTM."""
    return not node.domain and node.op_type in RECURRENT


def batch_second(model: Model) -> Model:
    """Layout 1 ([batch, steps, ...]) written as layout 0 between Transposes."""
    graph = model.graph
    if not any(is_recurrent(node) and node.attributes.get("layout") for node in graph.nodes):
        return model
    added = _Moves(graph)
    for node in graph.nodes:
        if not (is_recurrent(node) and node.attributes.get("layout")):
            added.nodes.append(node)
            continue
        inputs, outputs, behind = [*node.inputs], [*node.outputs], list[Node]()
        states = range(_INITIAL, min(_INITIAL + RECURRENT[node.op_type], len(inputs)))
        for place in (0, *states):
            if inputs[place]:
                inputs[place] = added.transposed(inputs[place], (1, 0, 2))
        for place, name in enumerate(node.outputs):
            if name:
                back: tuple[int, ...] = (2, 0, 1, 3) if place == 0 else (1, 0, 2)
                outputs[place] = added.new(f"{name}.batch_second")
                shape = shape_of(graph, name)
                if shape is not None:
                    added.typed(outputs[place], tuple(shape[k] for k in np.argsort(back)))
                behind.append(Node("Transpose", (outputs[place],), (name,), {"perm": back}, f"{name}.batch_first"))
        attributes = {key: value for key, value in node.attributes.items() if key != "layout"}
        added.nodes += [replace(node, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes), *behind]
    return added.into(model)


def whole_sequences(model: Model) -> Model:
    """Without sequence_lens where they are constant and those of the whole sequence."""
    graph = model.graph

    def written(node: Node) -> Node:
        if not is_recurrent(node) or len(node.inputs) <= _LENGTHS or node.inputs[_LENGTHS] not in graph.initializers:
            return node
        x, lengths = shape_of(graph, node.inputs[0]), graph.initializers[node.inputs[_LENGTHS]]
        steps = None if x is None else x[1 if node.attributes.get("layout") else 0]
        if steps is None or not np.all(lengths == steps):
            return node
        inputs = [*node.inputs]
        inputs[_LENGTHS] = ""
        return replace(node, inputs=tuple(inputs))

    nodes = tuple(map(written, graph.nodes))
    return model if nodes == graph.nodes else with_graph(model, nodes)


def last_states_of_y(model: Model) -> Model:
    """A node that reads Y_h reads the same elements of Y; Y_h stays an output of its node only where the model gives it
    as it is and as the next value of an initial state that is an input.  Y gets a name where it has none.
    """
    graph = model.graph
    added, read = _Moves(graph), consumers(graph)
    nodes = added.nodes
    outputs, inputs = ({value.name for value in values} for values in (graph.outputs, graph.inputs))
    renamed: dict[str, str] = {}
    named = False
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        if is_recurrent(node) and not node.outputs[0]:
            node = replace(node, outputs=(added.new(f"{label_of(node)}.Y"), *node.outputs[1:]))
            named = True
        last = node.outputs[1] if is_recurrent(node) and len(node.outputs) > 1 else ""
        if not last or (last not in outputs and last not in read) or node.attributes.get("layout"):
            nodes.append(node)
            continue
        stays = last in outputs and len(node.inputs) > _INITIAL and node.inputs[_INITIAL] in inputs
        if stays and last not in read:
            nodes.append(node)
            continue
        y = node.outputs[0]
        result = added.new(f"{last}.of_y") if stays else last
        nodes.append(replace(node, outputs=(y, last if stays else "", *node.outputs[2:])))
        _emit_last_of(node, y, result, added)
        if stays:
            renamed[last] = result
    return added.into(model) if named or len(nodes) > len(graph.nodes) else model


def _emit_last_of(node: Node, y: str, result: str, added: _Moves) -> None:
    """The last hidden states [directions, 1, hidden] as a part of Y: the last step forward, the first one backward."""
    x, weights = (shape_of(added.graph, node.inputs[k]) for k in (0, 2))
    assert x is not None, "shapes are static"
    assert weights is not None, "shapes are static"
    steps, directions, batch, hidden = x[0], weights[0], x[1], weights[2]
    added.typed(y, (steps, directions, batch, hidden))
    added.typed(result, (directions, batch, hidden))
    row, sizes = added.new(f"{result}.steps"), (steps * directions, batch, hidden)
    reverse = attribute(node, "direction", "forward") == "reverse"
    places = [(0 if reverse or d == 1 else steps - 1) * directions + d for d in range(directions)]
    if steps == 1:
        added.reshaped(y, sizes, result, result)
        return
    added.typed(row, sizes)
    index = added.int64(f"{result}.index", places)
    added.emit("Gather", added.reshaped(y, sizes, result, row), index, output=result, axis=0)


class _Moves(Additions):
    """Additions of a pass: names, constants, nodes and types."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.types: dict[str, TensorType] = {}

    def typed(self, name: str, shape: tuple[int, ...]) -> None:
        self.types[name] = TensorType(np.dtype(np.float32), shape)

    def transposed(self, name: str, perm: tuple[int, ...]) -> str:
        """The tensor `name` transposed, by a new node unless it is constant."""
        constant: Array | None = self.graph.initializers.get(name)
        if constant is not None:
            return self.constant(f"{name}.batch_second", np.ascontiguousarray(constant.transpose(perm)))
        result, shape = self.new(f"{name}.batch_second"), shape_of(self.graph, name)
        if shape is not None:
            self.typed(result, tuple(shape[k] for k in perm))
        return self.emit("Transpose", name, output=result, perm=perm)

    def into(self, model: Model) -> Model:
        rewritten = super().into(model)
        return replace(rewritten, graph=replace(rewritten.graph, types={**rewritten.graph.types, **self.types}))
