"""QONNX: quantizers that carry their integers in floats (Pappalardo et al., arXiv:2206.07527) become standard nodes.

    a constant       integers -> DequantizeLinear                                    (weights, biases)
    an activation    QuantizeLinear -> Clip, where narrower than the type -> DequantizeLinear
                     Div -> Add of the zero point -> Floor, ... -> QuantizeLinear of scale 1 -> ... (other roundings)
                     GreaterOrEqual 0 -> Where 1, -1 -> DequantizeLinear             (bipolar)

QuantizeLinear adds the zero point behind the rounding, Quant in front of it.  Half to even that is another integer at a
tie if the zero point is odd; then the steps are written out.  If it is even and not 0, both mean the same real number's
rounding, and differ where the sum of float32 has lost digits.  All other forms give the same bits.

MultiThreshold of FINN (Umuroglu et al., arXiv:1612.07119) says how many thresholds an element reaches.  Each level is
GreaterOrEqual -> Where 1, 0; their sum is quantized with scale 1 and dequantized with `out_scale`.

Trunc drops the lowest bits of a sum, usually that of a pooling window.  The standard form is Div -> Round (back to the
integers of the sum) -> Div by a power of two -> Floor, ... -> QuantizeLinear of scale 1 -> Clip -> DequantizeLinear.
It gives the same bits for all sums of the stated width; beyond them it saturates, where version 1 of Trunc has no
limit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.operators import LAYOUT, MATRIX, POOLS
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.ops.custom.qonnx import DOMAINS
from hwflow.quantize.dialects.qonnx_integers import (
    ACTIVATION_WIDTHS,
    HALF_EVEN,
    Width,
    emit_clip,
    emit_quantized_whole,
    emit_rounded,
    emit_signs,
    emit_units,
    one_zero,
    rounding_mode,
    whole,
    width_of,
)
from hwflow.quantize.dialects.rewriting import Refused, Rewriting, Rule, Scaled, Table, dequantize, quantize
from hwflow.quantize.graphs import apply, attribute, label_of
from hwflow.quantize.scale import SMALLEST_NORMAL

#: Bits of a constant: biases have the type int32.
_WIDTHS = range(1, 33)

_ONE_AXIS = "quantize weights with one scale per tensor or per output channel"


def quantized_constant(rewriting: Rewriting, node: Node, data: Arr) -> None:
    """Quant of the constant `data`: its integers in int8, uint8 or, where they are wider and a bias, int32."""
    _, scale_name, zero_name, bits_name = node.inputs
    width = width_of(rewriting, node, bits_name, _WIDTHS)
    scale = rewriting.scale(scale_name)
    wide = width.bits > 8
    _require_finite(node, data)
    zero = whole(rewriting, zero_name, np.dtype(np.int32) if wide else width.dtype)
    is_integer = rewriting.parameter(zero_name, "the zero point").dtype.kind in "iu"
    _along_one_axis(node, data, scale, zero)
    with np.errstate(over="ignore", under="ignore"):
        units = np.asarray(data.astype(np.float32) / scale)
    operands: dict[str, Arr] = {
        "units": units,
        "one": np.ones((), np.float32),
        "zero": zero if is_integer else zero.astype(np.float32),
        "bits": np.array(width.bits, np.float32),
    }
    # Of scale 1 the operator itself gives the integers, less their zero point.
    reals = apply(replace(node, inputs=tuple(operands)), rewriting.model.opsets, operands)
    integers = np.rint(reals.astype(np.float64)).astype(np.int64)
    if wide:
        zero, dtype = np.zeros((), np.int64), _dtype_of_wide(rewriting, node, integers, width, bits_name)
    else:
        dtype = width.dtype
    _store(rewriting, node, integers + zero, scale, zero, dtype)


def bipolar_constant(rewriting: Rewriting, node: Node, data: Arr) -> None:
    """BipolarQuant of the constant `data`: its signs, that of 0 positive."""
    _require_finite(node, data)
    signs = np.where(data >= 0, 1, -1).astype(np.int64)
    _store(rewriting, node, signs, rewriting.scale(node.inputs[1]), np.zeros((), np.int64), np.dtype(np.int8))


def _require_finite(node: Node, data: Arr) -> None:
    bad = data[~np.isfinite(data)]
    if bad.size:
        why = f"the constant '{node.inputs[0]}' must be finite, not {bad[0]} ({bad.size} such entries)"
        raise Refused(why, "train or export the model again")


def _dtype_of_wide(
    rewriting: Rewriting, node: Node, integers: Arr, width: Width, bits_name: str
) -> np.dtype[np.generic]:
    """int8 where all integers fit, else int32; refused for weights."""
    if not integers.size or (integers.min() >= -128 and integers.max() <= 127):
        return np.dtype(np.int8)
    reader = _multiplying_reader(rewriting, node.outputs[0])
    if reader is not None:
        raise Refused(
            f"the bit width '{bits_name}' of the weights of {reader.label} must be 1 to 8, not {width.bits}",
            "train the model again with weights of 1 to 8 bits",
        )
    return np.dtype(np.int32)


def _multiplying_reader(rewriting: Rewriting, name: str) -> Node | None:
    """A node that multiplies by the tensor, however it is laid out; as a bias it may be wide."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for reader in rewriting.read.get(name, []):
            if reader.op_type in MATRIX | {"ConvTranspose"} and name in reader.inputs[:2]:
                return reader
            if reader.op_type in LAYOUT and reader.outputs[0] not in seen:
                waiting.append(reader.outputs[0])
    return None


