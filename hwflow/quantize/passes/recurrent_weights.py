"""Integer weights of recurrent nodes: W and R behind DequantizeLinear, with a scale for each row of each gate.

What else a recurrent layer rounds, its bias, the sums in front of its gates and its states, has no place in a QDQ
model: the importer decides it (`importer/kinds/recurrent.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Array, Model, Node
from hwflow.quantize.calibration.weights import weight_form
from hwflow.quantize.graphs import Additions, with_graph
from hwflow.quantize.passes.recurrent import is_recurrent
from hwflow.quantize.settings import WeightSettings

__all__ = ["has_real_weights", "recurrent_weights"]

#: Of a recurrent node: W [directions, gates * hidden, inputs] and R [directions, gates * hidden, hidden].
_MATRICES = (1, 2)


def has_real_weights(model: Model) -> bool:
    """Whether a recurrent node has weights that are no integers yet."""
    constants = model.graph.initializers
    return any(is_recurrent(node) and any(node.inputs[k] in constants for k in _MATRICES) for node in model.graph.nodes)


def recurrent_weights(model: Model, settings: Callable[[Node], WeightSettings]) -> Model:
    """`model` with integers for the weights of recurrent nodes that are plain constants, by the `settings` of each."""
    graph = model.graph
    added, nodes = Additions(graph), list[Node]()
    for node in graph.nodes:
        inputs = [*node.inputs]
        for place in _MATRICES if is_recurrent(node) else ():
            weights = graph.initializers.get(inputs[place])
            if weights is not None:
                made = _dequantized(inputs[place], weights, settings(node), added)
                nodes += made
                inputs[place] = made[-1].outputs[0]
        nodes.append(replace(node, inputs=tuple(inputs)))
    return with_graph(model, nodes, added.initializers)


def _dequantized(name: str, weights: Array, settings: WeightSettings, added: Additions) -> list[Node]:
    """The nodes that make the reals of integers for `weights` [directions, rows, columns].

    Two directions have the scales of their rows along one axis, for DequantizeLinear knows no more.
    """
    rows = weights.reshape(-1, weights.shape[-1])
    form = weight_form(rows, settings)
    both = len(weights) > 1
    integers = form.integers.astype(np.int8).reshape(rows.shape if both else weights.shape)
    parameters = (
        added.constant(f"{name}_quantized", integers),
        added.constant(f"{name}_scale", form.scales),
        added.constant(f"{name}_zero_point", np.zeros(len(form.scales), np.int8)),
    )
    result = added.new(f"{name}_dequantized")
    nodes = [Node("DequantizeLinear", parameters, (result,), {"axis": 0 if both else 1}, result)]
    if both:
        shape, whole = added.constant(f"{name}_shape", np.array(weights.shape, np.int64)), added.new(f"{name}_whole")
        nodes.append(Node("Reshape", (result, shape), (whole,), name=whole))
    return nodes
