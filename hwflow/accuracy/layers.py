"""Layer by layer, how far the integer model is from the same computation in reals, on real data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow import golden
from hwflow.golden import Progress
from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.rescale import Requantize, Thresholds
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array
from hwflow.quantize import Quantized

__all__ = ["LayerNoise", "layer_noise", "most_harmful"]

Reals = npt.NDArray[np.float64]

#: Elements of all tensors together that are held at once: some 100 MB.
_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class LayerNoise:
    """The tensor that a layer makes (or an input of the graph: `layer` and `kind` are empty), against its real twin.

    `source` is the tensor of the model in reals that it is compared with, "" where it has none; then what is measured
    is None.  `weights` and `activations` are the formats as text; a layer without weights has "".  `signal` and `noise`
    are mean squares, `bias` the mean and `largest` the largest absolute error, all in real units; `step` is what one
    integer step is worth.  `saturated` is the share of elements, 0 to 1, whose real value is outside what the tensor
    can hold.  `added` is how much larger noise / signal is than at the layer's noisiest input, `inputs_db` that input's
    signal to noise in decibels, None where it is exact.
    """

    tensor: str
    layer: str
    kind: str
    weights: str
    activations: str
    step: float
    signal: float | None = None
    noise: float | None = None
    bias: float | None = None
    largest: float | None = None
    saturated: float | None = None
    added: float | None = None
    inputs_db: float | None = None
    source: str = ""

    @property
    def ratio(self) -> float | None:
        """Noise over signal; None where nothing was measured or there is no signal."""
        return None if not self.signal or self.noise is None else self.noise / self.signal

    @property
    def snr_db(self) -> float | None:
        """Signal over noise in decibels; None where it is not measured, or there is no noise or no signal."""
        return decibels(self.ratio)


def decibels(ratio: float | None) -> float | None:
    """A ratio of noise to signal as signal to noise in decibels."""
    return -10 * math.log10(ratio) if ratio is not None and ratio > 0 and math.isfinite(ratio) else None


def layer_noise(
    quantized: Quantized, inputs: Mapping[str, Array], progress: Progress | None = None
) -> tuple[LayerNoise, ...]:
    """Every tensor of the graph in its order, measured on rows `inputs` [n, *input shape].

    The twin is evaluated in its own types row by row, the golden model on many rows at once.
    """
    graph, count = quantized.graph, min(len(array) for array in inputs.values())
    sums = {name: _Sums(graph, name) for name in quantized.views if name in graph.tensors}
    at_once = max(1, _ELEMENTS // sum(tensor.frame.elements for tensor in graph.tensors.values()))
    for start in range(0, count if sums else 0, at_once):
        rows = {name: array[start : start + at_once] for name, array in inputs.items()}
        integers = golden.run(quantized, golden.before(quantized, rows))
        sources = tuple(dict.fromkeys(quantized.views[name].source for name in sums))
        for k in range(min(at_once, count - start)):
            reals = evaluate(quantized.twin, {name: array[k] for name, array in rows.items()}, sources)
            for name, total in sums.items():
                view = quantized.views[name]
                total.add(np.asarray(reals[view.source], np.float64).reshape(-1),
                          integers[name][k].reshape(-1)[view.index.reshape(-1)])  # fmt: skip
            if progress is not None:
                progress(start + k + 1, count)
    found = {name: _row(graph, name, sums.get(name)) for name in graph.computed}
    for name in sums:
        found[name] = replace(found[name], source=quantized.views[name].source)
    return _with_added(graph, found)


def most_harmful(noises: Sequence[LayerNoise]) -> LayerNoise | None:
    """The layer that adds most noise, relative to the signal, to what its inputs bring; None where none adds any.

    Powers of independent errors add up, so the share that a layer adds is comparable along the whole graph; a fall in
    decibels is not (from 60 to 50 harms less than from 20 to 18).
    """
    adding = [row for row in noises if row.layer and row.added]
    return max(adding, key=lambda row: row.added or 0.0, default=None)


class _Sums:
    """What is summed up over rows of one tensor."""

    def __init__(self, graph: LayerGraph, name: str) -> None:
        self.tensor = graph.tensors[name]
        self.low, self.high = _ends(graph.producer(name), self.tensor.format)
        self.count = self.saturated = 0
        self.signal = self.noise = self.error = self.largest = 0.0

    def add(self, reals: Reals, integers: IntArray) -> None:
        """One row: the real values, and the integers in their places."""
        tensor = self.tensor
        error = tensor.scale * (integers - tensor.zero_point) - reals
        exact = np.rint(reals / tensor.scale) + tensor.zero_point
        self.count += reals.size
        self.saturated += int(np.count_nonzero((exact < self.low) | (exact > self.high)))
        self.signal += float(reals @ reals)
        self.noise += float(error @ error)
        self.error += float(error.sum())
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))


def _ends(layer: Layer | None, format: IntFormat) -> tuple[int, int]:
    """The smallest and the largest integer that can stand in a tensor."""
    rescale = getattr(layer, "requantize", None)
    return (rescale.low, rescale.high) if isinstance(rescale, Requantize | Thresholds) else (format.low, format.high)


def _row(graph: LayerGraph, name: str, sums: _Sums | None) -> LayerNoise:
    layer, tensor = graph.producer(name), graph.tensors[name]
    weights = getattr(layer, "weight_format", None)
    row = LayerNoise(
        tensor=name,
        layer=layer.name if layer else "",
        kind=layer.kind if layer else "",
        weights=str(weights) if weights else "",
        activations=str(tensor.format),
        step=tensor.scale,
    )
    if sums is None or not sums.count:
        return row
    n = sums.count
    measured = (sums.signal / n, sums.noise / n, sums.error / n, sums.largest)
    signal, noise, bias, largest = (value if math.isfinite(value) else None for value in measured)
    return replace(row, signal=signal, noise=noise, bias=bias, largest=largest, saturated=sums.saturated / n)


def _with_added(graph: LayerGraph, rows: Mapping[str, LayerNoise]) -> tuple[LayerNoise, ...]:
    """Compare each layer with its inputs; a tensor without a counterpart hands on the noise that comes to it."""
    ratios: dict[str, float] = {}
    found = []
    for name, row in rows.items():
        layer = graph.producer(name)
        before = max((ratios[source] for source in layer.inputs), default=0.0) if layer else 0.0
        ratios[name] = before if row.ratio is None else row.ratio
        added = None if row.ratio is None else max(row.ratio - before, 0.0)
        found.append(replace(row, added=added, inputs_db=decibels(before) if layer else None))
    return tuple(found)
