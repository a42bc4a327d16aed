"""The rounding modes of QONNX in standard nodes, and the quantizer behind a value that is whole already."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.quantizers import Scaled, dequantize, quantize
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.dialects.widths import Width
from hwflow.quantize.graphs import attribute

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
    shift = rewriting.constant(f"{base}.shift", zero.astype(np.float32))
    return rewriting.emit("Add", units, shift, wish=f"{base}.shifted")


def emit_rounded(rewriting: Rewriting, value: str, mode: str, base: str) -> str:
    """`value` rounded to whole numbers."""
    if mode in _PLAIN:
        return rewriting.emit(_PLAIN[mode], value, wish=f"{base}.whole")
    offset, op = _MIRRORED[mode]
    size = rewriting.emit("Abs", value, wish=f"{base}.size")
    if offset:
        half = rewriting.constant(f"{base}.half", np.array(offset, np.float32))
        size = rewriting.emit("Add", size, half, wish=f"{base}.nearer")
    size = rewriting.emit(op, size, wish=f"{base}.whole_size")
    sign = rewriting.emit("Sign", value, wish=f"{base}.sign")
    return rewriting.emit("Mul", size, sign, wish=f"{base}.whole")


def emit_clip(rewriting: Rewriting, integers: str, low: int, high: int, dtype: np.dtype[np.generic], base: str) -> str:
    """A Clip of an integer tensor."""
    ends = (rewriting.constant(f"{base}.{k}", np.array(v, dtype)) for k, v in (("low", low), ("high", high)))
    return rewriting.emit("Clip", integers, *ends, wish=f"{base}.clipped")


def emit_quantized_whole(
    rewriting: Rewriting, value: str, width: Width, scale: Arr, zero: Arr, base: str, output: str
) -> None:
    """`output` = scale * (`value` - zero point) for whole numbers, limited to the width: as Q, Clip, DQ."""
    if zero != 0:
        shift = rewriting.constant(f"{base}.shift_back", zero.astype(np.float32))
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
