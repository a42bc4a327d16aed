"""The host link on a line of bytes without bits: against the protocol's page, with errors on both ways."""

from __future__ import annotations

import random

import pytest
from hwflow_rtl.io.link.shape import LinkShape

from .link_bench import PACE, Bench, Page, answers, identity, short
from .link_host import (
    DATA,
    IDENTITY,
    LINE,
    POLL,
    RESET,
    RESULT,
    SETTINGS,
    STATUS,
    Host,
    Seen,
    body_of,
    frame_of,
    packet,
    packets_in,
)

#: Packets that a host may send until all its results must be there, most of them lost on the worst line.
STEPS = 3000
#: Of an FPGA whose RAM blocks have 2048 bytes.
LARGE = LinkShape(payload=512, room=2048)


@pytest.mark.parametrize("shape", [LinkShape(), LinkShape(payload=1463, room=8192, fast=True)])
def test_a_frame_goes_in_and_its_results_come_back(shape: LinkShape) -> None:
    bench = Bench(frame=5, out=3, shape=shape)

    async def host(ctx):
        assert await bench.ask(ctx, packet(RESET, 77)) == [identity(77, 5, 3, shape=shape)]
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
    (frame_of(bytes([DATA, 0, 0, 4, 0]) + b"abc"), 1),  # too short
    (frame_of(bytes([DATA, 0, 0, 2, 0]) + b"abc"), 1),
    (frame_of(bytes([DATA, 0, 0, 3, 1]) + b"abc"), 1),  # a wrong high byte of the length
    (frame_of(bytes([DATA, 0, 0, 0, 128]) + b"abc"), 1),
    (frame_of(bytes([DATA, 0, 0])), 1),
    (frame_of(bytes([DATA, 0, 0, 3]) + b"abc"), 1),  # of another version
    (b"\x7e\x7e\x7d\x7e\x7e", 0),  # nothing, and an escape of nothing
    (packet(DATA, 1, 0, b"abc"), 0),  # not in turn
    (packet(DATA, 255, 0, b"abc"), 0),
    (packet(DATA, 0, 0, b""), 0),
    (packet(RESET, 9, 0, b"x"), 0),
    (packet(POLL, 9, 0, b"x"), 0),
    (packet(0x81, 0, 0, b""), 0),
    (packet(0x12, 0, 0, b"abc"), 0),
    (packet(LINE, 0, 0, b"abcd"), 0),
]
LONG = [
    (frame_of(body_of(DATA, 0, 0, bytes(129))), 1),
    (frame_of(body_of(DATA, 0, 0, bytes(255))), 1),
    (frame_of(body_of(DATA, 0, 0, bytes(256))), 1),
    (frame_of(body_of(DATA, 0, 0, bytes(384))), 1),
    (bytes(range(256)) + b"\x7e", 2),  # with a flag in it
]


#: The same sizes on a line with a byte in every cycle, and those of a line of datagrams.
FAST, WIDE = LinkShape(fast=True), LinkShape(payload=1463, room=8192, fast=True)


@pytest.mark.parametrize("shape", [LinkShape(), FAST])
@pytest.mark.parametrize("wrong", [WRONG, pytest.param(LONG, marks=pytest.mark.slow)])
def test_what_is_wrong_is_dropped_and_what_follows_counts(shape: LinkShape, wrong: list[tuple[bytes, int]]) -> None:
    bench, page = Bench(listens=False, shape=shape), Page(4, 3, shape)

    async def host(ctx):
        await bench.quiet(ctx, 60)
        for octets, errors in wrong:
            bench.errors = 0
            octets = (b"" if page.awake else packet(RESET, 3)) + octets
            assert short(await bench.ask(ctx, octets)) == page.answer(octets)
            assert bench.errors == errors, octets
        assert page.expected == 0
        assert short(await bench.ask(ctx, GOOD)) == page.answer(GOOD) == [(STATUS, 1, 512 - 3)]

    bench.run(host)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [LinkShape(), LARGE, LinkShape(payload=1463, room=4096), LinkShape(settings=True),
                                   FAST, WIDE])
@pytest.mark.parametrize("seed", range(3))
def test_any_packets_are_answered_as_on_the_page(shape: LinkShape, seed: int) -> None:
    """The core takes nothing, so that the room is known; one packet at a time, so that no answer stands for two."""
    noise = random.Random(seed)
    bench, page = Bench(listens=False, shape=shape), Page(4, 3, shape)

    async def host(ctx):
        for number in range(28):
            kind = RESET if number in (2, 23) else noise.choice((DATA, DATA, DATA, POLL, LINE))
            size = noise.choice((0, 1, 3, 255, 256, shape.payload - 1, shape.payload)) if kind == DATA else 0
            size = noise.choice((0, 3, 4, 4, 4, 5)) if kind == LINE else size
            sequence = noise.choice((page.expected, page.expected, page.expected + 1, noise.randrange(256))) & 255
            octets = packet(kind, sequence, noise.choice((0, 0, 1, 200)), noise.randbytes(size))
            if noise.random() < 0.15:
                octets = octets[:5] + octets[6:]
            assert short(await bench.ask(ctx, octets)) == page.answer(octets), number

    bench.run(host)


def results_of(found: list[Seen]) -> list[tuple[int, bytes]]:
    return [(seen.sequence, seen.payload) for seen in found if seen.kind == RESULT]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [LinkShape(), FAST])
