"""The reader of weights: any width, frame after frame, alone and with the controller and its chip."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Shape, signed, unsigned
from hwflow_rtl.memory import WeightReader
from hwflow_sim.sdram import Request, Traffic

from hwflow.synth import load_board
from tests.memory.parts import SMALL
from tests.rtl.harness import simulate

FORMS = [(signed(8), 4, 10), (signed(8), 2, 7), (signed(4), 1, 9), (unsigned(16), 1, 5), (signed(6), 3, 11),
         (unsigned(1), 9, 20), (signed(8), 9, 13), (signed(5), 5, 3), (unsigned(3), 3, 64), (signed(8), 1, 1)]


def weights(reader: WeightReader, seed: int) -> np.ndarray:
    low = -(1 << reader.shape.width - 1) if reader.shape.signed else 0
    return np.random.default_rng(seed).integers(low, low + (1 << reader.shape.width), (reader.beats, reader.lanes))


@pytest.mark.parametrize(("shape", "lanes", "beats"), FORMS)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_frames_follow_each_other(shape: Shape, lanes: int, beats: int, stall: float) -> None:
    reader = WeightReader(part=SMALL, shape=shape, lanes=lanes, beats=beats, first=128)
    wanted, frames, asked = weights(reader, beats), 3, []
    image = reader.image(wanted)
    assert len(image) == reader.words
    assert np.array_equal(reader.model(image), wanted)

    async def memory(ctx):
        ctx.set(reader.enable, 1)
        ctx.set(reader.request.ready, 1)
        for _ in range(3):
            _, _, valid, payload = await ctx.tick().sample(reader.request.valid, reader.request.payload)
            asked.append((valid, payload.first, payload.last, payload.write))

    traces = simulate(reader, sends={"read": np.tile(image, frames)[:, None]}, receives={"o": beats * frames},
                      stall_in=stall, stall_out=stall, testbenches=[memory])
    assert np.array_equal(traces["o"].beats, np.tile(wanted, (frames, 1)))
    assert asked == [(1, 128, 128 + reader.words - 1, 0)] * 3


def test_an_image_without_gaps() -> None:
    """Elements of 6 bits in words of 16: the first in the low bits, the ninth in two words."""
    reader = WeightReader(part=SMALL, shape=unsigned(6), lanes=1, beats=3)
    assert reader.image(np.array([[1], [2], [3]])).tolist() == [1 | 2 << 6 | (3 & 15) << 12, 0, 0]
    assert (reader.words, reader.padded_beats) == (3, 8)


def test_restart_begins_with_a_frame() -> None:
    """Whatever is inside of the reader when it is restarted is gone."""
    reader = WeightReader(part=SMALL, shape=signed(6), lanes=3, beats=11)
    wanted = weights(reader, 1)
    image, seen = reader.image(wanted).tolist(), []

    async def bench(ctx):
        ctx.set(reader.enable, 1)
        ctx.set(reader.o.ready, 1)
        for length in (7, 13, len(image)):
            for word in image[:length]:
                ctx.set(reader.read.payload, word)
                ctx.set(reader.read.valid, 1)
                await ctx.tick().until(reader.read.ready)
            ctx.set(reader.read.valid, 0)
            if length < len(image):
                ctx.set(reader.restart, 1)
                await ctx.tick()
                ctx.set(reader.restart, 0)
                await ctx.tick()
                seen.clear()
        await ctx.tick().repeat(10)

    async def watch(ctx):
        async for _, _, valid, payload in ctx.tick().sample(reader.o.valid, reader.o.payload):
            if valid:
                seen.append([payload[n] for n in range(3)])

    simulate(reader, sends={}, receives={}, testbenches=[bench], watchers=[watch])
    assert seen == wanted.tolist()


@pytest.mark.parametrize(("shape", "lanes", "beats", "stall"), [
    (signed(8), 4, 500, 0.0), pytest.param(signed(6), 3, 333, 0.5, marks=pytest.mark.slow),
    pytest.param(signed(8), 8, 999, 0.9, marks=pytest.mark.slow)])
def test_with_controller_and_chip(traffic: Callable[..., Traffic], shape: Shape, lanes: int, beats: int, stall: float
                                  ) -> None:
    """The image is written, then read four times and a bit."""
    reader = WeightReader(part=SMALL, shape=shape, lanes=lanes, beats=beats, first=64 * 5)
    wanted = weights(reader, 3)
    fill = [Request(reader.first, reader.first + reader.words - 1, write=True)]
    result = traffic(SMALL, reader).run(fill, reader.image(wanted), beats=4 * beats + 17, seed=5, read_stall=stall)
    assert result.violations == {}
    given = result.beats >> np.arange(lanes)[:, None] * shape.width & (1 << shape.width) - 1
    signs = 1 << shape.width - 1
    elements = np.where(given & signs, given - 2 * signs, given).T if shape.signed else given.T
    assert np.array_equal(elements, np.resize(wanted, (5 * beats, lanes))[:4 * beats + 17])
    if not stall:
        words, clocks = len(result.beats) * reader.width / SMALL.width, SMALL.clocks
        assert result.beat_cycles <= words / clocks.sustained_share + 5 * clocks.worst_latency


@pytest.mark.parametrize("length", [1, 7, 64, 501])
def test_restarts_of_controller_and_reader(traffic: Callable[..., Traffic], length: int) -> None:
    """Words on their way, in queues and in the reader are dropped; the chip's rows and refreshes go on."""
    reader = WeightReader(part=SMALL, shape=signed(8), lanes=4, beats=500, first=64 * 5)
    image = reader.image(weights(reader, 3))
    fill = [Request(reader.first, reader.first + reader.words - 1, write=True)]
    result = traffic(SMALL, reader).run(fill, image, beats=30 * length, restart=length, seed=length, read_stall=0.3)
    assert result.violations == {}
    frame = image[::2] | image[1::2] << 16
    assert np.array_equal(result.beats, np.tile(np.resize(frame, length), 30))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s_85f", "colorlight_i5", "tangnano20k"])
