"""Layer by layer, how far the integer model is from the same computation in reals, on real data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from hwflow_base.short_repr import fields_repr

from hwflow import golden
from hwflow.accuracy.histogram import Histogram, Tally
from hwflow.golden import Progress
from hwflow.layers.base import Layer, LayerGraph, kind_of
from hwflow.layers.formats import IntArray, IntFormat, Tensor
from hwflow.layers.rescale import Requantize, Thresholds
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model
from hwflow.onnx.run.sequences import with_state_rows
from hwflow.quantize import Quantized
from hwflow.quantize.calibrate.ranges import used_elements
from hwflow.quantize.quantized import View

Reals = npt.NDArray[np.float64]

#: Elements of all tensors together that are held at once: some 100 MB.
_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class MadeTensor:
    """The tensor that a layer makes, or an input of the graph: then `layer` and `kind` are empty.

    `weights` and `activations` are the formats as text; a layer without weights has "".  `step` is what one integer
    step is worth in real units.
    """

    tensor: str
    layer: str
    kind: str
    weights: str
    activations: str
    step: float


@dataclass(frozen=True)
class TensorNoise:
    """A tensor against its real twin; None where it has none, or nothing was measured.

    `signal` and `noise` are mean squares, `bias` the mean and `largest` the largest absolute error, all in real units.
    `saturated` is the share of elements, 0 to 1, whose real value is outside what the tensor can hold.  `added` is how
    much larger noise / signal is than at the layer's noisiest input, `inputs_db` that input's signal to noise in
    decibels, None where it is exact.
    """

    signal: float | None = None
    noise: float | None = None
    bias: float | None = None
    largest: float | None = None
    saturated: float | None = None
    added: float | None = None
    inputs_db: float | None = None

    @property
    def ratio(self) -> float | None:
        """Noise over signal; None where nothing was measured or there is no signal."""
        return None if not self.signal or self.noise is None else self.noise / self.signal

    @property
    def snr_db(self) -> float | None:
        """Signal over noise in decibels; None where it is not measured, or there is no noise or no signal."""
        return decibels(self.ratio)


@dataclass(frozen=True)
class LayerNoise(TensorNoise, MadeTensor):
    """The tensor of a layer, and how far it is from its real twin.

    `source` is the tensor of the model in reals that it is compared with, "" where it has none.  `original` is that of
    the model as its file has it, "" where that has none, and `original_ratio` the noise over the signal against it: of
    a float model about that of the twin, of a quantized one 0 where all integers are equal.  `reach` is how many times
    as far from 0 the real values are as what the tensor can hold.  `histogram`: how the elements of all rows are spread
    over the integers of the tensor.
    """

    source: str = ""
    original: str = ""
    original_ratio: float | None = None
    reach: float | None = None
    histogram: Histogram | None = None

    __repr__ = fields_repr


def decibels(ratio: float | None) -> float | None:
    """A ratio of noise to signal as signal to noise in decibels."""
    return -10 * math.log10(ratio) if ratio is not None and ratio > 0 and math.isfinite(ratio) else None


def layer_noise(
    quantized: Quantized, inputs: Mapping[str, Array], progress: Progress | None = None
) -> tuple[LayerNoise, ...]:
    """Every tensor of the graph in its order, measured on rows `inputs` [n, *input shape].

    Rows of a streaming model are one sequence.  Elements that nothing computes with are left out: no range was chosen
    for them.  The twin and the original are evaluated in their own types row by row, the golden model on many rows at
    once.
    """
    inputs = with_state_rows(quantized.twin, inputs)
    graph, count, used = quantized.graph, min(len(array) for array in inputs.values()), _used(quantized)
    against = [_Against(quantized.twin, quantized.views, graph, used)]
    if quantized.original is not None:
        against.append(_Against(quantized.original, quantized.originals, graph, used))
    at_once = max(1, _ELEMENTS // sum(tensor.frame.elements for tensor in graph.tensors.values()))
    at_once = count if graph.streaming else at_once  # one sequence
    tallies = {name: against[0].sums[name].tally if name in against[0].sums else _tally(graph, name)
               for name in graph.computed}  # fmt: skip
    for start in range(0, count, at_once):
        rows = {name: array[start : start + at_once] for name, array in inputs.items()}
        integers = golden.run(quantized, golden.run_prologue(quantized, rows))
        for name, tally in tallies.items():
            elements = integers[name].reshape(len(integers[name]), -1)
            tally.add_integers(elements[:, used[name]] if name in used else elements)
        for k in range(min(at_once, count - start)):
            row, frames = ({name: array[k] for name, array in arrays.items()} for arrays in (rows, integers))
            for other in against:
                other.add(row, frames)
            if progress is not None:
                progress(start + k + 1, count)
    sums = against[0].sums
    rows_of = {name: replace(_row(graph, name, sums.get(name)), histogram=tallies[name].histogram)
               for name in graph.computed}  # fmt: skip
    for name in sums:
        rows_of[name] = replace(rows_of[name], source=quantized.views[name].source)
    for name, total in against[1].sums.items() if len(against) > 1 else ():
        rows_of[name] = replace(rows_of[name], original=quantized.originals[name].source, original_ratio=total.ratio)
    return _with_added(graph, rows_of)


def _used(quantized: Quantized) -> dict[str, npt.NDArray[np.bool_]]:
    """For tensors of the graph some of whose elements are cut off: which of the frame's raster are not."""
    sources = used_elements(quantized.twin, [view.source for view in quantized.views.values()])
    masks = {}
    for name, view in quantized.views.items():
        mask = sources.get(view.source)
        if mask is not None and mask.size == view.index.size:
            masks[name] = np.zeros(mask.size, np.bool_)
            masks[name][view.index.ravel()] = mask.ravel()
    return masks


