"""The tests' engine against Amaranth's own: every signal of a design in every cycle, on designs of every construct."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Module, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.sim.pysim import PySimEngine

from tests.rtl.engine import QuickEngine, Simulator


def design(asynchronous: bool) -> tuple[Module, list[Signal], list[Signal]]:
    """A module below another, its inputs, and all that it computes: signs, parts, choices, memories, two clocks."""
    m, inner = Module(), Module()
    m.domains.sync = sync = ClockDomain(async_reset=asynchronous)
    m.domains.other = ClockDomain(clk_edge="neg", reset_less=True)
    m.d.comb += ClockSignal("other").eq(ClockSignal("sync"))
    a, b, c = Signal(signed(5)), Signal(7), Signal(3)
    wide, narrow, total = Signal(signed(12)), Signal(signed(4)), Signal(signed(9), init=-3)
    parts, chosen, later, count = Signal(9), Signal(6), Signal(signed(5)), Signal(4, reset_less=True)
    read, write_back, halves, deep = Signal(signed(6)), Signal(6), Signal(8), Signal(signed(30))
    memory = Memory(shape=signed(6), depth=5, init=[-1, 2, -3, 4])
    port, direct, written = memory.read_port(transparent_for=()), memory.read_port(domain="comb"), memory.write_port()
    inner.submodules.memory = memory
    inner.d.comb += [wide.eq(a * b - c), narrow.eq(wide >> 2), port.addr.eq(c), direct.addr.eq(b), port.en.eq(a[0]),
                     written.addr.eq(c), written.data.eq(a), written.en.eq(b[1]), read.eq(port.data),
                     write_back.eq(direct.data), parts.bit_select(c, 2).eq(a), parts[7:].eq(b)]
    m.d.sync += [total.eq(total + narrow), later.eq(a), Cat(halves[:3], halves[5:]).eq(b), deep.eq(deep * 3 + a)]
    with m.Switch(b):
        with m.Case("---1-00"):
            m.d.comb += chosen.eq(a)
        with m.Case(3, 5):
            m.d.comb += chosen[2:].eq(total)
        with m.Default():
            m.d.comb += chosen.eq(~Const(0, 3))
    with m.If(later < total):
        m.d.other += count.eq(count + 1)
        m.d.sync += halves[3:5].eq(c)
    m.submodules.inner = inner
    return m, [sync.rst, a, b, c], [wide, narrow, total, parts, chosen, later, count, read, write_back, halves, deep]


def seen(engine: type[PySimEngine], asynchronous: bool, runs: int = 2) -> list[tuple[int, ...]]:
    """The values of the design's signals in every cycle, of `runs` runs with a reset between them."""
    m, inputs, outputs = design(asynchronous)
    sim, values = Simulator(m, engine=engine), []
    sim.add_clock(1e-6)

    async def bench(ctx):
        chance = random.Random(5)
        for _ in range(300):
            for signal in inputs:
                ctx.set(signal, chance.getrandbits(8))
            ctx.set(inputs[0], chance.random() < 0.1)
            values.append(tuple(ctx.get(signal) for signal in outputs))
            await ctx.tick()
            values.append(tuple(ctx.get(signal) for signal in outputs))
    sim.add_testbench(bench)
    for run in range(runs):
        if run:
            sim.reset()
        sim.run()
    return values


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_signal_is_that_of_amaranths_engine(asynchronous: bool) -> None:
    quick, own = seen(QuickEngine, asynchronous), seen(PySimEngine, asynchronous)
    assert quick == own
    assert all(len(set(column)) > 3 for column in zip(*own, strict=True)), "a signal that does not move proves nothing"
