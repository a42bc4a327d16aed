"""Sums of two elements: every pair of values, every kind of constant, against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.join.add import AddFunction
from hwflow_rtl.join.add_rounded import rounded_half_even
from hwflow_rtl.join.join import JoinFunction, JoinShape, JoinStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.vendor import ECP5, FAMILIES, Generic

from tests.random_cases import covering, seeds
from tests.rtl.harness import simulate

BIPOLAR = Operand(Shape(1), bipolar=True)
INT4, UINT4, INT8 = Operand(signed(4)), Operand(unsigned(4)), Operand(signed(8))


def codes_of(operand: Operand) -> np.ndarray:
    """All integers of the shape."""
    low, high = (0, 1) if operand.bipolar else operand.range
    return np.arange(low, high + 1)


def ends_of(shape: Shape) -> tuple[int, int]:
    return Operand(shape).range


def all_pairs(operands: tuple[Operand, Operand]) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(*(codes_of(operand) for operand in operands), indexing="ij")
    return a.reshape(-1), b.reshape(-1)


def through(function: JoinFunction, a: np.ndarray, b: np.ndarray, technology=None) -> np.ndarray:
    """What a stage with one lane makes of these codes, a pair in every cycle."""
    count = len(a)
    shape = JoinStageShape(streams=JoinShape(count, 1, (count, count), (1, 1)), function=function)
    stage = shape.build(technology or Generic(), "join")
    traces = simulate(stage, sends={"i0": a.reshape(-1, 1), "i1": b.reshape(-1, 1)}, receives={"o": count})
    assert traces["o"].span == count
    assert traces["o"].cycles[0] == shape.latency(stage.technology)
    return traces["o"].beats.reshape(-1)


def expected_of(f: AddFunction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By exact fractions; Python rounds ties to even."""
    found = []
    for pair in zip(*(o.decoded(c).tolist() for o, c in zip(f.operands, (a, b), strict=True)), strict=True):
        exact = sum(m * (x - z) for m, x, z in zip(f.sum.factors, pair, f.sum.zero_points, strict=True))
        value = round(Fraction(exact, 1 << f.sum.shift)) + f.sum.zero_point
        found.append(min(max(value, f.sum.low), f.sum.high))
    return np.array(found)


def prove(function: AddFunction, a: np.ndarray, b: np.ndarray) -> None:
    expected = expected_of(function, a, b)
    assert np.array_equal(function.model(a, b), expected)
    assert np.array_equal(through(function, a, b), expected)


CONSTANTS = [
    ((1, 1), 1), ((1, -1), 1), ((3, 5), 2), ((3, 5), 4), ((-7, 1), 3), ((0, 3), 1), ((5, 0), 2), ((0, 0), 3),
    ((1, 1), 0), ((12, 20), 3), ((-1, -1), 2), ((262143, -131073), 18), ((1 << 20, 3 << 19), 20), ((177, 177), 50)]
#: Zero point, low, high, output.
RESULTS = [
    (0, -8, 7, signed(4)), (1, -8, 7, signed(4)), (-3, -3, 6, signed(4)), (4, 3, 13, unsigned(4)),
    (2, 2, 2, unsigned(4)), (-1, -128, 127, signed(8)), (40, 0, 1, unsigned(1))]
OPERANDS = [
    ((INT4, INT4), (1, -2)), ((UINT4, INT4), (15, 0)), ((INT4, BIPOLAR), (3, 0)),
    ((BIPOLAR, Operand(unsigned(6))), (0, 20)), ((Operand(signed(3)), Operand(unsigned(4))), (-100, 77))]


def some(*choices: list) -> list:
    """Every pair of choices; all but those on one diagonal are slow tests."""
    diagonal = [tuple(each[n % len(each)] for each in choices) for n in range(max(map(len, choices)))]
    others = [case for case in covering(*choices) if case not in diagonal]
    return [*diagonal, *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]


@pytest.mark.parametrize("constants, result, operands", some(CONSTANTS, RESULTS, OPERANDS), ids=str)
def test_every_pair(constants, result, operands) -> None:
    """Even and odd distances of the zero point from `low` round ties differently; clamps meet them at their ends."""
    (multipliers, shift), (zero_point, low, high, output), (shapes, zero_points) = constants, result, operands
    prove(AddFunction.of(operands=shapes, zero_points=zero_points, multipliers=multipliers, shift=shift,
                         zero_point=zero_point, low=low, high=high, output=output), *all_pairs(shapes))


