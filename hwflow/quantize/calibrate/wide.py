"""Points of other widths than those that were chosen, where these are wide: scores, and squares that are summed.

A Softmax has a table for the distances of its scores.  Squares have twice the bits of what is squared: as integers that
nothing rounds they are exact, and the sums of few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hwflow.layers.formats import MAX_BITS
from hwflow.layers.softmax import WIDEST_INPUT
from hwflow.onnx.model import Model
from hwflow.onnx.operators import ELEMENTWISE
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.points import Point, is_square, scale_source
from hwflow.quantize.graphs import consumers, dynamic_inputs, producers, shape_of
from hwflow.quantize.settings import ActivationSettings

#: Squares of so many bits are looked up, and have quantizers with twice the bits.
_LOOKED_UP = 8


def narrowed(
    model: Model, points: Iterable[Point], chosen: Mapping[str, ActivationSettings], notes: list[str]
) -> dict[str, ActivationSettings]:
    """`chosen` with no more bits for what a Softmax in hardware reads than its table is for, which `notes` says."""
    graph, makers = model.graph, producers(model.graph)
    made = {point.tensor: point for point in points}
    narrow = dict(chosen)
    for node in graph.nodes:
        if node.op_type != "Softmax" or node.outputs[0] not in made:
            continue
        source = scale_source(node.inputs[0], makers, made)
        if source in made and narrow[source].bits > WIDEST_INPUT:
            notes.append(f"the integers of '{made[source].owner}' have {WIDEST_INPUT} bits, not {narrow[source].bits}: "
                         "a Softmax reads them, whose table is for no more")
            narrow[source] = replace(narrow[source], bits=WIDEST_INPUT)
    return narrow


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
