"""Stages whose weights are in SDRAM: memory of weights, simulated chip and stage in one simulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import Out
from hwflow_rtl.matrix.shape import MatrixShape
from hwflow_rtl.matrix.stage import MatrixStage
from hwflow_rtl.matrix.streamed_weights import StreamSource, weight_beats
from hwflow_rtl.matrix.tiled import TiledStage, pass_beats
from hwflow_rtl.memory import WeightMemory, WeightStream
from hwflow_rtl.stream.streams import link
from hwflow_sim.memory_bench import Taken, WeightTraffic, compile_weight_traffic

from tests.memory.parts import SMALL
from tests.rtl import test_tiled
from tests.rtl.harness import pack
from tests.rtl.test_matrix import Case, Layer

FRAMES = 5


@dataclass(frozen=True)
class Streamed:
    """A stage, its shape or that of its passes, its beats for `FRAMES` frames, and the weights of a frame."""

    stage: MatrixStage | TiledStage
    shape: MatrixShape
    inputs: np.ndarray
    outputs: np.ndarray
    weights: np.ndarray


class StoredStage(wiring.Component):
    """A memory that gives its beats to a stage; `o0` is that of the stage, which gets frames from a ROM without end."""

    def __init__(self, case: Streamed):
        shape = case.shape
        self.store = WeightMemory(part=SMALL, streams=[
            WeightStream(shape.weight, shape.weight_lanes, shape.weight_beats)])
        self.stage = case.stage
        self.beats_in = [pack(beat, shape.element) for beat in case.inputs]
        super().__init__({**self.store.signature.members, "o0": Out(self.stage.o.signature)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.store, m.submodules.stage = store, stage = self.store, self.stage
        width, count = len(Value.cast(stage.i.payload)), len(self.beats_in)
        m.submodules.frames = frames = memory.Memory(shape=width, depth=count, init=self.beats_in)
        read, beat = frames.read_port(domain="comb"), Signal(range(count))
        link(m, store.o0, stage.weights)
        link(m, stage.o, wiring.flipped(self.o0))
        for name in ("fill", "pins"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(store, name))
        m.d.comb += [
            store.clear.eq(self.clear), store.restart.eq(self.restart), self.filled.eq(store.filled),
            read.addr.eq(beat), Value.cast(stage.i.payload).eq(read.data), stage.i.valid.eq(1)]
        with m.If(stage.i.ready):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat == count - 1):
                m.d.sync += beat.eq(0)
        return m


def dense() -> Streamed:
    """96 inputs, 90 outputs in tiles of four: 17 kbit of weights in a beat of two words for two rows."""
    interval = 2 / SMALL.clocks.sustained_share
    case = Case(Layer((1, 1, 96), 90, 4, 2, out_lanes=2), FRAMES, source=StreamSource(2, interval))
    shape = case.stage.shape.matrix
    return Streamed(case.stage, shape, case.beats_in, case.beats_out, weight_beats(shape, case.weights))


def convolution() -> Streamed:
    """The same for three pixels, which takes fewer cycles than the weights of a pass."""
    interval = 2 / SMALL.clocks.sustained_share
    case = test_tiled.Case("", FRAMES, given=(Layer((1, 3, 96), 90, 4, 2, out_lanes=2), 2, interval))
    return Streamed(case.stage, case.shape.of_pass, case.inputs[0], case.outputs,
                    pass_beats(case.shape, case.weights))


@pytest.fixture(scope="module", params=[pytest.param(dense, marks=pytest.mark.slow), convolution],
                ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest) -> Streamed:
    return request.param()


@pytest.fixture(scope="module")
def unit(case: Streamed) -> StoredStage:
    return StoredStage(case)


@pytest.fixture(scope="module")
def traffic(unit: StoredStage, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> WeightTraffic:
    return compile_weight_traffic(unit, SMALL, streams=1, folder=tmp_path_factory.mktemp("stage"), cache=cache)


@pytest.mark.parametrize("stall", [0.0, 0.6, 0.98])
def test_every_frame_is_right(case: Streamed, unit: StoredStage, traffic: WeightTraffic, stall: float) -> None:
    """Each frame takes the weights once, over many refreshes; a reader that stalls changes nothing."""
    image, count = unit.store.image([case.weights]), FRAMES * len(case.outputs)
    result = traffic.run([image], [Taken(count, stall=stall)], seed=7)
    assert result.violations == {}
    assert result.beats[0][0].tolist() == [pack(beat, case.shape.output) for beat in case.outputs] * FRAMES
    assert result.cycles - result.filled > 20 * SMALL.clocks.refi
    if not stall:
        frames, cycles = FRAMES * FRAMES, case.stage.shape.cycles
        assert len(image) / cycles > 0.99 * SMALL.clocks.sustained_share  # the weights are the limit
        assert frames * len(image) < result.cycles_a_beat[0] * (count - 1) <= frames * cycles