def test_bytes_a_second_on_boards(traffic: Callable[..., Traffic], board: str) -> None:
    """An image of 200 000 bytes, ten frames: nine tenths of the peak, and what the part promises."""
    part = load_board(board).memories[0].part
    reader = WeightReader(part=part, shape=signed(8), lanes=part.width // 8, beats=200_000 * 8 // part.width)
    image = reader.image(weights(reader, 7))
    fill = [Request(0, reader.words - 1, write=True)]
    result = traffic(part, reader).run(fill, image, beats=10 * reader.beats)
    assert result.violations == {}
    assert np.array_equal(result.beats, np.tile(image, 10))
    rate = (len(result.beats) - 1) * part.width / 8 / (result.beat_cycles / part.clock_mhz / 1e6)
    assert rate >= part.sustained_bytes_per_second >= 0.9 * part.peak_bytes_per_second


@pytest.mark.parametrize(("values", "message"), [
    ({"first": 32}, "first must be a multiple of 64, where a row begins, not 32"),
    ({"first": 16_384}, "first must be from 0 to 16374, so that 10 words stand in the 16384 of small, not 16384"),
    ({"beats": 0}, "beats must be at least 1, not 0"),
    ({"lanes": 33, "shape": signed(7)}, "beats of 231 bits must end with a word of 16 bits after at most 2048 bits, "
                                        "not 3696; choose another number of lanes")])
def test_readers_that_cannot_be(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        WeightReader(**{"part": SMALL, "shape": signed(8), "lanes": 4, "beats": 5, **values})


def test_a_memory_of_bytes() -> None:
    reader = WeightReader(part=replace(SMALL, width=8), shape=signed(4), lanes=3, beats=4)
    assert reader.words == 6
    wanted = weights(reader, 0)
    assert np.array_equal(reader.model(reader.image(wanted)), wanted)
