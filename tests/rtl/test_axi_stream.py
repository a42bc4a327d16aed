"""Ports of AXI4-Stream around a core: bytes of elements, TLAST, registers, resets; here around a queue of elements."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from amaranth.hdl import ClockDomain, Module, Shape, signed, unsigned
from hwflow_rtl.emit import emit
from hwflow_rtl.io import AxiStreamTop, End, Ends
from hwflow_rtl.io.crossings import RESTART_CYCLES

from tests.rtl.engine import Simulator
from tests.synth.board_samples import Through

LANES = 2


def top_of(shape: Shape, beats: int) -> AxiStreamTop:
    end = End(LANES, shape.width, LANES * beats)
    return AxiStreamTop(core=Through(1, LANES, shape), ends=Ends((end,), (end,)))


def clocked(top: AxiStreamTop) -> Simulator:
    """With `aclk` from the domain `pin`, which is that of the testbenches."""
    m = Module()
    m.submodules.top = top
    pin = m.domains.pin = ClockDomain("pin", reset_less=True)
    m.d.comb += top.aclk.eq(pin.clk)
    simulator = Simulator(m)
    simulator.add_clock(1e-6, domain="pin")
    return simulator


class Bench:
    """`came` are the beats (TDATA, TLAST) that the sink has taken, with the cycle of each."""

    def __init__(self, top: AxiStreamTop, *, stall: float = 0.0, seed: int = 0):
        self.top, self.stall, self.noise = top, stall, random.Random(seed)
        self.came: list[tuple[int, int, int]] = []
        self.cycle = 0

    async def sink(self, ctx) -> None:
        top = self.top
        while True:
            ctx.set(top.m_axis_tready, self.noise.random() >= self.stall)
            _, _, ready, valid, data, last = await ctx.tick("pin").sample(
                top.m_axis_tready, top.m_axis_tvalid, top.m_axis_tdata, top.m_axis_tlast)
            self.cycle += 1
            if ready and valid:
                self.came.append((data, last, self.cycle))

    async def send(self, ctx, data: int, last: int) -> None:
        """One beat, when it is taken."""
        top = self.top
        while self.noise.random() < self.stall:
            await ctx.tick("pin")
        ctx.set(top.s_axis_tdata, data)
        ctx.set(top.s_axis_tlast, last)
        ctx.set(top.s_axis_tvalid, 1)
        for _ in range(200):
            _, _, taken = await ctx.tick("pin").sample(top.s_axis_tready)
            if taken:
                break
        else:
            raise AssertionError("the beat is not taken")
        ctx.set(top.s_axis_tvalid, 0)

    def run(self, source: Callable) -> None:
        async def started(ctx) -> None:
            ctx.set(self.top.aresetn, 1)
            await source(ctx)

        simulator = clocked(self.top)
        simulator.add_testbench(self.sink, background=True)
        simulator.add_testbench(started)
        simulator.run()


def on_the_way_out(data: int, shape: Shape, size: int) -> int:
    """The low bits of each element, its sign or zeros above."""
    elements = []
    for k in range(LANES):
        value = data >> size * k & (1 << shape.width) - 1
        if shape.signed and value >> shape.width - 1:
            value -= 1 << shape.width
        elements.append(value & (1 << size) - 1)
    return sum(element << size * k for k, element in enumerate(elements))


@pytest.mark.parametrize(("shape", "size"), [
    (unsigned(1), 8), (signed(5), 8), (unsigned(8), 8), (signed(11), 16), (unsigned(9), 16), (signed(20), 24)])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_elements_stand_in_whole_bytes(shape: Shape, size: int, stall: float) -> None:
    """With noise above the bits of an element, which is not looked at."""
    bench = Bench(top_of(shape, 3), stall=stall, seed=size)
    beats = [bench.noise.getrandbits(LANES * size) for _ in range(12)]
    assert bench.top.s_axis_tdata.shape().width == LANES * size

    async def source(ctx):
        for k, beat in enumerate(beats):
            await bench.send(ctx, beat, k % 3 == 2)
        await ctx.tick("pin").repeat(40)
        assert not ctx.get(bench.top.frame_error)

    bench.run(source)
    assert [came[:2] for came in bench.came] == [
        (on_the_way_out(beat, shape, size), k % 3 == 2) for k, beat in enumerate(beats)]


@pytest.mark.parametrize("beats", [1, 2, 5])
def test_a_beat_passes_in_every_cycle(beats: int) -> None:
    bench = Bench(top_of(unsigned(8), beats))

    async def source(ctx):
        await ctx.tick("pin").repeat(RESTART_CYCLES + 4)
        for k in range(50):
            await bench.send(ctx, k, k % beats == beats - 1)
        await ctx.tick("pin").repeat(8)

    bench.run(source)
    cycles = [cycle for *_, cycle in bench.came]
    assert cycles == list(range(cycles[0], cycles[0] + 50))


@pytest.mark.parametrize("wrong", [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]])
def test_a_wrong_tlast_ends_everything_until_reset(wrong: list[int]) -> None:
    """Two frames of three beats, then one with an error at its beat `place`."""
    bench = Bench(top_of(unsigned(8), 3), stall=0.3)
    place = next(k for k, last in enumerate(wrong) if last != (k == 2))
    top = bench.top

    async def source(ctx):
        for k in range(6):
            await bench.send(ctx, k, k % 3 == 2)
        for k, last in enumerate(wrong[:place + 1]):
            await bench.send(ctx, 6 + k, last)
        ctx.set(top.s_axis_tvalid, 1)
        await ctx.tick("pin").repeat(40)
        assert ctx.get(top.frame_error)
        assert not ctx.get(top.s_axis_tready)
        assert [came[:2] for came in bench.came] == [
            *((k, k % 3 == 2) for k in range(6)), *((6 + k, 0) for k in range(place))]
        ctx.set(top.aresetn, 0)
        ctx.set(top.s_axis_tvalid, 0)
        await ctx.tick("pin")
        assert not ctx.get(top.frame_error)
        ctx.set(top.aresetn, 1)
        bench.came.clear()
        for k in range(3):
            await bench.send(ctx, k, k == 2)
        await ctx.tick("pin").repeat(40)
        assert [came[:2] for came in bench.came] == [(0, 0), (1, 0), (2, 1)]
        assert not ctx.get(top.frame_error)

    bench.run(source)


@pytest.mark.parametrize("cycles", [1, 2, 50])
def test_nothing_moves_in_reset_and_until_the_core_has_run_dry(cycles: int) -> None:
    bench = Bench(top_of(unsigned(8), 2))
    top = bench.top

    async def source(ctx):
        for k in range(9):
            await bench.send(ctx, k, k % 2)
        ctx.set(top.s_axis_tvalid, 1)
        ctx.set(top.aresetn, 0)
        for k in range(cycles + RESTART_CYCLES + 1):
            await ctx.tick("pin")
            if k + 1 == cycles:
                ctx.set(top.aresetn, 1)
            assert not ctx.get(top.m_axis_tvalid)
            assert not ctx.get(top.s_axis_tready)
        await ctx.tick("pin")
        assert ctx.get(top.s_axis_tready)

    bench.run(source)


def test_no_output_depends_on_an_input_in_the_same_cycle() -> None:
    bench = Bench(top_of(signed(11), 3), stall=0.5)
    top, noise = bench.top, random.Random(1)
    inputs = [top.s_axis_tdata, top.s_axis_tvalid, top.s_axis_tlast, top.m_axis_tready, top.aresetn]
    outputs = [top.s_axis_tready, top.m_axis_tdata, top.m_axis_tvalid, top.m_axis_tlast, top.frame_error]
    seen = set()

    async def source(ctx):
        for k in range(300):
            before = [ctx.get(port) for port in outputs]
            for port in inputs[:4]:
                ctx.set(port, noise.getrandbits(len(port)))
            ctx.set(top.aresetn, 0)
            assert [ctx.get(port) for port in outputs] == before
            ctx.set(top.aresetn, k % 150 != 0)
            seen.add((before[0], *before[2:]))
            await ctx.tick("pin")

    simulator = clocked(top)
    simulator.add_testbench(source)
    simulator.run()
    assert len(seen) > 4


def test_its_ports_are_those_of_axi() -> None:
    text = emit(top_of(signed(11), 3), name="hwflow_axi_stream")
    ports = text.partition("module hwflow_axi_stream(")[2].partition(")")[0].split(", ")
    assert sorted(ports) == ["aclk", "aresetn", "frame_error", *(
        f"{side}_axis_t{name}" for side in "ms" for name in ("data", "last", "ready", "valid"))]


def test_frames_are_whole_beats() -> None:
    end = End(LANES, 8, 5)
    with pytest.raises(ValueError, match="ends must be whole beats of the core's inputs, of the lanes and widths"):
        AxiStreamTop(core=Through(1, LANES), ends=Ends((end,), (end,)))
