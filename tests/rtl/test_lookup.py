import re

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.tables.lookup import LookupShape, LookupStage
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.harness import simulate
from tests.rtl.units import ask


def make(shape_in, shape_out, lanes: int, table, rom: int = 2) -> LookupStage:
    shape = LookupShape(name="table", element=shape_in, output=shape_out, table=table, lanes=lanes, beats=100)
    return shape.build(Generic(timing=Timing(multiply=4, rom=rom)), "table")


SHAPES = [
    (signed(8), signed(8), lambda x: (x * 7 + 5 + 128) % 256 - 128),
    (unsigned(8), signed(4), lambda x: x % 16 - 8),
    (signed(4), unsigned(12), lambda x: (x + 8) ** 3),
    (unsigned(3), unsigned(3), lambda x: 7 - x),
    (signed(1), signed(9), lambda x: x * 255),
    (unsigned(1), unsigned(1), lambda x: 1 - x),
    (signed(11), signed(16), lambda x: (x * x) % 65521 - 32768),
]


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("shape_in, shape_out, function", SHAPES)
def test_every_input(shape_in, shape_out, function, lanes):
    low = -(1 << (shape_in.width - 1)) if shape_in.signed else 0
    inputs = np.arange(low, low + (1 << shape_in.width))
    unit = make(shape_in, shape_out, lanes, function(inputs))
    beats = np.random.default_rng(1).permutation(np.tile(inputs, lanes)).reshape(-1, lanes)
    traces = simulate(unit, sends={"i": beats}, receives={"o": len(beats)})
    assert np.array_equal(traces["o"].beats, function(beats))
    assert np.array_equal(unit.model(beats), function(beats))


@pytest.mark.parametrize("rom", [1, 2, 3, 4])
def test_values_and_times(rom):
    """Three frames, whose beats come one in every cycle, at random, and to a reader that takes them at random."""
    unit = make(signed(4), signed(8), 2, np.arange(16) * 3 - 20, rom)
    beats = np.random.default_rng(2).integers(-8, 8, (3, 100, 2))
    ask(unit.shape, unit.technology, [beats], ((beats + 8) * 3 - 20).reshape(-1, 2), seed=rom)
    traces = simulate(unit, sends={"i": beats[0]}, receives={"o": 100}, stall_in=0.98 * (rom == 2))
    assert traces["o"].cycles[0] - traces["i"].cycles[0] == unit.shape.latency(unit.technology)


def test_each_lane_has_its_rom():
    unit = make(signed(4), signed(8), 3, np.arange(16))
    simulate(unit, sends={"i": np.zeros((1, 3))}, receives={"o": 1})
    assert sorted(unit.technology.roms) == ["table_table0", "table_table1", "table_table2"]


def test_cost_counts_a_rom_for_each_lane():
    one, three = (LookupShape(element=signed(8), output=signed(8), table=np.zeros(256, np.int64), lanes=lanes,
                              beats=1).cost(ECP5()) for lanes in (1, 3))
    rom = ECP5().rom_cost(width=8, depth=256)
    assert (one.ram, three.ram) == (rom.ram, 3 * rom.ram)
    assert three.lut > one.lut >= rom.lut


@pytest.mark.parametrize("bits, blocks", [(4, 0), (8, 1), (11, 1), (12, 2), (16, 32)])
def test_cost_of_deep_tables(bits, blocks):
    """A block of 18 432 bits holds 2048 entries of 8 bits; narrow tables need none."""
    shape = LookupShape(element=signed(bits), output=signed(8), table=np.zeros(1 << bits, np.int64), lanes=4, beats=1)
    assert shape.cost(ECP5()).ram == 4 * blocks


def test_refuses_a_table_of_another_size():
    with pytest.raises(ValueError, match=re.escape(
            "table of lookup 'table' must have one entry for each of the 16 values of signed(4), not the shape (15,)")):
        make(signed(4), signed(8), 1, np.arange(15))


def test_refuses_entries_out_of_range():
    with pytest.raises(ValueError, match=re.escape(
            "table of lookup 'table' must have entries in the range of signed(4), not -3 to 12")):
        make(signed(4), signed(4), 1, np.arange(16) - 3)
