"""Patches of rows: every word, in every cycle, for any kernel, stride, dilation and pads; words that are joined."""

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_rtl.matrix.row_patch import PatchTimes, RowPatch, RowPatchShape, patch_cycles
from hwflow_rtl.stream.word_join import WordJoinShape
from hwflow_rtl.vendor import ECP5, Generic, Gowin, Technology, Timing
from hwflow_rtl.vendor.memory import Place
from hwflow_rtl.window.shape import WindowShape

from tests.random_cases import seeds
from tests.rtl.harness import simulate, simulator
from tests.rtl.units import ARRIVALS, arrivals_of, play


def row(width: int, kernel: int, stride: int = 1, dilation: int = 1, pads: tuple[int, int] = (0, 0),
        words: int = 1) -> WindowShape:
    return WindowShape(height=4, width=width, words=words, kernel=(1, kernel), stride=(1, stride),
                       dilation=(1, dilation), pads=(0, pads[0], 0, pads[1]))


def kept_row(width: int, kernel: int, before: int, stride: int = 1, dilation: int = 1, words: int = 1) -> WindowShape:
    return WindowShape(height=1, width=width, words=words, kernel=(1, kernel), stride=(1, stride),
                       dilation=(1, dilation), pads=(0, before, 0, 0), kept=True)


SHAPES = {
    "3 pad 1": row(9, 3, pads=(1, 1)),
    "5 pad 2": row(8, 5, pads=(2, 2)),
    "3 valid": row(7, 3),
    "7, one side": row(12, 7, pads=(0, 6)),
    "7, other side": row(12, 7, pads=(6, 0)),
    "7, full": row(12, 7, pads=(6, 6)),
    "stride 2, even": row(8, 3, stride=2, pads=(1, 1)),
    "stride 2, odd": row(9, 3, stride=2, pads=(1, 1)),
    "stride 3, leftovers": row(14, 3, stride=3),
    "stride 4": row(11, 3, stride=4, pads=(1, 0)),
    "dilation 2": row(9, 3, dilation=2, pads=(2, 2)),
    "dilation 3, stride 2": row(10, 2, stride=2, dilation=3, pads=(1, 2)),
    "one column": row(5, 1),
    "one column, stride 2": row(5, 1, stride=2),
    "kernel is the row": row(5, 5),
    "row narrower than the kernel": row(3, 7, pads=(3, 3)),
    "one pixel": row(1, 3, pads=(1, 1)),
    "two words": row(5, 3, pads=(1, 1), words=2),
    "three words, stride 2": row(7, 3, stride=2, pads=(1, 1), words=3),
    "two words, stride 3, leftovers": row(8, 3, stride=3, pads=(0, 0), words=2),
    "three words, dilation 2": row(6, 2, dilation=2, pads=(1, 1), words=3),
    "five words in a memory": row(4, 3, pads=(1, 1), words=5),
    "six words, kernel is wider than the row": row(3, 5, pads=(2, 2), words=6),
    "two words, stride 2, one side": row(8, 3, stride=2, pads=(0, 1), words=2),
    "wide right padding": row(6, 2, pads=(1, 4)),
    "kept": kept_row(4, 3, before=2),
    "kept, dilation 3, two words": kept_row(2, 4, dilation=3, before=9, words=2),
    "kept, stride 2, leftovers": kept_row(6, 4, stride=2, before=1),
    "kept, one pixel, in a memory": kept_row(1, 4, before=3, words=7),
    "kept, stride 3": kept_row(3, 5, stride=3, before=2),
}
LANES = 2


def naive(shape: WindowShape, frames: np.ndarray, pad_value: int) -> np.ndarray:
    """Every word from the definition, one after another."""
    words = []
    pixels = frames.reshape(-1, shape.words, LANES)
    for n, line in enumerate(frames.reshape(-1, shape.width, shape.words, LANES)):
        for x in range(shape.out_width):
            for word in range(shape.words):
                for k in range(shape.kernel[1]):
                    column = x * shape.stride[1] - shape.pads[1] + k * shape.dilation[1]
                    if shape.kept and column < 0 <= n * shape.width + column:
                        words.append(pixels[n * shape.width + column, word])
                    else:
                        words.append(line[column, word] if 0 <= column < shape.width else [pad_value] * LANES)
    return np.array(words).reshape(-1, shape.kernel[1] * LANES)


def frames_of(shape: WindowShape, count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-128, 128, (count, shape.height, shape.width, shape.words * LANES))


#: Long delay lines stand in RAM blocks, or up to some length in tables.
BLOCKS, TABLES = Generic(), Generic(like=ECP5())


def patch_of(shape: WindowShape, technology: Technology = BLOCKS) -> RowPatch:
    return RowPatchShape(window=shape, element=signed(8), lanes=LANES, pad_value=-7).build(technology)


