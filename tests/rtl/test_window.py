from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.stream.word_join import spaced
from hwflow_rtl.vendor.base import Resources, Timing
from hwflow_rtl.vendor.generic import Generic
from hwflow_rtl.window.address import is_power_of_two
from hwflow_rtl.window.line_buffer import LineBuffer, LineBufferShape, ring_depth
from hwflow_rtl.window.shape import WindowShape

from tests.random_cases import seeds
from tests.rtl.harness import simulate, staller

SHAPES = {
    "3x3 pad 1": WindowShape(height=6, width=7, words=2, kernel=(3, 3), pads=(1, 1, 1, 1)),
    "3x3 pad 1, 4 tiles": WindowShape(height=4, width=4, words=1, kernel=(3, 3), pads=(1, 1, 1, 1), tiles_per_group=4),
    "5x5 pad 2": WindowShape(height=7, width=6, words=1, kernel=(5, 5), pads=(2, 2, 2, 2)),
    "3x3 valid": WindowShape(height=6, width=5, words=3, kernel=(3, 3)),
    "stride 2, odd": WindowShape(height=9, width=7, words=2, kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1)),
    "stride 2, even": WindowShape(height=8, width=8, words=1, kernel=(3, 3), stride=(2, 2), pads=(0, 0, 1, 1)),
    "stride 3, leftovers": WindowShape(height=14, width=14, words=1, kernel=(3, 3), stride=(3, 3), tiles_per_group=2),
    "stride 3, leftovers, input is the limit": WindowShape(height=14, width=14, words=1, kernel=(3, 3), stride=(3, 3)),
    "asymmetric": WindowShape(height=6, width=8, words=2, kernel=(4, 3), stride=(1, 2), pads=(2, 0, 1, 2)),
    "dilation 2": WindowShape(height=8, width=7, words=1, kernel=(3, 3), dilation=(2, 2), pads=(2, 2, 2, 2)),
    "dilation 3 x 1": WindowShape(height=9, width=5, words=2, kernel=(3, 2), dilation=(3, 1), pads=(0, 1, 3, 0)),
    "groups": WindowShape(height=5, width=5, words=4, kernel=(3, 3), pads=(1, 1, 1, 1), groups=2, tiles_per_group=3),
    "pool 2x2": WindowShape(height=8, width=8, words=3, kernel=(2, 2), stride=(2, 2), groups=3),
    "pool 3x3, overlap, pad": WindowShape(height=7, width=7, words=2, kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1),
                                          groups=2),
    "1x1, one word": WindowShape(height=5, width=6, words=1, kernel=(1, 1)),
    "1x1, one word, 2 tiles": WindowShape(height=5, width=6, words=1, kernel=(1, 1), tiles_per_group=2),
    "1x1, two words": WindowShape(height=5, width=6, words=2, kernel=(1, 1)),
    "1x1, stride 2": WindowShape(height=7, width=8, words=1, kernel=(1, 1), stride=(2, 2), tiles_per_group=3),
    "1x1, stride 2, input is the limit": WindowShape(height=6, width=6, words=2, kernel=(1, 1), stride=(2, 2)),
    "1x1, groups of one word": WindowShape(height=3, width=3, words=4, kernel=(1, 1), groups=4),
    "1-D": WindowShape(height=1, width=30, words=1, kernel=(1, 7), pads=(0, 3, 0, 3)),
    "1-D, stride 3": WindowShape(height=1, width=31, words=2, kernel=(1, 4), stride=(1, 3), tiles_per_group=2),
    "dense": WindowShape(height=1, width=1, words=6, kernel=(1, 1), tiles_per_group=3),
    "dense, one tile": WindowShape(height=1, width=1, words=6, kernel=(1, 1)),
    "dense, one word": WindowShape(height=1, width=1, words=1, kernel=(1, 1), tiles_per_group=5),
    "dense, one word, one tile": WindowShape(height=1, width=1, words=1, kernel=(1, 1)),
    "whole frame": WindowShape(height=4, width=5, words=2, kernel=(4, 5), tiles_per_group=2),
    "whole frame, one tile": WindowShape(height=4, width=5, words=2, kernel=(4, 5)),
    "padding wider than the kernel": WindowShape(height=3, width=4, words=2, kernel=(1, 2), pads=(2, 3, 2, 4)),
    "full": WindowShape(height=4, width=5, words=1, kernel=(3, 3), pads=(2, 2, 2, 2)),
    "kept": WindowShape(height=1, width=1, words=2, kernel=(3, 1), pads=(2, 0, 0, 0), kept=True),
    "kept, dilation 3": WindowShape(height=2, width=1, words=1, kernel=(4, 1), dilation=(3, 1), pads=(9, 0, 0, 0),
                                    tiles_per_group=2, kept=True),
    "kept, stride 3": WindowShape(height=3, width=1, words=2, kernel=(5, 1), stride=(3, 1), pads=(2, 0, 0, 0),
                                  groups=2, kept=True),
    "kept, leftovers": WindowShape(height=7, width=1, words=1, kernel=(4, 1), stride=(2, 1), pads=(2, 0, 0, 0),
                                   kept=True),
    "kept, pad 1": WindowShape(height=3, width=4, words=1, kernel=(3, 3), pads=(2, 1, 0, 1), tiles_per_group=2,
                               kept=True),
    "kept columns": WindowShape(height=1, width=3, words=2, kernel=(1, 4), dilation=(1, 2), pads=(0, 6, 0, 0),
                                tiles_per_group=2, kept=True),
    "kept columns, stride 2": WindowShape(height=1, width=5, words=1, kernel=(1, 3), stride=(1, 2), pads=(0, 1, 0, 0),
                                          kept=True),
    "kept, one word": WindowShape(height=1, width=1, words=1, kernel=(2, 1), pads=(1, 0, 0, 0), kept=True),
}
LANES = 2


