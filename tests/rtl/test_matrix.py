import random
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from amaranth.hdl import Fragment, Instance, MemoryInstance, Shape, signed, unsigned
from hwflow_rtl.matrix.row_patch import TABLE_DEPTH
from hwflow_rtl.matrix.shape import MatrixShape
from hwflow_rtl.matrix.stage import MatrixStageShape
from hwflow_rtl.matrix.weights import ROMS
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.vendor.base import Timing
from hwflow_rtl.vendor.ecp5 import ECP5
from hwflow_rtl.vendor.generic import Generic
from hwflow_rtl.vendor.gowin import Gowin
from hwflow_rtl.vendor.ice40 import ICE40
from hwflow_rtl.window.shape import WindowShape

from tests.random_cases import seeds
from tests.rtl.harness import simulate
from tests.rtl.oracles import requantized
from tests.rtl.units import ask


@dataclass(frozen=True)
class Layer:
    """A convolution and its folding."""

    frame: tuple[int, int, int]
    cout: int
    rows: int
    cols: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    out_lanes: int = 1
    patch: bool = False
    element: Shape = field(default_factory=lambda: signed(8))
    weight: Shape = field(default_factory=lambda: signed(8))
    output: Shape = field(default_factory=lambda: signed(8))
    parallel: int = 1
    style: MultiplierStyle = MultiplierStyle.BLOCKS

    @property
    def window(self) -> WindowShape:
        """Over pixels; each group is a word."""
        return WindowShape(
            height=self.frame[0], width=self.frame[1], words=self.groups, kernel=self.kernel, stride=self.stride,
            dilation=self.dilation, pads=self.pads, groups=self.groups)

    def shape(self, accumulator: Shape) -> MatrixShape:
        return MatrixShape(
            frame=self.window, depth=self.frame[2] // self.groups, outputs=self.cout // self.groups, lanes=self.cols,
            rows=self.rows, out_lanes=self.out_lanes, element=self.element, weight=self.weight,
            accumulator=accumulator, output=self.output, parallel=self.parallel, patch=self.patch,
            style=self.style)


