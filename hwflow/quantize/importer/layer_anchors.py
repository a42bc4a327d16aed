"""The anchors of products, averages, sums and of tensors as they are, and the integer layers that they become."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal, reason_of

from hwflow.layers import AveragePool, Conv, Dense, Interpolate, IntFormat, Layer, Lookup, Requantize, Tensor
from hwflow.layers.elementwise import Add, Multiply
from hwflow.layers.formats import BIPOLAR, MAX_BITS, IntArray
from hwflow.layers.interpolate import Between
from hwflow.layers.matrix import accumulator_format
from hwflow.layers.rescale import Rescale, Rounding, Thresholds
from hwflow.layers.window import Window
from hwflow.onnx.model import Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import (
    MAX_LEVELS,
    Accumulator,
    Affine,
    affine,
    common_ratio,
    multiplication,
    rescale,
    signed,
)
from hwflow.quantize.importer.segment_fit import MOST_TABLE_BITS, fitted
from hwflow.quantize.importer.states import LayerAnchor, LayerTask, Parameters, Rounded, Unrounded
from hwflow.quantize.importer.steps import Function, uniform, varies
from hwflow.quantize.importer.threshold_search import FAR, quantized, search

#: Products in the bias of a channel whose sums leave the hardware: with them the sums fit int32.
_MOST_RAW_BIAS = 1 << 29

#: Tables are for tensors of up to so many bits, and for more where no thresholds do it.
TABLE_BITS = 8

#: Functions of so many bits are tried on every integer.
_ALL_TRIED = 16


@dataclass(frozen=True)
class TensorAnchor(LayerAnchor):
    """A tensor of the layer graph as it is: functions of it are a table, or thresholds where it has many bits."""

    def node_of(self, rounded: Rounded) -> Node:
        return rounded.unrounded.steps[0].node if rounded.unrounded.steps else rounded.node

    def layer(self, task: LayerTask) -> Layer:
        (x,) = task.xs
        is_one = not varies(task.unrounded)
        if x.format.bits <= TABLE_BITS and is_one:
            return _table(task)
        if is_one and _has_many_levels(task):
            return _function(task)
        try:
            return Matrix.identity(self).layer(task)
        except ValueError as error:
            if x.format.bits <= TABLE_BITS:
                raise
            if is_one and not task.y.format.bipolar:
                return _function(task)
            why, _ = reason_of(error)
            raise Refusal(
                f"its input '{x.name}' has {x.format.bits} bits, and tables with constants for each channel are for at "
                f"most {TABLE_BITS}: {why}", f"quantize that input with {TABLE_BITS} bits or less"
            ) from None


@dataclass(frozen=True)
class Matrix(LayerAnchor):
    """A Conv (`window` and `groups` set, weights [cout, kh, kw, cin / groups]) or a dense layer ([cout, cin]).

    `weights` are integers without zero point, `scales` [cout] theirs; `bias` [cout] is added.
    """

    weights: IntArray
    scales: npt.NDArray[np.float64]
    window: Window | None
    groups: int
    bias: Quantity | None = None

    @staticmethod
    def identity(anchor: TensorAnchor) -> Matrix:
        """The tensor itself as a depthwise product with 1, for what only products can be followed by."""
        count = anchor.frame.channels
        return Matrix(anchor.node, anchor.key, anchor.frame, anchor.sources, np.ones((count, 1, 1, 1), np.int64),
                      np.ones(count), Window((1, 1)), count)

    def layer(self, task: LayerTask) -> Layer:
        """A Conv or Dense with its rescaling to `y`.  ValueError where the scales are out of reach."""
        (x,), y, p = task.xs, task.y, task.parameters
        sums = _sums(self.weights, x)
        start = matrix_form(self, x)
        form = _affine_form(task.unrounded, start, p)
        rescaling: Rescale
        if form is None:
            sign, rescaling = search(start, sums, Function(task.unrounded, task.opsets), p)
        else:
            sign = signed(form)
            turned = sums.turned(sign)
            rescaling = rescale(affine(form, turned, p), turned, y.format, task.stage)
        weights = self.weights * sign.reshape(-1, *[1] * (self.weights.ndim - 1))
        return _matrix(replace(self, weights=weights), x, y.name, task.name, rescaling)


@dataclass(frozen=True)
class Average(LayerAnchor):
    """An average pool.

    Where the windows at the edges count fewer elements than others, `rows` and `columns` give the elements of each row
    and column of windows, and what they count in the divisor.
    """

    window: Window
    rows: tuple[tuple[int, int], ...] = ()
    columns: tuple[tuple[int, int], ...] = ()

    def layer(self, task: LayerTask) -> Layer:
        """An average pool with its rescaling to `y`.

        Windows with as many elements and the same divisor are a class; a class has constants of its own.
        """
        (x,), window, channels = task.xs, self.window, self.frame.channels
        kinds = [list(dict.fromkeys(axis)) or [(size, size)] for axis, size in
                 zip((self.rows, self.columns), window.kernel, strict=True)]  # fmt: skip
        whole = [(a[0] * b[0], a[1] * b[1]) for a in kinds[0] for b in kinds[1]]
        sums = [_sums_of(x, elements, channels) for elements, _ in whole]
        starts = [Form.linear((Fraction(x.scale) / divisor,) * channels) for _, divisor in whole]
        rescaling = _rising(starts, sums, task)
        rows, columns = (
            tuple(kind.index(entry) for entry in axis) if len(whole) > 1 or any(window.pads) else ()
            for kind, axis in zip(kinds, (self.rows, self.columns), strict=True)
        )
        return AveragePool(
            task.name, (x.name,), task.y.name, x.format, rescaling, window.kernel, window.strides, window.pads,
            window.dilations, rows, columns)  # fmt: skip


@dataclass(frozen=True)
class Resized(LayerAnchor):
    """A tensor between whose rows and columns the elements of `frame` lie."""

    rows: Between
    columns: Between

    def layer(self, task: LayerTask) -> Layer:
        """An Interpolate, which divides where it rescales to `y`."""
        (x,), total, channels = task.xs, self.rows.total * self.columns.total, self.frame.channels
        start = Form.linear((Fraction(x.scale) / total,) * channels)
        rescaling = _rising([start], [_sums_of(x, total, channels)], task)
        return Interpolate(task.name, (x.name,), task.y.name, x.format, rescaling, *self.rows, *self.columns)


@dataclass(frozen=True)
class Sum(LayerAnchor):
    """factors[0] * a + factors[1] * b of two tensors; a 1x1xC or 1x1x1 frame counts for every pixel (and channel)."""

    factors: tuple[Fraction, Fraction]

    def layer(self, task: LayerTask) -> Layer:
        """An Add: both ratios over one power of two."""
        (a, b), p = task.xs, task.parameters
        factor, zero_point, (low, high) = _scalar(task.unrounded, p)
        ratios = [factor * f * Fraction(x.scale) / Fraction(p.scale)
                  for f, x in zip(self.factors, (a, b), strict=True)]
        pair, shift = common_ratio(ratios, (a, b), (low - zero_point, high - zero_point), p.rescale_bits)
        return Add(task.name, (a.name, b.name), task.y.name, pair, shift, zero_point, low, high)


@dataclass(frozen=True)
class Product(LayerAnchor):
    """factor * a * b of two tensors, which broadcast as those of a Sum."""

    factor: Fraction

    def layer(self, task: LayerTask) -> Layer:
        """A Multiply, whose ratio is the product of both scales over the output's."""
        (a, b), p = task.xs, task.parameters
        factor, zero_point, (low, high) = _scalar(task.unrounded, p)
        ratio = factor * self.factor * Fraction(a.scale) * Fraction(b.scale) / Fraction(p.scale)
        sign = 1 if ratio > 0 else -1
        whole = Affine((abs(ratio),), (Fraction(0),), (low,), (high,), zero_point, Rounding.HALF_EVEN, p.rescale_bits)
        rescaling = multiplication(whole, _products((a, b), sign))
        multiplier, shift = sign * int(rescaling.multiplier[0]), int(rescaling.shift[0])
        return Multiply(task.name, (a.name, b.name), task.y.name, multiplier, shift, zero_point, low, high)


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


