"""From a pending result and the parameters of its QuantizeLinear to an integer layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import AveragePool, Conv, Dense, IntFormat, Layer, Lookup, Requantize, Tensor
from hwflow.layers.add import Add
from hwflow.layers.formats import BIPOLAR, IntArray
from hwflow.layers.matrix import accumulator_format
from hwflow.layers.multiply import Multiply
from hwflow.layers.rescale import Rescale, Rounding, Thresholds
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import (
    MAX_LEVELS,
    Accumulator,
    Affine,
    affine,
    multiplication,
    rescale,
    signed,
)
from hwflow.quantize.importer.common_ratio import common_ratio
from hwflow.quantize.importer.states import Average, Matrix, Parameters, Pending, Product, Sum
from hwflow.quantize.importer.steps import Function, uniform
from hwflow.quantize.importer.threshold_search import quantized, search
from hwflow.quantize.settings import OutputStage

#: Products in the bias of a channel whose sums leave the hardware: with them the sums fit int32.
_MOST_RAW_BIAS = 1 << 29


def weight_format(weights: IntArray) -> IntFormat:
    """The narrowest signed format that holds the weights; bipolar where all are -1 or 1."""
    if BIPOLAR.contains(weights):
        return BIPOLAR
    unsigned_or_signed = IntFormat.covering(min(int(weights.min()), 0), max(int(weights.max()), 0))
    return IntFormat(unsigned_or_signed.bits + (not unsigned_or_signed.signed and bool(weights.any())), signed=True)


def matrix_form(anchor: Matrix, x: Tensor) -> Form:
    """The sums of products in reals, bias included."""
    form = Form.linear(tuple(Fraction(x.scale) * Fraction(float(s)) for s in anchor.scales))
    if anchor.bias is None:
        return form
    biased = form.plus(anchor.bias)
    assert biased is not None, "a form without rounding takes a bias"
    return biased


def matrix_layer(
    pending: Pending, anchor: Matrix, x: Tensor, y: Tensor, name: str, p: Parameters, stage: OutputStage,
    opsets: Mapping[str, int],
) -> Layer:  # fmt: skip
    """A Conv or Dense with its rescaling to `y`.  ValueError where the scales are out of reach."""
    sums = _sums(anchor.weights, x)
    start = matrix_form(anchor, x)
    form = _affine_form(pending, start, p)
    made: Rescale
    if form is None:
        sign, made = search(start, sums, Function(pending, opsets), p)
    else:
        sign = signed(form)
        turned = sums.turned(sign)
        made = rescale(affine(form, turned, p), turned, y.format, stage)
    weights = anchor.weights * sign.reshape(-1, *[1] * (anchor.weights.ndim - 1))
    return _matrix(replace(anchor, weights=weights), x, y.name, name, made)


def _affine_form(pending: Pending, start: Form, p: Parameters) -> Form | None:
    """As `form_of`; None, too, where a rounding inside the function does not meet the steps of the result."""
    form = form_of(pending, start)
    return None if form is not None and form.rounding is not None and p.scale != 1 else form


def _sums(weights: IntArray, x: Tensor) -> Accumulator:
    """The ends of the sums of products with the raw integers of `x`."""
    flat = weights.reshape(len(weights), -1)
    at_ends = np.stack([flat * x.format.low, flat * x.format.high])
    return Accumulator(
        x.zero_point * flat.sum(axis=1), at_ends.min(axis=0).sum(axis=1), at_ends.max(axis=0).sum(axis=1)
    )


def raw_layer(anchor: Matrix, x: Tensor, name: str, output: str) -> tuple[Layer, Tensor, npt.NDArray[np.float64]]:
    """A Conv or Dense whose output is its accumulator, exactly; its tensor; and the scale of each channel."""
    form, weights = _with_room(matrix_form(anchor, x), anchor.weights)
    anchor = replace(anchor, weights=weights)
    bias = np.array(
        [int(w) + round(o / u) for w, o, u in zip(form.whole, form.offset, form.unit, strict=True)], np.int64
    )
    bias = bias - _sums(anchor.weights, x).zero
    format = accumulator_format(anchor.weights, (bias, bias), x.format)
    if not format.signed:
        format = IntFormat(format.bits + 1, signed=True)
    y = Tensor(output, anchor.frame, format, 1.0, 0)
    one, zero = np.ones(len(bias), np.int64), np.zeros(len(bias), np.int64)
    layer = _matrix(anchor, x, output, name, Requantize(bias, one, zero, 0, format.low, format.high))
    return layer, y, np.array([float(unit) for unit in form.unit])


def _with_room(form: Form, weights: IntArray) -> tuple[Form, IntArray]:
    """`form` and `weights` with larger products in channels whose bias would be too many of them for an accumulator.

    The weights of such a channel, which are nothing beside its bias, are 0 then, or nearly.
    """
    units, wholes, offsets, rows = list(form.unit), form.whole.copy(), list(form.offset), weights.copy()
    for channel, unit in enumerate(form.unit):
        bias = unit * int(wholes[channel]) + offsets[channel]
        if abs(bias) > abs(unit) * _MOST_RAW_BIAS:
            units[channel] = Fraction(np.ldexp(1.0, math.frexp(float(bias))[1]).item()) / _MOST_RAW_BIAS
            wholes[channel], offsets[channel] = 0, bias
            rows[channel] = np.rint(rows[channel] * float(unit / units[channel]))
    return replace(form, unit=tuple(units), whole=wholes, offset=tuple(offsets)), rows


def _matrix(anchor: Matrix, x: Tensor, output: str, name: str, made: Rescale) -> Layer:
    format, window = weight_format(anchor.weights), anchor.window
    if window is None:
        return Dense(name, (x.name,), output, anchor.weights, format, x.format, made)
    return Conv(
        name,
        (x.name,),
        output,
        anchor.weights,
        format,
        x.format,
        made,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=anchor.groups,
    )


def average_layer(
    pending: Pending, anchor: Average, x: Tensor, y: Tensor, name: str, p: Parameters, stage: OutputStage,
    opsets: Mapping[str, int],
) -> Layer:  # fmt: skip
    """An average pool with its rescaling to `y`.

    Windows with as many elements and the same divisor are a class; a class has constants of its own.
    """
    window, channels = anchor.window, anchor.frame.channels
    kinds = [list(dict.fromkeys(axis)) or [(size, size)] for axis, size in
             zip((anchor.rows, anchor.columns), window.kernel, strict=True)]  # fmt: skip
    whole = [(a[0] * b[0], a[1] * b[1]) for a in kinds[0] for b in kinds[1]]
    sums = [_sums_of(x, elements, channels) for elements, _ in whole]
    starts = [Form.linear((Fraction(x.scale) / divisor,) * channels) for _, divisor in whole]
    forms = [_affine_form(pending, start, p) for start in starts]
    signs, made = _searched(starts, sums, Function(pending, opsets), p) if None in forms else _scaled(
        forms, sums, y, p, stage)  # fmt: skip
    if made is None or not all(np.all(sign > 0) for sign in signs):
        raise ValueError("an average must not be negated or made constant before its QuantizeLinear")
    rows, columns = (
        tuple(kind.index(entry) for entry in axis) if len(whole) > 1 or any(window.pads) else ()
        for kind, axis in zip(kinds, (anchor.rows, anchor.columns), strict=True)
    )
    return AveragePool(
        name, (x.name,), y.name, x.format, made, window.kernel, window.strides, window.pads, window.dilations,
        rows, columns)  # fmt: skip


def _sums_of(x: Tensor, elements: int, channels: int) -> Accumulator:
    """The smallest and the largest sum of this number of elements."""
    full = np.full(channels, elements, np.int64)
    return Accumulator(x.zero_point * full, x.format.low * full, x.format.high * full)


def _joined(sums: list[Accumulator]) -> Accumulator:
    """One class after the other."""
    return Accumulator(*(np.concatenate([getattr(each, end) for each in sums]) for end in ("zero", "low", "high")))


def _scaled(
    forms: list[Form | None], sums: list[Accumulator], y: Tensor, p: Parameters, stage: OutputStage
) -> tuple[list[IntArray], Rescale | None]:
    """The signs of the classes' forms, and where all are positive the rescaling of all classes."""
    known = [form for form in forms if form is not None]
    signs = [signed(form) for form in known]
    if not all(np.all(sign > 0) for sign in signs):
        return signs, None
    parts = [affine(form, each, p) for form, each in zip(known, sums, strict=True)]
    ratio, bias, low, high = (
        tuple(chain.from_iterable(getattr(part, field) for part in parts)) for field in ("ratio", "bias", "low", "high")
    )
    whole = replace(parts[0], ratio=ratio, bias=bias, low=low, high=high)
    return signs, rescale(whole, _joined(sums), y.format, stage)


