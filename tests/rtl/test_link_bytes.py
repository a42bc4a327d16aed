"""What the host link is made of: the checksum, the frames of bytes, and the way between two clocks."""

from __future__ import annotations

import random

import numpy as np
import pytest
from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io.link.bytes import ByteCrossing, Crc32, Deframer, Framer
from hwflow_rtl.io.transports.uart import PARTS, UartReceiver, UartTransmitter
from hwflow_rtl.stream.streams import link, stream_of

from .harness import run, simulate
from .link_host import packet


def noisy(seed: int, count: int) -> bytes:
    """Bytes, many of them flags and escapes."""
    source = random.Random(seed)
    return bytes(source.choice((0x7E, 0x7D, 0x5E, 0x5D, source.randrange(256))) for _ in range(count))


def test_checksum_and_its_check() -> None:
    """Two packets and their checksums, which the unit itself says; then one whose checksum has a wrong bit."""
    dut, said, verdicts = Crc32(), [], []

    async def bench(ctx):
        for flip in (0, 0, 0x10):
            body = noisy(len(verdicts), 5)
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            octets = bytearray()
            for k in range(len(body) + 4):
                tail = k >= len(body)
                octet = ctx.get(dut.octet) if tail else body[k]
                octets += bytes([octet]) if tail else b""
                ctx.set(dut.byte, octet ^ (flip if k == len(body) + 2 else 0))
                ctx.set(dut.tail, tail)
                ctx.set(dut.start, 1)
                await ctx.tick()
                ctx.set(dut.start, 0)
                await ctx.tick().until(dut.done)
            said.append(bytes(octets) == Crc32.model(body))
            verdicts.append(ctx.get(dut.good))

    run(dut, bench)
    assert said == [True, True, True]
    assert verdicts == [1, 1, 0]


def test_frames_are_made_and_undone() -> None:
    body = noisy(3, 60)
    # A token is its byte and the flag above it, and above that `bad`, which bytes may have.
    tokens = [[0x100], *([octet] for octet in body), [0x100]]
    whole = b"\x7e" + Framer.model(body) + b"\x7e"
    traces = simulate(Framer(), sends={"i": np.array(tokens)}, receives={"o": len(whole)}, stall_in=0.3, stall_out=0.3)
    assert bytes(traces["o"].beats[:, 0].tolist()) == whole
    assert Deframer.model(whole) == [body]

    traces = simulate(Deframer(), sends={"i": np.frombuffer(whole, np.uint8)[:, None]}, receives={"o": len(tokens)},
                      stall_in=0.3, stall_out=0.3)
    found = traces["o"].beats[:, 0]
    assert [int(token) for token in found[[0, -1]] >> 8] == [1, 1]
    assert bytes((found[1:-1] & 0xFF).tolist()) == body  # `bad` is of a flag alone


@pytest.mark.parametrize("octets", [b"a\x7d\x7e\x7eb\x7ec", b"\x7d\x5e\x7d\x7d\x7e", noisy(9, 80)])
def test_what_a_deframer_gives_of_anything(octets: bytes) -> None:
    dut, packets, body = Deframer(), [], bytearray()

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for octet in octets:
            ctx.set(dut.i.payload[0], octet)
            ctx.set(dut.i.valid, 1)
            ready = False
            while not ready:
                _, _, ready, valid, byte, flag, bad = await ctx.tick().sample(
                    dut.i.ready, dut.o.valid, dut.o.payload.byte, dut.o.payload.flag, dut.o.payload.bad)
                if valid and flag:
                    packets.extend([bytes(body)] if body and not bad else [])
                    body.clear()
                elif valid:
                    body.append(byte)

    run(dut, bench)
    assert packets == Deframer.model(octets)


#: Periods of the two clocks, ns.
CLOCKS = [(83, 6.1), (6.1, 83), (10, 10), (20.8, 47.3), (10, 31)]


@pytest.mark.parametrize(("source", "target"), CLOCKS)
@pytest.mark.parametrize("stall", [0.0, 0.7])
def test_bytes_cross_between_any_clocks(source: float, target: float, stall: float) -> None:
    dut, octets, came = ByteCrossing(source="source", target="target"), noisy(int(source), 25), bytearray()
    noise = random.Random(1)

    async def send(ctx):
        for octet in octets:
            while noise.random() < stall:
                await ctx.tick("source")
            ctx.set(dut.i.payload[0], octet)
            ctx.set(dut.i.valid, 1)
            await ctx.tick("source").until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            ctx.set(dut.i.payload[0], ~octet & 255)

    async def receive(ctx):
        for _ in range(3000):
            ready = noise.random() >= stall
            ctx.set(dut.o.ready, ready)
            _, _, valid, octet = await ctx.tick("target").sample(dut.o.valid, dut.o.payload[0])
            if valid and ready:
                came.append(octet)
            if len(came) == len(octets):
                break

    run(dut, send, receive, clocks={"source": (source, 0.3), "target": target})
    assert came == octets


class Loop(wiring.Component):
    """From the line through both crossings back to the line, without packets."""

    def __init__(self, divider: int):
        self.divider = divider
        super().__init__({"i": In(stream_of(8, 1)), "o": Out(stream_of(8, 1))})

    def elaborate(self, platform):
        m = Module()
        on_line = DomainRenamer("line")
        time = self.divider * PARTS
        pairs = [(UartTransmitter(time=time), UartReceiver(time=time)) for _ in range(2)]
        for k, (transmitter, receiver) in enumerate(pairs):
            m.submodules[f"transmitter{k}"], m.submodules[f"receiver{k}"] = on_line(transmitter), on_line(receiver)
            m.d.comb += receiver.rx.eq(transmitter.tx)
        m.submodules.arriving = arriving = ByteCrossing(source="line", target="sync")
        m.submodules.leaving = leaving = ByteCrossing(source="sync", target="line")
        held, full = Signal(8), Signal()
        link(m, wiring.flipped(self.i), pairs[0][0].i)
        link(m, pairs[0][1].o, arriving.i)
        link(m, leaving.o, pairs[1][0].i)
        link(m, pairs[1][1].o, wiring.flipped(self.o))
        # What crosses stands in a register.
        m.d.comb += [arriving.o.ready.eq(~full), leaving.i.valid.eq(full), leaving.i.payload[0].eq(held)]
        with m.If(~full):
            m.d.sync += [full.eq(arriving.o.valid), held.eq(arriving.o.payload[0])]
        with m.Elif(leaving.i.ready):
            m.d.sync += full.eq(0)
        return m


@pytest.mark.parametrize("sync", [3.7, 20.0, 43.0])
def test_no_byte_is_lost_at_the_full_rate_of_the_line(sync: float) -> None:
    """Four cycles of 20 ns a bit; the other clock up to half as fast, which leaves 18 of its cycles for a byte."""
    dut, octets, came = Loop(4), packet(2, 0, 0, noisy(1, 12)), bytearray()

    async def send(ctx):
        for octet in octets:
            ctx.set(dut.i.payload[0], octet)
            ctx.set(dut.i.valid, 1)
            await ctx.tick("line").until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def receive(ctx):
        ctx.set(dut.o.ready, 1)
        for _ in range(60 * len(octets)):
            _, _, valid, octet = await ctx.tick("line").sample(dut.o.valid, dut.o.payload[0])
            came.extend([octet] * valid)
            if len(came) == len(octets):
                break

    run(dut, send, receive, clocks={"line": 20, "sync": (sync, 1)})
    assert came == octets
