"""The host link at the level of bytes, without a serial line: against the protocol's page, with errors on both ways."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from amaranth.sim import Simulator
from hwflow_rtl.io import HostLink
from hwflow_rtl.vendor import Generic

from .link_host import DATA, IDENTITY, RESET, RESULT, STATUS, Host, Seen, packet, packets_in

DESIGN = bytes(range(0x7A, 0x82))  # with a flag and an escape in it
#: Cycles of a byte: faster than any line.
PACE = 16
ROOM = 512


def answers(frames: bytes, frame: int, out: int) -> bytes:
    """What the core of these tests makes of whole frames of `frame` bytes: `out` bytes for each."""
    whole = (frames[k:k + frame] for k in range(0, len(frames) // frame * frame, frame))
    return b"".join(bytes((sum(one) + 31 * k) & 255 for k in range(out)) for one in whole)


class Bench:
    """A link between a Python core, whose input is kept in `seen`, and a line of bytes each way."""

    def __init__(self, frame: int = 4, out: int = 3, stall: float = 0.0, seed: int = 0, listens: bool = True):
        self.link = HostLink(technology=Generic(), identity=DESIGN, bytes_in=frame, bytes_out=out)
        self.frame, self.out, self.stall = frame, out, stall
        self.noise = random.Random(seed)
        self.seen, self.came, self.errors, self.restarts = bytearray(), bytearray(), 0, 0
        self.listens = listens

    async def core(self, ctx) -> None:
        """The core, and the line, which takes a byte in `PACE` cycles."""
        link, owes, begun, was, pause = self.link, bytearray(), bytearray(), 0, 0
        while True:
            pause -= pause > 0
            ctx.set(link.o.ready, not pause)
            ready = len(owes) < 2 * self.out and self.listens and self.noise.random() >= self.stall
            valid = bool(owes) and self.noise.random() >= self.stall
            ctx.set(link.data.ready, ready)
            ctx.set(link.results.valid, valid)
            ctx.set(link.results.payload[0], owes[0] if valid else self.noise.randrange(256))
            _, _, offered, byte, taken, restart, error, sends, sent = await ctx.tick().sample(
                link.data.valid, link.data.payload[0], link.results.ready, link.restart, link.error, link.o.valid,
                link.o.payload[0])
            if sends and not pause:
                self.came.append(sent)
                pause = PACE
            self.errors += error
            self.restarts += restart and not was
            was = restart
            if restart:
                owes.clear()
                begun.clear()
                self.seen.clear()
                continue
            if taken and valid:
                del owes[0]
            if offered and ready:
                self.seen.append(byte)
                begun.append(byte)
                if len(begun) == self.frame:
                    owes += answers(bytes(begun), self.frame, self.out)
                    begun.clear()

    async def send(self, ctx, octets: bytes) -> None:
        for octet in octets:
            ctx.set(self.link.i.payload[0], octet)
            ctx.set(self.link.i.valid, 1)
            await ctx.tick().until(self.link.i.ready)
            ctx.set(self.link.i.valid, 0)
            await ctx.tick().repeat(PACE - 14)

    async def quiet(self, ctx, cycles: int = 12 * PACE) -> None:
        """Until nothing has come for so long."""
        count = -1
        while count != len(self.came):
            count = len(self.came)
            await ctx.tick().repeat(cycles)

    async def ask(self, ctx, octets: bytes) -> list[Seen]:
        """What comes back."""
        self.came.clear()
        await self.send(ctx, octets)
        await self.quiet(ctx)
        found, wrong, rest = packets_in(self.came)
        assert (wrong, rest) == (0, b"")
        return found

    def run(self, host: Callable) -> None:
        simulator = Simulator(self.link)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self.core, background=True)
        simulator.add_testbench(host)
        simulator.run()


def identity(sequence: int, frame: int, out: int, expected: int = 0) -> Seen:
    numbers = frame.to_bytes(4, "little") + out.to_bytes(4, "little") + ROOM.to_bytes(2, "little")
    return Seen(IDENTITY, sequence, expected, b"\1" + DESIGN + numbers)


def short(found: list[Seen]) -> list[tuple]:
    """Packets without what says nothing: the sequence of a STATUS."""
    return [(STATUS, seen.acknowledge, int.from_bytes(seen.payload, "little")) if seen.kind == STATUS
            else (seen.kind, seen.sequence, seen.acknowledge, seen.payload) for seen in found]


def test_a_frame_goes_in_and_its_results_come_back() -> None:
    bench = Bench(frame=5, out=3)

    async def host(ctx):
        assert await bench.ask(ctx, packet(RESET, 77)) == [identity(77, 5, 3)]
        found = await bench.ask(ctx, packet(DATA, 0, 0, b"\x7e\x7d\0\xff\x20"))
        assert [(seen.kind, seen.acknowledge) for seen in found] == [(STATUS, 1), (RESULT, 1)]
        assert found[1] == Seen(RESULT, 0, 1, answers(b"\x7e\x7d\0\xff\x20", 5, 3))

    bench.run(host)
    assert bench.seen == b"\x7e\x7d\0\xff\x20"
    assert not bench.errors


@pytest.mark.slow
@pytest.mark.parametrize(("frame", "out", "seed", "rate"), [
    (4, 3, 0, 0.0), (7, 200, 1, 0.0), (64, 10, 2, 3e-3), (300, 5, 3, 3e-3), (5, 129, 4, 3e-3), (3, 1, 5, 1e-2),
    (100, 256, 6, 2e-3)])
def test_every_result_comes_once_and_in_order_through_errors(frame: int, out: int, seed: int, rate: float) -> None:
    noise = random.Random(seed)
    frames = max(2, 400 // (frame + out))
    data = noise.randbytes(frame * frames)
    expected = answers(data, frame, out)
    bench, driver = Bench(frame, out, stall=noise.choice((0.0, 0.5, 0.95)), seed=seed), Host(data, len(expected), seed)

    def line(octets: bytes) -> bytes:
        """Flipped bits, lost bytes and bytes from nowhere."""
        arrive = bytearray()
        for octet in octets:
            event = noise.random() / rate if rate else 1
            if event < 0.5:
                octet ^= 1 << noise.randrange(8)
            elif event < 0.75:
                arrive.append(noise.choice((noise.randrange(256), 0x7E, 0x7D)))
            elif event < 1:
                continue
            arrive.append(octet)
        return bytes(arrive)

    async def host(ctx):
        silent = 0
        for _ in range(3000):
            await bench.send(ctx, line(driver.send()))
            await ctx.tick().repeat(PACE)
            came = bytes(bench.came)
            bench.came.clear()
            silent = 0 if came else silent + 1
            driver.receive(line(came))
            if driver.done:
                break
            if silent > 40:
                driver.silence()
                silent = 0
        await bench.quiet(ctx)

    bench.run(host)
    assert driver.results == expected
    assert bench.seen == data
