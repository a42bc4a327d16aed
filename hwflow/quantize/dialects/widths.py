"""What a QONNX quantizer says of its integers: their range, and a zero point among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.rewriting import PER_TENSOR, Refused, Rewriting
from hwflow.quantize.graphs import attribute

#: Bits that activations may have; beyond 8 only what ONNX has a type for.
ACTIVATION_WIDTHS = (*range(1, 9), 16)

_TRAIN = "train the model again with quantizers of 1 to 8 bits"


@dataclass(frozen=True)
class Width:
    """Integers of so many bits; `narrow` leaves out the one at the end that has one more."""

    bits: int
    signed: bool
    narrow: bool

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) + self.narrow if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1 - self.narrow

    @property
    def bipolar(self) -> bool:
        """One signed bit means -1 and 1."""
        return self.signed and self.bits == 1

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The narrowest integer type of QuantizeLinear that holds the range."""
        if self.bits <= 8:
            return np.dtype(np.int8 if self.signed else np.uint8)
        return np.dtype(np.int16 if self.signed else np.uint16)

    @property
    def fills_type(self) -> bool:
        """True where saturation at the type's ends is all that the range asks for."""
        info = np.iinfo(self.dtype)  # type: ignore[type-var]
        return (self.low, self.high) == (info.min, info.max)


def width_of(rewriting: Rewriting, node: Node, name: str, allowed: tuple[int, ...] | range) -> Width:
    """The width that the input `name` and the attributes `signed` and `narrow` give.  Refused: one not of `allowed`."""
    found = np.unique(rewriting.parameter(name, "the bit width"))
    if found.size != 1:
        raise Refused(f"the bit width '{name}' must be one number, not {found.size} different ones", _TRAIN)
    bits = float(found[0])
    if bits not in allowed:
        ends = "1 to 8, or 16" if allowed is ACTIVATION_WIDTHS else f"{allowed[0]} to {allowed[-1]}"
        raise Refused(f"the bit width '{name}' must be a whole number, {ends}, not {bits:g}", _TRAIN)
    width = Width(int(bits), bool(attribute(node, "signed", 1)), bool(attribute(node, "narrow", 0)))
    if width.low == width.high and not width.bipolar:
        raise Refused(f"one unsigned bit ('{name}') must not be narrow: nothing but 0 is left", _TRAIN)
    if width.bits > 8 and width.narrow and allowed is ACTIVATION_WIDTHS:
        raise Refused(f"integers of {width.bits} bits ('{name}') must not be narrow", _TRAIN)
    return width


def whole(rewriting: Rewriting, name: str, dtype: np.dtype[np.generic]) -> Arr:
    """The zero points `name` in their own shape, as int64.  Refused: fractions, and those outside of the type."""
    found = rewriting.parameter(name, "the zero point").astype(np.float64)
    info = np.iinfo(dtype)  # type: ignore[type-var]
    bad = found[~((found == np.rint(found)) & (found >= info.min) & (found <= info.max))]
    if bad.size:
        raise Refused(
            f"the zero point '{name}' must be a whole number from {info.min} to {info.max}, not {bad[0]:g}",
            "quantize the model again; a zero point is one of the integers of its type",
        )
    return found.astype(np.int64)


def one_zero(rewriting: Rewriting, name: str, dtype: np.dtype[np.generic]) -> Arr:
    """The one zero point of an activation: of shape [] and type `dtype`."""
    found = whole(rewriting, name, dtype)
    if found.size != 1:
        raise Refused(
            f"the zero point '{name}' must be one number, not {found.size}: an activation has none per channel",
            PER_TENSOR,
        )
    return found.reshape(()).astype(dtype)
