"""Forks, gearboxes, credits and links of streams: order, rate and times with any stalls."""

import re
from collections import deque

import numpy as np
import pytest
from amaranth.hdl import Module, signed, unsigned
from amaranth.lib import wiring
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import lanes_of, link
from hwflow_rtl.vendor import ECP5, Generic

from tests.rtl.harness import run, simulate


def noise(seed: int, count: int, lanes: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (count, lanes))


@pytest.mark.parametrize("stall_in, stall_out", [(0, 0), (0.5, 0.5), (0.9, 0), (0, 0.9), (0.3, 0.98)])
def test_every_reader_gets_every_word(stall_in, stall_out):
    fork = Fork(shape=signed(8), depths=[0, 7, 600], technology=Generic(like=ECP5()))
    assert [type(queue) for queue in fork.queues] == [Queue, Queue, DeepQueue]
    count = 100 if max(stall_in, stall_out) < 0.9 else 25
    traces = simulate(fork, sends={"i": noise(0, count, 1)}, receives=dict.fromkeys(("o0", "o1", "o2"), count),
                      stall_in=stall_in, stall_out=stall_out)
    for name in ("o0", "o1", "o2"):
        assert np.array_equal(traces[name].beats, noise(0, count, 1))
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
def test_a_gearbox_keeps_elements_and_order(lanes_in, lanes_out):
    """Elements that come at random, in a stream of frames; an output that is always taken, and one that waits.

    The times are exact.  Without a stall the narrow side moves in every cycle.
    """
    frame = int(np.lcm(lanes_in, lanes_out))
    elements = frame * max(2, 96 // frame)
    beats = noise(frame, elements // lanes_in, lanes_in)
    for stalls in ((0.0, 0.0), (0.4, 0.0), (0.85, 0.0), (0.4, 0.6), (0.0, 0.95)):
        gearbox = Gearbox(shape=signed(8), lanes_in=lanes_in, lanes_out=lanes_out)
        traces = simulate(gearbox, sends={"i": beats}, receives={"o": elements // lanes_out}, stall_in=stalls[0],
                          stall_out=stalls[1], seed=frame)
        assert np.array_equal(traces["o"].beats.reshape(-1), beats.reshape(-1))
        assert np.array_equal(gearbox.model(beats), traces["o"].beats)
        if not stalls[1]:
            made = Gearbox.times(traces["i"].offered, lanes_in=lanes_in, lanes_out=lanes_out)
            assert np.array_equal(traces["o"].cycles, made), stalls
        if stalls == (0.0, 0.0):
            assert traces["i" if lanes_in <= lanes_out else "o"].span == elements // min(lanes_in, lanes_out)


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
