"""A tiled stage: streamed weights where frames have many output pixels.  Values, cycles, pace, memories, refusals."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.matrix.shape import MatrixShape
from hwflow_rtl.matrix.streamed_weights import StreamSource
from hwflow_rtl.matrix.tiled import TiledShape, TiledStageShape, pass_beats, played_passes
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rearrange import rearrange
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants
from hwflow_rtl.vendor import FAMILIES
from hwflow_rtl.vendor.base import Timing
from hwflow_rtl.vendor.generic import Generic
from hwflow_rtl.vendor.memory import Holds

from tests.rtl.oracles import requantized
from tests.rtl.test_matrix import LAYERS, SAME, Layer, limits, sums_of
from tests.rtl.units import ask, memories_asked, play

FRAMES = 3
PORTS = ("i", "weights")
#: A layer, the rows whose weights arrive in a beat, the cycles from beat to beat.
Tiled = tuple[Layer, int, Fraction]
TILED: dict[str, Tiled] = {
    "1x1": (Layer((3, 4, 8), 12, 4, 4, out_lanes=2), 4, Fraction(1)),
    "1x1, a row at a time": (Layer((3, 3, 8), 8, 4, 8, out_lanes=2), 1, Fraction(1)),
    "1x1, all at once": (Layer((3, 3, 4), 8, 4, 4, out_lanes=4), 4, Fraction(1)),
    "1x1, stride 2": (Layer((5, 6, 4), 6, 3, 4, stride=(2, 2), out_lanes=3), 3, Fraction(1)),
    "1x1, stride 2, one pass": (Layer((7, 7, 4), 4, 4, 4, stride=(2, 2), out_lanes=4), 4, Fraction(1)),
    "3x3 pad 1": (LAYERS["3x3 pad 1"], 2, Fraction(1)),
    "3x3 pad 1, slow weights": (LAYERS["3x3 pad 1"], 1, Fraction(17, 2)),
    "1x1, slow weights": (Layer((2, 3, 8), 12, 4, 2), 1, Fraction(3)),
    "stride 2": (LAYERS["stride 2"], 3, Fraction(1)),
    "asymmetric, thresholds": (LAYERS["asymmetric"], 1, Fraction(1)),
    "dilation 2": (LAYERS["dilation 2"], 2, Fraction(1)),
    "groups": (LAYERS["groups"], 3, Fraction(1)),
    "groups, 1x1": (Layer((3, 3, 12), 12, 2, 4, groups=3), 2, Fraction(2)),
    "groups, 1x1, stride 2": (Layer((5, 5, 6), 6, 3, 3, groups=2, stride=(2, 2)), 3, Fraction(1)),
    "rows left over": (LAYERS["rows left over"], 3, Fraction(1)),
    "rows left over, two lanes": (LAYERS["rows left over, two lanes"], 2, Fraction(1)),
    "rows left over, in groups": (LAYERS["rows left over, in groups"], 1, Fraction(4)),
    "columns left over": (LAYERS["columns left over"], 4, Fraction(1)),
    "columns left over, in groups": (LAYERS["columns left over, in groups"], 2, Fraction(1)),
    "rows and columns left over, thresholds": (LAYERS["rows and columns left over"], 2, Fraction(1)),
    "1-D": (LAYERS["1-D"], 2, Fraction(1)),
    "patch of two words": (LAYERS["patch of two words"], 2, Fraction(1)),
    "unsigned": (LAYERS["unsigned"], 1, Fraction(1)),
    "logic, 3-bit weights": (Layer((2, 3, 12), 9, 3, 4, weight=signed(3), style=MultiplierStyle.LOGIC), 3, Fraction(1)),
    "pairs": (LAYERS["pairs"], 6, Fraction(1)),
    "macs": (Layer((3, 3, 8), 8, 4, 4, style=MultiplierStyle.MACS, out_lanes=2), 4, Fraction(1)),
    "bipolar": (Layer((3, 3, 8), 5, 2, 4, element=unsigned(1), weight=unsigned(1)), 2, Fraction(1)),
    "one output pixel": (Layer((1, 1, 24), 10, 4, 4), 2, Fraction(1)),
    "many banks": (Layer((2, 2, 4), 48, 24, 4, out_lanes=24), 24, Fraction(1)),
}
#: One of each structure; with stalls the others take long.
OFTEN = {"1x1, stride 2", "1x1, slow weights", "groups", "rows left over, in groups", "bipolar"}
#: Half a minute with stalls.
LONG_STALLED = {"groups", "rows left over, in groups"}
TIMINGS = (Timing(multiply=4), Timing(multiply=1, rom=1, ram=1), Timing(multiply=3, rom=3, ram=1),
           Timing(multiply=2, rom=1, ram=3))
RARELY = [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow]) for name in TILED]


def rescaler_of(layer: Layer, sums: np.ndarray, thresholds: bool,
                random: np.random.Generator) -> tuple[RescalerConstants, np.ndarray]:
    """Constants that differ by channel, and what they make of the sums, by definition."""
    low, high = limits(layer.output)
    if thresholds:
        values = np.sort(random.integers(sums.min(), sums.max() + 1, (layer.cout, 5)), axis=1)
        made = low + (sums[..., None] >= values).sum(axis=-1)
        return ThresholderConstants(values, low), made
    shift = max(1, int(abs(sums).max()).bit_length() + 10 - layer.output.width)
    constants = RequantizerConstants(
        bias=random.integers(-100, 100, layer.cout), shift=np.full(layer.cout, shift),
        multiplier=random.integers(1 << 10, 1 << 11, layer.cout), zero_point=0 if low else high // 4, low=low,
        high=high - 1, style=RequantizerStyle.FABRIC)
    return constants, requantized(sums, constants)


class Case:
    """A stage, what it gets and what it must give; of `given`, or of the entry `name` of `TILED`."""

    def __init__(self, name: str, frames: int = FRAMES, *, technology=None, seed: int = 0, given: Tiled | None = None):
        layer, rows, interval = given or TILED[name]
        random, self.frames, self.layer = np.random.default_rng(seed), frames, layer
        self.technology = technology or Generic()
        bipolar = name == "bipolar"
        x = random.integers(*limits(layer.element), (frames, *layer.frame))
        low, high = limits(layer.weight)
        weights = random.integers(low, high, (layer.cout, *layer.kernel, layer.frame[2] // layer.groups))
        pad = int(random.integers(*limits(layer.element)))
        if bipolar:
            x, weights = 2 * x - 1, 2 * weights - 1
        self.weights = weights
        sums = sums_of(layer, x, weights, pad)
        self.rescaler, expected = rescaler_of(layer, sums, "thresholds" in name, random)
        shape = replace(layer.shape(signed(int(abs(sums).max()).bit_length() + 8)), bipolar_element=bipolar,
                        bipolar_weight=bipolar)
        self.shape = TiledShape(shape, StreamSource(rows, interval))
        self.unit = TiledStageShape(tiled=self.shape, weights=weights, rescaler=self.rescaler, pad_value=pad)
        self.stage = self.unit.build(self.technology, "stage")
        self.x = (x + 1) // 2 if bipolar else x
        self.inputs = [self.x.reshape(-1, self.shape.lanes_in),
                       np.tile(pass_beats(self.shape, weights), (frames, 1))]
        self.outputs = expected.reshape(-1, layer.out_lanes)

    def times(self, arrivals: list[np.ndarray]):
        return self.unit.times(self.technology, *arrivals)

    def play(self, arrivals: list[np.ndarray]):
        return play(self.stage, self.inputs, arrivals, len(self.outputs), PORTS)


@pytest.mark.parametrize("name", TILED)
def test_model_is_the_convolution(name: str) -> None:
    case = Case(name)
    assert np.array_equal(case.stage.model(case.x), case.outputs)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in OFTEN - LONG_STALLED else [pytest.mark.slow])
                                  for name in TILED])
def test_layers(name: str) -> None:
    """All that a unit is asked."""
    order = list(TILED).index(name)
    case = Case(name, technology=Generic(timing=TIMINGS[order % len(TIMINGS)]), seed=order)
    ask(case.unit, case.technology, [case.x], case.outputs, seed=order, weights=case.inputs[1],
        every=case.shape.source.interval)


@pytest.mark.parametrize("name", ["3x3 pad 1", pytest.param("groups", marks=pytest.mark.slow)])
def test_rings_that_are_no_powers_of_two(name: str, monkeypatch) -> None:
    monkeypatch.setattr(rearrange, "ring_parts", lambda words, width, technology: (words,))
    case = Case(name)
    said, seen = (run([np.arange(len(beats)) for beats in case.inputs]) for run in (case.times, case.play))
    assert np.array_equal(seen.output.beats, case.outputs)
    assert np.array_equal(said.departures, seen.output.cycles)
    ends = said.departures.reshape(FRAMES, -1)[:, -1]
    assert ends[2] - ends[1] == case.shape.cycles()


@pytest.mark.parametrize("name", TILED)
def test_full_pace(name: str) -> None:
    """From frame to frame exactly the schedule's cycles, if frames are there and weights come at their pace."""
    case = Case(name, 5)
    shape = case.shape
    of_pass = shape.of_pass
    weights = np.ceil(np.arange(len(case.inputs[1])) * shape.source.interval).astype(np.int64)
    ends = case.times([np.arange(len(case.inputs[0])), weights]).departures.reshape(5, -1)[:, -1]
    assert shape.cycles() == max(len(case.inputs[0]) // 5, shape.passes * max(
        of_pass.pixels * of_pass.block_interval, of_pass.feed, int(np.ceil(
            of_pass.block_weights * shape.source.interval))))
    assert (np.diff(ends[2:]) == shape.cycles()).all(), f"{np.diff(ends)} instead of {shape.cycles()}"


