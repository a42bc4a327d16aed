"""A matrix stage with weights from another source than ROMs: later words, and blocks that wait for theirs."""

from dataclasses import dataclass

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.matrix.weights import WeightSource
from hwflow_rtl.stream.pipeline import delay
from hwflow_rtl.vendor.base import Resources
from hwflow_rtl.vendor.generic import Generic

from tests.rtl.test_matrix import LAYERS, Case


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
