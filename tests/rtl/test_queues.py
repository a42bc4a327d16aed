"""Queues in registers, tables, RAM blocks and memories with a single port: every cycle is foreseen, whenever words come
and leave; which of them is taken, and what it costs."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from amaranth.hdl import unsigned
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.shared.weights import LATENCY, PERIOD, BeatsAhead
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.queue_choice import PairedQueue, QueueChoice, chosen_for_spram, make_queue
from hwflow_rtl.vendor import ECP5, FAMILIES, ICE40, Generic, Gowin, Technology, Timing, price
from hwflow_rtl.vendor.memory import Place

from tests.random_cases import seeds
from tests.rtl.harness import STALLS, run, simulate

UP5K = ICE40(single_port_rams=4)
TECHNOLOGIES = {f"ram {ram}": Generic(timing=Timing(multiply=3, ram=ram)) for ram in (1, 2, 3)}
#: With eight words in its front a paired queue has nothing for its output after these cycles, in which a word comes or
#: not and the output takes or not: found by a search through all states of the queue's control.
HARDEST = [(1, 0)] * 6 + [(0, 0), (1, 0), (0, 0), (1, 0), (1, 1)] + [(0, 1)] * 7


def play(queue: Queue | DeepQueue | PairedQueue, cycles: Iterable[tuple[int, int]], seed: int = 0) -> None:
    """A word comes, or does not, in each cycle, and is taken or not; what must be seen is known to the cycle.

    A word is there `latency` cycles after it came, from then on until it is taken; there is room for `capacity` words.
    A deep queue may find out one cycle late that a word has left.
    """
    noise = random.Random(seed)

    async def testbench(ctx):
        inside: deque[tuple[int, int]] = deque()
        left = False
        for now, (comes, takes) in enumerate(cycles):
            word = noise.getrandbits(len(queue.i.payload))
            ctx.set(queue.i.valid, comes)
            ctx.set(queue.i.payload, word)
            ctx.set(queue.o.ready, takes)
            _, _, ready, valid, payload, level = await ctx.tick().sample(
                queue.i.ready, queue.o.valid, queue.o.payload, queue.level)
            assert level == len(inside)
            room = len(inside) < queue.capacity
            assert ready == room or (isinstance(queue, DeepQueue) and left and not ready), now
            assert valid == (bool(inside) and inside[0][0] + queue.latency <= now), now
            left = bool(valid and takes)
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


def filled_and_emptied(queue: Queue | DeepQueue | PairedQueue) -> Iterable[tuple[int, int]]:
    """Twice to the brim, for a while in every cycle, and to the last word."""
    count = 2 * queue.capacity + 10
    return ([(1, 0)] * count + [(1, 1)] * count + [(0, 1)] * count) * 2


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


def twin(technology: Technology) -> Generic:
    """What simulates: a family's own RAM is a black box."""
    return Generic(timing=technology.timing, like=None if isinstance(technology, Generic) else technology)


def deep(technology: Technology, extra: int) -> DeepQueue:
    return DeepQueue(shape=unsigned(8), depth=DeepQueue.least_depth(technology) + extra, technology=twin(technology))


QUEUES: dict[str, Callable[[], Queue | DeepQueue | PairedQueue]] = {
    **{f"of {depth}": lambda depth=depth: Queue(shape=unsigned(8), depth=depth) for depth in (2, 3, 4, 5, 8, 11, 33)},
    **{f"deep, {extra} more, {name}": lambda technology=technology, extra=extra: deep(technology, extra)
       for name, technology in (TECHNOLOGIES | {name: family() for name, family in FAMILIES.items()}).items()
       for extra in (0, 1, 5, 20)},
    **{f"paired, {depth} of {width}": lambda width=width, depth=depth: PairedQueue(
        shape=unsigned(width), depth=depth, technology=Generic(like=UP5K))
       for width, depth in ((8, 16), (1, 17), (9, 24), (8, 40))}}


@pytest.mark.parametrize("name", QUEUES)
@seeds(quick=[0], slow=range(1, 3))
def test_every_cycle_is_foreseen(seed: int, name: str) -> None:
    if not seed:
        play(QUEUES[name](), filled_and_emptied(QUEUES[name]()))
    play(QUEUES[name](), bursts(400 if seed == 0 else 3000, seed), seed)


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


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.9, 0.0), (0.0, 0.9), (0.6, 0.6)])
def test_the_queue_of_beats_that_come_ahead(stalls: tuple[float, float]) -> None:
    """Order, how many it holds, and when beats leave it."""
    depth, lanes = 16, 2
    sent = np.random.default_rng(0).integers(0, 256, (20 * depth, lanes))
    traces = simulate(BeatsAhead(lanes=lanes, depth=depth, technology=Generic()), sends={"i": sent},
                      receives={"o": len(sent)}, stall_in=stalls[0], stall_out=stalls[1])
    assert np.array_equal(traces["o"].beats, sent)
    came, left = traces["i"].cycles, traces["o"].cycles
    inside = np.array([(came <= cycle).sum() - (left <= cycle).sum() for cycle in range(int(left[-1]) + 1)])
    assert inside.min() >= 0
    assert inside.max() <= depth + 2
    if stalls[1] > stalls[0]:
        assert inside.max() >= depth
    if stalls == (0.0, 0.0):
        assert (np.diff(left) == PERIOD).all()
        assert (left - came).max() < LATENCY