def _affine_form(unrounded: Unrounded, start: Form, p: Parameters) -> Form | None:
    """The result of `form_of`; None, too, where a rounding inside the function does not meet the steps of the result.
    """
    form = form_of(unrounded, start)
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


def _matrix(anchor: Matrix, x: Tensor, output: str, name: str, rescaling: Rescale) -> Layer:
    format, window = weight_format(anchor.weights), anchor.window
    if window is None:
        return Dense(name, (x.name,), output, anchor.weights, format, x.format, rescaling)
    return Conv(
        name,
        (x.name,),
        output,
        anchor.weights,
        format,
        x.format,
        rescaling,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        groups=anchor.groups,
    )


def _sums_of(x: Tensor, elements: int, channels: int) -> Accumulator:
    """The smallest and the largest sum of this number of elements."""
    full = np.full(channels, elements, np.int64)
    return Accumulator(x.zero_point * full, x.format.low * full, x.format.high * full)


def _joined(sums: list[Accumulator]) -> Accumulator:
    """One class after the other."""
    return Accumulator(*(np.concatenate([getattr(part, end) for part in sums]) for end in ("zero", "low", "high")))


def _rising(starts: list[Form], sums: list[Accumulator], task: LayerTask) -> Rescale:
    """The rescaling of the classes of means that begin as `starts`.  ValueError where one does not rise with the mean.
    """
    forms = [_affine_form(task.unrounded, start, task.parameters) for start in starts]
    signs, rescaling = _searched(starts, sums, task) if None in forms else _scaled(forms, sums, task)
    if rescaling is None or not all(np.all(sign > 0) for sign in signs):
        raise ValueError("an average must not be negated or made constant before its QuantizeLinear")
    return rescaling