def test_results_are_kept_until_they_are_acknowledged(shape: LinkShape) -> None:
    """Frames of one byte and results of 200: packets of 128 and 72, four of which wait."""
    bench = Bench(frame=1, out=200, shape=shape)
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


def test_the_line_is_set_when_its_answer_has_left() -> None:
    """Before the first RESET, too; what was damaged or of another length changes nothing."""
    bench, wanted = Bench(shape=LinkShape(settings=True)), b"\x01\x02\x03\x04"

    async def host(ctx):
        for octets in (wanted[:3], wanted + b"5"):
            assert await bench.ask(ctx, packet(LINE, 7, 0, octets)) == []
        assert await bench.ask(ctx, packet(LINE, 7, 0, wanted).replace(b"\3", b"\4")) == []
        assert bench.settings == []
        # Of two at once, the second comes while the first one's answer is under way.
        assert await bench.ask(ctx, packet(LINE, 7, 0, wanted) + packet(LINE, 8, 0, b"zzzz")) == [
            Seen(SETTINGS, 7, 0, wanted[:3] + b"\0")]
        assert bench.settings == [0x030201]
        assert await bench.ask(ctx, packet(RESET, 3)) == [identity(3, 4, 3, shape=bench.shape)]
        assert await bench.ask(ctx, packet(LINE, 9, 0, b"\7\0\0\0")) == [Seen(SETTINGS, 9, 0, b"\7\0\0\0")]
        assert bench.settings == [0x030201, 7]

    bench.run(host)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [LinkShape(), FAST])
def test_what_was_acknowledged_before_a_reset_is_not_after_it(shape: LinkShape) -> None:
    """Results, acknowledgements and the expected sequence of one session mean nothing to the next."""
    bench = Bench(frame=1, out=100, shape=shape)

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
@pytest.mark.parametrize("shape", [LinkShape(), FAST])
def test_what_was_sent_once_may_be_acknowledged_while_it_is_repeated(shape: LinkShape) -> None:
    bench = Bench(frame=1, out=100, shape=shape)
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
@pytest.mark.parametrize(("frame", "out", "seed", "rate", "shape"), [
    *((frame, out, seed, rate, LinkShape()) for frame, out, seed, rate in (
        (4, 3, 0, 0.0), (7, 200, 1, 0.0), (64, 10, 2, 3e-3), (300, 5, 3, 3e-3), (5, 129, 4, 3e-3), (3, 1, 5, 1e-2),
        (100, 256, 6, 2e-3))),
    (300, 700, 7, 3e-4, LARGE), (7, 200, 8, 1e-3, LARGE)])
def test_every_result_comes_once_and_in_order_through_errors(frame: int, out: int, seed: int, rate: float,
                                                             shape: LinkShape) -> None:
    noise = random.Random(seed)
    frames = max(2, 400 // (frame + out))
    data = noise.randbytes(frame * frames)
    expected = answers(data, frame, out)
    bench = Bench(frame, out, stall=noise.choice((0.0, 0.5, 0.95)), seed=seed, shape=shape)
    driver = Host(data, len(expected), seed, sizes=(1, 2, 17, 64, shape.payload - 1, shape.payload))

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
        for _ in range(STEPS if rate < 1e-2 else 2 * STEPS):  # one byte of a hundred: a tenth of all headers is wrong
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


# How many bytes a cycle pass a host link and its crossing, in both directions


PACKETS = 3


def data_in(shape: LinkShape) -> float:
    """Bytes of payload a cycle that a core which takes all gets from packets without gaps."""
    data = random.Random(1).randbytes(shape.payload * PACKETS)
    bench, took = Bench(frame=shape.payload, out=10, shape=shape), []

    async def host(ctx) -> None:
        await bench.ask(ctx, packet(RESET, 1))
        begun = bench.cycles
        for k in range(PACKETS):
            await bench.send(ctx, packet(DATA, k, 0, data[shape.payload * k:shape.payload * (k + 1)]))
        took.append(bench.cycles - begun)
        await bench.quiet(ctx)

    bench.run(host)
    assert bench.seen == data
    assert packets_in(bench.came)[1] == 0
    return len(data) / took[0]


def results_out(shape: LinkShape) -> float:
    """Bytes of payload a cycle of results that are there, up to the window."""
    bench, took = Bench(frame=1, out=6 * shape.payload, shape=shape), []

    async def host(ctx) -> None:
        await bench.ask(ctx, packet(RESET, 1))
        bench.came.clear()
        await bench.send(ctx, packet(DATA, 0, 0, b"a"))
        ends = []
        while len(ends) < PACKETS:
            await ctx.tick()
            seen = sum(found.kind == RESULT for found in packets_in(bench.came)[0]) if bench.came[-1:] == b"\x7e" else 0
            ends += [bench.cycles] * (seen - len(ends))
        took.append(ends[-1] - ends[0])

    bench.run(host)
    return (PACKETS - 1) * shape.payload / took[0]


@pytest.mark.parametrize("shape, least", [
    (LinkShape(payload=256, room=1024, fast=True), 0.9),
    pytest.param(LinkShape(payload=1463, room=8192, fast=True), 0.98, marks=pytest.mark.slow)])
def test_a_byte_in_every_cycle(shape: LinkShape, least: float) -> None:
    """But for the headers, checksums, flags and what is decided between two packets."""
    rates = data_in(shape), results_out(shape)
    print(f"{shape.payload} bytes of payload: {rates[0]:.4f} bytes a cycle in, {rates[1]:.4f} out")
    assert min(rates) > least
