"""The SPI slave against a master in real time: both modes, every phase of the clocks, pauses, what is cut."""

from __future__ import annotations

import math
import random

import pytest
from hwflow_rtl.io.link.bytes import FLAG
from hwflow_rtl.io.transports.spi import CYCLES_A_BIT, SpiSlave

from tests.rtl.harness import run

#: Cycles between an edge of cs_n and the nearest bit.
LEAD = CYCLES_A_BIT


class Master:
    """Transfers on a bus in real time: what the pins are in clock cycle `now`, and when the master looks at miso."""

    def __init__(self, transfers: list[bytes], cycles: float, *, mode: int, begin: float, cut: int = 0) -> None:
        """`cut` bits of the last byte of the first transfer are left out."""
        self.idle = 1 if mode == 3 else 0
        self.edges: list[tuple[float, str, int]] = []
        self.looks: list[float] = []
        at = begin
        for n, data in enumerate(transfers):
            self.edges.append((at, "cs_n", 0))
            at += LEAD
            bits = [byte >> k & 1 for byte in data for k in range(7, -1, -1)]
            for bit in bits[: len(bits) - (cut if n == 0 else 0)]:
                # The master changes its bit half a bit before the rising edge; in mode 3 sck falls with it.
                self.edges += [(at, "mosi", bit), (at, "sck", 0), (at + cycles / 2, "sck", 1)]
                self.looks.append(at + cycles / 2)
                at += cycles
                if not self.idle:
                    self.edges.append((at, "sck", 0))
            at += LEAD
            self.edges.append((at, "cs_n", 1))
            at += 2 * LEAD
        self.edges.sort(key=lambda edge: edge[0])
        self.end = at


def transfer(master: Master, give: list[int], *, ready=lambda now: True):
    """(bytes that the slave took, bits that the master saw, bytes lost) for bytes that the slave has from the start."""
    dut = SpiSlave()
    taken: list[int] = []
    levels: list[int] = []
    lost = 0

    async def pins(ctx):
        nonlocal lost
        edges = list(master.edges)
        ctx.set(dut.cs_n, 1)
        ctx.set(dut.sck, master.idle)
        for now in range(math.ceil(master.end) + 8):
            while edges and edges[0][0] < now + 1:  # before the end of the cycle, when pins are sampled
                _, name, level = edges.pop(0)
                ctx.set(getattr(dut, name), level)
            ctx.set(dut.o.ready, ready(now))
            _, _, miso, valid, taking, byte, over = await ctx.tick().sample(
                dut.miso, dut.o.valid, dut.o.ready, dut.o.payload[0], dut.overrun)
            levels.append(miso)
            lost += over
            taken.extend([byte] * (valid and taking))

    async def source(ctx):
        for byte in give:
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload[0], byte)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(2)

    run(dut, pins, watchers=[source])
    # A level of cycle n is on the pin from n to n + 1; a quarter of a cycle is left for pads and wires.
    return taken, [levels[math.floor(look - 0.25)] for look in master.looks], lost


def octets(bits: list[int]) -> bytes:
    return bytes(sum(bit << 7 - k for k, bit in enumerate(bits[at:at + 8])) for at in range(0, len(bits) - 7, 8))


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("cycles", [CYCLES_A_BIT, 4.37, 5.5, 16.1])
def test_bytes_go_both_ways_at_the_same_time(mode: int, cycles: float) -> None:
    """At the shortest bit, at any phase of the two clocks, in one transfer and in several; idle bytes are flags."""
    chance = random.Random(round(cycles * 10) + mode)
    for phase in (0.0, 0.2, 0.4, 0.6, 0.8):
        there, back = chance.randbytes(24), list(chance.randbytes(15))
        master = Master([there[:10], there[10:11], there[11:]], cycles, mode=mode, begin=20 + phase)
        taken, bits, lost = transfer(master, back)
        assert (bytes(taken), lost) == (there, 0)
        assert octets(bits) == bytes(back) + bytes([FLAG]) * 9


def test_a_byte_that_is_cut_is_nothing_and_the_next_one_is_whole() -> None:
    master = Master([b"\x11\x22\x33", b"\x44\x55"], 6.0, mode=0, begin=20, cut=3)
    taken, bits, _ = transfer(master, [1, 2, 3, 4, 5])
    assert taken == [0x11, 0x22, 0x44, 0x55]
    assert octets(bits[:16]) + octets(bits[21:]) == bytes([1, 2, 4, 5])


def test_other_slaves_of_the_bus_are_not_listened_to() -> None:
    """Clocks while cs_n is high change nothing."""
    master = Master([b"\x11", b"\x22", b"\x33"], 6.0, mode=0, begin=20)
    falls = [edge for edge in master.edges if edge[1] == "cs_n"]
    master.edges = [edge for edge in master.edges if edge not in (falls[2], falls[3])]
    taken, bits, _ = transfer(master, [1, 2])
    assert taken == [0x11, 0x33]
    assert octets(bits[:8] + bits[16:]) == bytes([1, 2])


def test_a_byte_that_finds_no_room_is_reported() -> None:
    master = Master([b"\x11\x22\x33"], 4.0, mode=0, begin=20)
    taken, _, lost = transfer(master, [], ready=lambda now: now > master.end)
    assert (taken, lost) == ([0x11], 2)
