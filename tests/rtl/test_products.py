"""Every product of every pair of narrow operands."""

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import signed, unsigned
from hwflow_rtl.products import Operand, ProductShape
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.harness import simulator

BIPOLAR = Operand(unsigned(1), bipolar=True)
OPERANDS = [BIPOLAR, *(Operand(shape(bits)) for bits in (1, 2, 3, 6) for shape in (signed, unsigned))]
PAIRS = [(a, b) for a in OPERANDS for b in OPERANDS if a.width + b.width <= 8]


def name(pair) -> str:
    return " x ".join("bipolar" if operand.bipolar else repr(operand.shape) for operand in pair)


def numbers(operand: Operand) -> list[int]:
    """Every number of the operand, in the order of its bits."""
    return [operand.meaning(bits) for bits in range(1 << operand.width)]


@pytest.mark.parametrize("pair", PAIRS, ids=name)
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

    sim = simulator(unit)
    sim.add_testbench(testbench)
    sim.run()
    products = [element.meaning(a) * weight.meaning(b) for a, b in bits]
    results = [tuple(2 * p - 1 if shape.counts else p for p in both) for both in found[latency:]]
    assert results == list(zip(products, reversed(products), strict=True))


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
