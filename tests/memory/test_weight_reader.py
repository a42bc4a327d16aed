"""Weights as words of memory: any width, frame after frame, burst by burst."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.memory import WeightImage, WeightReader, WeightStream
from hwflow_rtl.memory.weight_memory import WeightUnpacker

from tests.memory.parts import SMALL
from tests.rtl.harness import simulate

FORMS = [(signed(8), 4, 10), (signed(8), 2, 7), (signed(4), 1, 9), (unsigned(16), 1, 5), (signed(6), 3, 11),
         (unsigned(1), 9, 20), (signed(8), 9, 13), (signed(5), 5, 3), (unsigned(3), 3, 64), (signed(8), 1, 1)]


def weights(stream: WeightStream, seed: int) -> np.ndarray:
    low = -(1 << stream.shape.width - 1) if stream.shape.signed else 0
    return np.random.default_rng(seed).integers(low, low + (1 << stream.shape.width), (stream.beats, stream.lanes))


@pytest.mark.parametrize(("shape", "lanes", "beats"), FORMS)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_frames_follow_each_other(shape: Shape, lanes: int, beats: int, stall: float) -> None:
    image = WeightImage(WeightStream(shape, lanes, beats), 16)
    wanted, frames = weights(image.stream, beats), 3
    words = image.of(wanted)
    assert len(words) == image.words
    assert np.array_equal(image.model(words), wanted)
    traces = simulate(WeightUnpacker(image=image), sends={"i": np.tile(words, frames)[:, None]},
                      receives={"o": beats * frames}, stall_in=stall, stall_out=stall)
    assert np.array_equal(traces["o"].beats, np.tile(wanted, (frames, 1)))


def test_an_image_without_gaps() -> None:
    """Elements of 6 bits in words of 16: the first in the low bits, the ninth in two words."""
    image = WeightImage(WeightStream(unsigned(6), 1, 3), 16)
    assert image.of(np.array([[1], [2], [3]])).tolist() == [1 | 2 << 6 | (3 & 15) << 12, 0, 0]
    assert (image.words, image.padded_beats) == (3, 8)


def test_restart_begins_with_a_frame() -> None:
    """Whatever is inside of the unpacker when it is restarted is gone."""
    image = WeightImage(WeightStream(signed(6), 3, 11), 16)
    unpacker, wanted = WeightUnpacker(image=image), weights(image.stream, 1)
    words, seen = image.of(wanted).tolist(), []

    async def bench(ctx):
        ctx.set(unpacker.o.ready, 1)
        for length in (7, 13, len(words)):
            for word in words[:length]:
                ctx.set(unpacker.i.payload, word)
                ctx.set(unpacker.i.valid, 1)
                await ctx.tick().until(unpacker.i.ready)
            ctx.set(unpacker.i.valid, 0)
            if length < len(words):
                ctx.set(unpacker.restart, 1)
                await ctx.tick()
                ctx.set(unpacker.restart, 0)
                await ctx.tick()
                seen.clear()
        await ctx.tick().repeat(10)

    async def watch(ctx):
        async for _, _, valid, payload in ctx.tick().sample(unpacker.o.valid, unpacker.o.payload):
            if valid:
                seen.append([payload[n] for n in range(3)])

    simulate(unpacker, sends={}, receives={}, testbenches=[bench], watchers=[watch])
    assert seen == wanted.tolist()


@pytest.mark.quick(3)
@pytest.mark.parametrize(("words", "burst", "depth"), [(100, 30, 64), (90, 30, 30), (7, 7, 20), (65, 64, 130)])
@pytest.mark.parametrize("stall", [0.0, 0.7])
def test_a_reader_asks_for_what_it_has_room_for(words: int, burst: int, depth: int, stall: float) -> None:
    """Its requests follow each other through the image; never more is under way than its queue takes."""
    reader = WeightReader(part=SMALL, first=77, words=words, burst=burst, depth=depth)
    total, asked, given, source = 5 * words, [], [0], np.random.default_rng(words)

    async def memory(ctx):
        ctx.set(reader.enable, 1)
        ctx.set(reader.request.ready, 1)
        place, waiting = 0, 0
        while True:
            valid = waiting > 0 and place < total and source.random() >= stall / 2
            ctx.set(reader.read.valid, valid)
            ctx.set(reader.read.payload, place % words)
            _, _, wants, payload, ready = await ctx.tick().sample(reader.request.valid, reader.request.payload,
                                                                  reader.read.ready)
            if wants:
                asked.append((payload.first, payload.last))
                waiting += payload.last - payload.first + 1
                assert place + waiting - given[0] <= reader.capacity
            if valid:
                assert ready
                place, waiting = place + 1, waiting - 1

    async def watch(ctx):
        async for _, _, valid, ready in ctx.tick().sample(reader.o.valid, reader.o.ready):
            given[0] += valid and ready

    traces = simulate(reader, sends={}, receives={"o": total}, stall_out=stall, watchers=[memory, watch])
    assert np.array_equal(traces["o"].beats.reshape(-1), np.resize(np.arange(words), total))
    starts = list(range(77, 77 + words, burst))
    expected = [(start, min(start + burst, 77 + words) - 1) for start in starts]
    assert asked == [expected[n % len(expected)] for n in range(len(asked))]


def test_a_memory_of_bytes() -> None:
    image = WeightImage(WeightStream(signed(4), 3, 4), 8)
    assert image.words == 6
    wanted = weights(image.stream, 0)
    assert np.array_equal(image.model(image.of(wanted)), wanted)


STREAM = WeightStream(signed(8), 4, 5)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: replace(STREAM, beats=0), "beats must be at least 1, not 0"),
    (lambda: WeightImage(WeightStream(signed(7), 33, 5), 16),
     "beats of 231 bits must end with a word of 16 bits after at most 2048 bits, not 3696; choose another number of "
     "lanes"),
    (lambda: WeightReader(part=SMALL, first=0, words=90, burst=30, depth=29),
     "depth of the queue of a WeightReader must be at least 30, the words of a burst, not 29")])
def test_what_cannot_be(make, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
