"""The host link of a board whose memory the host fills: against the protocol's page, packet by packet."""

from __future__ import annotations

import random

import pytest
from hwflow_rtl.io.link.image import MemoryState, SealedImage
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.vendor import Generic

from .harness import run
from .link_bench import SMALL, Bench, answers, identity, short
from .link_host import CLEAR, DATA, IMAGE, MEMORY, POLL, RESET, RESULT, STATUS, Seen, packet, packets_in

#: The sizes of `SMALL` on a line with a byte in every cycle.
FAST = LinkShape(fast=True)
FIRST, SECOND = bytes(range(0x70, 0x80)), bytes(range(16))


def memory(sequence: int, state: int, digest: bytes, size: int, expected: int = 0) -> Seen:
    return Seen(MEMORY, sequence, expected, bytes([state]) + digest + size.to_bytes(4, "little"))


def known(found: list[Seen]) -> list[tuple]:
    """As `short`, without the digest of a memory that is not filled, and without room, which a memory soon makes."""
    return [(*entry[:3], entry[3][:1] + entry[3][17:]) if entry[0] == MEMORY and entry[3][0] != 2
            else entry[:2] if entry[0] == STATUS else entry for entry in short(found)]


class MemoryPage:
    """The board of the page with a memory for `size` bytes, and a network that takes nothing: its answers."""

    def __init__(self, frame: int, out: int, size: int):
        self.frame, self.out, self.size = frame, out, size
        self.awake, self.filling, self.name, self.chosen = False, False, b"", b""
        self.image = 0
        self.start()

    def start(self) -> None:
        self.expected, self.room, self.chosen = 0, 512, b""

    def answer(self, octets: bytes) -> list[tuple]:
        return known([answer for seen in packets_in(octets)[0] for answer in self.to(seen)])

    def to(self, seen: Seen) -> list[Seen]:
        size = len(seen.payload)
        if seen.kind in (RESET, CLEAR) and not size:
            self.start()
            self.awake, self.filling = True, seen.kind == CLEAR
            if self.filling:
                self.name, self.image = b"", 0
            return [identity(seen.sequence, self.frame, self.out)]
        if (seen.kind, 1 <= size <= 128) not in ((DATA, True), (POLL, False)) and (seen.kind, size) != (IMAGE, 16):
            return []
        if not self.awake:
            return [identity(seen.sequence, self.frame, self.out)]
        if seen.kind == IMAGE:
            if self.filling and self.image == self.size and not self.name:
                self.name = seen.payload
            self.chosen = b"" if self.filling else seen.payload
        may = self.filling or (self.name and self.chosen == self.name)
        if seen.kind == IMAGE or not may:
            state = 2 if self.name else 1 if self.filling else 0
            return [memory(seen.sequence, state, self.name.ljust(16, b"\0"), self.size, self.expected)]
        if seen.kind == DATA and seen.sequence == self.expected and size <= self.room:
            self.expected = self.expected + 1 & 255
            self.image += size if self.filling else 0
            self.room -= size
        return [Seen(STATUS, 0, self.expected, self.room.to_bytes(2, "little"))]


@pytest.mark.parametrize("shape", [SMALL, FAST])
@pytest.mark.slow
def test_a_memory_is_filled_and_frames_follow(shape: LinkShape) -> None:
    bench, image = Bench(frame=4, out=3, image=200, shape=shape), random.Random(1).randbytes(200)

    async def said(ctx, *octets: bytes) -> list[tuple]:
        return known(await bench.ask(ctx, b"".join(octets)))

    async def host(ctx):
        empty, cut = [memory(7, state, bytes(16), 200) for state in (0, 1)]
        assert await said(ctx, packet(RESET, 3), packet(IMAGE, 7, 0, FIRST)) == known([identity(3, 4, 3), empty])
        assert await said(ctx, packet(DATA, 7, 0, b"none")) == known([empty])
        assert await said(ctx, packet(CLEAR, 9)) == known([identity(9, 4, 3)])
        assert [kind for kind, *_ in await said(ctx, packet(DATA, 0, 0, image[:120]))] == [STATUS]
        assert (await said(ctx, packet(IMAGE, 7, 0, FIRST)))[0][3] == known([cut])[0][3]
        # What was cut has no name.
        assert await said(ctx, packet(RESET, 1)) == known([identity(1, 4, 3)])
        assert await said(ctx, packet(IMAGE, 7, 0, FIRST)) == known([empty])
        assert await said(ctx, packet(CLEAR, 2), packet(DATA, 0, 0, image[:100])) != []
        await said(ctx, packet(DATA, 1, 0, image[100:]))
        damaged = packet(IMAGE, 7, 0, FIRST).replace(b"\x71", b"\x72")
        assert await said(ctx, damaged) == []
        for digest in (FIRST, SECOND):  # the first one stays
            assert await said(ctx, packet(IMAGE, 7, 0, digest)) == short([memory(7, 2, FIRST, 200, 2)])
        assert bench.memory == image
        # Frames are for one image.
        full = [memory(7, 2, FIRST, 200)]
        assert await said(ctx, packet(RESET, 4), packet(DATA, 7, 0, b"none")) == short([identity(4, 4, 3), *full])
        for octets in (packet(IMAGE, 7, 0, SECOND), packet(DATA, 7, 0, b"none"), packet(POLL, 7),
                       packet(IMAGE, 7, 0, FIRST)):
            assert await said(ctx, octets) == short(full)
        found = await bench.ask(ctx, packet(DATA, 0, 0, b"abcd"))
        assert [(seen.kind, seen.payload) for seen in found if seen.kind == RESULT] == [
            (RESULT, answers(b"abcd", 4, 3))]
        assert bench.seen == b"abcd"

    bench.run(host)
    assert bench.memory == image


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", [SMALL, FAST])
def test_any_packets_are_answered_as_on_the_page(seed: int, shape: LinkShape) -> None:
    """There are no frames that may be taken, and no bytes behind the end of an image."""
    noise, size = random.Random(seed), 130
    bench, page, states = Bench(image=size, seed=seed, shape=shape), MemoryPage(4, 3, size), set()

    def payload(kind: int) -> bytes:
        if kind == IMAGE:
            return noise.choice((FIRST, FIRST, SECOND, SECOND, FIRST[1:], SECOND + b"x"))
        if kind == DATA and page.filling:
            return noise.randbytes(min(size - page.image, 128))
        return b"none" if kind == DATA and not (page.name and page.chosen == page.name) else b""

    async def host(ctx):
        usual = (CLEAR, DATA, IMAGE, DATA, IMAGE, IMAGE, RESET, DATA, IMAGE, DATA, POLL, RESET)
        for number, kind in enumerate(usual * 4):
            kind = noise.choice((kind, kind, kind, RESET, POLL, IMAGE))
            sequence = noise.choice((*[page.expected] * 5, noise.randrange(256)))
            octets = packet(kind, sequence, 0, payload(kind))
            if noise.random() < 0.05:
                octets = octets[:5] + octets[6:]
            expected = page.answer(octets)
            assert known(await bench.ask(ctx, octets)) == expected, number
            states.update(entry[3][0] for entry in expected if entry[0] == MEMORY)

    bench.run(host)
    assert states == {0, 1, 2}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