def _scaled(
    forms: list[Form | None], sums: list[Accumulator], task: LayerTask
) -> tuple[list[IntArray], Rescale | None]:
    """The signs of the classes' forms, and where all are positive the rescaling of all classes."""
    known = [form for form in forms if form is not None]
    signs = [signed(form) for form in known]
    if not all(np.all(sign > 0) for sign in signs):
        return signs, None
    parts = [affine(form, part_sums, task.parameters) for form, part_sums in zip(known, sums, strict=True)]
    ratio, bias, low, high = (
        tuple(chain.from_iterable(getattr(part, field) for part in parts)) for field in ("ratio", "bias", "low", "high")
    )
    outward = None
    if any(part.outward for part in parts):
        outward = tuple(chain.from_iterable(part.outward or (Fraction(0),) * len(part.ratio) for part in parts))
    whole = replace(parts[0], ratio=ratio, bias=bias, low=low, high=high, outward=outward)
    return signs, rescale(whole, _joined(sums), task.y.format, task.stage)


def _searched(
    starts: list[Form], sums: list[Accumulator], task: LayerTask
) -> tuple[list[IntArray], Thresholds]:
    """The signs and the thresholds of all classes."""
    function = Function(task.unrounded, task.opsets)
    results = [search(start, part_sums, function, task.parameters)
               for start, part_sums in zip(starts, sums, strict=True)]
    return [sign for sign, _ in results], joined_thresholds([thresholds for _, thresholds in results], sums)


def joined_thresholds(thresholds: Sequence[Thresholds], sums: Sequence[Accumulator]) -> Thresholds:
    """The thresholds of all classes, with the same levels."""
    low, high = min(part.low for part in thresholds), max(part.high for part in thresholds)
    if high - low > MAX_LEVELS:
        raise ValueError(f"a function after a layer must have at most {MAX_LEVELS + 1} levels, not {high - low + 1}")
    rows = []
    for part, part_sums in zip(thresholds, sums, strict=True):
        always = np.repeat(part_sums.low[:, None], part.low - low, axis=1)
        never = np.repeat(part_sums.high[:, None] + 1, high - part.high, axis=1)
        rows.append(np.concatenate([always, part.values, never], axis=1))
    return Thresholds(np.concatenate(rows), low)


def _table(task: LayerTask) -> Layer:
    """A table: dequantize every integer of the input format, apply the nodes as ONNX says (float32), quantize."""
    (x,) = task.xs
    return Lookup(task.name, (x.name,), task.y.name, x.format, _results(task))


def _results(task: LayerTask) -> IntArray:
    """The function of every integer of the input."""
    (x,) = task.xs
    codes = np.arange(x.format.low, x.format.high + 1, x.format.step)
    values = ((codes - x.zero_point).astype(np.float32) * np.float32(x.scale)).astype(np.float32)
    return quantized(Function(uniform(task.unrounded), task.opsets)(values[:, None])[:, 0], task.parameters)


def _has_many_levels(task: LayerTask) -> bool:
    """Whether no multiplication and no thresholds make the function of a tensor, which is one for all channels."""
    (x,), p = task.xs, task.parameters
    start = Form.linear((Fraction(x.scale),))
    if x.format.bits > _ALL_TRIED or _affine_form(uniform(task.unrounded), start, p) is not None:
        return False
    values = _results(task)
    return int(values.max()) - int(values.min()) > MAX_LEVELS


def _function(task: LayerTask) -> Layer:
    """A table, or where it would be too large straight segments."""
    return _table(task) if task.xs[0].format.bits <= MOST_TABLE_BITS else _segments(task)


