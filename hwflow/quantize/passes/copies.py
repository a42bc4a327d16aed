"""The pass that turns a tensor before shifted copies of it are put side by side, and not all the copies after that.

Models of spectra stack a spectrum with itself, shifted by harmonics, along a new last axis, and turn the whole for the
convolution that follows.  In hardware that order of elements takes memory for all copies; one copy has a part of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import Additions, as_ints, attribute, consumers, moves, producers, shape_of, with_graph

#: What makes a shifted copy.
_SHIFTS = frozenset({"Slice", "Pad"})


def turn_before_copies(model: Model) -> Model:
    """A Transpose of a Concat of slices and paddings of one tensor becomes a Transpose of that tensor."""
    graph = model.graph
    if not any(node.op_type == "Concat" and len(node.inputs) > 1 for node in graph.nodes):
        return model
    read, made, added, nodes = consumers(graph), producers(graph), Additions(graph), list[Node]()
    outputs, changed = {value.name for value in graph.outputs}, False
    for node in graph.nodes:
        stack = _stack(node, graph, made, read, outputs) if node.op_type == "Transpose" and not node.domain else None
        if stack is None:
            nodes.append(node)
            continue
        changed = True
        nodes += _turned(node, *stack, graph, added)
    return simplify(infer(with_graph(model, nodes, added.initializers))) if changed else model


def _stack(
    node: Node, graph: Graph, made: dict[str, Node], read: dict[str, list[Node]], outputs: set[str]
) -> tuple[str, list[list[Node]], Node, list[Node]] | None:
    """The tensor, the nodes that make each copy of it, the Concat, and what stands between it and `node`.

    None where `node` turns something else, or something that has no more elements than the tensor.
    """
    def alone(name: str) -> bool:
        return len(read.get(name, [])) == 1 and name not in outputs

    after, name = list[Node](), node.inputs[0]
    while name in made and made[name].op_type in _SHIFTS and moves(made[name], graph) and alone(name):
        after.insert(0, made[name])
        name = made[name].inputs[0]
    concat = made.get(name)
    if concat is None or concat.op_type != "Concat" or not alone(name):
        return None
    copies, sources = list[list[Node]](), set[str]()
    for part in concat.inputs:
        copy = list[Node]()
        while part in made and made[part].op_type in _SHIFTS and moves(made[part], graph):
            copy.insert(0, made[part])
            part = made[part].inputs[0]
        copies.append(copy)
        sources.add(part)
    whole, one = shape_of(graph, name), shape_of(graph, next(iter(sources)))
    if len(sources) != 1 or whole is None or one is None or np.prod(whole) < 2 * np.prod(one):
        return None
    return sources.pop(), copies, concat, after


def _turned(
    node: Node, source: str, copies: list[list[Node]], concat: Node, after: list[Node], graph: Graph, added: Additions
) -> list[Node]:
    perm = as_ints(node.attributes["perm"])
    name = added.new(f"{source}.turned")
    made, parts = [replace(node, inputs=(source,), outputs=(name,))], list[str]()
    for copy in copies:
        part = name
        for step in copy:
            result = added.new(f"{step.outputs[0]}.turned")
            made.append(_along(step, part, result, perm, graph, added))
            part = result
        parts.append(part)
    axis = perm.index(attribute(concat, "axis", 0) % len(perm))
    results = [*(added.new(f"{step.outputs[0]}.turned") for step in (concat, *after[:-1])), node.outputs[0]]
    results = results if after else [node.outputs[0]]
    made.append(replace(concat, inputs=tuple(parts), outputs=(results[0],), attributes={"axis": axis}))
    for step, before, result in zip(after, results[:-1], results[1:], strict=True):
        made.append(_along(step, before, result, perm, graph, added))
    return made


def _along(step: Node, source: str, result: str, perm: tuple[int, ...], graph: Graph, added: Additions) -> Node:
    """A Slice or Pad of the turned tensor."""
    def constant(at: int) -> Array | None:
        name = step.inputs[at] if at < len(step.inputs) else ""
        return graph.initializers[name] if name else None

    rank, inputs = len(perm), list(step.inputs)
    if step.op_type == "Slice":
        starts, axes = constant(1), constant(3)
        assert starts is not None
        old = as_ints(axes) if axes is not None else tuple(range(len(starts)))
        new = np.array([perm.index(axis % rank) for axis in old], np.int64)
        inputs[3:4] = [added.constant(f"{result}.axes", new)]
    else:
        pads, axes = constant(1), constant(3)
        assert pads is not None
        count = len(pads) // 2
        old = as_ints(axes) if axes is not None else tuple(range(rank))
        full = np.zeros((2, rank), np.int64)
        full[:, [axis % rank for axis in old]] = pads.reshape(2, count)
        inputs[1] = added.constant(f"{result}.pads", full[:, list(perm)].ravel())
        inputs = inputs[:3]
    return replace(step, inputs=(source, *inputs[1:]), outputs=(result,), name=result)
