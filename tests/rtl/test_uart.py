"""The serial line: waveforms bit by bit, clocks that differ, lost and broken bytes; and a board top that echoes."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from hwflow_rtl.core import Core, Link
from hwflow_rtl.io import BoardTop, End, Ends, UartReceiver, UartTransmitter
from hwflow_rtl.io import board_top as board_top_module
from hwflow_rtl.io.uart import bytes_of, divider_for
from hwflow_rtl.streams import Queue, link, payload_of, stream_of
from hwflow_rtl.vendor import ECP5, Generic

DIVIDER = 8


def frame(byte: int, stop: int = 1) -> list[int]:
    return [0, *(byte >> k & 1 for k in range(8)), stop]


def simulate(dut, *testbenches) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


async def send(ctx, line, bits, cycles_a_bit: float) -> None:
    """Put `bits` on the line; the edges fall on the nearest clock cycle."""
    sent = 0
    for k, bit in enumerate(bits):
        ctx.set(line, bit)
        until = round((k + 1) * cycles_a_bit)
        await ctx.tick().repeat(until - sent)
        sent = until


@pytest.mark.parametrize("skew", [0.97, 1.0, 1.03])
@pytest.mark.parametrize("divider", [5, 8, 104])
def test_receiver_takes_bytes_back_to_back_from_a_clock_that_differs(divider: int, skew: float) -> None:
    sender = random.Random(divider)
    expected = [sender.randrange(256) for _ in range(20)]
    dut, received = UartReceiver(divider=divider), []

    async def line(ctx):
        ctx.set(dut.rx, 1)
        await ctx.tick().repeat(3)
        bits = [bit for byte in expected for bit in frame(byte)]
        await send(ctx, dut.rx, bits, divider * skew)
        await ctx.tick().repeat(2 * divider)

    async def sink(ctx):
        ctx.set(dut.o.ready, 1)
        while len(received) < len(expected):
            _, _, valid, byte, overrun, broken = await ctx.tick().sample(
                dut.o.valid, dut.o.payload[0], dut.overrun, dut.broken)
            assert not overrun
            assert not broken
            if valid:
                received.append(byte)

    simulate(dut, line, sink)
    assert received == expected


def test_receiver_reports_what_it_loses() -> None:
    """The second byte finds the first still waiting; the third has no stop bit; the fourth is fine again."""
    dut = UartReceiver(divider=DIVIDER)
    events = []

    async def line(ctx):
        ctx.set(dut.rx, 1)
        await ctx.tick()
        await send(ctx, dut.rx, [*frame(0x11), *frame(0x22)], DIVIDER)
        await ctx.tick().repeat(DIVIDER)
        ctx.set(dut.o.ready, 1)
        await send(ctx, dut.rx, [*frame(0x33, stop=0), 0, 0, 0, 1, *frame(0x44), 1, 1], DIVIDER)

    async def watch(ctx):
        for _ in range(50 * DIVIDER):
            _, _, valid, ready, byte, overrun, broken = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload[0], dut.overrun, dut.broken)
            events.extend(["overrun"] * overrun + ["broken"] * broken + [byte] * (valid and ready))

    simulate(dut, line, watch)
    assert events == ["overrun", 0x11, "broken", 0x44]


def test_transmitter_draws_every_bit_exactly() -> None:
    dut = UartTransmitter(divider=DIVIDER)
    payload = [0x00, 0xff, 0xa5, 0x5a, 0x01]
    levels = []

    async def source(ctx):
        ctx.set(dut.i.valid, 1)
        for byte in payload:
            ctx.set(dut.i.payload[0], byte)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def line(ctx):
        for _ in range(DIVIDER * 10 * (len(payload) + 2)):
            _, _, level = await ctx.tick().sample(dut.tx)
            levels.append(level)

    simulate(dut, source, line)
    start = levels.index(0)
    # Ten bits a byte, each DIVIDER cycles, and one cycle in which the next byte is taken.
    for n, byte in enumerate(payload):
        at = start + n * (10 * DIVIDER + 1)
        assert levels[at:at + 10 * DIVIDER] == [bit for bit in frame(byte) for _ in range(DIVIDER)]
    assert set(levels[start + len(payload) * (10 * DIVIDER + 1):]) == {1}


@pytest.mark.parametrize(("clock", "baud", "divider"), [(25e6, 115200, 217), (12e6, 115200, 104), (27e6, 115200, 234)])
def test_dividers_of_the_boards(clock: float, baud: int, divider: int) -> None:
    assert divider_for(clock, baud) == divider


def test_a_rate_out_of_reach_is_refused() -> None:
    with pytest.raises(ValueError, match=r"baud rate must be .* clock of 12 MHz .* not 5000000"):
        divider_for(12e6, 5_000_000)
    with pytest.raises(ValueError, match="divider must be at least 4 clock cycles a bit, not 3"):
        UartReceiver(divider=3)


def test_elements_take_the_bytes_they_need() -> None:
    widths = (signed(4), unsigned(8), signed(9), unsigned(17), signed(24))
    assert [bytes_of(shape) for shape in widths] == [1, 1, 2, 3, 3]


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


def talk(dut: BoardTop, octets: list[int], expected: int) -> tuple[list[int], list[int]]:
    """Send bytes, without a gap, to a board with 4 cycles a bit; the bytes that come back, and the LEDs at the end."""
    answer, lights = [], []

    async def clock(ctx):
        for _ in range(2 * 4 * 10 * (max(len(octets), expected) + 40)):
            await ctx.delay(0.5e-6)
            ctx.set(dut.clk, ~ctx.get(dut.clk) & 1)

    async def cycles(ctx, number):
        await ctx.delay(number * 1e-6)

    async def host(ctx):
        ctx.set(dut.rx, 1)
        ctx.set(dut.rst, 1)
        await cycles(ctx, 30)
        for byte in octets:
            for bit in frame(byte):
                ctx.set(dut.rx, bit)
                await cycles(ctx, 4)

    async def listen(ctx):
        for _ in range(expected):
            while ctx.get(dut.tx):
                await cycles(ctx, 1)
            await cycles(ctx, 2)
            byte = 0
            for k in range(8):
                await cycles(ctx, 4)
                byte |= ctx.get(dut.tx) << k
            await cycles(ctx, 4)
            assert ctx.get(dut.tx) == 1
            answer.append(byte)
        lights.append(ctx.get(dut.led))

    simulator = Simulator(dut)
    for testbench in (clock, host, listen):
        simulator.add_testbench(testbench)
    simulator.run()
    return answer, lights


@pytest.mark.parametrize("width", [8, 5, 12, 21])
def test_board_top_passes_elements_through_the_core(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_top_module, "RESET_CYCLES", 16)
    count = bytes_of(signed(width))
    dut = BoardTop(core=Negate(width), divider=4, leds=3, leds_active_low=True, has_reset=True, reset_active_low=True)
    half = 1 << (width - 1)
    values = [1, -1, half - 1, 1 - half, 0, 3]
    octets_in = [octet for value in values for octet in (value & (256 ** count - 1)).to_bytes(count, "little")]
    answer, lights = talk(dut, octets_in, count * len(values))
    octets = [bytes(answer[k:k + count]) for k in range(0, len(answer), count)]
    assert [int.from_bytes(word, "little", signed=True) for word in octets] == [-value for value in values]
    assert lights == [0b101]  # active low: only "busy" is lit


class Sum(wiring.Component):
    """The sums of two streams of int8 as 9 bits, a beat when both have one."""

    def __init__(self):
        ports = {name: In(stream_of(signed(8), 2)) for name in ("i0", "i1")}
        super().__init__({**ports, "o": Out(stream_of(signed(9), 2)), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(shape=payload_of(self.o), depth=2)
        both = self.i0.valid & self.i1.valid
        m.d.comb += [queue.i.valid.eq(both), self.i0.ready.eq(both & queue.i.ready),
                     self.i1.ready.eq(both & queue.i.ready), self.busy.eq(both)]
        m.d.comb += [queue.i.payload[k].eq(self.i0.payload[k] + self.i1.payload[k]) for k in range(2)]
        link(m, queue.o, wiring.flipped(self.o))
        return m


def board_of_sums(elements: int) -> BoardTop:
    """Inputs x, y and z; outputs x + y, z itself, and x + y again: six frames at a time stand somewhere."""
    core = Core(stages=[("sum", Sum())], inputs=[stream_of(signed(8), 2)] * 3, links=[
        Link(~0, 0, 0), Link(~1, 0, 1), Link(0, ~0), Link(~2, ~1), Link(0, ~2)])
    ends = Ends(tuple(End(2, 8, elements) for _ in range(3)), tuple(End(2, width, elements) for width in (9, 8, 9)))
    return BoardTop(core=core, divider=4, leds=3, has_reset=True, reset_active_low=True, ends=ends,
                    technology=Generic(like=ECP5()))


@pytest.mark.parametrize("elements", [2, 4, 14])
def test_frames_of_several_inputs_and_outputs_take_turns(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_top_module, "RESET_CYCLES", 16)
    noise, octets, expected = random.Random(elements), [], []
    for _ in range(3):
        x, y, z = ([noise.randrange(-128, 128) for _ in range(elements)] for _ in range(3))
        octets += [value & 255 for value in (*x, *y, *z)]
        sums = [octet for a, b in zip(x, y, strict=True) for octet in (a + b & 0xffff).to_bytes(2, "little")]
        expected += [*sums, *(value & 255 for value in z), *sums]
    answer, lights = talk(board_of_sums(elements), octets, len(expected))
    assert answer == expected
    assert not lights[0] & 0b100, "no byte was lost"


def test_frames_that_wait_are_paid_for() -> None:
    technology = ECP5()
    plain, several = BoardTop.cost(technology), BoardTop.cost(technology, board_of_sums(4096).ends)
    waiting = [technology.ram_cost(width=width, depth=2048 - 4).ram for width in (16, 16, 16, 18)]
    assert several.ram - plain.ram == sum(waiting)
    assert several.lut > plain.lut
    one = Ends((End(2, 8, 4096),), (End(2, 8, 4096),))
    assert BoardTop.cost(technology, one) == plain


def test_several_streams_need_their_frames() -> None:
    core = board_of_sums(4).core
    with pytest.raises(ValueError, match="must be given for a core with 3 inputs and 3 outputs"):
        BoardTop(core=core, divider=4)
    with pytest.raises(ValueError, match=r"of the lanes and widths \[\(2, 8\), \(2, 8\), \(2, 8\)\]"):
        BoardTop(core=core, divider=4, ends=Ends((End(2, 8, 4),) * 2, (End(2, 9, 4),) * 3))
    with pytest.raises(ValueError, match="must be whole beats of the core's inputs"):
        BoardTop(core=core, divider=4, ends=Ends((End(2, 8, 5),) * 3, (End(2, 9, 4),) * 3))