def test_the_order_of_the_stream() -> None:
    """By its definition: group, tile, kernel row, kernel column, word, rows that arrive together, row, column."""
    case, expected = Case("columns left over, in groups", 1), []
    for group in range(2):
        for tile in (0, 2):  # rows 2 and 3 of tile 1: channel 2 and nothing, so channel 2 once more
            for ky in range(3):
                for kx in range(3):
                    for word in (0, 3):
                        rows = [case.weights[3 * group + min(tile + row, 2), ky, kx, word:word + 3] for row in range(2)]
                        expected.append(np.concatenate([np.pad(row, (0, 3 - len(row))) for row in rows]))
    assert np.array_equal(case.inputs[1], expected)
    assert case.shape.of_pass.weight_beats == len(expected)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_cost_names_the_memories(family: str) -> None:
    technology = FAMILIES[family]()
    case = Case("rows left over, in groups", 1, technology=technology)
    asked, cost = memories_asked(technology, lambda: case.stage), case.unit.cost(technology)
    named = Counter((each.name, each.width, each.depth) for each in cost.memories if each.holds is not Holds.QUEUE)
    assert named == asked
    assert {each.name for each in cost.memories if each.holds is Holds.FRAMES} == {"input_ring", "output_ring"}


def test_the_rings_hold_a_frame_and_all_passes_but_one() -> None:
    """8 x 8 pixels of 16 channels in words of 4, and as many results: those of the last pass leave as they come."""
    layer = Layer((8, 8, 16), 16, 4, 4, out_lanes=4, **SAME)
    shape = TiledShape(layer.shape(signed(24)), StreamSource(4))
    assert (shape.passes, shape.replay.ring_words, shape.gather.ring_words) == (4, 256, 3 * 64 + 1)


