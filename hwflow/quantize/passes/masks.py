"""Masks of scores before a Softmax: one constant behind them, with numbers that the Softmax can tell apart.

    Where, Add, Sub, Mul, Div, Max with constants, and layout, in any order -> layout, Mul, Add -> Softmax

A Softmax knows differences alone.  A score far enough below the largest of its row has no share, however far that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx import evaluate, infer
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import JOINS, LAYOUT
from hwflow.quantize.graphs import (
    Additions,
    apply,
    attribute,
    consumers,
    dynamic_inputs,
    is_embedding,
    label_of,
    leading_to,
    producers,
    shape_of,
)
from hwflow.quantize.graphs import with_graph as replaced
from hwflow.quantize.passes.computed_masks import BIAS, HIDDEN, hides, masking_nodes
from hwflow.quantize.problems import Problem, raise_all

#: How far below the largest score of its row one still has a share that integers show: exp(-16) is 1e-7.
REACH = 16.0
#: The remedy for what a mask or a cache is computed from.
FIXED = "export the model for sequences of one length, without padding and without a cache of keys and values"

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Scores:
    """`factor` * moved(source) + `added`, element by element, in the shape that the Softmax reads.

    `nodes` lead from the tensor `source` to there, `layout` are those of them that move elements.
    """

    source: str
    nodes: tuple[Node, ...]
    layout: tuple[Node, ...]
    factor: _Numbers
    added: _Numbers


def masks_before_softmax(model: Model) -> Model:
    """Constants that hide scores are added right before the Softmax, as `HIDDEN`; Where between NaN and a Softmax, as
    exporters write it for rows without a key, is the Softmax.

    NoHardware where all scores of a row are hidden: runtimes make NaN or shares of rounding errors of it.
    """
    walk = _Walk(model)
    for node in model.graph.nodes:
        walk.write(node)
    raise_all(walk.problems)
    nodes = leading_to(walk.added.nodes, walk.outputs)  # without those that only led to a Softmax
    return infer(replaced(model, nodes, walk.added.initializers)) if walk.changed else model


class _Walk:
    def __init__(self, model: Model) -> None:
        self.model, self.graph, self.added = model, model.graph, Additions(model.graph)
        self.made, self.read = producers(model.graph), consumers(model.graph)
        self.outputs = {value.name for value in model.graph.outputs}
        self.problems: list[Problem] = []
        self.changed = False

    def write(self, node: Node) -> None:
        if node.op_type == "Where" and self._is_guard(node):
            self.changed = True
            node = Node("Identity", node.inputs[2:], node.outputs, name=node.name)
        elif node.op_type == "Softmax" and not node.domain:
            for scores in self._scores(node):
                mask = self._mask(node, scores)
                if mask is not None:
                    node = self._on_masked(node, scores, *mask)
                    break
        self.added.nodes.append(node)

    def _is_guard(self, node: Node) -> bool:
        """Where(IsNaN(shares), constant, shares): a Softmax of finite scores is never NaN."""
        asked = self.made.get(node.inputs[0])
        softmax = self.made.get(node.inputs[2])
        return (asked is not None and asked.op_type == "IsNaN" and asked.inputs[0] == node.inputs[2]
                and softmax is not None and softmax.op_type == "Softmax" and not softmax.domain)

    def _scores(self, softmax: Node) -> Iterator[_Scores]:
        """The scores that the Softmax reads, from sources ever nearer to it."""
        name, nodes = softmax.inputs[0], list[Node]()
        while name not in self.outputs and len(self.read.get(name, ())) == 1 and name in self.made:
            node = self.made[name]
            if not _is_step(node, self.graph):
                break
            nodes.insert(0, node)
            (name,) = dynamic_inputs(node, self.graph)
        for start in range(len(nodes)):
            (source,) = dynamic_inputs(nodes[start], self.graph)
            shape = shape_of(self.graph, source)
            if shape is not None:
                yield _followed(source, shape, tuple(nodes[start:]), self.model)

    def _mask(self, softmax: Node, scores: _Scores) -> tuple[float, _Numbers] | None:
        """The factor and the mask that take the place of `scores`; None where they are as they should be."""
        added, factor = scores.added, scores.factor
        if np.isnan(added).any() or (added == np.inf).any() or not np.isfinite(factor).all():
            return None
        largest = added.max(axis=attribute(softmax, "axis", -1), keepdims=True)
        seen = added > largest + BIAS
        factors = np.unique(factor[seen])
        if (largest <= HIDDEN * 10).any() or ((largest < BIAS) & ((factor == 0) & seen)).any():
            where = [int(k) for k in np.argwhere(largest <= BIAS)[0]]
            mask = next(node for node in reversed(scores.nodes) if node.op_type not in LAYOUT)
            self.problems.append(Problem.of(
                mask, f"a mask must leave a key to each query, and hides all of the row {where}", FIXED))
            return None
        if len(factors) != 1 or factors[0] <= 0:
            return None
        hides, cut = np.ptp(added) > REACH, any(step.op_type in ("Max", "Where") for step in scores.nodes)
        far = (added < largest + HIDDEN).any() or (factor != factors[0]).any() or (largest < BIAS).any()
        if not (far or cut or (hides and scores.layout)):
            return None  # as it should be
        low = np.where(largest < BIAS, largest, 0)
        return float(factors[0]), np.maximum(added - low, largest - low + HIDDEN)

    def _on_masked(self, softmax: Node, scores: _Scores, factor: float, mask: _Numbers) -> Node:
        """The Softmax of scores with one mask, which new nodes make."""
        self.changed = True
        base, last, added = label_of(softmax), scores.source, self.added
        if factor != 1:
            by = added.float32(f"{base}.factor", factor)
            last = added.emit("Mul", last, by, wish=f"{base}.scaled", name=f"{base}.scaled")
        for moving in scores.layout:
            last = added.emit_like(moving, last, wish=f"{moving.outputs[0]}.unmasked")
        hidden = added.float32(f"{base}.mask", _smallest(mask))
        return replace(softmax, inputs=(added.emit("Add", last, hidden, wish=f"{base}.masked"),))


def _is_step(node: Node, graph: Graph) -> bool:
    """A node of one computed tensor and constants that `_followed` knows."""
    dynamic = dynamic_inputs(node, graph)
    if node.domain or len(dynamic) != 1 or len(node.outputs) != 1:
        return False
    if node.op_type in LAYOUT | {"Identity", "Sub", "Div"}:
        return node.inputs[0] == dynamic[0]
    if node.op_type == "Where":
        return node.inputs[0] != dynamic[0]
    return node.op_type in ("Add", "Mul") or (node.op_type == "Max" and len(node.inputs) == 2)


def _followed(source: str, shape: tuple[int, ...], nodes: tuple[Node, ...], model: Model) -> _Scores:
    """The scores that `nodes` make of the tensor `source`."""
    factor, added, layout = np.ones(shape), np.zeros(shape), list[Node]()
    constants: Mapping[str, Array] = model.graph.initializers
    for node in nodes:
        (name,) = dynamic_inputs(node, model.graph)
        if node.op_type in LAYOUT | {"Identity"}:
            others = {key: constants[key] for key in node.inputs[1:] if key}
            factor, added = (np.asarray(apply(node, model.opsets, {name: array, **others}), np.float64)
                             for array in (factor, added))
            layout.append(node)
            continue
        values = [np.asarray(constants[key], np.float64) for key in node.inputs if key != name]
        with np.errstate(all="ignore"):
            factor, added = _computed(node, node.inputs.index(name), factor, added, values)
    return _Scores(source, nodes, tuple(layout), factor, added)


def _computed(node: Node, at: int, factor: _Numbers, added: _Numbers, values: list[_Numbers]
              ) -> tuple[_Numbers, _Numbers]:
    """`factor` and `added` behind `node`, whose input number `at` is computed; `values` are the others."""
    value = values[-1]
    if node.op_type in ("Add", "Sub"):
        summed = added + (value if node.op_type == "Add" else -value)
        return np.broadcast_to(factor, summed.shape), summed
    if node.op_type in ("Mul", "Div"):
        by = value if node.op_type == "Mul" else 1 / value
        return factor * by, np.where(added == 0, 0, added * by)  # a score that is hidden already stays so
    if node.op_type == "Where":
        is_score = np.broadcast_to(values[0].astype(bool) if at == 1 else ~values[0].astype(bool),
                                   np.broadcast_shapes(values[0].shape, value.shape, added.shape))
        return np.where(is_score, factor, 0), np.where(is_score, added, value)
    lower = added < value + BIAS if (value <= HIDDEN).all() else np.full(added.shape, True)
    return np.where(lower, 0, factor), np.where(lower, np.maximum(added, value), added)


def _smallest(mask: _Numbers) -> _Numbers:
    """With one entry along axes along which it does not differ."""
    for axis in range(mask.ndim):
        first = mask.take([0], axis)
        mask = first if (mask == first).all() else mask
    return mask


def reads_row_of_mask(graph: Graph, makers: Mapping[str, Node], name: str) -> bool:
    """Whether the scores `name` are a sum with a row of a table that hides some of them."""
    def before_layout(tensor: str) -> Node | None:
        while tensor in makers and makers[tensor].op_type in LAYOUT:
            tensor = makers[tensor].inputs[0]
        return makers.get(tensor)

    added = before_layout(name)
    rows = [before_layout(each) for each in added.inputs] if added is not None and added.op_type == "Add" else []
    tables = [graph.initializers[row.inputs[0]] for row in rows if row is not None and is_embedding(row, graph)]
    return any(float(np.ptp(table)) > REACH and float(table.min()) <= HIDDEN for table in tables)


def with_floors(model: Model, rows: Mapping[str, Array]) -> Model:
    """A Clip in front of each Softmax of the inferred `model` that reads a mask: nothing far below what has a share.

    Integers then have steps for scores alone.  `rows` maps every input to an array [n, *its shape].
    """
    walk, floors = _Walk(model), dict[str, float]()
    inside = masking_nodes(model.graph)
    masked = {id(softmax) for node in model.graph.nodes if id(node) in inside and hides(node, model.graph)
              for softmax in inside[id(node)]}
    for node in model.graph.nodes:
        if node.op_type == "Softmax" and not node.domain:
            biases = next((scores.added for scores in walk._scores(node)), np.zeros(()))
            of_place = reads_row_of_mask(walk.graph, walk.made, node.inputs[0])
            if np.ptp(biases) > REACH or of_place or id(node) in masked:
                floors[node.inputs[0]] = np.inf
    if not floors:
        return model
    axes = {node.inputs[0]: attribute(node, "axis", -1) for node in model.graph.nodes if node.op_type == "Softmax"}
    for k in range(min(len(array) for array in rows.values())):
        values = evaluate(model, {name: array[k] for name, array in rows.items()}, fetch=tuple(floors))
        for name, floor in floors.items():
            largest = values[name].max(axis=axes[name])
            seen = largest[largest > BIAS]  # a row without a key says nothing
            floors[name] = min(floor, float(seen.min()) - REACH) if seen.size else floor
    _write_floors(model.graph, {name: floor for name, floor in floors.items() if np.isfinite(floor)}, walk.added)
    return infer(walk.added.into(model))


def _write_floors(graph: Graph, floors: Mapping[str, float], added: Additions) -> None:
    """The nodes with a Clip in front of each Softmax that reads one of `floors`; of a Concat in front of its parts,
    which become integers."""
    read = consumers(graph)
    joined = {node.outputs[0] for node in graph.nodes if node.op_type in JOINS and node.outputs[0] in floors
              and len(read[node.outputs[0]]) == 1}  # fmt: skip
    for node in graph.nodes:
        end = node.outputs[0] if node.outputs[0] in joined else node.inputs[0] if node.inputs else ""
        if end in floors and (node.op_type in JOINS if end in joined else node.op_type == "Softmax"):
            low = added.float32(f"{end}.floor", floors[end])
            node = replace(node, inputs=tuple(added.emit("Clip", name, low, wish=f"{name}.floored")
                                              for name in node.inputs))  # fmt: skip
        added.nodes.append(node)
