"""The serial line against waveforms in real time: clocks that differ, noise, breaks, lost and broken bytes."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable

import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.io import UartReceiver, UartTransmitter
from hwflow_rtl.io.transports.uart import PARTS, bit_time_for
from hwflow_rtl.stream.streams import bytes_of

from tests.rtl.harness import run

#: Of 3 Mbaud at 25 MHz, of 3 Mbaud at 12 MHz, of 115200 baud at 12 MHz.
TIMES = (133, 64, 1667)


def frame(byte: int, stop: int = 1) -> list[int]:
    return [0, *(byte >> k & 1 for k in range(8)), stop]


class Waveform:
    """Levels of a line between the moments `edges`, in clock cycles; before the first it is high."""

    def __init__(self, bits: Iterable[int], cycles: float, begin: float) -> None:
        self.bits, self.cycles, self.begin = list(bits), cycles, begin

    def __call__(self, now: float) -> int:
        place = math.floor((now - self.begin) / self.cycles)
        return self.bits[place] if 0 <= place < len(self.bits) else 1

    @property
    def end(self) -> float:
        return self.begin + len(self.bits) * self.cycles


def sampled(levels: list[int], cycles: float) -> list[int]:
    """The bytes of a line by its level in each cycle, sampled in the middle of bits of that length in real time."""
    found, at = [], 0
    while True:
        start = next((k for k in range(at, len(levels)) if levels[k] == 0), None)
        middles = [] if start is None else [int(start + (k + 0.5) * cycles) for k in range(10)]
        if not middles or middles[-1] >= len(levels):
            return found
        bits = [levels[k] for k in middles]
        assert (bits[0], bits[9]) == (0, 1)
        found.append(sum(bit << k for k, bit in enumerate(bits[1:9])))
        at = middles[-1]


def receive(time: int, line, cycles: float, *, ready=lambda now: True) -> list[int | str]:
    """What a receiver with bits of `time` makes of a line that is a function of the cycle: bytes and other events."""
    dut = UartReceiver(time=time)
    events: list[int | str] = []

    async def drive(ctx):
        for now in range(math.ceil(cycles)):
            ctx.set(dut.rx, line(now))
            ctx.set(dut.o.ready, ready(now))
            _, _, valid, taken, byte, *flags = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload[0], dut.overrun, dut.broken, dut.long_low)
            events.extend(name for name, flag in zip(("overrun", "broken", "break"), flags, strict=True) if flag)
            events.extend([byte] * (valid and taken))

    run(dut, drive)
    return events


@pytest.mark.quick(1)
@pytest.mark.parametrize(("time", "skew"), [
    pytest.param(time, skew, marks=[] if (k + j) % 3 == 0 else [pytest.mark.slow])
    for k, time in enumerate(TIMES) for j, skew in enumerate([0.98, 1.0, 1.02])])
def test_receiver_takes_bytes_back_to_back_from_a_clock_that_differs(time: int, skew: float) -> None:
    if time < 100 and skew != 1:
        skew = 1 + (skew - 1) / 2  # a bit of four cycles has less room
    chance = random.Random(time)
    # Each start bit sets the receiver right again; a bit too many is seen between any two bytes.
    expected = [chance.randrange(256) for _ in range(60 if time < 1000 else 6)]
    cycles = time / PARTS * skew
    for phase in (0.0, 0.3, 0.6):
        line = Waveform([bit for byte in expected for bit in frame(byte)], cycles, 12 + phase)
        assert receive(time, line, line.end + 3 * cycles) == expected


def test_receiver_filters_what_lasts_one_cycle() -> None:
    """Every eighth cycle of the line has the wrong level, which is far from an edge more often than not."""
    time = 16 * PARTS
    chance = random.Random(5)
    expected = [chance.randrange(256) for _ in range(40)]
    line = Waveform([bit for byte in expected for bit in frame(byte)], 16.0, 12)
    assert receive(time, lambda now: line(now) ^ (now % 8 == 3), line.end + 48) == expected


def test_receiver_begins_no_byte_where_the_start_bit_does_not_stay() -> None:
    line = Waveform([0] * 3 + [1] * 20 + [bit for bit in frame(0x5A) for _ in range(10)], 1.0, 12)
    assert receive(10 * PARTS, line, line.end + 30) == [0x5A]


def test_receiver_reports_what_it_loses() -> None:
    """The second byte finds the first still waiting; the third has no stop bit; the fourth is fine again."""
    bits = [*frame(0x11), *frame(0x22), 1, *frame(0x33, stop=0), 0, 0, 0, 1, *frame(0x44), 1, 1]
    line = Waveform(bits, 133 / PARTS, 12)
    taken_from = 12 + 21 * 133 / PARTS
    events = receive(133, line, line.end, ready=lambda now: now > taken_from)
    assert events == ["overrun", 0x11, "broken", 0x44]


@pytest.mark.parametrize(("bits", "expected"), [(81, 0), (83, 1), (200, 2)])
def test_receiver_knows_a_break(bits: int, expected: int) -> None:
    line = Waveform([0] * bits + [1, 1] + frame(0xC3), 133 / PARTS, 12)
    assert receive(133, line, line.end + 20) == ["broken", *["break"] * expected, 0xC3]


def test_a_row_of_zeros_with_noise_is_no_break() -> None:
    """Five stop bits of five bytes are low: that is no byte, and no break either."""
    line = Waveform([*itertools.chain(*(frame(0, stop=0) for _ in range(5))), 1, 1, *frame(0x7E)], 8.0, 12)
    assert receive(8 * PARTS, line, line.end + 20) == ["broken", 0x7E]


def transmitted(time: int, payload: list[int], *, pauses=lambda now: False) -> list[int]:
    """The level of the line in each cycle."""
    dut = UartTransmitter(time=time)
    levels: list[int] = []

    async def source(ctx):
        ctx.set(dut.i.valid, 1)
        for byte in payload:
            ctx.set(dut.i.payload[0], byte)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def line(ctx):
        for now in range(time * 10 * (len(payload) + 8) // PARTS):
            ctx.set(dut.pause, pauses(now))
            _, _, level = await ctx.tick().sample(dut.tx)
            levels.append(level)

    run(dut, source, line)
    return levels


@pytest.mark.parametrize("time", TIMES)
def test_transmitter_draws_every_edge_in_the_nearest_cycle(time: int) -> None:
    """Ten bits a byte without a gap, and no edge further than a cycle from where the rate puts it."""
    payload = [0x00, 0xff, 0xa5, 0x5a, 0x01, 0x55, 0x80]
    levels = transmitted(time, payload)
    start, bits = levels.index(0), [bit for byte in payload for bit in frame(byte)]
    edges = [k for k in range(1, len(levels)) if levels[k] != levels[k - 1]]
    wanted = [k for k in range(len(bits)) if bits[k] != (bits[k - 1] if k else 1)]
    assert len(edges) == len(wanted)
    assert max(abs(edge - start - k * time / PARTS) for edge, k in zip(edges, wanted, strict=True)) <= 1
    assert sampled(levels, time / PARTS) == payload
    # The other end has a clock of its own, and starts to count anew with each byte.
    for skew in (0.98, 1.02):
        assert sampled(levels, time / PARTS * skew) == payload


def test_transmitter_waits_while_the_other_end_has_no_room() -> None:
    """It ends the byte on the line, and begins no other."""
    levels = transmitted(8 * PARTS, [1, 2, 3], pauses=lambda now: 100 <= now < 400)
    assert sampled(levels, 8.0) == [1, 2, 3]
    assert set(levels[170:400]) == {1}


@pytest.mark.parametrize(("clock", "baud", "time"), [
    (25e6, 3_000_000, 133), (12e6, 115200, 1667), (12e6, 3_000_000, 64), (100e6, 12_000_000, 133)])
def test_bit_times_of_the_boards(clock: float, baud: int, time: int) -> None:
    """The board's part of the error of the rate is far below the 2 % that a line bears."""
    assert bit_time_for(clock, baud) == time
    assert abs(clock * PARTS / time / baud - 1) < 0.003


def test_a_rate_out_of_reach_is_refused() -> None:
    with pytest.raises(ValueError, match=r"baud rate must be at most 3000000, a quarter of the clock of 12 MHz, not 5"):
        bit_time_for(12e6, 5_000_000)
    with pytest.raises(ValueError, match=r"time of a bit must be at least 4 clock cycles, not 3\.5"):
        UartReceiver(time=56)


def test_elements_take_the_bytes_they_need() -> None:
    widths = (signed(4), unsigned(8), signed(9), unsigned(17), signed(24))
    assert [bytes_of(shape) for shape in widths] == [1, 1, 2, 3, 3]
