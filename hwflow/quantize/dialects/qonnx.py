"""QONNX: quantizers that carry their integers in floats (Pappalardo et al., arXiv:2206.07527) become standard nodes.

    a constant       integers -> DequantizeLinear                                    (weights, biases)
    an activation    QuantizeLinear -> Clip, where narrower than the type -> DequantizeLinear
                     Div -> Add of the zero point -> Floor, ... -> QuantizeLinear of scale 1 -> ... (other roundings)
                     GreaterOrEqual 0 -> Where 1, -1 -> DequantizeLinear             (bipolar)

QuantizeLinear adds the zero point behind the rounding, Quant in front of it.  Half to even that is another integer at a
tie if the zero point is odd; then the steps are written out.  If it is even and not 0, both mean the same real number's
rounding, and differ where the sum of float32 has lost digits.  All other forms give the same bits.
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.ops.custom.qonnx import DOMAINS
from hwflow.quantize.dialects.constant_quant import bipolar_constant, quantized_constant
from hwflow.quantize.dialects.quantizers import Scaled, dequantize, quantize
from hwflow.quantize.dialects.rewriting import Refused, Rewriting, Rule, Table
from hwflow.quantize.dialects.roundings import (
    HALF_EVEN,
    emit_clip,
    emit_quantized_whole,
    emit_rounded,
    emit_signs,
    emit_units,
    rounding_mode,
)
from hwflow.quantize.dialects.thresholding import multi_threshold
from hwflow.quantize.dialects.truncation import trunc
from hwflow.quantize.dialects.widths import ACTIVATION_WIDTHS, one_zero, width_of
from hwflow.quantize.graphs import label_of


def _quant(rewriting: Rewriting, node: Node) -> None:
    """Quant or IntQuant of (data, scale, zero point, bits)."""
    real, scale_name, zero_name, bits_name = node.inputs
    mode, data = rounding_mode(node, HALF_EVEN), rewriting.value(real)
    if data is not None:
        quantized_constant(rewriting, node, data)
        return
    base, output = label_of(node), node.outputs[0]
    width = width_of(rewriting, node, bits_name, ACTIVATION_WIDTHS)
    scale, zero = rewriting.one_scale(scale_name), one_zero(rewriting, zero_name, width.dtype)
    if width.bipolar:
        if zero != 0:
            raise Refused(
                f"the zero point '{zero_name}' of one signed bit must be 0, not {zero}",
                "train the model again with a bipolar quantizer around 0",
            )
        emit_signs(rewriting, real, np.zeros((), rewriting.dtype(real)), scale, base, output)
    elif mode == HALF_EVEN and int(zero) % 2 == 0:
        integers = quantize(rewriting, real, scale, zero, f"{base}.integers")
        if not width.fills_type:
            integers = emit_clip(rewriting, integers, width.low, width.high, width.dtype, base)
        dequantize(rewriting, Scaled(integers, scale, zero), f"{base}.real", output)
    else:
        units = emit_units(rewriting, real, scale, zero, base)
        value = emit_rounded(rewriting, units, mode, base)
        emit_quantized_whole(rewriting, value, width, scale, zero, base, output)


def _bipolar_quant(rewriting: Rewriting, node: Node) -> None:
    """BipolarQuant of (data, scale)."""
    real, scale_name = node.inputs
    data = rewriting.value(real)
    if data is not None:
        bipolar_constant(rewriting, node, data)
    else:
        zero = np.zeros((), rewriting.dtype(real))
        emit_signs(rewriting, real, zero, rewriting.one_scale(scale_name), label_of(node), node.outputs[0])


def _float_quant(rewriting: Rewriting, node: Node) -> None:
    raise Refused(
        f"rounds '{node.inputs[0]}' to floats of a few bits; hardware computes with integers alone",
        "train the model again with integer quantizers (Quant of 1 to 8 bits)",
    )


_RULES: dict[str, Rule] = {
    "Quant": _quant,
    "IntQuant": _quant,
    "BipolarQuant": _bipolar_quant,
    "Trunc": trunc,
    "MultiThreshold": multi_threshold,
    "FloatQuant": _float_quant,
}

RULES: Table = {(domain, op): rule for domain in DOMAINS for op, rule in _RULES.items()}
