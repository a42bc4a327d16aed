"""From the form of an accumulator and the format of its result to a rescaling: by multiplication, or by thresholds.

`edges` are the exact sums at which the elements of an affine function change, `fewest_bits` finds multipliers that meet
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers import IntFormat, Requantize
from hwflow.layers.elementwise import significant_bits
from hwflow.layers.formats import IntArray, Tensor
from hwflow.layers.rescale import (
    BLOCK_BITS,
    MAX_SHIFT,
    MULTIPLIER_BITS,
    Rescale,
    Rounding,
    Thresholds,
    largest_sum,
    shift_right,
)
from hwflow.quantize.importer.affine_forms import Bound, Form
from hwflow.quantize.importer.states import Parameters
from hwflow.quantize.scale import fixed_point, fixed_points, widest_multiplier
from hwflow.quantize.settings import DEFAULT_RESCALE_BITS, OutputStage
from hwflow.stages.rescalers import price, rescale_cost

#: Of more levels not every sum is looked at.
_MOST_LEVELS = 1 << 12


@dataclass(frozen=True)
class Accumulator:
    """The sums of a layer, per channel: from `low` to `high`; `zero` is what the input's zero point adds to them."""

    zero: IntArray
    low: IntArray
    high: IntArray

    @property
    def format(self) -> IntFormat:
        """The narrowest one of all sums."""
        return IntFormat.covering(min(int(self.low.min()), 0), max(int(self.high.max()), 0))

    def turned(self, sign: IntArray) -> Accumulator:
        """With the sums of some channels negated (sign -1) or all zero (sign 0)."""
        ends = np.sort(np.stack([self.low * sign, self.high * sign]), axis=0)
        return Accumulator(self.zero * sign, ends[0], ends[1])


