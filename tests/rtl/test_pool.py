"""Pools with a ring and without one: every window, every way of rescaling, at any pace of words and reader."""

import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.pool.fold import FoldShape
from hwflow_rtl.pool.fold_pool import FoldAveragePoolShape, FoldMaxPoolShape
from hwflow_rtl.pool.pool import AveragePoolShape, MaxPoolShape
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants, ThresholderStyle
from hwflow_rtl.stream.unit import UnitShape
from hwflow_rtl.vendor import ECP5, Generic, Timing
from hwflow_rtl.window.line_buffer import ring_depth
from hwflow_rtl.window.shape import WindowShape

from tests.rtl.oracles import requantized
from tests.rtl.test_window import EveryWordCounts
from tests.rtl.units import ask

DSP, FABRIC = RequantizerStyle.DSP, RequantizerStyle.FABRIC


def window(height, width, words, kernel, stride=(1, 1), dilation=(1, 1), pads=(0, 0, 0, 0)) -> WindowShape:
    return WindowShape(height=height, width=width, words=words, kernel=kernel, stride=stride, dilation=dilation,
                       pads=pads, groups=words)


def taps(frames: np.ndarray, shape: WindowShape, padding: int) -> np.ndarray:
    """All windows, [n, out_h, out_w, taps, channels], one by one."""
    top, left, bottom, right = shape.pads
    padded = np.pad(frames, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=padding)
    windows = []
    for y in range(shape.out_height):
        for x in range(shape.out_width):
            rows = [y * shape.stride[0] + k * shape.dilation[0] for k in range(shape.kernel[0])]
            columns = [x * shape.stride[1] + k * shape.dilation[1] for k in range(shape.kernel[1])]
            windows.append(padded[:, rows][:, :, columns].reshape(len(frames), -1, frames.shape[-1]))
    return np.stack(windows, axis=1).reshape(len(frames), shape.out_height, shape.out_width, -1, frames.shape[-1])


#: Windows and their words' lanes: with a ring; side by side also in loops in registers and in memories, one and two of
#: them, with rests.
SHAPES = {
    "2x2": (window(6, 8, 2, (2, 2), (2, 2)), 2),
    "3x3 padded": (window(5, 5, 1, (3, 3), (2, 2), pads=(1, 1, 1, 1)), 4),
    "overlapping": (window(5, 6, 3, (3, 2)), 1),
    "dilated": (window(7, 7, 1, (2, 2), (1, 1), (2, 3)), 2),
    "2x2, long rows": (window(4, 24, 3, (2, 2), (2, 2)), 4),
    "rests": (window(7, 8, 2, (2, 3), (2, 3)), 1),
    "global": (window(4, 4, 3, (4, 4)), 2),
    "global, many words": (window(3, 3, 9, (3, 3)), 4),
    "global, one word": (window(3, 5, 1, (3, 5)), 2),
    "part of the frame": (window(5, 6, 2, (4, 4), (3, 3)), 2),
    "one row of windows": (window(3, 8, 2, (2, 2), (7, 2)), 2),
    "1-D": (window(1, 13, 2, (1, 3), (1, 3)), 3),
    "columns": (window(6, 3, 2, (3, 1), (3, 1)), 2),
    "one tap": (window(3, 3, 2, (1, 1)), 2),
    "subsampling": (window(4, 4, 2, (1, 1), (2, 2)), 2),
}


def technology_of(order: int) -> Generic:
    """Memories of each latency in turn."""
    return Generic(timing=Timing(multiply=4, rom=1 + order % 4, ram=1 + (order + 1) % 3))


def frames_for(shape: WindowShape, lanes: int, count: int, low: int = -128, high: int = 127) -> np.ndarray:
    source = np.random.default_rng(shape.blocks)
    return source.integers(low, high + 1, (count, shape.height, shape.width, shape.words * lanes))