@pytest.mark.parametrize("fast", [False, True])
def test_what_is_said_of_a_flash_is_what_frames_are_taken_for(seed: int, fast: bool) -> None:
    """The digest comes, and the check ends, at any moment of an IMAGE; answers are read at any later moment."""
    noise, image = random.Random(seed), SealedImage(technology=Generic(), fast=fast)
    seen = set()

    async def flash(ctx) -> None:
        ctx.set(image.state, MemoryState.FILLING)
        await ctx.tick().repeat(1 + noise.randrange(3000))
        for byte in FIRST:
            ctx.set(image.digest.payload[0], byte)
            ctx.set(image.digest.valid, 1)
            await ctx.tick()
            ctx.set(image.digest.valid, 0)
            await ctx.tick().repeat(1 + noise.randrange(60))
        ctx.set(image.state, MemoryState.FILLED)

    async def host(ctx) -> None:
        """IMAGE after IMAGE, a byte in ten cycles or in each, and what is said and done behind each."""
        packets, contents = image.packets, image.contents
        for _ in range(60):
            asked = noise.choice((FIRST, FIRST, bytes([FIRST[0] ^ 1]) + FIRST[1:], FIRST[:15] + b"x"))
            await pulse(ctx, packets.begin)
            for k, byte in enumerate(asked):
                ctx.set(packets.place, -k & 15)
                ctx.set(packets.byte, byte)
                if not fast:
                    await ctx.tick().repeat(9)
                await pulse(ctx, packets.write)
            await pulse(ctx, packets.asked)
            await ctx.tick().repeat(1 + noise.randrange(200))
            ctx.set(contents.place, -noise.randrange(16) & 15)
            state, usable = ctx.get(contents.state), ctx.get(packets.usable)
            said = await digest_said(ctx, contents)
            seen.add((state, usable))
            assert usable == (state == MemoryState.FILLED and asked == FIRST)
            assert state != MemoryState.FILLED or said == FIRST
        await pulse(ctx, packets.resets)
        assert (ctx.get(contents.state), ctx.get(packets.usable)) == (MemoryState.FILLED, 0)

    run(image, flash, host)
    assert {(MemoryState.FILLED, 0), (MemoryState.FILLED, 1)} <= seen


@pytest.mark.parametrize("state", [state for state in MemoryState if state not in (
    MemoryState.FILLED, MemoryState.FILLING)])
def test_what_is_wrong_with_a_flash_is_said_at_once(state: MemoryState) -> None:
    image = SealedImage(technology=Generic())

    async def host(ctx) -> None:
        ctx.set(image.state, state)
        for _ in range(2):
            assert (ctx.get(image.contents.state), ctx.get(image.packets.usable)) == (state, 0)
            await pulse(ctx, image.packets.begin)
            await pulse(ctx, image.packets.asked)

    run(image, host)


async def pulse(ctx, signal) -> None:
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def digest_said(ctx, contents) -> bytes:
    """As the sender reads it: each byte some cycles behind its place."""
    said = bytearray()
    for k in range(16):
        ctx.set(contents.place, -k & 15)
        await ctx.tick().repeat(6)
        said.append(ctx.get(contents.byte))
    return bytes(said)