def _searched(
    starts: list[Form], sums: list[Accumulator], function: Function, p: Parameters
) -> tuple[list[IntArray], Thresholds]:
    """The signs and the thresholds of all classes."""
    found = [search(start, each, function, p) for start, each in zip(starts, sums, strict=True)]
    return [sign for sign, _ in found], joined_thresholds([made for _, made in found], sums)


def joined_thresholds(found: Sequence[Thresholds], sums: Sequence[Accumulator]) -> Thresholds:
    """The thresholds of all classes, with the same levels."""
    low, high = min(made.low for made in found), max(made.high for made in found)
    if high - low > MAX_LEVELS:
        raise ValueError(f"a function after a layer must have at most {MAX_LEVELS + 1} levels, not {high - low + 1}")
    rows = []
    for made, each in zip(found, sums, strict=True):
        always = np.repeat(each.low[:, None], made.low - low, axis=1)
        never = np.repeat(each.high[:, None] + 1, high - made.high, axis=1)
        rows.append(np.concatenate([always, made.values, never], axis=1))
    return Thresholds(np.concatenate(rows), low)


def table_layer(pending: Pending, x: Tensor, y: Tensor, name: str, p: Parameters, opsets: Mapping[str, int]) -> Layer:
    """A table: dequantize every integer of the input format, apply the nodes as ONNX says (float32), quantize."""
    codes = np.arange(x.format.low, x.format.high + 1, x.format.step)
    values = ((codes - x.zero_point).astype(np.float32) * np.float32(x.scale)).astype(np.float32)
    table = quantized(Function(uniform(pending), opsets)(values[:, None])[:, 0], p)
    return Lookup(name, (x.name,), y.name, x.format, table)


