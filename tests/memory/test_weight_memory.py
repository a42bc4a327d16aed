"""Several streams of weights from one memory: each at its own pace, none waits for another one to be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import SdramPart, WeightMemory, WeightSharing, WeightStream
from hwflow_sim.memory_bench import Taken, WeightTraffic, WeightTrafficResult, compile_weight_traffic

from hwflow.synth import load_board
from tests.memory.loads import require_beats
from tests.memory.parts import SMALL

#: Beats of two words, of a word and an eighth, and of half a word, from the longest image to the shortest.
THREE = (WeightStream(signed(8), 4, 500), WeightStream(unsigned(4), 2, 1200), WeightStream(signed(6), 3, 333))
ONE = (WeightStream(signed(8), 6, 300),)
RATIOS = [Fraction(1, 3), Fraction(7, 10), Fraction(1), Fraction(13, 10), Fraction(23, 5)]


@dataclass(frozen=True)
class Filled:
    """A memory with its program, and random weights for it."""

    memory: WeightMemory
    traffic: WeightTraffic

    def weights(self, seed: int) -> list[np.ndarray]:
        source = np.random.default_rng(seed)
        lows = [-(1 << each.shape.width - 1) if each.shape.signed else 0 for each in self.memory.streams]
        return [source.integers(low, low + (1 << each.shape.width), (each.beats, each.lanes))
                for low, each in zip(lows, self.memory.streams, strict=True)]

    def run(self, taken: Sequence[Taken], *, seeds: Sequence[int] = (1,), **options) -> WeightTrafficResult:
        """Requires that every beat is right.  Between clears the weights are those of one of `seeds` after another."""
        weights = [self.weights(seed) for seed in seeds]
        result = self.traffic.run([self.memory.image(each) for each in weights], taken, **options)
        require_beats(result, self.memory.streams, weights)
        return result


def filled(part: SdramPart, streams: Sequence[WeightStream], folder: Path, cache: Path, domain: str = "sync") -> Filled:
    memory = WeightMemory(part=part, streams=streams, domain=domain)
    traffic = compile_weight_traffic(memory, part, streams=len(streams), folder=folder, cache=cache, domain=domain)
    return Filled(memory, traffic)


@pytest.fixture(scope="module", params=["sync", pytest.param("memory", marks=pytest.mark.slow)])
def three(request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """In one clock domain, and in two."""
    return filled(SMALL, THREE, tmp_path_factory.mktemp("three"), cache, request.param)


@pytest.fixture(scope="module")
def crossed(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return filled(SMALL, THREE, tmp_path_factory.mktemp("crossed"), cache, "memory")


@pytest.fixture(scope="module")
def one(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return filled(SMALL, ONE, tmp_path_factory.mktemp("one"), cache)


def frames(count: int, **options) -> list[Taken]:
    return [Taken(count * each.beats + 5, **options) for each in THREE]


def paced(memory: WeightMemory, ratio: Fraction | int = 1) -> list[Taken]:
    return [Taken(3 * each.beats, pace=1 / cycles)
            for each, cycles in zip(memory.streams, memory.guaranteed(ratio), strict=True)]


@pytest.mark.parametrize(("fill_stall", "stalls"), [
    (0.0, (0, 0, 0)), (0.5, (0.5, 0.2, 0.7)), (0.1, (0.98, 0, 0.9)), (0.9, (0, 0.95, 0))])
def test_every_beat_with_stalls_on_all_streams(three: Filled, fill_stall: float, stalls: tuple[float, ...]) -> None:
    three.run([Taken(3 * each.beats, stall=stall) for each, stall in zip(THREE, stalls, strict=True)], seed=3,
              fill_stall=fill_stall)


@pytest.mark.parametrize("seed", range(5))
def test_restarts_at_any_time(three: Filled, seed: int) -> None:
    """Words on their way, in queues and in crossings are dropped, of all streams; the images stay."""
    result = three.run(frames(4, stall=0.1 * seed), seed=seed, restart=0.002)
    assert len(result.beats[0]) > 5


@pytest.mark.parametrize("clears", [
    (50, 300, 700), (2261, 2263, 9000), (2262, 4000, 4001), (2264, 2300, 12_000), (1500, 6003, 6010)])
def test_cleared_at_any_time(three: Filled, clears: tuple[int, ...]) -> None:
    """Before, while and after it is filled, between restarts: what comes next is what was filled next."""
    three.run(frames(4), seeds=(1, 2, 3, 4), seed=clears[0], clear=clears, restart=0.0005)


@pytest.mark.parametrize("stopped", range(3))
def test_a_stream_that_nobody_reads_stops_no_other(three: Filled, stopped: int) -> None:
    """The others go on, hungry, at their guaranteed pace at least."""
    taken = [Taken(6 * each.beats, stop=11 if n == stopped else None) for n, each in enumerate(THREE)]
    result = three.run(taken, seed=stopped)
    for n, cycles in enumerate(three.memory.guaranteed()):
        assert n == stopped or result.cycles_a_beat[n] <= cycles


@pytest.mark.parametrize("seed", range(4))
def test_the_guaranteed_pace_among_hungry_readers(three: Filled, seed: int) -> None:
    """Refreshes come at other moments with each seed.  Who keeps to the pace finds every beat when it wants it."""
    result = three.run(frames(6), seed=seed, fill_stall=0.3)
    for found, cycles in zip(result.cycles_a_beat, three.memory.guaranteed(), strict=True):
        assert found <= cycles
    for n, own in enumerate(paced(three.memory)):
        taken = [own if k == n else each for k, each in enumerate(frames(6))]
        assert three.run(taken, seed=seed, fill_stall=0.3).late[n] == 0


@pytest.mark.quick(3)
@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_two_clocks(crossed: Filled, ratio: Fraction) -> None:
    """Slower and faster readers: every beat, at the guaranteed pace; restarted and cleared at any time."""
    result = crossed.run(frames(6), ratio=ratio, fill_stall=0.2)
    guaranteed = crossed.memory.guaranteed(ratio)
    for found, cycles in zip(result.cycles_a_beat, guaranteed, strict=True):
        assert found <= cycles
    late = crossed.run(paced(crossed.memory, ratio), ratio=ratio).late
    dropped = [image.padded_beats - image.stream.beats for image in crossed.memory.sharing.images]
    assert all(cycles <= 3 * beats for cycles, beats in zip(late, dropped, strict=True))
    crossed.run(frames(4, stall=0.5), ratio=ratio, restart=0.001, seed=1)
    crossed.run(frames(4), seeds=(1, 2, 3), ratio=ratio, clear=(400, 7000), restart=0.001, seed=2)


def test_one_stream_needs_no_turns(one: Filled) -> None:
    """Its image is one burst: the pace of a sequential read."""
    result = one.run([Taken(2000)], fill_stall=0.5)
    assert one.memory.sharing.depths == (0,)
    assert result.cycles_a_beat[0] <= one.memory.guaranteed()[0] < 3 / 0.87
    one.run([Taken(2000, stall=0.5)], restart=0.003, seed=1)
    one.run([Taken(2000)], seeds=(1, 2), clear=(1036,), seed=2)


def test_nothing_comes_before_the_last_word(one: Filled) -> None:
    image = one.memory.image(one.weights(1))
    with pytest.raises(ToolFailed, match="the simulated memory of weights must answer, and did not"):
        one.traffic.run([image[:-1]], [Taken(1)])


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s_85f", *(pytest.param(name, marks=pytest.mark.slow)
                                                  for name in ("colorlight_i5", "tangnano20k"))])
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 5])
def test_hungry_readers_get_nine_tenths_of_the_peak(tmp_path: Path, cache: Path, board: str, count: int) -> None:
    """Streams of a word a beat, from 2000 words on, each twice the one before; refreshes included."""
    part = load_board(board).memories[0].part
    streams = [WeightStream(signed(8), part.width // 8, 2000 << n) for n in range(count)]
    unit = filled(part, streams, tmp_path, cache)
    result = unit.run([Taken(4 * each.beats) for each in streams])
    assert 0.9 < sum(1 / cycles for cycles in result.cycles_a_beat) < 1
    assert sum(1 / cycles for cycles in unit.memory.guaranteed()) > 0.88


def test_numbers_of_a_sharing() -> None:
    """By hand: images of 1000, 600 and 378 words; bursts in proportion to 256, in equal pieces."""
    sharing = WeightSharing(SMALL, THREE)
    assert [image.words for image in sharing.images] == [1000, 600, 378]
    assert (sharing.bursts, sharing.turns, sharing.firsts) == ((250, 150, 95), (4, 4, 4), (0, 1000, 1600))
    # Ten clocks to open a row; rows of 64 words: at most four changes in 250 words, three in 150, two in 95.
    assert sharing.burst_clocks == (250 + 10 + 8, 150 + 10 + 6, 95 + 10 + 4)
    assert sharing.round_clocks == Fraction(543 * 291, 291 - 22)
    assert sharing.guaranteed(2)[0] == sharing.round_clocks * 4 * 2 / 500
    short = WeightSharing(SMALL, (WeightStream(signed(8), 2, 8000), WeightStream(signed(8), 2, 64)))
    assert short.bursts == (250, 32)


@pytest.mark.parametrize(("streams", "message"), [
    ((), "streams must have at least one stream"),
    ((WeightStream(signed(8), 2, 16_000), WeightStream(signed(8), 2, 400)),
     "small has 16384 words, and the weights of all streams take 16400")])
def test_memories_that_cannot_be(streams: tuple[WeightStream, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        WeightMemory(part=SMALL, streams=streams)
