"""A stream between two clocks: every word once and in order, full rate, restarts at any time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from amaranth.hdl import DomainRenamer, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io.crossings import RESTART_CYCLES, CoreCrossing, FastCrossing, ImageCrossing
from hwflow_rtl.io.link.queues import DataQueue
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.stream.crossing import StreamCrossing
from hwflow_rtl.stream.streams import link, stream_of
from hwflow_rtl.vendor import Generic

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


# Between the link's clock and the core's: every byte once, and no old one after a restart, whatever the two clocks


#: The period of `line`, ns, and of `sync` for ratios of the clocks from 0.3 to 20, and beyond.
LINE = 20.0
SYNCS = [66.7, 20.0, 13.3, 1.0]
FAR = [331.0, 0.13]


class Echo(wiring.Component):
    """A core that gives every word of `width` bytes back, of which it holds one; in reset it takes nothing."""

    def __init__(self, width: int):
        self.width = width
        super().__init__({"i": In(stream_of(8, width)), "o": Out(stream_of(8, width))})

    def elaborate(self, platform):
        m = Module()
        started, full, held = Signal(), Signal(), Signal.like(self.i.payload)
        m.d.sync += started.eq(1)
        m.d.comb += [self.i.ready.eq(started & ~full), self.o.valid.eq(full), self.o.payload.eq(held)]
        with m.If(started & ~full):
            m.d.sync += [full.eq(self.i.valid), held.eq(self.i.payload)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        return m


class Around(wiring.Component):
    """A crossing and a core, whose cycles in reset are counted; with `width` a fast one for words of so many bytes."""

    def __init__(self, width: int = 0):
        self.width = width or 1
        self.crossing = FastCrossing(data_bytes=width, result_bytes=width) if width else CoreCrossing()
        super().__init__({"i": In(stream_of(8, 1)), "o": Out(stream_of(8, 1)), "restart": In(1), "stopped": Out(1),
                          "resets": Out(range(RESTART_CYCLES + 2))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.crossing = crossing = self.crossing
        m.submodules.core = core = ResetInserter(crossing.reset)(Echo(self.width))
        link(m, wiring.flipped(self.i), crossing.data)
        link(m, crossing.core_data, core.i)
        link(m, core.o, crossing.core_results)
        link(m, crossing.results, wiring.flipped(self.o))
        m.d.comb += [crossing.restart.eq(self.restart), self.stopped.eq(crossing.stopped)]
        with m.If(~crossing.reset):
            m.d.sync += self.resets.eq(0)
        with m.Elif(self.resets <= RESTART_CYCLES):
            m.d.sync += self.resets.eq(self.resets + 1)
        return m


async def restart(ctx, dut: Around) -> int:
    """Through the four steps; cycles of `line` that it took."""
    cycles = 0
    for level in (1, 0):
        ctx.set(dut.restart, level)
        while ctx.get(dut.stopped) != level:
            await ctx.tick("line")
            cycles += 1
            assert cycles < 2000
        if level:
            assert ctx.get(dut.resets) >= RESTART_CYCLES
    return cycles


@pytest.mark.parametrize(("sync", "width"), [
    pytest.param(sync, width, marks=[] if sync in SYNCS and k % 3 == n else [pytest.mark.slow])
    for k, sync in enumerate([*SYNCS, *FAR]) for n, width in enumerate((0, 1, 4))])
def test_no_old_byte_comes_after_a_restart(sync: float, width: int) -> None:
    """Restarts at any moment of bytes on their way there and back, also in the middle of a word."""
    dut, noise = Around(width), random.Random(int(sync))

    async def bench(ctx) -> None:
        await restart(ctx, dut)
        for turn in range(1, 25):
            # Of this turn; some are taken, and one more is offered when the restart comes.
            for k in range(noise.choice((1, 1, 2, 3) if width < 2 else (2, 3, 4, 4))):
                ctx.set(dut.i.valid, 1)
                ctx.set(dut.i.payload[0], turn << 2 | k)
                ready = False
                for _ in range(noise.randrange(int(3 + 8 * sync / LINE) + 8)):
                    ctx.set(dut.o.ready, noise.random() < 0.3)
                    _, _, ready, valid, octet = await ctx.tick("line").sample(
                        dut.i.ready, dut.o.valid & dut.o.ready, dut.o.payload[0])
                    assert not valid or octet >> 2 == turn, "an old byte"
                    if ready:
                        break
                if not ready:
                    break
            ctx.set(dut.i.valid, 0)
            ctx.set(dut.o.ready, 0)
            await restart(ctx, dut)

    run(dut, bench, clocks={"line": LINE, "sync": (sync, 0.37 * sync)})


@pytest.mark.parametrize("sync", [LINE / 0.3, 20.0, 13.3, 1.0])
def test_a_byte_crosses_in_twenty_cycles_of_the_line(sync: float) -> None:
    """From the queue of data through a core that is always ready, and back, both at once."""

    class Flow(wiring.Component):
        def __init__(self):
            self.queue, self.around = DataQueue(shape=LinkShape(), technology=Generic()), Around()
            super().__init__({})

        def elaborate(self, platform):
            m = Module()
            m.submodules.queue = queue = DomainRenamer("line")(self.queue)
            m.submodules.around = self.around
            link(m, queue.o, self.around.i)
            return m

    dut, count, came = Flow(), 30, []

    async def bench(ctx) -> None:
        around, queue = dut.around, dut.queue
        await restart(ctx, around)
        for k in range(count):
            ctx.set(queue.byte, 3 * k + 1)
            ctx.set(queue.write, 1)
            await ctx.tick("line")
            ctx.set(queue.write, 0)
            await ctx.tick("line").repeat(2)
        ctx.set(queue.commit, 1)
        await ctx.tick("line")
        ctx.set(queue.commit, 0)
        ctx.set(around.o.ready, 1)
        cycles = 0
        while len(came) < count:
            _, _, valid, octet = await ctx.tick("line").sample(around.o.valid, around.o.payload[0])
            came.extend([octet] * valid)
            cycles += bool(came)
            assert cycles <= 20 * count, f"{cycles} cycles for {len(came)} bytes"

    run(dut, bench, clocks={"line": LINE, "sync": (sync, 0.37 * sync)})
    assert came == [3 * k + 1 for k in range(count)]


# Bytes of an image to words of memory between two clocks, and the order to forget, at any moment


@pytest.mark.quick(3)
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("sync_us", [0.13, 1.0, 7.3])
def test_words_of_what_came_since_the_last_clear(width: int, sync_us: float) -> None:
    """Each round sends some bytes, the last ones unread, and clears; the memory stops in between."""
    unit, noise = ImageCrossing(width=width), random.Random(width)
    seen: list[list[int]] = [[]]
    sent = [noise.randbytes(noise.randrange(1, 7) * width // 8 + noise.choice((0, 1))) for _ in range(8)]

    async def line(ctx):
        for octets in sent:
            for octet in octets:
                ctx.set(unit.data.payload[0], octet)
                ctx.set(unit.data.valid, 1)
                for _ in range(60):
                    _, _, taken = await ctx.tick("line").sample(unit.data.ready)
                    if taken:
                        break
                ctx.set(unit.data.valid, 0)
                await ctx.tick("line").repeat(noise.randrange(1, 4))
                if not taken:
                    break  # the memory takes no more
            ctx.set(unit.clear, 1)
            await ctx.tick("line").until(unit.cleared)
            ctx.set(unit.clear, 0)
            await ctx.tick("line").until(~unit.cleared)

    async def memory(ctx):
        for limit in (3, 100, 0, 100, 2, 100, 100, 100):
            while not ctx.get(unit.forget):
                ctx.set(unit.words.ready, len(seen[-1]) < limit and noise.random() < 0.6)
                ctx.set(unit.filled, len(seen[-1]) == 2)
                _, _, valid, ready, word, forget = await ctx.tick("sync").sample(
                    unit.words.valid, unit.words.ready, unit.words.payload, unit.forget)
                if valid and ready and not forget:
                    seen[-1].append(word)
            seen.append([])
            ctx.set(unit.words.ready, 1)  # nothing comes while it forgets
            while ctx.get(unit.forget):
                _, _, valid = await ctx.tick("sync").sample(unit.words.valid)
                assert not valid

    run(unit, line, memory, clocks={"line": 1000, "sync": 1000 * sync_us})
    size = width // 8
    for octets, words in zip(sent, seen, strict=False):
        whole = [int.from_bytes(octets[k:k + size], "little") for k in range(0, len(octets) - size + 1, size)]
        assert words == whole[:len(words)]
    assert max(map(len, seen)) > 2


def test_words_are_whole_bytes() -> None:
    with pytest.raises(ValueError, match="width must be whole bytes, not 12 bits"):
        ImageCrossing(width=12)
