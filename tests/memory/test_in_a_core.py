"""The simulated chip in the simulation that hwflow uses for networks: a stage whose weights come from SDRAM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal, Value, signed, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Core, Link
from hwflow_rtl.memory import WeightMemory, WeightStream
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import payload_of, stream_of
from hwflow_sim import Boundary, StallPattern, compile, run
from hwflow_sim.sdram import MODEL, Sdram

from tests.memory.parts import SMALL

LANES, BEATS = 2, 200
WEIGHTS = np.random.default_rng(4).integers(-128, 128, (BEATS, LANES))


class Weighted(wiring.Component):
    """Multiplies each element of a frame by its weight; where the chip counts a violation, all results are wrong."""

    def __init__(self):
        super().__init__({"i": In(stream_of(signed(8), LANES)), "o": Out(stream_of(signed(16), LANES)),
                          "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.weights = weights = WeightMemory(
            part=SMALL, streams=[WeightStream(signed(8), LANES, BEATS)])
        m.submodules.chip = chip = Sdram(part=SMALL)
        wiring.connect(m, weights.pins, chip.pins)
        self.fill(m, weights)
        m.submodules.results = results = Queue(shape=payload_of(self.o), depth=2)
        wiring.connect(m, results.o, wiring.flipped(self.o))
        products = [(self.i.payload[k] * weights.o0.payload[k])[:16] ^ (chip.total != 0) for k in range(LANES)]
        m.d.comb += [
            results.i.valid.eq(self.i.valid & weights.o0.valid), Value.cast(results.i.payload).eq(Cat(products)),
            self.i.ready.eq(results.i.ready & weights.o0.valid), weights.o0.ready.eq(results.i.ready & self.i.valid)]
        return m

    def fill(self, m: Module, weights: WeightMemory) -> None:
        """From a ROM, as a host would."""
        image = weights.image([WEIGHTS]).tolist()
        m.submodules.image = words = memory.Memory(shape=unsigned(16), depth=len(image), init=image)
        port, place = words.read_port(domain="comb"), Signal(range(len(image)))
        m.d.comb += [port.addr.eq(place), weights.fill.payload.eq(port.data), weights.fill.valid.eq(1)]
        with m.If(weights.fill.ready):
            m.d.sync += place.eq(place + 1)


@pytest.mark.parametrize("stalls", [None, StallPattern(0.5, 0.3, 7)], ids=str)
def test_a_stage_with_weights_from_sdram(cache: Path, tmp_path: Path, stalls: StallPattern | None) -> None:
    stage, core, of_stage = Weighted(), Endpoint.core, Endpoint.stage
    design = Core(stages=[("weighted", stage)], inputs=[stream.Signature(payload_of(stage.i))],
                  links=[Link(core(0), of_stage(0)), Link(of_stage(0), core(0))])
    boundary = Boundary("y", "weighted", LANES, signed(16), BEATS * LANES)
    simulation = compile(design, boundaries=[boundary], roms={}, folder=tmp_path, cache=cache, sources=[MODEL])
    frames = np.random.default_rng(5).integers(-128, 128, (12, BEATS * LANES))
    result = run(simulation, frames=frames, expected=[frames * WEIGHTS.reshape(-1)],
                 **({} if stalls is None else {"stalls": stalls}))
    assert result.equal, result.failures()
    if stalls is None:  # a word of 16 bits is a beat: the memory's pace is the stage's
        assert BEATS <= result.interval <= BEATS / SMALL.clocks.sustained_share + 30
