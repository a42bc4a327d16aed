"""From the form of an accumulator and the format of its result to a rescaling: by multiplication, or by thresholds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers import IntFormat, Requantize
from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import BLOCK_BITS, Rescale, Rounding, Thresholds, largest_sum
from hwflow.quantize.importer.affine_forms import Bound, Form
from hwflow.quantize.importer.exact_edges import Accumulator, Affine, edges, fewest_bits, within
from hwflow.quantize.importer.states import Parameters
from hwflow.quantize.scale import fixed_points, widest_multiplier
from hwflow.quantize.settings import OutputStage
from hwflow.stages.rescalers import price, rescale_cost

#: A threshold unit has at most this many thresholds for each channel.
MAX_LEVELS = 255

#: With more levels than this, thresholds are not considered unless asked for.
_FEW_LEVELS = 15

#: The rounding of a bias may move a result by this part of a step at most.
_BIAS_ERROR = Fraction(1, 2048)

_LARGEST_BIAS = 1 << 40

#: A bias that no accumulator of int32 comes near.
_FAR_BIAS = 1 << 32

_HALF = Fraction(1, 2)

#: ((accumulator << fraction) + bias) * multiplier stays inside int64 with this many bits of accumulator and fraction.
_SUM_BITS = 44


def signed(form: Form) -> IntArray:
    """-1, 0 or 1 per channel: what the weights must be multiplied with for every unit to be positive."""
    return np.array([(unit > 0) - (unit < 0) for unit in form.unit], np.int64)


def affine(form: Form, accumulator: Accumulator, p: Parameters) -> Affine:
    """`form` in steps of the result.  `accumulator` is turned by `signed(form)` already.

    ValueError where a bias is far outside of sums that still decide about elements.
    """
    scale, zero_point = Fraction(p.scale), p.zero_point + form.integer_offset
    assert form.rounding is None or scale == 1, "a rounding inside the function is one of the result"
    ratios, biases = [], []
    rounding = form.rounding or Rounding.HALF_EVEN
    ends = [_ends(low, high, p) for low, high in zip(form.low, form.high, strict=True)]
    channels = zip(form.unit, form.whole, form.offset, accumulator.zero, accumulator.low, accumulator.high, strict=True)
    for (unit, whole, offset, zero, least, most), (low, high) in zip(channels, ends, strict=True):
        sign, sums = (unit > 0) - (unit < 0), (int(least), int(most))
        ratio = abs(unit) / scale if unit else Fraction(1)
        constant = offset / abs(unit) if unit else _near(offset / scale, zero_point, p)
        bias = Fraction(sign * int(whole) - int(zero)) + constant if unit else constant
        bias = max(bias, Fraction(math.floor((low - zero_point - 1) / ratio) - sums[1]))  # all are the lowest element
        bias = min(bias, Fraction(math.ceil((high - zero_point + 1) / ratio) - sums[0]))
        if abs(bias) >= _FAR_BIAS:
            ratio, bias = _beside(ratio, bias, sums, (zero_point, rounding), p) or (ratio, bias)
        if abs(bias) >= _LARGEST_BIAS:
            raise ValueError(f"a bias must be below 2**{_LARGEST_BIAS.bit_length() - 1} products, not {float(bias)}")
        ratios.append(ratio)
        biases.append(bias)
    lows, highs = tuple(low for low, _ in ends), tuple(high for _, high in ends)
    return Affine(tuple(ratios), tuple(biases), lows, highs, zero_point, rounding, p.rescale_bits)


def _beside(
    ratio: Fraction, bias: Fraction, accumulator: tuple[int, int], parts: tuple[int, Rounding], p: Parameters
) -> tuple[Fraction, Fraction] | None:
    """Ratio and bias of a channel whose sums are next to nothing beside its bias, as those of a channel whose weights
    training has made next to 0: they give the elements of `ratio` and `bias`, and numbers have room for them.

    All sums together, from one end of `accumulator` to the other, are less than a step, so there is one sum at most at
    which the element changes; that one stays where it is.  None where they are more.
    """
    (low, high), (zero_point, rounding) = accumulator, parts
    whole = Affine((ratio,), (bias,), (p.low,), (p.high,), zero_point, rounding)
    near = min(max(math.floor(ratio * (low + bias)) + zero_point, p.low), p.high)
    levels = range(near - 1, near + 4)
    found = dict(zip(levels, edges(whole, 0, levels), strict=True))
    inside = [level for level, edge in found.items() if low < edge <= high]
    reach = 1 << max(1, abs(low), abs(high)).bit_length()
    if len(inside) > 1:
        return None
    level = inside[0] if inside else max(level for level, edge in found.items() if edge <= low)
    at = Fraction(found[level]) - _HALF if inside else Fraction(-4 * reach)
    start = level - zero_point + {Rounding.FLOOR: Fraction(0), Rounding.CEIL: Fraction(-1)}.get(rounding, -_HALF)
    return Fraction(1, 8 * reach), start * 8 * reach - at


def _near(constant: Fraction, zero_point: int, p: Parameters) -> Fraction:
    """A constant in steps; what saturates anyway becomes a small number."""
    return min(max(constant, Fraction(p.low - zero_point - 1)), Fraction(p.high - zero_point + 1))


def _ends(low: Bound, high: Bound, p: Parameters) -> tuple[int, int]:
    """Ends of the clamp.  Rounding is monotonous, so limiting the integers equals limiting the reals before."""

    def end(value: Bound) -> int:
        if isinstance(value, float) and math.isinf(value):
            return p.high if value > 0 else p.low
        return min(max(round(Fraction(value) / Fraction(p.scale)) + p.zero_point, p.low), p.high)

    return end(low), end(high)


def rescale(a: Affine, accumulator: Accumulator, output: IntFormat, stage: OutputStage) -> Rescale:
    """The rescaling that does `a`, to integers of format `output`.

    Both kinds are made where the levels are few or `stage` asks for thresholds.  Where a multiplication gives the same
    result for every possible sum, the cheaper one is taken; else thresholds, which are exact by definition.
    ValueError where the scales are out of reach, or the levels are too many.
    """
    levels = max(a.high) - min(a.low)
    same_ends = len(set(a.low)) == 1 and len(set(a.high)) == 1
    if stage is OutputStage.MULTIPLY and not same_ends:
        raise Refusal("its limits differ from channel to channel, which a multiplication cannot do", "use thresholds")
    many = stage is OutputStage.AUTO and levels > _FEW_LEVELS and same_ends
    if stage is OutputStage.MULTIPLY or many or levels == 0:
        return multiplication(a, accumulator)
    exact = thresholds(a, accumulator)
    if stage is OutputStage.THRESHOLDS or not same_ends:
        return exact
    try:
        made = multiplication(a, accumulator)
    except ValueError:  # scales out of reach of a multiplier
        return exact
    if _meaning(made, accumulator) != exact:
        return exact
    return made if _price(made, accumulator, output) <= _price(exact, accumulator, output) else exact


def multiplication(a: Affine, accumulator: Accumulator) -> Requantize:
    """The nearest multipliers of `a.rescale_bits` bits, or of as few as make the elements of `a`; the nearest biases.

    They have no more bits than int64 has room for in their products.
    """
    widest = max(accumulator.format.bits, *(math.floor(abs(b)).bit_length() + 1 for b in a.bias))
    fraction = _fraction_bits(a, max(0, _SUM_BITS - widest))
    bias = np.array([round(b * (1 << fraction)) for b in a.bias], np.int64)
    ratios = [ratio / (1 << fraction) for ratio in a.ratio]
    most = widest_multiplier(largest_sum(accumulator.format, bias, fraction))

    def made(bits: int, channels: IntArray) -> Requantize:
        multiplier, shift = fixed_points([ratios[c] for c in channels], bits)
        return Requantize(bias[channels], multiplier, shift, a.zero_point, a.low[0], a.high[0], fraction, a.rounding)

    channels = np.arange(len(ratios))
    if a.rescale_bits is not None or most == BLOCK_BITS:
        return made(min(a.rescale_bits or BLOCK_BITS, most), channels)
    return fewest_bits(a, accumulator, made, range(BLOCK_BITS, most + 1))


def _fraction_bits(a: Affine, most: int) -> int:
    """The fewest fractional bits of the biases that keep the error of their rounding small."""
    for fraction in range(most):
        unit = 1 << fraction
        errors = (abs(Fraction(round(b * unit), unit) - b) * r for b, r in zip(a.bias, a.ratio, strict=True) if b % 1)
        if all(error < _BIAS_ERROR for error in errors):
            return fraction
    return most


def thresholds(a: Affine, accumulator: Accumulator) -> Thresholds:
    """The smallest sum of each level, exactly, ties included."""
    low, high = min(a.low), max(a.high)
    if high - low > MAX_LEVELS:
        raise ValueError(f"thresholds are for at most {MAX_LEVELS + 1} levels, not {high - low + 1}")
    rows = [edges(a, channel, range(low + 1, high + 1)) for channel in range(len(a.ratio))]
    return within(rows, low, accumulator)


def _meaning(made: Requantize, accumulator: Accumulator) -> Thresholds:
    """The thresholds of a multiplication, exactly."""
    one = 1 << made.fraction
    ratios = [Fraction(int(m) * one, 1 << int(k)) for m, k in zip(made.multiplier, made.shift, strict=True)]
    low, high = (made.low,) * len(ratios), (made.high,) * len(ratios)
    biases = tuple(Fraction(int(b), one) for b in made.bias)
    if all(ratios):
        exact = Affine(tuple(ratios), biases, low, high, made.zero_point, made.rounding)
        return thresholds(exact, accumulator)
    rows = [[-math.inf if level <= made.zero_point else math.inf for level in range(made.low + 1, made.high + 1)]]
    return within(rows * len(ratios), made.low, accumulator)


def _price(made: Rescale, accumulator: Accumulator, output: IntFormat) -> float:
    """What a rescaling costs in hardware, in logic cells of a lane."""
    return price(rescale_cost(made, accumulator.format, output))
