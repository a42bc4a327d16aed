"""What joins share: words that come again, sums in a pipeline, when beats move, whatever the inputs' arrivals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Shape, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from hwflow_rtl.join.add import AddFunction
from hwflow_rtl.join.feed import Feed
from hwflow_rtl.join.join import JoinShape, JoinStage, JoinStageShape
from hwflow_rtl.join.tree import SumPlan, Term, holding, signed_digits
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.vendor import ECP5, Generic, Gowin, Technology, Timing

from tests.random_cases import seeds
from tests.rtl.harness import STALLS, run, simulate
from tests.rtl.units import ask, play

INT8 = Operand(signed(8))


def average(shape: JoinShape, technology: Generic | None = None) -> JoinStage:
    """The mean of two bytes."""
    return means(shape).build(technology or Generic(), "join")


def means(shape: JoinShape) -> JoinStageShape:
    return JoinStageShape(streams=shape, function=mean())


def mean() -> AddFunction:
    return AddFunction.of(operands=(INT8, INT8), zero_points=(3, -4), multipliers=(1, 1), shift=1, zero_point=-1,
                          low=-128, high=127, output=signed(8))


#: Both whole; one of 5 beats and one of 2 for all pixels; one element for everything, in one lane or in several.
SHAPES = {
    "whole": JoinShape(12, 2, (12, 12), (2, 2)),
    "pixel": JoinShape(20, 2, (20, 5), (2, 2)),
    "pixel first": JoinShape(12, 1, (2, 12), (1, 1)),
    "one beat": JoinShape(6, 3, (6, 1), (3, 3)),
    "one element": JoinShape(6, 3, (1, 6), (1, 3)),
    "one element, one lane": JoinShape(6, 1, (6, 1), (1, 1)),
    "a frame of one beat": JoinShape(1, 2, (1, 1), (2, 1)),
}


def beats_of(shape: JoinShape, frames: int) -> list[np.ndarray]:
    source = np.random.default_rng(shape.beats)
    return [source.integers(-128, 128, (frames * words, lanes))
            for words, lanes in zip(shape.words, shape.lanes_in, strict=True)]


def mean_of(shape: JoinShape, beats: Sequence[np.ndarray]) -> np.ndarray:
    """In numpy's own words."""
    a, b = (np.broadcast_to(
        codes.reshape(-1, 1, words, lanes),
        (len(codes) // words, shape.beats // words, words, shape.lanes)).reshape(-1, shape.lanes)
        for codes, words, lanes in zip(beats, shape.words, shape.lanes_in, strict=True))
    return np.clip(np.rint((a - 3 + b + 4) / 2) - 1, -128, 127).astype(np.int64)


@pytest.mark.parametrize("name", SHAPES)
@seeds(quick=[0], slow=range(1, 17))
def test_every_shape(name: str, seed: int) -> None:
    """All that a unit is asked; the kinds of arrivals and the latencies of memories go round."""
    shape, frames = SHAPES[name], 4
    seed += list(SHAPES).index(name)
    beats = beats_of(shape, frames)
    whole = [each.reshape(frames, words, -1) for each, words in zip(beats, shape.words, strict=True)]
    technology = Generic(timing=Timing(multiply=4, ram=1 + seed % 4))
    ask(means(shape), technology, whole, mean_of(shape, beats), seed=seed)
    assert means(shape).cycles == shape.beats
    if shape.words == (shape.beats, shape.beats):
        assert means(shape).times(technology, *[np.arange(shape.beats)] * 2).departures[0] == means(shape).latency(
            technology)


@pytest.mark.parametrize("name", ["pixel", "one beat", "one element"])
def test_the_next_frames_small_operand_may_come_while_this_ones_is_in_use(name: str) -> None:
    """Those of two frames, and no more, are taken before the first element of the other input has come."""
    shape = SHAPES[name]
    beats = beats_of(shape, 4)
    small = int(np.argmin(shape.words))
    late = 200
    arrivals = [np.arange(len(each)) + (0 if k == small else late) for k, each in enumerate(beats)]
    taken = play(average(shape), beats, arrivals, 4 * shape.beats).taken[small]
    assert (taken < late).sum() == 2 * shape.words[small]


def test_an_input_without_its_partner_is_taken_no_further_than_its_queue() -> None:
    """So that the words behind stay with the fork or the stage that they come from."""
    shape = SHAPES["whole"]
    beats = beats_of(shape, 1)
    taken = play(average(shape), beats, [np.arange(12), np.arange(12) + 100], 12).taken
    assert (taken[0] < 100).sum() == 2
    assert taken[1][0] == 100


@pytest.mark.parametrize("words, repeats", [(1, 4), (2, 2), (3, 5), (5, 2), (8, 3)])
@pytest.mark.parametrize("stall_in, stall_out", [
    (0.3, 0.3), *(pytest.param(*stalls, marks=pytest.mark.slow) for stalls in product(STALLS[:3], repeat=2))])
def test_words_come_again(words: int, repeats: int, stall_in: float, stall_out: float) -> None:
    unit = Feed(words, repeats, Generic()).unit(Shape(8))
    frames = np.random.default_rng(words).integers(0, 256, (4, words))
    traces = simulate(unit, sends={"i": frames.reshape(-1, 1)}, receives={"o": 4 * words * repeats}, stall_in=stall_in,
                      stall_out=stall_out)
    assert np.array_equal(traces["o"].beats.reshape(-1), np.tile(frames, (1, repeats)).reshape(-1))


def test_words_that_come_again_are_counted_in_blocks() -> None:
    """A wide and deep one takes RAM blocks, those of the technology."""
    cost = Feed(256, 49, ECP5()).cost(64)
    assert cost.ram == ECP5().ram_cost(width=64, depth=512).ram > 0
    assert Feed(1, 49, ECP5()).cost(64).ram == Feed(256, 1, ECP5()).cost(64).ram == 0


@pytest.mark.parametrize("family, blocks", [(ECP5, "DP16KD"), (Gowin, "SDPB|SDPX9B")])
@pytest.mark.parametrize("words", [2, 64, 1024])
def test_blocks_are_counted(family: type[Technology], blocks: str, words: int) -> None:
    """Those of the small operand; the queue at the output stands in tables."""
    shape = JoinShape(4 * words, 4, (4 * words, words), (4, 4))
    text = rtlil.convert(average(shape, family()))
    found = len(re.findall(rf"^ *cell \\(?:{blocks}) ", text, re.MULTILINE))
    cost = means(shape).cost(family())
    assert (cost.ram, cost.dsp) == (found, 0)
    assert found > 0 or words == 2


@pytest.mark.parametrize("words, lanes", [((12, 5), (2, 2)), ((12, 2), (2, 1)), ((12, 12), (2, 3))])
def test_refuses_inputs_that_do_not_meet(words: tuple[int, int], lanes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=re.escape(
            f"inputs of a join of 12 beats of 2 lanes must have a divisor of the beats and its lanes, or one beat of "
            f"one lane, not {words[1]} beats of {lanes[1]} lanes")):
        JoinShape(12, 2, words, lanes)


class Sum(wiring.Component):
    """A `SumPlan` whose numbers are inputs."""

    def __init__(self, plan: SumPlan):
        self.plan = plan
        super().__init__({"total": Out(signed(80))})
        self.values = [Signal(term.shape, name=f"value{k}") for k, term in enumerate(plan.terms)]

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.total.eq(self.plan.build(m, self.values, "sum") << self.plan.result.place)
        return m


def total_of(plan: SumPlan, rows: np.ndarray) -> list[int]:
    """What a simulation adds, a row in every cycle."""
    unit, found = Sum(plan), []

    async def feed(ctx):
        for row in rows:
            for signal, value in zip(unit.values, row, strict=True):
                ctx.set(signal, int(value))
            await ctx.tick()

    async def watch(ctx):
        for cycle in range(plan.latency + len(rows)):
            _, _, total = await ctx.tick().sample(unit.total)
            if cycle >= plan.latency:
                found.append(total)

    run(unit, feed, watch)
    return found


@pytest.mark.parametrize("seed", range(15))
def test_sums_of_any_terms(seed: int) -> None:
    """Ranges with and without a sign, places that overlap or not, terms that are subtracted, all but one too."""
    source = np.random.default_rng(seed)
    terms = []
    for k in range(int(source.integers(2, 8))):
        low, high = sorted(int(n) for n in source.integers(-200, 200, 2))
        low = max(low, 0) if source.random() < 0.4 else low
        terms.append(Term(low, max(low, high), int(source.integers(0, 14)), bool(k and source.random() < 0.5)))
    plan = SumPlan(tuple(terms))
    rows = np.array([[int(source.integers(term.low, term.high + 1)) for term in terms] for _ in range(30)]
                    + [[term.low for term in terms], [term.high for term in terms]])
    signs = [-(1 << term.place) if term.negative else 1 << term.place for term in terms]
    assert not plan.result.negative
    assert total_of(plan, rows) == [int(sum(s * int(v) for s, v in zip(signs, row, strict=True))) for row in rows]


def test_signed_digits_are_few_and_far_between() -> None:
    for number in range(1, 5000):
        digits = signed_digits(number)
        assert sum(sign << place if sign > 0 else -(1 << place) for place, sign in digits) == number
        places = [place for place, _ in digits]
        assert all(b - a > 1 for a, b in pairwise(places))


@pytest.mark.parametrize("low, high, shape", [
    (0, 0, unsigned(1)), (0, 1, unsigned(1)), (3, 8, unsigned(4)), (-1, 0, signed(1)), (-8, 7, signed(4)),
    (-8, 8, signed(5)), (-9, -3, signed(5)), (0, 1 << 70, unsigned(71))])
def test_the_narrowest_shape(low: int, high: int, shape: Shape) -> None:
    assert holding(low, high) == shape
