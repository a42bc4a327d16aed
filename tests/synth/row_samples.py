"""Stages of rows by their sizes: what `unit_samples` makes of softmax and normalization."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from hwflow_rtl.vendor import Technology

from hwflow.layers import Frame, IntFormat, LayerGraph, Normalize, Softmax, Tensor
from hwflow.layers.base import Layer
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from tests.synth.sample import Sample


def graph_of(layer: Layer, x: Tensor, y: Tensor) -> LayerGraph:
    return LayerGraph("rows", {"x": x, "y": y}, (layer,), ("x",), ("y",))


def softmax_graph(elements: int, bits: int = 8, rows: int = 4) -> LayerGraph:
    """Scores of scale 0.05, probabilities of 8 bits."""
    frame = Frame(1, rows, elements)
    x = Tensor("x", frame, IntFormat(bits, True), 0.05, 3)
    y = Tensor("y", frame, IntFormat(8, False), 1 / 256, 0)
    return graph_of(Softmax.of("softmax", x, y), x, y)


def normalize_graph(elements: int, bits: int = 8, rows: int = 4, centred: bool = True) -> LayerGraph:
    """A LayerNormalization, or an RMSNormalization, whose results are up to 5 deviations."""
    frame, rng = Frame(1, rows, elements), np.random.default_rng(elements)
    x = Tensor("x", frame, IntFormat(bits, True), 0.05, 3)
    y = Tensor("y", frame, IntFormat(8, True), 5 / 128, 0)
    layer = Normalize.of(
        "norm", x, y, centred=centred, mean=True, epsilon=1e-5, gamma=rng.normal(1, 0.3, (1, elements)),
        beta=rng.normal(0, 0.5, (1, elements)) * centred)
    return graph_of(layer, x, y)


def sample(graph: LayerGraph, lanes: int, technology: Technology) -> Sample:
    (layer,) = graph.layers
    folding = Folding(1, lanes, lanes)
    return Sample(lambda: stage_of(graph, layer).unit(folding, technology),
                  lambda: stage_of(graph, layer).cost(folding, technology))


def softmax(technology: Technology, elements: int, lanes: int, bits: int = 8) -> Sample:
    return sample(softmax_graph(elements, bits), lanes, technology)


def normalize(technology: Technology, elements: int, lanes: int, bits: int = 8, centred: bool = True) -> Sample:
    return sample(normalize_graph(elements, bits, centred=centred), lanes, technology)


ROWS: Mapping[str, Callable[..., Sample]] = {"SoftmaxStage": softmax, "NormalizeStage": normalize}
