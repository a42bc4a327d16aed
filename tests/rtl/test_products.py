"""Every product of every pair of narrow operands."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin, Timing
from hwflow_rtl.vendor.accumulate import LATENCY, FabricMultiplyAccumulate
from hwflow_rtl.vendor.base import MultiplyAccumulate
from hwflow_rtl.vendor.pairs import packing

from tests.rtl.harness import run

PAIRS, LOGIC = MultiplierStyle.PAIRS, MultiplierStyle.LOGIC
BIPOLAR = Operand(unsigned(1), bipolar=True)
OPERANDS = [BIPOLAR, *(Operand(shape(bits)) for bits in (1, 2, 3, 6) for shape in (signed, unsigned))]
BOTH = [(a, b) for a in OPERANDS for b in OPERANDS if a.width + b.width <= 8]


def name(pair) -> str:
    return " x ".join("bipolar" if operand.bipolar else repr(operand.shape) for operand in pair)


def numbers(operand: Operand) -> list[int]:
    """Every number of the operand, in the order of its bits."""
    return [operand.meaning(bits) for bits in range(1 << operand.width)]


@pytest.mark.quick(23)
@pytest.mark.parametrize("pair", BOTH, ids=name)
def test_every_product(pair):
    element, weight = pair
    shape, technology = ProductShape(element, weight), Generic(timing=Timing(multiply=3))
    unit, latency = shape.unit(2, technology), shape.latency(technology)
    assert latency == (1 if shape.in_logic else 3)
    # The second lane goes through the pairs backwards.
    bits = [(a, b) for a in range(1 << element.width) for b in range(1 << weight.width)]
    found = []

    async def testbench(ctx):
        for k in range(len(bits) + latency):
            for lane, (a, b) in enumerate((bits[k % len(bits)], bits[-1 - k % len(bits)])):
                ctx.set(unit.a.as_value()[lane * element.width:(lane + 1) * element.width], a)
                ctx.set(unit.b.as_value()[lane * weight.width:(lane + 1) * weight.width], b)
            *_, first, second = await ctx.tick().sample(unit.p[0], unit.p[1])
            found.append((first, second))

    run(unit, testbench)
    products = [element.meaning(a) * weight.meaning(b) for a, b in bits]
    results = [tuple(2 * p - 1 if shape.counts else p for p in both) for both in found[latency:]]
    assert results == list(zip(products, reversed(products), strict=True))


def bits_of(numbers: np.ndarray, width: int) -> list[int]:
    """Rows of integers, each row one word, the first in its lowest bits."""
    return [sum((value & ((1 << width) - 1)) << (k * width) for k, value in enumerate(row)) for row in numbers.tolist()]


def products_of(shape: ProductShape, technology, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the unit makes of elements [cycles, count / sharing] and weights [cycles, count], in simulation."""
    unit, latency = shape.unit(b.shape[1], technology), shape.latency(technology)
    words = list(zip(bits_of(a, shape.element.width), bits_of(b, shape.weight.width), strict=True))
    found = []

    async def testbench(ctx):
        for elements, weights in words + words[:1] * latency:
            ctx.set(unit.a.as_value(), elements)
            ctx.set(unit.b.as_value(), weights)
            *_, products = await ctx.tick().sample(unit.p.as_value())
            found.append(products)

    run(unit, testbench)
    width = shape.shape.width
    made = np.array([[word >> (k * width) & ((1 << width) - 1) for k in range(b.shape[1])] for word in found[latency:]])
    return np.where(shape.shape.signed & (made >> (width - 1) == 1), made - (1 << width), made)


def every(shape, copies: int = 1) -> np.ndarray:
    return np.array([Operand(shape).meaning(bits) for bits in range(1 << shape.width)])


#: Elements and weights; 18 bits hold two of the weights and a product.
NARROW = [(signed(8), signed(4)), (unsigned(8), signed(4)), (signed(8), unsigned(4)), (unsigned(8), unsigned(4)),
          (signed(8), signed(3)), (unsigned(5), signed(5)), (signed(4), signed(6)), (signed(3), unsigned(6))]


