import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.pool.pool import AveragePoolShape, MaxPoolShape
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants, ThresholderStyle
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


SHAPES = {
    "2x2": (window(6, 8, 2, (2, 2), (2, 2)), 2),
    "3x3 padded": (window(5, 5, 1, (3, 3), (2, 2), pads=(1, 1, 1, 1)), 4),
    "overlapping": (window(5, 6, 3, (3, 2)), 1),
    "dilated": (window(7, 7, 1, (2, 2), (1, 1), (2, 3)), 2),
    "global": (window(4, 4, 3, (4, 4)), 2),
    "1-D": (window(1, 12, 2, (1, 3), (1, 3)), 3),
    "one tap": (window(4, 4, 2, (1, 1)), 2),
    "subsampling": (window(4, 4, 2, (1, 1), (2, 2)), 2),
}
def technology_of(order: int) -> Generic:
    """Memories of each latency in turn."""
    return Generic(timing=Timing(multiply=4, rom=1 + order % 4, ram=1 + (order + 1) % 3))


def frames_for(shape: WindowShape, lanes: int, count: int, low: int = -128, high: int = 127) -> np.ndarray:
    source = np.random.default_rng(shape.blocks)
    return source.integers(low, high + 1, (count, shape.height, shape.width, shape.words * lanes))


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", SHAPES)
def test_max_pool(name):
    shape, lanes = SHAPES[name]
    order, frames = list(SHAPES).index(name), frames_for(shape, lanes, 3)
    ask(MaxPoolShape(window=shape, lanes=lanes, element=signed(8)), technology_of(order), [frames],
        taps(frames, shape, -128).max(axis=3).reshape(-1, lanes), seed=order)


@pytest.mark.parametrize("name", ["3x3 padded", *(
    pytest.param(name, marks=pytest.mark.slow) for name in SHAPES if name != "3x3 padded")])
def test_max_pool_with_a_ring_of_just_its_words(name):
    shape, lanes = SHAPES[name]
    frames = frames_for(shape, lanes, 3)
    ask(MaxPoolShape(window=shape, lanes=lanes, element=signed(8)), EveryWordCounts(), [frames],
        taps(frames, shape, -128).max(axis=3).reshape(-1, lanes))


@pytest.mark.parametrize("smallest", [False, True])
def test_max_pool_of_unsigned(smallest):
    shape = window(4, 4, 1, (2, 2), (2, 2), pads=(0, 0, 1, 1))
    frames = frames_for(shape, 1, 3, 0, 255)
    windows = taps(frames, shape, 255 if smallest else 0)
    ask(MaxPoolShape(window=shape, lanes=1, element=unsigned(8), smallest=smallest), technology_of(0), [frames],
        (windows.min if smallest else windows.max)(axis=3).reshape(-1, 1))


def average(shape: WindowShape, lanes: int, out_lanes: int, style: RequantizerStyle, mixed: bool) -> AveragePoolShape:
    channels, count = shape.words * lanes, shape.kernel[0] * shape.kernel[1]
    source = np.random.default_rng(channels)
    spread = source.integers(0, 3, channels) if mixed else np.zeros(channels, dtype=np.int64)
    return AveragePoolShape(
        window=shape, lanes=lanes, element=signed(8), pad_value=5, accumulator=signed(8 + (count - 1).bit_length()),
        rescaler=RequantizerConstants(
            bias=-5 * count + spread, multiplier=round(2**20 / count / 4) % 2**18 + spread, shift=18 + spread,
            zero_point=-3, low=-128, high=127, style=style),
        output=signed(8), out_lanes=out_lanes)


WAYS = ((DSP, True), (FABRIC, True), (DSP, False))
#: Every shape meets each number of lanes and one way of rescaling; the other ways are slow tests.
AVERAGES = [pytest.param(name, out_lanes, k, marks=[pytest.mark.slow] if (n + m - k) % 3 else [])
            for n, (name, (_, lanes)) in enumerate(SHAPES.items()) for m, out_lanes in enumerate(sorted({1, lanes}))
            for k in range(len(WAYS))]


@pytest.mark.quick(5)
@pytest.mark.parametrize("name, out_lanes, way", AVERAGES)
def test_average_pool(name, out_lanes, way):
    shape, lanes = SHAPES[name]
    frames, stage = frames_for(shape, lanes, 3), average(shape, lanes, out_lanes, *WAYS[way])
    expected = requantized(taps(frames, shape, 5).sum(axis=3), stage.rescaler).reshape(-1, out_lanes)
    ask(stage, technology_of(way), [frames], expected, seed=way)


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