def _store(
    rewriting: Rewriting, node: Node, integers: Arr, scale: Arr, zero: Arr, dtype: np.dtype[np.generic]
) -> None:
    base = label_of(node)
    scales, zeros, axis = _along_one_axis(node, integers, scale, zero)
    name = rewriting.constant(f"{base}.integers", integers.astype(dtype))
    dequantize(rewriting, Scaled(name, scales, zeros.astype(dtype), axis), base, node.outputs[0])


def _along_one_axis(node: Node, data: Arr, scale: Arr, zero: Arr) -> tuple[Arr, Arr, int | None]:
    """Scale and zero point, which broadcast to the data, as one number each or as one per index of an axis."""
    try:
        shape = np.broadcast_shapes(scale.shape, zero.shape)
        fits = np.broadcast_shapes(shape, data.shape) == data.shape
    except ValueError:
        fits = False
    if not fits:
        raise Refused(
            f"scale '{node.inputs[1]}' and zero point must broadcast to {list(data.shape)}, "
            f"not have the shapes {list(scale.shape)} and {list(zero.shape)}",
            _ONE_AXIS,
        )
    first = data.ndim - len(shape)
    axes = [first + k for k, size in enumerate(shape) if size > 1]
    if not axes:
        return scale.reshape(()), zero.reshape(()), None
    if len(axes) > 1:
        raise Refused(f"scale '{node.inputs[1]}' must vary along one axis, not have the shape {list(shape)}", _ONE_AXIS)
    spread = (np.broadcast_to(parameter, shape).reshape(-1) for parameter in (scale, zero))
    scales, zeros = spread
    return scales, zeros, axes[0]


#: Levels of 8 bits.
_MOST = 255

_WRITE_QUANT = "export the model before thresholds replace its quantizers (with Quant nodes)"


def multi_threshold(rewriting: Rewriting, node: Node) -> None:
    """MultiThreshold of (data, thresholds [channels or 1, levels]); channels are axis 1, or the last of NHWC."""
    base, (real, name) = label_of(node), node.inputs
    levels = rewriting.parameter(name, "the thresholds").astype(np.float32)
    shape = rewriting.shape(real)
    rank = len(shape)
    last = rank not in (2, 4) or attribute(node, "data_layout", "NCHW") == "NHWC"
    channels = shape[-1 if last else 1] if rank > 1 else 0
    if levels.ndim != 2 or len(levels) not in (1, channels) or not 1 <= levels.shape[1] <= _MOST:
        raise Refused(
            f"the thresholds '{name}' must have the shape [1 or {channels}, 1 to {_MOST}], not {list(levels.shape)}",
            _WRITE_QUANT,
        )
    if np.isnan(levels).any():
        raise Refused(f"the thresholds '{name}' must be numbers, not NaN", "train or export the model again")
    levels = levels.T.reshape(levels.shape[1], -1, *[1] * (0 if last else rank - 2))
    scale, offset = attribute(node, "out_scale", 1.0), attribute(node, "out_bias", 0.0)
    if not (np.isfinite(scale) and scale / 2 >= SMALLEST_NORMAL):
        raise Refused(f"'out_scale' must be finite and positive, not {scale}", _WRITE_QUANT)
    if len(levels) == 1 and offset == -scale / 2:
        emit_signs(rewriting, real, levels[0], np.array(scale / 2, np.float32), base, node.outputs[0])
        return
    zero = -offset / scale
    if not zero.is_integer() or not 0 <= zero <= _MOST:
        raise Refused(
            f"'out_bias' must be minus a multiple of 'out_scale' {scale:g} from 0 to {_MOST}, not {offset:g}",
            _WRITE_QUANT,
        )
    one, none = (rewriting.float32(f"{base}.{k}", v) for k, v in (("one", 1), ("none", 0)))
    count = ""
    for k, level in enumerate(levels):
        end = rewriting.constant(f"{base}.level{k}", level)
        test = rewriting.emit("GreaterOrEqual", real, end, wish=f"{base}.test{k}")
        reached = rewriting.emit("Where", test, one, none, wish=f"{base}.reached{k}")
        count = rewriting.emit("Add", count, reached, wish=f"{base}.count{k}") if count else reached
    integers = quantize(rewriting, count, np.ones((), np.float32), np.zeros((), np.uint8), f"{base}.integers")
    dequantized = Scaled(integers, np.asarray(scale, np.float32), np.asarray(zero, np.uint8))
    dequantize(rewriting, dequantized, f"{base}.real", node.outputs[0])


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
    truncated = emit_rounded(rewriting, divided, mode, base)
    emit_quantized_whole(rewriting, Scaled(truncated, out_scale, out_zero), width, base, node.outputs[0])


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
        emit_quantized_whole(rewriting, Scaled(value, scale, zero), width, base, output)


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
