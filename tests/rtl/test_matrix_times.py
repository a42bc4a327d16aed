"""When a matrix stage takes and gives beats: what `times` says is what the simulation shows, in every cycle."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_rtl.matrix.row_patch import PatchTimes
from hwflow_rtl.stream.word_join import WordJoinShape
from hwflow_rtl.vendor.base import Timing
from hwflow_rtl.vendor.generic import Generic

from tests.random_cases import seeds
from tests.rtl.harness import simulate
from tests.rtl.test_matrix import LAYERS, TIMINGS, Case, Layer
from tests.rtl.test_row_patch import SHAPES, frames_of, patch_of
from tests.rtl.units import ARRIVALS, arrivals_of, play

FRAMES = 3


def check(layer: Layer, timing: Timing, arrivals: Callable[[int, int], np.ndarray], seed: int = 0) -> None:
    """Values and cycles; `arrivals` says when beats come, for their count and the interval between frames."""
    technology = Generic(timing=timing)
    case = Case(layer, FRAMES, technology=technology, seed=seed)
    shape = case.stage.shape.matrix
    cycles = arrivals(len(case.beats_in), shape.cycles())
    said = case.stage.shape.times(technology, cycles)
    seen = play(case.stage, [case.beats_in], [cycles], len(case.beats_out))
    assert np.array_equal(seen.output.beats, case.beats_out)
    assert np.array_equal(said.taken[0], seen.taken[0])
    assert np.array_equal(said.departures, seen.output.cycles)


def evenly(count: int, interval: int) -> np.ndarray:
    """As many in each frame, spread over the interval."""
    return np.arange(count) * interval * FRAMES // count


@pytest.mark.parametrize("name", LAYERS)
def test_a_producer_that_comes_evenly_never_waits(name: str) -> None:
    case = Case(LAYERS[name], 1)
    shape = case.stage.shape.matrix
    cycles = evenly(FRAMES * len(case.beats_in), shape.cycles())
    said = case.stage.shape.times(case.technology, cycles)
    assert np.array_equal(said.taken[0], cycles)


def random_layer(source: random.Random) -> Layer:
    """Any sizes that a layer and its folding can have, and that are simulated in a second or two."""
    while True:
        groups, depth, outputs = source.choice([1, 1, 1, 2, 3, 4]), source.randint(1, 5), source.randint(1, 5)
        kernel = source.choice([(1, 1), (3, 3), (1, 3), (2, 2), (1, 5), (3, 1), (2, 3), (10, 4)])
        stride = source.choice([(1, 1), (1, 1), (2, 2), (1, 2), (3, 3), (2, 1)])
        dilation = source.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 2)])
        pads = tuple(source.randint(0, 2) if source.random() < 0.7 else 0 for _ in range(4))
        reach = tuple((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
        height, width = source.randint(1, 12 if kernel[0] == 10 else 6), source.randint(1, 7)
        if reach[0] >= height + pads[0] + pads[2] or reach[1] >= width + pads[1] + pads[3]:
            continue
        parallel = source.randint(2, groups) if groups > 1 and source.random() < 0.5 else 1
        rows, cols = source.randint(1, outputs), source.randint(1, depth)
        if parallel > 1:
            rows, cols = parallel * outputs, parallel * depth
        span = outputs if parallel == 1 else groups * outputs
        layer = Layer(
            (height, width, groups * depth), groups * outputs, rows, cols, kernel, stride, dilation, pads, groups,
            source.choice([n for n in range(1, rows + 1) if rows % n == 0 and span % n == 0]),
            patch=kernel[1] > 1 and pads[1] <= reach[1] and source.random() < 0.5, parallel=parallel)
        if layer.shape(signed(24)).cycles() < 1000:
            return layer


@seeds(quick=range(3), slow=range(3, 30))
def test_random_layers(seed: int) -> None:
    source = random.Random(seed)
    layer, timing, kind = random_layer(source), source.choice(TIMINGS), source.choice((*ARRIVALS, "evenly"))
    check(layer, timing, lambda count, interval: (
        evenly(count, interval) if kind == "evenly" else arrivals_of(kind, count, seed)), seed)


@seeds(slow=range(100, 120))
def test_random_layers_at_full_pace_and_under_stalls(seed: int) -> None:
    layer = random_layer(random.Random(seed))
    case = Case(layer, FRAMES + 1, seed=seed)
    ends = case.run()["o"].cycles.reshape(FRAMES + 1, -1)[:, -1]
    assert (np.diff(ends[1:]) == case.stage.shape.matrix.cycles()).all()
    Case(layer, 2, seed=seed).run(stall_in=0.4, stall_out=0.4, seed=seed)


@pytest.mark.parametrize(("name", "kind"), [
    pytest.param(name, kind, marks=[] if k % 4 == 0 and kind == "in bursts" else [pytest.mark.slow])
    for k, name in enumerate(SHAPES) for kind in ("at once", "late", "in bursts")])
def test_times_of_a_patch(name: str, kind: str) -> None:
    """As if its reader always took the windows."""
    shape = SHAPES[name]
    beats = frames_of(shape, 2).reshape(-1, 2)
    arrivals = arrivals_of(kind, len(beats), 3)
    count = 2 * shape.height * shape.out_width * shape.words
    times = PatchTimes(shape, arrivals, np.ones_like(arrivals))
    given = times.play(None)
    while not np.array_equal(given, before := given):
        given = times.play(before)
    seen = play(patch_of(shape), [beats], [arrivals], count)
    assert np.array_equal(times.words.reshape(-1), seen.taken[0])
    assert np.array_equal(given, seen.output.cycles)


@pytest.mark.parametrize(("lanes_in", "lanes", "chunk"), [(1, 3, 5), (2, 4, 10), (1, 4, 1), (3, 6, 9), (1, 2, 4)])
def test_joins_words(lanes_in: int, lanes: int, chunk: int) -> None:
    frames = np.random.default_rng(0).integers(-128, 128, (2, 3, 2, 2 * chunk))
    join = WordJoinShape(element=signed(8), lanes_in=lanes_in, lanes=lanes, chunk=chunk).build()
    words = join.model(frames).reshape(-1, lanes)
    per_chunk = -(-chunk // lanes) * lanes
    there = (np.arange(words.size) % per_chunk < chunk).reshape(words.shape)
    for stalls in ((0.0, 0.0), (0.4, 0.4)):
        trace = simulate(join, sends={"i": frames.reshape(-1, lanes_in)}, receives={"o": len(words)},
                         stall_in=stalls[0], stall_out=stalls[1])["o"]
        assert np.array_equal(np.where(there, trace.beats, 0), words)


@pytest.mark.parametrize("lanes_in", [2, 3, 4])
def test_join_refuses(lanes_in: int) -> None:
    with pytest.raises(ValueError, match=f"lanes_in of a WordJoin must be less than its 4 lanes and divide them and a "
                                         f"chunk of 5 elements, not {lanes_in}"):
        WordJoinShape(element=signed(8), lanes_in=lanes_in, lanes=4, chunk=5)
