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
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import (
    Additions,
    as_ints,
    attribute,
    consumers,
    label_of,
    moves,
    producers,
    shape_of,
)


def fourier_to_products(model: Model) -> Model:
    """STFT and DFT of real signals with constant parameters as Conv and MatMul; others stay as they are."""
    if not any(node.op_type in ("STFT", "DFT") and not node.domain for node in model.graph.nodes):
        return model
    added, makers = Additions(model.graph), {"STFT": _stft, "DFT": _dft}
    for node in model.graph.nodes:
        make = None if node.domain else makers.get(node.op_type)
        if make is None or not make(node, model, added):
            added.nodes.append(node)
    return simplify(infer(added.into(model)))


def _stft(node: Node, model: Model, added: Additions) -> bool:
    """The products of the STFT of a signal [batch, length, 1] and constant step, window and length of frames; false for
    another one."""
    graph, shape, result = model.graph, shape_of(model.graph, node.inputs[0]), shape_of(model.graph, node.outputs[0])
    rest = [name for name in node.inputs[1:] if name]
    if shape is None or result is None or shape[-1] != 1 or any(name not in graph.initializers for name in rest):
        return False
    step, window, length = (_constant(node, graph, k) for k in (1, 2, 3))
    assert step is not None
    count = len(window) if length is None and window is not None else int(length) if length is not None else shape[1]
    rows = _waves(count, count, result[2])
    if window is not None:
        rows = rows * window.astype(np.float64)
    kernel = rows.astype(np.float32)[:, None, :]
    base, output = label_of(node), node.outputs[0]
    signal = _emit_reshape(added, node.inputs[0], (shape[0], 1, shape[1]), added.new(f"{base}.signal"))
    channels = added.emit("Conv", signal, added.constant(f"{base}.waves", kernel), wish=f"{base}.channels", name=base,
                          kernel_shape=(count,), strides=(int(step),))
    # From [batch, 2 * bins, frames] to [batch, frames, bins, 2].
    _emit_reshape(added, added.emit("Transpose", channels, wish=f"{output}.frames", perm=(0, 2, 1)), result, output)
    return True


def _dft(node: Node, model: Model, added: Additions) -> bool:
    """Along the axis before the last of a real tensor, forwards, with a constant length; false for others."""
    graph, shape, result = model.graph, shape_of(model.graph, node.inputs[0]), shape_of(model.graph, node.outputs[0])
    if shape is None or result is None or shape[-1] != 1 or attribute(node, "inverse", 0):
        return False
    if any(name not in graph.initializers for name in node.inputs[1:] if name):
        return False
    length, stated = _constant(node, graph, 1), _constant(node, graph, 2)
    first = model.opsets[""] < 20  # the axis is an attribute, 1 by default
    axis = attribute(node, "axis", 1) if first else -2 if stated is None else int(stated)
    if axis % len(shape) != len(shape) - 2:
        return False
    count = shape[-2] if length is None else int(length)
    matrix = np.zeros((shape[-2], 2 * result[-2]))
    used = min(count, shape[-2])
    matrix[:used] = _waves(count, used, result[-2]).T
    base = label_of(node)
    rows = _emit_reshape(added, node.inputs[0], shape[:-1], added.new(f"{base}.rows"))
    bins = added.emit("MatMul", rows, added.float32(f"{base}.waves", matrix), wish=f"{base}.bins", name=base)
    _emit_reshape(added, bins, result, node.outputs[0])
    return True


def _waves(count: int, used: int, bins: int) -> Array:
    """[2 * bins, used]: the cosine and minus the sine of each bin of a transform of `count` elements."""
    turns = np.outer(np.arange(bins), np.arange(used)) % count  # exact, however long the transform
    angles = 2 * np.pi * turns / count
    return np.stack([np.cos(angles), -np.sin(angles)], axis=1).reshape(2 * bins, used)


def _constant(node: Node, graph: Graph, at: int) -> Array | None:
    name = node.input(at)
    if not name:
        return None
    array = graph.initializers[name]
    return array.reshape(()) if array.size == 1 else array


def _emit_reshape(added: Additions, source: str, shape: tuple[int, ...], result: str) -> str:
    return added.reshaped(source, shape, result, result, f"{result}.reshape")


#: What makes a shifted copy.
_SHIFTS = frozenset({"Slice", "Pad"})


def turn_before_copies(model: Model) -> Model:
    """A Transpose of a Concat of slices and paddings of one tensor becomes a Transpose of that tensor."""
    graph = model.graph
    if not any(node.op_type == "Concat" and len(node.inputs) > 1 for node in graph.nodes):
        return model
    read, makers, added = consumers(graph), producers(graph), Additions(graph)
    outputs, changed = {value.name for value in graph.outputs}, False
    for node in graph.nodes:
        stack = _stack(node, graph, makers, read, outputs) if node.op_type == "Transpose" and not node.domain else None
        if stack is None:
            added.nodes.append(node)
            continue
        changed = True
        _turn_first(node, stack, added)
    return simplify(infer(added.into(model))) if changed else model


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


def _turn_first(node: Node, stack: _Stack, added: Additions) -> None:
    source, concat, after = stack.source, stack.concat, stack.after
    perm = as_ints(node.attributes["perm"])
    name = added.new(f"{source}.turned")
    written, parts = added.nodes, list[str]()
    written.append(replace(node, inputs=(source,), outputs=(name,)))
    for copy in stack.copies:
        part = name
        for step in copy:
            result = added.new(f"{step.outputs[0]}.turned")
            written.append(_along(step, part, result, perm, added))
            part = result
        parts.append(part)
    axis = perm.index(attribute(concat, "axis", 0) % len(perm))
    results = [*(added.new(f"{step.outputs[0]}.turned") for step in (concat, *after[:-1])), node.outputs[0]]
    results = results if after else [node.outputs[0]]
    written.append(replace(concat, inputs=tuple(parts), outputs=(results[0],), attributes={"axis": axis}))
    for step, before, result in zip(after, results[:-1], results[1:], strict=True):
        written.append(_along(step, before, result, perm, added))


def _along(step: Node, source: str, result: str, perm: tuple[int, ...], added: Additions) -> Node:
    """A Slice or Pad of the turned tensor."""
    def constant(at: int) -> Array | None:
        name = step.input(at)
        return added.graph.initializers[name] if name else None

    rank, inputs = len(perm), list(step.inputs)
    if step.op_type == "Slice":
        starts, axes = constant(1), constant(3)
        assert starts is not None
        old = as_ints(axes) if axes is not None else tuple(range(len(starts)))
        inputs[3:4] = [added.int64(f"{result}.axes", [perm.index(axis % rank) for axis in old])]
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
