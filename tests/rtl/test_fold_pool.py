"""Pools without a ring: all kinds of loops, with stalls, at full pace, and when every beat moves."""

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_rtl.pool.fold import FoldShape
from hwflow_rtl.pool.fold_pool import FoldAveragePoolShape, FoldMaxPoolShape
from hwflow_rtl.pool.pool import AveragePoolShape, MaxPoolShape
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants
from hwflow_rtl.vendor import ECP5

from tests.rtl.oracles import requantized
from tests.rtl.test_pool import frames_for, taps, technology_of, window
from tests.rtl.units import ask

#: Windows side by side and their words' lanes: loops in registers and in memories, one and two of them, with rests.
SHAPES = {
    "2x2": (window(6, 8, 2, (2, 2), (2, 2)), 2),
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
}


def constants(source, channels: int) -> RequantizerConstants:
    return RequantizerConstants(
        bias=source.integers(-50, 50, channels), multiplier=source.integers(1 << 13, 1 << 15, channels),
        shift=source.integers(16, 18, channels), zero_point=-3, low=-128, high=127, style=RequantizerStyle.DSP)


def require_no_pause(shape) -> None:
    """A word is taken in every cycle, over the ends of frames; that `times` is right is asked before."""
    arrivals = np.arange(3 * shape.window.input_words)
    assert np.array_equal(shape.times(technology_of(0), arrivals).taken[0], arrivals)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", SHAPES)
def test_max_pool(name):
    shape, lanes = SHAPES[name]
    order, frames = list(SHAPES).index(name), frames_for(shape, lanes, 3)
    windows, smallest = taps(frames, shape, -128), bool(order % 2)
    stage = ask(FoldMaxPoolShape(window=shape, lanes=lanes, element=signed(8), smallest=smallest),
                technology_of(order), [frames], (windows.min if smallest else windows.max)(axis=3).reshape(-1, lanes),
                seed=order)
    assert stage.shape.cycles == shape.input_words
    require_no_pause(stage.shape)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", SHAPES)
def test_average_pool(name):
    """Of every number of lanes; one by thresholds."""
    shape, lanes = SHAPES[name]
    channels, frames = shape.words * lanes, frames_for(shape, lanes, 3)
    sums, order = taps(frames, shape, 0).sum(axis=3), list(SHAPES).index(name)
    by_factors = constants(np.random.default_rng(channels), channels)
    rescalings = [(by_factors, requantized(sums, by_factors))]
    if name == "2x2":
        values = np.sort(np.random.default_rng(1).integers(-300, 300, (channels, 15)), axis=1)
        rescalings.append((ThresholderConstants(values, -3), (sums[..., None] >= values).sum(axis=-1) - 3))
    for out_lanes in (n for n in sorted({1, 2, lanes}) if lanes % n == 0 and FoldAveragePoolShape.fits(
            shape, lanes // n)):
        for rescaler, expected in rescalings:
            stage = ask(FoldAveragePoolShape(
                window=shape, lanes=lanes, element=signed(8), accumulator=signed(14), rescaler=rescaler,
                output=signed(8), out_lanes=out_lanes), technology_of(order + out_lanes), [frames],
                expected.reshape(-1, out_lanes), seed=order)
            require_no_pause(stage.shape)


def test_every_kind_of_loop_is_tested():
    loops = {name: FoldShape(shape).loops for name, (shape, _) in SHAPES.items()}
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


def test_no_frame_of_memory():
    """Of a mean over 64 x 64 pixels: a sum for each channel, where a ring is a frame and more."""
    shape, constants_of_all = window(64, 64, 16, (64, 64)), constants(np.random.default_rng(0), 64)
    ring, folded = (kind(
        window=shape, lanes=4, element=signed(8), accumulator=signed(20), rescaler=constants_of_all, output=signed(8),
        out_lanes=1).cost(ECP5()) for kind in (AveragePoolShape, FoldAveragePoolShape))
    assert folded.ram <= 4
    assert folded.ram < ring.ram // 50
    for each in (shape, window(32, 32, 8, (2, 2), (2, 2))):
        ring, folded = (kind(window=each, lanes=4, element=signed(8)).cost(ECP5())
                        for kind in (MaxPoolShape, FoldMaxPoolShape))
        assert folded.ram <= ring.ram
        assert folded.lut < ring.lut
