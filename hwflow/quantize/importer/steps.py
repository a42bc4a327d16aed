"""Element by element nodes after an anchor: their constants per channel, and their values as ONNX defines them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.quantize.constants import Quantity
from hwflow.quantize.importer.states import Joined, Step, Unrounded


def step(
    node: Node, unrounded: Unrounded, values: Mapping[str, str], constants: Mapping[str, Quantity],
    per_element: bool = False,
) -> Step:
    """`node` after `unrounded`; `values` maps its computed inputs to values of `unrounded`.

    ValueError where a constant differs inside a channel or does not broadcast; with `per_element`, it may differ
    there, and then has an entry for each element of the frame.
    """
    anchor = unrounded.anchor
    flat = unrounded.index.ravel()
    channel = anchor.constant_of(flat)
    inputs: list[str | Quantity | None] = []
    for name in node.inputs:
        if not name or name in values:
            inputs.append(values.get(name))
        elif node.op_type == "BatchNormalization":
            shaped = constants[name].moved(lambda array: array.reshape(-1, *[1] * (unrounded.index.ndim - 2)))
            shaped_channels = per_channel(shaped, unrounded.index, channel, anchor.constants, name)
            inputs.append(shaped_channels.moved(lambda array: np.broadcast_to(array, (anchor.constants,))))
        else:
            try:
                inputs.append(per_channel(constants[name], unrounded.index, channel, anchor.constants, name))
            except ValueError:
                if not per_element:
                    raise
                inputs.append(per_channel(constants[name], unrounded.index, flat, anchor.frame.elements, name))
    return Step(node, tuple(inputs))


def per_channel(value: Quantity, index: IntArray, channel: IntArray, count: int, name: str) -> Quantity:
    """`value`, which ONNX broadcasts to the shape of `index`, with one entry for all, or `count`, one per channel.

    `channel` has that of each element of `index`; with elements in place of channels it is one for each of these.
    """
    if value.real.size == 1 and value.real.ndim <= index.ndim:
        return value.moved(lambda array: array.reshape(()))

    def move(array: Array) -> Array:
        full = np.broadcast_to(array, index.shape).ravel()
        result = np.full(count, full[0], array.dtype)  # a channel that nothing reads may have any constant
        result[channel] = full
        if not np.array_equal(result[channel], full, equal_nan=array.dtype.kind == "f"):
            raise ValueError
        return result

    try:
        return value.moved(move)
    except ValueError:
        shape = list(value.real.shape)
        raise ValueError(
            f"its constant '{name}' {shape} must have one value, or one per channel of {list(index.shape)}"
        ) from None


def combined(a: Unrounded, b: Unrounded) -> Unrounded:
    """The steps of two values of one anchor, those of both once."""
    known = {own.result for own in a.steps}
    return Unrounded(a.anchor, a.index, (*a.steps, *(s for s in b.steps if s.result not in known)), a.result)


def varies(unrounded: Unrounded) -> bool:
    """True where some step has a constant per channel."""
    return any(isinstance(x, Quantity) and x.real.ndim > 0 and _differs(x) for s in unrounded.steps for x in s.inputs)


def uniform(unrounded: Unrounded) -> Unrounded:
    """An unrounded result that does not vary, with one entry in each constant."""

    def one(source: str | Quantity | None) -> str | Quantity | None:
        many = isinstance(source, Quantity) and source.real.ndim > 0
        return source.moved(lambda array: array[:1]) if many and isinstance(source, Quantity) else source

    return replace(unrounded, steps=tuple(replace(s, inputs=tuple(map(one, s.inputs))) for s in unrounded.steps))


def of_part(step: Step, whole: Joined, part: Unrounded, start: int) -> Step:
    """A step after the Concat `whole`, for one part of it, whose channels begin with number `start`."""
    channels, count = whole.frame.channels, part.anchor.frame.channels

    def moved(source: str | Quantity | None) -> str | Quantity | None:
        if isinstance(source, Quantity) and source.real.ndim > 0:  # of all channels, or of all elements
            return source.moved(lambda array: array.reshape(-1, channels)[:, start : start + count].ravel())
        return part.result if source == whole.key else source

    return Step(step.node, tuple(moved(source) for source in step.inputs))


def _differs(value: Quantity) -> bool:
    return not np.all(value.real == value.real.ravel()[:1])


class Function:
    """The steps of an unrounded result as a program: from values of the anchor to values of the result."""

    def __init__(self, unrounded: Unrounded, opsets: Mapping[str, int]) -> None:
        constants: dict[str, Array] = {}
        nodes = []
        for number, step in enumerate(unrounded.steps):
            names = []
            for position, source in enumerate(step.inputs):
                name = source if isinstance(source, str) else ""
                if isinstance(source, Quantity):
                    name = f"{number}.{position}"
                    # Values are float32 here whatever the file computes in.
                    dtype = source.dtype if source.dtype.kind in "iub" else np.dtype(np.float32)
                    constants[name] = source.real.astype(dtype)
                names.append(name)
            nodes.append(Node(step.node.op_type, tuple(names), step.node.outputs[:1], step.node.attributes))
        start = Value(unrounded.anchor.key, TensorType(np.dtype(np.float32), None))
        graph = Graph("function", tuple(nodes), (start,), (Value(unrounded.result, None),), constants)
        self.unrounded, self.model = unrounded, Model(graph, 10, opsets)

    def __call__(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The results of values [n, channels] (channels may be 1 where no constant differs per channel), computed as
        ONNX says.
        """
        if not self.unrounded.steps:
            return values.astype(np.float64)
        with np.errstate(all="ignore"):
            result = evaluate(self.model, {self.unrounded.anchor.key: values})[self.unrounded.result]
        return np.broadcast_to(np.asarray(result, np.float64), values.shape)
