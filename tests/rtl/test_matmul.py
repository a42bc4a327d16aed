"""The product of two computed matrices: values, cycles, pace, stalls, memories, refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.matmul.stage import Centred, MatMulShape, MatMulStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.vendor import Generic, Timing

from tests.rtl.units import ask

INT8, UINT8 = Centred(Operand(signed(8)), -3), Centred(Operand(unsigned(8)), 128)
TIMINGS = (Timing(multiply=4), Timing(multiply=1, rom=1, ram=1), Timing(multiply=3, rom=3, ram=1),
           Timing(multiply=2, rom=1, ram=3))


def shape_of(heads: int, rows: int, depth: int, columns: int, order: str, together: int, cols: int, lanes: int = 1,
             interleaved: bool = True, a: Centred = INT8, b: Centred = UINT8,
             style: MultiplierStyle = MultiplierStyle.BLOCKS) -> MatMulShape:
    return MatMulShape(heads=heads, rows=rows, depth=depth, columns=columns, interleaved=interleaved, order=order,
                       together=together, cols=cols, lanes=lanes, a=a, b=b, accumulator=signed(17 + depth.bit_length()),
                       output=signed(8), style=style)


SHAPES = {
    "keys, heads side by side": shape_of(2, 4, 6, 4, "nhk", 2, 3),
    "values, heads side by side": shape_of(3, 5, 4, 6, "khn", 3, 2, 3),
    "keys, head by head": shape_of(2, 6, 4, 6, "hnk", 3, 2, 3, interleaved=False),
    "values, head by head": shape_of(2, 5, 6, 4, "hkn", 2, 2, interleaved=False),
    "heads of b first": shape_of(2, 5, 4, 4, "hkn", 4, 1, 2),
    "heads of b first, rows": shape_of(2, 5, 4, 4, "hnk", 2, 4, 2),
    "one head": shape_of(1, 7, 8, 3, "hnk", 1, 4, interleaved=False, style=MultiplierStyle.MACS),
    "one row": shape_of(2, 1, 6, 5, "nhk", 1, 2),
    "one row, values": shape_of(1, 1, 6, 4, "khn", 2, 3),
    "filled as slowly as read": shape_of(1, 3, 4, 6, "nhk", 3, 2),
    "one product": shape_of(1, 1, 1, 1, "hkn", 1, 1),
    "all at once": shape_of(2, 3, 4, 4, "nhk", 4, 4, 4),
    "all at once, values": shape_of(2, 3, 4, 4, "khn", 4, 4, 4),
    "bits": shape_of(1, 4, 4, 4, "hkn", 2, 2, a=Centred(Operand(Shape(1), True)), b=Centred(Operand(unsigned(2)), 1)),
    "logic": shape_of(2, 4, 4, 2, "nhk", 2, 2, 2, style=MultiplierStyle.LOGIC),
}
OFTEN = {"keys, heads side by side", "values, heads side by side", "values, head by head", "one head", "one row",
         "filled as slowly as read", "one product"}
NAMES = [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow]) for name in SHAPES]


def rescaler_of(shape: MatMulShape, rng: np.random.Generator, places: bool = False) -> RequantizerConstants:
    """The same for all sums, or with a bias for each place of a head."""
    if not places:
        return RequantizerConstants(
            bias=np.zeros(shape.lanes, np.int64), multiplier=np.full(shape.lanes, 23), shift=np.full(shape.lanes, 12),
            zero_point=5, low=-128, high=127, style=RequantizerStyle.FABRIC)
    heads = shape.heads if shape.interleaved else 1
    bias = np.tile(rng.integers(-9999, 9999, (shape.rows, 1, shape.columns)), (1, heads, 1)).reshape(-1)
    order = PixelOrder(tuple(range(shape.rows)), (0,), heads * shape.columns)
    return RequantizerConstants(
        bias=bias, multiplier=np.full(bias.shape, 23), shift=np.full(bias.shape, 12), zero_point=5, low=-128, high=127,
        style=RequantizerStyle.FABRIC, order=order)


class Case:
    """A stage, beats of both operands for some frames, and what has to come: by the formula, head by head."""

    def __init__(self, shape: MatMulShape, frames: int, seed: int, technology=None, places: bool = False):
        rng = np.random.default_rng(seed)
        self.technology = technology or Generic()
        self.rescaler = rescaler_of(shape, rng, places)
        self.stage = MatMulStageShape(product=shape, rescaler=self.rescaler).build(self.technology, "stage")
        sizes = {"h": shape.heads, "m": shape.rows, "k": shape.depth, "n": shape.columns}
        orders = "mhk" if shape.interleaved else "hmk", shape.order
        codes = [rng.integers(*bounds_of(each.operand), (frames, *(sizes[letter] for letter in order)))
                 for each, order in zip((shape.a, shape.b), orders, strict=True)]
        self.codes = codes
        a, b = ((2 * each - 1 if kind.operand.bipolar else each) - kind.zero_point
                for each, kind in zip(codes, (shape.a, shape.b), strict=True))
        made = orders[0].replace("k", "n")
        sums = np.einsum(f"z{orders[0]},z{orders[1]}->z{made}", a, b)
        biased = sums + self.rescaler.bias.reshape(shape.rows, -1, shape.columns) if places and shape.interleaved else (
            sums + self.rescaler.bias.reshape(shape.rows, shape.columns) if places else sums)
        rounded = np.rint(biased * 23 / 2**12).astype(int) + 5
        self.expected = np.clip(rounded, -128, 127).reshape(-1, shape.lanes)


def bounds_of(operand: Operand) -> tuple[int, int]:
    low, high = (0, 1) if operand.bipolar else operand.range
    return low, high + 1


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", NAMES)
def test_products(name: str) -> None:
    """All that a unit is asked; every second one has a bias for each place of a head."""
    order = list(SHAPES).index(name)
    case = Case(SHAPES[name], 4, order, Generic(timing=TIMINGS[order % len(TIMINGS)]),
                places=SHAPES[name].rows > 1 and not order % 2)
    ask(case.stage.shape, case.technology, case.codes, case.expected, seed=order)


@pytest.mark.parametrize(("change", "message"), [
    ({"order": "knh"}, "order of a MatMulShape must be one of hnk, hkn, nhk, khn, not knh"),
    ({"order": "nhk", "interleaved": False}, "order of a MatMulShape must be one of hnk, hkn, not nhk"),
    ({"together": 3}, "together and cols of a MatMulShape must divide its 4 columns and its depth of 6, not 3 and 1"),
    ({"cols": 4}, "together and cols of a MatMulShape must divide its 4 columns and its depth of 6, not 1 and 4"),
    ({"style": MultiplierStyle.PAIRS}, "style of a MatMulShape must be blocks, macs or logic, not pairs")])
def test_refusals(change: dict, message: str) -> None:
    sizes = {"heads": 2, "rows": 3, "depth": 6, "columns": 4, "order": "nhk", "together": 1, "cols": 1}
    with pytest.raises(ValueError, match=re.escape(message)):
        shape_of(**{**sizes, **change})
