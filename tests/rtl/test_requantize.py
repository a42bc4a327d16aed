"""The requantizer against exact fractions: Python's round() of a Fraction is half to even."""

import itertools
import math
import random
import re
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.emit import emit
from hwflow_rtl.multiply.shift_add import DigitShiftAddShape, ShiftAddShape
from hwflow_rtl.rescale.plan import RequantizerStyle, shift_add_of
from hwflow_rtl.rescale.ranges import RequantizerRounding, shape_range
from hwflow_rtl.rescale.requantizer import Requantizer, RequantizerConstants
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Technology, Timing

from tests.rtl.harness import play, run
from tests.rtl.oracles import rescaled

DSP, FABRIC = RequantizerStyle.DSP, RequantizerStyle.FABRIC
STYLES = [DSP, FABRIC]
INT4, INT6 = signed(4), signed(6)
TIMING = Timing(multiply=4)


def make(*, interval: int, style: RequantizerStyle, accumulator=INT6, bias=(0,), multiplier=(1,), shift=(0,),
         zero_point: int = 0, low: int = -8, high: int = 7, output=INT4, timing=TIMING, fraction: int = 0,
         rounding: RequantizerRounding = RequantizerRounding.HALF_EVEN, like: Technology | None = None,
         outward: int = 0) -> Requantizer:
    constants = RequantizerConstants(
        bias=np.array(bias), multiplier=np.array(multiplier), shift=np.array(shift), zero_point=zero_point, low=low,
        high=high, style=style, fraction=fraction, rounding=rounding, outward=outward)
    return constants.unit(accumulator=accumulator, output=output, interval=interval,
                          technology=Generic(timing=timing, like=like), name="constants")


def check(unit: Requantizer, values: list[int], interval: int, seed: int | None = None) -> None:
    bias, multiplier, shift = unit.constants
    ranges = unit.plan.ranges
    expected = [
        rescaled((value << ranges.fraction) + int(bias[c]), multiplier[c], shift[c], zero_point=ranges.zero_point,
                 low=ranges.low, high=ranges.high, rounding=ranges.rounding, outward=ranges.outward)
        for value, c in zip(values, np.arange(len(values)) % len(bias), strict=True)]
    results, latencies = play(unit, values, interval, seed)
    assert results == expected
    assert set(latencies) == {unit.latency}
    assert unit.model(np.array(values)).tolist() == expected


# bias, multiplier, shift: ties of all kinds, nothing at all, mixed shifts, zero, more than 1, far below 1.
CONSTANTS = {
    "wires": ((0,), (1,), (0,)),
    "half": ((0,), (1,), (1,)),
    "quarter": ((3,), (1,), (2,)),
    "powers": ((1, -2, 0, 5), (1, 1, 1, 1), (0, 1, 2, 5)),
    "powers_written_out": ((1, -2, 0), (4, 2, 8), (3, 3, 4)),
    "ties": ((0, 1), (6, 2), (3, 3)),
    "shared_multiplier": ((-7, 11, 2), (5, 5, 5), (4, 4, 4)),
    "shared_shift": ((-7, 11, 2), (5, 3, 7), (4, 4, 4)),
    "mixed": ((-7, 11, 2, 0, 0), (5, 3, 7, 1, 6), (4, 0, 9, 2, 3)),
    "zero": ((1, 1, 1), (0, 3, 0), (7, 2, 0)),
    "all_zero": ((1, 2), (0, 0), (3, 4)),
    "tiny": ((0, 9), (3, 5), (40, 62)),
    "growing": ((0, -1), (9, 13), (0, 1)),
}


def some(cases, quick):
    """All cases as parameters, those that are not `quick` as slow tests."""
    return [pytest.param(*case, marks=[] if case in quick else [pytest.mark.slow]) for case in cases]


