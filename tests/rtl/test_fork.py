"""Forks and deep queues: order, capacity, latency, rate, with any stalls; and when beats leave forks and gearboxes."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.queue_choice import QueueChoice, make_queue
from hwflow_rtl.tables.lookup import LookupShape
from hwflow_rtl.vendor import ECP5, FAMILIES, ICE40, Generic, Timing, price

from tests.rtl.harness import STALLS, run, simulate

TECHNOLOGIES = {f"ram {ram}": Generic(timing=Timing(multiply=3, ram=ram)) for ram in (1, 2, 3)}


def words(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (count, 1))


@pytest.mark.quick(10)
@pytest.mark.parametrize("stall_out", STALLS)
@pytest.mark.parametrize("stall_in", STALLS)
@pytest.mark.parametrize("extra", [0, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3, 9, 20))])
def test_deep_queue_keeps_words_and_order(extra, stall_in, stall_out):
    technology = TECHNOLOGIES["ram 2"]
    count = 100 if max(stall_in, stall_out) < 0.9 else 20
    queue = DeepQueue(shape=signed(8), depth=DeepQueue.least_depth(technology) + extra, technology=technology)
    traces = simulate(queue, sends={"i": words(count)}, receives={"o": count}, stall_in=stall_in, stall_out=stall_out,
                      seed=extra)
    assert np.array_equal(traces["o"].beats, words(count))


@pytest.mark.parametrize("name", TECHNOLOGIES)
@pytest.mark.parametrize("depth", [0, 1, 3, 27])
def test_deep_queue_moves_a_word_every_cycle_after_its_latency(depth, name):
    technology = TECHNOLOGIES[name]
    queue = DeepQueue(shape=signed(8), depth=DeepQueue.least_depth(technology) + depth, technology=technology)
    traces = simulate(queue, sends={"i": words(100)}, receives={"o": 100})
    assert np.array_equal(traces["o"].beats, words(100))
    assert np.array_equal(traces["o"].cycles, traces["i"].cycles + queue.latency)
    assert traces["i"].span == 100
    assert queue.latency == DeepQueue.latency_of(technology) == {1: 3, 2: 4, 3: 6}[technology.timing.ram]


@pytest.mark.parametrize("technology", [*TECHNOLOGIES.values(), *(family() for family in FAMILIES.values())],
                         ids=lambda t: f"{t.name} {t.timing.ram}")
@pytest.mark.parametrize("extra", [0, 1, 5, 12])
def test_deep_queue_holds_its_depth_and_says_how_much(extra, technology):
    """Filled to the brim, emptied, filled again: exactly `depth` words go in, and `level` counts them."""
    depth = DeepQueue.least_depth(technology) + extra
    queue = DeepQueue(shape=unsigned(6), depth=depth, technology=twin(technology))
    got = []

    async def testbench(ctx):
        number = 0
        for _ in range(2):
            accepted = 0
            ctx.set(queue.i.valid, 1)
            for _ in range(2 * depth + 10):
                ctx.set(queue.i.payload, number % 64)
                _, _, ready, level = await ctx.tick().sample(queue.i.ready, queue.level)
                assert level == accepted
                accepted += ready
                number += ready
            assert accepted == queue.capacity == depth
            ctx.set(queue.i.valid, 0)
            ctx.set(queue.o.ready, 1)
            for _ in range(2 * depth + 10):
                _, _, valid, word, level = await ctx.tick().sample(queue.o.valid, queue.o.payload, queue.level)
                assert level == accepted
                accepted -= valid
                got.extend([word] * valid)
            assert accepted == 0
            ctx.set(queue.o.ready, 0)

    run(queue, testbench)
    assert got == [n % 64 for n in range(2 * depth)]


def twin(technology):
    """What simulates: a family's own RAM is a black box."""
    return Generic(timing=technology.timing, like=None if isinstance(technology, Generic) else technology)


def test_deep_queue_refuses_few_words():
    with pytest.raises(ValueError, match="depth of a DeepQueue must be at least 6, not 5; take a Queue"):
        DeepQueue(shape=8, depth=5, technology=ECP5())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1, 8, 36, 64])
@pytest.mark.parametrize("depth", [2, 5, 16, 64, 300, 1030, 4100])
def test_the_cheaper_queue_is_taken(depth, width, family):
    """Its cost is what the technology says of its RAM, and in simulation the same one is taken."""
    technology = FAMILIES[family]()
    choice = QueueChoice(width=width, depth=depth, technology=technology)
    queue = make_queue(shape=unsigned(width), depth=depth, technology=technology)
    assert isinstance(queue, DeepQueue if choice.in_blocks else Queue)
    assert queue.latency == choice.latency
    assert queue.capacity >= depth
    shallow = Queue.cost(width=width, depth=depth, technology=technology)
    assert depth > 64 or price(choice.cost) <= price(shallow)
    if choice.in_blocks:
        places = depth - queue.front
        assert choice.cost.ram == technology.ram_cost(width=width, depth=places).ram > 0
    simulated = make_queue(shape=unsigned(width), depth=depth, technology=twin(technology))
    assert type(simulated) is type(queue)
    assert simulated.latency == queue.latency


