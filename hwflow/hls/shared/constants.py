"""What the array and the rescaler of a shared stage must have room for, and the constants of a sweep in that room.

The frame memory holds signed elements of 8 bits: an unsigned tensor of that width is held less 128.  Constants make up
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_rtl.rescale.ranges import RequantizerRoom, RequantizerRounding
from hwflow_rtl.shared.steps import DIGIT_BITS, ELEMENT_BITS

from ...layers.formats import IntArray, IntFormat
from ...layers.rescale import Rounding
from ...layers.sweep import Sweep

__all__ = ["Needs", "SweepConstants", "digits_of", "held_less", "needs_of", "sweep_constants"]

#: Products of the rescaler stay below two to this power: exact in int64.
PRODUCT_BITS = 62


@dataclass(frozen=True)
class Needs:
    """Widths that are enough for some sweeps: the fields of `SharedShape` of these names."""

    accumulator: int
    room: RequantizerRoom
    fraction: int
    rounding: RequantizerRounding


@dataclass(frozen=True, eq=False)
class SweepConstants:
    """Of each channel, int64[channels], as in `SharedShape.rescaled`; and those of the step."""

    bias: IntArray
    factor: IntArray
    extra: IntArray
    zero_point: int
    low: int
    high: int


def held_less(format: IntFormat) -> int:
    """The frame memory holds an element of `format` less this."""
    return 0 if format.signed or format.bits < ELEMENT_BITS else 1 << (ELEMENT_BITS - 1)


def digits_of(multiplier: int) -> list[int]:
    """The digits of a number with base 2**DIGIT_BITS, each a weight (-128 to 127), the lowest first."""
    found: list[int] = []
    half = 1 << (DIGIT_BITS - 1)
    while multiplier or not found:
        digit = ((multiplier + half) & (2 * half - 1)) - half
        found.append(digit)
        multiplier = (multiplier - digit) >> DIGIT_BITS
    return found


def needs_of(sweeps: Sequence[Sweep]) -> Needs:
    """The least that all `sweeps` need.  HwflowError where they cannot share a rescaler."""
    rounding = rounding_of(sweeps)
    fraction = max(sweep.rescale.fraction for sweep in sweeps)
    bits = max(IntFormat.covering(min(low, -1), high).bits for low, high in map(sum_ends, sweeps))
    biases = [ends for sweep in sweeps for ends in (int(b) for b in bias_of(sweep, fraction))]
    bias_bits = IntFormat.covering(min(*biases, -1), max(biases)).bits
    room = room_of(bias_bits, [pair for sweep in sweeps for pair in ratios(sweep, fraction)])
    needs = Needs(bits, room, fraction, rounding)
    if max(bits + fraction, bias_bits) + 1 + room.factor_bits > PRODUCT_BITS:
        raise HwflowError(f"sums of {bits} bits with fractions of {fraction} bits times multipliers of "
                          f"{room.factor_bits} bits must fit {PRODUCT_BITS} bits in a shared stage",
                          "quantize to fewer bits")
    return needs


def sweep_constants(sweep: Sweep, needs: Needs) -> SweepConstants:
    """The constants of a sweep in the room that there is."""
    pairs = [needs.room.expressed(m, k) for m, k in ratios(sweep, needs.fraction)]
    rescale, less = sweep.rescale, held_less(sweep.output.format)
    return SweepConstants(
        bias=bias_of(sweep, needs.fraction), factor=np.array([m for m, _ in pairs], np.int64),
        extra=np.array([k - needs.room.base for _, k in pairs], np.int64), zero_point=rescale.zero_point - less,
        low=rescale.low - less, high=rescale.high - less)


def bias_of(sweep: Sweep, fraction: int) -> IntArray:
    """In units of 2**-fraction, with what elements lack that are held less 128: int64[channels]."""
    rescale = sweep.rescale
    lack = sum(held_less(x.format) * sums for x, sums in zip(sweep.inputs, sweep.weight_sums(), strict=True))
    made: IntArray = (rescale.bias << (fraction - rescale.fraction)) + (np.asarray(lack, np.int64) << fraction)
    return made


def ratios(sweep: Sweep, fraction: int) -> list[tuple[int, int]]:
    """Factor and shift of each channel, in lowest terms."""
    rescale = sweep.rescale
    found: list[tuple[int, int]] = []
    for factor, shift in zip(rescale.multiplier.tolist(), rescale.shift.tolist(), strict=True):
        shift += fraction - rescale.fraction
        twos = min((factor & -factor).bit_length() - 1, shift) if factor else shift
        found.append((factor >> twos, shift - twos))
    return found


def room_of(bias_bits: int, pairs: Sequence[tuple[int, int]]) -> RequantizerRoom:
    """The narrowest factors, and the fewest shifts with them.  Pairs are in lowest terms."""
    used = sorted({pair for pair in pairs if pair[0]}) or [(1, 0)]
    bits = max(factor.bit_length() for factor, _ in used)
    base = min(shift + bits - factor.bit_length() for factor, shift in used)
    return RequantizerRoom(bias_bits, bits, base, max(0, max(shift for _, shift in used) - base))


def rounding_of(sweeps: Sequence[Sweep]) -> RequantizerRounding:
    """The one rounding of all sweeps that round at all.  HwflowError where there are two."""
    found: dict[Rounding, list[str]] = {}
    for sweep in sweeps:
        if any(shift and factor for factor, shift in ratios(sweep, sweep.rescale.fraction)):
            found.setdefault(sweep.rescale.rounding, []).append(sweep.layer)
    if len(found) > 1:
        named = "; ".join(f"{rounding.value}: {', '.join(dict.fromkeys(layers))}" for rounding, layers in found.items())
        raise HwflowError(f"layers of a shared stage must round in one way, not in {len(found)} ({named})",
                          "quantize the float model with hwflow, which rounds half to even everywhere")
    return RequantizerRounding(next(iter(found), Rounding.HALF_EVEN).value)


def sum_ends(sweep: Sweep) -> tuple[int, int]:
    """Lowest and highest of all partial sums of a sweep's products."""
    ends = [(x.format.low - held_less(x.format), x.format.high - held_less(x.format)) for x in sweep.inputs]
    if sweep.weights is not None:
        low, high = ends[0]
        flat = sweep.weights.reshape(len(sweep.weights), -1)
        products = np.minimum(flat * low, flat * high), np.maximum(flat * low, flat * high)
        return (int(np.minimum(products[0], 0).sum(axis=1).min()), int(np.maximum(products[1], 0).sum(axis=1).max()))
    if not sweep.multipliers:
        return ends[0]
    reach = sum(max(-low, high) * largest_prefix(m) for (low, high), m in zip(ends, sweep.multipliers, strict=True))
    return -reach, reach


def largest_prefix(multiplier: int) -> int:
    """The largest magnitude of what a sum has of a multiplier after any of its digits."""
    found = most = 0
    for digit in reversed(digits_of(multiplier)):
        found = (found << DIGIT_BITS) + digit
        most = max(most, abs(found), abs(found - digit))
    return most
