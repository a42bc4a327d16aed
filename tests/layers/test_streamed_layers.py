"""Layers whose weights arrive as a stream: any folding computes the golden integers, when it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import Fragment
from hwflow_rtl.matrix.stage import MatrixStage
from hwflow_rtl.matrix.tiled import TiledStage
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.times import StageTimes
from hwflow_rtl.vendor import FAMILIES, Generic
from hwflow_rtl.vendor.memory import Holds

from hwflow.layers import Conv, Dense, Frame, IntFormat, Layer, LayerGraph, Requantize
from hwflow.layers.matrix_layer import MatrixLayer
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.layers.cases import CASES, integers
from tests.layers.test_memories import asked_of
from tests.layers.test_stages import beats_of, graph_of, made_of
from tests.random_cases import seeds
from tests.rtl.units import ARRIVALS, arrivals_of, play

FRAMES = 3
#: Cycles of a frame at most.
SLOWEST = 800
PORTS = ("i", "weights")


@dataclass(frozen=True)
class Streamed:
    """Any small layer with any folding that its weights can arrive for, and frames of its input."""

    graph: LayerGraph
    folding: Folding
    frames: dict[str, np.ndarray]

    @property
    def layer(self) -> Layer:
        (layer,) = self.graph.layers
        assert isinstance(layer, MatrixLayer)
        return layer

    def times(self, arrivals: list[np.ndarray]) -> StageTimes:
        """Of the stage, for given arrivals of the frames and of the weights."""
        assert isinstance(self.layer, MatrixLayer)
        technology = Generic()
        return stage_of(self.graph, self.layer).shape(self.folding, technology).times(technology, *arrivals)

    @property
    def beats(self) -> list[np.ndarray]:
        """Those of the frames, and those of the weights for each frame."""
        (frames,) = beats_of(self.graph, self.folding, self.frames).values()
        weights = stage_of(self.graph, self.layer).weight_beats(self.folding)
        return [frames, np.tile(weights, (len(self.frames["x"]), 1))]


def streamed(kind: type[Layer], seed: int, frames: int = FRAMES) -> Streamed:
    """The first random layer from `seed` on that has such a folding."""
    for attempt in range(30):
        rng = np.random.default_rng([seed, attempt])
        graph = CASES[kind](rng).graph
        (layer,) = graph.layers
        if stage_of(graph, layer).hardware_problem() is not None:
            continue
        possible = [replace(folding, weight_rows=rows) for folding in stage_of(graph, layer).foldings()
                    for rows in stage_of(graph, layer).weight_rows(folding)]
        folding = replace(possible[int(rng.integers(len(possible)))],
                          weight_interval=Fraction(int(rng.integers(2, 9)), 2))
        if stage_of(graph, layer).schedule(folding, REFERENCE).interval <= SLOWEST:
            t = graph.tensors["x"]
            shape = (frames, t.frame.height, t.frame.width, t.frame.channels)
            return Streamed(graph, folding, {"x": integers(rng, t.format, shape)})
    raise AssertionError(f"no case of {kind.kind} is quick")


KINDS = pytest.mark.parametrize("kind", [Conv, Dense], ids=lambda kind: kind.kind)


@KINDS
@seeds(quick=range(2), slow=range(2, 10))
def test_values_and_cycles(kind: type[Layer], seed: int) -> None:
    each = streamed(kind, seed)
    assert stage_of(each.graph, each.layer).folding_problem(each.folding) is None
    arrivals = [arrivals_of(ARRIVALS[(seed + k) % len(ARRIVALS)], len(words), k) for k, words in enumerate(each.beats)]
    said, unit = each.times(arrivals), stage_of(each.graph, each.layer).unit(each.folding, Generic())
    assert isinstance(unit, TiledStage if each.graph.tensors["y"].frame.height > 1 else (TiledStage, MatrixStage))
    seen = play(unit, each.beats, arrivals, len(said.departures), PORTS)
    assert np.array_equal(seen.output.beats, made_of(each.graph, each.folding, each.frames))
    assert np.array_equal(said.departures, seen.output.cycles)
    for ours, theirs in zip(said.taken, seen.taken, strict=True):
        assert np.array_equal(ours, theirs)


@KINDS
@pytest.mark.parametrize("seed", range(30))
def test_the_interval_is_kept(kind: type[Layer], seed: int) -> None:
    """With weights as fast as the folding says, from frame to frame: in the stage's times and in those of a plan."""
    each = streamed(kind, seed, frames=6)
    frames = np.arange(len(each.beats[0]))
    weights = np.ceil(np.arange(len(each.beats[1])) * each.folding.weight_interval).astype(np.int64)
    planned = stage_of(each.graph, each.layer).times(each.folding, Generic(), frames)
    for said in (each.times([frames, weights]), planned):
        ends = said.departures.reshape(6, -1)[:, -1]
        assert ends[-1] - ends[-2] == stage_of(each.graph, each.layer).schedule(each.folding, REFERENCE).interval, each
    assert len(planned.taken) == 1


