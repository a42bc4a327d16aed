"""Stages against the layers they are made from: formats of 1 to 8 bits and of one bipolar bit, every output stage."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from amaranth.back import rtlil
from hwflow_rtl.core import port_names
from hwflow_rtl.vendor import ECP5, Generic, Gowin, Technology

from hwflow.layers import (
    KINDS,
    AveragePool,
    Conv,
    Dense,
    Frame,
    IntFormat,
    Layer,
    LayerGraph,
    Lookup,
    MaxPool,
    Requantize,
    Tensor,
)
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rescale import Rescale, Rounding, Thresholds
from hwflow.stages.codes import codes_of
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import STAGES, stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.layers.cases import CASES, integers
from tests.random_cases import seeds
from tests.rtl.harness import simulate
from tests.rtl.units import arrivals_of, ask


def bits(count: int, signed: bool = True) -> IntFormat:
    return IntFormat(count, signed)


def any_of(format: IntFormat, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice(np.arange(format.low, format.high + 1, format.step), shape)


def frames_of(format: IntFormat, frame: Frame, rng: np.random.Generator) -> np.ndarray:
    """A frame of anything, one of the lowest, one of the highest integer."""
    shape = (1, frame.height, frame.width, frame.channels)
    return np.concatenate([any_of(format, rng, shape), np.full(shape, format.low), np.full(shape, format.high)])


def graph_of(layer: Layer, frame: Frame, x: IntFormat, y: IntFormat, zero_point: int = 0) -> LayerGraph:
    tensors = {"x": Tensor("x", frame, x, 0.5, zero_point), "y": Tensor("y", layer.output_frame(frame), y, 0.25, 0)}
    graph = LayerGraph("one", tensors, (layer,), ("x",), ("y",))
    graph.check()
    return graph


def beats_of(graph: LayerGraph, folding: Folding, frames: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """For each port of the stage its beats: codes [count, lanes] of the tensor that it reads."""
    (layer,) = graph.layers
    lanes_in = stage_of(graph, layer).schedule(folding, REFERENCE).lanes_in
    return {port: codes_of(frames[name], graph.tensors[name].format).reshape(-1, lanes)
            for port, name, lanes in zip(port_names("i", len(layer.inputs)), layer.inputs, lanes_in, strict=True)}


def made_of(graph: LayerGraph, folding: Folding, frames: dict[str, np.ndarray]) -> np.ndarray:
    """The beats of the output, by the golden model."""
    (layer,) = graph.layers
    made = layer.evaluate(graph, *(frames[name] for name in layer.inputs))
    return codes_of(made, graph.tensors[layer.output].format).reshape(-1, folding.lanes)


def prove(graph: LayerGraph, folding: Folding, frames: np.ndarray, seed: int = 1) -> None:
    """The stage's beats, under random stalls, and those of the unit's model are the golden integers."""
    (layer,) = graph.layers
    assert stage_of(graph, layer).hardware_problem() is None
    assert stage_of(graph, layer).folding_problem(folding) is None
    stage = stage_of(graph, layer).unit(folding, Generic())
    expected = made_of(graph, folding, {"x": frames})
    if not isinstance(layer, Lookup):
        codes = codes_of(frames, graph.tensors["x"].format)
        assert np.array_equal(stage.model(codes.reshape(len(codes), *stage_frame(layer, graph))), expected)
    traces = simulate(stage, sends=beats_of(graph, folding, {"x": frames}), receives={"o": len(expected)},
                      stall_in=0.3, stall_out=0.4, seed=seed)
    assert np.array_equal(traces["o"].beats, expected)


def stage_frame(layer: Layer, graph: LayerGraph) -> tuple[int, int, int]:
    frame = graph.tensors["x"].frame
    return (1, 1, frame.elements) if isinstance(layer, Dense) else (frame.height, frame.width, frame.channels)


def thresholds(rng: np.random.Generator, channels: int, y: IntFormat, reach: int) -> Thresholds:
    """Steps within sums of the magnitude `reach`, in some channels two at once, never or always."""
    if y.bipolar:
        return Thresholds(np.repeat(rng.integers(-reach, reach + 1, (channels, 1)), 2, axis=1), -1)
    values = rng.integers(-reach, reach + 1, (channels, y.high - y.low))
    values[::3, ::2] = values[::3, :1]
    values[1::3, 0], values[1::3, -1] = -(1 << 40), 1 << 40
    return Thresholds(np.sort(values, axis=1), y.low)


def requantize(rng: np.random.Generator, channels: int, y: IntFormat, reach: int, rounding: Rounding,
               fraction: int) -> Requantize:
    """A ratio that brings `reach` a little over the range of `y`; a power of two in every third channel."""
    shift = max(1, reach.bit_length() + 9 - y.bits) + fraction
    multiplier = np.where(np.arange(channels) % 3 == 2, 512, rng.integers(512, 1024, channels))
    return Requantize(
        bias=rng.integers(-reach, reach + 1, channels) * ((1 << fraction) - 1) // 3, multiplier=multiplier,
        shift=np.full(channels, shift), zero_point=(y.low + y.high + 1) // 2, low=y.low, high=y.high,
        fraction=fraction, rounding=rounding)


@dataclass(frozen=True)
class Numbers:
    """Formats of weights, inputs and outputs, and the kind of the output stage."""

    w: IntFormat
    x: IntFormat
    y: IntFormat
    output: str = "thresholds"
    fraction: int = 0
    rounding: Rounding = Rounding.HALF_EVEN

    def rescale(self, rng: np.random.Generator, channels: int, reach: int) -> Rescale:
        if self.output == "thresholds":
            return thresholds(rng, channels, self.y, reach)
        return requantize(rng, channels, self.y, reach, self.rounding, self.fraction)


NUMBERS = {
    "w1a1": Numbers(BIPOLAR, BIPOLAR, BIPOLAR),
    "w1a1, four levels": Numbers(BIPOLAR, BIPOLAR, bits(2, False)),
    "w1a1 to int8": Numbers(BIPOLAR, BIPOLAR, bits(8), "multiplication"),
    "w1a2": Numbers(BIPOLAR, bits(2, False), bits(2, False)),
    "w1a8": Numbers(BIPOLAR, bits(8), BIPOLAR),
    "w4, bipolar inputs": Numbers(bits(4), BIPOLAR, bits(4, False)),
    "w2a2": Numbers(bits(2), bits(2, False), bits(2, False)),
    "w2a8, signed": Numbers(bits(2), bits(8), bits(3)),
    "w3a1": Numbers(bits(3), bits(1, False), bits(1, False)),
    "w1 of 0 and -1": Numbers(bits(1), bits(1), bits(2)),
    "w4a4": Numbers(bits(4), bits(4, False), bits(4, False)),
    "w4a8, fraction": Numbers(bits(4), bits(8), bits(8), "multiplication", fraction=6),
    "w8a8, floor": Numbers(bits(8), bits(8, False), bits(8, False), "multiplication", rounding=Rounding.FLOOR),
    "w5a6, ceil": Numbers(bits(5), bits(6), bits(7), "multiplication", 2, Rounding.CEIL),
    "w7a3, half up": Numbers(bits(7), bits(3, False), bits(5), "multiplication", 3, Rounding.HALF_UP),
    "w6a5, half down": Numbers(bits(6), bits(5), bits(6, False), "multiplication", 1, Rounding.HALF_DOWN),
    "w8a8, thresholds": Numbers(bits(8), bits(8), bits(8, False)),
}
QUICK = ("w1a1", "w1a2", "w2a2", "w4a4", "w4a8, fraction", "w8a8, floor")
CHOSEN = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NUMBERS]


def reach_of(weights: np.ndarray, x: IntFormat) -> int:
    """A magnitude that sums of products exceed now and then."""
    taps = weights[0].size
    return int(np.abs(weights).max() * max(-x.low, x.high) * max(1, taps ** 0.5)) + 1


@pytest.mark.parametrize("folding", [
    Folding(6, 10, 3), *(pytest.param(Folding(*numbers), marks=pytest.mark.slow) for numbers in [
        (1, 4, 1), (3, 5, 1), (2, 20, 2), (6, 1, 6), (3, 2, 3)])], ids=str)
@pytest.mark.parametrize("name", CHOSEN)
def test_dense(name: str, folding: Folding) -> None:
    numbers, rng = NUMBERS[name], np.random.default_rng([folding.cols, len(name)])
    frame = Frame(1, 1, 20)
    weights = any_of(numbers.w, rng, (6, 20))
    rescale = numbers.rescale(rng, 6, reach_of(weights, numbers.x))
    layer = Dense("dense", ("x",), "y", weights, numbers.w, numbers.x, rescale)
    prove(graph_of(layer, frame, numbers.x, numbers.y), folding, frames_of(numbers.x, frame, rng))


@pytest.mark.parametrize("name", CHOSEN)
def test_conv(name: str) -> None:
    """3 x 3, padded where the input has a zero, stride 2; with two groups every other time."""
    numbers, rng = NUMBERS[name], np.random.default_rng(len(name))
    groups = 1 + len(name) % 2
    frame, pads = Frame(4, 5, 4), (0, 0, 0, 0) if numbers.x.bipolar else (1, 0, 1, 1)
    weights = any_of(numbers.w, rng, (4, 3, 3, 4 // groups))
    rescale = numbers.rescale(rng, 4, reach_of(weights, numbers.x))
    layer = Conv("conv", ("x",), "y", weights, numbers.w, numbers.x, rescale, (2, 2), (1, 1), pads, groups)
    graph = graph_of(layer, frame, numbers.x, numbers.y, 0 if numbers.x.bipolar else min(numbers.x.high, 1))
    prove(graph, Folding(2, 2, 1), frames_of(numbers.x, frame, rng))


@pytest.mark.parametrize("name", ["w1a1", "w2a2"])
def test_conv_of_whole_rows_of_taps(name: str) -> None:
    numbers, rng = NUMBERS[name], np.random.default_rng(len(name))
    frame, weights = Frame(4, 4, 2), any_of(numbers.w, rng, (4, 3, 3, 2))
    layer = Conv("conv", ("x",), "y", weights, numbers.w, numbers.x,
                 numbers.rescale(rng, 4, reach_of(weights, numbers.x)))
    prove(graph_of(layer, frame, numbers.x, numbers.y), Folding(4, 6, 2), frames_of(numbers.x, frame, rng))


@pytest.mark.parametrize("name", ["w1a1 to int8", "w4a4", "w5a6, ceil"])
def test_average_pool(name: str) -> None:
    numbers, rng = NUMBERS[name], np.random.default_rng(len(name))
    frame = Frame(4, 4, 3)
    reach = 4 * max(-numbers.x.low, numbers.x.high)
    layer = AveragePool("mean", ("x",), "y", numbers.x, numbers.rescale(rng, 3, reach), (2, 2), (2, 2))
    prove(graph_of(layer, frame, numbers.x, numbers.y), Folding(1, 3, 1), frames_of(numbers.x, frame, rng))


@pytest.mark.parametrize("x", [BIPOLAR, bits(1), bits(2, False)], ids=str)
def test_pools_and_tables_of_narrow_elements(x: IntFormat) -> None:
    rng, frame = np.random.default_rng(x.bits), Frame(4, 4, 2)
    largest = MaxPool("max", ("x",), "y", x, (2, 3), (2, 1), (1, 1), (0, 1, 0, 1))
    prove(graph_of(largest, frame, x, x), Folding(1, 2, 2), frames_of(x, frame, rng))
    for y in (BIPOLAR, bits(3)):
        table = Lookup("table", ("x",), "y", x, any_of(y, rng, (1 << x.bits,)).astype(np.int64))
        prove(graph_of(table, frame, x, y), Folding(1, 2, 2), frames_of(x, frame, rng))


@pytest.mark.slow
@pytest.mark.parametrize("family", [ECP5, Gowin])
@pytest.mark.parametrize("name", ["w1a1", "w1a8", "w2a2", "w4a4", "w4a8, fraction"])
def test_blocks_are_counted(name: str, family: type[Technology]) -> None:
    """Large enough for RAM blocks; one or two bits take no multiplier."""
    numbers, rng, technology = NUMBERS[name], np.random.default_rng(0), family()
    frame, weights = Frame(6, 40, 32), any_of(numbers.w, rng, (128, 3, 3, 32))
    layer = Conv("conv", ("x",), "y", weights, numbers.w, numbers.x,
                 numbers.rescale(rng, 128, reach_of(weights, numbers.x)))
    graph, folding = graph_of(layer, frame, numbers.x, numbers.y), Folding(4, 8, 2)
    text = rtlil.convert(stage_of(graph, layer).unit(folding, technology))
    kinds = re.findall(r"^ *cell \\(\w+) ", text, re.MULTILINE)
    cost = stage_of(graph, layer).cost(folding, technology)
    assert cost.dsp == sum(kind in ("MULT18X18D", "MULT9X9") for kind in kinds) + 4 * kinds.count("MULT18X18")
    assert cost.ram == sum(kind in ("DP16KD", "SDPB", "SDPX9B") for kind in kinds) > 0
    assert cost.dsp == 0 or numbers.w.bits > 2


#: Cycles of a frame at most in the tests of all kinds.
SLOWEST = 400


@dataclass(frozen=True)
class Staged:
    """Any small layer of a kind with any folding, and three frames of its inputs."""

    graph: LayerGraph
    folding: Folding
    frames: dict[str, np.ndarray]

    @property
    def layer(self) -> Layer:
        (layer,) = self.graph.layers
        return layer


def staged(kind: type[Layer], seed: int) -> Staged:
    """The first random layer from `seed` on that can be a stage."""
    for attempt in range(20):
        rng = np.random.default_rng([seed, attempt])
        graph = CASES[kind](rng).graph
        (layer,) = graph.layers
        if stage_of(graph, layer).hardware_problem() is None:
            possible = list(stage_of(graph, layer).foldings())
            quick = [f for f in possible if stage_of(graph, layer).schedule(f, REFERENCE).interval <= SLOWEST]
            frames = {}
            for name in graph.inputs:
                t = graph.tensors[name]
                frames[name] = integers(rng, t.format, (3, t.frame.height, t.frame.width, t.frame.channels))
            if quick:
                return Staged(graph, quick[int(rng.integers(len(quick)))], frames)
    raise AssertionError(f"no case of {kind.kind} has hardware")


def test_every_kind_has_a_stage() -> None:
    assert set(STAGES) == set(KINDS)


ANY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
ANY_SEED = seeds(quick=[0], slow=range(1, 9))


@ANY_KIND
@ANY_SEED
def test_every_kind_is_golden_under_stalls(kind: type[Layer], seed: int) -> None:
    """Any layer, any folding, stalls at all its streams; one number of lanes for each input.  It computes in as many
    cycles as its schedule says.
    """
    each = staged(kind, seed)
    stage = stage_of(each.graph, each.layer).unit(each.folding, Generic())
    expected = made_of(each.graph, each.folding, each.frames)
    slow, busy = (0.0, 0.3, 0.9)[seed % 3], []

    async def watch(ctx):
        async for _, _, computes in ctx.tick().sample(stage.busy):
            busy.append(computes)

    traces = simulate(stage, sends=beats_of(each.graph, each.folding, each.frames), receives={"o": len(expected)},
                      stall_in=slow, stall_out=0.5, seed=seed, watchers=[watch])
    assert np.array_equal(traces["o"].beats, expected)
    assert sum(busy) == 3 * stage_of(each.graph, each.layer).schedule(each.folding, REFERENCE).work


@ANY_KIND
@ANY_SEED
def test_every_kind_is_asked_what_every_unit_is(kind: type[Layer], seed: int) -> None:
    """Values, when beats move, and cycles of a frame; the stage says what the shape of its unit says."""
    each = staged(kind, seed)
    stage, technology, operands = stage_of(each.graph, each.layer), Generic(), each.layer.inputs
    shape, said = stage.shape(each.folding, technology), stage.schedule(each.folding, REFERENCE)
    assert (said.interval, said.lanes_in) == (shape.cycles, shape.lanes_in)
    codes = [codes_of(each.frames[name], each.graph.tensors[name].format) for name in operands]
    ask(shape, technology, [words.reshape(3, 1, 1, -1) if isinstance(each.layer, Dense) else words for words in codes],
        made_of(each.graph, each.folding, each.frames), seed=seed)
    late = [arrivals_of("late", words.size // lanes, seed) for words, lanes in zip(codes, said.lanes_in, strict=True)]
    for left in (None, shape.times(technology, *late).departures + 5):
        ours, theirs = (stage.times(each.folding, technology, *late, left=None if left is None else [left]),
                        shape.times(technology, *late, left=left))
        assert all(map(np.array_equal, (*ours.taken, ours.departures), (*theirs.taken, theirs.departures)))


def test_one_bit_in_a_format_with_a_zero() -> None:
    """What a window pads with zeros: -1 and +1 as two bits."""
    frame = Frame(3, 4, 4)
    layer = Lookup("wide", ("x",), "y", BIPOLAR, np.array([-1, 1]))
    tensors = {name: Tensor(name, frame, format, 0.5, 0) for name, format in (("x", BIPOLAR), ("y", bits(2)))}
    graph = LayerGraph("wide", tensors, (layer,), ("x",), ("y",))
    graph.check()
    for folding in stage_of(graph, layer).foldings():
        prove(graph, folding, np.random.default_rng(0).choice([-1, 1], (4, 3, 4, 4)))