def check(shape: WindowShape, technology: Technology, seed: int, timed: bool = True) -> None:
    """Its words and the cycles of a frame, without a gap, for arrivals at random, and for a reader that stalls.

    Where it is `timed`, `PatchTimes` says when each word moves, as if its reader always took the windows.
    """
    frames, patch = frames_of(shape, 3), patch_of(shape, technology)
    expected, beats = naive(shape, frames, -7), frames.reshape(-1, LANES)
    assert np.array_equal(patch.model(frames).reshape(expected.shape), expected)
    sim = simulator(patch)
    seen = play(patch, [beats], [np.arange(len(beats))], len(expected), sim=sim)
    assert np.array_equal(seen.output.beats, expected)
    assert (np.diff(seen.taken[0].reshape(3, -1)[:, 0]) == patch_cycles(shape)).all()
    beats, expected = beats[:len(beats) // 3], expected[:len(expected) // 3]
    arrivals = arrivals_of(ARRIVALS[seed % len(ARRIVALS)], len(beats), seed)
    for stall in (0.0, (0.5, 0.9, 0.98)[seed % 3]):
        sim.anew()
        seen = play(patch, [beats], [arrivals], len(expected), stall_out=stall, sim=sim)
        assert np.array_equal(seen.output.beats, expected)
        if timed and not stall:
            times = PatchTimes(shape, arrivals, np.ones_like(arrivals))
            given = times.play(None)
            while not np.array_equal(given, before := given):
                given = times.play(before)
            assert np.array_equal(times.words.reshape(-1), seen.taken[0])
            assert np.array_equal(given, seen.output.cycles)


@pytest.mark.parametrize("name", SHAPES)
@seeds(quick=[0], slow=range(1, 4))
def test_gathers_rows(name: str, seed: int) -> None:
    check(SHAPES[name], BLOCKS, list(SHAPES).index(name) + seed)


def any_row(random: np.random.Generator) -> WindowShape:
    """Of any kernel, stride, dilation and pads, also strides beyond the kernel and pads beyond its reach."""
    while True:
        kernel, stride, dilation = (int(random.integers(1, limit)) for limit in (6, 8, 4))
        reach = (kernel - 1) * dilation
        pads = int(random.integers(reach + 1)), int(random.integers(reach + 4))
        width = int(random.integers(1, 10))
        if reach < width + sum(pads):
            return row(width, kernel, stride, dilation, pads, int(random.integers(1, 8)))


@seeds(quick=range(4), slow=range(4, 16))
def test_gathers_any_rows(seed: int) -> None:
    technology = [BLOCKS, TABLES, *(Generic(timing=Timing(multiply=4, ram=ram)) for ram in (1, 3))][seed % 4]
    check(any_row(np.random.default_rng(seed)), technology, seed)


@pytest.mark.parametrize("name", ["3 pad 1", "5 pad 2", "3 valid", "stride 2, odd", "dilation 2", "7, one side"])
def test_takes_a_word_every_cycle(name):
    assert patch_cycles(SHAPES[name]) == SHAPES[name].height * SHAPES[name].width


@pytest.mark.parametrize(("shape", "message"), [
    (row(5, 2, pads=(2, 0)), "left padding of a RowPatch must be at most the reach of its kernel, 1, not 2"),
])
def test_refuses(shape, message):
    with pytest.raises(ValueError, match=message):
        patch_of(shape)


def test_a_delay_in_tables_is_a_memory_that_stays_there() -> None:
    """12 words of two columns of 16 bits; 16 words of 4 bits are 6 tables of an ECP5 and 4 of a Gowin."""
    shape, found = row(10, 3, pads=(1, 1), words=12), []
    for technology in (ECP5(), Gowin()):
        cost = RowPatchShape(window=shape, element=signed(8), lanes=2).cost(technology)
        line, = cost.memories
        assert (line.name, line.width, line.depth) == ("line", 32, 12)
        assert technology.places(line) == (Place.TABLES,)
        found.append(cost)
    assert found[0].lut - found[1].lut == (6 - 4) * 8
    assert found[0].ff == found[1].ff
    assert found[0].ram == found[1].ram == 0


@pytest.mark.parametrize(("lanes_in", "lanes", "chunk"), [(1, 3, 5), (2, 4, 10), (1, 4, 1), (3, 6, 9), (1, 2, 4)])
def test_joins_words(lanes_in: int, lanes: int, chunk: int) -> None:
    frames = np.random.default_rng(0).integers(-128, 128, (2, 3, 2, 2 * chunk))
    join = WordJoinShape(element=signed(8), lanes_in=lanes_in, lanes=lanes, chunk=chunk).build()
    words = join.model(frames).reshape(-1, lanes)
    per_chunk = -(-chunk // lanes) * lanes
    there = (np.arange(words.size) % per_chunk < chunk).reshape(words.shape)
    for stalls in ((0.0, 0.0), (0.4, 0.4)):
        trace = simulate(join, sends={"i": frames.reshape(-1, lanes_in)}, receives={"o": len(words)},
                         stall_in=stalls[0], stall_out=stalls[1])["o"]
        assert np.array_equal(np.where(there, trace.beats, 0), words)


@pytest.mark.parametrize("lanes_in", [2, 3, 4])
def test_join_refuses(lanes_in: int) -> None:
    with pytest.raises(ValueError, match=f"lanes_in of a WordJoin must be less than its 4 lanes and divide them and a "
                                         f"chunk of 5 elements, not {lanes_in}"):
        WordJoinShape(element=signed(8), lanes_in=lanes_in, lanes=4, chunk=5)
