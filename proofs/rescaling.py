"""Proofs of what makes an element of a sum: the result is the formula's, for every sum and in every order of channels.

The formula is written here by its definition, in exact integers: a quotient, its rest, and a comparison of twice the
rest with the divisor.  The units round with halves, sticky bits and a carry chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from amaranth.hdl import Array, Const, Mux, Shape, Signal, Value, signed
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRounding, shape_range
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants, ThresholderStyle
from hwflow_rtl.vendor import Generic, Timing

from .methods import Induction
from .proof import Proof
from .scene import Scene

HALF_EVEN, HALF_UP, FLOOR = RequantizerRounding.HALF_EVEN, RequantizerRounding.HALF_UP, RequantizerRounding.FLOOR
INT4, INT8 = signed(4), signed(8)
COMPARATORS, SEARCH = ThresholderStyle.COMPARATORS, ThresholderStyle.SEARCH
DSP, FABRIC = RequantizerStyle.DSP, RequantizerStyle.FABRIC


def chosen(values: Sequence[int], channel: Value) -> Value:
    """The value of a channel."""
    low, high = min(*values, 0), max(*values, 0)
    shape = Shape.cast(range(low, high + 1))
    if len(set(values)) == 1:
        return Const(values[0], shape)
    return Array(Const(value, shape) for value in values)[channel]


def requantized(value: Value, channel: Value, constants: RequantizerConstants, m: Any) -> Value:
    """clamp(round(product / 2**shift) + zero_point, low, high) by its definition."""
    biases, factors, shifts = (np.atleast_1d(each).tolist() for each in (
        constants.bias, constants.multiplier, constants.shift))
    product = Value.cast(((value << constants.fraction) + chosen(biases, channel)) * chosen(factors, channel))
    results = []
    for shift in shifts:
        quotient, rest = product >> shift, product[:shift]
        twice = Const(0) if not shift else rest << 1
        up = {HALF_EVEN: (twice > 1 << shift) | ((twice == 1 << shift) & quotient[0]),
              HALF_UP: twice >= 1 << shift, FLOOR: Const(0, 1)}[constants.rounding] if shift else Const(0, 1)
        results.append(quotient + up + constants.zero_point)
    wide = Signal(signed(max(Value.cast(each).shape().width for each in results) + 1), name="rounded")
    m.d.comb += wide.eq(results[0] if len(results) == 1 else Array(results)[channel])
    return Mux(wide < constants.low, constants.low, Mux(wide > constants.high, constants.high, wide))


def reached(value: Value, channel: Value, constants: ThresholderConstants, m: Any) -> Value:
    """low plus how many of the channel's thresholds are at most the value."""
    counts = [sum(value >= int(each) for each in row) for row in constants.values]
    return (counts[0] if len(counts) == 1 else Array(counts)[channel]) + constants.low


def rescaled(make: Any, formula: Any, accumulator: Shape, output: Shape, interval: int, timing: Timing) -> Scene:
    """Values come at least `interval` cycles apart, channel by channel."""
    constants = make()
    s, m = Scene(), None
    m = s.m
    unit = constants.unit(accumulator=accumulator, output=output, interval=interval,
                          technology=Generic(timing=timing), name="constants")
    inside = s.put("unit", unit)
    value, valid = s.free(accumulator, "value"), s.free(1, "valid")
    m.d.comb += [unit.i_value.eq(value), unit.i_valid.eq(valid)]
    wait = timing.rom + 2  # the first value is later than a reset by what its constants need
    quiet = Signal(range(max(wait, interval) + 1), init=0, name="quiet")
    begun = Signal(name="begun")
    m.d.sync += quiet.eq(Mux(valid, 1, Mux(quiet == max(wait, interval), quiet, quiet + 1)))
    with m.If(valid):
        m.d.sync += begun.eq(1)
    s.assume(~valid | Mux(begun, quiet >= interval, quiet >= wait))

    channels = constants.constants_count
    channel = Signal(range(max(2, channels)), name="channel")
    with m.If(valid):
        m.d.sync += channel.eq(Mux(channel == channels - 1, 0, channel + 1))
    if channels > 1:
        helps(s, inside, channel, channels)
    was, of, old = valid, channel, value
    for age in range(unit.latency):
        later = [Signal(1, name=f"valid_{age}"), Signal(channel.shape(), name=f"channel_{age}"),
                 Signal(accumulator, name=f"value_{age}")]
        m.d.sync += [new.eq(now) for new, now in zip(later, (was, of, old), strict=True)]
        was, of, old = later
    expected = Signal(output, name="expected")
    m.d.comb += expected.eq(formula(old, of, constants, m))
    s.claim("comes_when_it_must", unit.o_valid == was)
    s.claim("is_the_formula", ~was | (unit.o_value == expected))
    least, most = shape_range(output)
    s.reach("another_result", was & (expected != 0) & (expected >= least) & (expected <= most))
    return s