@pytest.mark.quick(14)
@pytest.mark.parametrize("name, style, interval", some(
    list(itertools.product(CONSTANTS, STYLES, [1, 2, 3, 5, 12])),
    {*((name, style, (1, 5)[(k + j) % 2]) for k, name in enumerate(CONSTANTS) for j, style in enumerate(STYLES)),
     *itertools.product(["mixed", "powers"], STYLES, [1, 2, 3, 5, 12])}))
def test_every_sum_and_every_channel(name, style, interval):
    bias, multiplier, shift = CONSTANTS[name]
    unit = make(bias=bias, multiplier=multiplier, shift=shift, interval=interval, style=style)
    low, high = shape_range(signed(6))
    check(unit, [value for value in range(low, high + 1) for _ in bias], interval)


@pytest.mark.quick(3)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("interval", "rom"), some(
    list(itertools.product([2, 3, 4, 7], [1, 2, 4])), [(2, 1), (3, 2), (7, 4)]))
def test_wide_constants_are_read_in_halves(interval, rom, style):
    """From a block instead of two, where there is time for it; values come as early and as close as they may."""
    source = np.random.default_rng(interval)
    constants = {"bias": source.integers(-1 << 20, 1 << 20, 130), "multiplier": source.integers(1 << 16, 1 << 17, 130),
                 "shift": source.integers(20, 35, 130)}
    limits = {"accumulator": signed(18), "output": signed(8), "low": -128, "high": 127, "like": ECP5(),
              "timing": Timing(multiply=4, rom=rom)}
    unit = make(**constants, **limits, interval=interval, style=style)
    assert unit.plan.in_halves
    values = source.integers(-1 << 17, 1 << 17, 300).tolist()
    check(unit, values, interval)
    check(make(**constants, **limits, interval=interval, style=style), values, interval, seed=1)
    quick = make(**constants, **limits, interval=1, style=style)
    assert not quick.plan.in_halves
    assert (unit.plan.cost().ram, quick.plan.cost().ram) == (1, 2)
    few = make(**{name: values[:128] for name, values in constants.items()}, **limits, interval=interval, style=style)
    assert few.plan.in_halves == (few.plan.ranges.word_bits > 42)


def constants_of(name: str, **more) -> dict:
    return dict(zip(("bias", "multiplier", "shift"), CONSTANTS[name], strict=True)) | more


#: Every way of rounding; biases behind the point; products that move outward, or in some channels; zero points, clamps.
SMALL = [
    *({"bias": bias, "multiplier": multiplier, "shift": shift, "outward": outward, "fraction": fraction,
       "interval": interval, "rounding": RequantizerRounding(rounding)}
      for bias, multiplier, shift, outward, fraction, interval, rounding in (
          ((0,), (5,), (5,), 4, 0, 1, "half_up"), ((0,), (4,), (4,), 4, 0, 3, "half_up"),
          ((3, -2, 0), (5, 7, 4), (4, 5, 6), 4, 0, 2, "half_even"),
          ((3, -2, 0), (5, 7, 4), (4, 3, 5), 4, 0, 1, "half_down"), ((0, 0), (1, 1), (1, 1), 1, 0, 2, "half_even"),
          ((-9, 5), (11, 15), (8, 7), 32, 2, 5, "half_up"))),
    *(constants_of(name, interval=1, rounding=rounding) for name in ("ties", "mixed")
      for rounding in RequantizerRounding if rounding is not RequantizerRounding.HALF_EVEN),
    *({"fraction": fraction, "bias": bias, "multiplier": multiplier, "shift": shift, "interval": 2}
      for fraction, bias, multiplier, shift in (
          (1, (0,), (1,), (1,)), (1, (1,), (1,), (2,)), (3, (5,), (1,), (3,)), (3, (-13, 0, 6), (3, 1, 7), (5, 3, 6)),
          (6, (2, -1), (5, 9), (9, 8)), (12, (4095, -4097), (77, 77), (20, 20)), (4, (-1, -1), (1, 1), (4, 5)),
          (5, (32, -64), (1, 1), (6, 7)), (20, (1 << 22, -7), (200001, 131072), (38, 40)))),
    *({"bias": (0, 3), "multiplier": (3, 5), "shift": (1, 3), "zero_point": zero_point, "low": low, "high": high,
       "output": output, "interval": 2} for zero_point, low, high, output in (
          (-3, -8, 7, signed(4)), (7, 0, 15, unsigned(4)), (0, -5, 5, signed(4)), (2, 2, 9, unsigned(4)),
          (-8, -8, -3, signed(4)), (0, -128, 127, signed(8)), (200, 0, 255, unsigned(8)), (5, 5, 5, signed(4)),
          (-100, -8, 7, signed(4)), (100, -8, 7, signed(4))))]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", SMALL, ids=lambda case: " ".join(map(str, case.values())))
