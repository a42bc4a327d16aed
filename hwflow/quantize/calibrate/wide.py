"""Points of other widths than those that were chosen, where these are wide: scores, factors, squares that are summed.

A Softmax has a table for the distances of its scores.  Factors have no zero point any more.  Squares have twice the
bits of what is squared: as integers that nothing rounds they are exact, and the sums of few of them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from hwflow.layers.formats import MAX_BITS
from hwflow.layers.softmax import WIDEST_INPUT
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import ELEMENTWISE
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.points import Point, is_square, scale_source
from hwflow.quantize.graphs import consumers, dynamic_inputs, is_product, producers, shape_of
from hwflow.quantize.settings import MOST_ACTIVATION_BITS, ActivationSettings

#: Bits of a factor of a product of two computed tensors whose zero point may be anywhere.
_FACTOR = 15
#: Squares of so many bits are looked up, and have quantizers with twice the bits.
_LOOKED_UP = 8


def narrowed(
    model: Model, points: Iterable[Point], chosen: Mapping[str, ActivationSettings], notes: list[str]
) -> dict[str, ActivationSettings]:
    """`chosen` with no more bits than the layers take that read the integers, which `notes` says."""
    graph, makers = model.graph, producers(model.graph)
    made = {point.tensor: point for point in points}
    narrow = dict(chosen)
    for node in graph.nodes:
        for name, most, why in _limits(node, graph, made):
            source = scale_source(name, makers, made)
            bits = narrow[source].bits if source in made else 0
            if bits > (MOST_ACTIVATION_BITS if most == _FACTOR and narrow[source].symmetric else most):
                notes.append(f"the integers of '{made[source].owner}' have {most} bits, not {bits}: {why}")
                narrow[source] = replace(narrow[source], bits=most)
    return narrow


def _limits(node: Node, graph: Graph, made: Container[str]) -> Iterator[tuple[str, int, str]]:
    """The tensors that `node` reads as a layer which takes integers of few bits, how many, and why."""
    if node.op_type == "Softmax" and node.outputs[0] in made:
        yield node.inputs[0], WIDEST_INPUT, "a Softmax reads them, whose table is for no more"
    if is_product(node, graph.initializers):
        for name in node.inputs[:2]:
            yield name, _FACTOR, "less their zero point they must be factors of 16 bits with a sign"


def exact_sums(model: Model, points: Iterable[Point], forms: Mapping[str, ActivationForm]) -> frozenset[str]:
    """The points that need no quantizers: the squares of a tensor of more than 8 bits, read by a ReduceSum alone, and
    this sum, where only functions of one element read it and it fits the integers of a layer.
    """
    graph, makers, read = model.graph, producers(model.graph), consumers(model.graph)
    inside = {point.tensor for point in points if not point.is_last}
    found = set[str]()
    for node in graph.nodes:
        square = makers.get(node.inputs[0]) if node.op_type == "ReduceSum" and not node.domain else None
        if square is None or not is_square(square, graph) or not {node.inputs[0], node.outputs[0]} <= inside:
            continue
        source = scale_source(square.inputs[0], makers, forms)
        before, after = shape_of(graph, node.inputs[0]), shape_of(graph, node.outputs[0])
        functions = all(reader.op_type in ELEMENTWISE and len(set(dynamic_inputs(reader, graph))) == 1
                        for reader in read.get(node.outputs[0], []))
        alone = functions and len(read[node.inputs[0]]) == 1
        if not alone or source not in forms or before is None or after is None:
            continue
        form = forms[source]
        farthest = max(form.high - form.zero_point, form.zero_point - form.low)
        count = math.prod(before) // math.prod(after)
        if form.format.bits > _LOOKED_UP and farthest**2 * count < 1 << MAX_BITS:
            found |= {node.inputs[0], node.outputs[0]}
    return frozenset(found)