@pytest.mark.quick(3)
@KINDS
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_costs_name_the_memories(kind: type[Layer], family: str) -> None:
    for seed in range(6):
        each, asked = streamed(kind, seed), Counter()
        stage = stage_of(each.graph, each.layer)
        technology = asked_of(FAMILIES[family](), stage.unit_name, asked)
        if stage.folding_problem(each.folding, technology) is not None:
            continue
        cost = stage.cost(each.folding, technology)
        Fragment.get(stage.unit(each.folding, technology), None)
        named = Counter((memory.name, memory.kind, memory.width, memory.depth) for memory in cost.memories
                        if memory.holds is not Holds.QUEUE and memory.fixed is None)
        assert named == asked, f"seed {seed}, {each.folding}"


def layer_of(groups: int = 1) -> tuple[Conv, LayerGraph]:
    """3 x 3, 16 to 32 channels, weights of 4 bits, 8 x 8 pixels of 8 bits."""
    x, rng = IntFormat(8, True), np.random.default_rng(0)
    weights = rng.integers(-8, 8, (32, 3, 3, 16 // groups))
    constants = Requantize(rng.integers(-9, 9, 32), rng.integers(1, 99, 32), np.full(32, 20), 0, -128, 127)
    layer = Conv("conv", ("x",), "y", weights, IntFormat(4, True), x, constants, groups=groups)
    return layer, graph_of(layer, Frame(8, 8, 16), x, x)


def test_what_arrives_for_a_frame() -> None:
    layer, graph = layer_of()
    folding = Folding(4, 8, 1, weight_rows=2)
    stream = stage_of(graph, layer).weight_stream(folding)
    assert stream is not None
    assert (stream.beats, stream.lanes, stream.bits) == (32 // 2 * 3 * 3 * 2, 2 * 8, layer.weights.size * 4)
    assert stage_of(graph, layer).weight_stream(replace(folding, weight_rows=0)) is None
    beats = stage_of(graph, layer).weight_beats(folding)
    assert beats.shape == (stream.beats, stream.lanes)
    assert Counter(beats.reshape(-1).tolist()) == Counter(layer.weights.reshape(-1).tolist())


@pytest.mark.parametrize("kind", [Conv, Dense])
def test_the_stream_of_every_folding_is_that_of_its_unit(kind: type[Layer]) -> None:
    seen = 0
    for seed in range(12):
        graph = CASES[kind](np.random.default_rng(seed)).graph
        (layer,) = graph.layers
        assert isinstance(layer, MatrixLayer)
        if stage_of(graph, layer).hardware_problem() is not None:
            continue
        for folding in stage_of(graph, layer).foldings():
            for rows in stage_of(graph, layer).weight_rows(folding):
                each = replace(folding, weight_rows=rows)
                stream, unit = stage_of(graph, layer).weight_stream(each), stage_of(graph, layer).unit_shape(each)
                assert stream is not None
                assert (stream.lanes, stream.beats) == (unit.weight_lanes, unit.weight_beats), f"seed {seed}, {each}"
                seen += 1
    assert seen > 100


@pytest.mark.parametrize(("folding", "groups", "rows"), [
    (Folding(8, 8, 2), 1, (1, 2, 4, 8)),
    (Folding(8, 2, 1), 1, (4, 1, 2, 8)),  # four rows fill the width of a RAM block
    (Folding(6, 8, 2, MultiplierStyle.PAIRS), 1, (2, 6)),
    (Folding(4, 1, 2), 16, ()),  # two groups of a depthwise layer at once
])
def test_weight_rows(folding: Folding, groups: int, rows: tuple[int, ...]) -> None:
    layer, graph = layer_of(groups)
    assert stage_of(graph, layer).weight_rows(folding) == rows
    possible = f"one of {', '.join(map(str, sorted((0, *rows))))}" if rows else "0 (or missing)"
    message = f"weight_rows must be {possible} with these rows, cols and lanes, not 3"
    assert stage_of(graph, layer).folding_problem(replace(folding, weight_rows=3)) == message