@pytest.mark.parametrize(("a", "b"), NARROW, ids=str)
def test_arithmetic_of_pairs(a, b):
    """Every triple of operands, in integers: the product of the packed weights holds both products."""
    shift = packing(a, b, 18)
    x, high, low = np.meshgrid(every(a), every(b), every(b), indexing="ij")
    product = x * ((high << shift) + low)
    assert product.min() >= -(1 << 35)
    assert product.max() < 1 << 36
    field = product & ((1 << shift) - 1)
    negative = (field >> (shift - 1)) * (a.signed or b.signed)
    assert np.array_equal(field - (negative << shift), x * low)
    assert np.array_equal((product >> shift) + negative, x * high)


@pytest.mark.parametrize(("a", "b"), [
    NARROW[0], NARROW[5], *(pytest.param(*both, marks=pytest.mark.slow) for both in NARROW[1:4])], ids=str)
def test_every_triple_of_pairs(a, b):
    """In the unit: with eight pairs a cycle each element meets each two weights."""
    shape, technology = ProductShape(Operand(a), Operand(b), PAIRS), Generic(timing=Timing(multiply=4), like=ECP5())
    x, high, low = (part.reshape(-1, 16) for part in np.meshgrid(every(a), every(b), every(b), indexing="ij"))
    weights = np.stack([low, high], axis=2).reshape(len(x), -1)
    assert np.array_equal(products_of(shape, technology, x, weights), np.repeat(x, 2, axis=1) * weights)


@pytest.mark.parametrize(("a", "b", "limit", "shift"), [
    (signed(8), signed(4), 18, 12), (signed(8), signed(5), 18, None), (unsigned(8), unsigned(5), 18, 13),
    (signed(8), signed(4), 16, None), (signed(7), signed(5), 18, 12), (signed(9), signed(4), 18, 13),
    (signed(10), signed(4), 18, None), (signed(4), signed(8), 18, None), (signed(19), signed(3), 18, None)])
def test_widths_of_pairs(a, b, limit, shift):
    assert packing(a, b, limit) == shift


@pytest.mark.parametrize("like", [ECP5(), ICE40()], ids=lambda like: like.name)
@pytest.mark.parametrize(("a", "b"), [
    *((a(n), b(k)) for n, k in ((3, 3), (3, 5), (6, 4)) for a in (signed, unsigned) for b in (signed, unsigned)),
    *(pytest.param(a(n), b(k), marks=pytest.mark.slow) for n, k in ((4, 3), (5, 5), (7, 3), (8, 8))
      for a in (signed, unsigned) for b in (signed, unsigned))], ids=str)
def test_every_product_in_logic(a, b, like):
    shape, technology = ProductShape(Operand(a), Operand(b), LOGIC), Generic(timing=Timing(multiply=4), like=like)
    x, y = (part.reshape(-1, 32 if a.width + b.width > 12 else 4) for part in np.meshgrid(every(a), every(b)))
    assert np.array_equal(products_of(shape, technology, x, y), x * y)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("a", "b"), [(signed(16), signed(16)), (unsigned(16), signed(13)), (signed(11), unsigned(16)),
                                      (unsigned(16), unsigned(16)), (signed(16), signed(3))], ids=str)
def test_wide_products_in_logic(a, b):
    """Corners with each other, and any others."""
    rng = np.random.default_rng(a.width * b.width)
    x, y = (np.concatenate([np.tile(ends, 5) if k else np.repeat(ends, 5), rng.integers(ends[0], ends[-1] + 1, 1975)])
            for k, shape in enumerate((a, b))
            for ends in [np.array([every(shape).min(), *((0, 1, 5) if not shape.signed else (-1, 0, 1)),
                                   every(shape).max()])])
    shape = ProductShape(Operand(a), Operand(b), LOGIC)
    assert np.array_equal(products_of(shape, Generic(), x.reshape(-1, 4), y.reshape(-1, 4)), (x * y).reshape(-1, 4))


