"""A stream between two clocks: every word once and in order, full rate, restarts at any time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hwflow_rtl.stream.crossing import StreamCrossing

from tests.rtl.harness import run

RATIOS = [(1.0, 1.0), (1.0, 1.013), (2.4, 1.0), (1.0, 2.4), (6.1, 1.0), (1.0, 9.7), (1.0, 1.5)]


def play(periods: tuple[float, float], stalls: tuple[float, float], pauses: list[tuple[int, int]], count: int,
         depth: int = 16) -> tuple[list[list[int]], int]:
    """What arrives between restarts, and the cycles of `sync` for it.

    A restart comes after so many words and lasts so many cycles.  The source counts up, from a new hundred thousand
    after each restart.
    """
    dut = StreamCrossing(shape=32, source="memory", target="sync", depth=depth)
    chance, seen, cycles = random.Random(repr((periods, stalls, pauses))), [[]], [0]

    async def source(ctx):
        generation, word, valid = 0, 0, 0
        while True:
            if not valid:
                valid = chance.random() >= stalls[0]
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, generation * 100_000 + word)
            _, _, ready, restarted = await ctx.tick("memory").sample(dut.i.ready, dut.restarted)
            if restarted:
                generation, word, valid = generation + (word > 0), 0, 0
                assert not ready
            elif valid and ready:
                word, valid = word + 1, 0

    async def sink(ctx):
        held, left = None, list(pauses)
        while len(seen[-1]) < count or left:
            if left and len(seen[-1]) >= left[0][0]:
                ctx.set(dut.o.ready, 0)
                ctx.set(dut.restart, 1)
                for _ in range(left.pop(0)[1]):
                    await ctx.tick()
                ctx.set(dut.restart, 0)
                seen.append([])
                held = None
            take = chance.random() >= stalls[1]
            ctx.set(dut.o.ready, take)
            _, _, valid, word = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            cycles[0] += 1
            assert cycles[0] < 100_000
            assert held is None or (valid and word == held)
            held = word if valid and not take else None
            if valid and take:
                seen[-1].append(word)

    memory, reader = (1000 * period for period in periods)
    run(dut, sink, watchers=[source], clocks={"memory": (memory, 130), "sync": reader})
    return seen, cycles[0]


def pairs(stalls: Sequence[tuple[float, float]]) -> list:
    """Each ratio with one of `stalls` in turn; the other pairs are slow tests."""
    return [pytest.param(periods, each, marks=[] if n % len(stalls) == k else [pytest.mark.slow])
            for n, periods in enumerate(RATIOS) for k, each in enumerate(stalls)]


@pytest.mark.quick(3)
@pytest.mark.parametrize(("periods", "stalls"), pairs([(0.3, 0.9), (0.5, 0), (0, 0.5)]))
def test_every_word_once_and_in_order(periods: tuple[float, float], stalls: tuple[float, float]) -> None:
    seen, _ = play(periods, stalls, [], 200)
    assert seen == [list(range(200))]


@pytest.mark.parametrize("periods", RATIOS)
def test_a_word_in_every_cycle_of_the_slower_clock(periods: tuple[float, float]) -> None:
    seen, cycles = play(periods, (0, 0), [], 300)
    assert seen == [list(range(300))]
    assert cycles * periods[1] <= 300 * max(periods) + 20 * sum(periods)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("periods", "stalls"), pairs([(0.4, 0.7), (0, 0)]))
def test_no_word_of_before_comes_after_a_restart(periods: tuple[float, float], stalls: tuple[float, float]) -> None:
    """Short and long ones, in quick succession, before anything has arrived, and while it is full."""
    chance = random.Random(repr(periods))
    pauses = [(chance.choice((0, 0, 1, 5, 30)), chance.choice((1, 1, 2, 3, 8, 32))) for _ in range(40)]
    seen, _ = play(periods, stalls, pauses, 20)
    assert len(seen) == 41
    for words in seen:
        assert [word % 100_000 for word in words] == list(range(len(words)))
    generations = [words[0] // 100_000 for words in seen if words]
    assert generations == sorted(set(generations))  # each is another one


def test_a_depth_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"^depth of a StreamCrossing must be a power of two of at least 16, not 12$"):
        StreamCrossing(shape=8, source="memory", target="sync", depth=12)