def require_no_pause(unit: UnitShape) -> None:
    """Without a ring a word is taken in every cycle, over the ends of frames; that `times` is right is asked before."""
    arrivals = np.arange(3 * unit.window.input_words)
    assert unit.cycles == unit.window.input_words
    assert np.array_equal(unit.times(technology_of(0), arrivals).taken[0], arrivals)


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", SHAPES)
def test_max_pool(name):
    """Signed and unsigned, of the largest and of the smallest."""
    shape, lanes = SHAPES[name]
    order, smallest = list(SHAPES).index(name), bool(list(SHAPES).index(name) % 2)
    element, low = (signed(8), -128) if order % 4 < 2 else (unsigned(8), 0)
    frames = frames_for(shape, lanes, 3, low, low + 255)
    windows = taps(frames, shape, low + 255 if smallest else low)
    expected = (windows.min if smallest else windows.max)(axis=3).reshape(-1, lanes)
    sizes = {"window": shape, "lanes": lanes, "element": element, "smallest": smallest}
    ask(MaxPoolShape(**sizes), technology_of(order), [frames], expected, seed=order)
    if FoldShape.fits(shape):
        ask(FoldMaxPoolShape(**sizes), technology_of(order), [frames], expected, seed=order)
        require_no_pause(FoldMaxPoolShape(**sizes))


@pytest.mark.parametrize("name", ["3x3 padded", *(
    pytest.param(name, marks=pytest.mark.slow) for name in SHAPES if name != "3x3 padded")])
def test_max_pool_with_a_ring_of_just_its_words(name):
    shape, lanes = SHAPES[name]
    frames = frames_for(shape, lanes, 3)
    ask(MaxPoolShape(window=shape, lanes=lanes, element=signed(8)), EveryWordCounts(), [frames],
        taps(frames, shape, -128).max(axis=3).reshape(-1, lanes))


def average(shape: WindowShape, lanes: int, out_lanes: int, style: RequantizerStyle, mixed: bool) -> AveragePoolShape:
    """Of windows whose padding is 5, which the bias takes off again."""
    channels, count = shape.words * lanes, shape.kernel[0] * shape.kernel[1]
    source = np.random.default_rng(channels)
    spread = source.integers(0, 3, channels) if mixed else np.zeros(channels, dtype=np.int64)
    return AveragePoolShape(
        window=shape, lanes=lanes, element=signed(8), pad_value=5, accumulator=signed(8 + (count - 1).bit_length()),
        rescaler=RequantizerConstants(
            bias=-5 * count + spread, multiplier=round(2**20 / count / 4) % 2**18 + spread, shift=18 + spread,
            zero_point=-3, low=-128, high=127, style=style),
        output=signed(8), out_lanes=out_lanes)


