"""The safety net under the importer: each integer layer against the ONNX tensors that it stands for.

The golden model of each layer runs on the integers that ONNX's formulas give (`meaning`), and its result is compared
with theirs.  Both are exact but for ties: sums in float32 may break one the other way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate
from hwflow.onnx.model import Model, Operand
from hwflow.quantize.graphs import consumers
from hwflow.quantize.meaning import Comparison, Meaning, MeaningChanged
from hwflow.quantize.twin import Places

__all__ = ["require_layers"]


def require_layers(meaning: Meaning, model: Model, graph: LayerGraph, prologue: Model, places: Places) -> None:
    """Raise MeaningChanged where a layer of `graph` gives other integers than the tensor of ONNX behind its result.

    `graph` with its `prologue` was imported from the QDQ `model`, whose tensors have the names of those of `meaning`
    where they mean the same; `places` gives the ONNX tensor behind each tensor of `graph`, with its index.
    """
    reals, comparison = _dequantized(model), Comparison()
    for feeds, values in zip(meaning.feeds, meaning.values, strict=True):
        known = {name: frame for name in graph.computed if name in places
                 and (frame := _expected(name, graph, places, reals, values)) is not None}  # fmt: skip
        fed = {value.name: feeds[value.name] for value in prologue.graph.inputs}
        frames = {name: np.asarray(array, np.int64) for name, array in evaluate(prologue, fed).items()}
        for layer in graph.layers:
            found = layer.evaluate(graph, *(frames[name] for name in layer.inputs))
            expected = known.get(layer.output)
            if expected is not None:
                step = 2 if graph.tensors[layer.output].format.bipolar else 1
                comparison.add(layer.output, f"layer '{layer.name}' ({layer.kind})", expected // step, found // step)
            fits = expected is not None and graph.tensors[layer.output].format.contains(expected)
            frames[layer.output] = expected if fits and expected is not None else found
    difference = comparison.first()
    if difference is not None:
        raise MeaningChanged(
            f"the import must keep what the model computes, and does not: tensor '{difference.tensor}' of "
            f"{difference.node} {difference.how}; nothing was made of this model"
        )


def _dequantized(model: Model) -> dict[str, str]:
    """Integer tensor to the reals that a DequantizeLinear makes of it."""
    read = consumers(model.graph)
    found = ((name, node.outputs[0]) for name, nodes in read.items() for node in nodes
             if node.op_type == "DequantizeLinear" and node.inputs[0] == name)  # fmt: skip
    return dict(found)


def _expected(
    name: str, graph: LayerGraph, places: Places, reals: Mapping[str, str], values: Mapping[str, Operand]
) -> IntArray | None:
    """The frame [1, h, w, c] that a tensor of `graph` should be; None where ONNX has no such integers.

    The part of a Concat means what an ONNX tensor means, but in the scale of the whole.
    """
    source, index = places[name]
    tensor = graph.tensors[name]
    if name not in (source, f"{source}.frame"):
        return None
    found = values.get(source, values.get(reals.get(source, "")))
    if not isinstance(found, np.ndarray) or found.shape != index.shape or found.size != tensor.frame.elements:
        return None
    if found.dtype.kind == "f":
        found = np.rint(found.astype(np.float64) / tensor.scale) + tensor.zero_point
    frame = np.empty(found.size, np.int64)
    frame[index.ravel()] = found.ravel()
    return frame.reshape(1, tensor.frame.height, tensor.frame.width, tensor.frame.channels)
