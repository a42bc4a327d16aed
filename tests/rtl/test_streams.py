import re
from collections import deque
from itertools import product

import numpy as np
import pytest
from amaranth.hdl import Module, signed, unsigned
from amaranth.lib import wiring
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import lanes_of, link, stream_of
from hwflow_rtl.vendor import ECP5, ICE40, Gowin

from tests.rtl.harness import STALLS, run, simulate


def noise(seed: int, count: int, lanes: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (count, lanes))


@pytest.mark.quick(20)
@pytest.mark.parametrize("depth, stall_in, stall_out", [
    pytest.param(depth, *stalls, marks=[pytest.mark.slow] if max(stalls) > 0.9 and depth != 3 else [])
    for depth in (2, 3, 4, 5, 8, 11) for stalls in product(STALLS, STALLS)])
def test_queue_keeps_words_and_order(depth, stall_in, stall_out):
    count = 300 if max(stall_in, stall_out) < 0.9 else 60
    beats = noise(depth, count, 2)
    queue = Queue(shape=stream_of(signed(8), 2).members["payload"].shape, depth=depth)
    traces = simulate(queue, sends={"i": beats}, receives={"o": count}, stall_in=stall_in, stall_out=stall_out)
    assert np.array_equal(traces["o"].beats, queue.model(beats))


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 8, 16, 33])
def test_queue_moves_a_word_every_cycle(depth):
    queue = Queue(shape=signed(8), depth=depth)
    traces = simulate(queue, sends={"i": noise(1, 200, 1)}, receives={"o": 200})
    assert traces["i"].span == traces["o"].span == 200
    assert traces["o"].cycles[0] - traces["i"].cycles[0] == queue.latency


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 8, 11])
def test_queue_holds_its_capacity(depth):
    queue = Queue(shape=unsigned(4), depth=depth)
    accepted = 0

    async def testbench(ctx):
        nonlocal accepted
        ctx.set(queue.i.valid, 1)
        for _ in range(3 * depth):
            _, _, ready = await ctx.tick().sample(queue.i.ready)
            accepted += ready

    run(queue, testbench)
    assert accepted == queue.capacity


def test_queue_refuses_depth_1():
    with pytest.raises(ValueError, match=r"depth of a Queue must be at least 2, not 1"):
        Queue(shape=8, depth=1)


PAIRS = [(1, 1), (1, 4), (4, 1), (2, 8), (8, 2), (3, 2), (2, 3), (6, 4), (4, 6), (8, 3), (1, 2), (2, 1)]


@pytest.mark.quick(17)
@pytest.mark.parametrize("lanes_in, lanes_out, stall_in, stall_out", [
    pytest.param(*lanes, *stalls,
                 marks=[pytest.mark.slow] if max(stalls) > 0.9 and lanes not in ((3, 2), (4, 6)) else [])
    for lanes in PAIRS for stalls in ((0, 0), (0.5, 0), (0, 0.5), (0.4, 0.6), (0.98, 0), (0, 0.98))])
def test_gearbox_keeps_elements_and_order(lanes_in, lanes_out, stall_in, stall_out):
    count = 24 * (2 if max(stall_in, stall_out) > 0.9 else 10) // lanes_in
    beats = noise(3, count, lanes_in)
    gearbox = Gearbox(shape=signed(8), lanes_in=lanes_in, lanes_out=lanes_out)
    expected = gearbox.model(beats)
    assert np.array_equal(expected.reshape(-1), beats.reshape(-1))
    traces = simulate(gearbox, sends={"i": beats}, receives={"o": len(expected)}, stall_in=stall_in,
                      stall_out=stall_out)
    assert np.array_equal(traces["o"].beats, expected)


