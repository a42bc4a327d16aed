"""A stage that writes tensors into its memory: each has a probe, and differences are places in the tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Array, Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Core, Link
from hwflow_rtl.emit import emit
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.streams import stream_of
from hwflow_sim import (
    Boundary,
    Difference,
    ElementShape,
    MemoryOrder,
    RunResult,
    Simulation,
    StallPattern,
    compile,
    run,
)

from tests.rtl.test_core import Increment
from tests.rtl.toys import wrapped
from tests.sim.test_graphs import SHAPE

PIXELS, CHANNELS, COLUMNS = 3, 3, 2
ELEMENTS, TILES = PIXELS * CHANNELS, 2
BYTE = ElementShape(8, False)
STALLS = [None, StallPattern(0.5, 0.5, 1), StallPattern(0.9, 0.0, 2), StallPattern(0.0, 0.9, 3)]


class Memorizing(wiring.Component):
    """Takes a frame of unsigned elements and gives it less 128, after it has written two other tensors.

    Words have `COLUMNS` elements and are written tile after tile.  Step 0 writes x + 1, less 128; steps 2 and 1, a tile
    each, write x + 2, wrapped.  The lane without a channel has something else every time.  The last word of a frame
    that begins with 255 is never written.
    """

    def __init__(self) -> None:
        super().__init__({
            "i": In(stream_of(unsigned(8), 1)), "o": Out(stream_of(signed(8), 1)), "busy": Out(1),
            "wrote": Out(data.StructLayout({"valid": 1, "step": 2, "word": 8 * COLUMNS}))})

    def elaborate(self, platform):
        m = Module()
        frame = Array(Signal(8, name=f"x{k}") for k in range(ELEMENTS))
        place, word, noise = Signal(range(ELEMENTS)), Signal(range(2 * TILES * PIXELS)), Signal(8)
        m.d.sync += noise.eq(noise + 1)
        second, tile, pixel = word >= TILES * PIXELS, (word // PIXELS) % TILES, word % PIXELS
        m.d.comb += [self.busy.eq(1), self.wrote.step.eq(0)]
        with m.If(second):
            m.d.comb += self.wrote.step.eq(2 - tile)
        lanes = []
        for lane in range(COLUMNS):
            channel = tile * COLUMNS + lane
            x, made = frame[(pixel * CHANNELS + channel)[:4]], Signal(8, name=f"made{lane}")
            with m.If(channel >= CHANNELS):
                m.d.comb += made.eq(noise)
            with m.Elif(second):
                m.d.comb += made.eq(x + 2)
            with m.Else():
                m.d.comb += made.eq(x + 1 - 128)
            lanes.append(made)
        m.d.comb += self.wrote.word.eq(Cat(*lanes))
        with m.FSM():
            with m.State("load"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [frame[place].eq(self.i.payload[0]), place.eq(place + 1)]
                    with m.If(place == ELEMENTS - 1):
                        m.d.sync += place.eq(0)
                        m.next = "compute"
            with m.State("compute"):
                last = word == 2 * TILES * PIXELS - 1
                m.d.comb += self.wrote.valid.eq(~last | (frame[0] != 255))
                m.d.sync += word.eq(word + 1)
                with m.If(last):
                    m.d.sync += word.eq(0)
                    m.next = "store"
            with m.State("store"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload[0].eq(frame[place] - 128)]
                with m.If(self.o.ready):
                    m.d.sync += place.eq(place + 1)
                    with m.If(place == ELEMENTS - 1):
                        m.d.sync += place.eq(0)
                        m.next = "load"
        return m


def places() -> np.ndarray:
    """Of the words of a frame, tile after tile."""
    found = np.full((TILES, PIXELS, COLUMNS), -1)
    for channel in range(CHANNELS):
        found[channel // COLUMNS, :, channel % COLUMNS] = np.arange(PIXELS) * CHANNELS + channel
    return found.reshape(-1)


def make_core() -> Core:
    """The stage, and another one that reads it."""
    core, stage = Endpoint.core, Endpoint.stage
    return Core(stages=[("memory", Memorizing()), ("after", Increment(1, 5))], inputs=[stream_of(unsigned(8), 1)],
                links=[Link(core(0), stage(0)), Link(stage(0), stage(1)), Link(stage(1), core(0))],
                written={0: [{0}, {1, 2}]})


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Simulation:
    order, plain = MemoryOrder(places(), SHAPE, 128), MemoryOrder(places(), BYTE)
    boundaries = [
        Boundary("more", "memory: more", COLUMNS, BYTE, ELEMENTS, order),
        Boundary("most", "memory: most", COLUMNS, BYTE, ELEMENTS, plain),
        Boundary("less", "memory", 1, SHAPE, ELEMENTS), Boundary("after", "after", 1, SHAPE, ELEMENTS)]
    return compile(make_core(), boundaries=boundaries, roms={}, folder=tmp_path_factory.mktemp("memory"), cache=cache,
                   jobs=2)


def expected_of(x: np.ndarray) -> list[np.ndarray]:
    return [(x + 1) % 256, (x + 2) % 256, x - 128, wrapped(x - 128 + 5)]


def play(simulation: Simulation, x: np.ndarray, **options) -> RunResult:
    return run(simulation, frames=x, expected=options.pop("expected", expected_of(x)), **options)


def frames(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 255, (count, ELEMENTS))


@pytest.mark.parametrize("stalls", STALLS, ids=str)
def test_words_of_a_memory_are_compared_as_their_tensor(simulation: Simulation, stalls: StallPattern | None) -> None:
    x = frames(4)
    result = play(simulation, x, stalls=stalls)
    assert result.equal, result.failures()
    for made, wanted in zip(result.boundaries.values(), expected_of(x), strict=True):
        assert np.array_equal(made.values, wanted)
    beats = [boundary.beats for boundary in result.boundaries.values()]
    assert beats == [4 * TILES * PIXELS, 4 * TILES * PIXELS, 4 * ELEMENTS, 4 * ELEMENTS]


@pytest.mark.parametrize(("tensor", "element"), [("more", 0), ("more", 5), ("most", 7)])
def test_a_difference_is_a_place_in_the_tensor(simulation: Simulation, tensor: str, element: int) -> None:
    x, boundary = frames(3), ["more", "most"].index(tensor)
    expected = expected_of(x)
    right = int(expected[boundary][1, element])
    expected[boundary][1, element] ^= 1
    result = play(simulation, x, expected=expected)
    assert [each.equal for each in result.boundaries.values()].count(False) == 1
    difference = result.boundaries[tensor].first_difference
    assert difference == Difference(1, element, right ^ 1, right)
    assert difference.position((1, PIXELS, CHANNELS)) == (0, element // CHANNELS, element % CHANNELS)
    assert result.failures()[0].startswith(f"stage 'memory: {tensor}': frame 1, element {element}: expected")


def test_a_word_that_is_not_written_is_missing(simulation: Simulation) -> None:
    x = frames(1)
    x[0, 0] = 255
    result = play(simulation, x, timeout_cycles=100)
    assert result.boundaries["more"].equal
    assert not result.boundaries["most"].equal
    assert result.boundaries["most"].first_difference == Difference(0, ELEMENTS - 1, (x[0, -1] + 2) % 256, None)
    assert result.deadlock is not None
    assert result.deadlock.blocked_by is None


def test_each_element_of_a_tensor_has_one_place() -> None:
    for wrong in (places()[:-COLUMNS], np.where(places() == 3, 4, places())):
        with pytest.raises(ValueError, match="places of a MemoryOrder must have each of the frame's 9 elements once"):
            Boundary("x", "x", COLUMNS, SHAPE, ELEMENTS, MemoryOrder(wrong, SHAPE))


def test_probes_of_a_core_are_numbered_by_stages() -> None:
    core = make_core()
    assert core.probes == (0, 0, 0, 1)
    assert {"probe3_valid", "stall1", "busy1"} < set(core.signature.members)
    assert "stall2" not in core.signature.members
    assert "probe3_data" in emit(core, name="top")
