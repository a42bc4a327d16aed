"""A core between streams of bytes, and the whole top of a board, spoken to at its pins."""

from __future__ import annotations

import random

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Core, Link
from hwflow_rtl.io import BoardTop, Clocking, End, Ends
from hwflow_rtl.io import clocking as clocking_module
from hwflow_rtl.io.frame_bytes import FrameBytes
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.io.transports import Uart
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.queue import Pair
from hwflow_rtl.stream.streams import bytes_of, stream_of
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Technology
from hwflow_rtl.vendor.memory import Place

from tests.rtl.engine import Simulator

from .harness import simulate
from .link_host import DATA, IDENTITY, RESET, RESULT, STATUS, packet, packets_in
from .toys import Sum, WithShownPll

CORE, STAGE = Endpoint.core, Endpoint.stage

DESIGN = b"hw\x7eflow\x7d"


class Negate(wiring.Component):
    """Takes pairs of elements and gives each as its negative: shows that all lanes, signs and bits get through."""

    def __init__(self, width: int):
        self.width = width
        super().__init__({"i": In(stream_of(signed(width), 2)), "o": Out(stream_of(signed(width), 2))})

    def elaborate(self, platform):
        m = Module()
        word, full = Signal.like(self.i.payload), Signal()
        m.d.comb += [self.i.ready.eq(~full), self.o.valid.eq(full)]
        m.d.comb += [self.o.payload[k].eq(-word[k]) for k in range(2)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [word.eq(self.i.payload), full.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        return m


class Whole(wiring.Component):
    """`FrameBytes` with its core beside it, as in a `BoardTop`."""

    def __init__(self, core, ends: Ends | None = None, technology: Technology | None = None, *, wide: bool = False):
        self.frames = FrameBytes(core=core, ends=ends, technology=technology or Generic(like=ECP5()), wide=wide)
        super().__init__(self.frames.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core, m.submodules.frames = self.frames.core, self.frames
        wiring.connect(m, wiring.flipped(self), self.frames)
        return m


def through(dut: Whole, octets: list[int], expected: list[int], seed: int) -> None:
    frames = dut.frames
    traces = simulate(dut, sends={"i": np.array(octets).reshape(-1, frames.width_in)},
                      receives={"o": len(expected) // frames.width_out}, stall_in=0.3, stall_out=0.3, seed=seed)
    assert traces["o"].beats.reshape(-1).tolist() == expected


@pytest.mark.parametrize("width", [8, 5, 12, 21])
def test_elements_of_any_width_take_whole_bytes(width: int) -> None:
    count = bytes_of(signed(width))
    half = 1 << (width - 1)
    values = [1, -1, half - 1, 1 - half, 0, 3]
    octets = [[octet for value in numbers for octet in (value & (256 ** count - 1)).to_bytes(count, "little")]
              for numbers in (values, [-value for value in values])]
    through(Whole(Negate(width)), *octets, seed=width)


def core_of_sums(elements: int) -> tuple[Core, Ends]:
    """Inputs x, y and z; outputs x + y, z itself, and x + y again: six frames at a time stand somewhere."""
    core = Core(stages=[("sum", Sum(2, signed(9)))], inputs=[stream_of(signed(8), 2)] * 3, links=[
        Link(CORE(0), STAGE(0), 0), Link(CORE(1), STAGE(0), 1), Link(STAGE(0), CORE(0)), Link(CORE(2), CORE(1)),
        Link(STAGE(0), CORE(2))])
    outputs = tuple(End(2, width, elements) for width in (9, 8, 9))
    return core, Ends((End(2, 8, elements),) * 3, outputs)


@pytest.mark.parametrize("elements", [2, 4, 14])
@pytest.mark.parametrize("wide", [False, True])
def test_frames_of_several_inputs_and_outputs_take_turns(elements: int, wide: bool) -> None:
    noise, octets, expected = random.Random(elements), [], []
    for _ in range(3):
        x, y, z = ([noise.randrange(-128, 128) for _ in range(elements)] for _ in range(3))
        octets += [value & 255 for value in (*x, *y, *z)]
        sums = [octet for a, b in zip(x, y, strict=True) for octet in (a + b & 0xffff).to_bytes(2, "little")]
        expected += [*sums, *(value & 255 for value in z), *sums]
    dut = Whole(*core_of_sums(elements), wide=wide)
    assert (dut.frames.width_in, dut.frames.width_out) == ((2, 2) if wide else (1, 1))
    assert (dut.frames.bytes_in, dut.frames.bytes_out) == (3 * elements, 5 * elements)
    through(dut, octets, expected, seed=elements)


class AllInSpram(ICE40):
    """Its RAM blocks are worth any number of logic cells."""

    cells_for_a_ram_block = 10**6


def test_frames_that_wait_stand_in_spram() -> None:
    """Of four queues that of 18 bits gets three memories, the first of 16 bits two; what comes out is the same."""
    noise, elements, technology = random.Random(1), 40, Generic(like=AllInSpram(single_port_rams=5))
    x, y, z = ([noise.randrange(-128, 128) for _ in range(elements)] for _ in range(3))
    sums = [octet for a, b in zip(x, y, strict=True) for octet in (a + b & 0xffff).to_bytes(2, "little")]
    core, ends = core_of_sums(elements)
    kinds = [queue.memory for queue in ends.queues(technology)]
    assert kinds == [Place.SPRAM, Place.BLOCKS, Place.BLOCKS, Place.SPRAM]
    assert FrameBytes.cost(ends, technology).spram == 5
    assert FrameBytes.cost(ends, ICE40()).spram == 0
    expected = [*sums, *(value & 255 for value in z), *sums]
    through(Whole(core, ends, technology), [value & 255 for value in (*x, *y, *z)] * 3, expected * 3, seed=1)


def board(core, ends: Ends | None = None, *, technology=None, fast: bool = False) -> BoardTop:
    technology = technology or Generic(like=ECP5())
    pll = technology.pll_settings(12, 100) if isinstance(technology, WithShownPll) else None
    clocking = Clocking(technology=technology, board_mhz=12.0, pll=pll, has_reset=True, reset_active_low=True)
    transport = Uart(divider=4)
    if fast:  # a line may be slower than its link
        transport.shape = LinkShape(payload=512, room=2048, fast=True)
    return BoardTop(core=core, ends=ends, clocking=clocking, transport=transport, identity=DESIGN, leds=3,
                    leds_active_low=True, technology=technology)


def talk(dut: BoardTop, octets: bytes, packets: int, sync_us: float = 1.0) -> tuple[list, int]:
    """Send bytes without a gap to a board of 4 cycles of 1 us a bit, whose core has a clock of `sync_us` where it has
    one of its own; the packets that come back, and the LEDs at the end."""
    answer, lights = bytearray(), []

    async def clock(ctx):
        while not lights:
            await ctx.delay(0.5e-6)
            ctx.set(dut.clk, ~ctx.get(dut.clk) & 1)

    async def core_clock(ctx):
        clock = getattr(dut.technology, "shown", None)
        while clock is not None and not lights:
            await ctx.delay(sync_us * 0.5e-6)
            ctx.set(clock.clock, ~ctx.get(clock.clock) & 1)

    async def host(ctx):
        ctx.set(dut.rx, 1)
        ctx.set(dut.rst, 1)
        await ctx.delay(70e-6)
        for octet in octets:
            for bit in (0, *(octet >> k & 1 for k in range(8)), 1):
                ctx.set(dut.rx, bit)
                await ctx.delay(4e-6)

    async def listen(ctx):
        await ctx.delay(70e-6)
        while len(packets_in(answer)[0]) < packets:
            while ctx.get(dut.tx):
                await ctx.delay(1e-6)
            await ctx.delay(2e-6)
            octet = 0
            for k in range(8):
                await ctx.delay(4e-6)
                octet |= ctx.get(dut.tx) << k
            await ctx.delay(4e-6)
            assert ctx.get(dut.tx) == 1
            answer.append(octet)
        lights.append(ctx.get(dut.led))

    simulator = Simulator(dut)
    for testbench in (clock, core_clock, host, listen):
        simulator.add_testbench(testbench)
    simulator.run()
    found, wrong, rest = packets_in(answer)
    assert (wrong, rest) == (0, b"")
    return found, lights[0]


@pytest.mark.parametrize("sync_us", [None, 3.31, pytest.param(0.053, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fast", [False, True])
def test_a_board_answers_at_its_pins(sync_us: float | None, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the line's full rate, with one clock and with two, the core's slower or faster than the oscillator."""
    monkeypatch.setattr(clocking_module, "RESET_CYCLES", 16)
    dut = board(Negate(8), technology=WithShownPll(lock=True) if sync_us else None, fast=fast)
    assert dut.frames.width_in == (2 if fast else 1)
    sent = packet(RESET, 200) + packet(DATA, 0, 0, b"\x01\x82\x83\x04")
    found, lights = talk(dut, sent, 4, sync_us or 1.0)
    kinds = [(seen.kind, seen.sequence) for seen in found if seen.kind != STATUS]
    assert kinds == [(IDENTITY, 200), (RESULT, 0), (RESULT, 1)]
    assert found[0].payload == b"\2" + DESIGN + b"\2\0\0\0" + b"\2\0\0\0" + b"\0\x08" + b"\0\2"
    assert [seen.payload for seen in found if seen.kind == RESULT] == [b"\xff\x7e", b"\x7d\xfc"]
    assert lights == 0b101  # active low: only "active" is lit


def test_frames_that_wait_are_paid_for() -> None:
    technology = ECP5()
    plain, several = BoardTop.cost(technology), BoardTop.cost(technology, core_of_sums(4096)[1])
    waiting = [technology.ram_cost(width=width, depth=2048 - 4).ram for width in (16, 16, 16, 18)]
    assert several.ram - plain.ram == sum(waiting)
    assert several.lut > plain.lut
    bytewise, wide = (Ends((End(lanes, 8, 4096),), (End(lanes, 8, 4096),)) for lanes in (1, 4))
    assert BoardTop.cost(technology, bytewise) == sum([Pair.cost(width=8)] * 5, plain)
    assert BoardTop.cost(technology, wide).ff > plain.ff


def test_several_streams_need_their_frames() -> None:
    core, _ = core_of_sums(4)
    with pytest.raises(ValueError, match="must be given for a core with 3 inputs and 3 outputs"):
        board(core)
    with pytest.raises(ValueError, match=r"of the lanes and widths \[\(2, 8\), \(2, 8\), \(2, 8\)\]"):
        board(core, Ends((End(2, 8, 4),) * 2, (End(2, 9, 4),) * 3))
    with pytest.raises(ValueError, match="must be whole beats of the core's inputs"):
        board(core, Ends((End(2, 8, 5),) * 3, (End(2, 9, 4),) * 3))
