"""Blocks of pixels as batches and back: a Pad, a Reshape, a Transpose and a Reshape.

Older converters write a dilated convolution between the two, which `quantize/passes/batches.py` makes one Conv again.
"""

from __future__ import annotations

from typing import NamedTuple

from hwflow.onnx.errors import InvalidModel
from hwflow.onnx.tflite.conversion import Conversion
from hwflow.onnx.tflite.file import Operator, Tensor

_AGAIN = "the file is damaged: copy or export it again"


class Blocks(NamedTuple):
    """Sizes of a block, and what is padded or cropped before and after, for the axes behind the batch."""

    tensor: Tensor
    sizes: list[int]
    before: list[int]
    after: list[int]


def blocks_of(c: Conversion, operator: Operator) -> Blocks:
    """What the inputs of SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND say."""
    x, block, pairs = c.inputs(operator, 3)
    sizes = c.fixed_wholes(block, "the block")
    edges = c.fixed_wholes(pairs, "the padding")
    if not (1 <= len(sizes) < len(x.shape) and len(edges) == 2 * len(sizes) and min(sizes) >= 1 and min(edges) >= 0):
        raise InvalidModel(f"the block {sizes} and the padding {edges} must suit {list(x.shape)} of {x.label}", _AGAIN)
    return Blocks(x, sizes, edges[::2], edges[1::2])


def space_to_batch(c: Conversion, operator: Operator) -> None:
    """Pixels at the same place of their blocks become a batch."""
    x, sizes, before, after = blocks_of(c, operator)
    rank, count = len(x.shape), len(sizes)
    rest = rank - 1 - count
    value = c.real(x)
    if any(before) or any(after):
        value = c.node("Pad", value, c.wholes([0, *before, *[0] * rest, 0, *after, *[0] * rest]), mode="constant")
    padded = [n + a + b for n, a, b in zip(x.shape[1 : 1 + count], before, after, strict=True)]
    if any(n % size for n, size in zip(padded, sizes, strict=True)):
        raise InvalidModel(f"the padded sizes {padded} must be multiples of the block {sizes}", _AGAIN)
    outer = [part for n, size in zip(padded, sizes, strict=True) for part in (n // size, size)]
    value = c.node("Reshape", value, c.wholes([x.shape[0], *outer, *x.shape[1 + count :]]))
    inside, blocks = [2 + 2 * k for k in range(count)], [1 + 2 * k for k in range(count)]
    value = c.node("Transpose", value, perm=[*inside, 0, *blocks, *range(1 + 2 * count, 1 + 2 * count + rest)])
    batch = x.shape[0]
    for size in sizes:
        batch *= size
    value = c.node("Reshape", value, c.wholes([batch, *outer[::2], *x.shape[1 + count :]]))
    c.put(c.output(operator), value)


def batch_to_space(c: Conversion, operator: Operator) -> None:
    """The way back."""
    y = c.output(operator)
    x, sizes, before, after = blocks_of(c, operator)
    count, batch = len(sizes), x.shape[0]
    for size in sizes:
        batch = batch // size if batch % size == 0 else 0
    if not batch:
        raise InvalidModel(f"the batch {x.shape[0]} must be a multiple of the block {sizes}", _AGAIN)
    inner, rest = x.shape[1 : 1 + count], x.shape[1 + count :]
    value = c.node("Reshape", c.real(x), c.wholes([*sizes, batch, *inner, *rest]))
    mixed = [axis for k in range(count) for axis in (count + 1 + k, k)]
    order = [count, *mixed, *range(2 * count + 1, len(x.shape) + count)]
    value = c.node("Transpose", value, perm=order)
    whole = [n * size for n, size in zip(inner, sizes, strict=True)]
    value = c.node("Reshape", value, c.wholes([batch, *whole, *rest]))
    if any(before) or any(after):
        ends = [n - b for n, b in zip(whole, after, strict=True)]
        value = c.node("Slice", value, c.wholes(before), c.wholes(ends), c.wholes(range(1, 1 + count)))
    c.put(y, value)
