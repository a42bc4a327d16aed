"""From a pending result and the parameters of its QuantizeLinear to an integer layer."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hwflow.layers import AveragePool, Conv, Dense, IntFormat, Layer, Lookup, Requantize, Tensor
from hwflow.layers.formats import IntArray
from hwflow.layers.matrix import accumulator_format
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import apply
from hwflow.quantize.importer.states import Average, Matrix, Table
from hwflow.quantize.scale import fixed_points, quantize_value

__all__ = ["average_layer", "matrix_layer", "raw_layer", "table_layer", "weight_format"]

#: A bias whose scale agrees this well with the scale of the products keeps its integers.
_SAME_SCALE = 1e-6

#: Steps outside every format; saturates them before the conversion to integers.
_FAR = 2.0**40


def _limits(low: float, high: float, y: Tensor) -> tuple[int, int]:
    """Ends of the clamp.  Rounding is monotonous, so limiting the integers equals limiting the reals before."""
    ends = [quantize_value(v, y.scale, y.zero_point, y.format) for v in (low, high)]
    return ends[0], ends[1]


def weight_format(weights: IntArray, bits: int) -> IntFormat:
    """Signed, as wide as in the file; one bit more where a zero point pushes the weights out of that."""
    stated = IntFormat(bits, signed=True)
    return stated if stated.contains(weights) else IntFormat(bits + 1, signed=True)


def _bias(pending: Matrix, x: Tensor) -> IntArray:
    """The biases in units of the products, minus what the input's zero point adds to them."""
    unit = x.scale * pending.scales
    total = np.zeros(len(unit), np.int64)
    for bias in pending.biases:
        exact = bias.is_quantized and np.all(np.abs(bias.scale / unit - 1) < _SAME_SCALE)
        total += bias.integers if exact else np.rint(bias.real / unit).astype(np.int64)
    sums: IntArray = pending.weights.reshape(len(unit), -1).sum(axis=1)
    return total - x.zero_point * sums


def matrix_layer(pending: Matrix, x: Tensor, y: Tensor, name: str) -> Layer:
    """A Conv or Dense with requantization to `y`.  ValueError where the scales are out of reach."""
    low, high = _limits(pending.low, pending.high, y)
    ratios = [Fraction(x.scale) * Fraction(float(s)) / Fraction(y.scale) for s in pending.scales]
    multiplier, shift = fixed_points(ratios)
    return _matrix(pending, x, y, name, Requantize(_bias(pending, x), multiplier, shift, y.zero_point, low, high))


def raw_layer(pending: Matrix, x: Tensor, name: str, output: str) -> tuple[Layer, Tensor, npt.NDArray[np.float64]]:
    """A Conv or Dense whose output is its accumulator, exactly; its tensor; and the scale of each channel."""
    bias = _bias(pending, x)
    format = accumulator_format(pending.weights, (bias, bias), x.format)
    if not format.signed:
        format = IntFormat(format.bits + 1, signed=True)
    y = Tensor(output, pending.frame, format, 1.0, 0)
    one, zero = np.ones(len(bias), np.int64), np.zeros(len(bias), np.int64)
    layer = _matrix(pending, x, y, name, Requantize(bias, one, zero, 0, format.low, format.high))
    return layer, y, x.scale * pending.scales


def _matrix(pending: Matrix, x: Tensor, y: Tensor, name: str, requantize: Requantize) -> Layer:
    format, window = weight_format(pending.weights, pending.bits), pending.window
    if window is None:
        return Dense(name, (x.name,), y.name, pending.weights, format, x.format, requantize)
    return Conv(
        name,
        (x.name,),
        y.name,
        pending.weights,
        format,
        x.format,
        requantize,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=pending.groups,
    )


def average_layer(pending: Average, x: Tensor, y: Tensor, name: str) -> Layer:
    """An average pool with requantization to `y`."""
    window = pending.window
    count = window.kernel[0] * window.kernel[1]
    low, high = _limits(pending.low, pending.high, y)
    multiplier, shift = fixed_points([Fraction(x.scale) / (Fraction(y.scale) * count)] * pending.frame.channels)
    bias = np.full(pending.frame.channels, -x.zero_point * count, np.int64)
    requantize = Requantize(bias, multiplier, shift, y.zero_point, low, high)
    return AveragePool(
        name, (x.name,), y.name, x.format, requantize, window.kernel, strides=window.strides, pads=window.pads
    )


def table_layer(
    pending: Table, x: Tensor, y: Tensor, name: str, opsets: Mapping[str, int], graph_constants: Mapping[str, Quantity]
) -> Layer:
    """A table: dequantize every integer of the input format, apply the nodes as ONNX says (float32), quantize."""
    if x.format.bits > 8:
        raise ValueError(f"a table must have an input of at most 8 bits, not {x.format}")
    codes = np.arange(x.format.low, x.format.high + 1)
    values = ((codes - x.zero_point).astype(np.float32) * np.float32(x.scale)).astype(np.float32)
    for node in pending.functions:
        inputs = {n: graph_constants[n].real.astype(np.float32) for n in node.inputs if n in graph_constants}
        (dynamic,) = (n for n in node.inputs if n and n not in graph_constants)
        with np.errstate(all="ignore"):
            values = np.asarray(apply(node, opsets, {dynamic: values, **inputs}), np.float32).reshape(codes.shape)
    with np.errstate(all="ignore"):
        steps = np.rint(np.clip(np.nan_to_num(values / np.float32(y.scale)), -_FAR, _FAR))
    table = np.clip(steps.astype(np.int64) + y.zero_point, y.format.low, y.format.high)
    return Lookup(name, (x.name,), y.name, x.format, table)
