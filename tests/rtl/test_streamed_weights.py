"""A matrix stage whose weights arrive as a stream: values, cycles, pace, order of the stream, costs, refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import Module, Shape, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.matrix.streamed_weights import StreamSource, weight_beats
from hwflow_rtl.matrix.weights import ROMS, WeightSource
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.stream.pipeline import delay
from hwflow_rtl.vendor import FAMILIES
from hwflow_rtl.vendor.base import Resources, Timing
from hwflow_rtl.vendor.ecp5 import ECP5
from hwflow_rtl.vendor.generic import Generic

from tests.rtl.harness import simulate
from tests.rtl.test_matrix import LAYERS, Case, Layer
from tests.rtl.units import ask, memories_asked, play

FRAMES = 3
#: Layers with one output pixel, and the rows whose weights arrive in a beat.
STREAMED: dict[str, tuple[Layer, int]] = {
    "dense": (LAYERS["dense"], 5),
    "dense, a row at a time": (LAYERS["dense"], 1),
    "one tile": (LAYERS["dense, one tile"], 2),
    "one word": (LAYERS["dense, one word"], 3),
    "one word, a row at a time": (LAYERS["dense, one word"], 1),
    "one word, one row": (Layer((1, 1, 8), 12, 1, 8), 1),
    "one word, all lanes": (Layer((1, 1, 8), 12, 4, 8, out_lanes=4), 4),
    "two words, many banks": (Layer((1, 1, 8), 48, 24, 4, out_lanes=8), 24),
    "left over": (LAYERS["dense, left over"], 2),
    "whole frame": (LAYERS["whole frame"], 3),
    "whole frame in a patch": (Layer((3, 3, 2), 4, 2, 2, kernel=(3, 3), patch=True), 2),
    "whole frame in groups": (Layer((3, 3, 4), 6, 3, 2, kernel=(3, 3), groups=2), 3),
    "whole frame, depthwise": (Layer((3, 3, 4), 4, 4, 4, kernel=(3, 3), groups=4, parallel=4, out_lanes=2), 2),
    "3-bit weights": (LAYERS["logic, 3-bit weights"], 2),
    "unsigned": (Layer((1, 1, 12), 8, 4, 3, element=unsigned(8), weight=unsigned(3), output=unsigned(8)), 4),
    "pairs": (Layer((1, 1, 12), 12, 6, 2, weight=signed(4), style=MultiplierStyle.PAIRS, out_lanes=3), 6),
    "macs": (Layer((1, 1, 16), 8, 4, 4, style=MultiplierStyle.MACS, out_lanes=2), 4),
}
TIMINGS = (Timing(multiply=4), Timing(multiply=1, rom=1, ram=1), Timing(multiply=3, rom=3, ram=1),
           Timing(multiply=2, rom=1, ram=3))


def case_of(name: str, *, interval: Fraction = Fraction(1), technology=None, seed: int = 0, frames: int = FRAMES):
    layer, rows = STREAMED[name]
    case = Case(layer, frames, technology=technology, source=StreamSource(rows, interval), seed=seed)
    beats = weight_beats(case.stage.shape.matrix, case.weights)
    return case, np.tile(beats, (frames, 1))


#: One of each structure; the others take half a minute.
OFTEN = {"dense, a row at a time", "one word, all lanes", "one word, a row at a time", "two words, many banks",
         "left over", "whole frame", "whole frame, depthwise", "3-bit weights", "macs"}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow])
                                  for name in STREAMED])
def test_layers(name: str) -> None:
    """All that a unit is asked; a frame takes the cycles of the products, or those of the weights."""
    order = list(STREAMED).index(name)
    every = Fraction(1 + 2 * (order % 2))
    case, weights = case_of(name, interval=every, technology=Generic(timing=TIMINGS[order % len(TIMINGS)]), seed=order)
    shape = case.stage.shape.matrix
    assert shape.cycles() >= max(shape.work, every * shape.weight_beats)
    ask(case.stage.shape, case.technology, [case.frames], case.beats_out, seed=order, weights=weights, every=every)


@pytest.mark.parametrize("timing", [ECP5.timing, Timing(multiply=2, rom=1, ram=1)], ids=str)
def test_weights_of_a_deep_buffer_pass_a_register(timing: Timing) -> None:
    layer, technology = Layer((1, 1, 600), 4, 2, 2), Generic(timing=timing, like=ECP5())
    case = Case(layer, 2, technology=technology, source=StreamSource(2))
    shape, beats = case.stage.shape.matrix, np.tile(weight_beats(case.stage.shape.matrix, case.weights), (2, 1))
    assert shape.weights_wait(case.stage.array.bank, technology)
    cycles = [np.arange(len(case.beats_in)), np.arange(len(beats))]
    said = case.stage.shape.times(technology, cycles[0], cycles[1])
    seen = play(case.stage, [case.beats_in, beats], cycles, len(case.beats_out), ("i", "weights"))
    assert np.array_equal(seen.output.beats, case.beats_out)
    assert np.array_equal(said.departures, seen.output.cycles)
    assert np.array_equal(said.taken[1], seen.taken[1])


@pytest.mark.parametrize(("name", "interval", "cycles"), [
    ("dense", 1, 12),  # 2 tiles of 6 words, 5 rows of weights in each beat
    ("dense, a row at a time", 1, 60), ("dense", 3, 36), ("one word", 1, 4), ("one word, one row", 1, 12),
    ("one word, all lanes", 1, 3), ("two words, many banks", 1, 6), ("two words, many banks", 2, 8),
    ("one tile", Fraction(9, 8), 27), ("one word", Fraction(5, 2), 12), ("one word", Fraction(7, 2), 16)])
def test_cycles(name: str, interval: int | Fraction, cycles: int) -> None:
    assert case_of(name, interval=Fraction(interval), frames=1)[0].stage.shape.matrix.cycles() == cycles


def test_the_order_of_the_stream() -> None:
    """By its definition: tile, word, rows that arrive together, row, column."""
    layer, rows = Layer((1, 1, 6), 8, 4, 3), 2
    case = Case(layer, 1, source=StreamSource(rows))
    kernel, expected = case.weights[:, 0, 0], []
    for tile in range(2):
        for word in range(2):
            for first in (0, 2):
                places = [(4 * tile + first + row, 3 * word + col) for row in range(2) for col in range(3)]
                expected.append([kernel[place] for place in places])
    assert weight_beats(case.stage.shape.matrix, case.weights).tolist() == expected
    assert (case.stage.shape.matrix.weight_beats, case.stage.shape.matrix.weight_lanes) == (8, 6)


def test_bipolar_weights_are_single_bits() -> None:
    shape = replace(LAYERS["dense"].shape(signed(24)), weight=Shape(1), bipolar_weight=True, source=StreamSource(5))
    weights = np.where(np.random.default_rng(0).integers(0, 2, (10, 1, 1, 24)), 1, -1)
    beats = weight_beats(shape, weights)
    assert np.array_equal(beats[0], (weights[:5, 0, 0, :4].reshape(-1) + 1) // 2)


@pytest.mark.parametrize("name", ["dense", "one word", pytest.param("two words, many banks", marks=pytest.mark.slow)])
def test_weights_are_taken_before_frames_come_as_far_as_there_is_room(name: str) -> None:
    case, weights = case_of(name)
    shape = case.stage.shape.matrix
    words = shape.bank_words(case.stage.array.bank)
    late = np.full(len(case.beats_in), 2000)
    seen = play(case.stage, [case.beats_in, weights], [late, np.zeros(len(weights), dtype=np.int64)],
                len(case.beats_out), ("i", "weights"))
    room = shape.source.places(words) * shape.rows // shape.source.rows
    assert (seen.taken[1] < 2000).sum() == min(room, len(weights))


class Spoiling(wiring.Component):
    """A RAM that spoils what is read from an address in the cycle in which it is written."""

    def __init__(self, ram: wiring.Component, latency: int):
        self.ram, self.latency = ram, latency
        super().__init__(ram.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.ram
        wrong = delay(m, self.write_en & (self.write_addr == self.read_addr), self.latency, "wrong", reset_less=False)
        for name in ("write_en", "write_addr", "write_data", "read_addr"):
            m.d.comb += getattr(ram, name).eq(getattr(self, name))
        m.d.comb += self.read_data.eq(ram.read_data ^ wrong.replicate(len(ram.read_data)))
        return m


@pytest.mark.parametrize(("layer", "rows", "timing"), [
    pytest.param(*layer, timing, marks=[] if k == n else [pytest.mark.slow], id=f"layer {n}, {timing}")
    for k, timing in enumerate(TIMINGS[:3]) for n, layer in enumerate((
        (Layer((1, 1, 8), 48, 24, 4, out_lanes=8), 24), (Layer((1, 1, 8), 12, 3, 8), 3),
        (Layer((1, 1, 8), 24, 12, 2), 6)))])
def test_a_word_is_written_when_the_last_bank_has_read_what_was_there(layer: Layer, rows: int, timing: Timing) -> None:
    """Weights come faster than results can leave, so the buffers are always full and each place is written at once."""
    technology = Generic(timing=timing)
    make_ram = technology.ram
    technology.ram = lambda **sizes: Spoiling(make_ram(**sizes), timing.ram)
    frames = 20
    case = Case(layer, frames, technology=technology, source=StreamSource(rows))
    shape, words = case.stage.shape.matrix, case.stage.shape.matrix.bank_words(case.stage.array.bank)
    assert shape.block_interval > shape.block_weights
    assert frames * words.blocks * words.beats > 3 * shape.source.places(words)
    weights = np.tile(weight_beats(shape, case.weights), (frames, 1))
    traces = simulate(case.stage, sends={"i": case.beats_in, "weights": weights}, receives={"o": len(case.beats_out)})
    assert np.array_equal(traces["o"].beats, case.beats_out)
    ends = traces["o"].cycles.reshape(frames, -1)[:, -1]
    assert (np.diff(ends[1:]) == shape.cycles()).all()


def test_two_tiles_are_the_buffer_where_tiles_are_long() -> None:
    case, _ = case_of("whole frame", frames=1)
    shape = case.stage.shape.matrix
    assert shape.source.places(shape.bank_words(case.stage.array.bank)) == 2 * 4 * 4 * 2


@pytest.mark.quick(3)
@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("name", ["dense", "long"])
def test_the_cost_names_the_buffers(family: str, name: str) -> None:
    layer, rows = STREAMED.get(name, (Layer((1, 1, 512), 16, 8, 4), 4))
    technology = FAMILIES[family]()
    case = Case(layer, 1, technology=technology, source=StreamSource(rows), style=RequantizerStyle.FABRIC)
    asked, cost = memories_asked(technology, lambda: case.stage), case.stage.shape.cost(technology)
    named = {(each.name, each.width, each.depth) for each in cost.memories if each.name.startswith("weights")}
    assert named == {each for each in asked if each[0].startswith("weights")}
    assert len(named) == case.stage.array.banks


def test_a_buffer_takes_fewer_blocks_than_a_rom() -> None:
    """256 x 256 weights: 64 kB of ROM, or two tiles."""
    layer, technology = Layer((1, 1, 256), 256, 4, 4), ECP5()
    costs = []
    for source in (ROMS, StreamSource(4)):
        case = Case(layer, 1, technology=technology, source=source)
        costs.append(case.stage.shape.cost(technology))
    assert costs[0].ram - costs[1].ram >= 28
    assert abs(costs[1].lut - costs[0].lut) < 150


@pytest.mark.parametrize(("layer", "rows", "message"), [
    (LAYERS["3x3 pad 1"], 2, "output pixels of a matrix stage must be 1 where its weights are streamed and a pixel "
                             "takes 2 tiles of them, not 30: its order of blocks would read each weight once for each "
                             "pixel; use a TiledStage"),
    (LAYERS["dense"], 2, "rows of a StreamSource must divide the 5 rows of the matrix stage, not 2"),
    (STREAMED["pairs"][0], 3, "rows of a StreamSource must be a multiple of the rows that share a multiplier block and "
                              "are in one bank, not 3; choose another style, or more rows"),
    (LAYERS["dense"], 0, "rows of a StreamSource must be at least 1, not 0")])
def test_refusals(layer: Layer, rows: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(layer.shape(signed(24)), source=StreamSource(rows))


def test_refuses_an_interval_of_less_than_a_cycle() -> None:
    message = "interval of a StreamSource must be at least 1 cycle, not 1/2: a beat moves in a cycle"
    with pytest.raises(ValueError, match=f"^{message}$"):
        StreamSource(1, Fraction(1, 2))


def test_times_need_the_arrivals_of_all_weights() -> None:
    case, weights = case_of("dense", frames=1)
    arrivals = np.arange(len(case.beats_in))
    with pytest.raises(ValueError, match=r"^arrivals of weights must be 12 cycles, not 11$"):
        case.stage.shape.times(case.technology, arrivals, np.arange(len(weights) - 1))


@pytest.mark.parametrize("name", ["dense", "one word, a row at a time", "whole frame"])
def test_without_arrivals_times_are_a_bound_that_the_source_promises(name: str) -> None:
    """The buffers are full when the first frame comes, then a beat comes in every third cycle.

    The bound has them filled from the first cycle on, so it may be later by as many cycles.
    """
    case, weights = case_of(name, interval=Fraction(3))
    shape, idle = case.stage.shape.matrix, 1000
    full = shape.source.places(shape.bank_words(case.stage.array.bank)) * shape.rows // shape.source.rows
    count = np.arange(len(weights))
    cycles = [idle + np.arange(len(case.beats_in)), np.where(count < full, count, idle + 3 * (count + 1 - full))]
    said = case.stage.shape.times(case.technology, cycles[0] - idle)
    seen = play(case.stage, [case.beats_in, weights], cycles, len(case.beats_out), ("i", "weights"))
    later = said.departures + idle - seen.output.cycles
    assert later.min() >= 0
    assert later.max() < full


# A matrix stage with weights from another source than ROMs: later words, and blocks that wait for theirs


class SlowRom(wiring.Component):
    """A ROM and `more` registers."""

    def __init__(self, rom, more: int):
        self.rom, self.more = rom, more
        super().__init__({"addr": In(range(rom.depth)), "data": Out(rom.width)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.rom = rom = self.rom
        m.d.comb += [rom.addr.eq(self.addr), self.data.eq(delay(m, rom.data, self.more, "late"))]
        return m


@dataclass(frozen=True)
class SlowSource(WeightSource):
    """Words `more` cycles later than a ROM's; the words of a block are there `pause` cycles after the last start."""

    more: int
    pause: int

    def latency(self, technology):
        return technology.timing.rom + self.more

    def places(self, words):
        return words.blocks * words.beats

    def cost(self, words, technology):
        return technology.rom_cost(width=words.width, depth=self.places(words)) + Resources(ff=self.more * words.width)

    def weights(self, *, words, contents, technology, name):
        return SlowWeights(self, words.width, contents, technology, name)