SAME = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
LAYERS = {
    "3x3 pad 1": Layer((5, 6, 4), 4, 2, 2, **SAME),
    "3x3 pad 1, one word": Layer((4, 4, 3), 4, 4, 3, **SAME),
    "3x3 pad 1, one column": Layer((3, 4, 2), 2, 1, 1, **SAME),
    "3x3 valid, wide": Layer((5, 5, 8), 8, 8, 8, kernel=(3, 3), out_lanes=2),
    "5x5 pad 2": Layer((6, 5, 2), 3, 3, 2, kernel=(5, 5), pads=(2, 2, 2, 2)),
    "stride 2": Layer((7, 8, 4), 6, 3, 4, stride=(2, 2), **SAME),
    "stride 3, leftovers": Layer((14, 14, 2), 4, 2, 2, kernel=(3, 3), stride=(3, 3)),
    "stride 3, leftovers, input is the limit": Layer((14, 14, 2), 2, 2, 2, kernel=(3, 3), stride=(3, 3)),
    "asymmetric": Layer((6, 7, 2), 2, 2, 1, kernel=(4, 3), stride=(1, 2), pads=(2, 0, 1, 2)),
    "dilation 2": Layer((8, 7, 2), 4, 4, 2, kernel=(3, 3), dilation=(2, 2), pads=(2, 2, 2, 2), out_lanes=4),
    "groups": Layer((4, 5, 8), 12, 3, 2, groups=2, **SAME),
    "depthwise, a channel at a time": Layer((4, 4, 4), 4, 1, 1, groups=4, **SAME),
    "1x1, one word, one row": Layer((4, 4, 4), 3, 1, 4),
    "1x1, one word, all lanes": Layer((4, 4, 4), 4, 4, 4, out_lanes=4),
    "1x1, one word, drain is the limit": Layer((4, 4, 4), 8, 4, 4, out_lanes=1),
    "1x1, two words": Layer((4, 3, 8), 8, 4, 4, out_lanes=2),
    "1x1, two words, drain is the limit": Layer((4, 3, 8), 16, 8, 4, out_lanes=2),
    "1x1, three words, 12 rows": Layer((3, 3, 6), 12, 12, 2, out_lanes=6),
    "1x1, stride 2": Layer((6, 6, 4), 6, 3, 4, stride=(2, 2), out_lanes=3),
    "1-D": Layer((1, 20, 3), 4, 4, 3, kernel=(1, 7), pads=(0, 3, 0, 3)),
    "dense": Layer((1, 1, 24), 10, 5, 4),
    "dense, one tile": Layer((1, 1, 24), 6, 6, 3, out_lanes=2),
    "dense, one word": Layer((1, 1, 8), 12, 3, 8, out_lanes=3),
    "whole frame": Layer((4, 4, 4), 6, 3, 2, kernel=(4, 4)),
    "patch 3x3": Layer((6, 6, 1), 4, 4, 1, patch=True, out_lanes=2, **SAME),
    "patch 3x3, 3 channels, stride 2": Layer((7, 7, 3), 6, 2, 3, patch=True, stride=(2, 2), **SAME),
    "patch 1-D": Layer((1, 15, 2), 2, 2, 2, kernel=(1, 5), pads=(0, 2, 0, 2), patch=True, out_lanes=2),
    "patch 5x5 valid": Layer((7, 8, 1), 3, 1, 1, kernel=(5, 5), patch=True),
    "depthwise, all groups": Layer((4, 5, 4), 4, 4, 4, groups=4, parallel=4, out_lanes=2, **SAME),
    "depthwise, two of six": Layer((5, 5, 6), 6, 2, 2, groups=6, parallel=2, out_lanes=2, stride=(2, 2), **SAME),
    "depthwise, four of six": Layer((4, 5, 6), 6, 4, 4, groups=6, parallel=4, out_lanes=2, **SAME),
    "depthwise, three of five, two outputs": Layer((4, 4, 5), 10, 6, 3, groups=5, parallel=3, kernel=(1, 3)),
    "groups of two, two of three": Layer((3, 4, 6), 9, 6, 4, groups=3, parallel=2, out_lanes=3, kernel=(2, 2)),
    "depthwise, three taps": Layer((4, 5, 4), 4, 2, 2, groups=4, parallel=2, patch=True, **SAME),
    "depthwise, three taps, two of three": Layer((4, 5, 3), 3, 2, 2, groups=3, parallel=2, patch=True, **SAME),
    "rows left over": Layer((4, 4, 4), 7, 3, 2, **SAME),
    "rows left over, two lanes": Layer((4, 4, 4), 14, 4, 4, out_lanes=2),
    "rows left over, in groups": Layer((4, 4, 4), 10, 4, 1, groups=2, **SAME),
    "rows left over, drain is the limit": Layer((4, 4, 4), 7, 4, 4),
    "columns left over": Layer((4, 4, 5), 4, 4, 3, out_lanes=2, **SAME),
    "columns left over, input is the limit": Layer((4, 4, 5), 4, 4, 3, out_lanes=4),
    "columns left over, in beats of two": Layer((4, 4, 10), 4, 2, 4, **SAME),
    "columns left over, in groups": Layer((4, 4, 10), 6, 2, 3, groups=2, **SAME),
    "rows and columns left over": Layer((5, 5, 7), 11, 4, 3, stride=(2, 2), **SAME),
    "dense, left over": Layer((1, 1, 25), 10, 4, 7),
    "patch of two words": Layer((5, 6, 4), 4, 2, 2, patch=True, **SAME),
    "patch of eight words": Layer((5, 6, 8), 8, 8, 1, patch=True, out_lanes=2, **SAME),
    "patch of words, stride 2": Layer((5, 7, 4), 4, 4, 2, patch=True, stride=(2, 2), **SAME),
    "patch of words, dilation 2": Layer((5, 7, 6), 4, 4, 2, patch=True, kernel=(3, 3), dilation=(2, 2),
                                        pads=(2, 2, 2, 2)),
    "patch of words, in groups": Layer((4, 6, 8), 4, 2, 2, groups=2, patch=True, **SAME),
    "patch, columns left over": Layer((4, 6, 5), 4, 2, 2, patch=True, **SAME),
    "patch 10x4": Layer((12, 6, 1), 4, 4, 1, kernel=(10, 4), stride=(2, 2), pads=(4, 1, 5, 2), patch=True),
    "unsigned": Layer((4, 4, 4), 4, 2, 2, element=unsigned(8), output=unsigned(8), **SAME),
    "4-bit weights": Layer((4, 4, 4), 4, 2, 2, weight=signed(4), element=unsigned(4), output=unsigned(4), **SAME),
    "3-bit weights, unsigned": Layer((4, 4, 4), 4, 4, 2, weight=unsigned(3), element=unsigned(5), **SAME),
    "logic": Layer((4, 5, 6), 6, 3, 3, style=MultiplierStyle.LOGIC, **SAME),
    "logic, 3-bit weights": Layer((1, 1, 24), 10, 4, 4, weight=signed(3), style=MultiplierStyle.LOGIC, out_lanes=2),
    "pairs": Layer((4, 5, 4), 12, 6, 2, weight=signed(4), style=MultiplierStyle.PAIRS, out_lanes=3, **SAME),
    "pairs, unsigned, rows left over": Layer((4, 4, 4), 10, 4, 4, weight=signed(4), element=unsigned(8),
                                             style=MultiplierStyle.PAIRS),
    "pairs, in groups": Layer((4, 4, 8), 12, 12, 8, weight=signed(3), groups=2, parallel=2, kernel=(1, 3), out_lanes=2,
                              style=MultiplierStyle.PAIRS),
    "macs": Layer((4, 5, 4), 6, 6, 2, style=MultiplierStyle.MACS, out_lanes=3, **SAME),
    "macs, unsigned, left over": Layer((4, 4, 7), 7, 3, 4, element=unsigned(8), style=MultiplierStyle.MACS,
                                       **SAME),
    "macs, six columns of a patch": Layer((5, 6, 4), 4, 4, 2, patch=True, style=MultiplierStyle.MACS, **SAME),
    "macs, one beat": Layer((4, 4, 8), 8, 4, 8, style=MultiplierStyle.MACS, out_lanes=4),
    "macs, in groups": Layer((4, 4, 8), 12, 12, 8, groups=2, parallel=2, kernel=(1, 3), out_lanes=2,
                             style=MultiplierStyle.MACS),
}


