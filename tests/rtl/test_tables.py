"""Tables of functions and of embeddings: every entry, when beats move, ROMs, refusals."""

import re

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.tables.embedding import EmbeddingShape, EmbeddingStage
from hwflow_rtl.tables.lookup import LookupShape, LookupStage
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.harness import simulate
from tests.rtl.units import ask

INT8 = signed(8)


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
    assert unit.shape.times(unit.technology, np.arange(100)).departures[0] == unit.shape.latency(unit.technology)


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


@pytest.mark.parametrize(("output", "table", "message"), [
    (signed(8), np.arange(15), "have one entry for each of the 16 values of signed(4), not the shape (15,)"),
    (signed(4), np.arange(16) - 3, "have entries in the range of signed(4), not -3 to 12")])
def test_refuses_lookups(output, table, message):
    with pytest.raises(ValueError, match=re.escape(f"table of lookup 'table' must {message}")):
        make(signed(4), output, 1, table)


def embedding(rows: int, width: int, lanes: int, rom: int = 2, element=INT8) -> EmbeddingStage:
    low = -(1 << (element.width - 1)) if element.signed else 0
    table = np.random.default_rng(rows).integers(low, low + (1 << element.width), (rows, width))
    shape = EmbeddingShape(numbers=30, element=unsigned((rows - 1).bit_length()), output=element, table=table,
                           lanes=lanes)
    return shape.build(Generic(timing=Timing(multiply=4, rom=rom)), "words")


@pytest.mark.quick(3)
@pytest.mark.parametrize(("rows", "width", "lanes", "element"), [
    (16, 4, 4, INT8), (5, 6, 2, unsigned(3)), (33, 12, 1, signed(5)), (9, 10, 2, INT8), (2, 1, 1, unsigned(1)),
    (11, 6, 6, INT8)])
def test_every_row(rows, width, lanes, element) -> None:
    """All that a unit is asked, of frames of 30 numbers.

    Also where the beats of a row are no power of two, and the last row is not the last that there could be.
    """
    unit = embedding(rows, width, lanes, 1 + lanes % 4, element)
    numbers = np.random.default_rng(1).permutation(np.resize(np.arange(rows), 120)).reshape(4, 30)
    ask(unit.shape, unit.technology, [numbers], unit.shape.table[numbers].reshape(-1, lanes), seed=rows)
    assert unit.shape.cycles == 30 * width // lanes
    assert unit.shape.times(unit.technology, np.arange(30)).departures[0] == unit.shape.latency(unit.technology)


def test_an_embedding_has_its_rom_once() -> None:
    shape = EmbeddingShape(numbers=1, element=unsigned(8), output=signed(8), table=np.zeros((256, 64), np.int64),
                           lanes=8)
    assert shape.cost(ECP5()).ram == ECP5().rom_cost(width=64, depth=2048).ram > 0


@pytest.mark.parametrize(("arguments", "message"), [
    ({"element": signed(4)}, "integers of embedding 'words' must be unsigned, not signed(4)"),
    ({"element": unsigned(2)}, "table of embedding 'words' must have at most 4 rows, not 5"),
    ({"lanes": 4}, "lanes of embedding 'words' must divide the width 6 of its table, not be 4"),
    ({"output": signed(3)}, "table of embedding 'words' must have entries in the range of signed(3), not 0 to 29")])
def test_refuses_embeddings(arguments, message) -> None:
    usual = {"element": unsigned(3), "output": unsigned(5), "table": np.arange(30).reshape(5, 6), "lanes": 2,
             "numbers": 1, "name": "words"}
    with pytest.raises(ValueError, match=re.escape(message)):
        EmbeddingShape(**{**usual, **arguments})