def _segments(task: LayerTask) -> Layer:
    """Straight segments of the same function, whose table would be too large."""
    (x,), p = task.xs, task.parameters
    function = Function(uniform(task.unrounded), task.opsets)

    def steps(codes: IntArray) -> npt.NDArray[np.float64]:
        values = (codes - x.zero_point).astype(np.float32) * np.float32(x.scale)
        made = function(values.reshape(-1, 1)).reshape(codes.shape)
        with np.errstate(all="ignore"):
            return np.nan_to_num(made / p.scale, posinf=FAR, neginf=-FAR) + p.zero_point

    return fitted(task.name, x, task.y, steps, (p.low, p.high))


def behind_sums(
    task: LayerTask, layer_name: Callable[[str], str], tensor_name: Callable[[str], str]
) -> list[tuple[Layer, Tensor]] | None:
    """The sums of a product or average as they are, and the function behind them of these; each with what it makes.

    None where the function is not one for all channels, or the sums do not fit the integers of a tensor.
    """
    anchor, p = task.unrounded.anchor, task.parameters
    if not isinstance(anchor, Matrix | Average) or varies(task.unrounded) or p.format.bipolar:
        return None
    (x,), name = task.xs, layer_name(f"{task.name}.sums")
    if isinstance(anchor, Average):
        kinds = {(a[0] * b[0], a[1] * b[1]) for a in anchor.rows or ((anchor.window.kernel[0],) * 2,)
                 for b in anchor.columns or ((anchor.window.kernel[1],) * 2,)}
        (elements, divisor), *others = kinds
        sums, form = _sums_of(x, elements, anchor.frame.channels), Form.linear((Fraction(x.scale) / divisor,))
    else:
        sums, form, others = _sums(anchor.weights, x), matrix_form(anchor, x), []
    if others or len(set(form.unit)) > 1 or any(form.offset):
        return None
    bias = form.whole - sums.zero
    format = IntFormat.covering(min(0, int((sums.low + bias).min())), int((sums.high + bias).max()))
    if format.bits > MAX_BITS:
        return None
    y = Tensor(tensor_name(f"{task.y.name}.sums"), anchor.frame, format, float(form.unit[0]), 0)
    one, zero = np.ones(len(bias), np.int64), np.zeros(len(bias), np.int64)
    as_they_are = Requantize(bias, one, zero, 0, format.low, format.high)
    if isinstance(anchor, Average):
        window = anchor.window
        layer: Layer = AveragePool(name, (x.name,), y.name, x.format, as_they_are, window.kernel, window.strides,
                                   window.pads, window.dilations)
    else:
        layer = _matrix(anchor, x, y.name, name, as_they_are)
    return [(layer, y), (_function(replace(task, xs=(y,))), task.y)]


def _products(xs: tuple[Tensor, Tensor], sign: int) -> Accumulator:
    """All products of two elements without their zero points, with this sign: one channel."""
    a, b = ((x.format.low - x.zero_point, x.format.high - x.zero_point) for x in xs)
    ends = [sign * one * other for one in a for other in b]
    return Accumulator(np.zeros(1, np.int64), np.array([min(0, *ends)]), np.array([max(0, *ends)]))


def form_behind(unrounded: Unrounded, p: Parameters, channels: int = 1) -> Form:
    """The function from an anchor up to its QuantizeLinear, an entry for each channel; all have the same limits.

    Refusal where it is something else, and for one symmetric bit.
    """
    if p.format.bipolar:
        raise Refusal(
            f"the result of {unrounded.anchor.node.label} must have more than one symmetric bit, because only products "
            "are compared with thresholds", "take 2 bits, or an unsigned one"
        )
    form = form_of(unrounded, Form.linear((Fraction(1),) * channels))
    if form is None or form.rounding is not None or form.outward or len(set(zip(form.low, form.high, strict=True))) > 1:
        raise Refusal(
            f"what follows {unrounded.anchor.node.label} must be constants, Relu and Clip up to its QuantizeLinear",
            "quantize its result first"
        )
    return form


def _scalar(unrounded: Unrounded, p: Parameters) -> tuple[Fraction, int, tuple[int, int]]:
    """The function behind a sum or product of two tensors: a factor, the zero point with a constant in it, and the
    limits.
    """
    form = form_behind(unrounded, p)
    if form.unit[0] == 0:
        raise ValueError(f"{unrounded.anchor.node.label} must not be multiplied by 0")
    sums = Accumulator(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
    a = affine(form, sums, p)
    steps = form.offset[0] / Fraction(p.scale)
    if steps.denominator != 1:
        raise ValueError(
            f"a constant added to {unrounded.anchor.node.label} must be a multiple of the scale of the result, "
            f"{p.scale}"
        )
    return form.unit[0], p.zero_point + int(steps), (a.low[0], a.high[0])
