"""What yosys makes of sums of products, cell by cell in Verilator: sums of every length of extreme operands."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.vendor import FAMILIES

from tests.rtl.test_accumulate import CASES, operands, sums_of
from tests.synth.test_unit_netlists import check_netlist, joined


@pytest.mark.parametrize(("family", "a", "b", "total"), [
    pytest.param("ecp5", signed(8), signed(8), signed(22), marks=pytest.mark.slow),
    *(pytest.param("ecp5", *case, marks=pytest.mark.slow) for case in CASES[1:]),
    pytest.param("ice40", signed(8), signed(8), signed(22), marks=pytest.mark.slow),
    pytest.param("gowin", unsigned(8), signed(8), signed(22), marks=pytest.mark.slow)], ids=str)
def test_every_sum_of_the_netlist_is_right(family: str, a: Shape, b: Shape, total: Shape, tmp_path: Path,
                                           cache: Path) -> None:
    technology, count, cycles = FAMILIES[family](), 2, 3000
    more, elements, weights = operands(a, b, cycles, count, total.width)
    columns = [(more, 1), *((values[:, k], shape.width) for values, shape in ((elements, a), (weights, b))
                            for k in range(2 * count))]
    sums = sums_of(more, elements, weights, total)
    expected = [(sums[:, n].tolist(), total.width) for n in range(count)]
    unit = technology.multiply_accumulate(count=count, a=a, b=b, total=total)
    compared = check_netlist(tmp_path, cache, family, [unit], joined(columns), expected, technology.timing.accumulate)
    assert compared == cycles * count
