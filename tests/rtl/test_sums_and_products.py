"""Sums and products of two elements: every pair of narrow values, wide operands, against exact fractions."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Shape, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.join.add import AddFunction, rounded_half_even
from hwflow_rtl.join.join import JoinShape, JoinStageShape
from hwflow_rtl.join.multiply import BlockProduct, MultiplyFunction, RowProduct, product_of
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.vendor import ECP5, FAMILIES, ICE40, Generic, Gowin, Technology, Timing

from tests.random_cases import covering, seeds
from tests.rtl.harness import simulate
from tests.rtl.oracles import rescaled
from tests.rtl.units import ask

BIPOLAR = Operand(Shape(1), bipolar=True)
INT4, UINT4, INT8 = Operand(signed(4)), Operand(unsigned(4)), Operand(signed(8))
BLOCKLESS = ICE40(has_multipliers=False)
Function = AddFunction | MultiplyFunction


def ends_of(operand: Operand) -> tuple[int, int]:
    """The lowest and the highest code."""
    return (0, 1) if operand.bipolar else operand.range


def all_pairs(operands: tuple[Operand, Operand]) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(*(np.arange(low, high + 1) for low, high in map(ends_of, operands)), indexing="ij")
    return a.reshape(-1), b.reshape(-1)


def any_pairs(operands: tuple[Operand, Operand], count: int, source: np.random.Generator) -> list[np.ndarray]:
    """So many at random, and each end with each."""
    corners = zip(*product(*map(ends_of, operands)), strict=True)
    return [np.concatenate([source.integers(low, high + 1, count), ends])
            for (low, high), ends in zip(map(ends_of, operands), corners, strict=True)]


def expected_of(f: Function, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    pairs = zip(*(o.decoded(c).tolist() for o, c in zip(f.operands, (a, b), strict=True)), strict=True)
    if isinstance(f, AddFunction):
        rest = f.sum
        exact = [sum(m * (x - z) for m, x, z in zip(rest.factors, pair, rest.zero_points, strict=True))
                 for pair in pairs]
    else:
        rest = f
        exact = [(x - f.zero_points[0]) * (y - f.zero_points[1]) * f.multiplier for x, y in pairs]
    return np.array([rescaled(value, 1, rest.shift, zero_point=rest.zero_point, low=rest.low, high=rest.high)
                     for value in exact])


def prove(function: Function, a: np.ndarray, b: np.ndarray, technology: Technology | None = None) -> None:
    """Of the model and of a stage with one lane, which takes a pair in every cycle."""
    expected, count = expected_of(function, a, b), len(a)
    assert np.array_equal(function.model(a, b), expected)
    shape = JoinStageShape(streams=JoinShape(count, 1, (count, count), (1, 1)), function=function)
    stage = shape.build(technology or Generic(), "join")
    traces = simulate(stage, sends={"i0": a.reshape(-1, 1), "i1": b.reshape(-1, 1)}, receives={"o": count})
    assert np.array_equal(traces["o"].beats.reshape(-1), expected)
    assert traces["o"].span == count
    assert traces["o"].cycles[0] == shape.latency(stage.technology)


def some(*choices: list) -> list:
    """Every pair of choices; all but those on one diagonal are slow tests."""
    diagonal = [tuple(each[n % len(each)] for each in choices) for n in range(max(map(len, choices)))]
    others = [case for case in covering(*choices) if case not in diagonal]
    return [*diagonal, *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]


#: Zero point, low, high, output: even and odd distances of the zero point from `low` round ties differently.
RESULTS = [
    (0, -8, 7, signed(4)), (1, -8, 7, signed(4)), (-3, -3, 6, signed(4)), (4, 3, 13, unsigned(4)),
    (2, 2, 2, unsigned(4)), (-1, -128, 127, signed(8)), (40, 0, 1, unsigned(1))]


@pytest.mark.parametrize("constants, result, operands", some(
    [((1, 1), 1), ((1, -1), 1), ((3, 5), 2), ((3, 5), 4), ((-7, 1), 3), ((0, 3), 1), ((5, 0), 2), ((0, 0), 3),
     ((1, 1), 0), ((12, 20), 3), ((-1, -1), 2), ((262143, -131073), 18), ((1 << 20, 3 << 19), 20), ((177, 177), 50)],
    RESULTS,
    [((INT4, INT4), (1, -2)), ((UINT4, INT4), (15, 0)), ((INT4, BIPOLAR), (3, 0)),
     ((BIPOLAR, Operand(unsigned(6))), (0, 20)), ((Operand(signed(3)), Operand(unsigned(4))), (-100, 77))]), ids=str)
def test_every_sum(constants, result, operands) -> None:
    (multipliers, shift), (zero_point, low, high, output), (shapes, zero_points) = constants, result, operands
    prove(AddFunction.of(operands=shapes, zero_points=zero_points, multipliers=multipliers, shift=shift,
                         zero_point=zero_point, low=low, high=high, output=output), *all_pairs(shapes))


@pytest.mark.parametrize("constants, result, operands", some(
    [(1, 2), (-1, 3), (3, 4), (0, 1), (262143, 20), (-13, 5), (5 << 20, 24), (1, 0)],
    [RESULTS[0], RESULTS[3], RESULTS[5]],
    [((INT4, INT4), (1, -2)), ((UINT4, INT4), (15, 0)), ((INT4, UINT4), (0, 0)),
     ((BIPOLAR, Operand(signed(6))), (0, 0)), ((Operand(unsigned(7)), Operand(unsigned(1))), (3, 0)),
     ((Operand(signed(1)), Operand(signed(6))), (0, 9)), ((BIPOLAR, BIPOLAR), (0, 0)),
     ((Operand(signed(2)), UINT4), (1, 1))]), ids=str)
def test_every_product(constants, result, operands) -> None:
    (multiplier, shift), (zero_point, low, high, output), (shapes, zero_points) = constants, result, operands
    prove(MultiplyFunction(shapes, output, zero_points, multiplier, shift, zero_point, low, high), *all_pairs(shapes))


@pytest.mark.parametrize("a, b", [
    (BIPOLAR, Operand(unsigned(2))), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [
        (BIPOLAR, BIPOLAR), (Operand(signed(1)), Operand(unsigned(2))), (Operand(signed(3)), Operand(unsigned(3)))])],
    ids=str)
def test_narrow_sums_are_one_table(a: Operand, b: Operand) -> None:
    for multipliers, zero_point in product([(1, 1), (3, -1), (5, 7)], [0, 1]):
        function = AddFunction.of(operands=(a, b), zero_points=(0, 0), multipliers=multipliers, shift=1,
                                  zero_point=zero_point, low=-4, high=3, output=signed(3))
        assert function.is_narrow
        prove(function, *all_pairs((a, b)))


def random_parts(source: np.random.Generator, most_bits: int, out_bits: int) -> dict:
    """Two operands of any widths, an output, and what it may be: all of its range, or a part."""
    operands = tuple(BIPOLAR if source.random() < 0.1 else Operand(
        Shape(int(source.integers(1, most_bits + 1)), bool(source.integers(2)))) for _ in range(2))
    output = Shape(int(source.integers(1, out_bits + 1)), bool(source.integers(2)))
    low, high = ends_of(Operand(output))
    if source.random() < 0.5:
        low, high = sorted(int(n) for n in source.integers(low, high + 1, 2))
    zero_points = tuple(0 if o.bipolar or source.random() < 0.2 else int(source.integers(o.range[0], o.range[1] + 1))
                        for o in operands)
    return {"operands": operands, "output": output, "low": low, "high": high, "zero_points": zero_points,
            "zero_point": int(source.integers(low, high + 1))}


def random_sum(source: np.random.Generator, seed: int) -> AddFunction:
    """Multipliers of up to 18 significant bits and of any sign, shifts that leave something to see."""
    most_bits = 32 if seed % 3 == 0 else 9
    parts, places = random_parts(source, most_bits, most_bits), int(source.integers(0, 10))
    reach = max(max(abs(end) for end in o.range) for o in parts["operands"]).bit_length() + 18 + places
    return AddFunction.of(
        **parts, multipliers=tuple(int(source.integers(-(1 << 18) + 1, 1 << 18)) << places for _ in range(2)),
        shift=max(0, min(62, reach - parts["output"].width + int(source.integers(-3, 4)))))


def random_product(source: np.random.Generator, seed: int) -> MultiplyFunction:
    """Any widths whose exact result fits 63 bits; parts of the product in blocks, in rows, or both."""
    parts = random_parts(source, 24 if seed % 2 else 9, 16)
    widths = [o.width for o in parts["operands"]]
    bits = min(18, 60 - sum(widths))
    return MultiplyFunction(
        **parts, multiplier=int(source.integers(-(1 << bits) + 1, 1 << bits)),
        shift=max(0, min(62, sum(widths) + bits - parts["output"].width - int(source.integers(0, 4)))))


@pytest.mark.parametrize("make", [random_sum, random_product])
@seeds(quick=range(5), slow=range(5, 30))
def test_random_functions(make: Callable[[np.random.Generator, int], Function], seed: int) -> None:
    source = np.random.default_rng(seed)
    function = make(source, seed)
    prove(function, *any_pairs(function.operands, 80, source), Generic(timing=Timing(multiply=3 + seed % 2)))


def test_rounding_is_pythons() -> None:
    for number in range(-70, 70):
        for shift in range(5):
            assert rounded_half_even(number, shift) == round(Fraction(number, 1 << shift))


def weighted(*multipliers: int, zero_points: tuple[int, int] = (3, -7)) -> AddFunction:
    """A sum of two bytes."""
    return AddFunction.of(operands=(INT8, INT8), zero_points=zero_points, multipliers=multipliers, shift=17,
                          zero_point=-5, low=-128, high=127, output=signed(8))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_every_family_has_the_cycles_of_generic_parts(family: type[Technology]) -> None:
    """And multiplier blocks for products alone."""
    technology, generic, function = family(), Generic(timing=family().timing), weighted(131071, -99999)
    shape = JoinStageShape(streams=JoinShape(64, 4, (64, 64), (4, 4)), function=function)
    assert shape.cost(technology).dsp == function.cost(technology).ram == 0
    text = rtlil.convert(shape.build(technology, "join"))
    assert not any(block in text for block in ("MULT18X18", "SB_MAC16", "MULT9X9", "$mul"))
    assert shape.latency(technology) == shape.latency(Generic())
    for bits in (2, 8, 16, 20):
        gate = MultiplyFunction((INT8, Operand(signed(bits))), signed(8), (-128, 0), 77777, 20, 0, -128, 127)
        assert gate.latency(technology) == gate.latency(generic)


def test_what_sums_of_bytes_cost() -> None:
    """Less than half a multiplier; the mean of two elements is one adder, not tables."""
    assert weighted(201773, -99999).cost(ECP5()).lut < 536 / 2
    mean = AddFunction.of(operands=(INT8, INT8), zero_points=(0, 0), multipliers=(1, 1), shift=1, zero_point=0,
                          low=-128, high=127, output=signed(8))
    assert mean.cost(ECP5()).lut < 50
    assert len(mean.sum.ways.tables) == 0


@pytest.mark.parametrize("bits", [1, 3, 8, 12])
def test_what_multiplies_follows_from_the_price(bits: int) -> None:
    """Rows of adders for bytes, a block for 16 bits by 16; the choice is the same for all families."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert isinstance(product_of(((low, high), (-128, 127))), RowProduct)
    assert isinstance(product_of(((-32768, 32767), (-32768, 32767))), BlockProduct)