class _Against:
    """Sums over all tensors of a graph against those of a model that `views` point to.

    `used`: of some of them, the elements of a frame that count.
    """

    def __init__(
        self, model: Model, views: Mapping[str, View], graph: LayerGraph, used: Mapping[str, npt.NDArray[np.bool_]]
    ) -> None:
        self._used = used
        self.sums = {name: _Sums(graph, name) for name in views if name in graph.tensors}
        self._model, self._views = model, views
        self._sources = tuple(dict.fromkeys(views[name].source for name in self.sums))

    def add(self, row: Mapping[str, Array], frames: Mapping[str, IntArray]) -> None:
        """One row: the inputs of the model, and the integers [h, w, c] of every tensor of the graph."""
        values = evaluate(self._model, row, self._sources)
        for name, total in self.sums.items():
            view, tensor = self._views[name], total.tensor
            reals = np.asarray(values[view.source], np.float64).reshape(-1)
            if values[view.source].dtype.kind in "iu":
                reals = tensor.scale * (reals - tensor.zero_point)
            if reals.size == view.index.size:
                places = view.index.reshape(-1)
                there = self._used[name][places] if name in self._used else slice(None)
                total.add(reals[there], frames[name].reshape(-1)[places[there]])


def most_harmful(noises: Sequence[LayerNoise]) -> LayerNoise | None:
    """The layer that adds most noise, relative to the signal, to what its inputs bring; None where none adds any.

    Powers of independent errors add up, so the share that a layer adds is comparable along the whole graph; a fall in
    decibels is not (from 60 to 50 harms less than from 20 to 18).
    """
    adding = [row for row in noises if row.layer and row.added]
    return max(adding, key=lambda row: row.added or 0.0, default=None)


class _Sums:
    """Sums over rows of one tensor."""

    def __init__(self, graph: LayerGraph, name: str) -> None:
        self.tensor = graph.tensors[name]
        self.low, self.high = _ends(graph.producer(name), self.tensor.format)
        self.tally = _tally(graph, name)
        self.count = self.saturated = 0
        self.signal = self.noise = self.error = self.largest = self.farthest = 0.0

    @property
    def ratio(self) -> float | None:
        """Noise over signal; None where there is no signal."""
        return self.noise / self.signal if self.signal and math.isfinite(self.signal + self.noise) else None

    def add(self, reals: Reals, integers: IntArray) -> None:
        """One row: the real values, and the integers in their places."""
        tensor = self.tensor
        error = tensor.scale * (integers - tensor.zero_point) - reals
        exact = np.rint(reals / tensor.scale) + tensor.zero_point
        self.tally.add_reals(reals, exact)
        self.count += reals.size
        self.saturated += int(np.count_nonzero((exact < self.low) | (exact > self.high)))
        self.signal += float(reals @ reals)
        self.noise += float(error @ error)
        self.error += float(error.sum())
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))
        self.farthest = max(self.farthest, float(np.abs(reals).max(initial=0.0)))


def _tally(graph: LayerGraph, name: str) -> Tally:
    return Tally(graph.tensors[name], *_ends(graph.producer(name), graph.tensors[name].format))


def _ends(layer: Layer | None, format: IntFormat) -> tuple[int, int]:
    """The smallest and the largest integer that can stand in a tensor."""
    rescale = getattr(layer, "requantize", None)
    return (rescale.low, rescale.high) if isinstance(rescale, Requantize | Thresholds) else (format.low, format.high)


def farthest_of(tensor: Tensor, low: int, high: int) -> float:
    """The real value farthest from 0 of integers from `low` to `high`."""
    return max(abs(tensor.scale * (end - tensor.zero_point)) for end in (low, high))


def _row(graph: LayerGraph, name: str, sums: _Sums | None) -> LayerNoise:
    layer, tensor = graph.producer(name), graph.tensors[name]
    weights = getattr(layer, "weight_format", None)
    row = LayerNoise(
        tensor=name,
        layer=layer.name if layer else "",
        kind=kind_of(graph, layer) if layer else "",
        weights=str(weights) if weights else "",
        activations=str(tensor.format),
        step=tensor.scale,
    )
    if sums is None or not sums.count:
        return row
    n = sums.count
    measured = (sums.signal / n, sums.noise / n, sums.error / n, sums.largest)
    signal, noise, bias, largest = (value if math.isfinite(value) else None for value in measured)
    reach = sums.farthest / (farthest_of(tensor, sums.low, sums.high) or 1.0)
    return replace(row, signal=signal, noise=noise, bias=bias, largest=largest, saturated=sums.saturated / n,
                   reach=reach if math.isfinite(reach) else None)  # fmt: skip


def _with_added(graph: LayerGraph, rows: Mapping[str, LayerNoise]) -> tuple[LayerNoise, ...]:
    """Compare each layer with its inputs; a tensor without a counterpart hands on the noise that comes to it."""
    ratios: dict[str, float] = {}
    noises = []
    for name, row in rows.items():
        layer = graph.producer(name)
        before = max((ratios[source] for source in layer.inputs), default=0.0) if layer else 0.0
        ratios[name] = before if row.ratio is None else row.ratio
        added = None if row.ratio is None else max(row.ratio - before, 0.0)
        noises.append(replace(row, added=added, inputs_db=decibels(before) if layer else None))
    return tuple(noises)