def shape_of(layer: Layer, **fields) -> MatrixShape:
    return replace(layer.shape(signed(24)), **fields)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: TiledShape(shape_of(LAYERS["depthwise, all groups"]), StreamSource(4)),
     "parallel groups of a TiledStage must be 1, not 4"),
    (lambda: TiledShape(shape_of(LAYERS["3x3 pad 1"]), StreamSource(3)),
     "rows of a StreamSource must divide the 2 rows of the matrix stage, not 3"),
    (lambda: shape_of(LAYERS["3x3 pad 1"], passes=2),
     "passes of a matrix stage must be 1 where its weights do not arrive, not 2")])
def test_refusals(make, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


PROMISED: dict[str, Tiled] = {
    "3x3": (Layer((7, 6, 8), 20, 2, 4), 2, Fraction(1)),
    "1x1, stride 2": (Layer((8, 8, 8), 12, 2, 4, kernel=(1, 1), stride=(2, 2)), 1, Fraction(1)),
    "groups": (Layer((5, 4, 12), 18, 2, 2, groups=3), 2, Fraction(1)),
    "results limit": (Layer((5, 5, 2), 24, 4, 2, kernel=(1, 1)), 4, Fraction(1)),
    "slow weights": (Layer((3, 3, 8), 16, 2, 4), 2, Fraction(9)),
}


@pytest.mark.parametrize("pace", ["full", "even"])
@pytest.mark.parametrize("name", PROMISED)
def test_what_plans_compute_of_promised_weights(name: str, pace: str) -> None:
    """Equal to the times of all passes, for weights that come as late as the promise allows."""
    case = Case(name, 4, given=PROMISED[name])
    shape, words = case.shape, len(case.inputs[0]) // 4
    assert shape.passes > len(played_passes(shape))
    arrivals = np.arange(4 * words)
    if pace == "even":
        arrivals = arrivals * shape.cycles() // words
    said = case.unit.times(case.technology, arrivals)
    tile = int(np.ceil(shape.of_pass.block_weights * shape.source.interval))
    late = np.repeat(np.arange(4 * shape.passes) * tile, shape.of_pass.block_weights) if tile > shape.of_pass.pixels * (
        shape.of_pass.block_interval) else np.zeros(len(case.inputs[1]), dtype=np.int64)
    exact = case.times([arrivals, late])
    assert np.array_equal(said.departures.reshape(4, -1)[1:], exact.departures.reshape(4, -1)[1:])
    assert np.array_equal(said.taken[0], exact.taken[0])
