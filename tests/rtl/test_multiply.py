"""Products of two elements: every pair of narrow values, wide operands, against exact fractions."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Shape, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.join.join import JoinShape, JoinStageShape
from hwflow_rtl.join.multiply import BlockProduct, MultiplyFunction, RowProduct, product_of
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.vendor import ECP5, FAMILIES, ICE40, Generic, Gowin, Technology, Timing

from tests.random_cases import seeds
from tests.rtl.harness import simulate
from tests.rtl.test_add import BIPOLAR, INT4, INT8, UINT4, all_pairs, ends_of, some, through


def expected_of(f: MultiplyFunction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By exact fractions; Python rounds ties to even."""
    found = []
    for x, y in zip(*(o.decoded(c).tolist() for o, c in zip(f.operands, (a, b), strict=True)), strict=True):
        exact = (x - f.zero_points[0]) * (y - f.zero_points[1]) * f.multiplier
        found.append(min(max(round(Fraction(exact, 1 << f.shift)) + f.zero_point, f.low), f.high))
    return np.array(found)


def prove(function: MultiplyFunction, a: np.ndarray, b: np.ndarray, technology=None) -> None:
    expected = expected_of(function, a, b)
    assert np.array_equal(function.model(a, b), expected)
    assert np.array_equal(through(function, a, b, technology), expected)


CONSTANTS = [(1, 2), (-1, 3), (3, 4), (0, 1), (262143, 20), (-13, 5), (5 << 20, 24), (1, 0)]
#: Zero point, low, high, output.
RESULTS = [(0, -8, 7, signed(4)), (4, 3, 13, unsigned(4)), (-1, -128, 127, signed(8))]
OPERANDS = [
    ((INT4, INT4), (1, -2)), ((UINT4, INT4), (15, 0)), ((INT4, UINT4), (0, 0)),
    ((BIPOLAR, Operand(signed(6))), (0, 0)), ((Operand(unsigned(7)), Operand(unsigned(1))), (3, 0)),
    ((Operand(signed(1)), Operand(signed(6))), (0, 9)), ((BIPOLAR, BIPOLAR), (0, 0)),
    ((Operand(signed(2)), UINT4), (1, 1))]


@pytest.mark.parametrize("constants, result, operands", some(CONSTANTS, RESULTS, OPERANDS), ids=str)
def test_every_pair(constants, result, operands) -> None:
    (multiplier, shift), (zero_point, low, high, output), (shapes, zero_points) = constants, result, operands
    prove(MultiplyFunction(shapes, output, zero_points, multiplier, shift, zero_point, low, high), *all_pairs(shapes))


def random_function(seed: int, most_bits: int) -> MultiplyFunction:
    """Any widths whose exact result fits 63 bits."""
    source = np.random.default_rng(seed)
    operands = []
    for _ in range(2):
        shape = Shape(int(source.integers(1, most_bits + 1)), bool(source.integers(2)))
        operands.append(BIPOLAR if source.random() < 0.1 else Operand(shape))
    output = Shape(int(source.integers(1, 17)), bool(source.integers(2)))
    least, most = ends_of(output)
    low, high = sorted(int(source.integers(least, most + 1)) for _ in range(2))
    if source.random() < 0.5:
        low, high = least, most
    bits = min(18, 62 - sum(o.width + 1 for o in operands))
    zero_points = [0 if o.bipolar or source.random() < 0.3 else int(source.integers(o.range[0], o.range[1] + 1))
                   for o in operands]
    reach = sum(o.width for o in operands) + bits
    return MultiplyFunction(
        tuple(operands), output, tuple(zero_points), int(source.integers(-(1 << bits) + 1, 1 << bits)),
        max(0, min(62, reach - output.width - int(source.integers(0, 4)))), int(source.integers(low, high + 1)), low,
        high)


@seeds(quick=range(4), slow=range(4, 30))
def test_random_products(seed: int) -> None:
    """Formats of up to 24 bits; parts of the product in blocks, in rows, or both."""
    function = random_function(seed, 24 if seed % 2 else 9)
    source, picks = np.random.default_rng(seed), []
    for operand in function.operands:
        low, high = (0, 1) if operand.bipolar else operand.range
        picks.append(np.concatenate([source.integers(low, high + 1, 60), [low, high, low, high]]))
    picks[1][-2:] = picks[1][-2:][::-1]
    prove(function, *picks, Generic(timing=Timing(multiply=3 + seed % 2)))


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
    for family, pattern, worth in ((ECP5, "MULT18X18D", 1), (ICE40, "SB_MAC16", 1), (Gowin, r"MULT(?:9X9|18X18)", 2)):
        text = rtlil.convert(Product(unit, family()))
        found = re.findall(rf"^ *cell \\({pattern}) ", text, re.MULTILINE)
        assert unit.cost(family()).dsp == sum(1 if name == "MULT9X9" else worth for name in found)
        assert len(found) == blocks


BLOCKLESS = ICE40(has_multipliers=False)


@pytest.mark.parametrize("bits, signs", [(16, (True, False)), (18, (True, True)), (16, (False, False))])
def test_rows_multiply_where_a_device_has_no_blocks(bits: int, signs: tuple[bool, bool]) -> None:
    """Extremes and random numbers of wide operands, at the cycle that the unit states for the device."""
    operands = Operand(Shape(bits, signs[0])), Operand(Shape(16, signs[1]))
    function = MultiplyFunction(operands, signed(16), (0, 7), 201, bits + 8, 3, -32768, 32767)
    assert isinstance(function.product, BlockProduct)
    source, picks = np.random.default_rng(bits), []
    for n, operand in enumerate(operands):
        low, high = operand.range
        ends = [low, high, low, high] if n else [low, low, high, high]
        picks.append(np.concatenate([source.integers(low, high + 1, 40), ends]))
    prove(function, *picks, Generic(timing=BLOCKLESS.timing, like=BLOCKLESS))
    assert function.cost(BLOCKLESS).dsp == 0 < function.cost(ICE40()).dsp
    assert "SB_MAC16" not in rtlil.convert(Product(function.product, BLOCKLESS))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_cycles_are_those_of_generic_parts(family) -> None:
    technology = family()
    for bits in (2, 8, 16, 20):
        function = MultiplyFunction(
            (INT8, Operand(signed(bits))), signed(8), (-128, 0), 77777, 20, 0, -128, 127)
        assert function.latency(technology) == function.latency(Generic(timing=technology.timing))


def test_the_gate_of_a_squeeze_and_excitation_block() -> None:
    """One pixel of 6 channels for all 12 pixels, 3 lanes, frames without a gap."""
    gate = MultiplyFunction((INT8, INT8), signed(8), (3, -128), 513, 17, -5, -128, 127)
    shape, source = JoinShape(24, 3, (24, 2), (3, 3)), np.random.default_rng(0)
    x, g = source.integers(-128, 128, (4, 12, 6)), source.integers(-128, 128, (4, 1, 6))
    expected = expected_of(gate, x.reshape(-1), np.broadcast_to(g, x.shape).reshape(-1)).reshape(-1, 3)
    stage = JoinStageShape(streams=shape, function=gate).build(Generic(), "join")
    beats = {"i0": x.reshape(-1, 3), "i1": g.reshape(-1, 3)}
    assert np.array_equal(stage.model(*beats.values()), expected)
    traces = simulate(stage, sends=beats, receives={"o": len(expected)})
    assert np.array_equal(traces["o"].beats, expected)
    assert traces["o"].span == len(expected)