@pytest.mark.quick(6)
@pytest.mark.parametrize("stall_out", STALLS)
@pytest.mark.parametrize("stall_in", STALLS)
@pytest.mark.parametrize("name", ["of 3", "of 11", "deep, 5 more, ram 2", "paired, 24 of 9"])
def test_words_wait_as_they_are(name: str, stall_in: float, stall_out: float) -> None:
    """The receiver looks at every word that waits; the model gives what was sent."""
    queue, count = QUEUES[name](), 100 if max(stall_in, stall_out) < 0.9 else 20
    words = np.random.default_rng(count).integers(0, 1 << len(queue.i.payload), (count, 1))
    traces = simulate(queue, sends={"i": words}, receives={"o": count}, stall_in=stall_in, stall_out=stall_out)
    assert np.array_equal(traces["o"].beats, words)
    assert not isinstance(queue, Queue) or np.array_equal(queue.model(words), words)


@pytest.mark.parametrize("make, message", [
    (lambda: Queue(shape=8, depth=1), "depth of a Queue must be at least 2, not 1"),
    (lambda: DeepQueue(shape=8, depth=5, technology=ECP5()),
     "depth of a DeepQueue must be at least 6, not 5; take a Queue"),
    (lambda: PairedQueue(shape=8, depth=15, technology=UP5K),
     "depth of a PairedQueue must be at least 16, not 15; take a Queue"),
    *((lambda technology=technology: technology.single_port_ram(width=8, depth=100),
       r"memory must be tables or blocks on (ecp5|gowin), which has no large")
      for technology in (ECP5(), Gowin(), Generic(like=ECP5()))),
    *((lambda technology=technology: PairedQueue.cost(width=8, depth=100, technology=technology), "not spram")
      for technology in (ECP5(), Gowin(), Generic(like=ECP5())))])
def test_refusals(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Which is taken


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1, 8, 36, 64])
@pytest.mark.parametrize("depth", [2, 5, 16, 64, 300, 1030, 4100])
def test_the_cheaper_queue_is_taken(depth: int, width: int, family: str) -> None:
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


@pytest.mark.parametrize("ram, latency", [(1, 3), (2, 4), (3, 6)])
def test_latencies_of_deep_queues(ram: int, latency: int) -> None:
    assert DeepQueue.latency_of(TECHNOLOGIES[f"ram {ram}"]) == latency


def test_what_stands_where() -> None:
    """A memory of tables is for tens of words; RAM need not be a power of two deep."""
    ecp5, ice40 = ECP5(), ICE40()
    assert not QueueChoice(width=32, depth=32, technology=ecp5).in_blocks
    assert QueueChoice(width=1, depth=65, technology=ecp5).in_blocks
    assert QueueChoice(width=32, depth=512, technology=ecp5).in_blocks
    assert not QueueChoice(width=32, depth=512, technology=None).in_blocks
    assert QueueChoice(width=16, depth=700, technology=ice40).cost.ram == 3  # of 1024 words they would be four
    assert Queue.cost(width=16, depth=700, technology=ice40).ram == 4
    assert Queue.cost(width=16, depth=33, technology=ecp5).lut == Queue.cost(width=16, depth=60, technology=ecp5).lut


@pytest.mark.parametrize("family", [ECP5, Gowin, ICE40])
def test_a_queue_with_a_technology_is_the_same_queue(family: type[Technology]) -> None:
    """Depth 20 has a memory: in tables, or in RAM blocks where the family has no such tables."""
    queue = Queue(shape=unsigned(8), depth=20, technology=family())
    play(queue, bursts(500, 6))
    cost = Queue.cost(width=8, depth=20, technology=family())
    assert cost.ram == (family().ram_cost(width=8, depth=32).ram if family is ICE40 else 0)
    style = '"block"' if family is ICE40 else '"distributed"'
    assert f"ram_style {style}" in emit_rtlil(queue, name="queue")


@pytest.mark.parametrize(("width", "depth", "memories"), [
    (1, 100, 1), (8, 32768, 1), (8, 32769, 2), (9, 100, 2), (16, 32768, 2), (18, 1000, 3), (24, 700, 3),
    (16, 65537, 6)])
def test_memories_with_a_single_port_are_counted(width: int, depth: int, memories: int) -> None:
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
