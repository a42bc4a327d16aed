"""The serial line: waveforms bit by bit, clocks that differ, lost and broken bytes."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import signed, unsigned
from amaranth.sim import Simulator
from hwflow_rtl.io import UartReceiver, UartTransmitter
from hwflow_rtl.io.uart import bytes_of, divider_for

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
    # Each start bit sets the receiver right again; a bit too many is seen between any two bytes.
    expected = [sender.randrange(256) for _ in range(20 if divider < 100 else 6)]
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
