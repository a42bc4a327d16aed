"""What people call a layer: the user's name of its node, and a kind that names what the user's model does there.

An addition of constants is an `average_pool` in hardware and a fully connected layer of rows a `conv`: both are called
what they are in the model.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwflow.layers.base import Layer, LayerGraph

#: Kinds of layers that say more of themselves than their operator does.
_OWN = frozenset({"recurrent", "trees"})
#: Kinds of layers whose weights make a product a fully connected layer.
_WEIGHTED = frozenset({"conv", "dense"})
_PRODUCTS = frozenset({"MatMul", "Gemm", "QGemm", "QLinearMatMul", "MatMulInteger", "MatMulIntegerToFloat"})
_LINEAR = frozenset({"LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"})
_WORDS = {
    "ConvTranspose": "transposed conv", "ConvInteger": "conv", "PRelu": "prelu", "ArgMax": "argmax",
    "ArgMin": "argmin", "Sub": "subtract", "Sum": "add", "Mul": "multiply", "Div": "divide", "ReduceMean": "mean",
    "ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "STFT": "stft", "DFT": "dft",
}  # fmt: skip


def name_of(graph: LayerGraph, layer: Layer) -> str:
    """The name of the user's node that `layer` was made of; its own where that is not known."""
    origin = graph.origins.get(layer.name)
    return layer.name if origin is None else origin.node


def kind_of(graph: LayerGraph, layer: Layer) -> str:
    """"dense", "add", "layer normalization": what the user's node does; the kind of the layer where it is not known.

    A layer that does not compute all of its node is "part of softmax", one that only brings elements into order for it
    "rearrange for softmax".
    """
    origin = graph.origins.get(layer.name)
    if origin is None or layer.kind in _OWN:
        return layer.said
    word = _operator_word(origin.operator, layer)
    if origin.whole:
        return word
    return f"{layer.said} for {word}" if layer.kind == "rearrange" else f"part of {word}"


def _operator_word(operator: str, layer: Layer) -> str:
    operator = operator.removeprefix("QLinear") if operator not in _PRODUCTS else operator
    if operator in _PRODUCTS:
        return "dense" if layer.kind in _WEIGHTED else "matmul"
    if operator in _LINEAR:
        return "dense"
    return _WORDS.get(operator) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", operator).lower()
