"""The pass that writes Fourier transforms of real signals as products with constants: the front of audio models.

    STFT    Conv with a stride: each bin has two output channels, its cosine and its sine, times the window
    DFT     MatMul along the axis before the last

The last axis of a result is (real, imaginary); so channels are real and imaginary parts by turns.
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node
from hwflow.quantize.graphs import Additions, attribute, label_of, shape_of, with_graph


def fourier_to_products(model: Model) -> Model:
    """STFT and DFT of real signals with constant parameters as Conv and MatMul; others stay as they are."""
    if not any(node.op_type in ("STFT", "DFT") and not node.domain for node in model.graph.nodes):
        return model
    added, nodes, makers = Additions(model.graph), list[Node](), {"STFT": _stft, "DFT": _dft}
    for node in model.graph.nodes:
        make = None if node.domain else makers.get(node.op_type)
        made = None if make is None else make(node, model, added)
        nodes += [node] if made is None else made
    return simplify(infer(with_graph(model, nodes, added.initializers)))


def _stft(node: Node, model: Model, added: Additions) -> list[Node] | None:
    """Of a signal [batch, length, 1] and constant step, window and length of frames."""
    graph, shape, made = model.graph, shape_of(model.graph, node.inputs[0]), shape_of(model.graph, node.outputs[0])
    rest = [name for name in node.inputs[1:] if name]
    if shape is None or made is None or shape[-1] != 1 or any(name not in graph.initializers for name in rest):
        return None
    step, window, length = (_constant(node, graph, k) for k in (1, 2, 3))
    assert step is not None
    count = len(window) if length is None and window is not None else int(length) if length is not None else shape[1]
    rows = _waves(count, count, made[2])
    if window is not None:
        rows = rows * window.astype(np.float64)
    kernel = rows.astype(np.float32)[:, None, :]
    base = label_of(node)
    signal, channels = added.new(f"{base}.signal"), added.new(f"{base}.channels")
    attributes: dict[str, Attribute] = {"kernel_shape": (count,), "strides": (int(step),)}
    return [
        _reshaped(node.inputs[0], (shape[0], 1, shape[1]), signal, added),
        Node("Conv", (signal, added.constant(f"{base}.waves", kernel)), (channels,), attributes, base),
        *_turned(channels, made, node.outputs[0], added),
    ]


def _turned(channels: str, made: tuple[int, ...], output: str, added: Additions) -> list[Node]:
    """From [batch, 2 * bins, frames] to [batch, frames, bins, 2]."""
    frames = added.new(f"{output}.frames")
    return [
        Node("Transpose", (channels,), (frames,), {"perm": (0, 2, 1)}, frames),
        _reshaped(frames, made, output, added),
    ]


def _dft(node: Node, model: Model, added: Additions) -> list[Node] | None:
    """Along the axis before the last of a real tensor, forwards, with a constant length."""
    graph, shape, made = model.graph, shape_of(model.graph, node.inputs[0]), shape_of(model.graph, node.outputs[0])
    if shape is None or made is None or shape[-1] != 1 or attribute(node, "inverse", 0):
        return None
    if any(name not in graph.initializers for name in node.inputs[1:] if name):
        return None
    length, stated = _constant(node, graph, 1), _constant(node, graph, 2)
    first = model.opsets[""] < 20  # the axis is an attribute, 1 by default
    axis = attribute(node, "axis", 1) if first else -2 if stated is None else int(stated)
    if axis % len(shape) != len(shape) - 2:
        return None
    count = shape[-2] if length is None else int(length)
    matrix = np.zeros((shape[-2], 2 * made[-2]))
    used = min(count, shape[-2])
    matrix[:used] = _waves(count, used, made[-2]).T
    base = label_of(node)
    rows, bins = added.new(f"{base}.rows"), added.new(f"{base}.bins")
    product = Node("MatMul", (rows, added.float32(f"{base}.waves", matrix)), (bins,), name=base)
    return [
        _reshaped(node.inputs[0], shape[:-1], rows, added), product,
        _reshaped(bins, made, node.outputs[0], added),
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
