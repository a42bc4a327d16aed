"""What the integer kernels of TensorFlow Lite round more than once.

A product with weights multiplies its sums by a constant of 31 bits, rounds to an integer of 2**-r steps of the result,
and rounds that to whole steps, halves away from zero.  Both together are one rounding to the nearest step of a number
that moved 2**-(r + 1) steps away from zero, which is written here: x + sign(x) * step * 2**-(r + 1).
"""

from __future__ import annotations

import numpy as np

from hwflow.onnx.tflite.conversion import Conversion
from hwflow.onnx.tflite.file import Tensor

#: Kernels of activations with 16 bits round once.
_ROUND_TWICE = ("INT8", "UINT8")


def rounded_twice(c: Conversion, value: str, x: Tensor, w: Tensor, y: Tensor, axes: int) -> str:
    """`value`, the sums of products of `x` with `w` before they become `y`, so that one rounding gives the kernel's.

    `axes`: how many follow that of the channels.  Itself where layers are not quantized, or some channel's constant is
    1/2 and more, which leaves nothing for a second rounding.
    """
    if not all(map(c.is_quantized, (x, w, y))) or y.type_name not in _ROUND_TWICE:
        return value
    assert x.quantization and w.quantization and y.quantization, "all are quantized"  # noqa: PT018
    scales = [tensor.quantization.scales.astype(np.float64) for tensor in (x, w, y) if tensor.quantization]
    if not all(np.all(scale > 0) for scale in scales):  # refused where they are used
        return value
    _, exponents = np.frexp(scales[0] * scales[1] / scales[2])
    if np.any(exponents >= 0):
        return value
    distances = np.ldexp(scales[2], exponents - 1).astype(np.float32)
    if distances.size == 1:
        distances = distances.reshape(())
    shaped = distances.reshape(-1, *[1] * axes) if distances.ndim else distances
    moved = c.node("Mul", c.node("Sign", value), c.constant(shaped, f"{c.names[y.index]}/outward"))
    return c.node("Add", value, moved)
