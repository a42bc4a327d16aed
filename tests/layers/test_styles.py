"""What multiplies in a stage: the same integers in every style, when they come, and what a family does not offer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Fragment, Instance
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.vendor import ECP5, FAMILIES, ICE40, Generic, Gowin, Resources

from hwflow.layers import Conv, Dense, Frame, IntFormat, LayerGraph
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rescale import Rounding
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE, rescaler_constants
from tests.layers.test_stages import any_of, beats_of, bits, frames_of, graph_of, made_of, prove, requantize
from tests.rtl.test_matrix import parts_of
from tests.rtl.units import arrivals_of, play

BLOCKS, MACS, PAIRS, LOGIC = MultiplierStyle


def twin() -> Generic:
    """Of an ECP5."""
    return Generic(timing=ECP5.timing, like=ECP5())


def conv(weights: IntFormat, x: IntFormat, *, cout: int = 8, groups: int = 1) -> tuple[Conv, LayerGraph]:
    rng, frame = np.random.default_rng([weights.bits, x.bits]), Frame(4, 5, 4)
    numbers = any_of(weights, rng, (cout, 3, 3, 4 // groups))
    numbers[0, 0, 0], numbers[1, 0, 0] = weights.low, weights.high
    rescale = requantize(rng, cout, bits(8), 36 * max(-x.low, x.high) << weights.bits, Rounding.HALF_EVEN, 2)
    layer = Conv("conv", ("x",), "y", numbers, weights, x, rescale, (1, 1), (1, 1), (1, 1, 1, 1), groups)
    return layer, graph_of(layer, frame, x, bits(8), 1)


#: All styles once, with operands that are signed or not, wide or narrow; the others are slow tests.
QUICK = ((bits(4), bits(8), BLOCKS), (bits(4), bits(8), MACS), (bits(4), bits(8, False), PAIRS),
         (bits(3), bits(4, False), LOGIC))


@pytest.mark.parametrize(("weights", "x", "style"), [
    pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])
    for operands in ((bits(4), bits(8)), (bits(4), bits(8, False)), (bits(3), bits(4, False)))
    for case in ((*operands, style) for style in MultiplierStyle)], ids=str)
def test_every_style_is_golden_and_says_when_its_beats_move(weights: IntFormat, x: IntFormat,
                                                            style: MultiplierStyle) -> None:
    layer, graph = conv(weights, x)
    folding, rng = Folding(4, 2, 2, style), np.random.default_rng(1)
    frames = frames_of(x, graph.tensors["x"].frame, rng)
    prove(graph, folding, frames)
    beats = list(beats_of(graph, folding, {"x": frames}).values())
    arrivals = [arrivals_of("in bursts", len(beats[0]), 3)]
    technology = twin()
    said = stage_of(graph, layer).times(folding, technology, *arrivals)
    seen = play(stage_of(graph, layer).unit(folding, technology), beats, arrivals, len(said.departures))
    assert np.array_equal(seen.output.beats, made_of(graph, folding, {"x": frames}))
    assert np.array_equal(said.taken[0][:len(seen.taken[0])], seen.taken[0])
    assert np.array_equal(said.departures, seen.output.cycles)


def test_no_style_changes_the_schedule() -> None:
    layer, graph = conv(bits(4), bits(8))
    stage = stage_of(graph, layer)
    for folding in stage.foldings():
        assert stage.schedule(folding, REFERENCE) == stage.schedule(replace(folding, style=BLOCKS), REFERENCE)


@pytest.mark.parametrize(("weights", "x", "ecp5", "others"), [
    (bits(8), bits(8), [BLOCKS, MACS, LOGIC], [BLOCKS, LOGIC]),
    (bits(4), bits(8), [BLOCKS, MACS, PAIRS, LOGIC], [BLOCKS, LOGIC]),
    (bits(5), bits(8), [BLOCKS, MACS, LOGIC], [BLOCKS, LOGIC]), (bits(2), bits(8), [BLOCKS], [BLOCKS]),
    (BIPOLAR, bits(4), [BLOCKS], [BLOCKS])], ids=str)
def test_what_families_offer(weights: IntFormat, x: IntFormat, ecp5: list[MultiplierStyle],
                             others: list[MultiplierStyle]) -> None:
    layer, graph = conv(weights, x)
    for technology, offered in ((ECP5(), ecp5), (twin(), ecp5), (ICE40(), others), (Gowin(), others),
                                (Generic(timing=ICE40.timing, like=ICE40()), others)):
        assert list(stage_of(graph, layer).styles(technology)) == offered
        for style in offered:
            stage_of(graph, layer).cost(Folding(4, 2, 1, style), technology)
    assert {folding.style for folding in stage_of(graph, layer).foldings()} == set(ecp5)


def test_pairs_are_of_two_rows_of_a_group_in_a_bank() -> None:
    layer, graph = conv(bits(4), bits(8), cout=12)
    found = {(folding.rows, folding.lanes) for folding in stage_of(graph, layer).foldings() if folding.style is PAIRS}
    assert {(4, 1), (4, 2), (6, 3), (12, 12), (2, 1)} <= found
    assert not {rows for rows, _ in found if rows % 2}
    assert (6, 3) in found  # banks of six rows
    depthwise, graph = conv(bits(4), bits(8), cout=4, groups=4)
    assert not [folding for folding in stage_of(graph, depthwise).foldings() if folding.style is PAIRS]
    problem = stage_of(graph, depthwise).folding_problem(Folding(2, 1, 1, PAIRS))
    assert problem == "style must be one of blocks, logic with these rows, cols and lanes, not pairs"


def test_sums_of_products_are_of_two_columns() -> None:
    layer, graph = conv(bits(8), bits(8))
    foldings = list(stage_of(graph, layer).foldings())
    assert {f.cols for f in foldings if f.style is MACS} == {f.cols for f in foldings if f.cols % 2 == 0}
    problem = stage_of(graph, layer).folding_problem(Folding(2, 3, 1, MACS))
    assert problem == "style must be one of blocks, logic with these rows, cols and lanes, not macs"


@pytest.mark.parametrize("family", [ICE40, Gowin])
def test_styles_are_refused_where_they_save_nothing(family: type[ICE40] | type[Gowin]) -> None:
    layer, graph = conv(bits(4), bits(8))
    stage = stage_of(graph, layer)
    for refused in (stage.cost, stage.unit):
        for style in (MACS, PAIRS):
            with pytest.raises(ValueError, match=rf"must be one of blocks, logic on {family.name}, not {style.value}"):
                refused(Folding(4, 2, 1, style), family())


@pytest.mark.parametrize("name", FAMILIES)
def test_the_twin_costs_the_same(name: str) -> None:
    layer, graph = conv(bits(4), bits(8))
    family = FAMILIES[name]()
    for style in stage_of(graph, layer).styles(family):
        folding = Folding(4, 4, 1, style)
        twin = Generic(timing=family.timing, like=family)
        assert stage_of(graph, layer).cost(folding, family) == stage_of(graph, layer).cost(folding, twin)


def test_blocks_are_counted() -> None:
    layer, graph = conv(bits(4), bits(8))
    found = {}
    for style in MultiplierStyle:
        folding = Folding(8, 4, 8, style)  # the requantizers have no time for logic
        parts = parts_of(Fragment.get(stage_of(graph, layer).unit(folding, ECP5()), None))
        found[style] = sum(isinstance(part, Instance) and part.type == "MULT18X18D" for _, part in parts)
        assert stage_of(graph, layer).cost(folding, ECP5()).dsp == found[style]
    requantizers = found[LOGIC]
    assert (found[BLOCKS], found[MACS], found[PAIRS]) == (*[32 + requantizers] * 2, 16 + requantizers)


# Requantizers


def dense() -> tuple[Dense, LayerGraph]:
    rng = np.random.default_rng(0)
    weights = any_of(bits(8), rng, (4, 96))
    layer = Dense("dense", ("x",), "y", weights, bits(8), bits(8),
                  requantize(rng, 4, bits(8), 1 << 18, Rounding.HALF_EVEN, 0))
    return layer, graph_of(layer, Frame(1, 1, 96), bits(8), bits(8))


def test_results_that_leave_slowly_are_requantized_in_logic() -> None:
    layer, graph = dense()
    made = {}
    for interval in (1, 4, 24):
        found = rescaler_constants(layer.requantize, layer.accumulator, bits(8), ECP5(), interval)
        assert isinstance(found, RequantizerConstants)
        made[interval] = found.style
    assert made == {1: RequantizerStyle.DSP, 4: RequantizerStyle.DSP, 24: RequantizerStyle.FABRIC}
    slow, fast = (stage_of(graph, layer).cost(folding, ECP5()) for folding in (Folding(4, 2), Folding(4, 24)))
    assert (slow.dsp, fast.dsp) == (8, 98)  # two blocks take a sum a cycle


def test_slow_results_come_when_they_are_said_to() -> None:
    """Two rows of 48 beats: results 24 cycles apart, from a requantizer in logic."""
    layer, graph = dense()
    folding, technology = Folding(2, 2), twin()
    assert stage_of(graph, layer).matrix_shape(folding).drain_interval == 24
    assert stage_of(graph, layer).cost(folding, technology).dsp == 4
    frames = frames_of(bits(8), Frame(1, 1, 96), np.random.default_rng(2))
    beats = list(beats_of(graph, folding, {"x": frames}).values())
    arrivals = [arrivals_of("at once", len(beats[0]), 3)]
    said = stage_of(graph, layer).times(folding, technology, *arrivals)
    seen = play(stage_of(graph, layer).unit(folding, technology), beats, arrivals, len(said.departures))
    assert np.array_equal(seen.output.beats, made_of(graph, folding, {"x": frames}))
    assert np.array_equal(said.departures, seen.output.cycles)


def test_a_block_is_worth_what_it_saves() -> None:
    """An 8 x 8 product in logic, against the registers of one in a block."""
    layer, graph = conv(bits(8), bits(8))
    products = stage_of(graph, layer).products
    blocks, logic = (replace(products, style=style).cost(1, ECP5()) for style in (BLOCKS, LOGIC))
    assert logic == Resources(lut=100, ff=96)
    assert logic.lut + logic.ff - blocks.ff == ECP5.cells_for_a_multiplier