@dataclass(frozen=True)
class SlowWeights:
    source: SlowSource
    width: int
    contents: object
    technology: Generic
    name: str

    def bank(self, b):
        rom = self.technology.rom(width=self.width, contents=self.contents(b), name=f"{self.name}{b}")
        return SlowRom(rom, self.source.more)

    def gated(self, m, *, credit, start, arrivals):
        left = Signal(range(self.source.pause), name="weights_left")
        with m.If(start):
            m.d.sync += left.eq(self.source.pause - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return credit & (left == 0)


@pytest.mark.quick(3)
@pytest.mark.parametrize("more", [1, 4])
@pytest.mark.parametrize("name", ["3x3 pad 1, one column", "1x1, one word, all lanes", "patch 3x3", "dense"])
def test_later_words_change_no_result_and_no_pace(name, more):
    Case(LAYERS[name], 3, source=SlowSource(more, 1)).ask(more)


@pytest.mark.parametrize(("name", "pause"), [
    ("1x1, one word, all lanes", 7), ("dense", 40), *(pytest.param(*each, marks=pytest.mark.slow) for each in (
        ("3x3 pad 1", 7), ("3x3 pad 1", 40), ("1x1, one word, all lanes", 40), ("dense", 7)))])
def test_a_block_waits_for_its_weights(name, pause):
    case = Case(LAYERS[name], 3, source=SlowSource(0, pause))
    ends = case.run()["o"].cycles.reshape(3, -1)[:, -1]
    assert (np.diff(ends) >= case.stage.shape.matrix.played.blocks * pause).all()
    Case(LAYERS[name], 3, source=SlowSource(0, pause)).run(stall_in=0.3, stall_out=0.3, seed=1)


def test_the_source_has_its_part_in_the_cost():
    layer, technology = LAYERS["3x3 pad 1"], Generic()
    rom, slow = (Case(layer, 1, **source) for source in ({}, {"source": SlowSource(3, 1)}))
    costs = [case.stage.shape.cost(technology)
             for case in (rom, slow)]
    assert costs[1].ff - costs[0].ff >= 3 * layer.rows * layer.cols * layer.weight.width