@dataclass(frozen=True)
class Affine:
    """clamp(round(ratio * (a + bias)) + zero_point, low, high) per channel, exactly; ratios are positive.

    `rescale_bits` is what a multiplication is made with (`LayerSettings.rescale_bits`).  With `outward`, numbers move
    so far away from zero, less than 1/2, before they are rounded to the nearest integer.
    """

    ratio: tuple[Fraction, ...]
    bias: tuple[Fraction, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    zero_point: int
    rounding: Rounding
    rescale_bits: int | None = DEFAULT_RESCALE_BITS
    outward: tuple[Fraction, ...] | None = None


def edges(a: Affine, channel: int, levels: range) -> list[Bound]:
    """The smallest sum that gives each of `levels` or more, exactly, ties included."""
    ratio, bias = a.ratio[channel], a.bias[channel]
    # ratio * (sum + bias) >= k + offset / 2, over one denominator: integers of any size, with no fraction to reduce
    away = a.outward[channel] if a.outward is not None else Fraction(0)
    unit, step = (2 * ratio.numerator * bias.denominator * away.denominator, ratio.denominator * bias.denominator)
    start = 2 * ratio.numerator * bias.numerator * away.denominator
    moved, step = 2 * step * away.numerator, step * away.denominator
    offset = {Rounding.FLOOR: 0, Rounding.CEIL: -2}.get(a.rounding, -1)
    sums: list[Bound] = []
    for level in levels:
        if not a.low[channel] < level <= a.high[channel]:
            sums.append(-math.inf if level <= a.low[channel] else math.inf)
            continue
        k = level - a.zero_point
        inclusive = k % 2 == 0 if a.rounding is Rounding.HALF_EVEN else a.rounding in (Rounding.HALF_UP, Rounding.FLOOR)
        # the middle between two elements is nearer to zero by as much as numbers move away from it
        number = (2 * k + offset) * step - start + (-moved if k > 0 else moved)
        sums.append(-(-number // unit) if inclusive else number // unit + 1)
    return sums


def within(rows: Sequence[Sequence[Bound]], low: int, accumulator: Accumulator) -> Thresholds:
    """Thresholds inside the range of the sums: what is always reached is the lowest, what never is, one too many."""
    ends = zip(accumulator.low.tolist(), accumulator.high.tolist(), strict=True)
    values = [
        [int(min(max(value, bottom), top + 1)) for value in row] for row, (bottom, top) in zip(rows, ends, strict=True)
    ]
    return Thresholds(np.array(values, np.int64).reshape(len(values), -1), low)


def fewest_bits(
    a: Affine, accumulator: Accumulator, with_bits: Callable[[int, IntArray], Requantize], widths: range
) -> Requantize:
    """Per channel the multiplier of the fewest bits that gives the element of `a` for every sum that there can be.

    Where none of `widths` does, the one that is wrong at the fewest levels.  `made(bits, channels)` is the rescaling of
    these channels with multipliers of so many bits.
    """
    low, high = a.low[0], a.high[0]
    channels = np.arange(len(a.ratio))
    if not 0 < high - low <= _MOST_LEVELS:
        return with_bits(widths[-1], channels)
    levels = range(low + 1, high + 1)
    ends = within([edges(a, int(channel), levels) for channel in channels], low, accumulator).values
    best = with_bits(widths[0], channels)
    wrong = _wrong_levels(best, ends, accumulator, channels)
    multiplier, shift = best.multiplier.copy(), best.shift.copy()
    for bits in widths[1:]:
        left = channels[wrong > 0]
        if not left.size:
            break
        tried = with_bits(bits, left)
        count = _wrong_levels(tried, ends, accumulator, left)
        better = count < wrong[left]
        chosen = left[better]
        multiplier[chosen], shift[chosen] = tried.multiplier[better], tried.shift[better]
        wrong[chosen] = count[better]
    return replace(best, multiplier=multiplier, shift=shift)


def _wrong_levels(tried: Requantize, ends: IntArray, accumulator: Accumulator, channels: IntArray) -> IntArray:
    """Levels that `tried`, the rescaling of `channels`, reaches at another sum than `ends` [all channels, levels] say.

    Both only rise with the sum, so the first sum of a level and the one before it are enough.
    """
    ends, low, high = ends[channels], accumulator.low[channels, None], accumulator.high[channels, None]
    levels = tried.low + 1 + np.arange(ends.shape[1])
    at, before = (tried.apply(np.clip(sums, low, high).T).T for sums in (ends, ends - 1))
    missed = (ends <= high) & (at < levels)
    early = (ends > low) & (before >= levels)
    count: IntArray = (missed | early).sum(axis=1)
    return count


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
    outward = form.outward and tuple(distance / scale for distance in form.outward)
    if outward and (max(outward) >= _HALF or not all(form.unit)):
        raise ValueError("numbers must move outward by less than half a step, and not be constant")
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
        if abs(bias) >= _FAR_BIAS and outward is None:
            ratio, bias = _beside(ratio, bias, sums, (zero_point, rounding), p) or (ratio, bias)
        if abs(bias) >= _LARGEST_BIAS:
            raise ValueError(f"a bias must be below 2**{_LARGEST_BIAS.bit_length() - 1} products, not {float(bias)}")
        ratios.append(ratio)
        biases.append(bias)
    lows, highs = tuple(low for low, _ in ends), tuple(high for _, high in ends)
    return Affine(tuple(ratios), tuple(biases), lows, highs, zero_point, rounding, p.rescale_bits, outward)


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
    edge_of = dict(zip(levels, edges(whole, 0, levels), strict=True))
    inside = [level for level, edge in edge_of.items() if low < edge <= high]
    reach = 1 << max(1, abs(low), abs(high)).bit_length()
    if len(inside) > 1:
        return None
    level = inside[0] if inside else max(level for level, edge in edge_of.items() if edge <= low)
    at = Fraction(edge_of[level]) - _HALF if inside else Fraction(-4 * reach)
    start = level - zero_point + {Rounding.FLOOR: Fraction(0), Rounding.CEIL: Fraction(-1)}.get(rounding, -_HALF)
    return Fraction(1, 8 * reach), start * 8 * reach - at


def _near(constant: Fraction, zero_point: int, p: Parameters) -> Fraction:
    """A constant in steps; what saturates anyway becomes a small number."""
    return min(max(constant, Fraction(p.low - zero_point - 1)), Fraction(p.high - zero_point + 1))


def _ends(low: Bound, high: Bound, p: Parameters) -> tuple[int, int]:
    """Ends of the clamp.  Rounding is monotonous, so limiting the integers equals limiting the reals before."""
    return p.integer_of(low), p.integer_of(high)


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
        multiplied = multiplication(a, accumulator)
    except ValueError:  # scales out of reach of a multiplier
        return exact
    if _meaning(multiplied, accumulator) != exact:
        return exact
    return multiplied if _price(multiplied, accumulator, output) <= _price(exact, accumulator, output) else exact


def multiplication(a: Affine, accumulator: Accumulator) -> Requantize:
    """The nearest multipliers of `a.rescale_bits` bits, or of as few as make the elements of `a`; the nearest biases.

    They have no more bits than int64 has room for in their products.
    """
    widest = max(accumulator.format.bits, *(math.floor(abs(b)).bit_length() + 1 for b in a.bias))
    fraction = _fraction_bits(a, max(0, _SUM_BITS - widest))
    bias = np.array([round(b * (1 << fraction)) for b in a.bias], np.int64)
    ratios = [ratio / (1 << fraction) for ratio in a.ratio]
    most = widest_multiplier(largest_sum(accumulator.format, bias, fraction))

    if a.outward is not None and any(a.outward):
        return _moving(a, ratios, Requantize(bias, bias, bias, a.zero_point, a.low[0], a.high[0], fraction, a.rounding),
                       most)

    def made(bits: int, channels: IntArray) -> Requantize:
        multiplier, shift = fixed_points([ratios[c] for c in channels], bits)
        return Requantize(bias[channels], multiplier, shift, a.zero_point, a.low[0], a.high[0], fraction, a.rounding)

    channels = np.arange(len(ratios))
    if a.rescale_bits is not None or most == BLOCK_BITS:
        return made(min(a.rescale_bits or BLOCK_BITS, most), channels)
    return fewest_bits(a, accumulator, made, range(BLOCK_BITS, most + 1))


def _moving(a: Affine, ratios: Sequence[Fraction], start: Requantize, most: int) -> Requantize:
    """`start` with multipliers for `ratios`, and shifts with which all channels move by one power of two.

    A channel that does not move at all has a shift that is too small for it.  ValueError where a channel moves by no
    power of two, or where multipliers would lose bits by it.
    """
    assert a.outward is not None, "it moves"
    bits = min(a.rescale_bits or MULTIPLIER_BITS, most)
    above = bits + start.fraction  # the least shift with which no channel moves
    pairs = []
    for ratio, distance in zip(ratios, a.outward, strict=True):
        if distance.numerator > 1 or distance.denominator & (distance.denominator - 1):
            raise ValueError(f"numbers must move outward by a power of two of a step, not by {float(distance):.6g}")
        shift = above + distance.denominator.bit_length() - 2
        pair = (round(ratio * (1 << shift)), shift) if distance else fixed_point(ratio, bits)
        right = 1 << (bits - 2) <= pair[0] <= 1 << bits and shift > above if distance else pair[1] <= above
        if pair[1] > MAX_SHIFT or not right:
            raise ValueError("numbers must move outward by about half of what a sum of the layer counts")
        pairs.append((min(pair[0], (1 << bits) - 1), pair[1]))
    multiplier, shifts = np.array(pairs, np.int64).T
    return replace(start, multiplier=multiplier, shift=shifts, outward=1 << (above - 1))


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


def _meaning(rescaling: Requantize, accumulator: Accumulator) -> Thresholds:
    """The thresholds of a multiplication, exactly."""
    one = 1 << rescaling.fraction
    ratios = [Fraction(int(m) * one, 1 << int(k)) for m, k in zip(rescaling.multiplier, rescaling.shift, strict=True)]
    low, high = (rescaling.low,) * len(ratios), (rescaling.high,) * len(ratios)
    biases = tuple(Fraction(int(b), one) for b in rescaling.bias)
    if all(ratios):
        moves = zip(rescaling.moves.tolist(), rescaling.shift.tolist(), strict=True)
        outward = tuple(Fraction(move, 1 << shift) for move, shift in moves) if rescaling.outward else None
        exact = Affine(tuple(ratios), biases, low, high, rescaling.zero_point, rescaling.rounding, outward=outward)
        return thresholds(exact, accumulator)
    levels = range(rescaling.low + 1, rescaling.high + 1)
    rows = [[-math.inf if level <= rescaling.zero_point else math.inf for level in levels]]
    return within(rows * len(ratios), rescaling.low, accumulator)


def _price(rescaling: Rescale, accumulator: Accumulator, output: IntFormat) -> float:
    """The cost of a rescaling in hardware, in logic cells of a lane."""
    return price(rescale_cost(rescaling, accumulator.format, output))


# The constants of a sum of two tensors: both ratios of scales over one power of two.

#: Multipliers stay below 2 to the power of this and the bits that they have more than 18, ...
_WIDEST = 34
#: ... and products below 2 to the power of this: their exact sum stays inside int64.
_PRODUCT = 60

#: One part in 2 to the power of this is what the rounding of a multiplier of 18 bits may move a result by, of a step.
_SUM_ERROR = 10

#: Of pairs of operands with more bits not every sum is looked at.
_MOST_BITS = 16


def common_ratio(
    ratios: Sequence[Fraction], xs: Sequence[Tensor], ends: tuple[int, int], bits: int | None
) -> tuple[tuple[int, int], int]:
    """The multipliers of two tensors with these `ratios`, of up to so many significant bits, and the shift of both.

    `ends` are those of the result without its zero point.  Without `bits` they are the fewest with which all pairs of
    integers give the element of the exact sum, or as many pairs as can be; the most, where there are too many pairs.
    """
    width = max(x.format.bits for x in xs)
    if bits is not None:
        return _common(ratios, width, bits)
    if sum(x.format.bits for x in xs) > _MOST_BITS:
        return _common(ratios, width, MULTIPLIER_BITS)
    a, b = (np.arange(x.format.low, x.format.high + 1, x.format.step, dtype=np.int64) - x.zero_point for x in xs)
    exact, best, least = np.clip(_exactly(ratios, a, b), *ends), None, a.size * b.size + 1
    for most in range(BLOCK_BITS, MULTIPLIER_BITS + 1):
        pair, shift = _common(ratios, width, most)
        results = shift_right(np.add.outer(pair[0] * a, pair[1] * b), np.asarray(shift, np.int64))
        wrong = int(np.count_nonzero(np.clip(results, *ends) != exact))
        if wrong < least:
            best, least = (pair, shift), wrong
        if not wrong:
            break
    assert best is not None
    return best


def _exactly(ratios: Sequence[Fraction], a: IntArray, b: IntArray) -> IntArray:
    """Every sum of an element of `a` and one of `b`, rounded half to even: int64 [a, b]."""
    whole = math.lcm(*(ratio.denominator for ratio in ratios))
    first, second = (
        np.array([int(ratio * whole) * value for value in values.tolist()], object)
        for ratio, values in zip(ratios, (a, b), strict=True)
    )
    total = np.add.outer(first, second)
    floor = total // whole
    twice = 2 * (total - floor * whole)
    up = (twice > whole) | ((twice == whole) & (floor % 2 == 1))
    rounded: IntArray = (floor + up).astype(np.int64)
    return rounded


def _common(ratios: Sequence[Fraction], width: int, bits: int) -> tuple[tuple[int, int], int]:
    """Both ratios over one power of two, with all `bits` of a multiplier where that takes no wide adder.

    The larger one always has them.  The smaller one has them too where the larger one needs fewer (equal scales, powers
    of two); else at least as many as keep the error of operands of `width` bits below `_SUM_ERROR`.
    """
    coarse, fine = sorted(_all_bits(abs(ratio), bits) for ratio in ratios)
    shift, pair = fine, [round(ratio * (1 << fine)) for ratio in ratios]
    more = bits - BLOCK_BITS
    limit = min(_WIDEST + more, _PRODUCT - width)
    if any(significant_bits(m) > bits or abs(m) >> limit for m in pair):
        widest = coarse + limit - bits
        shift = max(coarse, min(fine, widest, width + _SUM_ERROR + more))
        pair = [_nearest(ratio, shift, bits) for ratio in ratios]
    while shift > 0 and all(m % 2 == 0 for m in pair):
        pair, shift = [m // 2 for m in pair], shift - 1
    return (pair[0], pair[1]), shift


def _all_bits(ratio: Fraction, bits: int) -> int:
    """The shift that gives `ratio` all the bits of a multiplier."""
    multiplier, shift = fixed_point(ratio, bits)
    return min(shift + bits - multiplier.bit_length(), MAX_SHIFT)


def _nearest(ratio: Fraction, shift: int, bits: int) -> int:
    """ratio * 2**shift, to the bits that a multiplier has."""
    own = min(_all_bits(abs(ratio), bits), shift)
    return round(ratio * (1 << own)) << (shift - own)
