"""Widths that the array and the rescaler of a shared stage must have room for, and the constants of a sweep in that
room.

The frame memory holds signed elements of 8 bits: an unsigned tensor of that width is held less 128.  Constants make up
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_rtl.rescale.ranges import RequantizerRoom, RequantizerRounding
from hwflow_rtl.shared.constants import channels_of, common_fraction, room_for
from hwflow_rtl.shared.shape import Sums
from hwflow_rtl.shared.steps import DIGIT_BITS, ELEMENT_BITS

from hwflow.stages.sweep import Sweep

from ...layers.formats import IntArray, IntFormat, Tensor
from ...layers.rescale import Requantize, RoomyRequantize, Rounding

#: Products of the rescaler stay below two to this power: exact in int64.
PRODUCT_BITS = 62
#: The constants of a lane without a channel: it gives the zero point.
NO_CHANNEL = Requantize(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), 0, 0, 0)


@dataclass(frozen=True, eq=False)
class SweepConstants:
    """The constants of each channel, int64[channels], as in `SharedShape.rescaled`; and those of the step."""

    bias: IntArray
    factor: IntArray
    extra: IntArray
    moves: IntArray
    zero_point: int
    low: int
    high: int


def held_less(format: IntFormat) -> int:
    """The frame memory holds an element of `format` less this."""
    return 0 if format.signed or format.bits != ELEMENT_BITS else 1 << (ELEMENT_BITS - 1)


def held_zero_point(tensor: Tensor) -> int:
    """The zero point of a tensor as the frame memory holds its elements."""
    return tensor.zero_point - held_less(tensor.format)


def held_table(sweep: Sweep) -> IntArray | None:
    """The table of a sweep between elements as the frame memory holds them, as one of `Program.tables`."""
    if sweep.table is None:
        return None
    x, y = sweep.inputs[0].format, sweep.output.format
    table = np.zeros(1 << ELEMENT_BITS, np.int64)
    bits = np.arange(x.low, x.high + 1) - held_less(x) & ((1 << ELEMENT_BITS) - 1)
    table[bits] = sweep.table - held_less(y)
    return table


def digits_of(multiplier: int) -> list[int]:
    """The digits of a number with base 2**DIGIT_BITS, each a weight (-128 to 127), the lowest first."""
    digits: list[int] = []
    half = 1 << (DIGIT_BITS - 1)
    while multiplier or not digits:
        digit = ((multiplier + half) & (2 * half - 1)) - half
        digits.append(digit)
        multiplier = (multiplier - digit) >> DIGIT_BITS
    return digits


def needs_of(sweeps: Sequence[Sweep]) -> Sums:
    """The least that all `sweeps` need, or that there is to be room for.

    HwflowError where they cannot share a rescaler.
    """
    rounding = rounding_of(sweeps)
    bits = max(map(sum_bits, sweeps))
    rescales = [held(sweep) for sweep in sweeps]
    fraction = common_fraction(rescales)
    try:
        room = room_for([NO_CHANNEL, *rescales])
    except ValueError as error:
        raise HwflowError(str(error), "quantize to fewer bits") from None
    for rescale in rescales:
        if isinstance(rescale, RoomyRequantize):
            room = together(room, shared_room(rescale, fraction))
    if max(bits + fraction, room.bias_bits) + 1 + room.factor_bits > PRODUCT_BITS:
        raise HwflowError(f"sums of {bits} bits with fractions of {fraction} bits times multipliers of "
                          f"{room.factor_bits} bits must fit {PRODUCT_BITS} bits in a shared stage",
                          "quantize to fewer bits")
    return Sums(bits, room, fraction, rounding)


def sweep_constants(sweep: Sweep, needs: Sums) -> SweepConstants:
    """The constants of a sweep in the room that there is."""
    rescale = held(sweep)
    channels = channels_of(rescale, needs.fraction, needs.room.outward)
    pairs = [needs.room.expressed(each.factor, each.shift, each.moves) for each in channels]
    factor, shift = np.array(pairs, np.int64).T
    bias, moves = np.array([(each.bias, each.moves) for each in channels], np.int64).T
    return SweepConstants(bias=bias, factor=factor, extra=shift - needs.room.base, moves=moves,
                          zero_point=rescale.zero_point, low=rescale.low, high=rescale.high)


def held(sweep: Sweep) -> Requantize:
    """The rescaling of a sweep between elements as the frame memory holds them."""
    rescale, less = sweep.rescale, held_less((sweep.output if sweep.table is None else sweep.inputs[0]).format)
    if sweep.product:  # as `Operation.PRODUCT` computes it
        a, b = map(held_zero_point, sweep.inputs)
        lack: IntArray | int = a * b - 1
    else:
        lack = sum(held_less(x.format) * sums for x, sums in zip(sweep.inputs, sweep.weight_sums(), strict=True))
    return replace(rescale, bias=rescale.bias + (np.asarray(lack, np.int64) << rescale.fraction),
                   zero_point=rescale.zero_point - less, low=rescale.low - less, high=rescale.high - less)


def rounding_of(sweeps: Sequence[Sweep]) -> RequantizerRounding:
    """The one rounding of all sweeps that round at all.  HwflowError where there are two."""
    by_rounding: dict[Rounding, list[str]] = {}
    for sweep in sweeps:
        rescale = sweep.rescale
        if isinstance(rescale, RoomyRequantize) or (rescale.multiplier & ((np.int64(1) << rescale.shift) - 1)).any():
            by_rounding.setdefault(sweep.rescale.rounding, []).append(sweep.layer)
    if len(by_rounding) > 1:
        named = "; ".join(f"{rounding.value}: {', '.join(dict.fromkeys(layers))}"
                          for rounding, layers in by_rounding.items())
        raise HwflowError(f"layers of a shared stage must round in one way, not in {len(by_rounding)} ({named})",
                          "quantize the float model with hwflow, which rounds half to even everywhere")
    return RequantizerRounding(next(iter(by_rounding), Rounding.HALF_EVEN).value)


def shared_room(rescale: RoomyRequantize, fraction: int) -> RequantizerRoom:
    """The room for other constants, in a rescaler with that fraction.

    Biases have two bits more than the layer's sums: what `held` and the padding of packed rows add to a bias is a sum
    of weights times 128 and 255 at most, and a sum of weights times 255 is one of the layer's sums.
    """
    more = fraction - rescale.fraction
    return RequantizerRoom(rescale.room.bits + fraction + 2, rescale.factor_bits, rescale.base + more, rescale.extra,
                           rescale.outward << more)


def together(one: RequantizerRoom, other: RequantizerRoom) -> RequantizerRoom:
    """The smallest room for what either has room for."""
    base = min(one.base, other.base)
    last = max(one.base + one.extra, other.base + other.extra)
    return RequantizerRoom(max(one.bias_bits, other.bias_bits), max(one.factor_bits, other.factor_bits), base,
                           last - base, max(one.outward, other.outward))


def sum_bits(sweep: Sweep) -> int:
    """Bits of the sums of a sweep, or of those that there is to be room for."""
    low, high = sum_ends(sweep)
    needed = IntFormat.covering(min(low, -1), high).bits
    if not isinstance(sweep.rescale, RoomyRequantize):
        return needed
    # Elements less 128 give sums of the same size as the layer's, of either sign.
    roomy = sweep.rescale.room.bits + any(held_less(x.format) for x in sweep.inputs)
    assert needed <= roomy, "a sum of the layer is inside its room"
    return roomy


def sum_ends(sweep: Sweep) -> tuple[int, int]:
    """Lowest and highest of all partial sums of a sweep's products."""
    ends = [(x.format.low - held_less(x.format), x.format.high - held_less(x.format)) for x in sweep.inputs]
    if sweep.weights is not None:
        low, high = ends[0]
        flat = sweep.weights.reshape(len(sweep.weights), -1)
        products = np.minimum(flat * low, flat * high), np.maximum(flat * low, flat * high)
        return (int(np.minimum(products[0], 0).sum(axis=1).min()), int(np.maximum(products[1], 0).sum(axis=1).max()))
    if sweep.product:
        a, b = (max(-low, high) for low, high in ends)
        zero_a, zero_b = (abs(-1 - held_zero_point(x)) for x in sweep.inputs)
        reach = a * zero_b + b * zero_a + (a + 1) * (b + 1)
        return -reach, reach
    if not sweep.multipliers:
        return ends[0]
    reach = sum(max(-low, high) * largest_prefix(m) for (low, high), m in zip(ends, sweep.multipliers, strict=True))
    return -reach, reach


def largest_prefix(multiplier: int) -> int:
    """The largest magnitude of what a sum has of a multiplier after any of its digits."""
    number = most = 0
    for digit in reversed(digits_of(multiplier)):
        number = (number << DIGIT_BITS) + digit
        most = max(most, abs(number), abs(number - digit))
    return most
