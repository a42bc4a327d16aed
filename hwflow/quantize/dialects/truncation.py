"""QONNX Trunc: the lowest bits of a sum, usually that of a pooling window, are dropped.

The standard form is Div -> Round (back to the integers of the sum) -> Div by a power of two -> Floor, ... ->
QuantizeLinear of scale 1 -> Clip -> DequantizeLinear.  It gives the same bits for all sums of the stated width; beyond
them it saturates, where version 1 of Trunc has no limit.
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.operators import LAYOUT, POOLS
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.ops.custom.qonnx import DOMAINS
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.dialects.roundings import (
    HALF_EVEN,
    emit_quantized_whole,
    emit_rounded,
    emit_units,
    rounding_mode,
)
from hwflow.quantize.dialects.widths import ACTIVATION_WIDTHS, Width, one_zero, width_of
from hwflow.quantize.graphs import attribute, label_of

#: Widths of the sum; floats of float32 are whole up to here.
_SUM_WIDTHS = range(1, 25)


def trunc(rewriting: Rewriting, node: Node) -> None:
    """Trunc of (data, scale, zero point, bits of the sum, [scale of the result,] bits of the result)."""
    real, scale_name, zero_name, in_bits_name = node.inputs[:4]
    base, mode = label_of(node), rounding_mode(node, "FLOOR")
    scale = rewriting.one_scale(scale_name)
    zero = one_zero(rewriting, zero_name, np.dtype(np.int32))
    width_of(rewriting, node, in_bits_name, _SUM_WIDTHS)
    width = width_of(rewriting, node, node.inputs[-1], ACTIVATION_WIDTHS)
    if len(node.inputs) == 5:
        in_bits = float(rewriting.parameter(in_bits_name, "the bit width").reshape(-1)[0])
        step: Arr = np.array(2.0 ** (in_bits - width.bits), np.float32)
        out_scale, out_zero = scale, zero
        width = Width(width.bits, _is_signed(rewriting, node), narrow=False)
    else:
        out_scale = rewriting.one_scale(node.inputs[4], "the scale of the result")
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            step = np.asarray(np.exp2(np.rint(np.log2(out_scale / scale))), np.float32)
        if not (np.isfinite(step) and step > 0):
            raise Refused(f"the scales '{scale_name}' and '{node.inputs[4]}' must be of one order, not {step} apart")
        out_zero = np.asarray(zero / step)
    out_zero = _zero_of(out_zero, width, zero_name)
    whole = emit_rounded(rewriting, emit_units(rewriting, real, scale, zero, base), HALF_EVEN, f"{base}.sum")
    divided = rewriting.emit("Div", whole, rewriting.constant(f"{base}.power", np.asarray(step)), wish=f"{base}.part")
    kept = emit_rounded(rewriting, divided, mode, base)
    emit_quantized_whole(rewriting, kept, width, out_scale, out_zero, base, node.outputs[0])


def _zero_of(zero: Arr, width: Width, name: str) -> Arr:
    info = np.iinfo(width.dtype)  # type: ignore[type-var]
    if zero != np.rint(zero) or not info.min <= zero <= info.max:
        raise Refused(
            f"the zero point '{name}' must be a whole number of {width.dtype.name} after the truncation, "
            f"not {float(zero):g}",
            "train the model again with a zero point of 0 in front of the pooling layer",
        )
    return zero.astype(width.dtype)


def _is_signed(rewriting: Rewriting, node: Node) -> bool:
    """Version 1 does not say whether its integers have a sign: the quantizer in front of the pool does."""
    name = node.inputs[0]
    while (maker := rewriting.made.get(name)) is not None:
        if maker.op_type == "Relu":
            return False
        if maker.domain in DOMAINS and maker.op_type in ("Quant", "IntQuant"):
            return bool(attribute(maker, "signed", 1))
        if maker.domain in DOMAINS and maker.op_type == "BipolarQuant":
            return True
        if maker.op_type == "DequantizeLinear" and not maker.domain:
            return rewriting.dtype(maker.inputs[0]).kind == "i"
        scaled = maker.op_type == "Mul" and _is_positive(rewriting, maker.inputs[1])
        if maker.op_type not in POOLS | LAYOUT and not scaled:
            break
        name = maker.inputs[0]
    raise Refused(
        f"the sign of '{node.inputs[0]}' must be known from a quantizer in front of the pooling layer",
        "export the model with Trunc of operator set 2, which has the attribute 'signed'",
    )


def _is_positive(rewriting: Rewriting, name: str) -> bool:
    value = rewriting.value(name)
    return value is not None and bool(np.all(value > 0))