@pytest.mark.parametrize(("operands", "style", "technology", "message"), [
    ((8, 8), PAIRS, ECP5(), r"style of products of signed\(8\) and signed\(8\) must be one of blocks, macs, logic on "
                            "ecp5, not pairs"),
    ((8, 4), PAIRS, ICE40(), r"signed\(8\) and signed\(4\) must be one of blocks, logic on ice40, not pairs"),
    ((8, 4), PAIRS, Gowin(), r"signed\(8\) and signed\(4\) must be one of blocks, logic on gowin, not pairs"),
    ((17, 4), LOGIC, Generic(), r"signed\(17\) and signed\(4\) must be one of blocks, macs on generic, not logic")])
def test_styles_that_a_family_does_not_offer_are_refused(operands, style, technology, message):
    shape = ProductShape(*(Operand(signed(width)) for width in operands), style)
    for refused in (lambda: shape.cost(2, technology), lambda: shape.unit(2, technology)):
        with pytest.raises(ValueError, match=message):
            refused()


def test_products_of_few_bits_have_one_style():
    with pytest.raises(ValueError, match=r"style of products of signed\(8\) and signed\(2\) must be blocks, not logic"):
        ProductShape(Operand(signed(8)), Operand(signed(2)), LOGIC)


@pytest.mark.parametrize("operand", OPERANDS, ids=lambda operand: name((operand,)))
def test_codes_mean_numbers(operand):
    every = np.array(numbers(operand))
    assert operand.holds(every)
    assert (every.min(), every.max()) == operand.range
    assert operand.decoded(operand.encoded(every)).tolist() == every.tolist()
    assert not operand.holds(every - 1)
    assert not operand.holds(every + 1)


def test_narrow_products_take_no_multiplier_blocks():
    def cells(a: Operand, b: Operand):
        shape = ProductShape(a, b)
        text = rtlil.convert(shape.unit(4, ECP5()))
        assert shape.cost(4, ECP5()).dsp == text.count("MULT18X18D")
        assert "$mul" not in text
        return shape.cost(4, ECP5())

    int2, int3, int8 = (Operand(signed(bits)) for bits in (2, 3, 8))
    assert cells(int3, int8).dsp == 4
    assert cells(int2, int8).dsp == cells(int8, int2).dsp == cells(BIPOLAR, int8).dsp == 0
    assert cells(BIPOLAR, BIPOLAR).lut == 4
    assert cells(int2, int2).lut == 16
    assert cells(int2, int8).lut > 40


# Sums of products: every sum of every length, of the generic unit and of the one in the fabric, against numpy


IntArray = npt.NDArray[np.int64]

#: Operands, and sums: as wide as a stage's, too narrow for them all, so that they wrap around, and the widest.
CASES = [(signed(8), signed(8), signed(22)), (unsigned(8), signed(8), signed(17)), (signed(5), unsigned(8), signed(30)),
         (unsigned(9), unsigned(4), unsigned(20)), (signed(18), signed(18), signed(52)),
         (unsigned(18), signed(18), signed(50)), (signed(8), signed(8), signed(9)), (signed(4), signed(4), signed(52))]


def ends_of(shape: Shape) -> tuple[int, int]:
    return (-1 << (shape.width - 1), (1 << (shape.width - 1)) - 1) if shape.signed else (0, (1 << shape.width) - 1)


def operands(a: Shape, b: Shape, cycles: int, count: int, seed: int) -> tuple[IntArray, IntArray, IntArray]:
    """`more` [cycles], a and b [cycles, 2 * count]: sums of 1, 2, 3... beats, one after the other, then of any length.

    Every third operand is the lowest or the highest there is.
    """
    rng = np.random.default_rng(seed)
    more = (rng.random(cycles) < 0.8).astype(np.int64)
    starts = np.cumsum(np.arange(20))
    more[:starts[-1]] = 1
    more[starts[starts < cycles]] = 0
    both = []
    for shape in (a, b):
        low, high = ends_of(shape)
        values = rng.integers(low, high + 1, (cycles, 2 * count))
        both.append(np.where(rng.random(values.shape) < 1 / 3, rng.choice([low, high], values.shape), values))
    return more, *both


