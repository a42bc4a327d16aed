"""The pass that writes ConvTranspose as a Conv on the small frame, so that no multiplier ever meets an inserted zero.

With stride s, output pixel q = s * m + f (phase f) reads the taps t with dilation * t = f modulo s, a window of its own
at place m.  So s_h * s_w convolutions with about (k / s)^2 taps give all phases as channels.  What follows only moves
elements: channels become pixels (Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient
Sub-Pixel Convolutional Neural Network", 2016), and the pads are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import Refusal, reason_of

from hwflow.layers.formats import IntArray
from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Attribute, Model, Node
from hwflow.onnx.window import extent_of, halves
from hwflow.quantize.graphs import Additions, as_ints, attribute, producers, shape_of, with_graph
from hwflow.quantize.problems import Problem, raise_all


@dataclass(frozen=True)
class _Axis:
    """One axis of a transposed convolution, as a window over the small frame.

    `taps` [stride, kernel]: which tap of the weights each phase reads at each place of its window, -1 for none.
    `pads`: of the Conv; `length` its output's; of `length` * stride pixels, `kept` from pixel `first` on stay.
    """

    taps: IntArray
    pads: tuple[int, int]
    length: int
    first: int
    kept: int


def transposed_to_conv(model: Model) -> Model:
    """Conv with a channel per output channel and phase, Reshape, Transpose, Reshape, Slice, instead of ConvTranspose.

    Weights and bias are constants, or integers behind a DequantizeLinear; each phase keeps the scale of its channel.
    HwflowError: weights that are computed, or whose scale differs inside an output channel.
    """
    if not any(node.op_type == "ConvTranspose" and not node.domain for node in model.graph.nodes):
        return model
    work, problems = _Work(model), list[Problem]()
    for node in model.graph.nodes:
        if node.op_type != "ConvTranspose" or node.domain:
            work.nodes.append(node)
            continue
        try:
            work.rewrite(node)
        except ValueError as error:
            problems.append(Problem.of(node, *reason_of(error)))
    raise_all(problems)
    return simplify(infer(with_graph(model, work.nodes, work.added.initializers)))


class _Work:
    """The graph while it is rewritten: `nodes` made so far, and constants `added`."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.added, self.made = Additions(model.graph), producers(model.graph)
        self.nodes: list[Node] = []

    def rewrite(self, node: Node) -> None:
        shape, shape_made = shape_of(self.graph, node.inputs[0]), shape_of(self.graph, node.outputs[0])
        weights = self._shape_of_weights(node.inputs[1])
        if shape is None or shape_made is None or len(shape) not in (3, 4):
            raise Refusal(f"must read [1, C, W] or [1, C, H, W], not {shape}", "use a transposed convolution in 2-D")
        groups = attribute(node, "group", 1)
        axes = [_axis(node, k, n, shape_made[k + 2], weights[k + 2]) for k, n in enumerate(shape[2:])]
        base, cout = node.name or node.outputs[0], weights[1] * groups
        phases = [len(axis.taps) for axis in axes]
        kernel = self._spread(node.inputs[1], f"{base}.weight", _gathered(weights, groups, axes))
        bias = [
            self._spread(name, f"{base}.bias", np.repeat(np.arange(cout), int(np.prod(phases))))
            for name in node.inputs[2:3] if name
        ]  # fmt: skip
        attributes: dict[str, Attribute] = {
            "group": groups, "kernel_shape": tuple(axis.taps.shape[1] for axis in axes),
            "pads": tuple(axis.pads[end] for end in (0, 1) for axis in axes),
        }  # fmt: skip
        steps = self._shuffled(base, cout, axes) if max(phases) > 1 else []
        steps += self._cropped(base, shape_made, axes)
        result = node.outputs[0]
        names = [*(self.added.new(f"{base}.{step.op_type.lower()}.in") for step in steps), result]
        self.nodes.append(Node("Conv", (node.inputs[0], kernel, *bias), (names[0],), attributes, node.name))
        for step, source, target in zip(steps, names[:-1], names[1:], strict=True):
            self.nodes.append(replace(step, inputs=(source, *step.inputs), outputs=(target,), name=f"{target}.made"))

    def _shape_of_weights(self, name: str) -> tuple[int, ...]:
        source = self.made.get(name)
        if source is not None and source.op_type == "DequantizeLinear":
            name = source.inputs[0]
        if name not in self.graph.initializers:
            raise Refusal(
                f"weights and bias must be constants, not computed ('{name}')",
                "export the model for inference with its weights as initializers"
            )
        return self.graph.initializers[name].shape

    def _spread(self, name: str, wish: str, places: IntArray) -> str:
        """The constant `name` with the elements at `places` of its raster, and 0 at negative ones.

        Integers keep their scales: one for each entry of axis 0 of the result.  A phase without taps has that of its
        channel, too, and so fits its bias.
        """
        self._shape_of_weights(name)
        source = self.made.get(name)
        inside = np.where(places < 0, -1 - places, places)
        if source is None:
            value = self.graph.initializers[name]
            zero = np.zeros((), value.dtype)
            return self.added.constant(wish, np.where(places < 0, zero, value.ravel()[inside]))
        integers, scale, *point = (self.graph.initializers.get(n) for n in source.inputs if n)
        if integers is None or scale is None or any(value is None for value in point):
            raise Refusal("scale and zero point of its weights must be constants", "quantize the model statically")
        zero = point[0] if point and point[0] is not None else np.zeros((), integers.dtype)
        full = [_full(value, integers, attribute(source, "axis", 1)).ravel()[inside] for value in (scale, zero)]
        there = places.reshape(len(places), -1) >= 0
        at = np.argmax(there, axis=1)
        rows = [values.reshape(len(places), -1) for values in full]
        scales, zeros = (row[np.arange(len(places)), at] for row in rows)
        if any(((row != row[np.arange(len(places)), at][:, None]) & there).any() for row in rows):
            raise Refusal(
                "its weights must have one scale per tensor or per output channel",
                "quantize along axis 1, or per tensor"
            )
        shaped = zeros.reshape(-1, *[1] * (places.ndim - 1))
        moved = np.where(places < 0, shaped, integers.ravel()[inside]).astype(integers.dtype)
        result = self.added.new(wish)
        inputs = [self.added.constant(f"{wish}.integers", moved), self.added.constant(f"{wish}.scale", scales)]
        if point:
            inputs.append(self.added.constant(f"{wish}.zero_point", zeros))
        self.nodes.append(Node("DequantizeLinear", tuple(inputs), (result,), {"axis": 0}, result))
        return result

    def _shuffled(self, base: str, cout: int, axes: Sequence[_Axis]) -> list[Node]:
        """Channels (output channel, phases) to pixels; the first input and the output of each node are left open."""
        rank, lengths = len(axes), [axis.length for axis in axes]
        phases = [len(axis.taps) for axis in axes]
        split = np.array([1, cout, *phases, *lengths], np.int64)
        whole = np.array([1, cout, *(n * s for n, s in zip(lengths, phases, strict=True))], np.int64)
        order = (0, 1, *(place for k in range(rank) for place in (2 + rank + k, 2 + k)))
        return [
            Node("Reshape", (self.added.constant(f"{base}.phases", split),), ()),
            Node("Transpose", (), (), {"perm": order}),
            Node("Reshape", (self.added.constant(f"{base}.pixels", whole),), ()),
        ]

    def _cropped(self, base: str, result: tuple[int, ...], axes: Sequence[_Axis]) -> list[Node]:
        """A Slice, where there is something to cut off; with its first input and output left open."""
        if all((axis.first, axis.kept) == (0, axis.length * len(axis.taps)) for axis in axes):
            return []
        numbers = {
            "starts": tuple(axis.first for axis in axes), "ends": tuple(axis.first + axis.kept for axis in axes),
            "axes": tuple(range(2, len(result))),
        }  # fmt: skip
        inputs = (self.added.int64(f"{base}.{key}", value) for key, value in numbers.items())
        return [Node("Slice", tuple(inputs), ())]