def sum_layer(pending: Pending, anchor: Sum, xs: tuple[Tensor, Tensor], y: Tensor, name: str, p: Parameters) -> Layer:
    """An Add: both ratios over one power of two."""
    factor, zero_point, (low, high) = _scalar(pending, p)
    ratios = [factor * f * Fraction(x.scale) / Fraction(p.scale) for f, x in zip(anchor.factors, xs, strict=True)]
    pair, shift = common_ratio(ratios, xs, (low - zero_point, high - zero_point), p.rescale_bits)
    names = (xs[0].name, xs[1].name)
    return Add(name, names, y.name, pair, shift, zero_point, low, high)


def product_layer(
    pending: Pending, anchor: Product, xs: tuple[Tensor, Tensor], y: Tensor, name: str, p: Parameters
) -> Layer:
    """A Multiply, whose ratio is the product of both scales over the output's."""
    factor, zero_point, (low, high) = _scalar(pending, p)
    ratio = factor * anchor.factor * Fraction(xs[0].scale) * Fraction(xs[1].scale) / Fraction(p.scale)
    sign = 1 if ratio > 0 else -1
    whole = Affine((abs(ratio),), (Fraction(0),), (low,), (high,), zero_point, Rounding.HALF_EVEN, p.rescale_bits)
    made = multiplication(whole, _products(xs, sign))
    multiplier, shift = sign * int(made.multiplier[0]), int(made.shift[0])
    return Multiply(name, (xs[0].name, xs[1].name), y.name, multiplier, shift, zero_point, low, high)


def _products(xs: tuple[Tensor, Tensor], sign: int) -> Accumulator:
    """All products of two elements without their zero points, with this sign: one channel."""
    a, b = ((x.format.low - x.zero_point, x.format.high - x.zero_point) for x in xs)
    ends = [sign * one * other for one in a for other in b]
    return Accumulator(np.zeros(1, np.int64), np.array([min(0, *ends)]), np.array([max(0, *ends)]))


def _scalar(pending: Pending, p: Parameters) -> tuple[Fraction, int, tuple[int, int]]:
    """What follows a sum or product of two tensors: a factor, the zero point with a constant in it, and the limits."""
    if p.format.bipolar:
        raise Refusal(
            f"the result of {pending.anchor.node.label} must have more than one symmetric bit, because only products "
            "are compared with thresholds", "take 2 bits, or an unsigned one"
        )
    form = form_of(pending, Form.linear((Fraction(1),)))
    if form is None or form.rounding is not None:
        raise Refusal(
            f"what follows {pending.anchor.node.label} must be constants, Relu and Clip up to its QuantizeLinear",
            "quantize its result first"
        )
    if form.unit[0] == 0:
        raise ValueError(f"{pending.anchor.node.label} must not be multiplied by 0")
    sums = Accumulator(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
    a = affine(form, sums, p)
    steps = form.offset[0] / Fraction(p.scale)
    if steps.denominator != 1:
        raise ValueError(
            f"a constant added to {pending.anchor.node.label} must be a multiple of the scale of the result, {p.scale}"
        )
    return form.unit[0], p.zero_point + int(steps), (a.low[0], a.high[0])
