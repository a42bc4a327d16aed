"""Thresholds against numpy's searchsorted: every style, every pace, every kind of threshold."""

import random
import re

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import signed, unsigned
from hwflow_rtl.rescale.ranges import shape_range
from hwflow_rtl.rescale.thresholder import Thresholder, ThresholderConstants, ThresholderStyle
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin, Timing

from tests.rtl.harness import play

COMPARATORS, SEARCH = ThresholderStyle.COMPARATORS, ThresholderStyle.SEARCH
FAR = 1 << 40
INT6, INT16, UINT8 = signed(6), signed(16), unsigned(8)
TIMING = Timing(multiply=4)


def make(values, *, style, low: int = 0, interval: int = 1, accumulator=INT6, output=UINT8,
         timing=TIMING) -> Thresholder:
    return ThresholderConstants(np.array(values), low, style).unit(
        accumulator=accumulator, output=output, interval=interval, technology=Generic(timing=timing), name="levels")


def check(unit: Thresholder, thresholds, values: list[int], *, low: int = 0, seed: int | None = None) -> None:
    rows = np.array(thresholds)
    expected = [low + int(np.searchsorted(rows[k % len(rows)], value, side="right")) for k, value in enumerate(values)]
    results, latencies = play(unit, values, unit.plan.interval, seed)
    assert results == expected
    assert set(latencies) == {unit.latency}
    assert unit.model(np.array(values)).tolist() == expected


THRESHOLDS = {
    "one": [[3]],
    "two channels": [[-3], [9]],
    "three channels": [[-3], [9], [0]],
    "two levels": [[-3, 5], [9, 9], [-32, 31]],
    "three levels, one channel": [[-3, 5, 6]],
    "five levels": [[-30, -3, 0, 1, 2], [5, 5, 5, 6, 6], [-32, -31, 0, 30, 31]],
    "never and always": [[-FAR, -33, -32, -31, 31, 32, FAR], [-FAR] * 7, [FAR] * 7],
    "all channels alike": [[-5, 0, 5]] * 3,
    "some levels alike": [[-5, 0, 5], [-5, 1, 5], [-5, 1, 6]],
    "fifteen": np.sort(np.random.default_rng(0).integers(-36, 37, (3, 15)), axis=1).tolist(),
}


#: Every kind of threshold at every pace; lowest results; shapes of sums: `make`'s arguments besides the style.
CASES = [
    *(pytest.param(name, {"interval": interval}, marks=[pytest.mark.slow] if interval > 1 else [])
      for name in THRESHOLDS for interval in (1, 2, 3, 7)),
    *(("fifteen", {"low": low, "output": output, "interval": 2}) for low, output in (
        (-8, signed(4)), (-3, signed(6)), (0, unsigned(4)), (240, unsigned(8)), (1, unsigned(5)), (-128, signed(8)))),
    *(("around the ends", {"accumulator": shape}) for shape in (unsigned(6), signed(7), unsigned(1), signed(1)))]


@pytest.mark.parametrize("style", ThresholderStyle)
@pytest.mark.parametrize(("name", "more"), CASES, ids=str)
def test_every_sum_and_every_channel(name, more, style):
    thresholds = THRESHOLDS.get(name, [[-1, 0, 1], [0, 0, 7], [1, 2, 63], [-9, 64, 300]])
    low, high = shape_range(more.get("accumulator", INT6))
    values = [value for value in range(low, high + 1) for _ in thresholds]
    check(make(thresholds, style=style, **more), thresholds, values, low=more.get("low", 0))


@pytest.mark.parametrize(("rom", "interval"), [(1, 1), (1, 2), (2, 2), (2, 4), (3, 1), (3, 3), (3, 4)])
@pytest.mark.parametrize("style", ThresholderStyle)
def test_gaps_and_latencies_of_memories(style, interval, rom):
    thresholds = THRESHOLDS["five levels"]
    unit = make(thresholds, style=style, interval=interval, timing=Timing(multiply=4, rom=rom))
    values = [random.Random(k).randint(-32, 31) for k in range(70)]
    check(unit, thresholds, values, seed=interval)


