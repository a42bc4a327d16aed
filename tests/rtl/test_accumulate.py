"""Sums of products: every sum of every length, of the generic unit and of the one in the fabric, against numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin, Timing
from hwflow_rtl.vendor.accumulate import LATENCY, FabricMultiplyAccumulate
from hwflow_rtl.vendor.base import MultiplyAccumulate

from tests.rtl.harness import run
from tests.rtl.test_products import bits_of

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