@pytest.mark.parametrize("lanes_in, lanes_out", PAIRS)
def test_gearbox_narrow_side_moves_every_cycle(lanes_in, lanes_out):
    beats = noise(4, 240 // lanes_in, lanes_in)
    gearbox = Gearbox(shape=signed(8), lanes_in=lanes_in, lanes_out=lanes_out)
    traces = simulate(gearbox, sends={"i": beats}, receives={"o": 240 // lanes_out})
    narrow = traces["i"] if lanes_in <= lanes_out else traces["o"]
    assert narrow.span == 240 // min(lanes_in, lanes_out)


def test_gearbox_gives_every_whole_beat():
    """Nothing that fills an output beat waits for later input."""
    gearbox = Gearbox(shape=signed(8), lanes_in=2, lanes_out=4)
    beats = noise(5, 3, 2)
    traces = simulate(gearbox, sends={"i": beats}, receives={"o": 1})
    assert np.array_equal(traces["o"].beats, gearbox.model(beats))


@pytest.mark.quick(3)
@pytest.mark.parametrize("take, slack, words", [(1, 0, 1), (1, 1, 4), (1, 1, 12), (3, 0, 7), (4, 1, 8), (5, 2, 40)])
def test_credits_never_overfill(take, slack, words):
    """A starter that acts `slack` cycles after it saw the credit; the queue gives one word at random."""
    counter = CreditCounter(words=words, take=take, slack=slack)
    source = np.random.default_rng(take)
    started = highest = 0

    async def testbench(ctx):
        nonlocal started, highest
        level, seen = 0, deque([0] * slack)
        for _ in range(2000):
            seen.append(ctx.get(counter.credit))
            start = seen.popleft() and source.random() < 0.9
            give = level > 0 and source.random() < 0.7
            ctx.set(counter.taken, int(start))
            ctx.set(counter.given, int(give))
            level += take * bool(start) - give
            started += bool(start)
            highest = max(highest, level)
            assert level <= words
            await ctx.tick()

    run(counter, testbench)
    assert started > 100 // take
    assert highest > words - take * (1 + slack)


def test_credit_counter_refuses_too_few_words():
    with pytest.raises(ValueError, match=re.escape("must be at least take * (1 + slack) = 6, not 5")):
        CreditCounter(words=5, take=3, slack=1)


def test_link_refuses_another_sign():
    m = Module()
    a, b = Queue(shape=signed(8), depth=2), Queue(shape=unsigned(8), depth=2)
    with pytest.raises(wiring.ConnectionError, match=re.escape(
            "payload of stream 'second.i' must be of the shape of 'first.o' which feeds it, signed(8), not "
            "unsigned(8); convert the elements, or put a Gearbox between them if only the lanes differ")):
        link(m, a.o, b.i, names=("first.o", "second.i"))


def test_link_refuses_other_lanes_of_the_same_width():
    m = Module()
    a = Gearbox(shape=signed(4), lanes_in=2, lanes_out=4)
    b = Gearbox(shape=signed(8), lanes_in=2, lanes_out=4)
    with pytest.raises(wiring.ConnectionError, match="payload of stream 'i' must be of the shape of 'o'"):
        link(m, a.o, b.i)


def test_link_joins_equal_streams():
    m = Module()
    a, b = Queue(shape=signed(8), depth=2), Queue(shape=signed(8), depth=2)
    link(m, a.o, b.i)
    assert lanes_of(Gearbox(shape=signed(8), lanes_in=2, lanes_out=3).o) == 3


@pytest.mark.parametrize("family", [ECP5, Gowin, ICE40])
def test_queue_with_a_technology_is_the_same_queue(family):
    """Depth 20 has a memory: in tables, or in RAM blocks where the family has no such tables."""
    queue = Queue(shape=signed(8), depth=20, technology=family())
    beats = noise(6, 200, 1)
    traces = simulate(queue, sends={"i": beats}, receives={"o": 200})
    assert np.array_equal(traces["o"].beats, beats)
    assert traces["o"].span == 200
    cost = Queue.cost(width=8, depth=20, technology=family())
    assert cost.ram == (family().ram_cost(width=8, depth=32).ram if family is ICE40 else 0)
    style = '"block"' if family is ICE40 else '"distributed"'
    assert f"ram_style {style}" in emit_rtlil(queue, name="queue")