def test_every_sum_of_six_bits(case, style):
    check(make(**case, style=style), [value for value in range(-32, 32) for _ in case["bias"]], case["interval"])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("rounding", RequantizerRounding)
def test_wide_sums_near_the_rounding_points(rounding, style):
    """Of unsigned sums with a fraction: the ends, the values around halves and wholes."""
    source, accumulator = random.Random(str(rounding)), unsigned(19)
    bias, multiplier, shift = (-123457, 99999), ((1 << 18) - 1, 131073), (33, 34)
    values = []
    for _ in range(60):
        for b, m, k in zip(bias, multiplier, shift, strict=True):
            near = (Fraction(source.randint(-10, 300) << k, 2 * m) - b) / 16
            value = source.choice([0, (1 << 19) - 1, math.floor(near), math.ceil(near), math.ceil(near) + 1])
            values.append(min(max(value, 0), (1 << 19) - 1))
    unit = make(accumulator=accumulator, bias=bias, multiplier=multiplier, shift=shift, low=0, high=255,
                output=unsigned(8), zero_point=3, interval=2, style=style, fraction=4, rounding=rounding)
    check(unit, values, 2, seed=3)


@pytest.mark.parametrize("style", STYLES)
def test_products_that_move_outward_are_rounded_twice(style):
    """As kernels do it that round to an integer first, and halves of these away from zero then."""
    multiplier, shift, outward = (200003, 131075, 262143), (26, 24, 29), 1 << 17
    unit = make(accumulator=signed(20), multiplier=multiplier, bias=(0, 0, 0), shift=shift, outward=outward, interval=2,
                low=-128, high=127, output=signed(8), style=style, rounding=RequantizerRounding.HALF_UP, zero_point=-7)
    source, values, expected = random.Random(0), [], []
    for k in range(600):
        m, s = multiplier[k % 3], shift[k % 3]
        middle = Fraction((2 * source.randint(-130, 130) + 1) << s, 2 * m)
        values.append(min(max(math.floor(middle) + source.randint(-3, 3), -(1 << 19)), (1 << 19) - 1))
        first = (values[-1] * m + (1 << 17)) >> 18
        away = math.floor(Fraction(abs(first), 1 << (s - 18)) + Fraction(1, 2))
        expected.append(min(max((away if first >= 0 else -away) - 7, -128), 127))
    assert unit.model(np.array(values)).tolist() == expected
    check(unit, values, 2, seed=1)


SUMS = [signed(17), signed(18), signed(21), signed(24), signed(32), unsigned(20)]
INTERVALS = [1, 2, 3, 4, 9, 19, 30]
WIDTHS = [19, 22, 26, 32]
PARTS = [signed(16), signed(21), signed(28)]


@pytest.mark.quick(10)
@pytest.mark.parametrize("style, bits, accumulator, interval", some(
    [*itertools.product(STYLES, [18], SUMS, INTERVALS), *itertools.product(STYLES, WIDTHS, PARTS, INTERVALS)],
    [*((style, 18, SUMS[(k + 3 * j) % len(SUMS)], interval) for j, style in enumerate(STYLES)
       for k, interval in enumerate(INTERVALS)),
     *((DSP, WIDTHS[(j + k) % 4], accumulator, interval) for k, accumulator in enumerate(PARTS)
       for j, interval in enumerate([1, 2, 3, 4, 9])),
     *((FABRIC, bits, PARTS[bits % 3], interval) for bits, interval in zip(WIDTHS, [1, 4, 9, 30], strict=True))]))
