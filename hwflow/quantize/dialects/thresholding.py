"""MultiThreshold of FINN (Umuroglu et al., arXiv:1612.07119) in standard nodes: how many thresholds an element reaches.

Each level is GreaterOrEqual -> Where 1, 0; their sum is quantized with scale 1 and dequantized with `out_scale`.
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Node
from hwflow.quantize.dialects.quantizers import Scaled, dequantize, quantize
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.dialects.roundings import emit_signs
from hwflow.quantize.graphs import attribute, label_of
from hwflow.quantize.scale import SMALLEST_NORMAL

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
    one, none = (rewriting.constant(f"{base}.{k}", np.array(v, np.float32)) for k, v in (("one", 1), ("none", 0)))
    count = ""
    for k, level in enumerate(levels):
        end = rewriting.constant(f"{base}.level{k}", level)
        test = rewriting.emit("GreaterOrEqual", real, end, wish=f"{base}.test{k}")
        reached = rewriting.emit("Where", test, one, none, wish=f"{base}.reached{k}")
        count = rewriting.emit("Add", count, reached, wish=f"{base}.count{k}") if count else reached
    integers = quantize(rewriting, count, np.ones((), np.float32), np.zeros((), np.uint8), f"{base}.integers")
    dequantized = Scaled(integers, np.asarray(scale, np.float32), np.asarray(zero, np.uint8))
    dequantize(rewriting, dequantized, f"{base}.real", node.outputs[0])