def limits(shape: Shape) -> tuple[int, int]:
    return (-(1 << (shape.width - 1)), 1 << (shape.width - 1)) if shape.signed else (0, 1 << shape.width)


def sums_of(layer: Layer, frames: np.ndarray, weights: np.ndarray, pad_value: int) -> np.ndarray:
    """The convolution by its definition: [n, out_height, out_width, cout]."""
    window, per_group = layer.window, layer.frame[2] // layer.groups
    out = np.zeros((len(frames), window.out_height, window.out_width, layer.cout), dtype=np.int64)
    for y in range(window.out_height):
        for x in range(window.out_width):
            for ky in range(layer.kernel[0]):
                for kx in range(layer.kernel[1]):
                    iy = y * layer.stride[0] - layer.pads[0] + ky * layer.dilation[0]
                    ix = x * layer.stride[1] - layer.pads[1] + kx * layer.dilation[1]
                    inside = 0 <= iy < layer.frame[0] and 0 <= ix < layer.frame[1]
                    pixel = frames[:, iy, ix] if inside else np.full((len(frames), layer.frame[2]), pad_value)
                    for channel in range(layer.cout):
                        group = channel // (layer.cout // layer.groups)
                        part = pixel[:, group * per_group:(group + 1) * per_group]
                        out[:, y, x, channel] += part @ weights[channel, ky, kx]
    return out


