"""What yosys makes of products in pairs and in logic, cell by cell in Verilator: all operands, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import FAMILIES

from tests.rtl.test_products import every
from tests.synth.test_unit_netlists import check_netlist, joined

PAIRS, LOGIC = MultiplierStyle.PAIRS, MultiplierStyle.LOGIC


@pytest.mark.slow
@pytest.mark.parametrize(("family", "style", "a", "b"), [
    ("ecp5", PAIRS, signed(8), signed(4)), ("ecp5", PAIRS, unsigned(8), signed(4)),
    ("ecp5", LOGIC, signed(8), signed(8)), ("ecp5", LOGIC, unsigned(8), signed(5)),
    ("ice40", LOGIC, signed(8), signed(8)), ("gowin", LOGIC, signed(8), signed(8))], ids=str)
def test_every_product_of_the_netlist_is_right(family: str, style: MultiplierStyle, a, b, tmp_path: Path,
                                               cache: Path) -> None:
    """Of pairs, every element with every two weights."""
    technology = FAMILIES[family]()
    shape = ProductShape(Operand(a), Operand(b), style)
    weights = [every(b)] * shape.sharing
    x, *factors = (part.reshape(-1) for part in np.meshgrid(every(a), *weights, indexing="ij"))
    columns = [(x, a.width), *((factor, b.width) for factor in factors)]
    expected = [((x * factor).tolist(), shape.shape.width) for factor in factors]
    unit = shape.unit(shape.sharing, technology)
    compared = check_netlist(tmp_path, cache, family, [unit], joined(columns), expected, shape.latency(technology))
    assert compared == len(x) * shape.sharing