@pytest.mark.parametrize(("levels", "interval"), [(16, 1), (100, 4), (254, 1), (255, 4)])
def test_many_levels(levels, interval):
    source = np.random.default_rng(levels)
    thresholds = np.sort(source.integers(-70000, 70000, (3, levels)), axis=1)
    thresholds[0, levels // 2:] = thresholds[0, levels // 2]
    unit = make(thresholds, style=None, accumulator=signed(17), interval=interval)
    assert unit.plan.style is SEARCH
    near = (thresholds[:, source.integers(0, levels, 30)] + source.integers(-1, 2, (3, 30))).T
    check(unit, thresholds, np.clip(near, -65536, 65535).ravel().tolist(), seed=levels)


def cost(thresholds, technology, *, style=None, interval=1, accumulator=INT16):
    return ThresholderConstants(np.array(thresholds), 0, style).cost(
        accumulator=accumulator, output=unsigned(8), interval=interval, technology=technology)


def test_the_cheaper_style_is_taken():
    one, many = [[5], [9]], np.sort(np.random.default_rng(0).integers(-999, 999, (40, 15)), axis=1)
    assert make(one, style=None).plan.style is COMPARATORS
    assert cost(one, ECP5()) == cost(one, ECP5(), style=COMPARATORS)
    assert cost(many, ECP5()) == cost(many, ECP5(), style=SEARCH)
    assert cost(many, ECP5()).lut < cost(many, ECP5(), style=COMPARATORS).lut
    assert cost(many, ECP5(), interval=4).ff < cost(many, ECP5(), interval=1).ff, "steps hold their values"


BLOCKS = {ECP5: "DP16KD", ICE40: "SB_RAM40_4K", Gowin: "SDP"}


@pytest.mark.quick(6)
@pytest.mark.parametrize("family", BLOCKS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("style", ThresholderStyle)
@pytest.mark.parametrize(("channels", "levels"), [(3, 3), (100, 7), (600, 15)])
def test_memory_blocks_are_counted(channels, levels, style, family):
    source = np.random.default_rng(channels)
    constants = ThresholderConstants(np.sort(source.integers(-9999, 9999, (channels, levels)), axis=1), 0, style)
    arguments = {"accumulator": signed(16), "output": unsigned(8), "interval": 2, "technology": family()}
    text = rtlil.convert(constants.unit(**arguments, name="levels"))
    kinds = re.findall(r"^ *cell \\(\w+) ", text, re.MULTILINE)
    found = constants.cost(**arguments)
    assert found.ram == sum(kind.startswith(BLOCKS[family]) for kind in kinds)
    assert found.dsp == 0
    assert found.ram > 0 or channels == 3


@pytest.mark.parametrize(("values", "low", "message"), [
    ([[]], 0, "thresholds must be an array of channels and of 1 to 255 levels, not of the shape (1, 0)"),
    ([1, 2], 0, "thresholds must be an array of channels and of 1 to 255 levels, not of the shape (2,)"),
    (np.zeros((1, 256)), 0, "1 to 255 levels, not of the shape (1, 256)"),
    ([[1, 2], [2, 1]], 0, "thresholds of a channel must be ascending, not those of channel 1"),
    ([[1, 2]], 254, "results of thresholds must be in the range of the output, 0 to 255, not 254 to 256"),
    ([[1, 2]], -1, "results of thresholds must be in the range of the output, 0 to 255, not -1 to 1"),
])
def test_refused(values, low, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(values, style=None, low=low)


def test_refuses_no_time():
    with pytest.raises(ValueError, match="interval of thresholds must be at least 1 cycle, not 0"):
        make([[1]], style=None, interval=0)
