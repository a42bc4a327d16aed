"""`times` of pools and tables against the simulated unit, beat by beat, for words that come at random."""

from collections.abc import Callable

import numpy as np
import pytest
from amaranth.hdl import Value, signed
from hwflow_rtl.pool.fold_pool import FoldAveragePoolShape, FoldMaxPoolShape
from hwflow_rtl.pool.pool import AveragePoolShape, MaxPoolShape
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants
from hwflow_rtl.stream.unit import UnitShape
from hwflow_rtl.tables.lookup import LookupShape
from hwflow_rtl.vendor import Generic, Technology, Timing

from tests.rtl import test_fold_pool, test_pool, test_window
from tests.rtl.harness import layout_of, pack, receiver, simulator
from tests.rtl.test_pool import frames_for

#: Words that come at once, now and then, late, and in bursts.
ARRIVALS = ("at once", "now and then", "late", "in bursts")


def technology(rom: int = 2, ram: int = 2) -> Generic:
    return Generic(timing=Timing(multiply=4, rom=rom, ram=ram))


def arrivals_of(kind: str, count: int) -> np.ndarray:
    source = np.random.default_rng([count, ARRIVALS.index(kind)])
    gaps = {"at once": np.ones(count), "now and then": source.integers(1, 4, count),
            "late": source.choice([1, 1, 2, 25], count),
            "in bursts": np.where(np.arange(count) % 17, 1, source.integers(1, 60, count))}[kind]
    return np.cumsum(gaps.astype(np.int64)) - 1 + int(source.integers(0, 9))


def play(unit, beats: np.ndarray, arrivals: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """When beats are taken that are valid from `arrivals` on, and when the `count` beats of the output are."""
    shape, taken, found = layout_of(unit.i)[0], [], []

    async def send(ctx):
        cycle = 0
        for beat, arrival in zip(beats, arrivals, strict=True):
            if arrival > cycle:
                await ctx.tick().repeat(int(arrival) - cycle)
                cycle = int(arrival)
            ctx.set(Value.cast(unit.i.payload), pack(beat, shape))
            ctx.set(unit.i.valid, 1)
            ready = False
            while not ready:
                _, _, ready = await ctx.tick().sample(unit.i.ready)
                cycle += 1
            taken.append(cycle - 1)
            ctx.set(unit.i.valid, 0)

    sim = simulator(unit)
    sim.add_testbench(send)
    sim.add_testbench(receiver(unit.o, count, 0.0, 0, 5000, 20, found.append))
    sim.run()
    return np.array(taken), found[0].cycles


def check(shape: UnitShape, make: Callable[[], Technology], frames: np.ndarray) -> None:
    """The times of `shape` are what the simulation shows."""
    beats = frames.reshape(-1, *shape.lanes_in)
    for kind in ARRIVALS:
        arrivals = arrivals_of(kind, len(beats))
        said = shape.times(make(), arrivals)
        taken, given = play(shape.build(make(), "unit"), beats, arrivals, len(said.departures))
        assert np.array_equal(said.taken[0], taken), kind
        assert np.array_equal(said.departures, given), kind


def quick(names, *chosen: str) -> list:
    """The others are among the slow tests."""
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", quick(test_pool.SHAPES, "3x3 padded"))
def test_max_pool(name):
    shape, lanes = test_pool.SHAPES[name]
    check(MaxPoolShape(window=shape, lanes=lanes, element=signed(8)), technology, frames_for(shape, lanes, 3))


@pytest.mark.parametrize("name", quick(test_pool.SHAPES, "3x3 padded"))
def test_max_pool_with_a_ring_of_any_depth(name):
    shape, lanes = test_pool.SHAPES[name]
    check(MaxPoolShape(window=shape, lanes=lanes, element=signed(8)), test_window.EveryWordCounts,
          frames_for(shape, lanes, 3))


@pytest.mark.parametrize("name", quick(test_fold_pool.SHAPES, "global, many words"))
def test_folded_max_pool(name):
    shape, lanes = test_fold_pool.SHAPES[name]
    check(FoldMaxPoolShape(window=shape, lanes=lanes, element=signed(8)), technology, frames_for(shape, lanes, 3))


def rescalers(channels: int):
    source = np.random.default_rng(channels)
    yield RequantizerConstants(
        bias=source.integers(-50, 50, channels), multiplier=source.integers(1 << 13, 1 << 15, channels),
        shift=source.integers(16, 18, channels), zero_point=-3, low=-128, high=127, style=RequantizerStyle.DSP)
    yield ThresholderConstants(np.sort(source.integers(-300, 300, (channels, 15)), axis=1), -3)


def check_average(kind, shape, lanes: int, **others: int) -> None:
    for out_lanes in sorted({1, lanes}):
        if kind is FoldAveragePoolShape and not kind.fits(shape, lanes // out_lanes):
            continue
        for rescaler in rescalers(shape.words * lanes):
            check(kind(window=shape, lanes=lanes, element=signed(8), accumulator=signed(14), rescaler=rescaler,
                       output=signed(8), out_lanes=out_lanes, **others), technology, frames_for(shape, lanes, 3))


@pytest.mark.parametrize("name", quick(test_pool.SHAPES, "one tap"))
def test_average_pool(name):
    check_average(AveragePoolShape, *test_pool.SHAPES[name], pad_value=5)


@pytest.mark.parametrize("name", quick(test_fold_pool.SHAPES, "2x2"))
def test_folded_average_pool(name):
    check_average(FoldAveragePoolShape, *test_fold_pool.SHAPES[name])


@pytest.mark.parametrize("rom", [1, 2, 4])
def test_lookup(rom):
    shape = LookupShape(element=signed(4), output=signed(8), lanes=2, beats=60, table=np.arange(16) * 3 - 20)
    check(shape, lambda: technology(rom), np.random.default_rng(2).integers(-8, 8, (60, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("ram", [1, 3, 4])
def test_other_latencies_of_the_memory(ram):
    shape, lanes = test_fold_pool.SHAPES["2x2, long rows"]
    for kind in (MaxPoolShape, FoldMaxPoolShape):
        check(kind(window=shape, lanes=lanes, element=signed(8)), lambda: technology(ram=ram),
              frames_for(shape, lanes, 2))