def sums_of(more: IntArray, a: IntArray, b: IntArray, total: Shape) -> IntArray:
    """[cycles, count], wrapped around in `total`."""
    pairs = (a.astype(object) * b).reshape(len(a), -1, 2).sum(axis=2)
    sums, so_far = [], np.zeros(pairs.shape[1], dtype=object)
    for go_on, pair in zip(more, pairs, strict=True):
        so_far = so_far * int(go_on) + pair
        sums.append(so_far)
    wrapped = np.array(sums, dtype=object) % (1 << total.width)
    low, _ = ends_of(total)
    return np.where(wrapped >= (1 << total.width) + low, wrapped - (1 << total.width), wrapped)


def simulated(unit: MultiplyAccumulate, latency: int, more: IntArray, a: IntArray, b: IntArray) -> list[int]:
    """The words of sums, from the first that is known on."""
    widths = (Shape.cast(port.shape().elem_shape).width for port in (unit.a, unit.b))
    words = [bits_of(values, width) for values, width in zip((a, b), widths, strict=True)]
    cycles = [*zip(more.tolist(), *words, strict=True)]
    found = []

    async def testbench(ctx):
        for go_on, elements, weights in cycles + cycles[:1] * latency:
            ctx.set(unit.more, go_on)
            ctx.set(unit.a.as_value(), elements)
            ctx.set(unit.b.as_value(), weights)
            *_, sums = await ctx.tick().sample(unit.t.as_value())
            found.append(sums)

    run(unit, testbench)
    return found[latency:]


@pytest.mark.parametrize("latency", [1, 2, 4])
@pytest.mark.parametrize(("a", "b", "total"), CASES, ids=str)
def test_every_sum_of_the_generic_unit(a, b, total, latency):
    given = operands(a, b, 250, 3, a.width)
    unit = Generic(timing=Timing(multiply=4, accumulate=latency)).multiply_accumulate(count=3, a=a, b=b, total=total)
    assert simulated(unit, latency, *given) == bits_of(sums_of(*given, total), total.width)


@pytest.mark.parametrize("multiply", [1, 2, 4])
@pytest.mark.parametrize(("a", "b", "total"), CASES[::2], ids=str)
def test_every_sum_in_the_fabric(a, b, total, multiply):
    given = operands(a, b, 250, 2, b.width)
    multipliers = Generic(timing=Timing(multiply=multiply)).multipliers(count=4, a=a, b=b)
    unit = FabricMultiplyAccumulate(multipliers=multipliers, latency=multiply, total=total)
    assert simulated(unit, multiply + LATENCY, *given) == bits_of(sums_of(*given, total), total.width)


def test_every_family_has_sums_of_products_and_only_ecp5_makes_them_in_blocks():
    a, b, total = signed(8), signed(8), signed(24)
    for technology, blocks in ((ECP5(), True), (ICE40(), False), (Gowin(), False)):
        unit = technology.multiply_accumulate(count=2, a=a, b=b, total=total)
        assert isinstance(unit, FabricMultiplyAccumulate) is not blocks
        assert technology.accumulates(a, b) is blocks
        assert (MultiplierStyle.MACS in technology.styles(a, b)) is blocks
        cost = technology.multiply_accumulate_cost(count=2, a=a, b=b, total=total)
        assert cost.dsp == technology.multipliers_cost(count=4, a=a, b=b).dsp
        twin = Generic(timing=technology.timing, like=technology)
        assert twin.multiply_accumulate_cost(count=2, a=a, b=b, total=total) == cost
        assert twin.accumulates(a, b) is blocks


def test_no_sum_is_wider_than_the_alu():
    with pytest.raises(ValueError, match=r"sums of an ECP5's multipliers must be at most 52 bits wide, not signed"):
        ECP5().multiply_accumulate(count=1, a=signed(8), b=signed(8), total=signed(53)).elaborate(None)


def test_products_that_are_added_up_are_not_there_one_by_one():
    shape = ProductShape(Operand(signed(8)), Operand(signed(8)), MultiplierStyle.MACS)
    for asked in (shape.unit, shape.cost):
        with pytest.raises(ValueError, match="products of style macs must be asked for as sums, not one by one"):
            asked(4, ECP5())
    for asked in (shape.sums_unit, shape.sums_cost):
        with pytest.raises(ValueError, match="must be one of blocks, logic on gowin, not macs"):
            asked(4, signed(24), Gowin())
