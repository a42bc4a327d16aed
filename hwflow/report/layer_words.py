"""A layer in a few words: what it does, and the weights that it holds."""

from __future__ import annotations

from dataclasses import dataclass

from ..layers.base import Layer, LayerGraph
from ..layers.conv import Conv
from ..layers.dense import Dense
from ..layers.formats import IntFormat
from ..layers.recurrent import Recurrent
from ..layers.window import Window
from ..layers.words import kind_of

__all__ = ["Weights", "kind_text", "tensor_text", "weights_of", "window_text"]

#: Kinds whose windows are worth a word.
_WINDOWS = ("conv", "transposed conv", "average pool", "max pool", "lp pool")
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Weights:
    """The constants that a layer multiplies by: their shape, and the format of each."""

    shape: tuple[int, ...]
    format: IntFormat

    @property
    def count(self) -> int:
        found = 1
        for size in self.shape:
            found *= size
        return found

    def __str__(self) -> str:
        return f"{_TIMES.join(map(str, self.shape))} {self.format}"


def weights_of(layer: Layer) -> Weights | None:
    """None for a layer that does not multiply by constants."""
    if isinstance(layer, Conv | Dense):
        return Weights(layer.weights.shape, layer.weight_format)
    if isinstance(layer, Recurrent):
        return Weights(layer.hidden_weights.shape, layer.weight_format)
    return None


def kind_text(graph: LayerGraph, layer: Layer) -> str:
    """"conv 3x3 /2", "depthwise 3x3", "dense", "gru": the kind with what a picture of a network usually says of it."""
    kind, window = kind_of(graph, layer), getattr(layer, "window", None)
    if not isinstance(window, Window) or kind not in _WINDOWS:
        return kind
    if isinstance(layer, Conv) and layer.groups > 1:
        kind = "depthwise" if layer.weights.shape[3] == 1 else f"{layer.groups} groups"
    return f"{kind} {window_text(window)}"


def window_text(window: Window) -> str:
    """"3x3", with "/2" for strides and "dilated 2" where there are such."""
    text = _TIMES.join(map(str, window.kernel))
    if max(window.strides) > 1:
        text += f" /{_one_or_both(window.strides)}"
    if max(window.dilations) > 1:
        text += f" dilated {_one_or_both(window.dilations)}"
    return text


def _one_or_both(sizes: tuple[int, int]) -> str:
    return str(sizes[0]) if sizes[0] == sizes[1] else _TIMES.join(map(str, sizes))


def tensor_text(graph: LayerGraph, name: str) -> str:
    """"32x32x16 int8"."""
    tensor = graph.tensors[name]
    return f"{str(tensor.frame).replace('x', _TIMES)} {tensor.format}"
