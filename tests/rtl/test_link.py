"""The host link at the level of bytes, without a serial line: against the protocol's page, with errors on both ways."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from hwflow_rtl.io import HostLink
from hwflow_rtl.io.link_image import Beside
from hwflow_rtl.io.transports.framed import Framed
from hwflow_rtl.vendor import Generic

from .link_host import DATA, IDENTITY, POLL, RESET, RESULT, STATUS, Host, Seen, frame_of, packet, packets_in

DESIGN = bytes(range(0x7A, 0x82))  # with a flag and an escape in it
#: Cycles of a byte: faster than any line.
PACE = 16
ROOM = 512


def answers(frames: bytes, frame: int, out: int) -> bytes:
    """What the core of these tests makes of whole frames of `frame` bytes: `out` bytes for each."""
    whole = (frames[k:k + frame] for k in range(0, len(frames) // frame * frame, frame))
    return b"".join(bytes((sum(one) + 31 * k) & 255 for k in range(out)) for one in whole)


class OnBytes(Elaboratable):
    """A link on a line of bytes: `i` and `o` are those of the line."""

    def __init__(self, link: HostLink):
        self.link, self.framed = link, Framed()
        self.i, self.o = self.framed.received, self.framed.sent

    def __getattr__(self, name: str):
        return getattr(self.link, name)

    def elaborate(self, platform):
        m = Module()
        m.submodules.link, m.submodules.framed = self.link, self.framed
        wiring.connect(m, self.framed.o, self.link.i)
        wiring.connect(m, self.link.o, self.framed.i)
        return m


class Bench:
    """A link between a Python core, whose input is kept in `seen`, and a line of bytes each way."""

    def __init__(self, frame: int = 4, out: int = 3, stall: float = 0.0, seed: int = 0, listens: bool = True,
                 image: int = 0):
        self.link = OnBytes(HostLink(technology=Generic(), identity=DESIGN, bytes_in=frame, bytes_out=out,
                                     memory=Beside.FILLED if image else Beside.NOTHING, image_bytes=image))
        self.image, self.memory = image, bytearray()
        self.frame, self.out, self.stall = frame, out, stall
        self.noise = random.Random(seed)
        self.seen, self.came, self.errors, self.moves = bytearray(), bytearray(), 0, 0
        self.listens = listens

    async def core(self, ctx) -> None:
        """The core, and the line, which takes a byte in `PACE` cycles."""
        link, owes, begun, pause = self.link, bytearray(), bytearray(), 0
        while True:
            pause -= pause > 0
            ctx.set(link.o.ready, not pause)
            ctx.set(link.stopped, ctx.get(link.restart))  # a cycle later
            filling = bool(self.image) and ctx.get(link.filling)
            if self.image:
                if ctx.get(link.clear):
                    self.memory.clear()
                ctx.set(link.cleared, ctx.get(link.clear))
                ctx.set(link.complete, len(self.memory) == self.image)
            ready = len(owes) < 2 * self.out and self.listens and self.noise.random() >= self.stall
            valid = bool(owes) and self.noise.random() >= self.stall
            ctx.set(link.data.ready, ready)
            ctx.set(link.results.valid, valid)
            ctx.set(link.results.payload[0], owes[0] if valid else self.noise.randrange(256))
            _, _, offered, byte, taken, restart, error, sends, sent = await ctx.tick().sample(
                link.data.valid, link.data.payload[0], link.results.ready, link.restart, link.error, link.o.valid,
                link.o.payload[0])
            self.errors += error
            self.moves += (sends and not pause) + (taken and valid) + (offered and ready)
            if sends and not pause:
                self.came.append(sent)
                pause = PACE
            if restart:
                owes.clear()
                begun.clear()
                self.seen.clear()
                continue
            if taken and valid:
                del owes[0]
            if offered and ready and filling:
                self.memory.append(byte)
            elif offered and ready:
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
        """Until nothing has moved for so long."""
        count = -1
        while count != self.moves:
            count = self.moves
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


class Page:
    """The board as the page has it, with a core that takes nothing: what it answers to the packets of the host."""

    def __init__(self, frame: int, out: int):
        self.frame, self.out = frame, out
        self.awake, self.expected, self.room = False, 0, ROOM

    def answer(self, octets: bytes) -> list[tuple]:
        answers = []
        for seen in packets_in(octets)[0]:
            if seen.kind == RESET and not seen.payload:
                self.awake, self.expected, self.room = True, 0, ROOM
                answers.append(identity(seen.sequence, self.frame, self.out))
            elif (seen.kind, bool(seen.payload)) in ((DATA, True), (POLL, False)):
                size = len(seen.payload)
                if size > 128:
                    continue
                if not self.awake:
                    answers.append(identity(seen.sequence, self.frame, self.out))
                    continue
                if seen.kind == DATA and seen.sequence == self.expected and size <= self.room:
                    self.expected, self.room = self.expected + 1 & 255, self.room - size
                answers.append(Seen(STATUS, 0, self.expected, self.room.to_bytes(2, "little")))
        return short(answers)


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


GOOD = packet(DATA, 0, 0, b"abc")
#: What is no packet with how many errors that are to be seen, and packets that mean nothing.
WRONG = [
    (GOOD[:-3] + b"\x7e", 1),  # cut
    (GOOD[:6] + b"\x7e", 1),  # a flag in the middle
    (GOOD[:-1] + b"\0\x7e", 1),  # a byte too many
    (GOOD[:-1] + b"\x7d\x7e", 1),  # an escape before the flag
    (GOOD.replace(b"b", b"c"), 1),  # a wrong bit
    (frame_of(bytes([DATA, 0, 0, 4]) + b"abc"), 1),  # too short
    (frame_of(bytes([DATA, 0, 0, 2]) + b"abc"), 1),
    (frame_of(bytes([DATA, 0, 0])), 1),
    (b"\x7e\x7e\x7d\x7e\x7e", 0),  # nothing, and an escape of nothing
    (packet(DATA, 1, 0, b"abc"), 0),  # not in turn
    (packet(DATA, 255, 0, b"abc"), 0),
    (packet(DATA, 0, 0, b""), 0),
    (packet(RESET, 9, 0, b"x"), 0),
    (packet(POLL, 9, 0, b"x"), 0),
    (packet(0x81, 0, 0, b""), 0),
    (packet(0x12, 0, 0, b"abc"), 0),
]
LONG = [
    (frame_of(bytes([DATA, 0, 0, 129]) + bytes(129)), 1),
    (frame_of(bytes([DATA, 0, 0, 255]) + bytes(255)), 1),
    (bytes(range(256)) + b"\x7e", 2),  # with a flag in it
]


@pytest.mark.parametrize("wrong", [WRONG, pytest.param(LONG, marks=pytest.mark.slow)])
def test_what_is_wrong_is_dropped_and_what_follows_counts(wrong: list[tuple[bytes, int]]) -> None:
    bench, page = Bench(listens=False), Page(4, 3)

    async def host(ctx):
        await bench.quiet(ctx, 60)
        for octets, errors in wrong:
            bench.errors = 0
            octets = (b"" if page.awake else packet(RESET, 3)) + octets
            assert short(await bench.ask(ctx, octets)) == page.answer(octets)
            assert bench.errors == errors, octets
        assert page.expected == 0
        assert short(await bench.ask(ctx, GOOD)) == page.answer(GOOD) == [(STATUS, 1, ROOM - 3)]

    bench.run(host)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_packets_are_answered_as_on_the_page(seed: int) -> None:
    """The core takes nothing, so that the room is known; one packet at a time, so that no answer stands for two."""
    noise = random.Random(seed)
    bench, page = Bench(listens=False), Page(4, 3)

    async def host(ctx):
        for number in range(28):
            kind = RESET if number in (2, 23) else noise.choice((DATA, DATA, DATA, POLL))
            size = noise.choice((0, 1, 3, 127, 128)) if kind == DATA else 0
            sequence = noise.choice((page.expected, page.expected, page.expected + 1, noise.randrange(256))) & 255
            octets = packet(kind, sequence, noise.choice((0, 0, 1, 200)), noise.randbytes(size))
            if noise.random() < 0.15:
                octets = octets[:5] + octets[6:]
            assert short(await bench.ask(ctx, octets)) == page.answer(octets), number

    bench.run(host)


def results_of(found: list[Seen]) -> list[tuple[int, bytes]]:
    return [(seen.sequence, seen.payload) for seen in found if seen.kind == RESULT]


@pytest.mark.slow
def test_results_are_kept_until_they_are_acknowledged() -> None:
    """Frames of one byte and results of 200: packets of 128 and 72, four of which wait."""
    bench = Bench(frame=1, out=200)
    whole = answers(b"abcd", 1, 200)
    pieces = [whole[200 * k + a:200 * k + b] for k in range(4) for a, b in ((0, 128), (128, 200))]

    async def host(ctx):
        await bench.ask(ctx, packet(RESET, 3))
        kept = list(enumerate(pieces))
        assert results_of(await bench.ask(ctx, packet(DATA, 0, 0, b"abcd"))) == kept[:4]
        assert results_of(await bench.ask(ctx, packet(DATA, 0, 0, b"z"))) == []  # not expected
        assert results_of(await bench.ask(ctx, packet(POLL, 0, 0))) == kept[:4]
        assert results_of(await bench.ask(ctx, packet(POLL, 0, 1))) == kept[1:5]
        assert results_of(await bench.ask(ctx, packet(DATA, 9, 3, b"z"))) == kept[5:7]
        for never in (0, 2, 8, 9, 131, 255):  # freed, or never sent
            assert results_of(await bench.ask(ctx, packet(DATA, 9, never, b"z"))) == []
        assert results_of(await bench.ask(ctx, packet(POLL, 0, 7))) == kept[7:]
        assert results_of(await bench.ask(ctx, packet(POLL, 0, 8))) == []

    bench.run(host)


@pytest.mark.slow
def test_what_was_acknowledged_before_a_reset_is_not_after_it() -> None:
    """Results, acknowledgements and the expected sequence of one session mean nothing to the next."""
    bench = Bench(frame=1, out=100)

    async def host(ctx):
        await bench.ask(ctx, packet(RESET, 3))
        assert len(results_of(await bench.ask(ctx, packet(DATA, 0, 0, b"abcdef")))) == 4
        whole = answers(b"xyz", 1, 100)
        pieces = [(k, whole[100 * k:100 * k + 100]) for k in range(3)]
        # The acknowledgement of the four comes right behind the RESET, when none of the new results was sent.
        found = await bench.ask(ctx, packet(RESET, 9) + packet(DATA, 1, 4, b"old") + packet(DATA, 0, 4, b"xyz"))
        assert [(seen.kind, seen.sequence) for seen in found if seen.kind == IDENTITY] == [(IDENTITY, 9)]
        assert results_of(found) == pieces
        assert results_of(await bench.ask(ctx, packet(DATA, 0, 4, b"xyz"))) == []  # doubled, and never sent
        assert results_of(await bench.ask(ctx, packet(POLL, 0, 0))) == pieces
        # Two at once: the answer to the first one is cut.
        bench.came.clear()
        await bench.send(ctx, packet(RESET, 20) + packet(RESET, 21) + packet(DATA, 0, 0, b"x"))
        await bench.quiet(ctx)
        found, wrong, rest = packets_in(bench.came)
        assert (wrong <= 1, rest) == (True, b"")
        assert [seen.sequence for seen in found if seen.kind == IDENTITY][-1] == 21
        assert results_of(found) == pieces[:1]

    bench.run(host)
    assert bench.seen == b"x"


@pytest.mark.slow
def test_what_was_sent_once_may_be_acknowledged_while_it_is_repeated() -> None:
    bench = Bench(frame=1, out=100)
    whole = answers(b"abcdef", 1, 100)

    async def host(ctx):
        await bench.ask(ctx, packet(RESET, 3))
        await bench.ask(ctx, packet(DATA, 0, 0, b"abcdef"))
        # The repetition has just begun when the acknowledgement of all four comes: the packet on its way stays whole.
        found = await bench.ask(ctx, packet(POLL, 0, 0) + packet(DATA, 9, 4, b"z"))
        sequences = [sequence for sequence, _ in results_of(found)]
        assert sequences in ([0, 4, 5], [4, 5])
        assert all(body == whole[100 * k:100 * k + 100] for k, body in results_of(found))

    bench.run(host)


@pytest.mark.parametrize("after", [
    pytest.param(30, marks=pytest.mark.slow), 700, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_reset_in_the_middle_of_anything(after: int) -> None:
    bench = Bench(frame=4, out=100)

    async def host(ctx):
        await bench.ask(ctx, packet(RESET, 3))
        await bench.send(ctx, packet(DATA, 0, 0, b"abcdefghijk"))
        await ctx.tick().repeat(after)
        await bench.send(ctx, packet(DATA, 1, 0, b"12345")[:-4])
        bench.came.clear()
        await bench.send(ctx, packet(RESET, 4))
        await bench.quiet(ctx)
        assert packets_in(bench.came)[0][-1] == identity(4, 4, 100)
        found = await bench.ask(ctx, packet(DATA, 0, 0, b"4321"))
        assert results_of(found) == [(0, answers(b"4321", 4, 100))]
        assert bench.seen == b"4321"

    bench.run(host)


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
