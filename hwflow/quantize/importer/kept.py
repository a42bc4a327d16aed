"""States of the layer graph: tensors that the model hands on from frame to frame, and no layer has for itself.

What a state reads entered the graph like an input.  Its next value is brought into the same integers, by one layer more
where the file gives both other scales, and into the same raster, by a Rearrange where they differ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.layers.base import State
from hwflow.layers.formats import Frame, IntArray, Tensor
from hwflow.onnx import evaluate
from hwflow.onnx.model import Node
from hwflow.onnx.run.sequences import initial_states, state_pairs
from hwflow.quantize.graphs import producers, shape_of
from hwflow.quantize.importer import host
from hwflow.quantize.importer.importer import Importer
from hwflow.quantize.importer.inputs import laid_out, raster
from hwflow.quantize.importer.states import (
    QUANTIZE_ALL,
    Broken,
    Entry,
    Held,
    Moved,
    OnHost,
    Parameters,
    Rounded,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.problems import Problem


def states(importer: Importer) -> tuple[State, ...]:
    """The states of the graph, with the layers that they need added to it; what cannot be, to `importer.problems`."""
    model, made = importer.model, producers(importer.graph)
    pairs, found = state_pairs(model), list[State]()
    reads = importer.inputs.of_states
    integers = _initial_integers(importer) if reads else {}
    for read, name in reads.items():
        output = pairs[name]
        try:
            write = _written(importer, read, output)
        except Unsupported as problem:
            known = made.get(output)
            importer.problems.append(Problem.of_tensor(output, problem.why, problem.remedy) if known is None else
                                     problem.of(known))  # fmt: skip
            continue
        if write is not None:
            found.append(State(read, write, integers[read]))
    return tuple(found)


def _initial_integers(importer: Importer) -> dict[str, IntArray]:
    """What each state is at first, [h, w, c]."""
    initial = {name: array for name, array in initial_states(importer.model).items() if name in importer.graph.kept}
    frames = evaluate(host.entering_states(importer), initial)
    return {name: np.asarray(array, np.int64)[0] for name, array in frames.items()}


def _written(importer: Importer, read: str, output: str) -> str | None:
    """The tensor that holds the ONNX tensor `output` as `read` holds the state; None where a problem is known."""
    entry, x = importer.inputs.entries[read], importer.tensors[read]
    held = _held(importer, output, entry.parameters)
    if held is None:
        return None
    own = importer.tensors[held.tensor]
    alike = own.format == x.format and (not held.real or (own.scale, own.zero_point) == (x.scale, x.zero_point))
    if not alike:
        like = entry.parameters if held.real else replace(entry.parameters, scale=own.scale, zero_point=own.zero_point)
        held = _rounded(importer, importer.kept(replace(held, real=True), _maker(importer, output)), output, like)
    return _in_raster(importer, held, x, _places(importer, read), output)


def _held(importer: Importer, output: str, p: Parameters) -> Held | None:
    """The ONNX tensor `output` as a tensor of the graph; what no QuantizeLinear made integer, with the integers `p`."""
    state = importer.states.get(output)
    if isinstance(state, Broken):
        return None
    if isinstance(state, Entry):
        return importer.inputs.enter(state, None)
    if isinstance(state, OnHost) or state is None:
        raise Unsupported("is the next value of a state, and no layer makes it", QUANTIZE_ALL)
    if isinstance(state, Rounded):
        return importer.building.held(state)
    return _rounded(importer, state, output, p) if isinstance(state, Unrounded) else state


def _rounded(importer: Importer, unrounded: Unrounded, output: str, p: Parameters) -> Held:
    """`unrounded` as the integers `p`, by a layer of its own."""
    node = _maker(importer, output)
    quantizer = Node("QuantizeLinear", (output, "", ""), (f"{output}.state",), {}, f"{node.name or output}.state")
    rounded = Rounded(unrounded, quantizer, f"{output}.state", p, unrounded.index, unrounded.moved)
    return replace(importer.building.held(rounded), real=True)


def _maker(importer: Importer, output: str) -> Node:
    return producers(importer.graph).get(output) or importer.graph.nodes[0]


def _places(importer: Importer, read: str) -> IntArray:
    """The element of the state that stands at each place of the raster of `read`."""
    graph, entry, placed = importer.graph, importer.inputs.entries[read], importer.inputs.placed[read]
    made, way, name = producers(graph), list[Node](), entry.integers
    while name in made:
        way.append(made[name])
        name = made[name].inputs[0]
    elements = raster(shape_of(graph, name) or ())
    for node in reversed(way):
        if node.op_type not in ("QuantizeLinear", "Clip"):
            elements = laid_out(node, elements, graph, importer.model.opsets)
    order = np.empty(placed.size, np.int64)
    order[placed.ravel()] = elements.ravel()
    return order


def _in_raster(importer: Importer, held: Held, x: Tensor, order: IntArray, output: str) -> str:
    """The tensor with the elements of `held` in the raster of `x`, of which `order` says what stands where."""
    wanted = held.index.ravel()[order]
    if np.array_equal(wanted, np.arange(importer.tensors[held.tensor].frame.elements)):
        return held.tensor
    by = held.moved or Moved(_maker(importer, output), output)
    image = _as_image(wanted, x.frame)
    moved = replace(held, index=image, moved=replace(by, output=f"{output}.state", computed=False))
    return importer.building.arranged(moved, by).tensor


def _as_image(elements: IntArray, frame: Frame) -> IntArray:
    """Elements in the raster of `frame` as ONNX sees an image, [1, C, H, W]."""
    image: IntArray = elements.reshape(frame.height, frame.width, frame.channels).transpose(2, 0, 1)[None]
    return image