@pytest.mark.parametrize("a, b", [
    (BIPOLAR, Operand(unsigned(2))), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [
        (BIPOLAR, BIPOLAR), (Operand(signed(1)), Operand(unsigned(2))), (Operand(signed(3)), Operand(unsigned(3)))])],
    ids=str)
def test_narrow_pairs_are_one_table(a: Operand, b: Operand) -> None:
    for multipliers, zero_point in product([(1, 1), (3, -1), (5, 7)], [0, 1]):
        function = AddFunction.of(operands=(a, b), zero_points=(0, 0), multipliers=multipliers, shift=1,
                                  zero_point=zero_point, low=-4, high=3, output=signed(3))
        assert function.is_narrow
        prove(function, *all_pairs((a, b)))


def random_function(seed: int, most_bits: int) -> AddFunction:
    """Any widths, multipliers of up to 18 significant bits and of any sign, shifts that leave something to see."""
    source = np.random.default_rng(seed)
    def operand() -> Operand:
        width = int(source.integers(1, most_bits + 1))
        return BIPOLAR if source.random() < 0.1 else Operand(Shape(width, bool(source.integers(2))))

    operands = (operand(), operand())
    output = Shape(int(source.integers(1, most_bits + 1)), bool(source.integers(2)))
    least, most = ends_of(output)
    low, high = sorted(int(source.integers(least, most + 1)) for _ in range(2))
    if source.random() < 0.5:
        low, high = least, most
    places = int(source.integers(0, 10))
    multipliers = tuple(int(source.integers(-(1 << 18) + 1, 1 << 18)) << places for _ in range(2))
    reach = max(max(abs(end) for end in o.range) for o in operands).bit_length() + 18 + places
    zero_points = tuple(0 if o.bipolar else int(source.integers(o.range[0], o.range[1] + 1)) for o in operands)
    return AddFunction.of(
        operands=operands, zero_points=zero_points, multipliers=multipliers,
        shift=max(0, min(62, reach - output.width + int(source.integers(-3, 4)))),
        zero_point=int(source.integers(low, high + 1)), low=low, high=high, output=output)


@seeds(quick=range(5), slow=range(5, 30))
def test_random_sums(seed: int) -> None:
    function = random_function(seed, 32 if seed % 3 == 0 else 9)
    source = np.random.default_rng(seed)
    picks = []
    for operand in function.operands:
        low, high = (0, 1) if operand.bipolar else operand.range
        picks.append(np.concatenate([source.integers(low, high + 1, 100), [low, low, high, high]]))
    picks[1][-3:] = picks[1][-1], picks[1][-4], picks[1][-1]
    prove(function, *picks)


def test_rounding_is_pythons() -> None:
    for number in range(-70, 70):
        for shift in range(5):
            assert rounded_half_even(number, shift) == round(Fraction(number, 1 << shift))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_no_multiplier_blocks(family) -> None:
    """And the same cycles in every family: those that a simulation with generic parts has."""
    technology = family()
    function = AddFunction.of(operands=(INT8, INT8), zero_points=(3, -7), multipliers=(131071, -99999), shift=17,
                              zero_point=-5, low=-128, high=127, output=signed(8))
    shape = JoinStageShape(streams=JoinShape(64, 4, (64, 64), (4, 4)), function=function)
    cost = shape.cost(technology)
    assert cost.dsp == 0
    assert function.cost(technology).ram == 0
    text = rtlil.convert(shape.build(technology, "join"))
    assert not any(block in text for block in ("MULT18X18", "SB_MAC16", "MULT9X9", "$mul"))
    assert shape.latency(technology) == shape.latency(Generic())


def test_a_sum_of_bytes_is_worth_less_than_half_a_multiplier() -> None:
    function = AddFunction.of(operands=(INT8, INT8), zero_points=(3, -7), multipliers=(201773, -99999), shift=17,
                              zero_point=-5, low=-128, high=127, output=signed(8))
    assert function.cost(ECP5()).lut < 536 / 2


def test_simple_constants_are_additions() -> None:
    """The mean of two elements is one adder, not tables."""
    mean = AddFunction.of(operands=(INT8, INT8), zero_points=(0, 0), multipliers=(1, 1), shift=1, zero_point=0,
                          low=-128, high=127, output=signed(8))
    assert mean.cost(ECP5()).lut < 50
    assert len(mean.sum.ways.tables) == 0