class Case:
    """A layer with weights, a stage for it, and what the stage must give for its frames."""

    def __init__(self, layer: Layer, frames: int, *, technology=None, style=RequantizerStyle.DSP,
                 source=ROMS, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.technology = technology or Generic()
        self.frames = rng.integers(*limits(layer.element), (frames, *layer.frame))
        low, high = limits(layer.weight)
        weights = rng.integers(low, high, (layer.cout, *layer.kernel, layer.frame[2] // layer.groups))
        weights[0, 0, 0, 0], weights[-1, -1, -1, -1] = low, high - 1
        self.weights = weights
        pad_value = int(rng.integers(*limits(layer.element)))
        sums = sums_of(layer, self.frames, weights, pad_value)
        bias = rng.integers(-100, 100, layer.cout)
        biased = sums + bias
        bound = int(max(abs(sums).max(), abs(biased).max()))
        low, high = limits(layer.output)
        # Scale the largest sums a little over the range of the output; a power of two hits ties.
        shift = np.full(layer.cout, max(1, bound.bit_length() + 10 - layer.output.width))
        multiplier = np.where(np.arange(layer.cout) % 3 == 2, 1 << 10, rng.integers(1 << 10, 1 << 11, layer.cout))
        zero_point = 0 if layer.output.signed else 1 << (layer.output.width - 2)
        self.rescaler = RequantizerConstants(bias=bias, multiplier=multiplier, shift=shift, zero_point=zero_point,
                                             low=low, high=high - 1, style=style)
        self.expected = requantized(sums, self.rescaler)
        self.stage = MatrixStageShape(
            matrix=replace(layer.shape(signed(bound.bit_length() + 1)), source=source), weights=weights,
            pad_value=pad_value, rescaler=self.rescaler).build(self.technology, "stage")
        self.beats_in = self.frames.reshape(-1, *self.stage.shape.lanes_in)
        self.beats_out = self.expected.reshape(-1, layer.out_lanes)

    def ask(self, seed: int = 0) -> None:
        """What every unit is asked."""
        ask(self.stage.shape, self.technology, [self.frames], self.beats_out, seed=seed)

    def run(self, **stalls):
        traces = simulate(self.stage, sends={"i": self.beats_in}, receives={"o": len(self.beats_out)}, **stalls)
        assert np.array_equal(traces["o"].beats, self.beats_out)
        return traces


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_model_is_the_convolution(layer):
    case = Case(layer, 3)
    assert np.array_equal(case.stage.model(case.frames), case.beats_out)


TIMINGS = (Timing(multiply=4), Timing(multiply=1, rom=1, ram=1), Timing(multiply=5, rom=4, ram=2),
           Timing(multiply=2, rom=1, ram=3), Timing(multiply=3, rom=3, ram=1))
#: One of each structure; the others take minutes.
OFTEN = {
    "3x3 pad 1, one column", "3x3 valid, wide", "stride 2", "stride 3, leftovers, input is the limit", "asymmetric",
    "depthwise, a channel at a time", "1x1, one word, all lanes", "1x1, two words, drain is the limit",
    "1x1, stride 2", "1-D", "dense", "dense, one tile", "whole frame", "patch 3x3, 3 channels, stride 2", "patch 1-D",
    "depthwise, two of six", "depthwise, three taps, two of three", "groups of two, two of three",
    "rows left over, two lanes", "columns left over, input is the limit", "dense, left over",
    "patch of words, in groups", "4-bit weights", "logic, 3-bit weights", "pairs, unsigned, rows left over",
    "macs, in groups", "macs, one beat"}


@pytest.mark.quick(9)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow])
                                  for name in LAYERS])
def test_layers(name):
    """All that a unit is asked, with memories and multipliers of several latencies."""
    order = list(LAYERS).index(name)
    Case(LAYERS[name], 3, technology=Generic(timing=TIMINGS[order % len(TIMINGS)]), seed=order).ask(order)