def without_a_ring(pool: AveragePoolShape) -> FoldAveragePoolShape | None:
    """The same, where it is possible."""
    if not FoldAveragePoolShape.fits(pool.window, pool.lanes // pool.out_lanes):
        return None
    return FoldAveragePoolShape(window=pool.window, lanes=pool.lanes, element=pool.element,
                                accumulator=pool.accumulator, rescaler=pool.rescaler, output=pool.output,
                                out_lanes=pool.out_lanes)


WAYS = ((DSP, True), (FABRIC, True), (DSP, False))
#: Every shape meets each number of lanes and one way of rescaling; the other ways are slow tests.
AVERAGES = [pytest.param(name, out_lanes, k, marks=[pytest.mark.slow] if (n + m - k) % 3 else [])
            for n, (name, (_, lanes)) in enumerate(SHAPES.items()) for m, out_lanes in enumerate(
                each for each in sorted({1, 2, lanes}) if lanes % each == 0) for k in range(len(WAYS))]


@pytest.mark.quick(8)
@pytest.mark.parametrize("name, out_lanes, way", AVERAGES)
def test_average_pool(name, out_lanes, way):
    shape, lanes = SHAPES[name]
    frames, pool = frames_for(shape, lanes, 3), average(shape, lanes, out_lanes, *WAYS[way])
    expected = requantized(taps(frames, shape, 5).sum(axis=3), pool.rescaler).reshape(-1, out_lanes)
    ask(pool, technology_of(way), [frames], expected, seed=way)
    if fold := without_a_ring(pool):
        ask(fold, technology_of(way + out_lanes), [frames], expected, seed=way)
        require_no_pause(fold)


def test_means_by_thresholds_without_a_ring():
    shape, lanes = SHAPES["2x2"]
    frames = frames_for(shape, lanes, 3)
    values = np.sort(np.random.default_rng(1).integers(-300, 300, (shape.words * lanes, 15)), axis=1)
    pool = without_a_ring(replace(average(shape, lanes, 1, DSP, False), rescaler=ThresholderConstants(values, -3)))
    sums = taps(frames, shape, 0).sum(axis=3)
    ask(pool, technology_of(0), [frames], ((sums[..., None] >= values).sum(axis=-1) - 3).reshape(-1, 1))


def test_every_kind_of_loop_is_tested():
    loops = {name: FoldShape(shape).loops for name, (shape, _) in SHAPES.items() if FoldShape.fits(shape)}
    assert loops["2x2, long rows"] == ((3, 2), (36, 2))
    assert loops["global, many words"] == ((9, 9),)
    assert loops["columns"] == ((6, 3),)
    assert loops["1-D"] == ((2, 3),)
    assert len(loops["rests"]) == 2


@pytest.mark.parametrize("kernel, others", [
    ((3, 3), {"stride": (2, 2)}), ((2, 2), {"stride": (2, 2), "pads": (0, 0, 1, 0)}),
    ((2, 2), {"stride": (3, 3)}), ((2, 2), {"stride": (2, 2), "dilation": (1, 2)})])
def test_windows_that_do_not_stand_side_by_side(kernel, others):
    assert not FoldShape.fits(window(9, 9, 2, kernel, **others))


def test_means_that_leave_as_fast_as_words_come():
    """One a word and no more; those of 2 x 2 words in four parts."""
    assert [FoldAveragePoolShape.fits(SHAPES["one tap"][0], parts) for parts in (1, 2)] == [True, False]
    assert [FoldAveragePoolShape.fits(SHAPES["2x2"][0], parts) for parts in (4, 5)] == [True, False]


def test_average_pool_cost_counts_multipliers():
    shape = window(8, 8, 4, (3, 3))
    assert average(shape, 4, 4, DSP, False).cost(ECP5()).dsp == 4
    assert average(shape, 4, 1, DSP, False).cost(ECP5()).dsp == 1
    assert average(shape, 4, 4, FABRIC, False).cost(ECP5()).dsp == 0


def test_max_pool_cost_is_a_window_and_little_more():
    shape = window(64, 64, 4, (2, 2), (2, 2))
    cost = MaxPoolShape(window=shape, lanes=4, element=signed(8)).cost(ECP5())
    assert cost.dsp == 0
    assert cost.ram == ECP5().ram_cost(width=32, depth=ring_depth(shape=shape, width=32, technology=ECP5())).ram > 0


def test_no_frame_of_memory_without_a_ring():
    """Of a mean over 64 x 64 pixels: a sum for each channel, where a ring is a frame and more."""
    ring = average(window(64, 64, 16, (64, 64)), 4, 1, DSP, True)
    kept, folded = ring.cost(ECP5()), without_a_ring(ring).cost(ECP5())
    assert folded.ram <= 4
    assert folded.ram < kept.ram // 50
    for each in (ring.window, window(32, 32, 8, (2, 2), (2, 2))):
        kept, folded = (kind(window=each, lanes=4, element=signed(8)).cost(ECP5())
                        for kind in (MaxPoolShape, FoldMaxPoolShape))
        assert folded.ram <= kept.ram
        assert folded.lut < kept.lut


def pool_of_other_channels() -> AveragePoolShape:
    constants = RequantizerConstants(*np.ones((3, 3), dtype=np.int64), zero_point=0, low=-128, high=127, style=DSP)
    return replace(average(window(4, 4, 2, (2, 2)), 2, 1, DSP, False), rescaler=constants)


#: Windows over frames, and the classes of their rows and columns.
CLASSES = {
    "padded": (window(5, 6, 2, (3, 3), pads=(1, 1, 1, 1)), (0, 1, 1, 1, 0), (0, 1, 1, 1, 1, 0)),
    "hanging over": (window(5, 5, 1, (2, 2), (2, 2), pads=(0, 0, 1, 1)), (0, 0, 1), (0, 0, 1)),
    "1-D": (window(1, 9, 3, (1, 4), (1, 2), pads=(0, 2, 0, 1)), (0,), (0, 1, 2, 2, 3)),
    "one pixel": (window(2, 2, 2, (3, 3), (3, 3), pads=(1, 1, 0, 0)), (0,), (0,)),
    "columns alone": (window(3, 4, 1, (1, 3), pads=(0, 1, 0, 1)), (0, 0, 0), (1, 0, 0, 1)),
    "any": (window(4, 3, 1, (1, 1)), (2, 0, 1, 2), (1, 1, 0)),
    "every pixel": (window(3, 4, 2, (1, 1)), (0, 1, 2), (0, 1, 2, 3)),
}


def classed(name: str, lanes: int, out_lanes: int, rescaler) -> AveragePoolShape:
    shape, rows, columns = CLASSES[name]
    order = PixelOrder(rows, columns, shape.words * lanes)
    return AveragePoolShape(
        window=shape, lanes=lanes, element=signed(8), pad_value=0, accumulator=signed(12),
        rescaler=rescaler(order), output=signed(8), out_lanes=out_lanes)


def constants_of(order: PixelOrder, style=DSP) -> RequantizerConstants:
    source = np.random.default_rng(order.depth)
    return RequantizerConstants(
        bias=source.integers(-100, 100, order.depth), multiplier=source.integers(1 << 14, 1 << 16, order.depth),
        shift=source.integers(16, 19, order.depth), zero_point=-3, low=-128, high=127, style=style, order=order)


def thresholds_of(order: PixelOrder) -> ThresholderConstants:
    source = np.random.default_rng(order.depth)
    return ThresholderConstants(np.sort(source.integers(-300, 300, (order.depth, 7)), axis=1), -3, order=order)


def constants_at(name: str, lanes: int) -> np.ndarray:
    """Number of the constant of each output [height, width, channels]."""
    shape, rows, columns = CLASSES[name]
    channels = shape.words * lanes
    found = np.zeros((len(rows), len(columns), channels), dtype=np.int64)
    for y, x, c in np.ndindex(found.shape):
        found[y, x, c] = (rows[y] * (max(columns) + 1) + columns[x]) * channels + c
    return found


@pytest.mark.quick(3)
@pytest.mark.parametrize("style", [DSP, pytest.param(FABRIC, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_pixels_have_their_own_constants(name, style):
    """Multiplications; the pace is that of one class."""
    shape = CLASSES[name][0]
    for lanes, out_lanes in ((1, 1), (4, 2)):
        stage = classed(name, lanes, out_lanes, lambda order: constants_of(order, style))
        frames = frames_for(shape, lanes, 3)
        sums, places = taps(frames, shape, 0).sum(axis=3), constants_at(name, lanes)
        q = constants_of(PixelOrder(*CLASSES[name][1:], shape.words * lanes))
        expected = requantized(sums, q, places)
        ask(stage, technology_of(lanes), [frames], expected.reshape(-1, out_lanes), seed=lanes)


@pytest.mark.parametrize("name", ["hanging over", *(
    pytest.param(name, marks=pytest.mark.slow) for name in CLASSES if name != "hanging over")])
def test_classes_of_pixels_have_their_own_thresholds(name):
    shape = CLASSES[name][0]
    for style in ThresholderStyle:
        stage = classed(name, 2, 1, lambda order, style=style: replace(thresholds_of(order), style=style))
        frames = frames_for(shape, 2, 3)
        sums, places = taps(frames, shape, 0).sum(axis=3), constants_at(name, 2)
        values = thresholds_of(PixelOrder(*CLASSES[name][1:], shape.words * 2)).values
        expected = ((sums[..., None] >= values[places]).sum(axis=-1) - 3).reshape(-1, 1)
        ask(stage, technology_of(1), [frames], expected)


@pytest.mark.parametrize("make, message", [
    (lambda: MaxPoolShape(window=WindowShape(height=4, width=4, words=2, kernel=(2, 2)), lanes=1, element=signed(8)),
     "a pooling window must have a group for each of its 2 words and one tile, not 1 groups and 1 tiles"),
    (lambda: average(window(4, 4, 1, (2, 2)), 4, 3, DSP, False),
     "out_lanes of an average pool must divide its 4 lanes, not 3"),
    (pool_of_other_channels, "constants of an average pool must be those of its 4 channels, not of 3"),
    (lambda: classed("hanging over", 1, 1, lambda _: constants_of(PixelOrder((0, 1), (0, 0, 1), 1))),
     "classes of the pixels of an average pool must be those of 3 rows and 3 columns, not 2 and 3"),
    (lambda: classed("hanging over", 1, 1, lambda order: replace(constants_of(order), **{
        name: np.ones(2, dtype=np.int64) for name in ("bias", "multiplier", "shift")})),
     "constants of classes of pixels must be 4, those of all classes and channels, not 2")])
def test_refusals(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
