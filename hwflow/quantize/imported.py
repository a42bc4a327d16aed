"""The safety net under the importer: each integer layer against the ONNX tensors that it stands for.

The golden model of each layer runs on the integers that ONNX's formulas give (`meaning`), and its result is compared
with theirs.  Both are exact but for ties: sums in float32 may break one the other way.  Where the reals in front of a
QuantizeLinear are known, they tell the ties; rows that are constant may have nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model, Operand
from hwflow.quantize.graphs import consumers, producers
from hwflow.quantize.meaning import Comparison, Meaning, MeaningChanged
from hwflow.quantize.twin import Places

__all__ = ["require_layers"]

#: How near to the middle between two integers a real is a tie, in steps.
_TIE = 1e-3


def require_layers(meaning: Meaning, model: Model, graph: LayerGraph, prologue: Model, places: Places) -> None:
    """Raise MeaningChanged where a layer of `graph` gives other integers than the tensor of ONNX behind its result.

    `graph` with its `prologue` was imported from the QDQ `model`, whose tensors have the names of those of `meaning`
    where they mean the same; `places` gives the ONNX tensor behind each tensor of `graph`, with its index.
    """
    reals, comparison, ties = _dequantized(model), Comparison(), _Ties(model)
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
                source, index = places[layer.output]
                is_tie = ties.of(source, values)
                if is_tie is not None and is_tie.shape == index.shape:
                    broken = _framed(is_tie, index).reshape(found.shape) & (np.abs(found - expected) <= step)
                    found = np.where(broken, expected, found)
                near = np.abs(found - expected) <= step * layer.deviation(graph)
                found = np.where(near, expected, found)
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
    frame = np.asarray(_framed(found, index), np.int64)
    return frame.reshape(1, tensor.frame.height, tensor.frame.width, tensor.frame.channels)


def _framed(array: Array, index: IntArray) -> Array:
    """The elements of an ONNX tensor in the order of the frame, as `index` has it."""
    frame = np.empty(array.size, array.dtype)
    frame[index.ravel()] = array.ravel()
    return frame


class _Ties:
    """Where the reals that the quantizers of a model round are in the middle between two integers."""

    def __init__(self, model: Model) -> None:
        self._made, self._constants = producers(model.graph), model.graph.initializers

    def of(self, name: str, values: Mapping[str, Operand]) -> Array | None:
        """Bools like the integer tensor `name`; None where no QuantizeLinear with one scale makes it of known reals."""
        node = self._made.get(name)
        if node is None or node.op_type != "QuantizeLinear":
            return None
        scale, x = self._constants.get(node.inputs[1]), values.get(node.inputs[0])
        if scale is None or scale.size != 1 or not isinstance(x, np.ndarray):
            return None
        with np.errstate(all="ignore"):  # infinities are no ties
            steps = np.asarray(x, np.float64) / float(scale.reshape(()))
            return np.asarray(np.abs(steps - np.floor(steps) - 0.5) < _TIE * np.maximum(1.0, np.abs(steps) / 256))