@pytest.mark.parametrize("timing", [ECP5.timing, Timing(multiply=2, rom=1, ram=1)], ids=str)
def test_weights_of_a_deep_rom_pass_a_register_and_take_no_longer(timing):
    layer = Layer((1, 1, 1200), 4, 2, 2)
    case = Case(layer, 3, technology=Generic(timing=timing, like=ECP5()))
    shape = case.stage.shape.matrix
    assert shape.weights_wait(shape.bank_rows(case.technology), case.technology)
    assert not shape.weights_wait(shape.bank_rows(case.technology), Generic())
    traces = case.run()
    ends = traces["o"].cycles.reshape(3, -1)[:, -1]
    assert (np.diff(ends[1:]) == shape.cycles()).all()
    expected = case.stage.shape.times(case.technology, np.arange(3 * layer.frame[2] // 2))
    assert ends[0] - traces["i"].cycles[0] == expected.departures[3] - expected.taken[0][0]


@pytest.mark.parametrize(("name", "work", "cycles"), [
    ("3x3 pad 1", 5 * 6 * 2 * 9 * 2, 5 * 6 * 2 * 9 * 2),
    ("stride 3, leftovers, input is the limit", 16 * 9, 14 * 14),
    ("1x1, one word, all lanes", 16, 16),
    ("1x1, one word, drain is the limit", 32, 128),
    ("1x1, two words, drain is the limit", 48, 96),
    ("dense", 6 * 2, 6 * 2),
    ("patch 3x3", 36 * 3, 36 * 3),
    ("patch 1-D", 15, 15),
])
def test_cycles(name, work, cycles):
    shape = Case(LAYERS[name], 1).stage.shape.matrix
    assert (shape.work, shape.cycles()) == (work, cycles)


BLOCKS = {
    ECP5: ("MULT18X18D", "DP16KD"), ICE40: ("SB_MAC16", "SB_RAM40_4K"),
    Gowin: ("MULT9X9", "SDPB", "SDPX9B"),
}


def parts_of(fragment: Fragment, name: str = ""):
    """Names and fragments of an elaborated unit, itself and all below it."""
    yield name, fragment
    for below, named, _ in fragment.subfragments:
        yield from parts_of(below, named)


@pytest.mark.quick(9)
@pytest.mark.parametrize("family", BLOCKS, ids=lambda family: family.__name__)
@pytest.mark.parametrize("name", [
    "3x3 pad 1", "3x3 valid, wide", "large", "patch 3x3, 3 channels, stride 2", "dense", "depthwise, four of six",
    "rows and columns left over", "patch of eight words", "patch of many words"])
def test_cost_in_blocks_is_exact(name, family):
    large = {"large": Layer((16, 16, 32), 32, 4, 8, **SAME),
             "patch of many words": Layer((4, 4, 80), 2, 2, 1, patch=True, kernel=(1, 3))}
    case = Case((LAYERS | large)[name], 1, technology=family(), style=RequantizerStyle.FABRIC)
    parts = list(parts_of(Fragment.get(case.stage, None)))
    cost = case.stage.shape.cost(case.technology)
    kinds = [part.type for _, part in parts if isinstance(part, Instance)]
    # The output queue and the lines of patches are no instances: where the family has no small memories, or the memory
    # is deep, synthesis makes one block of it.
    depths = [len(part._data.init) for name, part in parts
              if isinstance(part, MemoryInstance) and name in ("ring", "line")]
    blocks = sum(family is ICE40 or depth > TABLE_DEPTH for depth in depths)
    assert cost.dsp + cost.ram == sum(kinds.count(kind) for kind in BLOCKS[family]) + blocks
    assert cost.dsp >= case.stage.shape.matrix.rows * case.stage.shape.matrix.cols // 2
    assert cost.lut > 0
    assert cost.ff > 0


def test_banks_share_a_rom_where_that_saves_blocks():
    def bank(cols: int) -> int:
        return Case(Layer((4, 40, cols * 4), 16, 8, cols, **SAME), 1).stage.shape.matrix.bank_rows(ECP5())

    # Blocks of all banks, with 1, 2, 4, 8 rows in each: 8 4 2 2; 8 8 8 7; 8 8 10 9; 16 16 14 14.
    assert (bank(1), bank(4), bank(5), bank(8)) == (4, 8, 1, 4)


@pytest.mark.parametrize(("name", "change", "message"), [
    ("3x3 pad 1", {"out_lanes": 3}, "out_lanes of a matrix stage must divide its 2 rows and 4 outputs, not 3"),
    ("rows left over", {"out_lanes": 3}, "out_lanes of a matrix stage must divide its 3 rows and 7 outputs, not 3"),
    ("3x3 pad 1", {"rows": 0}, "rows and lanes of a matrix stage must be at least 1, not 0 and 2"),
    ("3x3 pad 1", {"rows": 5}, "rows and lanes of a matrix stage must be at most the 4 outputs and 4 inputs of a "
                               "group, not 5 and 2"),
    ("depthwise, four of six", {"parallel": 7}, "parallel groups of a matrix stage must be 1 to 6, not 7"),
    ("depthwise, four of six", {"parallel": 3}, "rows and lanes of a matrix stage must be the 3 outputs and 3 inputs "
                                                "of its 3 groups, not 4 and 4"),
    ("columns left over", {"weight": Shape(1), "bipolar_weight": True},
     "lanes of a matrix stage must divide the 5 inputs of a group where no weight is 0, not 3"),
    ("rows left over", {"style": MultiplierStyle.PAIRS},
     "style of a matrix stage must be blocks or logic with 3 rows, 3 of a group, and 1 results at once, not pairs: two "
     "rows must be of one group and in one bank"),
    ("depthwise, four of six", {"style": MultiplierStyle.PAIRS}, "with 4 rows, 1 of a group, and 2 results at once"),
])
def test_refuses_shapes(name, change, message):
    shape = LAYERS[name].shape(signed(24))
    with pytest.raises(ValueError, match=message):
        replace(shape, **change)


@pytest.mark.parametrize(("weights", "message"), [
    (np.zeros((4, 3, 3, 2), dtype=np.int64),
     r"weights of 'stage' must be of shape \(4, 3, 3, 4\) for its window, lanes and rows, not \(4, 3, 3, 2\)"),
    (np.full((4, 3, 3, 4), 128), "weights of 'stage' must be from -128 to 127, not from 128 to 128"),
])
def test_refuses_weights(weights, message):
    zeros = np.zeros(4, dtype=np.int64)
    rescaler = RequantizerConstants(bias=zeros, multiplier=zeros + 1, shift=zeros, zero_point=0, low=-128, high=127,
                                    style=RequantizerStyle.DSP)
    with pytest.raises(ValueError, match=message):
        MatrixStageShape(matrix=LAYERS["3x3 pad 1"].shape(signed(24)), weights=weights, rescaler=rescaler).build(
            Generic(), "stage")


@pytest.mark.parametrize("name", LAYERS)
def test_a_producer_that_comes_evenly_never_waits(name):
    """As many beats in each frame, spread over its cycles."""
    case, frames = Case(LAYERS[name], 1), 3
    count = frames * len(case.beats_in)
    arrivals = np.arange(count) * case.stage.shape.cycles * frames // count
    assert np.array_equal(case.stage.shape.times(case.technology, arrivals).taken[0], arrivals)


def random_layer(source: random.Random) -> Layer:
    """Any sizes that a layer and its folding can have, and that are simulated in a second or two."""
    while True:
        groups, depth, outputs = source.choice([1, 1, 1, 2, 3, 4]), source.randint(1, 5), source.randint(1, 5)
        kernel = source.choice([(1, 1), (3, 3), (1, 3), (2, 2), (1, 5), (3, 1), (2, 3), (10, 4)])
        stride = source.choice([(1, 1), (1, 1), (2, 2), (1, 2), (3, 3), (2, 1)])
        dilation = source.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 2)])
        pads = tuple(source.randint(0, 2) if source.random() < 0.7 else 0 for _ in range(4))
        reach = tuple((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
        height, width = source.randint(1, 12 if kernel[0] == 10 else 6), source.randint(1, 7)
        if reach[0] >= height + pads[0] + pads[2] or reach[1] >= width + pads[1] + pads[3]:
            continue
        parallel = source.randint(2, groups) if groups > 1 and source.random() < 0.5 else 1
        rows, cols = source.randint(1, outputs), source.randint(1, depth)
        if parallel > 1:
            rows, cols = parallel * outputs, parallel * depth
        span = outputs if parallel == 1 else groups * outputs
        layer = Layer(
            (height, width, groups * depth), groups * outputs, rows, cols, kernel, stride, dilation, pads, groups,
            source.choice([n for n in range(1, rows + 1) if rows % n == 0 and span % n == 0]),
            patch=kernel[1] > 1 and pads[1] <= reach[1] and source.random() < 0.5, parallel=parallel)
        if layer.shape(signed(24)).cycles() < 1000:
            return layer


@seeds(quick=range(3), slow=range(3, 30))
def test_random_layers(seed):
    source = random.Random(seed)
    Case(random_layer(source), 3, technology=Generic(timing=source.choice(TIMINGS)), seed=seed).ask(seed)