class Product(wiring.Component):
    """A product by itself."""

    def __init__(self, product: BlockProduct, technology: Technology):
        self.product = product
        self.technology = technology
        a, b = product.shapes
        super().__init__({"a": In(a), "b": In(b), "p": Out(a.width + b.width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.p.eq(self.product.build(m, self.a, self.b, self.technology))
        return m


@pytest.mark.parametrize("bits, blocks", [
    (16, 1), (18, 1), (20, 4), *(pytest.param(*each, marks=pytest.mark.slow) for each in [
        (9, 1), (17, 1), (31, 4), (33, 4)])])
def test_blocks_are_counted(bits: int, blocks: int) -> None:
    """Parts of one or two bits take none."""
    unit = BlockProduct(((-1 << (bits - 1), 0), (0, (1 << (bits - 1)) - 1)))
    for family, pattern, worth in ((ECP5, "MULT18X18D", 1), (ICE40, "SB_MAC16", 1), (Gowin, r"MULT(?:9X9|18X18)", 4)):
        text = rtlil.convert(Product(unit, family()))
        found = re.findall(rf"^ *cell \\({pattern}) ", text, re.MULTILINE)
        assert unit.cost(family()).dsp == sum(1 if name == "MULT9X9" else worth for name in found)
        assert len(found) == blocks


@pytest.mark.parametrize("bits, signs", [(16, (True, False)), (18, (True, True)), (16, (False, False))])
def test_rows_multiply_where_a_device_has_no_blocks(bits: int, signs: tuple[bool, bool]) -> None:
    """Ends and random numbers of wide operands, at the cycle that the unit states for the device."""
    operands = Operand(Shape(bits, signs[0])), Operand(Shape(16, signs[1]))
    function = MultiplyFunction(operands, signed(16), (0, 7), 201, bits + 8, 3, -32768, 32767)
    assert isinstance(function.product, BlockProduct)
    prove(function, *any_pairs(operands, 40, np.random.default_rng(bits)),
          Generic(timing=BLOCKLESS.timing, like=BLOCKLESS))
    assert function.cost(BLOCKLESS).dsp == 0 < function.cost(ICE40()).dsp
    assert "SB_MAC16" not in rtlil.convert(Product(function.product, BLOCKLESS))


def test_the_gate_of_a_squeeze_and_excitation_block() -> None:
    """One pixel of 6 channels for all 12 pixels, 3 lanes."""
    gate = MultiplyFunction((INT8, INT8), signed(8), (3, -128), 513, 17, -5, -128, 127)
    shape, source = JoinShape(24, 3, (24, 2), (3, 3)), np.random.default_rng(0)
    x, g = source.integers(-128, 128, (4, 12, 6)), source.integers(-128, 128, (4, 1, 6))
    expected = expected_of(gate, x.reshape(-1), np.broadcast_to(g, x.shape).reshape(-1)).reshape(-1, 3)
    ask(JoinStageShape(streams=shape, function=gate), Generic(), [x.reshape(4, 24, 3), g.reshape(4, 2, 3)], expected)