def helps(s: Scene, inside: Any, channel: Signal, channels: int) -> None:
    """The unit's count of channels runs with ours."""
    s.claim("channel", (inside.signal("channel") == channel) & (channel < channels))


def requantizer(multiplier: Sequence[int], shift: Sequence[int], bias: Sequence[int], *, style: RequantizerStyle = DSP,
                bits: int = 8, output: Shape = INT4, interval: int = 1, fraction: int = 0,
                rounding: RequantizerRounding = HALF_EVEN, zero_point: int = 0) -> Scene:
    low, high = shape_range(output)

    def make() -> RequantizerConstants:
        return RequantizerConstants(
            bias=np.array(bias), multiplier=np.array(multiplier), shift=np.array(shift), zero_point=zero_point,
            low=low, high=high, style=style, fraction=fraction, rounding=rounding)
    return rescaled(make, requantized, signed(bits), output, interval, Timing(multiply=2))


def thresholder(rows: Sequence[Sequence[int]], style: ThresholderStyle, bits: int, interval: int) -> Scene:
    def make() -> ThresholderConstants:
        return ThresholderConstants(values=np.array(rows), low=-2, style=style)
    return rescaled(make, reached, signed(bits), signed(6), interval, Timing(multiply=2))


def proofs() -> list[Proof]:
    exact, found = "every sum gives the rounded, clamped quotient of the definition", []

    def add(case: str, k: int, **options: Any) -> None:
        found.append(Proof("Requantizer", case, exact, partial(requantizer, **options), Induction(k), 30))

    add("8 bits * 11 / 32, multiplier", 12, multiplier=(11,), shift=(5,), bias=(-7,))
    add("8 bits * 11 / 32, fabric", 12, multiplier=(11,), shift=(5,), bias=(-7,), style=FABRIC)
    add("12 bits / 64, half up", 12, multiplier=(1,), shift=(6,), bias=(9,), bits=12, rounding=HALF_UP)
    add("12 bits * 5 / 16, down, zero point", 12, multiplier=(5,), shift=(4,), bias=(3,), bits=12, rounding=FLOOR,
        zero_point=-3, output=INT8)
    channels = {"multiplier": (5, 3, 7), "shift": (4, 0, 6), "bias": (-7, 11, 2)}
    add("3 channels, multiplier", 14, **channels)
    add("3 channels, fabric", 14, style=FABRIC, **channels)
    add("3 channels, every 3 cycles, fabric", 20, style=FABRIC, interval=3, **channels)
    add("3 channels, bias of 3 fractional bits", 14, fraction=3, **channels)
    add("20 bits * 181 / 2**14, two operands, every 2 cycles", 16, multiplier=(181,), shift=(14,), bias=(-1234,),
        bits=20, output=INT8, interval=2)
    add("24 bits * 45 / 2**16, fabric", 16, multiplier=(45,), shift=(16,), bias=(4321,), bits=24, output=INT8,
        style=FABRIC)
    rows = ((-9, -2, 0, 5, 17, 31, 32), (-128, -40, -40, 0, 1, 2, 100), (127, 127, 127, 127, 127, 127, 127))
    for style, interval in ((COMPARATORS, 1), (SEARCH, 1), (SEARCH, 4)):
        found.append(Proof(
            "Thresholder", f"3 channels of 7, {style.value}, every {interval} cycles",
            "every sum gives the number of its channel's thresholds that it reaches",
            partial(thresholder, rows, style, 8, interval), Induction(14), 30))
    return found


RESCALING_PROOFS = tuple(proofs())