def test_wide_sums_and_factors(style, bits, accumulator, interval):
    """Factors of as many bits as an operand of a multiplier has, and of more: values near the ends, next to the
    rounding points, where each bit counts, and anywhere."""
    source = random.Random(f"{style}{interval}{accumulator}{bits}")
    least, most = shape_range(accumulator)
    bias, multiplier, shift, values = [], [], [], []
    for _ in range(6):
        bias.append(source.randint(least // 4, most // 4))
        odd, top = source.getrandbits(bits - 1) << 1 | 1, 1 << (bits - 1)
        multiplier.append(source.choice([2 * top - 1, top, top + 1, odd, source.randint(top, 2 * top - 1)]))
        shift.append(accumulator.width + bits - 10 + source.randint(0, 4))
    for _ in range(30):
        for b, m, k in zip(bias, multiplier, shift, strict=True):
            near = math.floor(Fraction(2 * source.randint(-130, 130) + 1, 2) * (1 << k) / m - b)
            value = source.choice([least, most, near, near + 1, source.randint(least, most)])
            values.append(min(max(value, least), most))
    limits = {"accumulator": accumulator, "low": -128, "high": 127, "output": signed(8), "interval": interval,
              "style": style}
    check(make(bias=bias, multiplier=multiplier, shift=shift, **limits, timing=Timing(multiply=3, rom=2)), values,
          interval, seed=interval)
    if bits > 18:
        check(make(bias=bias[:1], multiplier=multiplier[:1], shift=shift[:1], **limits,
                   timing=Timing(multiply=2, rom=1)), values, interval)


@pytest.mark.quick(12)
@pytest.mark.parametrize("rom", [1, 2, 3])
@pytest.mark.parametrize("multiply", [1, 2, 4])
@pytest.mark.parametrize("interval", [1, 2, 3, 4])
def test_latencies_of_families(interval, multiply, rom):
    unit = make(accumulator=signed(22), bias=(5, -9, 0), multiplier=(77, 200001, 123), shift=(20, 22, 24), low=-128,
                high=127, output=signed(8), interval=interval, style=DSP, timing=Timing(multiply=multiply, rom=rom))
    source = random.Random(1)
    check(unit, [source.randint(-1 << 21, (1 << 21) - 1) for _ in range(60)], interval)


def blocks(unit: Requantizer) -> int:
    multiplier = unit.plan.multiplier
    return multiplier["count"] if isinstance(multiplier, dict) else 0


def test_multiplier_blocks():
    wide, narrow = signed(24), signed(16)
    assert blocks(make(accumulator=wide, multiplier=(99,), shift=(9,), interval=1, style=DSP)) == 2
    assert blocks(make(accumulator=wide, multiplier=(99,), shift=(9,), interval=2, style=DSP)) == 1
    assert blocks(make(accumulator=narrow, multiplier=(99,), shift=(9,), interval=1, style=DSP)) == 1
    for factor, sum_shape, counts in (((1 << 26) - 1, wide, [4, 2, 2, 1, 1]), ((1 << 26) - 1, narrow, [2, 1, 1, 1, 1])):
        assert [blocks(make(accumulator=sum_shape, multiplier=(factor,), shift=(30,), interval=interval, style=DSP))
                for interval in (1, 2, 3, 4, 9)] == counts
    assert blocks(make(accumulator=wide, bias=(0, 0), multiplier=(4, 8), shift=(9, 9), interval=1, style=DSP)) == 0
    assert blocks(make(accumulator=wide, multiplier=(99,), shift=(9,), interval=1, style=FABRIC)) == 0


def cost(unit: Requantizer, technology):
    bias, multiplier, shift = unit.constants
    ranges = unit.plan.ranges
    constants = RequantizerConstants(
        bias=bias, multiplier=multiplier, shift=shift, zero_point=ranges.zero_point, low=ranges.low,
        high=ranges.high, style=unit.plan.style, fraction=ranges.fraction, rounding=ranges.rounding)
    return constants.cost(accumulator=ranges.accumulator, output=ranges.output, interval=unit.plan.interval,
                          technology=technology)


def test_cost_counts_blocks():
    numbers = np.arange(600)
    many = {"bias": numbers, "multiplier": (1 << 17) + numbers, "shift": 20 + numbers % 3}
    unit = make(accumulator=signed(24), interval=1, style=DSP, **many)
    resources = cost(unit, ECP5())
    assert resources.dsp == 2
    assert resources.ram == ECP5().rom_cost(width=10 + 18 + 2, depth=600).ram > 0
    unit = make(accumulator=signed(24), interval=20, style=FABRIC, **many)
    assert cost(unit, ECP5()).dsp == 0
    same = {"bias": [7] * 600, "multiplier": [12345] * 600, "shift": [20] * 600}
    unit = make(accumulator=signed(24), interval=2, style=DSP, **same)
    assert (cost(unit, ECP5()).dsp, cost(unit, ECP5()).ram) == (1, 0)


def test_a_shared_bias_is_added_above_its_lowest_bit():
    def lut(*bias: int) -> float:
        return cost(make(accumulator=signed(16), bias=bias, multiplier=(1,) * 3, shift=(6,) * 3, interval=1,
                         style=FABRIC), ECP5()).lut

    assert lut(1, 1, 1) - lut(1 << 12, 1 << 12, 1 << 12) == 12
    assert lut(0, 0, 0) < lut(1 << 12, 1 << 12, 1 << 12)


def test_long_intervals_cost_less():
    costs = [cost(make(accumulator=signed(22), bias=(1, 2), multiplier=(0x2AAAA, 0x35555), shift=(25, 26),
                       interval=interval, style=FABRIC), ECP5()).lut for interval in (1, 2, 4, 8, 24)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0] / 4


def test_shared_constants_are_not_stored():
    unit = make(bias=(3, 3, 3), multiplier=(5, 5, 5), shift=(4, 4, 4), interval=1, style=DSP)
    assert unit.plan.technology.roms == {}
    check(unit, list(range(-32, 31)), 1)
    assert unit.plan.technology.roms == {}
    unit = make(bias=(3, 3, 4), multiplier=(5, 5, 5), shift=(4, 4, 4), interval=1, style=DSP)
    check(unit, list(range(-32, 31)), 1)
    assert {name: rom.shape for name, rom in unit.plan.technology.roms.items()} == {"constants": (3, 1)}


@pytest.mark.parametrize("style", STYLES)
def test_verilog_is_deterministic(style):
    def text() -> str:
        return emit(make(bias=(1, 2), multiplier=(5, 3), shift=(4, 9), interval=2, style=style), name="requantizer")
    assert text() == text()


@pytest.mark.parametrize("arguments, message", [
    ({"multiplier": (1 << 32,)}, "multiplier of a Requantizer must be from 0 to 4294967295, not 4294967296 to"),
    ({"multiplier": (-1,)}, "multiplier of a Requantizer must be from 0 to 4294967295, not -1 to -1"),
    ({"shift": (63,)}, "shift of a Requantizer must be from 0 to 62, not 63 to 63"),
    ({"shift": (1, 2)}, "must have one entry for each channel, not 1, 1 and 2"),
    ({"low": -9}, "in the range of its output, -8 to 7, not -9 and 7"),
    ({"low": 3, "high": 2}, "low and high of a Requantizer must be in order"),
    ({"fraction": -1}, "fraction of a Requantizer must be at least 0 bits, not -1"),
    ({"interval": 0}, "interval of a Requantizer must be at least 1 cycle, not 0"),
])
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(**{"interval": 1, "style": DSP, **arguments})


def test_dsp_refuses_sums_beyond_two_operands():
    with pytest.raises(ValueError, match="must be at most 35 bits for two multiplier operands, not 36"):
        _ = make(accumulator=signed(36), multiplier=(3,), shift=(1,), interval=1, style=DSP).latency


@pytest.mark.parametrize("bits, interval", [(1, 1), (18, 1), (18, 2), (18, 3), (18, 7), (22, 30)])
def test_shift_add_keeps_pace(bits, interval):
    steps = ShiftAddShape(value=signed(9), factor_bits=bits, drop=0, interval=interval).segments
    assert sum(steps) == bits
    assert all(n == 1 or n + 1 <= interval for n in steps)


@pytest.mark.parametrize("bits, interval, digits", [
    (1, 1, 1), (2, 1, 2), (17, 1, 10), (18, 1, 10), (18, 2, 10), (18, 3, 10), (18, 7, 10), (22, 30, 12)])
def test_digits_keep_pace(bits, interval, digits):
    steps = DigitShiftAddShape(value=signed(9), factor_bits=bits, drop=0, interval=interval).segments
    assert sum(steps) == digits
    assert all(n == 1 or n + 1 <= interval for n in steps)


FACTORS = [0, 1, 0x1AAAB, 0x1FFFF, 0x10401, 0x12345]
SIZES = [(1, 0, 1), (3, 1, 1), (4, 9, 3), (17, 3, 6), (17, 30, 20), (18, 18, 4), (18, 3, 1), (18, 18, 2)]


@pytest.mark.quick(10)
@pytest.mark.parametrize("kind", [ShiftAddShape, DigitShiftAddShape])
@pytest.mark.parametrize("factor, size", some(
    list(itertools.product([None, *FACTORS], SIZES)),
    [(factor, size) for k, size in enumerate(SIZES) for factor in (None, FACTORS[k % len(FACTORS)])]))
def test_shift_add_multiplies(kind, size, factor):
    bits, drop, interval = size
    rng = np.random.default_rng(bits)
    mask = (1 << bits) - 1
    known = {} if factor is None else {"ones": factor & mask, "zeros": ~factor & mask}
    shape = kind(value=signed(9), factor_bits=bits, drop=drop, interval=interval, **known)
    unit = shape.build()
    values = [-256, 255, *rng.integers(-256, 256, 20).tolist()]
    factors = [mask, *rng.integers(0, 1 << bits, 21).tolist()] if factor is None else [factor & mask] * 22
    products = [a * b for a, b in zip(values, factors, strict=True)]
    got = []

    async def bench(ctx):
        for cycle in range(len(values) * interval + shape.latency):
            here, late = divmod(cycle, interval)
            ctx.set(unit.i_valid, late == 0 and here < len(values))
            if late == 0 and here < len(values):
                ctx.set(unit.i_value, values[here])
                ctx.set(unit.i_factor, factors[here])
            await ctx.tick()
            if ctx.get(unit.o_valid):
                got.append((ctx.get(unit.o_product), ctx.get(unit.o_sticky)))

    run(unit, bench)
    assert got == [(p >> shape.dropped, int(p % (1 << shape.dropped) > 0)) for p in products]


@pytest.mark.quick(5)
@pytest.mark.parametrize("name, interval", some(
    list(itertools.product(CONSTANTS, [1, 4, 12])),
    {*itertools.product(CONSTANTS, [4]), *itertools.product(["mixed"], [1, 12])}))
def test_a_requantizer_takes_digits_where_the_family_wants_them(name, interval):
    bias, multiplier, shift = CONSTANTS[name]
    unit = make(bias=bias, multiplier=multiplier, shift=shift, interval=interval, style=FABRIC, like=ICE40())
    assert shift_add_of(unit.plan.technology) is DigitShiftAddShape
    assert unit.plan.multiplier is None or isinstance(unit.plan.multiplier, DigitShiftAddShape)
    check(unit, list(range(-32, 32)), interval)
