"""How the integers of a tensor look on a stream: their shape, and the codes of a bipolar element."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape

from hwflow.layers.formats import IntArray, IntFormat, Tensor


def shape_of(format: IntFormat) -> Shape:
    """On a stream.  The bit of a bipolar element is set for +1."""
    return Shape(1) if format.bipolar else Shape(format.bits, format.signed)


def codes_of(values: IntArray, format: IntFormat) -> IntArray:
    """The codes of `values` on a stream: integers of shape `shape_of(format)`."""
    return (values - format.low) // format.step if format.bipolar else values


def values_of(codes: npt.NDArray[np.integer[Any]], format: IntFormat) -> npt.NDArray[np.integer[Any]]:
    """The inverse of `codes_of`; where values are their own codes, the same array."""
    return (2 * codes.astype(np.int8) - 1) if format.bipolar else codes


def pad_value(x: Tensor) -> int:
    """The value that pads `x`: its zero point.  A tensor without a zero has no padding; then it is 0."""
    return x.zero_point if x.format.contains(np.array(x.zero_point)) else 0
