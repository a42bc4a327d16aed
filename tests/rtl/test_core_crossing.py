"""Between the link's clock and the core's: every byte once, and no old one after a restart, whatever the two clocks."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import DomainRenamer, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io.crossings import RESTART_CYCLES, CoreCrossing, FastCrossing
from hwflow_rtl.io.link.queues import DataQueue
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.stream.streams import link, stream_of
from hwflow_rtl.vendor import Generic

from tests.rtl.harness import run

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
