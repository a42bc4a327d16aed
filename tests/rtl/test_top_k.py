"""The k best channels: every option, ties of all kinds, stalls, pace, and when every beat moves."""

import re

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.rows.top_k import TopKShape, TopKStage
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.harness import simulate
from tests.rtl.units import ask

TECHNOLOGY = Generic(timing=Timing(multiply=4))
INT3 = signed(3)


def make(channels: int, lanes: int = 1, k: int = 1, largest: bool = True, indices: bool = True, last: bool = False,
         element=INT3, output=None) -> TopKStage:
    shape = TopKShape(
        pixels=6, channels=channels, lanes=lanes, element=element, k=k, largest=largest, gives_indices=indices,
        last_index=last, output=output or (unsigned(5) if indices else element))
    return shape.build(TECHNOLOGY, "top_k")


def best(pixel: list[int], stage: TopKShape) -> list[int]:
    """One after the other, the best of those that are left."""
    left, found = dict(enumerate(pixel)), []
    for _ in range(stage.k):
        value = max(left.values()) if stage.largest else min(left.values())
        equal = [index for index, other in left.items() if other == value]
        chosen = equal[-1] if stage.last_index else equal[0]
        found.append(chosen if stage.gives_indices else value)
        del left[chosen]
    return found


OPTIONS = [(largest, indices, last) for largest in (True, False) for indices in (True, False) for last in (True, False)]
SIZES = [(6, 1, 1), (7, 1, 3), (5, 1, 5), (12, 3, 1), (10, 10, 1), (8, 4, 1), (20, 5, 1), (1, 1, 1), (6, 2, 1),
         (6, 1, 2), (4, 4, 1)]
CASES = [pytest.param(size, option, marks=[] if option == OPTIONS[0] or size == (5, 1, 5) else
                      [pytest.mark.slow]) for size in SIZES for option in OPTIONS]


@pytest.mark.quick(6)
@pytest.mark.parametrize("size, option", CASES)
def test_the_best(size, option):
    """Values of three bits, so that most have an equal."""
    channels, lanes, k = size
    stage = make(channels, lanes, k, *option)
    frames = np.random.default_rng(channels).integers(-4, 4, (3, 2, 3, channels))
    frames[0, 0, 0], frames[1, 1, 1] = -4, 3
    expected = np.array([best(pixel, stage.shape) for pixel in frames.reshape(-1, channels).tolist()])
    ask(stage.shape, TECHNOLOGY, [frames], expected, seed=OPTIONS.index(option))


def test_unsigned_and_bipolar_elements():
    frames = np.array([[[[0, 255, 254, 255]]], [[[1, 0, 0, 0]]]])
    stage = make(4, 2, element=unsigned(8))
    assert simulate(stage, sends={"i": frames.reshape(-1, 2)}, receives={"o": 2})["o"].beats.tolist() == [[1], [0]]
    stage = make(4, 2, element=unsigned(1), largest=False)
    frames = np.array([[1, 1, 0, 0], [1, 1, 1, 1]])
    assert simulate(stage, sends={"i": frames.reshape(-1, 2)}, receives={"o": 2})["o"].beats.tolist() == [[2], [0]]


def test_cost_is_a_comparison_for_each_lane_and_place():
    def cost(**others):
        sizes = {"pixels": 1, "channels": 1000, "lanes": 1, "element": signed(8), "output": unsigned(10), **others}
        return TopKShape(**sizes).cost(ECP5())

    one = cost()
    assert (one.dsp, one.ram) == (0, 0)
    assert one.lut < 150
    assert cost(lanes=10).lut > cost(lanes=5).lut > one.lut
    assert cost(k=5).lut > cost(k=2).lut > one.lut


@pytest.mark.parametrize("arguments, message", [
    ({"channels": 10, "lanes": 3}, "lanes of a TopKStage must divide its 10 channels, and be 1 for k above 1, not 3 "
                                   "for k = 1"),
    ({"channels": 10, "lanes": 2, "k": 2}, "and be 1 for k above 1, not 2 for k = 2"),
    ({"channels": 20, "k": 17}, "k of a TopKStage must be from 1 to its 20 channels and at most 16, not 17"),
    ({"channels": 40}, "output of a TopKStage must hold the indices 0 to 39, not be unsigned(5)"),
    ({"channels": 4, "indices": False, "output": signed(4)},
     "output of a TopKStage that gives values must be signed(3), not signed(4)"),
])
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(**arguments)
