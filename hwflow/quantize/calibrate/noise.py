"""The noise of a float model whose tensors and weights become integers, on rows that it was not calibrated on.

What is judged are the tensors that leave the layers: the host's part behind them, a softmax or an ArgMax, would hide
errors where it saturates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.onnx import prepare
from hwflow.onnx.model import Array, Model, Node, Operand
from hwflow.onnx.run.sequences import state_pairs
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.points import Point
from hwflow.quantize.calibrate.streams import Floats, quantized
from hwflow.quantize.calibrate.tune import Tuned
from hwflow.quantize.graphs import Names, label_of, shape_of, with_graph

#: The most decibels that count; a tensor without any error has them.
MOST_DECIBELS = 120.0

#: Better by less than this many decibels is not better: other rows would say something else.
_MARGIN = 0.1

#: Standard errors that the mean of rows must have: to be more than chance; where other reasons say the same, too; and
#: where nothing speaks against it.
SURE, LIKELY, EVEN = 2.0, 1.0, 0.0

#: Operations that a node costs whatever it computes, in the time that numpy takes.
_OF_NODE = 1 << 15


@dataclass(frozen=True, eq=False)
class Noise:
    """Mean squares of what should be, and of the difference from it: float64 [tensors, rows]."""

    signal: Floats
    error: Floats

    @property
    def decibels(self) -> float:
        """Signal to noise over all rows, the mean of the tensors."""
        return float(_decibels(self.signal.sum(axis=1), self.error.sum(axis=1)).mean())

    @property
    def of_rows(self) -> Floats:
        """Signal to noise of each row, the mean of the tensors."""
        return np.asarray(_decibels(self.signal, self.error).mean(axis=0))

    def gain(self, other: Noise) -> float:
        """Decibels that this one is better than `other`, which is of the same rows."""
        return self.decibels - other.decibels

    def beats(self, other: Noise, errors: float = SURE) -> bool:
        """Whether it is better over all rows, and on the mean of the rows by more than chance would have it.

        Few large errors decide the first alone; so many standard `errors` say what other rows may say of the second.
        """
        rows = self.of_rows - other.of_rows
        least = errors * float(rows.std(ddof=1)) / math.sqrt(len(rows))
        return self.gain(other) >= _MARGIN and float(rows.mean()) >= max(_MARGIN, least)


def _decibels(signal: Floats, error: Floats) -> Floats:
    """10 log10 of the ratio; what has no signal counts as without error."""
    known = (signal > 0) & (error > 0)
    ratio = np.where(known, signal, 1.0) / np.where(known, error, 1.0)
    return np.where(known, np.minimum(10 * np.log10(ratio), MOST_DECIBELS), MOST_DECIBELS)


@dataclass(frozen=True, eq=False)
class Judge:
    """`model` in reals on `rows`: `wanted` [rows, elements] of each judged tensor, which may be centred (`centred`)."""

    model: Model
    rows: Mapping[str, Array]
    centred: Mapping[str, bool]
    wanted: Mapping[str, Floats] = field(default_factory=dict)

    @staticmethod
    def of(model: Model, points: Sequence[Point], rows: Mapping[str, Array]) -> Judge | None:
        """None where nothing leaves the layers but states, or what does is zero everywhere."""
        states = set(state_pairs(model).values())
        last = {point.tensor: point.is_scores for point in points if point.is_last and not point.is_input}
        judged = {name: scores for name, scores in last.items() if name not in states} or last
        judge = Judge(model, rows, judged)
        judge = replace(judge, wanted=judge._run(model, {}))
        return judge if judged and any(array.any() for array in judge.wanted.values()) else None

    @property
    def count(self) -> int:
        return min(len(array) for array in self.rows.values())

    def noise(self, activations: Mapping[str, ActivationForm], tuned: Tuned | None = None) -> Noise:
        """The noise with the tensors `activations` as integers, and the weights of `tuned`; None leaves these real."""
        made = self._run(self.model if tuned is None else _with_weights(tuned), activations)
        signal = np.stack([np.square(wanted).mean(axis=1) for wanted in self.wanted.values()])
        error = np.stack([np.square(made[name] - wanted).mean(axis=1) for name, wanted in self.wanted.items()])
        return Noise(signal, error)

    def _run(self, model: Model, activations: Mapping[str, ActivationForm]) -> dict[str, Floats]:
        program, found = prepare(model), {name: list[Floats]() for name in self.centred}

        def watch(node: Node, name: str, value: Operand) -> Operand:
            form = activations.get(name)
            return value if form is None else quantized(np.asarray(value), form)

        for k in range(self.count):
            feeds = {name: array[k] for name, array in self.rows.items()}
            feeds |= {name: quantized(feeds[name], form) for name, form in activations.items() if name in feeds}
            results = program.run(feeds, fetch=tuple(found), watch=watch)
            for name, rows in found.items():
                rows.append(np.asarray(results[name], np.float64).ravel())
        return {name: _centred(np.stack(rows), self.centred[name]) for name, rows in found.items()}


def _centred(rows: Floats, scores: bool) -> Floats:
    """Classes and their shares depend on differences of scores alone."""
    return rows - rows.mean(axis=1, keepdims=True) if scores and rows.shape[1] > 1 else rows


def _with_weights(tuned: Tuned) -> Model:
    """The model with the reals that its integer weights mean."""
    graph = tuned.model.graph
    names, nodes, added = Names(graph), list[Node](), dict[str, Array]()
    for node in graph.nodes:
        label, inputs = label_of(node), [*node.inputs]
        loop, layer = tuned.loops.get(label), tuned.weights.get(label)
        forms = (loop.w, loop.r) if loop is not None else (layer,) if layer is not None else ()
        for place, form in enumerate(forms, 1):
            shape = graph.initializers[inputs[place]].shape
            inputs[place] = names.new(f"{inputs[place]}_rounded")
            added[inputs[place]] = form.reals.reshape(shape)
        nodes.append(replace(node, inputs=tuple(inputs)))
    return with_graph(tuned.model, nodes, added)


def operations(model: Model) -> int:
    """About how many additions and multiplications one row takes, with what each node costs besides."""
    total = 0
    for node in model.graph.nodes:
        elements = sum(_elements(model, name) for name in node.outputs if name)
        weights = max((array.size // max(1, len(array)) for name in node.inputs[1:2]
                       if (array := model.graph.initializers.get(name)) is not None and array.ndim), default=1)
        total += _OF_NODE + elements * max(1, weights)
    return total


def _elements(model: Model, name: str) -> int:
    shape = shape_of(model.graph, name)
    return int(np.prod(shape)) if shape else 1
