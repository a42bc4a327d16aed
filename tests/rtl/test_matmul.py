"""The product of two computed matrices: values, cycles, pace, stalls, memories, refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.matmul.shape import Centred, MatMulShape
from hwflow_rtl.matmul.stage import MatMulStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.vendor import Generic, Timing

from tests.rtl.harness import simulate
from tests.rtl.units import ARRIVALS, arrivals_of, play

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
        self.beats = [each.reshape(-1, lanes) for each, lanes in zip(codes, shape.lanes_in, strict=True)]
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


@pytest.mark.parametrize("name", NAMES)
def test_times(name: str) -> None:
    """Values, and each cycle in which a beat moves."""
    order = list(SHAPES).index(name)
    for seed in (order, order + 1):
        technology = Generic(timing=TIMINGS[seed % len(TIMINGS)])
        case = Case(SHAPES[name], 3, seed, technology)
        assert np.array_equal(case.stage.model(*case.beats), case.expected)
        cycles = [arrivals_of(ARRIVALS[(seed + k * (seed - order + 1)) % len(ARRIVALS)], len(beats), seed + 50 * k)
                  for k, beats in enumerate(case.beats)]
        said = case.stage.shape.times(technology, *cycles)
        seen = play(case.stage, case.beats, cycles, len(case.expected), ("i0", "i1"))
        assert np.array_equal(seen.output.beats, case.expected)
        assert np.array_equal(said.departures, seen.output.cycles)
        for taken, found in zip(said.taken, seen.taken, strict=True):
            assert np.array_equal(taken, found)


@pytest.mark.parametrize("name", NAMES)
def test_full_pace(name: str) -> None:
    """From frame to frame exactly the cycles of the shape."""
    case = Case(SHAPES[name], 5, 1)
    cycles = [np.zeros(len(beats), np.int64) for beats in case.beats]
    seen = play(case.stage, case.beats, cycles, len(case.expected), ("i0", "i1"))
    ends = seen.output.cycles.reshape(5, -1)[:, -1]
    assert (np.diff(ends[2:]) == SHAPES[name].cycles()).all()


@pytest.mark.parametrize("name", [name for name in SHAPES if name in OFTEN])
@pytest.mark.parametrize("stall", [0.3, pytest.param(0.9, marks=pytest.mark.slow)])
def test_stalls(name: str, stall: float) -> None:
    case = Case(SHAPES[name], 2, 3, places=SHAPES[name].rows > 1)
    traces = simulate(case.stage, sends=dict(zip(("i0", "i1"), case.beats, strict=True)),
                      receives={"o": len(case.expected)}, stall_in=stall, stall_out=stall, seed=4)
    assert np.array_equal(traces["o"].beats, case.expected)


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
