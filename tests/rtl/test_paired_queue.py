"""Queues in a memory with a single port: every cycle of every pattern of arrivals and departures is foreseen."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

import numpy as np
import pytest
from amaranth.hdl import unsigned
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.queue_choice import PairedQueue, QueueChoice, chosen_for_spram, make_queue
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin
from hwflow_rtl.vendor.memory import Place

from tests.random_cases import seeds
from tests.rtl.harness import STALLS, run, simulate

UP5K = ICE40(single_port_rams=4)
#: With eight words in its front the queue has nothing for its output after these cycles, in which a word comes or not
#: and the output takes or not: found by a search through all states of the queue's control.
HARDEST = [(1, 0)] * 6 + [(0, 0), (1, 0), (0, 0), (1, 0), (1, 1)] + [(0, 1)] * 7


def play(queue: PairedQueue, cycles: Iterable[tuple[int, int]], seed: int = 0) -> None:
    """A word comes, or does not, in each cycle, and is taken or not; what must be seen is known to the cycle.

    A word is there `LATENCY` cycles after it came, from then on until it is taken; there is room for `depth` words.
    """
    noise = random.Random(seed)

    async def testbench(ctx):
        inside: deque[tuple[int, int]] = deque()
        for now, (comes, takes) in enumerate(cycles):
            word = noise.getrandbits(len(queue.i.payload))
            ctx.set(queue.i.valid, comes)
            ctx.set(queue.i.payload, word)
            ctx.set(queue.o.ready, takes)
            _, _, ready, valid, payload, level = await ctx.tick().sample(
                queue.i.ready, queue.o.valid, queue.o.payload, queue.level)
            assert level == len(inside)
            assert ready == (len(inside) < queue.depth), now
            assert valid == (bool(inside) and inside[0][0] + queue.latency <= now), now
            if valid:
                assert payload == inside[0][1], now
                if takes:
                    inside.popleft()
            if comes and ready:
                inside.append((now, word))

    run(queue, testbench)


def bursts(count: int, seed: int) -> Iterable[tuple[int, int]]:
    """Cycles in which words come and go with chances that change from time to time."""
    noise, chances = random.Random(repr(("bursts", seed))), (0.5, 0.5)
    for _ in range(count):
        if noise.random() < 0.03:
            chances = noise.choice((0, 0.1, 0.5, 0.9, 1)), noise.choice((0, 0.1, 0.5, 0.9, 1))
        yield noise.random() < chances[0], noise.random() < chances[1]


def every_pattern(length: int) -> list[int]:
    """Bits among which each pattern of so many stands somewhere: a shift register that goes on with what is new."""
    bits, seen = [0] * length, set()
    while True:
        for bit in (1, 0):
            if (found := (*bits[-length + 1:], bit)) not in seen:
                seen.add(found)
                bits.append(bit)
                break
        else:
            return bits


@pytest.mark.parametrize("depth", [16, 17, 40])
@seeds(quick=[0], slow=range(1, 4))
def test_every_cycle_is_foreseen(seed: int, depth: int) -> None:
    queue = PairedQueue(shape=unsigned(8), depth=depth, technology=Generic())
    play(queue, bursts(1000 if seed == 0 else 8000, seed), seed)


@pytest.mark.parametrize("before", range(4))
def test_words_come_in_any_pattern(before: int) -> None:
    """Each pattern of ten cycles, from each of the four places in row and parity."""
    comes = [1] * (before & 1) + [0] * (before >> 1) + every_pattern(10)
    queue = PairedQueue(shape=unsigned(12), depth=20, technology=Generic())
    play(queue, [(bit, 1) for bit in comes])


@pytest.mark.parametrize("parity", [0, 1])
def test_the_front_is_deep_enough(parity: int) -> None:
    queue = PairedQueue(shape=unsigned(3), depth=32, technology=Generic())
    play(queue, [(0, 1)] * parity + HARDEST + [(0, 1)] * 10)


@pytest.mark.quick(10)
@pytest.mark.parametrize("stall_out", STALLS)
@pytest.mark.parametrize("stall_in", STALLS)
@pytest.mark.parametrize("width", [1, 9])
def test_words_keep_their_order(width: int, stall_in: float, stall_out: float) -> None:
    count = 100 if max(stall_in, stall_out) < 0.9 else 20
    words = np.random.default_rng(width).integers(0, 1 << width, (count, 1))
    queue = PairedQueue(shape=unsigned(width), depth=24, technology=Generic(like=UP5K))
    traces = simulate(queue, sends={"i": words}, receives={"o": count}, stall_in=stall_in, stall_out=stall_out)
    assert np.array_equal(traces["o"].beats, words)


def test_few_words_and_other_families_are_refused() -> None:
    with pytest.raises(ValueError, match="depth of a PairedQueue must be at least 16, not 15; take a Queue"):
        PairedQueue(shape=8, depth=15, technology=UP5K)
    for technology in (ECP5(), Gowin(), Generic(like=ECP5())):
        with pytest.raises(ValueError, match=r"memory must be tables or blocks on (ecp5|gowin), which has no large"):
            technology.single_port_ram(width=8, depth=100)
        with pytest.raises(ValueError, match="not spram"):
            PairedQueue.cost(width=8, depth=100, technology=technology)


@pytest.mark.parametrize(("width", "depth", "memories"), [
    (1, 100, 1), (8, 32768, 1), (8, 32769, 2), (9, 100, 2), (16, 32768, 2), (18, 1000, 3), (24, 700, 3),
    (16, 65537, 6)])
def test_memories_are_counted(width: int, depth: int, memories: int) -> None:
    assert PairedQueue.cost(width=width, depth=depth, technology=UP5K).spram == memories
    assert PairedQueue.cost(width=width, depth=depth, technology=Generic(like=UP5K)).spram == memories


def test_who_gets_them() -> None:
    """What saves the most RAM blocks for a memory, as far as they go; nothing that saves few, or is shallow."""
    queues = [(8, 300), (8, 2000), (16, 4000), (8, 4000), (8, 4000), (8, 12), (24, 3000)]
    assert chosen_for_spram(queues, UP5K, 4) == (False, False, True, True, True, False, False)
    assert chosen_for_spram(queues, UP5K, 1) == (False, False, False, True, False, False, False)
    assert chosen_for_spram(queues[:2], UP5K, 4) == (False, True)
    assert not any(chosen_for_spram(queues, UP5K, 0))
    assert not any(chosen_for_spram(queues, ECP5(), 0))


def test_a_queue_is_made_where_it_is_told_to_be() -> None:
    choices = {depth: QueueChoice(width=8, depth=depth, technology=UP5K, spram=True) for depth in (8, 2000)}
    assert [choice.memory for choice in choices.values()] == [Place.BLOCKS, Place.SPRAM]
    assert QueueChoice(width=8, depth=2000, technology=UP5K).memory is Place.BLOCKS
    assert QueueChoice(width=8, depth=3, technology=UP5K).memory is Place.TABLES
    kinds = [type(make_queue(shape=8, depth=depth, technology=UP5K, spram=spram))
             for depth, spram in ((2000, True), (2000, False), (3, True))]
    assert kinds == [PairedQueue, DeepQueue, Queue]
    choice = choices[2000]
    assert (choice.latency, choice.capacity) == (PairedQueue.LATENCY, 2000)
    fork = Fork(shape=8, depths=[2000, 2000], technology=UP5K, spram=[False, True])
    assert [type(queue) for queue in fork.queues] == [DeepQueue, PairedQueue]
    cost = Fork.cost(width=8, depths=[2000, 2000], technology=UP5K, spram=[False, True])
    assert (cost.ram, cost.spram) == (4, 1)