def test_what_stands_where():
    """A memory of tables is for tens of words; RAM need not be a power of two deep."""
    ecp5, ice40 = ECP5(), ICE40()
    assert not QueueChoice(width=32, depth=32, technology=ecp5).in_blocks
    assert QueueChoice(width=1, depth=65, technology=ecp5).in_blocks
    assert QueueChoice(width=32, depth=512, technology=ecp5).in_blocks
    assert not QueueChoice(width=32, depth=512, technology=None).in_blocks
    assert QueueChoice(width=16, depth=700, technology=ice40).cost.ram == 3  # of 1024 words they would be four
    assert Queue.cost(width=16, depth=700, technology=ice40).ram == 4
    assert Queue.cost(width=16, depth=33, technology=ecp5).lut == Queue.cost(width=16, depth=60, technology=ecp5).lut


@pytest.mark.parametrize("stall_in, stall_out", [(0, 0), (0.5, 0.5), (0.9, 0), (0, 0.9), (0.3, 0.98)])
def test_every_reader_gets_every_word(stall_in, stall_out):
    fork = Fork(shape=signed(8), depths=[0, 7, 600], technology=Generic(like=ECP5()))
    assert [type(queue) for queue in fork.queues] == [Queue, Queue, DeepQueue]
    count = 100 if max(stall_in, stall_out) < 0.9 else 25
    traces = simulate(fork, sends={"i": words(count)}, receives=dict.fromkeys(("o0", "o1", "o2"), count),
                      stall_in=stall_in, stall_out=stall_out)
    for name in ("o0", "o1", "o2"):
        assert np.array_equal(traces[name].beats, words(count))
    if stall_out == 0:
        for k, depth in enumerate((0, 7, 600)):
            made = Fork.times(traces["i"].offered, width=8, depth=depth, technology=ECP5())
            assert np.array_equal(traces[f"o{k}"].cycles, made)
            assert Fork.choice(width=8, depth=depth, technology=ECP5()).latency == fork.queues[k].latency


PAIRS = [(a, b) for a in range(1, 13) for b in range(1, 13)]
#: Of the others the least common multiple is large, and their simulation slow.
QUICK = [(a, b) for a, b in PAIRS if np.lcm(a, b) <= 12 and (a, b) != (7, 7)]


@pytest.mark.quick(21)
@pytest.mark.parametrize("lanes_in, lanes_out", [
    pytest.param(*pair, marks=[] if pair in QUICK else [pytest.mark.slow]) for pair in PAIRS])
def test_times_of_a_gearbox_are_exact(lanes_in, lanes_out):
    """Beats that come at random, in a stream of frames; the output is always taken."""
    frame = int(np.lcm(lanes_in, lanes_out))
    elements = frame * max(2, 48 // frame)
    beats = np.random.default_rng(frame).integers(0, 2, (elements // lanes_in, lanes_in))
    for stall in (0.0, 0.4, 0.85):
        gearbox = Gearbox(shape=unsigned(1), lanes_in=lanes_in, lanes_out=lanes_out)
        traces = simulate(gearbox, sends={"i": beats}, receives={"o": elements // lanes_out}, stall_in=stall,
                          seed=frame)
        made = Gearbox.times(traces["i"].offered, lanes_in=lanes_in, lanes_out=lanes_out)
        assert np.array_equal(traces["o"].cycles, made), stall


@pytest.mark.parametrize("rom", [1, 2, 3])
@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_times_of_a_lookup_are_exact(stall, rom):
    technology = Generic(timing=Timing(multiply=3, rom=rom))
    shape = LookupShape(element=Shape(4), output=Shape(4), table=np.arange(16)[::-1], lanes=2, beats=60)
    stage = shape.build(technology, "table")
    beats = np.random.default_rng(1).integers(0, 16, (60, 2))
    traces = simulate(stage, sends={"i": beats}, receives={"o": 60}, stall_in=stall)
    times = shape.times(technology, traces["i"].offered)
    assert np.array_equal(traces["i"].cycles, times.taken[0])
    assert np.array_equal(traces["o"].cycles, times.departures)
    assert np.array_equal(traces["o"].beats, stage.model(beats))
