"""Nodes that join computed tensors: functions of one source, sums and products of two, and Concat."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from hwflow_base.errors import reason_of

from hwflow.layers.formats import Frame, IntArray
from hwflow.onnx.model import Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.layer_anchors import Product, Sum, TensorAnchor
from hwflow.quantize.importer.states import (
    QUANTIZE_ALL,
    Anchor,
    Held,
    Joined,
    Lacking,
    Misplaced,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.importer.steps import combined, step

#: Concats of Concats become layers from the outermost on, one call inside of the other.
_DEEPEST = 64


def element_wise(
    node: Node, operands: Mapping[str, Unrounded], constants: Mapping[str, Quantity], per_element: bool = False
) -> Unrounded:
    """`node` on its computed inputs `operands`, in the order of its inputs.

    Misplaced where a constant differs inside a channel, unless `per_element`.
    """
    first, *others = operands.values()
    if all(first.anchor.key == other.anchor.key and np.array_equal(first.index, other.index) for other in others):
        merged = first
        for other in others:
            merged = combined(merged, other)
        values = {name: unrounded.result for name, unrounded in operands.items()}
        try:
            return merged.then(step(node, merged, values, constants, per_element))
        except ValueError as error:
            why, remedy = reason_of(error)
            raise Misplaced(why, remedy or QUANTIZE_ALL) from None
    if len(others) != 1 or node.op_type not in ("Add", "Sub", "Mul"):
        raise Unsupported(
            "joins two computed tensors; only Add, Sub, Mul and Concat of two have an integer form",
            "compute it from one of them, or with Add, Sub and Mul",
        )
    return _joined(node, first, others[0])


def _joined(node: Node, a: Unrounded, b: Unrounded) -> Unrounded:
    frame, index = _broadcast(a, b)
    (x, f), (y, g) = operand(a), operand(b)
    anchor: Anchor
    if node.op_type == "Mul":
        anchor = Product(node, node.outputs[0], frame, (x, y), f * g)
    else:
        anchor = Sum(node, node.outputs[0], frame, (x, y), (f, g if node.op_type == "Add" else -g))
    return Unrounded.of(anchor, index)


def operand(unrounded: Unrounded) -> tuple[Held, Fraction]:
    """A tensor and the constant that it is multiplied with."""
    anchor = unrounded.anchor
    form = form_of(unrounded, Form.linear((Fraction(1),))) if isinstance(anchor, TensorAnchor) else None
    plain = form is not None and not form.limited and form.rounding is None and not form.outward and not form.offset[0]
    if form is None or not plain or form.unit[0] == 0:
        where = unrounded.steps[-1].node if unrounded.steps else anchor.node
        raise Lacking(f"reads the result of {where.label}, which no QuantizeLinear made integer", (unrounded.result,))
    assert isinstance(anchor, TensorAnchor)
    return anchor.source, form.unit[0]


def _broadcast(a: Unrounded, b: Unrounded) -> tuple[Frame, IntArray]:
    """The frame and index of a result.  Misplaced where elements that are combined are at different places."""
    result = broadcast((a.anchor.frame, a.index), (b.anchor.frame, b.index))
    if result is not None:
        return result
    shapes = f"{list(a.index.shape)} (frame {a.anchor.frame}) and {list(b.index.shape)} (frame {b.anchor.frame})"
    raise Misplaced(
        f"joins tensors of shapes {shapes}; they must be equal and in the same order, or one of them [1, C, 1, 1] or "
        "a single element",
        "give both one shape in front of it (torch.Tensor.expand, tf.broadcast_to)",
    )


def broadcast(a: tuple[Frame, IntArray], b: tuple[Frame, IntArray]) -> tuple[Frame, IntArray] | None:
    """The frame and index of a result of two operands: those of one, for which the other counts as a whole, a row or a
    number; None where elements that are combined are at different places of their frames."""
    for (frame, whole), (other, part) in ((a, b), (b, a)):
        try:
            index = np.broadcast_to(part, whole.shape)
        except ValueError:
            continue
        fits = {
            frame: whole,
            Frame(1, 1, frame.channels): whole % frame.channels,
            Frame(1, 1, 1): np.zeros_like(whole),
        }
        if other in fits and np.array_equal(index, fits[other]):
            return frame, whole
    return None


def concat(node: Node, parts: list[Unrounded]) -> Unrounded:
    """Concat along the channels: each part keeps its pixels, and its channels follow those of the parts before.

    Misplaced where the parts differ in height or width, Unsupported where Concats are nested too deep.
    """
    depth = 1 + max(part.anchor.depth if isinstance(part.anchor, Joined) else 0 for part in parts)
    if depth > _DEEPEST:
        raise Unsupported(f"joins results of Concat more than {_DEEPEST} deep", "quantize the result of some of them")
    frames = [part.anchor.frame for part in parts]
    if len({(frame.height, frame.width) for frame in frames}) > 1:
        raise Misplaced(
            f"joins frames of different height or width ({', '.join(map(str, frames))})",
            "join them before the model flattens them, or use the same size",
        )
    total, start, indices = sum(frame.channels for frame in frames), 0, []
    for part, frame in zip(parts, frames, strict=True):
        pixel, channel = np.divmod(part.index, frame.channels)
        indices.append(pixel * total + start + channel)
        start += frame.channels
    index = np.concatenate(indices, axis=attribute(node, "axis", 0))
    frame = Frame(frames[0].height, frames[0].width, total)
    return Unrounded.of(Joined(node, node.outputs[0], frame, tuple(parts), index, depth), index)