class Recorder(wiring.Component):
    """A window whose beats are a stream that never waits."""

    def __init__(self, window: LineBuffer):
        self.window = window
        self.lanes = window.lanes
        super().__init__({
            "i": In(stream_of(window.element, window.lanes)),
            "o": Out(stream_of(window.element, window.lanes)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.window
        wiring.connect(m, wiring.flipped(self.i), window.i)
        m.d.comb += [self.o.valid.eq(window.beat.valid), Value.cast(self.o.payload).eq(Value.cast(window.beat.word))]
        return m


def frames_of(shape: WindowShape, count: int, seed: int = 0, low: int = -128, high: int = 128) -> np.ndarray:
    size = (count, shape.height, shape.width, shape.words * LANES)
    return np.random.default_rng(seed).integers(low, high, size)


def naive(shape: WindowShape, frames: np.ndarray, pad_value: int) -> np.ndarray:
    """The words of all beats, from the definition, one after another."""
    words = []
    per_group = shape.words // shape.groups * LANES
    rows, columns = frames.reshape(-1, *frames.shape[2:]), frames.reshape(-1, frames.shape[3])  # of all frames
    beside = shape.kept and not shape.pads[0]
    for n in range(len(frames)):
        first, end = (0 if shape.kept else n * shape.height), (n + 1) * shape.height
        for y in range(shape.out_height):
            for x in range(shape.out_width):
                for group in range(shape.groups):
                    for _ in range(shape.tiles_per_group):
                        for ky in range(shape.kernel[0]):
                            for kx in range(shape.kernel[1]):
                                iy = n * shape.height + y * shape.stride[0] - shape.pads[0] + ky * shape.dilation[0]
                                ix = x * shape.stride[1] - shape.pads[1] + kx * shape.dilation[1]
                                inside = first <= iy < end and 0 <= ix < shape.width
                                pixel = rows[iy, ix] if inside else np.full(frames.shape[3], pad_value)
                                if beside and n * shape.width + ix >= 0:
                                    pixel = columns[n * shape.width + ix]
                                words.append(pixel[group * per_group:(group + 1) * per_group])
    return np.concatenate(words).reshape(-1, LANES)


def play(window: LineBuffer, frames: np.ndarray, *, stall_in: float = 0.0, stall_credit: float = 0.0, seed: int = 0):
    """Beats, their flags (valid, first, last), and the cycles of `start`, `busy`, and of the beats."""
    recorder = Recorder(window)
    shape, count = window.shape, len(frames)
    flags, starts, busy = [], [], []

    async def watch(ctx):
        wait, held, cycle, last = staller(stall_credit, (seed, "credit")), False, 0, 0
        while len(busy) < count * shape.blocks * shape.beats or cycle < last + 20:
            held = held or not wait()  # a credit stays until it is taken
            ctx.set(window.credit, held)
            _, _, start, plays, *flag = await ctx.tick().sample(
                window.start, window.busy, window.beat.valid, window.beat.first, window.beat.last)
            if start:
                starts.append(cycle)
                held = False
            if plays:
                busy.append(cycle)
                last = cycle
            assert cycle - last < 20_000, f"nothing plays after {len(busy)} beats"
            flags.append(tuple(flag))
            cycle += 1

    beats = count * shape.blocks * shape.beats
    traces = simulate(recorder, sends={"i": frames.reshape(-1, LANES)}, receives={"o": beats}, stall_in=stall_in,
                      seed=seed, testbenches=[watch], patience=30_000)
    return traces["o"], flags, np.array(starts), np.array(busy)


def check(shape: WindowShape, technology: Generic, *, interval: int = 1, seed: int = 0) -> LineBuffer:
    """Beats, their flags and cycles at full pace; the beats where data and credits come at random.

    Of signed elements and of unsigned ones.
    """
    is_signed = seed % 2 == 0
    element, low, pad = (signed(8), -128, -3) if is_signed else (unsigned(8), 0, 200)
    unit = LineBufferShape(window=shape, element=element, lanes=LANES, pad_value=pad, interval=interval)
    frames, window = frames_of(shape, 4, seed, low, low + 256), unit.build(technology)
    expected = naive(shape, frames, pad)
    assert np.array_equal(window.model(frames).reshape(-1, LANES), expected)
    trace, flags, starts, busy = play(window, frames)
    assert np.array_equal(trace.beats, expected)
    assert (np.diff(starts.reshape(4, -1)[1:, 0]) == shape.cycles(interval)).all(), np.diff(starts)
    assert np.diff(starts).min() >= max(interval, shape.beats)
    assert trace.cycles[0] - starts[0] == window.latency
    assert trace.cycles[0] - busy[0] == window.beat_latency
    position = np.arange(len(busy)) % shape.beats
    played = [(first, last) for valid, first, last in flags if valid]
    assert np.array_equal(played, np.stack([position == 0, position == shape.beats - 1], axis=1))
    if interval == 1 and shape.blocks * shape.beats >= shape.input_words:
        assert busy[-1] - busy[shape.blocks * shape.beats] == 3 * shape.cycles() - 1, "a pause after the first frame"
    stall_in, stall_credit = ((0.3, 0.3), (0.0, 0.9), (0.98, 0.98))[seed % 3]
    frames = frames[:1 if stall_in > 0.9 else 2]
    trace, _, starts, _ = play(unit.build(technology), frames, stall_in=stall_in, stall_credit=stall_credit, seed=seed)
    assert np.array_equal(trace.beats, expected[:len(trace.beats)])
    assert len(starts) == len(frames) * shape.blocks
    return window


@pytest.mark.quick(12)
@pytest.mark.parametrize("name", SHAPES)
@seeds(quick=[0], slow=range(1, 6))
def test_plays_every_beat(name: str, seed: int) -> None:
    """With memories of each latency."""
    seed += list(SHAPES).index(name)
    check(SHAPES[name], Generic(timing=Timing(multiply=3, ram=1 + seed % 3)), seed=seed)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", ["1x1, one word", "pool 2x2", "1x1, two words", "3x3 pad 1"])
@pytest.mark.parametrize("interval", [2, 3, 4, 5, 11])
def test_keeps_starts_apart(name: str, interval: int) -> None:
    check(SHAPES[name], Generic(), interval=interval, seed=interval)


class EveryWordCounts(Generic):
    """A word is a RAM block, so that a ring has just the words that windows need."""

    def memory_cost(self, memory, place):
        return Resources(ram=memory.depth)


def ring_of(shape: WindowShape, interval: int = 1, feed: int = 0) -> int:
    return ring_depth(shape=shape, width=16, technology=EveryWordCounts(), interval=interval, feed=feed)


def random_shapes(seed: int):
    """Of rings that are no power of two."""
    source = np.random.default_rng(seed)
    while True:
        def draw(high: int, low: int = 1) -> int:
            return int(source.integers(low, high + 1))

        groups = draw(4)
        kernel, dilation = (draw(3), draw(3)), (draw(2), draw(2))
        reach = [(taps - 1) * apart for taps, apart in zip(kernel, dilation, strict=True)]
        pads = tuple(draw(reach[k % 2], 0) for k in range(4))
        shape = WindowShape(
            height=max(1, reach[0] + draw(5) - pads[0] - pads[2]), width=reach[1] + draw(5), words=groups * draw(3),
            kernel=kernel, dilation=dilation, stride=(draw(3), draw(3)), pads=pads,
            groups=groups, tiles_per_group=draw(3))
        if seed % 3 == 2 and reach[0]:
            shape = replace(shape, height=draw(4) + reach[0], pads=(draw(reach[0]), pads[1], 0, pads[3]), kept=True)
        interval = draw(12)
        if shape.cycles(interval) < 500 and not is_power_of_two(ring_of(shape, interval)):
            yield shape, interval


@pytest.mark.quick(3)
@seeds(quick=range(6), slow=range(6, 24))
def test_ring_of_any_depth(seed: int) -> None:
    shape, interval = next(random_shapes(seed))
    window = check(shape, EveryWordCounts(), interval=interval, seed=seed)
    assert window.depth == shape.ring_words(interval) != 1 << (window.depth - 1).bit_length()


def test_one_word_less_is_too_few():
    """A source that gives a word every so many cycles is late for good, or never done, with one word less."""
    shapes, found, late = random_shapes(0), 0, 0
    while found < 60:
        shape, interval = next(shapes)
        cycles, words = shape.cycles(interval), shape.input_words
        if cycles % words:
            continue
        found += 1
        spacing = np.full(8 * words, cycles // words)

        def source(room, spacing=spacing):
            taken = spaced(np.zeros_like(spacing) if room is None else room, spacing)
            return np.append(taken[:1], taken[:-1] + spacing[1:]), taken

        needed = shape.ring_words(interval)
        starts, _ = shape.play(source, 8, needed, interval)
        assert starts[-1] - starts[-1 - shape.blocks] == cycles
        bases = shape.group_bases()
        before = np.append(bases[-1] - words, bases[:-1])
        if needed > (np.minimum(bases + shape.span, words) - before).max() + shape.guard:  # else it waits for ever
            late += 1
            starts, _ = shape.play(source, 8, needed - 1, interval)
            assert starts[-1] - starts[-1 - shape.blocks] > cycles
    assert late > 20


def test_model_cost_uses_the_ring():
    shape = WindowShape(height=16, width=16, words=4, kernel=(3, 3), pads=(1, 1, 1, 1), tiles_per_group=4)
    window = LineBufferShape(window=shape, element=signed(8), lanes=8, pad_value=0).build(Generic())
    assert window.depth == 256
    assert LineBufferShape(window=shape, element=signed(8), lanes=8).cost(Generic()).ram == 1


@pytest.mark.parametrize(("change", "message"), [
    ({"words": 3, "groups": 2}, "groups of a WindowShape must divide its 3 words, not 2"),
    ({"kernel": (9, 1)}, "height of .* with its padding must be at least that of its dilated kernel, 9, not 4"),
    ({"kernel": (3, 1), "pads": (3, 0, 0, 0), "kept": True}, "must have at most 2 before its frames, the reach of its "
     "kernel, and none after, not 3 and 0"),
    ({"kernel": (1, 3), "pads": (0, 2, 0, 0), "kept": True},
     "that keeps columns must have frames and windows of one row"),
    ({"stride": (0, 1)}, "stride of a WindowShape must be at least 1, not 0"),
    ({"pads": (0, -1, 0, 0)}, r"pads of a WindowShape must be at least 0, not \(0, -1, 0, 0\)"),
])
def test_refuses_shapes(change, message):
    with pytest.raises(ValueError, match=message):
        WindowShape(**{"height": 4, "width": 4, "words": 1, "kernel": (1, 1), **change})


def test_refuses_pad_value():
    with pytest.raises(ValueError, match=r"pad_value of a LineBuffer must be in range\(-128, 128\), not 128"):
        LineBufferShape(window=SHAPES["dense"], element=signed(8), lanes=1, pad_value=128).build(Generic())
