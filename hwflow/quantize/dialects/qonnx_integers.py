"""The integers of QONNX: their range and zero point, the rounding modes, quantizers behind values that are whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.rewriting import PER_TENSOR, Refused, Rewriting, Scaled, dequantize, quantize
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
    widths = np.unique(rewriting.parameter(name, "the bit width"))
    if widths.size != 1:
        raise Refused(f"the bit width '{name}' must be one number, not {widths.size} different ones", _TRAIN)
    bits = float(widths[0])
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
    zeros = rewriting.parameter(name, "the zero point").astype(np.float64)
    info = np.iinfo(dtype)  # type: ignore[type-var]
    bad = zeros[~((zeros == np.rint(zeros)) & (zeros >= info.min) & (zeros <= info.max))]
    if bad.size:
        raise Refused(
            f"the zero point '{name}' must be a whole number from {info.min} to {info.max}, not {bad[0]:g}",
            "quantize the model again; a zero point is one of the integers of its type",
        )
    return zeros.astype(np.int64)


def one_zero(rewriting: Rewriting, name: str, dtype: np.dtype[np.generic]) -> Arr:
    """The one zero point of an activation: of shape [] and type `dtype`."""
    zeros = whole(rewriting, name, dtype)
    if zeros.size != 1:
        raise Refused(
            f"the zero point '{name}' must be one number, not {zeros.size}: an activation has none per channel",
            PER_TENSOR,
        )
    return zeros.reshape(()).astype(dtype)


HALF_EVEN = "ROUND"

#: Names of the same mode.
_ALIASES = {"HALF_EVEN": HALF_EVEN, "ROUND_TO_ZERO": "DOWN"}

#: Modes that are one node.
_PLAIN = {HALF_EVEN: "Round", "FLOOR": "Floor", "CEIL": "Ceil"}

#: Modes that treat both signs alike: what is added to the absolute value, and how that is rounded.
_MIRRORED = {"UP": (0.0, "Ceil"), "DOWN": (0.0, "Floor"), "HALF_UP": (0.5, "Floor"), "HALF_DOWN": (-0.5, "Ceil")}


def rounding_mode(node: Node, default: str) -> str:
    """The node's mode by its main name.  Refused: an unknown one."""
    written = attribute(node, "rounding_mode", default)
    mode = _ALIASES.get(written.upper(), written.upper())
    if mode not in _PLAIN and mode not in _MIRRORED:
        known = ", ".join((*_PLAIN, *_MIRRORED, *_ALIASES))
        raise Refused(f"'rounding_mode' must be one of {known}, not {written!r}", "export the model again")
    return mode


def emit_units(rewriting: Rewriting, real: str, scale: Arr, zero: Arr, base: str) -> str:
    """The tensor `real` divided by the scale, plus the zero point: not rounded yet."""
    units = rewriting.emit("Div", real, rewriting.constant(f"{base}.step", scale), wish=f"{base}.units")
    if zero == 0:
        return units
    shift = rewriting.float32(f"{base}.shift", zero)
    return rewriting.emit("Add", units, shift, wish=f"{base}.shifted")


def emit_rounded(rewriting: Rewriting, value: str, mode: str, base: str) -> str:
    """`value` rounded to whole numbers."""
    if mode in _PLAIN:
        return rewriting.emit(_PLAIN[mode], value, wish=f"{base}.whole")
    offset, op = _MIRRORED[mode]
    size = rewriting.emit("Abs", value, wish=f"{base}.size")
    if offset:
        half = rewriting.float32(f"{base}.half", offset)
        size = rewriting.emit("Add", size, half, wish=f"{base}.nearer")
    size = rewriting.emit(op, size, wish=f"{base}.whole_size")
    sign = rewriting.emit("Sign", value, wish=f"{base}.sign")
    return rewriting.emit("Mul", size, sign, wish=f"{base}.whole")


def emit_clip(rewriting: Rewriting, integers: str, low: int, high: int, dtype: np.dtype[np.generic], base: str) -> str:
    """A Clip of an integer tensor."""
    ends = (rewriting.constant(f"{base}.{k}", np.array(v, dtype)) for k, v in (("low", low), ("high", high)))
    return rewriting.emit("Clip", integers, *ends, wish=f"{base}.clipped")


def emit_quantized_whole(
    rewriting: Rewriting, whole_numbers: Scaled, width: Width, base: str, output: str
) -> None:
    """`output` = scale * (x - zero point) for `whole_numbers` x, reals still, limited to the width: as Q, Clip, DQ."""
    value, scale, zero = whole_numbers.tensor, whole_numbers.scale, whole_numbers.zero
    if zero != 0:
        shift = rewriting.float32(f"{base}.shift_back", zero)
        value = rewriting.emit("Sub", value, shift, wish=f"{base}.centred")
    integers = quantize(rewriting, value, np.ones((), np.float32), zero, f"{base}.integers")
    if not width.fills_type:
        integers = emit_clip(rewriting, integers, width.low, width.high, width.dtype, base)
    dequantize(rewriting, Scaled(integers, scale, zero), f"{base}.real", output)


def emit_signs(rewriting: Rewriting, real: str, threshold: Arr, scale: Arr, base: str, output: str) -> None:
    """`output` = `scale` where the tensor `real` reaches the threshold (which broadcasts to it), else -`scale`."""
    level = rewriting.constant(f"{base}.threshold", threshold)
    signs = (rewriting.constant(f"{base}.{k}", np.array(v, np.int8)) for k, v in (("plus", 1), ("minus", -1)))
    positive = rewriting.emit("GreaterOrEqual", real, level, wish=f"{base}.positive")
    integers = rewriting.emit("Where", positive, *signs, wish=f"{base}.integers")
    dequantize(rewriting, Scaled(integers, scale, np.zeros((), np.int8)), f"{base}.real", output)