def _axis(node: Node, axis: int, size: int, result: int, kernel: int) -> _Axis:
    """Axis `axis` of the image: of `size` elements becoming `result`, with `kernel` taps."""
    strides, dilations = (as_ints(node.attributes.get(key, (1,) * (axis + 1))) for key in ("strides", "dilations"))
    stride, dilation = strides[axis], dilations[axis]
    first = _first(node, axis, size, result, extent_of(kernel, dilation), stride)
    count = dilation * (kernel - 1) // stride + 1
    taps = np.full((stride, count), -1, np.int64)
    for tap in range(kernel):
        place, phase = divmod(dilation * tap, stride)
        taps[phase, count - 1 - place] = tap
    start = min(first // stride, count - 1)
    last = max((first + result - 1) // stride, size - 1)
    pads = (count - 1 - start, last - (size - 1))
    return _Axis(taps, pads, last - start + 1, first - start * stride, result)


def _first(node: Node, axis: int, size: int, result: int, span: int, stride: int) -> int:
    """The pixel of the uncut result that stays as the first: the pad in front."""
    mode = attribute(node, "auto_pad", "NOTSET")
    rank = len(as_ints(node.attributes.get("strides", ()))) or None
    if "output_shape" not in node.attributes and mode == "NOTSET":
        pads = as_ints(node.attributes.get("pads", ()))
        return pads[axis] if pads else 0
    if "output_shape" not in node.attributes and mode == "VALID":
        return 0
    more = as_ints(node.attributes.get("output_padding", (0,) * (rank or axis + 1)))[axis]
    total = stride * (size - 1) + more + span - result
    return halves(max(0, total), mode)[0]


def _full(parameter: Array, integers: Array, axis: int) -> Array:
    """A scale or zero point for every one of the integers."""
    if parameter.size == 1:
        return np.broadcast_to(parameter.reshape(()), integers.shape)
    if parameter.ndim > 1:
        raise Refusal("its weights must have one scale per tensor or per output channel", "quantize per channel")
    axis %= integers.ndim
    return np.broadcast_to(parameter.reshape([-1 if k == axis else 1 for k in range(integers.ndim)]), integers.shape)


def _gathered(shape: tuple[int, ...], groups: int, axes: Sequence[_Axis]) -> IntArray:
    """For weights [cin, cout / groups, ...] of this shape: which of them stands where in those of the Conv.

    [cout * phases, cin / groups, ...]; -1 - k for the taps that a phase does not have, k a weight of the same channel.
    """
    cin, per = shape[:2]
    rank = len(axes)
    raster = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    absent = np.zeros((), np.bool_)
    for k, axis in enumerate(axes):  # [.., kernel, ..] to [.., stride, taps, ..], the strides gathered in front later
        raster = np.take(raster, np.maximum(axis.taps, 0), axis=2 + 2 * k)
        missing = (axis.taps < 0).reshape(*axis.taps.shape, *[1] * 2 * (rank - 1 - k))
        absent = np.asarray(absent | missing)
    raster = np.where(absent, -1 - raster, raster)
    raster = raster.reshape(groups, cin // groups, per, *raster.shape[2:])
    order = (0, 2, *(3 + 2 * k for k in range(rank)), 1, *(4 + 2 * k for k in range(rank)))
    moved = np.transpose(raster, order)
    phases = int(np.prod([len(axis.taps) for axis in axes]))
    return np.ascontiguousarray(moved.reshape(groups * per * phases, cin // groups, *(a.taps.shape[1] for a in axes)))
