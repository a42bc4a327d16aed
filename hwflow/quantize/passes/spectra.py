"""Passes for models of sound.

`fourier_to_products` writes Fourier transforms of real signals as products with constants:

    STFT    Conv with a stride: each bin has two output channels, its cosine and its sine, times the window
    DFT     MatMul along the axis before the last

The last axis of a result is (real, imaginary); so channels are real and imaginary parts by turns.

`turn_before_copies` turns a tensor before shifted copies of it are put side by side, and not all the copies after that.
Models of spectra stack a spectrum with itself, shifted by harmonics, along a new last axis, and turn the whole for the
convolution that follows.  In hardware that order of elements takes memory for all copies; one copy has a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node
from hwflow.quantize.graphs import (
    Additions,
    as_ints,
    attribute,
    consumers,
    label_of,
    moves,
    producers,
    shape_of,
    with_graph,
)


def fourier_to_products(model: Model) -> Model:
    """STFT and DFT of real signals with constant parameters as Conv and MatMul; others stay as they are."""
    if not any(node.op_type in ("STFT", "DFT") and not node.domain for node in model.graph.nodes):
        return model
    added, nodes, makers = Additions(model.graph), list[Node](), {"STFT": _stft, "DFT": _dft}
    for node in model.graph.nodes:
        make = None if node.domain else makers.get(node.op_type)
        replacement = None if make is None else make(node, model, added)
        nodes += [node] if replacement is None else replacement
    return simplify(infer(with_graph(model, nodes, added.initializers)))


def _stft(node: Node, model: Model, added: Additions) -> list[Node] | None:
    """The products of the STFT of a signal [batch, length, 1] and constant step, window and length of frames."""
    graph, shape, result = model.graph, shape_of(model.graph, node.inputs[0]), shape_of(model.graph, node.outputs[0])
    rest = [name for name in node.inputs[1:] if name]
    if shape is None or result is None or shape[-1] != 1 or any(name not in graph.initializers for name in rest):
        return None
    step, window, length = (_constant(node, graph, k) for k in (1, 2, 3))
    assert step is not None
    count = len(window) if length is None and window is not None else int(length) if length is not None else shape[1]
    rows = _waves(count, count, result[2])
    if window is not None:
        rows = rows * window.astype(np.float64)
    kernel = rows.astype(np.float32)[:, None, :]
    base = label_of(node)
    signal, channels = added.new(f"{base}.signal"), added.new(f"{base}.channels")
    attributes: dict[str, Attribute] = {"kernel_shape": (count,), "strides": (int(step),)}
    return [
        _reshaped(node.inputs[0], (shape[0], 1, shape[1]), signal, added),
        Node("Conv", (signal, added.constant(f"{base}.waves", kernel)), (channels,), attributes, base),
        *_turned(channels, result, node.outputs[0], added),
    ]


def _turned(channels: str, result: tuple[int, ...], output: str, added: Additions) -> list[Node]:
    """From [batch, 2 * bins, frames] to [batch, frames, bins, 2]."""
    frames = added.new(f"{output}.frames")
    return [
        Node("Transpose", (channels,), (frames,), {"perm": (0, 2, 1)}, frames),
        _reshaped(frames, result, output, added),
    ]


def _dft(node: Node, model: Model, added: Additions) -> list[Node] | None:
    """Along the axis before the last of a real tensor, forwards, with a constant length."""
    graph, shape, result = model.graph, shape_of(model.graph, node.inputs[0]), shape_of(model.graph, node.outputs[0])
    if shape is None or result is None or shape[-1] != 1 or attribute(node, "inverse", 0):
        return None
    if any(name not in graph.initializers for name in node.inputs[1:] if name):
        return None
    length, stated = _constant(node, graph, 1), _constant(node, graph, 2)
    first = model.opsets[""] < 20  # the axis is an attribute, 1 by default
    axis = attribute(node, "axis", 1) if first else -2 if stated is None else int(stated)
    if axis % len(shape) != len(shape) - 2:
        return None
    count = shape[-2] if length is None else int(length)
    matrix = np.zeros((shape[-2], 2 * result[-2]))
    used = min(count, shape[-2])
    matrix[:used] = _waves(count, used, result[-2]).T
    base = label_of(node)
    rows, bins = added.new(f"{base}.rows"), added.new(f"{base}.bins")
    product = Node("MatMul", (rows, added.float32(f"{base}.waves", matrix)), (bins,), name=base)
    return [
        _reshaped(node.inputs[0], shape[:-1], rows, added), product,
        _reshaped(bins, result, node.outputs[0], added),
    ]  # fmt: skip


def _waves(count: int, used: int, bins: int) -> Array:
    """[2 * bins, used]: the cosine and minus the sine of each bin of a transform of `count` elements."""
    turns = np.outer(np.arange(bins), np.arange(used)) % count  # exact, however long the transform
    angles = 2 * np.pi * turns / count
    return np.stack([np.cos(angles), -np.sin(angles)], axis=1).reshape(2 * bins, used)


def _constant(node: Node, graph: Graph, at: int) -> Array | None:
    name = node.inputs[at] if at < len(node.inputs) else ""
    if not name:
        return None
    array = graph.initializers[name]
    return array.reshape(()) if array.size == 1 else array


def _reshaped(source: str, shape: tuple[int, ...], result: str, added: Additions) -> Node:
    sizes = added.constant(f"{result}.shape", np.array(shape, np.int64))
    return Node("Reshape", (source, sizes), (result,), name=f"{result}.reshape")


#: What makes a shifted copy.
_SHIFTS = frozenset({"Slice", "Pad"})


def turn_before_copies(model: Model) -> Model:
    """A Transpose of a Concat of slices and paddings of one tensor becomes a Transpose of that tensor."""
    graph = model.graph
    if not any(node.op_type == "Concat" and len(node.inputs) > 1 for node in graph.nodes):
        return model
    read, makers, added, nodes = consumers(graph), producers(graph), Additions(graph), list[Node]()
    outputs, changed = {value.name for value in graph.outputs}, False
    for node in graph.nodes:
        stack = _stack(node, graph, makers, read, outputs) if node.op_type == "Transpose" and not node.domain else None
        if stack is None:
            nodes.append(node)
            continue
        changed = True
        nodes += _turned_first(node, stack, graph, added)
    return simplify(infer(with_graph(model, nodes, added.initializers))) if changed else model


@dataclass(frozen=True)
class _Stack:
    """A Concat of copies of one tensor: the nodes that make each copy, and those between the Concat and a Transpose."""

    source: str
    copies: list[list[Node]]
    concat: Node
    after: list[Node]


def _stack(
    node: Node, graph: Graph, makers: dict[str, Node], read: dict[str, list[Node]], outputs: set[str]
) -> _Stack | None:
    """The stack of copies that `node` turns.

    None where `node` turns something else, or something that has no more elements than the tensor.
    """
    def alone(name: str) -> bool:
        return len(read.get(name, [])) == 1 and name not in outputs

    after, name = list[Node](), node.inputs[0]
    while name in makers and makers[name].op_type in _SHIFTS and moves(makers[name], graph) and alone(name):
        after.insert(0, makers[name])
        name = makers[name].inputs[0]
    concat = makers.get(name)
    if concat is None or concat.op_type != "Concat" or not alone(name):
        return None
    copies, sources = list[list[Node]](), set[str]()
    for part in concat.inputs:
        copy = list[Node]()
        while part in makers and makers[part].op_type in _SHIFTS and moves(makers[part], graph):
            copy.insert(0, makers[part])
            part = makers[part].inputs[0]
        copies.append(copy)
        sources.add(part)
    whole, one = shape_of(graph, name), shape_of(graph, next(iter(sources)))
    if len(sources) != 1 or whole is None or one is None or np.prod(whole) < 2 * np.prod(one):
        return None
    return _Stack(sources.pop(), copies, concat, after)


def _turned_first(node: Node, stack: _Stack, graph: Graph, added: Additions) -> list[Node]:
    source, concat, after = stack.source, stack.concat, stack.after
    perm = as_ints(node.attributes["perm"])
    name = added.new(f"{source}.turned")
    written, parts = [replace(node, inputs=(source,), outputs=(name,))], list[str]()
    for copy in stack.copies:
        part = name
        for step in copy:
            result = added.new(f"{step.outputs[0]}.turned")
            written.append(_along(step, part, result, perm, graph, added))
            part = result
        parts.append(part)
    axis = perm.index(attribute(concat, "axis", 0) % len(perm))
    results = [*(added.new(f"{step.outputs[0]}.turned") for step in (concat, *after[:-1])), node.outputs[0]]
    results = results if after else [node.outputs[0]]
    written.append(replace(concat, inputs=tuple(parts), outputs=(results[0],), attributes={"axis": axis}))
    for step, before, result in zip(after, results[:-1], results[1:], strict=True):
        written.append(_along(step, before, result, perm, graph, added))
    return written


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
