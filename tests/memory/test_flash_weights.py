"""Several streams of weights from one flash: every beat, restarted at any time, at the promised pace, and none waits
for another one to be read."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.memory import FlashError, SealedFlash, WeightMemory, WeightSharing, WeightStream
from hwflow_rtl.memory.weight_sharing import piece_periods
from hwflow_sim.memory_bench import FlashTraffic, Taken, WeightTrafficResult, compile_beats, compile_flash_traffic

from hwflow.synth import load_board
from hwflow.synth.board_weights import BoardWeights
from tests.memory.flash_parts import DUAL, QUAD
from tests.memory.loads import require_beats

STREAMS = (WeightStream(signed(4), 2, 1200), WeightStream(signed(8), 3, 1200))


def test_a_design_on_a_board_wants_a_seal() -> None:
    board = load_board("icebreaker")
    weights = BoardWeights(board.memories[0], STREAMS)
    part = weights.gateware(board).part
    assert isinstance(part, SealedFlash)
    assert (part.words, part.mark) == (WeightSharing(QUAD, STREAMS).words, weights.mark)
    assert BoardWeights(board.memories[0], STREAMS[:1]).mark != weights.mark


@pytest.mark.slow
def test_two_streams_share_a_flash(tmp_path: Path, cache: Path) -> None:
    part = SealedFlash(QUAD, words=WeightSharing(QUAD, STREAMS).words, mark=b"2streams")
    memory = WeightMemory(part=part, streams=STREAMS)
    source = np.random.default_rng(11)
    weights = [source.integers(-8, 8, (1200, 2)), source.integers(-128, 128, (1200, 3))]
    image = memory.image(weights)
    digest = hashlib.sha256(image.astype("<u4").tobytes()).digest()[:16]
    octets = np.frombuffer(part.sealed(image, digest), dtype=np.uint8)
    frame = sum((beats & mask) << place for beats, mask, place in (
        (weights[0][:, 0], 15, 0), (weights[0][:, 1], 15, 4), *((weights[1][:, n], 255, 8 + 8 * n) for n in range(3))))
    program = compile_beats(memory, folder=tmp_path, cache=cache)

    result = program.run([[0, 6000, 0, 0]], octets)
    assert (result.violations, result.error) == ({}, FlashError.NONE)
    assert np.array_equal(result.words, np.tile(frame, 6)[:6001])
    assert result.reading <= 6000 * max(memory.guaranteed())
    # Each beat has 32 bits, eight clocks of the lines: the rest of the pace is lost to requests.
    assert 8 * 6000 / result.reading > 0.9

    restarted = program.run([[0, 1999, 0, 700], [0, 1999, 5, 3], [0, 1499, 0, 0]], octets, seed=1, stall=0.3)
    assert (restarted.violations, restarted.error) == ({}, FlashError.NONE)
    assert np.array_equal(restarted.words, np.concatenate([frame[:700], frame[:3], np.tile(frame, 2)[:1500]]))

    damaged = octets.copy()
    damaged[1000] ^= 1
    nothing = program.run([[0, 9, 0, 0]], damaged)
    assert (nothing.error, len(nothing.words)) == (FlashError.DAMAGED, 0)


#: Beats of a byte, of a byte of two elements, and of 18 bits, of which some are dropped; a stream that wants nearly all
#: of the bus beside one with a single burst; five streams on two lines.
SHARED = {
    "three": (QUAD, (WeightStream(signed(8), 1, 5000), WeightStream(unsigned(4), 2, 1203),
                     WeightStream(signed(6), 3, 333))),
    "two": (QUAD, (WeightStream(signed(8), 1, 20), WeightStream(signed(8), 2, 3001))),
    "five": (DUAL, tuple(WeightStream(signed(8), 1, 300 * n + 77) for n in (2, 7, 1, 5, 3)))}


@dataclass(frozen=True)
class Shared:
    """A memory of weights in a flash with its program, and random weights."""

    memory: WeightMemory
    traffic: FlashTraffic

    def run(self, taken: Sequence[Taken], *, seed: int, restart: float = 0.0) -> WeightTrafficResult:
        """Requires that every beat is right."""
        source, streams = np.random.default_rng(seed), self.memory.streams
        frames = [source.integers(0, 1 << stream.shape.width, (stream.beats, stream.lanes)) for stream in streams]
        octets = self.memory.image(frames).astype("<u4").view(np.uint8)
        result = self.traffic.run(octets, taken, seed=seed, restart=restart)
        require_beats(result, streams, [frames])
        return result

    def frames(self, count: int, **options) -> list[Taken]:
        return [Taken(count * each.beats + 5, **options) for each in self.memory.streams]


@pytest.fixture(scope="module", params=[
    "three", *(pytest.param(name, marks=pytest.mark.slow) for name in ("two", "five"))])
def shared(request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    part, streams = SHARED[request.param]
    memory = WeightMemory(part=part, streams=streams)
    return Shared(memory, compile_flash_traffic(memory, folder=tmp_path_factory.mktemp("shared"), cache=cache))


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.98])
def test_every_beat_with_stalls_and_restarts(shared: Shared, stall: float) -> None:
    """Each stream is read at a pace of its own; a restart drops all that is on its way, and begins with a frame."""
    taken = shared.frames(3)
    for n in range(len(taken)):
        taken[n] = Taken(taken[n].beats, stall=stall if n % 2 else stall / 2)
    shared.run(taken, seed=1)
    result = shared.run(taken, seed=2, restart=0.0005)
    assert len(result.beats[0]) > 3


def test_a_stream_that_nobody_reads_stops_no_other(shared: Shared) -> None:
    """The others go on, hungry, at their guaranteed pace at least."""
    guaranteed = shared.memory.guaranteed()
    for stopped in range(len(guaranteed)):
        taken = shared.frames(6)
        taken[stopped] = Taken(1, stop=11)
        result = shared.run(taken, seed=stopped)
        for n, cycles in enumerate(guaranteed):
            assert n == stopped or result.cycles_a_beat[n] <= cycles, (stopped, n)


def test_who_keeps_to_the_pace_never_waits(shared: Shared) -> None:
    """Among hungry readers; these get their guaranteed pace as well."""
    guaranteed = shared.memory.guaranteed()
    hungry = shared.run(shared.frames(8), seed=5)
    for found, cycles in zip(hungry.cycles_a_beat, guaranteed, strict=True):
        assert found <= cycles
    sharing = shared.memory.sharing
    for n, (image, cycles) in enumerate(zip(sharing.images, guaranteed, strict=True)):
        taken, beats = shared.frames(6), image.stream.beats
        taken[n] = Taken(4 * beats, pace=1 / cycles)
        result = shared.run(taken, seed=n)
        # Beats that are dropped at the end of a frame take their time.
        frames, dropped = result.cycles / cycles / beats + 1, image.padded_beats - beats
        assert result.late[n] <= frames * dropped * (sharing.periods[n] + len(guaranteed)), n


def test_numbers_of_streams_side_by_side() -> None:
    """By hand: images of 1250, 301 and 189 words, the last one with three beats of 18 bits that are dropped."""
    sharing = WeightSharing(*SHARED["three"])
    assert [image.words for image in sharing.images] == [1250, 301, 189]
    assert (sharing.bursts, sharing.turns, sharing.last_bursts) == ((63, 16, 10), (20, 19, 19), (53, 13, 9))
    assert (sharing.firsts, sharing.stride, sharing.words) == ((0, 63, 79), 128, 19 * 128 + 53)
    ones = [np.ones((each.beats, each.lanes), dtype=np.int64) for each in sharing.streams]
    words = sharing.image(ones)
    assert words[:63].tolist() == [0x01010101] * 63
    assert (words[89:128] == 0).all()
    assert words[18 * 128 + 63:18 * 128 + 79].tolist() == [0x11111111] * 12 + [0x00111111, 0, 0, 0]


@pytest.mark.parametrize("seed", range(40))
def test_each_stream_gets_its_pieces_in_time(seed: int) -> None:
    """In a simulation of the RAM, all streams hungry from the first cycle on, or each from another one."""
    source = random.Random(seed)
    streams = tuple(WeightStream(signed(8), 1, round(10 ** source.uniform(2, 4))) for _ in range(source.randint(2, 9)))
    sharing = WeightSharing(source.choice((QUAD, DUAL)), streams)
    paces = [sharing.round_clocks / (4 * sharing.bursts[n]) for n in sharing.by_pace]
    periods = piece_periods(paces)
    for latest in (0, 60):
        wants = [source.randint(0, latest) for _ in streams]
        for cycle in range(3000):
            first = next((n for n, since in enumerate(wants) if since <= cycle), None)
            if first is not None:
                assert cycle - wants[first] + periods[first] <= paces[first]
                wants[first] = cycle + periods[first]


def test_a_stream_waits_for_those_before_it() -> None:
    """By hand: two that want a piece in three clocks leave the third clock to another one."""
    assert piece_periods([Fraction(3), Fraction(4), Fraction(12)]) == (3, 3, 3)
    assert piece_periods([Fraction(9, 4), Fraction(16)]) == (2, 3)
    assert piece_periods([Fraction(8), Fraction(8), Fraction(8), Fraction(8)]) == (6, 6, 6, 5)
    message = "streams that share a memory of rings must want pieces more seldom than in 2.00, 2.00, 2.00 clocks"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        piece_periods([Fraction(2)] * 3)
