"""A dense stage whose weights are in SDRAM: store, controller, simulated chip and stage in one simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import Out
from hwflow_rtl.matrix.stage import MatrixStage
from hwflow_rtl.matrix.streamed_weights import StreamSource, weight_beats
from hwflow_rtl.memory import SdramPart, WeightStore
from hwflow_rtl.stream.streams import link
from hwflow_sim.sdram import Traffic, compile_traffic

from tests.memory.parts import SMALL
from tests.rtl.harness import pack
from tests.rtl.test_matrix import Case, Layer

FRAMES = 5


class StoredStage(WeightStore):
    """A store that gives its beats to a stage; `o` is that of the stage, which gets frames from a ROM without end."""

    def __init__(self, part: SdramPart, stage: MatrixStage, beats_in: np.ndarray):
        shape = stage.shape
        self.store = WeightStore(part=part, shape=shape.weight, lanes=shape.weight_lanes, beats=shape.weight_beats)
        self.stage, self.controller, self.reader = stage, self.store.controller, self.store.reader
        self.beats_in = [pack(beat, shape.element) for beat in beats_in]
        ports = {name: member for name, member in self.store.signature.members.items() if name != "o"}
        wiring.Component.__init__(self, {**ports, "o": Out(stage.o.signature)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.store, m.submodules.stage = store, stage = self.store, self.stage
        width, count = len(Value.cast(stage.i.payload)), len(self.beats_in)
        m.submodules.frames = frames = memory.Memory(shape=width, depth=count, init=self.beats_in)
        read, beat = frames.read_port(domain="comb"), Signal(range(count))
        link(m, store.o, stage.weights)
        link(m, stage.o, wiring.flipped(self.o))
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


@pytest.fixture(scope="module")
def case() -> Case:
    """96 inputs, 90 outputs in tiles of four: 17 kbit of weights in a beat of two words for two rows."""
    interval = 2 / SMALL.clocks.sustained_share
    return Case(Layer((1, 1, 96), 90, 4, 2, out_lanes=2), FRAMES, source=StreamSource(2, interval))


@pytest.fixture(scope="module")
def unit(case: Case) -> StoredStage:
    return StoredStage(SMALL, case.stage, case.beats_in)


@pytest.fixture(scope="module")
def traffic(unit: StoredStage, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return compile_traffic(SMALL, folder=tmp_path_factory.mktemp("stage"), cache=cache, store=unit)


@pytest.mark.parametrize("stall", [0.0, 0.6, 0.98])
def test_every_frame_is_right(case: Case, unit: StoredStage, traffic: Traffic, stall: float) -> None:
    """Each frame takes the weights once, over many refreshes; a reader that stalls changes nothing."""
    shape, count = case.stage.shape, FRAMES * len(case.beats_out)
    image = unit.reader.image(weight_beats(shape, case.weights))
    result = traffic.run([], image, beats=count, seed=7, read_stall=stall)
    assert result.violations == {}
    expected = [pack(beat, shape.output) for beat in case.stage.model(case.frames)]
    assert result.beats.tolist() == expected * FRAMES
    assert np.array_equal(case.stage.model(case.frames), case.beats_out)
    assert result.cycles - result.initialized > 20 * SMALL.clocks.refi
    if not stall:
        frames = FRAMES * FRAMES
        share = len(image) / (result.beat_cycles / frames)  # words of a frame in the cycles of a frame
        assert SMALL.clocks.sustained_share <= share < 1
        assert result.beat_cycles <= frames * shape.cycles()
