"""The safety net under the importer: each integer layer against the ONNX tensors that it stands for.

The golden model of each layer runs on the integers that ONNX's formulas give (`meaning`), and its result is compared
with theirs.  Both are exact but for ties: sums in float32 may break one the other way.  Where the reals in front of a
QuantizeLinear are known, they tell the ties; rows that are constant may have nothing else.

A layer that is defined in integers (docs/integer-functions.md) deviates from ONNX's formula by up to a bound, and so
does what only moves, joins or rescales its result, up to the next tensor that ONNX has, too.  A recurrent layer has no
bound but for one step: its steps are compared one by one (`recurrent_steps`), and ONNX's formulas behind it read its
states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from hwflow.layers import Layer, LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.layers.recurrent import Recurrent
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model, Node, Operand
from hwflow.onnx.run.evaluate import program_of
from hwflow.quantize.checks.meaning import Comparison, Meaning, MeaningChanged
from hwflow.quantize.checks.recurrent_steps import Formulas, Weights
from hwflow.quantize.constants import quantities
from hwflow.quantize.graphs import consumers, producers
from hwflow.quantize.importer.kinds.recurrent import Loop, initial_states
from hwflow.quantize.importer.states import LayerAnchor
from hwflow.quantize.provenance import Places

#: How near to the middle between two integers a real is a tie, in steps.
_TIE = 1e-3


def require_layers(
    meaning: Meaning, model: Model, graph: LayerGraph, prologues: Iterable[Model], places: Places,
    anchors: Mapping[str, LayerAnchor],
) -> None:  # fmt: skip
    """Raise MeaningChanged where a layer of `graph` gives other integers than the tensor of ONNX behind its result.

    `graph` with its `prologues`, which make inputs and states, was imported from the QDQ `model`, whose tensors have
    the names of those of `meaning` where they mean the same; `places` gives the ONNX tensor behind each tensor of
    `graph`, with its index, and `anchors` the operators that layers stand for.
    """
    if not meaning.rows:
        return  # the model's notes say why
    walk = _Walk(meaning, model, graph, places, anchors)
    for prologue in prologues:
        walk.enter(prologue)
    for layer in graph.layers:
        walk.run(layer)
    difference = walk.comparison.first()
    if difference is not None:
        raise MeaningChanged(
            f"the import must keep what the model computes, and does not: tensor '{difference.tensor}' of "
            f"{difference.node} {difference.how}; nothing was made of this model"
        )


class _Walk:
    """All rows on their way through the layers: `frames` of the graph's tensors, and for each row the `values` of the
    model's.  The other arguments are those of `require_layers`.

    `spans` has the lowest and the highest integers that a tensor may have which a layer with a deviation has made, or
    one behind it that has no tensor of ONNX to begin anew with.
    """

    def __init__(
        self, meaning: Meaning, model: Model, graph: LayerGraph, places: Places, anchors: Mapping[str, LayerAnchor]
    ) -> None:
        self.graph, self.places, self.anchors, self.meaning = graph, places, anchors, meaning
        self.reals, self.ties, self.comparison = _dequantized(model), _Ties(model), Comparison()
        self.constants = quantities(model.graph, model.opsets)
        self.values = [row.values for row in meaning.rows]
        self.frames: dict[str, IntArray] = {}
        self.spans: dict[str, tuple[IntArray, IntArray]] = {}
        #: What the loops of a recurrent node give, for each row, by the node's result.
        self.loops: dict[str, list[Array]] = {}

    def enter(self, prologue: Model) -> None:
        """The sources of the graph that `prologue` makes."""
        names, made = ([value.name for value in values] for values in (prologue.graph.inputs, prologue.graph.outputs))
        rows = [evaluate(prologue, {name: row.feeds[name] for name in names}) for row in self.meaning.rows]
        for name in made:
            self.frames[name] = np.concatenate([np.asarray(row[name], np.int64) for row in rows])

    def run(self, layer: Layer) -> None:
        """Evaluate `layer` and compare its result."""
        graph, name = self.graph, layer.output
        if isinstance(layer, Recurrent):
            layer = replace(layer, streaming=False)  # each row is a sequence
            self._loop(layer)
        integers = layer.evaluate(graph, *(self.frames[x] for x in layer.inputs))
        low, high = self._span(layer, integers)
        known = [_expected(name, graph, self.places, self.reals, values) for values in self.values]
        expected = np.concatenate([frame for frame in known if frame is not None] or [integers[:0]])
        self.frames[name] = integers
        if len(expected) < len(integers):
            if not np.array_equal(low, high):
                self.spans[name] = low, high
            return
        step = 2 if graph.tensors[name].format.bipolar else 1
        source, index = self.places[name]
        for k, values in enumerate(self.values):
            is_tie = self.ties.of(source, values)
            if is_tie is not None and is_tie.shape == index.shape:
                broken = step * _framed(is_tie, index).reshape(integers.shape[1:])
                low[k], high[k] = low[k] - broken, high[k] + broken
        integers = np.where((low <= expected) & (expected <= high), expected, integers)
        for a, b in zip(expected, integers, strict=True):
            self.comparison.add(name, f"layer '{layer.name}' ({layer.kind})", a // step, b // step)
        if graph.tensors[name].format.contains(expected):
            self.frames[name] = expected

    def _span(self, layer: Layer, integers: IntArray) -> tuple[IntArray, IntArray]:
        """The lowest and the highest integers that the result of `layer` may have, where it is `integers` here."""
        low, high = integers.copy(), integers.copy()
        if layer.rises and any(name in self.spans for name in layer.inputs):
            ends = [self.spans.get(name, (self.frames[name],) * 2) for name in layer.inputs]
            low, high = (layer.evaluate(self.graph, *(pair[side] for pair in ends)) for side in (0, 1))
        format, off = self.graph.tensors[layer.output].format, layer.deviation(self.graph)
        if not off:
            return low, high
        return np.maximum(low - off * format.step, format.low), np.minimum(high + off * format.step, format.high)

    def _loop(self, layer: Recurrent) -> None:
        """Compare each step of `layer` with what it may be, and let what follows in ONNX read what the loop gives."""
        states, formulas = layer.states(self.frames[layer.inputs[0]]), self._formulas(layer)
        problem = formulas.problem(states)
        if problem:
            raise MeaningChanged(
                f"the import must keep what the model computes, and does not: layer '{layer.name}' ({layer.kind}) of "
                f"{formulas.node.label} {problem}; nothing was made of this model"
            )
        y = formulas.node.outputs[0]
        loops = self.loops.setdefault(y, [np.array(values[y]) for values in self.values])
        for of_loop, output in zip(loops, formulas.output(states), strict=True):
            of_loop[:, formulas.direction, 0] = output
        program, names = program_of(self.meaning.model), tuple(self.values[0])
        for k, row in enumerate(self.meaning.rows):
            def replaced(node: Node, name: str, operand: Operand, k: int = k) -> Operand:
                return self.loops[name][k] if name in self.loops else operand

            self.values[k] = program.run(row.feeds, names, watch=replaced)

    def _formulas(self, layer: Recurrent) -> Formulas:
        """The formulas that a recurrent layer stands for."""
        loop, sums = self.anchors[layer.name], self.graph.producer(layer.inputs[0])
        assert isinstance(loop, Loop)
        assert sums is not None
        weights = Weights.of(loop.node, loop.direction, self.constants)
        x = np.stack([np.asarray(values[loop.node.inputs[0]], np.float64)[:, 0] for values in self.values])
        step = float(self.graph.tensors[sums.inputs[0]].scale)
        start = initial_states(self.constants, loop.node, loop.direction)
        return Formulas(loop.node, loop.direction, layer, weights, x, step, start)


def _dequantized(model: Model) -> dict[str, str]:
    """Integer tensor to the reals that a DequantizeLinear makes of it."""
    read = consumers(model.graph)
    candidates = ((name, node.outputs[0]) for name, nodes in read.items() for node in nodes
             if node.op_type == "DequantizeLinear" and node.inputs[0] == name)  # fmt: skip
    return dict(candidates)


def _expected(
    name: str, graph: LayerGraph, places: Places, reals: Mapping[str, str], values: Mapping[str, Operand]
) -> IntArray | None:
    """The frame [1, h, w, c] that a tensor of `graph` should be; None where ONNX has no such integers.

    The part of a Concat means what an ONNX tensor means, but in the scale of the whole.
    """
    source, index = places.get(name, ("", np.zeros(0, np.int64)))
    tensor = graph.tensors[name]
    if name not in (source, f"{source}.frame"):
        return None
    real = values.get(source, values.get(reals.get(source, "")))
    if not isinstance(real, np.ndarray) or real.shape != index.shape or real.size != tensor.frame.elements:
        return None
    if real.dtype.kind == "f":
        real = np.rint(real.astype(np.float64) / tensor.scale) + tensor.zero_point
    frame = np.asarray(_framed(real, index), np.int64)
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
